//! Families of custom resources in simulated worlds. Which family has a seat stands in the table of families that are
//! served (`wiring`): with a row there, and a seat here, it is simulated and judged under every fault.

mod ovhcloud;

use std::time::Duration;

use joiner_controllers::dialects::nodesmith::PROVIDER;
use joiner_core::problem::{CapacityType, Catalog, Offering};
use joiner_sim::audit;
use joiner_sim::clouds::rackspace::{Auctions, RackspaceCloudOptions};
use joiner_sim::clouds::sim::{Market, SimCloudOptions, built_in};
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use super::clouds::{self, CloudPlan, FORGE};
use super::objects;
use super::scenario::{Action, Draw};
use crate::classes::sim::SIM;
use crate::wiring::{SERVED, Served};

/// A family in simulated worlds.
pub(crate) struct Seat {
    /// How the auditor reads it.
    pub(crate) rules: &'static audit::Family,
    /// API groups of the definitions that its objects need.
    pub(crate) groups: &'static [&'static str],
    /// Draws the clouds that its pools buy from.
    pub(crate) clouds: fn(&mut ChaCha8Rng, u64, Tamper) -> Vec<CloudPlan>,
    /// Draws its pools and what users do to them.
    pub(crate) pools: fn(&mut Draw),
    /// Draws what is another controller's and looks like its own.
    pub(crate) foreigners: fn(&mut Draw),
}

/// What is wrong with the clouds, for tests of the auditor.
pub(crate) type Tamper = Option<fn(&mut SimCloudOptions)>;

/// Families that are simulated.
pub(crate) fn served() -> impl Iterator<Item = &'static Served> {
    SERVED.iter().filter(|one| one.simulated.is_some())
}

/// Their seats.
pub(crate) fn seats() -> impl Iterator<Item = &'static Seat> {
    served().filter_map(|one| one.simulated)
}

/// `NodePools` and `NodeClaims`.
pub(crate) static KARPENTER: Seat = Seat {
    rules: &audit::KARPENTER,
    groups: &[
        "karpenter.sh",
        "joiner.dev",
        "autoscaling.x-k8s.io",
        "karpenter.ovhcloud.sh",
    ],
    clouds: |random, seed, tamper| {
        let mut all = sim_clouds(random, seed, tamper);
        all.extend(ovhcloud::clouds(random, seed));
        all
    },
    pools: |draw| {
        node_pools(draw);
        ovhcloud::pools(draw);
    },
    foreigners: foreign_claims,
};

/// SpotNodePools and SpotNodes.
pub(crate) static KARPETRACK: Seat = Seat {
    rules: &audit::KARPETRACK,
    groups: &["karpetrack.io"],
    clouds: cloudspaces,
    pools: spot_pools,
    foreigners: foreign_spot_nodes,
};

/// `NodeSmithPools` and `NodeSmithClaims`.
pub(crate) static NODESMITH: Seat = Seat {
    rules: &audit::NODESMITH,
    groups: &["kubenodesmith.parawell.cloud"],
    clouds: racks,
    pools: forge_pools,
    foreigners: foreign_smith_claims,
};

/// The API group of node classes that another controller looks after.
const FOREIGN_GROUP: &str = "elsewhere.example.com";
/// Kind of the objects that say which `NodeSmithPools` are managed.
const PLANES: &str = "nodesmithcontrolplanes.kubenodesmith.parawell.cloud";
/// Tells the luck of a rack from that of clouds of the same seed.
const RACK: u64 = 0x7ac_0000;
/// Who looks after machines that were restored from another cluster's backup.
const ANOTHER: &str = "another-cluster";

fn sim_clouds(random: &mut ChaCha8Rng, seed: u64, tamper: Tamper) -> Vec<CloudPlan> {
    let count = if random.random_ratio(1, 3) { 2 } else { 1 };
    (0..count)
        .map(|number| {
            let mut options = SimCloudOptions::calm(catalog(random), seed ^ number);
            options.market = Market {
                swing_percent: *[0, 10, 33].choose(random).unwrap_or(&0),
                sold_out_percent: *[0, 5, 20].choose(random).unwrap_or(&0),
                stock_every: Duration::from_mins(random.random_range(5..40)),
                spot_life: random
                    .random_ratio(1, 2)
                    .then(|| Duration::from_hours(random.random_range(1..12))),
                notice: Duration::from_secs(*[30, 120].choose(random).unwrap_or(&120)),
                ..Market::calm(seed.wrapping_mul(31) ^ number)
            };
            options.boot_max = Duration::from_secs(random.random_range(20..120));
            options.boot_min = options.boot_min.min(options.boot_max);
            options.refused_percent = *[0, 0, 5].choose(random).unwrap_or(&0);
            options.stillborn_percent = *[0, 0, 3, 8].choose(random).unwrap_or(&0);
            if let Some(tamper) = tamper {
                tamper(&mut options);
            }
            clouds::sim(&format!("cloud-{number}"), options)
        })
        .collect()
}

/// A part of the built-in catalogue: small machines, so that small worlds have several.
fn catalog(random: &mut ChaCha8Rng) -> Catalog {
    let mut catalog = built_in();
    let arm = random.random_ratio(1, 3);
    let families = [&["c", "m"][..], &["m", "r"], &["c"], &["m"]];
    let families = families.choose(random).copied().unwrap_or(&["m"]);
    catalog.types.retain(|kind| {
        let mut parts = kind.name.split('-');
        let family = parts.next().unwrap_or_default();
        let size = parts.next().unwrap_or_default();
        families.contains(&family)
            && ["1x", "2x", "4x", "8x"].contains(&size)
            && (arm || kind.name.ends_with("amd64"))
    });
    catalog
}

/// One to three pools.
fn node_pools(draw: &mut Draw) {
    let classes = draw.classes(&SIM);
    for number in 0..draw.between(1..=3) {
        let name = format!("pool-{number}");
        let class = draw.one(&classes).clone();
        let mut pool = objects::pool(&name, &SIM, &class);
        let spec = &mut pool["spec"];
        let paid: &[&str] = if draw.chance(3) {
            &["on-demand"]
        } else {
            &["spot", "on-demand"]
        };
        spec["template"]["spec"]["requirements"] = json!([
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": paid},
        ]);
        spec["disruption"] = disruption(draw);
        // The first pool takes everybody, so that limits are what keeps pods waiting and nothing else.
        spec["limits"] = if number == 0 {
            json!({"cpu": "96", "nodes": "24"})
        } else {
            let cpu = draw.between(4..=23);
            json!({"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4)})
        };
        if draw.chance(3) {
            let minutes = draw.between(45..=179);
            spec["template"]["spec"]["expireAfter"] = json!(format!("{minutes}m"));
            let never = json!({"spec": {"template": {"spec": {"expireAfter": "Never"}}}});
            draw.at_the_end(Action::EditPool(
                audit::KARPENTER.pools,
                name.clone(),
                never,
            ));
            draw.at_the_end(Action::DeleteExpiring(name.clone()));
        }
        if draw.chance(4) {
            let minutes = draw.between(2..=19);
            spec["template"]["spec"]["terminationGracePeriod"] = json!(format!("{minutes}m"));
        }
        if number == 1 && draw.chance(2) {
            spec["template"]["spec"]["taints"] =
                json!([{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]);
            spec["template"]["metadata"]["labels"] = json!({"team": "batch"});
            draw.keeps_away("batch");
        }
        if number == 2 && draw.chance(2) {
            // A pool of a fixed size.
            spec["replicas"] = json!(draw.between(1..=2));
            spec["limits"] = json!({"nodes": "4"});
            spec["disruption"] = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "1"}]});
        }
        draw.create(audit::KARPENTER.pools, "", pool);
        let labels = |generation: &str| json!({"spec": {"template": {"metadata": {"labels": {"generation": generation}}}}});
        draw.edits(&audit::KARPENTER, &name, number, labels);
    }
}

fn disruption(draw: &mut Draw) -> Value {
    let after = *draw.one(&["0s", "30s", "2m", "5m"]);
    let policy = *draw.one(&[
        "WhenEmpty",
        "WhenEmptyOrUnderutilized",
        "WhenEmptyOrUnderutilized",
    ]);
    let budgets = match draw.between(0..=4) {
        0 => json!([{"nodes": "10%"}]),
        1 => json!([{"nodes": "1"}]),
        2 => json!([{"nodes": "50%"}, {"nodes": "1", "reasons": ["Drifted"]}]),
        3 => json!([{"nodes": "2"}, {"nodes": "30%", "reasons": ["Underutilized", "Empty"]}]),
        _ => json!([{"nodes": "100%"}]),
    };
    json!({"consolidateAfter": after, "consolidationPolicy": policy, "budgets": budgets})
}

/// A pool, machines and a node of a class that another controller serves, and a machine object out of another
/// cluster's backup.
fn foreign_claims(draw: &mut Draw) {
    let mut pool = objects::pool("theirs", &SIM, "theirs");
    pool["spec"]["template"]["spec"]["nodeClassRef"]["group"] = json!(FOREIGN_GROUP);
    draw.create(audit::KARPENTER.pools, "", pool);
    let mut claim = objects::claim("theirs-1", "theirs");
    claim["spec"]["nodeClassRef"]["group"] = json!(FOREIGN_GROUP);
    claim["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
    if draw.chance(2) {
        // It is on its way, and some pods fit.
        claim["metadata"]["labels"] = json!({"karpenter.sh/nodepool": "theirs"});
        claim["spec"]["resources"] =
            json!({"requests": {"cpu": "2", "memory": "4Gi", "pods": "9"}});
    }
    draw.create(audit::KARPENTER.machines, "", claim);
    // As Karpenter leaves it in the middle of its work, without a machine object.
    let node = json!({"metadata": {
        "name": "theirs-2", "finalizers": ["karpenter.sh/termination"],
        "labels": {"karpenter.sh/nodepool": "theirs", "karpenter.sh/registered": "true"},
    }});
    draw.create("nodes", "", node);
    let mut restored = objects::claim("restored-1", "cloud-0");
    restored["metadata"]["labels"] = json!({"karpenter.sh/nodepool": "theirs"});
    restored["metadata"]["annotations"] =
        json!({"joiner.dev/managed-by": format!("{ANOTHER}.karpenter")});
    draw.create(audit::KARPENTER.machines, "", restored);
}

/// One simulated Rackspace Spot, whose servers come sooner than the real one's but not as soon as other clouds'.
fn cloudspaces(random: &mut ChaCha8Rng, seed: u64, _: Tamper) -> Vec<CloudPlan> {
    let mut options = RackspaceCloudOptions {
        cloudspace: clouds::SPACE.to_owned(),
        auctions: Auctions {
            seed,
            swing_percent: *[0, 10, 40].choose(random).unwrap_or(&0),
            every: Duration::from_mins(5),
        },
        arrives_min: Duration::from_secs(random.random_range(30..120)),
        arrives_max: Duration::from_secs(random.random_range(120..600)),
        ..RackspaceCloudOptions::calm(seed)
    };
    // Small servers, so that small worlds have several; some are scarce.
    options.classes.retain(|class| class.cpu <= 8);
    for class in &mut options.classes {
        class.available = *[100, 100, 3, 0].choose(random).unwrap_or(&100);
    }
    vec![clouds::space(options)]
}

/// One or two pools, or none. Names may repeat those of other families.
fn spot_pools(draw: &mut Draw) {
    for number in 0..draw.between(0..=2) {
        let name = format!("pool-{number}");
        let after = *draw.one(&["30s", "2m", "5m"]);
        let policy = *draw.one(&["WhenEmpty", "WhenUnderutilized"]);
        let cpu = draw.between(6..=24);
        let mut spec = json!({
            "limits": {"cpu": cpu.to_string(), "memory": format!("{}Gi", cpu * 4)},
            "disruption": {"consolidationPolicy": policy, "consolidateAfter": after},
        });
        if draw.chance(4) {
            spec["requirements"] = json!([{"key": "karpenter.sh/capacity-type", "operator": "In",
                "values": ["spot", "on-demand"]}]);
        }
        if draw.chance(3) {
            spec["taints"] = json!([{"key": "dedicated", "value": "spot", "effect": "NoSchedule"}]);
            spec["labels"] = json!({"team": "spot"});
            draw.keeps_away("spot");
        }
        let pool = json!({
            "apiVersion": "karpetrack.io/v1alpha1", "kind": "SpotNodePool",
            "metadata": {"name": name}, "spec": spec,
        });
        draw.create(audit::KARPETRACK.pools, "", pool);
        let labels = |generation: &str| json!({"spec": {"labels": {"generation": generation}}});
        draw.edits(&audit::KARPETRACK, &name, number, labels);
    }
}

/// A SpotNode out of another cluster's backup.
fn foreign_spot_nodes(draw: &mut Draw) {
    let node = json!({
        "apiVersion": "karpetrack.io/v1alpha1", "kind": "SpotNode",
        "metadata": {"name": "restored-1", "finalizers": ["karpetrack.io/spotnode"],
            "annotations": {"joiner.dev/managed-by": format!("{ANOTHER}.karpetrack")}},
        "spec": {"nodePoolRef": "theirs", "instanceType": "gp.vs1.medium-ord", "region": "us-central-ord-1"},
    });
    draw.create(audit::KARPETRACK.machines, "", node);
}

/// One rack, or none: machines of one architecture that stay, some of which do not boot.
fn racks(random: &mut ChaCha8Rng, seed: u64, tamper: Tamper) -> Vec<CloudPlan> {
    if random.random_ratio(1, 2) {
        return Vec::new();
    }
    let mut catalog = built_in();
    catalog.types.retain(|kind| {
        kind.name.starts_with("m-")
            && kind.name.ends_with("amd64")
            && ["-2x-", "-4x-", "-8x-"]
                .iter()
                .any(|size| kind.name.contains(size))
    });
    for kind in &mut catalog.types {
        let stays = |one: &Offering| one.capacity_type == CapacityType::OnDemand;
        kind.offerings
            .retain(|one| stays(one) && one.zone.ends_with("-a"));
    }
    let mut options = SimCloudOptions::calm(catalog, seed ^ RACK);
    options.market = Market {
        sold_out_percent: *[0, 10].choose(random).unwrap_or(&0),
        ..Market::calm(seed ^ RACK)
    };
    options.boot_max = Duration::from_secs(random.random_range(30..180));
    options.boot_min = options.boot_min.min(options.boot_max);
    options.stillborn_percent = *[0, 0, 5].choose(random).unwrap_or(&0);
    if let Some(tamper) = tamper {
        tamper(&mut options);
    }
    vec![clouds::rack("rack", options)]
}

/// One or two pools where there is a rack, and the control plane that names them. Names may repeat those of other
/// families.
fn forge_pools(draw: &mut Draw) {
    let racks = draw.classes(&PROVIDER);
    let Some(rack) = racks.first() else { return };
    let count = draw.between(1..=2);
    let names: Vec<String> = (0..count).map(|number| format!("pool-{number}")).collect();
    let object = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "kubenodesmith.parawell.cloud/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": FORGE}, "spec": spec})
    };
    let plane = object("NodeSmithControlPlane", "plane", json!({"pools": names}));
    draw.create(PLANES, FORGE, plane);
    for (name, number) in names.iter().zip(0_u32..) {
        let cores = draw.between(8..=24);
        let least = draw.between(0..=1);
        let mut spec = json!({
            "providerRef": rack,
            "limits": {"minNodes": least, "maxNodes": draw.between(2..=5), "cpuCores": cores,
                "memoryMiB": cores * 4096},
            "machineTemplate": {"labels": {"rack": "own"}},
            "scaleDown": {"stabilizationWindow": *draw.one(&["30s", "2m", "5m"])},
        });
        if draw.chance(2) {
            spec["scaleUp"] = json!({"stabilizationWindow": "1m"});
        }
        if draw.chance(3) {
            spec["machineTemplate"]["taints"] =
                json!([{"key": "dedicated", "value": "rack", "effect": "NoSchedule"}]);
            spec["machineTemplate"]["labels"] = json!({"team": "rack"});
            draw.keeps_away("rack");
        }
        draw.create(
            audit::NODESMITH.pools,
            FORGE,
            object("NodeSmithPool", name, spec),
        );
        let labels = |generation: &str| json!({"spec": {"machineTemplate": {"labels": {"generation": generation}}}});
        let key = format!("{FORGE}/{name}");
        draw.edits(&audit::NODESMITH, &key, number, labels);
    }
}

/// A claim out of another cluster's backup.
fn foreign_smith_claims(draw: &mut Draw) {
    let claim = json!({
        "apiVersion": "kubenodesmith.parawell.cloud/v1alpha1", "kind": "NodeSmithClaim",
        "metadata": {"name": "restored-1", "namespace": FORGE,
            "finalizers": ["kubenodesmith.io/nodesmithclaim"],
            "annotations": {"joiner.dev/managed-by": format!("{ANOTHER}.nodesmith")}},
        "spec": {"poolRef": "theirs"},
    });
    draw.create(audit::NODESMITH.machines, FORGE, claim);
}
