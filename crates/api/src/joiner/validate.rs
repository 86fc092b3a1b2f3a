//! Checks of the node classes of our own.

use super::{ProxmoxNodeClass, RackspaceNodeClass, RedfishNodeClass, SimNodeClass};
use crate::hardware::validate as hardware;
use crate::text::{Duration, Percent};
use crate::validate::{Check, Validate, Violation};

impl Validate for SimNodeClass {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        if let Some(catalog) = &spec.catalog {
            check.that(catalog.config_map_key_ref.is_some() != catalog.file.is_some(), "spec.catalog", || {
                "exactly one of configMapKeyRef and file says where the catalogue is; leave it out for the built-in one"
                    .to_owned()
            });
        }
        if let Some(prices) = &spec.spot_prices {
            percent(&mut check, "spec.spotPrices.swing", Some(&prices.swing));
            duration(&mut check, "spec.spotPrices.every", prices.every.as_ref());
        }
        if let Some(boot) = &spec.boot_time {
            let min = duration(&mut check, "spec.bootTime.min", boot.min.as_ref());
            let max = duration(&mut check, "spec.bootTime.max", boot.max.as_ref());
            if let (Some(min), Some(max)) = (min, max) {
                check.that(max >= min, "spec.bootTime.max", || {
                    "is less than min: swap them".to_owned()
                });
            }
        }
        duration(&mut check, "spec.stopTime", spec.stop_time.as_ref());
        if let Some(stock) = &spec.stock_outs {
            percent(&mut check, "spec.stockOuts.chance", stock.chance.as_ref());
            duration(&mut check, "spec.stockOuts.every", stock.every.as_ref());
        }
        if let Some(interruptions) = &spec.interruptions {
            percent(
                &mut check,
                "spec.interruptions.chance",
                Some(&interruptions.chance),
            );
            duration(
                &mut check,
                "spec.interruptions.every",
                interruptions.every.as_ref(),
            );
            duration(
                &mut check,
                "spec.interruptions.notice",
                interruptions.notice.as_ref(),
            );
        }
        if let Some(failures) = &spec.failures {
            percent(&mut check, "spec.failures.launch", failures.launch.as_ref());
            percent(
                &mut check,
                "spec.failures.registration",
                failures.registration.as_ref(),
            );
        }
        check.done()
    }
}

impl Validate for RackspaceNodeClass {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        if let Some(price) = &spec.max_price {
            check.read("spec.maxPrice", price.get());
        }
        let headroom = spec.bid.as_ref().and_then(|bid| bid.headroom.as_ref());
        percent(&mut check, "spec.bid.headroom", headroom);
        duration(
            &mut check,
            "spec.registrationTimeout",
            spec.registration_timeout.as_ref(),
        );
        check.done()
    }
}

impl Validate for ProxmoxNodeClass {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        hardware::proxmox(&mut check, "spec.proxmox", &spec.proxmox);
        let named = spec
            .credentials_secret_ref
            .name
            .as_deref()
            .is_some_and(|name| !name.is_empty());
        check.that(named, "spec.credentialsSecretRef.name", || {
            "is missing: name a Secret with the keys PROXMOX_TOKEN_ID and PROXMOX_SECRET".to_owned()
        });
        if let Some(range) = spec.machines {
            let ordered =
                |low: Option<i64>, high: Option<i64>| low.unwrap_or(1) <= high.unwrap_or(i64::MAX);
            check.that(
                ordered(range.min_cores, range.max_cores),
                "spec.machines.maxCores",
                || "is less than minCores: swap them".to_owned(),
            );
            check.that(
                ordered(range.min_memory_mib, range.max_memory_mib),
                "spec.machines.maxMemoryMiB",
                || "is less than minMemoryMiB: swap them".to_owned(),
            );
        }
        hardware::price(&mut check, "spec.price", spec.price.as_ref());
        duration(
            &mut check,
            "spec.registrationTimeout",
            spec.registration_timeout.as_ref(),
        );
        check.done()
    }
}

impl Validate for RedfishNodeClass {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        hardware::redfish(&mut check, "spec.redfish", &spec.redfish);
        hardware::price(&mut check, "spec.price", spec.price.as_ref());
        duration(
            &mut check,
            "spec.registrationTimeout",
            spec.registration_timeout.as_ref(),
        );
        check.done()
    }
}

fn duration(
    check: &mut Check,
    field: &str,
    duration: Option<&Duration>,
) -> Option<jiff::SignedDuration> {
    duration.and_then(|duration| check.read(field, duration.get()))
}

fn percent(check: &mut Check, field: &str, percent: Option<&Percent>) {
    if let Some(percent) = percent {
        check.read(field, percent.millionths());
    }
}
