//! Checks of LeftoverNodePool, with the texts that its webhook had.

use super::LeftoverNodePool;
use crate::validate::{Check, Validate, Violation};

/// Regions that AWS scores at once.
const MOST_REGIONS: usize = 10;

impl Validate for LeftoverNodePool {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        check.that(!spec.region.is_empty(), "spec.region", || {
            "spec.region must be set".to_owned()
        });
        check.that(
            spec.region.is_empty() || is_region(&spec.region),
            "spec.region",
            || {
                format!(
                    "{:?} is no AWS region; expected like eu-central-1",
                    spec.region
                )
            },
        );
        for (index, region) in spec.regions.iter().enumerate() {
            check.that(is_region(region), &format!("spec.regions[{index}]"), || {
                format!("{region:?} is no AWS region; expected like eu-central-1")
            });
        }
        check.that(
            spec.compared_regions().len() <= MOST_REGIONS,
            "spec.regions",
            || format!("AWS compares {MOST_REGIONS} regions at once, spec.region among them"),
        );
        for (name, value) in [
            ("minGPUs", spec.min_gpus()),
            ("maxInstanceTypes", spec.max_instance_types()),
            ("maxZones", spec.max_zones()),
            ("requeueMinutes", spec.requeue_minutes()),
        ] {
            check.that(value >= 1, &format!("spec.{name}"), || {
                format!("spec.{name} must be >= 1, not {value}")
            });
        }
        for (index, family) in spec.families.iter().enumerate() {
            check.that(is_family(family), &format!("spec.families[{index}]"), || {
                format!("spec.families contains invalid value {family:?}; expected like g5, g6, p5, p4d")
            });
        }
        check.read("spec.budgetsNodes", spec.budgets_nodes().get());
        check.read("spec.consolidateAfter", spec.consolidate_after().get());
        check.labels("spec.labels", &spec.labels);
        for (index, taint) in spec.taints.iter().enumerate() {
            check.read(&format!("spec.taints[{index}]"), taint.get());
        }
        check.that(
            spec.node_class_name.is_none() || spec.node_class_selector.is_none(),
            "spec.nodeClassSelector",
            || "only one of nodeClassName or nodeClassSelector may be set".to_owned(),
        );
        check.that(
            spec.role.is_none() || spec.instance_profile.is_none(),
            "spec.instanceProfile",
            || "only one of role or instanceProfile may be set".to_owned(),
        );
        if spec.node_class_name.is_none() && spec.node_class_selector.is_none() {
            for (name, tags) in [
                ("subnetSelectorTags", &spec.subnet_selector_tags),
                (
                    "securityGroupSelectorTags",
                    &spec.security_group_selector_tags,
                ),
            ] {
                check.that(!tags.is_empty(), &format!("spec.{name}"), || {
                    "may not be empty: machines need subnets and security groups; write their tags, or name a node class that has them".to_owned()
                });
            }
        }
        check.done()
    }
}

fn is_region(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let plain = |one: &&str| {
        let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        !one.is_empty() && one.bytes().all(fits)
    };
    let number = parts
        .last()
        .map(|one| one.bytes().all(|b| b.is_ascii_digit()));
    parts.len() >= 3 && parts.iter().all(plain) && number == Some(true)
}

fn is_family(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}
