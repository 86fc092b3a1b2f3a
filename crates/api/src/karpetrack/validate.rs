//! Checks of Karpetrack's kinds.

use super::spotnodepool::is_region;
use super::{SpotNode, SpotNodePool};
use crate::validate::{Check, Validate, Violation};

impl Validate for SpotNodePool {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let spec = &self.spec;
        for (index, region) in spec.regions.iter().enumerate() {
            check.that(is_region(region), &format!("spec.regions[{index}]"), || {
                format!(
                    "{region:?} is not a region: write its whole name, such as us-east-iad-1, or no list at all for \
                     every region"
                )
            });
        }
        for (index, category) in spec.categories.iter().enumerate() {
            check.that(
                category.short().is_some(),
                &format!("spec.categories[{index}]"),
                || {
                    format!(
                        "{:?} is not a category: it is one of gp, ch, mh, gpu",
                        category.as_str()
                    )
                },
            );
        }
        if let Some(price) = &spec.max_price {
            check.read("spec.maxPrice", price.get());
        }
        check.requirements("spec.requirements", &spec.requirements);
        if let Some(limits) = &spec.limits {
            for (name, quantity) in [
                ("cpu", &limits.cpu),
                ("memory", &limits.memory),
                ("ephemeralStorage", &limits.ephemeral_storage),
            ] {
                if let Some(quantity) = quantity {
                    check.limit(&format!("spec.limits.{name}"), quantity);
                }
            }
        }
        if let Some(disruption) = &spec.disruption {
            if let Some(after) = &disruption.consolidate_after {
                check.read("spec.disruption.consolidateAfter", after.get());
            }
            if let Some(after) = &disruption.expire_after {
                check.read("spec.disruption.expireAfter", after.get());
            }
        }
        check.taints([("spec.taints", &spec.taints), ("", &[])]);
        check.labels("spec.labels", &spec.labels);
        check.done()
    }
}

impl Validate for SpotNode {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        for (name, value) in [
            ("nodePoolRef", &self.spec.node_pool_ref),
            ("instanceType", &self.spec.instance_type),
            ("region", &self.spec.region),
        ] {
            check.that(!value.is_empty(), &format!("spec.{name}"), || {
                "may not be empty: SpotNodes are made by their SpotNodePool, not by hand".to_owned()
            });
        }
        if let Some(bid) = &self.spec.bid_price {
            check.read("spec.bidPrice", bid.get());
        }
        check.done()
    }
}
