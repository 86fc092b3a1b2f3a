//! Checks of Karpenter's kinds.
//!
//! karpenter: `pkg/apis/v1/nodepool_validation.go`, `RuntimeValidate`

use super::{Budget, CapacityBuffer, Disruption, NodeClaim, NodeClassRef, NodeOverlay, NodePool};
use crate::text::ResourceList;
use crate::validate::{Check, Validate, Violation};

impl Validate for NodePool {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        let template = &spec.template.spec;
        if let Some(metadata) = &spec.template.metadata {
            check.labels("spec.template.metadata.labels", &metadata.labels);
        }
        class_ref(
            &mut check,
            "spec.template.spec.nodeClassRef",
            &template.node_class_ref,
        );
        check.requirements("spec.template.spec.requirements", &template.requirements);
        check.taints([
            ("spec.template.spec.taints", &template.taints),
            ("spec.template.spec.startupTaints", &template.startup_taints),
        ]);
        check.read(
            "spec.template.spec.expireAfter",
            template.expire_after().get(),
        );
        if let Some(period) = &template.termination_grace_period {
            check.read("spec.template.spec.terminationGracePeriod", period.get());
        }
        disruption(&mut check, &spec.disruption());
        if let Some(limits) = &spec.limits {
            for (resource, quantity) in limits {
                check.limit(&format!("spec.limits[{resource}]"), quantity);
            }
        }
        if spec.replicas.is_some() {
            check.that(spec.weight.is_none(), "spec.weight", || {
                "a static pool has no weight: leave out weight or replicas".to_owned()
            });
            let limits = spec.limits.as_ref().into_iter().flatten();
            for (resource, _) in limits.filter(|(resource, _)| *resource != "nodes") {
                check.fail(
                    &format!("spec.limits[{resource}]"),
                    "a static pool is limited by nodes only: leave out this limit or replicas"
                        .to_owned(),
                );
            }
        }
        check.done()
    }
}

impl Validate for NodeClaim {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        class_ref(&mut check, "spec.nodeClassRef", &spec.node_class_ref);
        check.expressions("spec.requirements", &spec.requirements);
        check.taints([
            ("spec.taints", &spec.taints),
            ("spec.startupTaints", &spec.startup_taints),
        ]);
        check.read("spec.expireAfter", spec.expire_after().get());
        if let Some(period) = &spec.termination_grace_period {
            check.read("spec.terminationGracePeriod", period.get());
        }
        let requests = spec
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.as_ref());
        if let Some(requests) = requests {
            quantities(&mut check, "spec.resources.requests", requests);
        }
        check.done()
    }
}

impl Validate for NodeOverlay {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        check.expressions("spec.requirements", &spec.requirements);
        if let Some(price) = &spec.price {
            check.read("spec.price", price.get());
            check.that(
                spec.price_adjustment.is_none(),
                "spec.priceAdjustment",
                || "price says it all: leave out one of price and priceAdjustment".to_owned(),
            );
        }
        if let Some(adjustment) = &spec.price_adjustment {
            check.read("spec.priceAdjustment", adjustment.get());
        }
        if let Some(capacity) = &spec.capacity {
            quantities(&mut check, "spec.capacity", capacity);
            for resource in ["cpu", "memory", "ephemeral-storage", "pods"] {
                check.that(
                    !capacity.contains_key(resource),
                    &format!("spec.capacity[{resource}]"),
                    || "only extended resources can be added: leave it out".to_owned(),
                );
            }
        }
        check.done()
    }
}

impl Validate for CapacityBuffer {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        check.that(
            spec.pod_template_ref.is_some() != spec.scalable_ref.is_some(),
            "spec.podTemplateRef",
            || {
                "exactly one of podTemplateRef and scalableRef says what shape a piece has"
                    .to_owned()
            },
        );
        check.that(
            spec.replicas.is_some() || spec.percentage.is_some() || spec.limits.is_some(),
            "spec.replicas",
            || "one of replicas, percentage and limits says how much to keep free".to_owned(),
        );
        check.that(
            spec.percentage.is_none() || spec.scalable_ref.is_some(),
            "spec.percentage",
            || {
                "a percentage is of a workload's replicas: set scalableRef, or use replicas"
                    .to_owned()
            },
        );
        if let Some(limits) = &spec.limits {
            quantities(&mut check, "spec.limits", limits);
        }
        check.done()
    }
}

fn class_ref(check: &mut Check, field: &str, class: &NodeClassRef) {
    for (name, value) in [
        ("group", &class.group),
        ("kind", &class.kind),
        ("name", &class.name),
    ] {
        check.that(!value.is_empty(), &format!("{field}.{name}"), || {
            "may not be empty: name the node class that holds the provider's settings".to_owned()
        });
    }
}

fn disruption(check: &mut Check, disruption: &Disruption) {
    if let Some(after) = &disruption.consolidate_after {
        check.read("spec.disruption.consolidateAfter", after.get());
    }
    for (index, budget) in disruption.budgets.iter().flatten().enumerate() {
        self::budget(check, &format!("spec.disruption.budgets[{index}]"), budget);
    }
}

fn budget(check: &mut Check, field: &str, budget: &Budget) {
    check.read(&format!("{field}.nodes"), budget.nodes.get());
    if let Some(duration) = &budget.duration {
        check.read(&format!("{field}.duration"), duration.get());
    }
    check.that(
        budget.schedule.is_some() == budget.duration.is_some(),
        &format!("{field}.schedule"),
        || "schedule and duration come together: set both or neither".to_owned(),
    );
    if let Some(schedule) = &budget.schedule {
        const WORDS: [&str; 7] = [
            "@annually",
            "@yearly",
            "@monthly",
            "@weekly",
            "@daily",
            "@midnight",
            "@hourly",
        ];
        let known = WORDS.contains(&schedule.as_str()) || schedule.split_whitespace().count() == 5;
        check.that(known, &format!("{field}.schedule"), || {
            format!("{schedule:?} is not a schedule: write five cron fields in UTC, such as 0 9 * * mon-fri, or @daily")
        });
    }
}

fn quantities(check: &mut Check, field: &str, resources: &ResourceList) {
    for (resource, quantity) in resources {
        check.read(&format!("{field}[{resource}]"), quantity.milli());
    }
}
