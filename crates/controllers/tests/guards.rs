//! What keeps the engine from doing harm, and what it says about itself, on the embedded cluster in virtual time.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use joiner_controllers::dialect::{ClassFactory, Dialect};
use joiner_controllers::dialects::karpenter::Karpenter;
use joiner_controllers::dialects::karpetrack::{CLOUDSPACE, Karpetrack, KarpetrackOptions};
use joiner_controllers::edge::clients::Clients;
use joiner_controllers::edge::metrics::{PoolResource, Validation};
use joiner_controllers::engine::Core;
use joiner_controllers::{Decide, Settings};
use joiner_core::plan::Plan;
use joiner_core::problem::Problem;
use joiner_sim::clouds::sim::{SimCloud, SimCloudOptions, built_in};
use serde_json::{Value, json};
use world::{OneCloud, SIM, World, is_true, pass};

const POOLS: &str = "nodepools.karpenter.sh";
const CLASSES: &str = "simnodeclasses.joiner.dev";
const SPOT_POOLS: &str = "spotnodepools.karpetrack.io";
const SPOT_NODES: &str = "spotnodes.karpetrack.io";
const OVERLAYS: &str = "nodeoverlays.karpenter.sh";

/// One pod on each node.
fn apart(deployment: &mut Value) {
    let app = deployment["metadata"]["name"].clone();
    deployment["spec"]["template"]["spec"]["affinity"] = json!({"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": app}}
        }]
    }});
}

fn condition(object: &Value, kind: &str) -> Value {
    let all = object["status"]["conditions"].as_array();
    let found = all.into_iter().flatten().find(|one| one["type"] == kind);
    found.cloned().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_node_class_says_in_words_whether_it_can_be_bought_from() {
    let world = World::start().await;
    let api = world.api();
    api.create(
        CLASSES,
        "",
        json!({"apiVersion": "joiner.dev/v1alpha1", "kind": "SimNodeClass",
            "metadata": {"name": "broken"}, "spec": {}}),
    )
    .unwrap();
    world.pool("good", |_| ());
    world.pool("bad", |pool| {
        pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("broken");
    });
    world
        .within(
            Duration::from_mins(2),
            "both say so",
            &mut |world: &World| {
                let api = world.api();
                let good = api.get(CLASSES, "", "sim").unwrap();
                let bad = api.get(CLASSES, "", "broken").unwrap();
                is_true(&good, "Ready")
                    && good["status"]["instanceTypes"].as_u64() > Some(0)
                    && condition(&bad, "Ready")["status"] == "False"
            },
        )
        .await;
    let said = condition(&api.get(CLASSES, "", "broken").unwrap(), "Ready");
    let message = said["message"].as_str().unwrap();
    assert!(message.contains("there is no ConfigMap"), "{said}");
    world
        .until("the pools say so too", |world| {
            let api = world.api();
            let bad = api.get(POOLS, "", "bad").unwrap();
            is_true(&api.get(POOLS, "", "good").unwrap(), "Ready")
                && condition(&bad, "NodeClassReady")["status"] == "False"
                && condition(&bad, "Ready")["reason"] == "UnhealthyDependents"
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn overlays_that_contradict_each_other_are_told() {
    let world = World::start().await;
    world.pool("default", |_| ());
    let overlay = |name: &str, weight: u32| {
        json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
            "metadata": {"name": name},
            "spec": {"weight": weight, "priceAdjustment": "+10%", "requirements": [
                {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}})
    };
    let api = world.api();
    for (name, weight) in [("a", 10), ("b", 10), ("c", 20)] {
        api.create(OVERLAYS, "", overlay(name, weight)).unwrap();
    }
    world
        .within(
            Duration::from_mins(2),
            "all are told",
            &mut |world: &World| {
                let ready = |name: &str| {
                    let overlay = world.api().get(OVERLAYS, "", name).unwrap();
                    is_true(&overlay, "Ready")
                };
                ready("c") && ready("b") && !ready("a")
            },
        )
        .await;
    let said = condition(&api.get(OVERLAYS, "", "a").unwrap(), "ValidationSucceeded");
    assert_eq!(
        (&said["status"], &said["reason"]),
        (&json!("False"), &json!("Conflict"))
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_failed_is_still_waited_for_after_a_restart() {
    let mut options = SimCloudOptions::calm(built_in(), 1);
    options.stillborn_percent = 100;
    let mut world = World::with(options, Settings::default()).await;
    world.pool("default", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    let notes = |world: &World| -> Vec<Value> {
        let pool = world.api().get(POOLS, "", "default").unwrap();
        let text = pool["metadata"]["annotations"]["joiner.dev/waiting"].as_str();
        text.map(|text| serde_json::from_str(text).unwrap())
            .unwrap_or_default()
    };
    world
        .until("the pool says what it waits for", |world| {
            let pool = world.api().get(POOLS, "", "default").unwrap();
            let said = condition(&pool, "CapacityAvailable");
            !notes(world).is_empty() && said["status"] == "False"
        })
        .await;
    let pool = world.api().get(POOLS, "", "default").unwrap();
    let said = condition(&pool, "CapacityAvailable")["message"].to_string();
    let next = notes(&world)[0]["nextTry"].as_str().unwrap().to_owned();
    assert!(said.contains("is tried at"), "{said}");
    let next: jiff::Timestamp = next.parse().unwrap();
    let now = world.api().clock().now();
    assert!(
        next > now && next < now + jiff::SignedDuration::from_mins(16),
        "{next} at {now}"
    );
    world.engine.take().unwrap().kill().await;
    pass(1).await;
    let before = notes(&world).len();
    world.engine = Some(world.engine("second"));
    world
        .within(Duration::from_secs(30), "it leads", &mut |world: &World| {
            world.engine.as_ref().unwrap().context().may_act()
        })
        .await;
    let kept = world
        .engine
        .as_ref()
        .unwrap()
        .context()
        .market
        .backoffs
        .len();
    assert!(kept >= before, "{kept} of {before} are remembered");
    world.cloud.change(|options| options.stillborn_percent = 0);
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    world
        .until("nothing is waited for", |world| notes(world).is_empty())
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_asks_for_no_more_machines_a_minute_than_it_may() {
    let settings = Settings {
        launches_per_minute: 2,
        ..Settings::default()
    };
    let world = World::with(SimCloudOptions::calm(built_in(), 1), settings).await;
    world.pool("default", |_| ());
    world.deployment("web", 5, "500m", apart);
    let mut counts = Vec::new();
    for _ in 0..240 {
        pass(1).await;
        counts.push(world.claims().len());
        let minute_ago = counts.len().checked_sub(60).map_or(0, |at| counts[at]);
        let asked = counts.last().unwrap() - minute_ago;
        assert!(asked <= 2, "{asked} within a minute");
    }
    world
        .until("all pods run", |world| world.running("web") == 5)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_template_is_tried_on_one_node_first() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 5, "500m", apart);
    world
        .until("all pods run", |world| world.running("web") == 5)
        .await;
    let api = world.api();
    let mut pool = (*api.get(POOLS, "", "default").unwrap()).clone();
    pool["spec"]["template"]["metadata"] = json!({"labels": {"generation": "two"}});
    api.update(POOLS, pool).unwrap();
    let new = |world: &World| -> Vec<bool> {
        let claims = world.claims();
        let new = claims
            .iter()
            .filter(|one| one["metadata"]["labels"]["generation"] == "two");
        new.map(|one| is_true(one, "Initialized")).collect()
    };
    for _ in 0..1800 {
        pass(1).await;
        let new = new(&world);
        assert!(
            new.len() <= 1 || new.contains(&true),
            "{} new machines, and none has proven itself",
            new.len()
        );
        if new.len() == 5 && world.claims().len() == 5 {
            break;
        }
    }
    assert_eq!((new(&world).len(), world.claims().len()), (5, 5));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_come_with_a_foreign_taint_are_not_bought_without_end() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 1, "500m", |_| ());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3600 {
        pass(1).await;
        let api = world.api();
        for node in api.list("nodes") {
            let name = node["metadata"]["name"].as_str().unwrap().to_owned();
            if !seen.insert(name) {
                continue;
            }
            let mut node = (*node).clone();
            let mut taints = node["spec"]["taints"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            taints.push(json!({"key": "somebody/else", "effect": "NoSchedule"}));
            node["spec"]["taints"] = json!(taints);
            // Whoever changed it meanwhile comes first; it is tainted all the same.
            if api.update("nodes", node.clone()).is_err() {
                seen.remove(node["metadata"]["name"].as_str().unwrap());
            }
        }
    }
    assert!(
        (2..12).contains(&seen.len()),
        "{} nodes in an hour",
        seen.len()
    );
    let pool = world.api().get(POOLS, "", "default").unwrap();
    let said = condition(&pool, "CapacityAvailable")["message"].to_string();
    assert!(said.contains("still waits although"), "{said}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn empty_nodes_go_within_seconds() {
    let world = World::start().await;
    world.pool("default", |pool| {
        pool["spec"]["disruption"]["consolidateAfter"] = json!("0s");
    });
    world.deployment("web", 12, "500m", apart);
    world
        .until("all pods run", |world| world.running("web") == 12)
        .await;
    pass(120).await;
    world.scale("web", 0);
    world
        .within(
            Duration::from_secs(30),
            "all nodes are gone",
            &mut |world: &World| world.nodes() == 0 && world.claims().is_empty(),
        )
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn machines_in_use_say_what_karpenters_say() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    world
        .within(Duration::from_mins(2), "it may go", &mut |world: &World| {
            let claims = world.claims();
            claims.iter().all(|one| is_true(one, "Consolidatable"))
        })
        .await;
    let claim = world.claims().remove(0);
    assert!(is_true(&claim, "ConsistentStateFound"), "{claim:#}");
    world.scale("web", 0);
    let mut reasons = std::collections::BTreeSet::new();
    world
        .until("it is gone", |world| {
            for claim in world.claims() {
                let reason = condition(&claim, "DisruptionReason")["reason"].clone();
                reasons.extend(reason.as_str().map(str::to_owned));
            }
            world.claims().is_empty()
        })
        .await;
    world.stop().await;
}

/// An engine that serves NodePools and SpotNodePools from a cloud each, the second one at half the price.
async fn two_families() -> (World, SimCloud, tokio::task::JoinHandle<()>) {
    let mut world = World::start().await;
    world.engine.take().unwrap().stop().await;
    let mut cheap = built_in();
    for offering in cheap.types.iter_mut().flat_map(|one| &mut one.offerings) {
        offering.price = joiner_core::money::Money::from_dollars(offering.price.dollars() / 2.0);
    }
    let other = SimCloud::new(
        SimCloudOptions::calm(cheap, 2),
        world.api().clock().clone(),
        Arc::new(world.cluster.kubelets().clone()),
    );
    let running = other.clone();
    let clouds = tokio::task::spawn(async move { running.run().await });
    let dialects = |clients: &Clients| -> Vec<Arc<dyn Dialect>> {
        let spot = KarpetrackOptions::new("demo");
        vec![
            Arc::new(Karpenter::new(clients.clone(), vec![SIM])),
            Arc::new(Karpetrack::new(clients.clone(), spot)),
        ]
    };
    let classes: Vec<Arc<dyn ClassFactory>> = vec![
        Arc::new(OneCloud(SIM, world.cloud.clone())),
        Arc::new(OneCloud(CLOUDSPACE, other.clone())),
    ];
    world.engine = Some(world.engine_of("both", dialects, classes));
    (world, other, clouds)
}

fn spot_pool(world: &World, name: &str, spec: &Value) {
    let pool = json!({"apiVersion": "karpetrack.io/v1alpha1", "kind": "SpotNodePool",
        "metadata": {"name": name}, "spec": spec});
    world.api().create(SPOT_POOLS, "", pool).unwrap();
}

/// Nothing more is for sale.
fn sell_out(cloud: &SimCloud) {
    cloud.change(|options| {
        let types = options.catalog.types.iter_mut();
        for offering in types.flat_map(|one| &mut one.offerings) {
            offering.available = false;
        }
    });
}

/// Pools of two families, bought from two clouds, in one engine.
#[tokio::test(start_paused = true)]
async fn pools_of_two_families_compete_in_one_plan() {
    let (world, other, clouds) = two_families().await;
    world.pool("dear", |_| ());
    spot_pool(&world, "cheap", &json!({}));
    pass(30).await;
    world.deployment("web", 4, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 4)
        .await;
    assert!(world.claims().is_empty(), "the cheaper family was there");
    let sources = |world: &World, kind: &str| -> Vec<String> {
        let events = world.api().list("events");
        let about = events
            .iter()
            .filter(|one| one["involvedObject"]["kind"] == kind);
        about
            .map(|one| one["source"]["component"].as_str().unwrap().to_owned())
            .collect()
    };
    // Nothing is left there: the other family takes over.
    sell_out(&other);
    pass(60).await;
    world.deployment("api", 4, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("api") == 4)
        .await;
    assert!(!world.claims().is_empty());
    let told = sources(&world, "SpotNode");
    assert!(
        !told.is_empty() && told.iter().all(|one| one == "karpetrack"),
        "{told:?}"
    );
    world.stop().await;
    clouds.abort();
}

#[tokio::test(start_paused = true)]
async fn pools_of_two_families_with_one_name_both_buy_and_keep_their_own_limits() {
    let (world, _, clouds) = two_families().await;
    world.pool("default", |pool| {
        pool["spec"]["limits"] = json!({"nodes": "2"});
    });
    spot_pool(&world, "default", &json!({"limits": {"cpu": "4"}}));
    pass(30).await;
    // Three cores each, on nodes that say `default`: one server is all that the cheaper pool may have.
    world.deployment("web", 3, "3", |deployment| {
        deployment["spec"]["template"]["spec"]["nodeSelector"] =
            json!({"karpenter.sh/nodepool": "default"});
        apart(deployment);
    });
    world
        .until("all pods run", |world| world.running("web") == 3)
        .await;
    let api = world.api();
    assert_eq!(world.claims().len(), 2);
    let servers = api.list("spotnodes.karpetrack.io");
    assert_eq!(servers.len(), 1, "{servers:#?}");
    assert_eq!(servers[0]["spec"]["nodePoolRef"], "default");
    for node in api.list("nodes") {
        let labels = &node["metadata"]["labels"];
        assert_eq!(labels["karpenter.sh/nodepool"], "default", "{labels}");
    }
    world
        .until("each pool knows what it has", |world| {
            let api = world.api();
            let node_pool = api.get(POOLS, "", "default").unwrap();
            let spot_pool = api.get(SPOT_POOLS, "", "default").unwrap();
            node_pool["status"]["resources"]["nodes"] == "2"
                && spot_pool["status"]["nodeCount"] == 1
        })
        .await;
    let metrics = world
        .engine
        .as_ref()
        .unwrap()
        .context()
        .edge
        .metrics
        .clone();
    for (nodepool, least) in [("default", 2), ("SpotNodePool/default", 1)] {
        let cores = PoolResource {
            nodepool: nodepool.to_owned(),
            resource_type: "cpu".to_owned(),
        };
        let used = metrics.usage.get_or_create(&cores).get();
        assert!(used >= f64::from(least) * 4.0, "{nodepool}: {used}");
    }
    // No pool speaks of the other, and both go on alone.
    for said in [POOLS, SPOT_POOLS].map(|kind| api.get(kind, "", "default").unwrap()) {
        assert!(!said["status"].to_string().contains("rename"), "{said:#}");
    }
    let gone = joiner_embedded::api::DeleteOptions::default();
    api.delete(SPOT_POOLS, "", "default", gone).unwrap();
    world
        .until("the servers are given back", |world| {
            world.api().list("spotnodes.karpetrack.io").is_empty()
        })
        .await;
    assert!(world.claims().len() >= 2, "those of the other pool stay");
    world.stop().await;
    clouds.abort();
}

/// How long it takes from now until a machine is asked for beyond so many.
async fn until_asked(world: &World, before: usize) -> Duration {
    let asked = |world: &World| world.claims().len() + world.api().list(SPOT_NODES).len();
    let start = tokio::time::Instant::now();
    let mut more = |world: &World| asked(world) > before;
    let limit = Duration::from_mins(2);
    world
        .within(limit, "a machine is asked for", &mut more)
        .await;
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn pods_are_gathered_for_as_long_as_the_families_say_that_may_launch_for_them() {
    let (world, _, clouds) = two_families().await;
    world.pool("own", |_| ());
    // It gathers pods for ten seconds, NodePools for one after the last.
    let taints = json!({"taints": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]});
    spot_pool(&world, "tainted", &taints);
    pass(30).await;
    world.deployment("web", 2, "500m", |_| ());
    let quick = until_asked(&world, 0).await;
    assert!(quick < Duration::from_secs(5), "{quick:?}");
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    let machines = world.claims().len() + world.api().list(SPOT_NODES).len();
    world.deployment("tolerant", 20, "1", |deployment| {
        deployment["spec"]["template"]["spec"]["tolerations"] =
            json!([{"key": "spot", "operator": "Exists"}]);
    });
    let patient = until_asked(&world, machines).await;
    let ten = Duration::from_secs(9)..Duration::from_secs(14);
    assert!(ten.contains(&patient), "{patient:?}");
    world.stop().await;
    clouds.abort();
}

#[tokio::test(start_paused = true)]
async fn the_gate_for_spot_to_spot_reaches_every_pool() {
    for on in [false, true] {
        let settings = Settings {
            spot_to_spot: on,
            ..Settings::default()
        };
        let world = World::with(SimCloudOptions::calm(built_in(), 1), settings).await;
        world.pool("default", |_| ());
        let pools = |world: &World| {
            let engine = world.engine.as_ref().unwrap();
            engine.context().snapshot().problem.pools
        };
        world
            .until("the pool is known", |world| pools(world).len() == 1)
            .await;
        assert_eq!(pools(&world)[0].disruption.spot_to_spot, on);
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_names_a_class_that_is_not_for_pools_says_so() {
    let world = World::start().await;
    world.pool("wrong", |pool| {
        pool["spec"]["template"]["spec"]["nodeClassRef"]["kind"] = json!("NodeSmithNodeClass");
    });
    world.pool("foreign", |pool| {
        let class = &mut pool["spec"]["template"]["spec"]["nodeClassRef"];
        class["group"] = json!("karpenter.azure.com");
        class["kind"] = json!("AKSNodeClass");
    });
    world
        .until("the pool says so", |world| {
            let pool = world.api().get(POOLS, "", "wrong").unwrap();
            let said = condition(&pool, "ValidationSucceeded");
            let message = said["message"].as_str().unwrap_or_default();
            said["status"] == "False"
                && message.contains("joiner.dev has no kind \"NodeSmithNodeClass\"")
                && message.contains("SimNodeClass, RackspaceNodeClass")
        })
        .await;
    let foreign = world.api().get(POOLS, "", "foreign").unwrap();
    assert!(
        foreign["status"].is_null(),
        "another controller's: {foreign:#}"
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_of_fixed_size_buys_no_more_than_there_is() {
    let world = World::start().await;
    let left = |count| {
        world.cloud.change(|options| {
            let types = options.catalog.types.iter_mut();
            for offering in types.flat_map(|one| &mut one.offerings) {
                offering.left = Some(count);
                offering.stock = Some("the last".into());
            }
        });
    };
    left(2);
    // The catalogue is read again.
    pass(60).await;
    world.pool("static", |pool| {
        pool["spec"] = json!({"replicas": 5, "template": pool["spec"]["template"]});
    });
    world
        .until("two are asked for", |world| world.claims().len() >= 2)
        .await;
    left(0);
    pass(300).await;
    assert_eq!(world.claims().len(), 2);
    left(7);
    world
        .until("the rest is asked for", |world| world.claims().len() == 5)
        .await;
    world.stop().await;
}

/// Decides as the core does, and the first time that a node is to go a pod comes to it meanwhile.
struct Interrupted {
    api: joiner_embedded::api::Local,
    came: AtomicBool,
}

impl Decide for Interrupted {
    fn provision(&self, problem: &Problem) -> Plan {
        Core::default().provision(problem)
    }

    fn disrupt(&self, problem: &Problem) -> Plan {
        let plan = Core::default().disrupt(problem);
        if let Some(removal) = plan.removals.first()
            && !self.came.swap(true, Ordering::SeqCst)
        {
            let pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "late", "namespace": "default"},
                "spec": {"nodeName": &*removal.node, "containers": [{
                    "name": "main", "image": "none",
                    "resources": {"requests": {"cpu": "100m"}}}]}});
            self.api.create("pods", "default", pod).unwrap();
            // Deciding goes on on a thread of its own while the watch tells the engine.
            std::thread::sleep(Duration::from_millis(200));
        }
        plan
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_a_pod_comes_to_while_its_end_is_decided_stays() {
    let mut world = World::start().await;
    world.engine.take().unwrap().stop().await;
    world.decide = Some(Arc::new(Interrupted {
        api: world.api(),
        came: AtomicBool::new(false),
    }));
    world.engine = Some(world.engine("interrupted"));
    world.pool("default", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    let node = world.api().list("nodes")[0]["metadata"]["uid"].clone();
    world.scale("web", 0);
    world
        .until("the pod has come", |world| {
            world.api().get("pods", "default", "late").is_ok()
        })
        .await;
    pass(20).await;
    let nodes = world.api().list("nodes");
    assert!(nodes.iter().any(|one| one["metadata"]["uid"] == node));
    assert!(world.api().get("pods", "default", "late").is_ok());
    let metrics = &world.engine.as_ref().unwrap().context().edge.metrics;
    let failed: u64 = ["empty", "single", "multi", ""]
        .map(|kind| {
            let consolidation_type = kind.to_owned();
            let labels = Validation { consolidation_type };
            metrics.failed_validations.get_or_create(&labels).get()
        })
        .iter()
        .sum();
    assert_eq!(failed, 1);
    world.stop().await;
}
