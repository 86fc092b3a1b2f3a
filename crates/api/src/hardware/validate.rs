//! Checks of settings of own hardware.

use std::collections::BTreeSet;

use super::{HardwarePrice, PowerOff, ProxmoxSettings, RedfishSettings};
use crate::validate::Check;

/// Checks the settings of a Proxmox VE cluster.
pub(crate) fn proxmox(check: &mut Check, field: &str, settings: &ProxmoxSettings) {
    let endpoint = &settings.endpoint;
    check.that(is_url(endpoint), &format!("{field}.endpoint"), || {
        format!("{endpoint:?} is not an address: write it with its scheme, such as https://10.0.4.30:8006/api2/json")
    });
    match settings.vm_id_range {
        None => check.fail(
            &format!("{field}.vmIDRange"),
            "is missing: write the numbers that machines may have, such as {lower: 1250, upper: 1300}".to_owned(),
        ),
        Some(range) => check.that(
            (100..=999_999_999).contains(&range.lower) && (range.lower..=999_999_999).contains(&range.upper),
            &format!("{field}.vmIDRange"),
            || {
                format!(
                    "{}..{} is not a range of machine numbers: from 100 to 999999999, lower first",
                    range.lower, range.upper
                )
            },
        ),
    }
    let tag = settings.managed_node_tag.as_deref().unwrap_or_default();
    check.that(is_tag(tag), &format!("{field}.managedNodeTag"), || {
        format!("{tag:?} is not a tag: write lower-case letters, digits, dots, dashes or underscores; machines without it are never touched")
    });
    check.that(
        settings.vm_mem_overhead_mib.unwrap_or(0) >= 0,
        &format!("{field}.vmMemOverheadMiB"),
        || "may not be negative".to_owned(),
    );
}

/// Checks the settings of bare metal.
pub(crate) fn redfish(check: &mut Check, field: &str, settings: &RedfishSettings) {
    check.that(
        !settings.hosts.is_empty(),
        &format!("{field}.hosts"),
        || "may not be empty: list the hosts that can be switched on".to_owned(),
    );
    power_off(check, field, settings.power_off.as_ref());
    let mut names = BTreeSet::new();
    for (index, host) in settings.hosts.iter().enumerate() {
        let field = format!("{field}.hosts[{index}]");
        check.that(names.insert(&host.name), &format!("{field}.name"), || {
            format!(
                "{:?} is there already: each host has a name of its own",
                host.name
            )
        });
        check.that(is_url(&host.address), &format!("{field}.address"), || {
            format!(
                "{:?} is not an address: write it with its scheme, such as https://10.0.9.11",
                host.address
            )
        });
        check.that(host.cpu_cores > 0, &format!("{field}.cpuCores"), || {
            format!("{} is not a number of cores", host.cpu_cores)
        });
        check.that(host.memory_mib > 0, &format!("{field}.memoryMiB"), || {
            format!("{} is not an amount of memory", host.memory_mib)
        });
        check.that(
            host.credentials_secret_ref.is_some() || settings.credentials_secret_ref.is_some(),
            &format!("{field}.credentialsSecretRef"),
            || "is missing: name a Secret with the keys username and password, here or for all hosts".to_owned(),
        );
        if let Some(price) = &host.price_per_hour {
            check.read(&format!("{field}.pricePerHour"), price.get());
        }
        check.labels(&format!("{field}.labels"), &host.labels);
        power_off(check, &field, host.power_off.as_ref());
    }
}

/// Checks prices of own hardware.
pub(crate) fn price(check: &mut Check, field: &str, price: Option<&HardwarePrice>) {
    let Some(price) = price else { return };
    for (name, price) in [("perCore", &price.per_core), ("perGiB", &price.per_gib)] {
        if let Some(price) = price {
            check.read(&format!("{field}.{name}"), price.get());
        }
    }
}

fn power_off(check: &mut Check, field: &str, power_off: Option<&PowerOff>) {
    if let Some(timeout) = power_off.and_then(|power_off| power_off.timeout.as_ref()) {
        check.read(&format!("{field}.powerOff.timeout"), timeout.get());
    }
}

fn is_url(text: &str) -> bool {
    ["https://", "http://"].iter().any(|scheme| {
        text.strip_prefix(scheme)
            .is_some_and(|rest| !rest.is_empty())
    })
}

/// Proxmox lower-cases tags unless told otherwise: a tag with capitals would never be found again.
fn is_tag(text: &str) -> bool {
    let first = text.as_bytes().first();
    first.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'_')
        && text.bytes().all(|b| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'+' | b'.' | b'-')
        })
}
