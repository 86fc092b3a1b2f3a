//! The engine on the embedded cluster and a simulated cloud, in virtual time.

mod world;

use std::time::Duration;

use joiner_controllers::{Mode, Settings};
use joiner_embedded::api::DeleteOptions;
use joiner_sim::clouds::sim::{SimCloudOptions, built_in};
use serde_json::json;
use world::{World, is_true, pass};

#[tokio::test(start_paused = true)]
async fn from_nothing_to_running_and_back_to_nothing() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 10, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 10)
        .await;
    let claims = world.claims();
    assert!(!claims.is_empty());
    assert!(
        claims.iter().all(|one| is_true(one, "Ready")),
        "{claims:#?}"
    );
    assert_eq!(world.cloud.machines().len(), claims.len());
    world
        .until("the pool says what it has", |world| {
            let pool = world
                .api()
                .get("nodepools.karpenter.sh", "", "default")
                .unwrap();
            pool["status"]["nodes"] == json!(claims.len()) && is_true(&pool, "Ready")
        })
        .await;
    world.scale("web", 0);
    world
        .until("everything is gone", |world| {
            world.claims().is_empty() && world.nodes() == 0
        })
        .await;
    assert!(world.cloud.machines().is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_dies_after_it_joined_and_before_it_is_used_is_replaced() {
    let world = World::start().await;
    world.pool("default", |pool| {
        let taint = json!({"key": "example.com/starting", "effect": "NoSchedule"});
        pool["spec"]["template"]["spec"]["startupTaints"] = json!([taint]);
    });
    world.deployment("web", 1, "500m", |_| ());
    let registered = |world: &World| {
        let claims = world.claims();
        let claim = claims.iter().find(|one| is_true(one, "Registered"))?;
        Some(claim["metadata"]["name"].as_str()?.to_owned())
    };
    world
        .until("a node has joined", |world| registered(world).is_some())
        .await;
    let first = registered(&world).unwrap();
    assert!(!is_true(&world.claims()[0], "Initialized"));
    world.cluster.kubelets().kill(&first);
    let mut another = |world: &World| registered(world).is_some_and(|name| name != first);
    let limit = Duration::from_hours(1);
    world
        .within(limit, "another takes its place", &mut another)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn limits_are_never_exceeded() {
    let world = World::start().await;
    world.pool("small", |pool| {
        pool["spec"]["limits"] = json!({"cpu": "8", "nodes": "3"});
    });
    world.deployment("web", 40, "900m", |_| ());
    for _ in 0..240 {
        pass(1).await;
        let claims = world.claims();
        let cpu: i64 = claims
            .iter()
            .filter_map(|one| one["status"]["capacity"]["cpu"].as_str())
            .filter_map(|text| joiner_core::quantity::parse_milli(text).ok())
            .sum();
        assert!(
            claims.len() <= 3 && cpu <= 8000,
            "{} claims, {cpu}m",
            claims.len()
        );
    }
    assert!(world.running("web") >= 6, "{}", world.running("web"));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_full_of_nodes_which_cannot_go_leaves_new_pods_to_the_next() {
    let world = World::start().await;
    world.pool("first", |pool| {
        pool["spec"]["weight"] = json!(50);
        pool["spec"]["limits"] = json!({"nodes": "1"});
    });
    world.pool("second", |_| ());
    world.deployment("held", 2, "900m", |_| ());
    let budget = json!({
        "metadata": {"name": "held", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "held"}}},
    });
    world
        .api()
        .create("poddisruptionbudgets.policy", "default", budget)
        .unwrap();
    world
        .until("its pods run", |world| world.running("held") == 2)
        .await;
    let claims = world.claims();
    assert_eq!(
        claims[0]["metadata"]["labels"]["karpenter.sh/nodepool"],
        "first"
    );
    let name = claims[0]["metadata"]["name"].as_str().unwrap();
    world
        .api()
        .delete(
            "nodeclaims.karpenter.sh",
            "",
            name,
            DeleteOptions::default(),
        )
        .unwrap();
    pass(30).await;
    world.deployment("more", 2, "900m", |_| ());
    world
        .until("new pods run", |world| world.running("more") == 2)
        .await;
    assert_eq!(world.running("held"), 2);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_plan_without_room_to_spare_is_what_the_scheduler_follows() {
    let world = World::start().await;
    world.pool("default", |pool| {
        pool["spec"]["template"]["spec"]["requirements"] = json!([
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64"]},
        ]);
    });
    // Left alone, the scheduler would spread the small pods, and no node would have room for a large one.
    world.deployment("small", 4, "1900m", |_| ());
    world.deployment("large", 2, "3800m", |_| ());
    let mut most = 0;
    world
        .until("all pods run", |world| {
            most = most.max(world.claims().len());
            world.running("small") == 4 && world.running("large") == 2
        })
        .await;
    assert_eq!(most, 4);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_shrunken_workload_moves_to_fewer_machines() {
    let world = World::start().await;
    // Spot machines are not exchanged for cheaper spot machines unless that is asked for.
    world.pool("default", |pool| {
        pool["spec"]["template"]["spec"]["requirements"] =
            json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]);
    });
    world.deployment("web", 60, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 60)
        .await;
    let price = |world: &World| -> f64 {
        world
            .cloud
            .machines()
            .iter()
            .filter_map(|one| one.price)
            .map(joiner_core::money::Money::dollars)
            .sum()
    };
    let before = price(&world);
    world.scale("web", 20);
    pass(1200).await;
    world
        .until("the rest runs", |world| world.running("web") == 20)
        .await;
    let after = price(&world);
    assert!(after < before * 0.6, "{before} -> {after}");
    let claims = world.claims();
    pass(3600).await;
    assert_eq!(
        names(&claims),
        names(&world.claims()),
        "nothing changes while nothing changes"
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn machines_that_replace_another_open_when_its_pods_wait_for_them() {
    let world = World::start().await;
    world.pool("default", |pool| {
        pool["spec"]["template"]["spec"]["requirements"] = json!([
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
            {
                "key": "node.kubernetes.io/instance-type",
                "operator": "In",
                "values": ["c-4x-amd64", "c-16x-amd64"],
            },
        ]);
    });
    world.deployment("night", 1, "8000m", |_| ());
    world.deployment("small", 2, "1900m", |_| ());
    world.deployment("large", 1, "3800m", |_| ());
    let all_run = |world: &World| world.running("small") == 2 && world.running("large") == 1;
    world.until("all pods run", all_run).await;
    assert_eq!(world.claims().len(), 1, "one machine for all");
    world.scale("night", 0);
    let kept = |world: &World| {
        let reserved = |taint: &serde_json::Value| taint["key"] == "joiner.dev/reserved";
        let nodes = world.api().list("nodes");
        let nodes = nodes.iter().filter(|node| {
            let taints = node["spec"]["taints"].as_array();
            taints.is_some_and(|taints| taints.iter().any(reserved))
        });
        nodes.count()
    };
    world.until("both are kept", |world| kept(world) == 2).await;
    let mut most = 0;
    world
        .until("its pods run on the others", |world| {
            most = most.max(world.claims().len());
            world.claims().len() == 2 && all_run(world)
        })
        .await;
    assert_eq!(kept(&world), 0);
    assert_eq!(most, 3, "nothing else was bought");
    world.stop().await;
}

fn names(claims: &[std::sync::Arc<serde_json::Value>]) -> Vec<String> {
    claims
        .iter()
        .map(|one| one["metadata"]["name"].to_string())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_killed_leader_is_followed_by_another_that_buys_nothing_twice() {
    let mut world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 10, "500m", |_| ());
    world
        .until("something is being bought", |world| {
            !world.cloud.machines().is_empty()
        })
        .await;
    let bought = world.cloud.machines().len();
    world.engine.take().unwrap().kill().await;
    pass(5).await;
    world.engine = Some(world.engine("second"));
    world
        .until("all pods run", |world| world.running("web") == 10)
        .await;
    assert_eq!(world.cloud.machines().len(), bought);
    assert_eq!(world.claims().len(), bought);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_machine_is_replaced() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 4, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 4)
        .await;
    let machine = world.cloud.machines().remove(0);
    world.cloud.interrupt(&machine.id);
    world
        .until("it is gone", |world| {
            world
                .cloud
                .machines()
                .iter()
                .all(|one| one.id != machine.id)
        })
        .await;
    world
        .until("all pods run again", |world| world.running("web") == 4)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_forbids_it_holds_the_drain_and_is_named() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .api()
        .create(
            "poddisruptionbudgets.policy",
            "default",
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "web", "namespace": "default"},
                "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}}),
        )
        .unwrap();
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    let name = world.claims()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world
        .api()
        .delete(
            "nodeclaims.karpenter.sh",
            "",
            &name,
            joiner_embedded::api::DeleteOptions::default(),
        )
        .unwrap();
    pass(120).await;
    assert_eq!(world.running("web"), 2);
    let claim = world
        .api()
        .get("nodeclaims.karpenter.sh", "", &name)
        .unwrap();
    let text = claim["status"]["conditions"].to_string();
    assert!(text.contains("PodDisruptionBudget default/web"), "{text}");
    world
        .api()
        .delete(
            "poddisruptionbudgets.policy",
            "default",
            "web",
            joiner_embedded::api::DeleteOptions::default(),
        )
        .unwrap();
    world
        .until("it is gone", |world| {
            world
                .api()
                .get("nodeclaims.karpenter.sh", "", &name)
                .is_err()
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_template_replaces_machines_before_the_old_go() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 4, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 4)
        .await;
    let old = names(&world.claims());
    let api = world.api();
    let mut pool = (*api.get("nodepools.karpenter.sh", "", "default").unwrap()).clone();
    pool["spec"]["template"]["metadata"] = json!({"labels": {"generation": "two"}});
    api.update("nodepools.karpenter.sh", pool).unwrap();
    world
        .until("the old are gone", |world| {
            let now = names(&world.claims());
            !now.is_empty() && old.iter().all(|name| !now.contains(name))
        })
        .await;
    world
        .until("all pods run", |world| world.running("web") == 4)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_keeps_its_size() {
    let world = World::start().await;
    world.pool("fixed", |pool| pool["spec"]["replicas"] = json!(3));
    world.until("three nodes", |world| world.nodes() == 3).await;
    let api = world.api();
    let mut pool = (*api.get("nodepools.karpenter.sh", "", "fixed").unwrap()).clone();
    pool["spec"]["replicas"] = json!(1);
    api.update("nodepools.karpenter.sh", pool).unwrap();
    world
        .until("one node", |world| {
            world.nodes() == 1 && world.cloud.machines().len() == 1
        })
        .await;
    pass(600).await;
    assert_eq!(world.nodes(), 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn machines_that_never_boot_are_given_up_and_paid_for_no_longer() {
    let mut options = SimCloudOptions::calm(built_in(), 3);
    options.stillborn_percent = 100;
    let world = World::with(options, Settings::default()).await;
    world.pool("default", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("something is bought", |world| {
            !world.cloud.machines().is_empty()
        })
        .await;
    let first = names(&world.claims());
    world
        .until("it is given up", |world| {
            let now = names(&world.claims());
            first.iter().all(|name| !now.contains(name))
        })
        .await;
    world.cloud.change(|options| options.stillborn_percent = 0);
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_leaked_machine_is_found_and_taken_away() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    // Somebody takes the finalizers off by force.
    let api = world.api();
    let claim = world.claims().remove(0);
    let name = claim["metadata"]["name"].as_str().unwrap().to_owned();
    api.delete(
        "nodeclaims.karpenter.sh",
        "",
        &name,
        joiner_embedded::api::DeleteOptions::default(),
    )
    .unwrap();
    let mut stripped = (*api.get("nodeclaims.karpenter.sh", "", &name).unwrap()).clone();
    stripped["metadata"]["finalizers"] = json!([]);
    api.update("nodeclaims.karpenter.sh", stripped).unwrap();
    world
        .until("the cloud has what the cluster asked for", |world| {
            world.running("web") == 2
                && world.cloud.machines().len() == world.claims().len()
                && world.nodes() == world.claims().len()
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_pool_buys_nothing() {
    let world = World::start().await;
    world.pool("default", |pool| {
        pool["metadata"]["annotations"] = json!({"joiner.dev/paused": "true"});
    });
    world.deployment("web", 2, "500m", |_| ());
    pass(300).await;
    assert!(world.claims().is_empty());
    let api = world.api();
    let mut pool = (*api.get("nodepools.karpenter.sh", "", "default").unwrap()).clone();
    pool["metadata"]["annotations"] = json!({});
    api.update("nodepools.karpenter.sh", pool).unwrap();
    world
        .within(
            Duration::from_mins(5),
            "all pods run",
            &mut |world: &World| world.running("web") == 2,
        )
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_with_a_label_of_its_own_is_not_said_to_ask_for_what_is_not_sold() {
    let world = World::start().await;
    world.pool("default", |pool| {
        let team = json!({"key": "example.com/team", "operator": "In", "values": ["red", "blue"]});
        let wanted = pool["spec"]["template"]["spec"]["requirements"].as_array_mut();
        wanted.unwrap().push(team);
    });
    world.deployment("web", 2, "500m", |web| {
        let pod = &mut web["spec"]["template"]["spec"];
        pod["nodeSelector"] = json!({"example.com/team": "red"});
    });
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    pass(60).await;
    let pool = world.api().get("nodepools.karpenter.sh", "", "default");
    let pool = pool.unwrap();
    let conditions = pool["status"]["conditions"].as_array().unwrap();
    let missing =
        |one: &&serde_json::Value| one["type"] == "CapacityAvailable" && one["status"] == "False";
    assert_eq!(conditions.iter().find(missing), None);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_written() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 6, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 6)
        .await;
    pass(1800).await;
    let state = |world: &World| -> Vec<String> {
        let api = world.api();
        let all = [
            "nodeclaims.karpenter.sh",
            "nodepools.karpenter.sh",
            "events",
        ];
        all.iter()
            .flat_map(|kind| api.list(kind))
            .map(|one| {
                format!(
                    "{}{}",
                    one["metadata"]["name"], one["metadata"]["resourceVersion"]
                )
            })
            .collect()
    };
    let before = state(&world);
    pass(3600).await;
    assert_eq!(before, state(&world));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_one_of_two_engines_acts() {
    let mut world = World::start().await;
    let second = world.engine("second");
    world.pool("default", |_| ());
    world.deployment("web", 10, "500m", |_| ());
    for _ in 0..60 {
        pass(1).await;
        let leaders = [world.engine.as_ref().unwrap(), &second]
            .iter()
            .filter(|engine| engine.context().edge.clients.fence.holds())
            .count();
        assert!(leaders <= 1, "two may write at once");
    }
    world
        .until("all pods run", |world| world.running("web") == 10)
        .await;
    let bought = world.cloud.machines().len();
    // The first gives its lease back: the second need not wait for it to run out.
    world.engine.take().unwrap().stop().await;
    pass(10).await;
    assert!(second.leading());
    assert_eq!(world.cloud.machines().len(), bought);
    world.engine = Some(second);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_is_replaced_at_leisure_before_it_expires() {
    let world = World::start().await;
    world.pool("default", |pool| {
        pool["metadata"]["annotations"] = json!({"joiner.dev/expire-window": "12h"});
        pool["spec"]["template"]["spec"]["expireAfter"] = json!("24h");
    });
    world.deployment("web", 4, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 4)
        .await;
    let old = names(&world.claims());
    pass(13 * 3600).await;
    world
        .until("the old are gone", |world| {
            let now = names(&world.claims());
            !now.is_empty()
                && old.iter().all(|name| !now.contains(name))
                && world.running("web") == 4
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn foreign_nodes_are_used_and_never_touched() {
    let world = World::start().await;
    world
        .cluster
        .kubelets()
        .boot(joiner_embedded::cluster::kubelet::NodeSpec::named("theirs"));
    world.until("it is there", |world| world.nodes() == 1).await;
    world.pool("default", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    world.scale("web", 0);
    pass(3600).await;
    let node = world.api().get("nodes", "", "theirs").unwrap();
    assert!(
        node["metadata"]["finalizers"].is_null() && node["metadata"]["ownerReferences"].is_null()
    );
    assert!(world.claims().is_empty());
    world.stop().await;
}

/// A rolling update needs room for its surge and nothing else: what it takes away makes room for what comes.
#[tokio::test(start_paused = true)]
async fn a_rolling_update_launches_no_more_than_its_surge_needs() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 12, "500m", |deployment| {
        deployment["spec"]["strategy"] =
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    });
    world
        .until("all pods run", |world| world.running("web") == 12)
        .await;
    pass(600).await;
    let api = world.api();
    let mut seen = names(&world.claims());
    let before = seen.len();
    let mut web = (*api.get("deployments.apps", "default", "web").unwrap()).clone();
    web["spec"]["template"]["metadata"]["annotations"] = json!({"version": "2"});
    api.update("deployments.apps", web).unwrap();
    for _ in 0..900 {
        pass(1).await;
        for name in names(&world.claims()) {
            if !seen.contains(&name) {
                seen.push(name);
            }
        }
    }
    assert_eq!(world.running("web"), 12);
    assert!(
        seen.len() <= before + 1,
        "{} machines were launched for a surge of one pod: {seen:?}",
        seen.len() - before
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_only_observes_writes_nothing_but_events() {
    let settings = Settings {
        mode: Mode::ObserveOnly,
        ..Settings::default()
    };
    let world = World::with(SimCloudOptions::calm(built_in(), 1), settings).await;
    world.pool("default", |_| ());
    world.pool("fixed", |pool| pool["spec"]["replicas"] = json!(2));
    world.deployment("web", 2, "500m", |_| ());
    pass(5).await;
    let versions = |world: &World| -> Vec<serde_json::Value> {
        let kinds = [
            "nodepools.karpenter.sh",
            "simnodeclasses.joiner.dev",
            "pods",
        ];
        let all = kinds.iter().flat_map(|kind| world.api().list(kind));
        all.map(|one| one["metadata"]["resourceVersion"].clone())
            .collect()
    };
    let before = versions(&world);
    pass(600).await;
    assert_eq!(versions(&world), before);
    assert!(world.claims().is_empty());
    assert!(world.cloud.machines().is_empty());
    let api = world.api();
    let pools = api.list("nodepools.karpenter.sh");
    assert!(
        pools.iter().all(|one| one["status"].is_null()),
        "{pools:#?}"
    );
    world.stop().await;
}
