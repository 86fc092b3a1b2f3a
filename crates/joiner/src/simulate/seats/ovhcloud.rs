//! NodePools of an `OVHNodeClass`, on a simulated OVHcloud beside the other clouds.

use std::time::Duration;

use joiner_controllers::classes::ovhcloud::OVH;
use joiner_sim::audit;
use joiner_sim::clouds::ovhcloud::OvhCloudOptions;
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use super::disruption;
use crate::simulate::clouds::{self, CloudPlan};
use crate::simulate::objects;
use crate::simulate::scenario::{Action, Draw};

/// The class.
const CLASS: &str = "managed";
/// As resources are named.
const CLASSES: &str = "ovhnodeclasses.karpenter.ovhcloud.sh";
/// Tells its luck from that of other clouds of the same seed.
const LUCK: u64 = 0x0b4_0000;
/// Small flavours, so that small worlds have several nodes.
const FLAVORS: [&str; 5] = ["b3-8", "b3-16", "c3-4", "c3-8", "b2-7"];

/// One in most worlds.
pub(super) fn clouds(random: &mut ChaCha8Rng, seed: u64) -> Vec<CloudPlan> {
    if random.random_ratio(1, 4) {
        return Vec::new();
    }
    let mut options = OvhCloudOptions::calm(seed ^ LUCK);
    options
        .flavors
        .retain(|flavor| FLAVORS.contains(&flavor.name.as_str()));
    for flavor in &mut options.flavors {
        flavor.stock = *[None, None, None, Some(3)].choose(random).unwrap_or(&None);
    }
    options.quota_cores = *[None, None, Some(24)].choose(random).unwrap_or(&None);
    // Nodes may be listed all at once only where the credentials say so.
    if random.random_ratio(1, 2) {
        options.rules.clear();
    }
    if random.random_ratio(1, 3) {
        options = options.single_zone();
    }
    options.pool_appears = Duration::from_secs(random.random_range(0..45));
    options.pool_installs = Duration::from_secs(random.random_range(45..300));
    options.node_appears = Duration::from_secs(random.random_range(5..60));
    vec![clouds::ovh(CLASS, options)]
}

/// One or two pools where there is a cluster. In some worlds they go in the middle, and their class with them.
pub(super) fn pools(draw: &mut Draw) {
    if draw.classes(&OVH).is_empty() {
        return;
    }
    let count = draw.between(1..=2);
    let names: Vec<String> = (0..count).map(|number| format!("ovh-{number}")).collect();
    for (name, number) in names.iter().zip(0..) {
        let mut pool = objects::pool(name, &OVH, CLASS);
        let spec = &mut pool["spec"];
        spec["disruption"] = disruption(draw);
        let cpu = draw.between(6..=24);
        spec["limits"] = json!({"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4)});
        if draw.chance(2) {
            // Preferred to cheaper clouds: it would be idle otherwise.
            spec["weight"] = json!(50);
        }
        if draw.chance(3) {
            spec["limits"]["nodes"] = json!(draw.between(1..=4).to_string());
        }
        if draw.chance(4) {
            let minutes = draw.between(4..=19);
            spec["template"]["spec"]["terminationGracePeriod"] = json!(format!("{minutes}m"));
        }
        if number == 1 && draw.chance(2) {
            spec["template"]["spec"]["taints"] =
                json!([{"key": "dedicated", "value": "managed", "effect": "NoSchedule"}]);
            spec["template"]["metadata"]["labels"] = json!({"team": "managed"});
            draw.keeps_away("managed");
        }
        draw.create(audit::KARPENTER.pools, "", pool);
        let labels = |generation: &str| json!({"spec": {"template": {"metadata": {"labels": {"generation": generation}}}}});
        draw.edits(&audit::KARPENTER, name, number, labels);
    }
    if draw.chance(3) {
        let at = draw.moment();
        for name in names {
            draw.at(at, Action::Delete(audit::KARPENTER.pools, name));
        }
        draw.at(at, Action::Delete(CLASSES, CLASS.to_owned()));
    }
}
