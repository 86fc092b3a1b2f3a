//! Checks of KubeNodeSmith's kinds.

use super::{
    NodeSmithClaim, NodeSmithControlPlane, NodeSmithPool, NodeSmithProvider, ProviderType,
};
use crate::hardware::validate as hardware;
use crate::validate::{Check, Validate, Violation};

impl Validate for NodeSmithControlPlane {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        for (index, pool) in self.spec.pools.iter().enumerate() {
            check.that(!pool.is_empty(), &format!("spec.pools[{index}]"), || {
                "may not be empty: name a NodeSmithPool of the same namespace".to_owned()
            });
        }
        check.done()
    }
}

impl Validate for NodeSmithPool {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        check.that(!spec.provider_ref.is_empty(), "spec.providerRef", || {
            "may not be empty: name a NodeSmithProvider of the same namespace".to_owned()
        });
        let key = spec.pool_label_key().to_owned();
        check.labels("spec.poolLabelKey", [(&key, &String::new())]);
        let limits = spec.limits;
        for (name, value) in [
            ("minNodes", limits.min_nodes),
            ("maxNodes", limits.max_nodes),
            ("cpuCores", limits.cpu_cores),
            ("memoryMiB", limits.memory_mib),
        ] {
            check.that(value >= 0, &format!("spec.limits.{name}"), || {
                format!("{value} is negative: write a positive number, or 0 for no limit")
            });
        }
        check.that(
            limits.max_nodes == 0 || limits.max_nodes >= limits.min_nodes,
            "spec.limits.maxNodes",
            || {
                format!(
                    "{} is less than minNodes ({}): raise it, or write 0 for any number",
                    limits.max_nodes, limits.min_nodes
                )
            },
        );
        check.labels("spec.machineTemplate.labels", &spec.machine_template.labels);
        check.taints([
            ("spec.machineTemplate.taints", &spec.machine_template.taints),
            (
                "spec.machineTemplate.startupTaints",
                &spec.machine_template.startup_taints,
            ),
        ]);
        for (name, policy) in [("scaleUp", &spec.scale_up), ("scaleDown", &spec.scale_down)] {
            let window = policy
                .as_ref()
                .and_then(|policy| policy.stabilization_window.as_ref());
            if let Some(window) = window {
                check.read(&format!("spec.{name}.stabilizationWindow"), window.get());
            }
        }
        if let Some(timeout) = &spec.registration_timeout {
            check.read("spec.registrationTimeout", timeout.get());
        }
        check.done()
    }
}

impl Validate for NodeSmithProvider {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        match spec.type_ {
            ProviderType::Proxmox => {
                let named = spec
                    .credentials_secret_ref
                    .as_ref()
                    .and_then(|secret| secret.name.as_deref())
                    .is_some_and(|name| !name.is_empty());
                check.that(named, "spec.credentialsSecretRef.name", || {
                    "is missing: name a Secret with the keys PROXMOX_TOKEN_ID and PROXMOX_SECRET".to_owned()
                });
                match &spec.proxmox {
                    Some(settings) => hardware::proxmox(&mut check, "spec.proxmox", settings),
                    None => check.fail(
                        "spec.proxmox",
                        "is missing: type proxmox needs its settings".to_owned(),
                    ),
                }
            }
            ProviderType::Redfish => match &spec.redfish {
                Some(settings) => {
                    let mut settings = settings.clone();
                    let shared = spec.credentials_secret_ref.clone();
                    settings.credentials_secret_ref = settings.credentials_secret_ref.or(shared);
                    hardware::redfish(&mut check, "spec.redfish", &settings);
                }
                None => check.fail(
                    "spec.redfish",
                    "is missing: type redfish needs its hosts".to_owned(),
                ),
            },
        }
        hardware::price(&mut check, "spec.price", spec.price.as_ref());
        check.done()
    }
}

impl Validate for NodeSmithClaim {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        check.that(!spec.pool_ref.is_empty(), "spec.poolRef", || {
            "may not be empty: name a NodeSmithPool of the same namespace".to_owned()
        });
        let requirements = spec.requirements.unwrap_or_default();
        for (name, value) in [
            ("cpuCores", requirements.cpu_cores),
            ("memoryMiB", requirements.memory_mib),
        ] {
            check.that(
                value.is_none_or(|value| value > 0),
                &format!("spec.requirements.{name}"),
                || {
                    format!(
                        "{} is not a size: write a positive number",
                        value.unwrap_or_default()
                    )
                },
            );
        }
        if let Some(period) = &spec.termination_grace_period {
            check.read("spec.terminationGracePeriod", period.get());
        }
        check.done()
    }
}
