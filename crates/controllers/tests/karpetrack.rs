//! Karpetrack's promises on the embedded cluster and the simulated Rackspace Spot, in virtual time.

mod spot;

use std::collections::BTreeSet;
use std::sync::Arc;

use joiner_controllers::dialects::karpetrack::KarpetrackOptions;
use joiner_embedded::api::DeleteOptions;
use joiner_sim::clouds::rackspace::CallFault;
use serde_json::{Value, json};
use spot::{NODES, POOLS, World, minutes, phase, quick};

#[tokio::test(start_paused = true)]
async fn kt_01_pods_that_wait_get_the_cheapest_servers_and_the_servers_go_with_them() {
    let world = World::start();
    world.pool("default", json!({}));
    world.deployment("web", 6, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 6)
        .await;
    // Three cores and a little: the cheapest that is sold for it is one server of four cores for 1.1 cents.
    let node = world.only();
    assert_eq!(node["spec"]["instanceType"], "ch.vs1.large-ord");
    assert_eq!(node["spec"]["region"], "us-central-ord-1");
    assert_eq!(phase(&node), "Running");
    assert_eq!(node["status"]["pricePerHour"], "0.011000");
    let name = node["status"]["nodeName"].as_str().unwrap();
    let kubernetes = world.api().get("nodes", "", name).unwrap();
    let labels = &kubernetes["metadata"]["labels"];
    assert_eq!(labels["karpetrack.io/nodepool"], "default");
    assert_eq!(labels["karpetrack.io/category"], "compute-heavy");
    assert_eq!(labels["karpetrack.io/managed"], "true");
    assert_eq!(labels["karpenter.sh/nodepool"], "default");
    assert_eq!(labels["karpenter.sh/capacity-type"], "spot");
    world
        .until("the pool says what it has", |world| {
            let pool = world.api().get(POOLS, "", "default").unwrap();
            pool["status"]["nodeCount"] == 1
                && pool["status"]["pricePerHour"] == "0.011000"
                && pool["status"]["resources"]["cpu"] == "4"
        })
        .await;
    world.scale("web", 0);
    world
        .until("everything is given back", |world| {
            world.spot_nodes().is_empty() && world.cloud.pools().is_empty()
        })
        .await;
    assert!(world.api().list("nodes").is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_02_pods_that_come_within_the_window_are_planned_together() {
    let world = World::start();
    world.pool("default", json!({}));
    minutes(2).await;
    for number in 0..8 {
        world.deployment(&format!("web-{number}"), 1, "400m", |_| ());
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    assert!(world.spot_nodes().is_empty(), "the window is still open");
    world
        .until("it is bought", |world| !world.spot_nodes().is_empty())
        .await;
    minutes(1).await;
    assert_eq!(world.spot_nodes().len(), 1, "one server for all of them");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_03_a_node_makes_way_for_one_that_saves_a_fifth_and_its_pods_never_wait() {
    let world = World::start();
    world.pool("default", json!({}));
    world.deployment("web", 3, "1", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 3)
        .await;
    let first = world.only();
    let name = first["metadata"]["name"].clone();
    assert_eq!(first["spec"]["instanceType"], "ch.vs1.large-ord");
    // 11 against 12 is not worth it, 14 against 12 is not quite.
    for mills in [12, 14] {
        world.reprice("ch.vs1.large-ord", mills);
        minutes(30).await;
        assert_eq!(world.only()["metadata"]["name"], name, "{mills}");
    }
    assert_eq!(world.only()["status"]["pricePerHour"], "0.014000");
    world.reprice("ch.vs1.large-ord", 19);
    let mut least = usize::MAX;
    world
        .until("another has taken its place", |world| {
            least = least.min(world.running("web"));
            let nodes = world.spot_nodes();
            nodes.len() == 1 && nodes[0]["metadata"]["name"] != name
        })
        .await;
    assert_eq!(world.only()["spec"]["instanceType"], "gp.vs1.large-ord");
    assert_eq!(
        world.only()["metadata"]["labels"]["karpetrack.io/reason"],
        "price-optimization"
    );
    world
        .until("all pods run again", |world| world.running("web") == 3)
        .await;
    let old = name.as_str().unwrap();
    let told = world.events(old);
    let reasons: BTreeSet<&str> = told.iter().map(|(reason, _)| reason.as_str()).collect();
    for expected in [
        "Provisioning",
        "NodeReady",
        "Replacing",
        "ScalingDown",
        "Draining",
    ] {
        assert!(reasons.contains(expected), "no {expected} in {told:#?}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_03_all_that_pays_is_replaced_at_once_and_drained_one_after_another() {
    let world = World::start();
    for (class, mills) in [
        ("ch.vs1.medium-ord", 30),
        ("gp.vs1.medium-ord", 30),
        ("gp.vs1.large-ord", 50),
        ("ch.vs1.xlarge-ord", 100),
        ("gp.vs1.xlarge-ord", 100),
        ("ch.vs1.2xlarge-ord", 200),
        ("gp.vs1.2xlarge-ord", 200),
    ] {
        world.reprice(class, mills);
    }
    world.pool("default", json!({"categories": ["ch", "gp"]}));
    world.deployment("web", 9, "1100m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 9)
        .await;
    let classes = |world: &World| -> Vec<String> {
        let nodes = world.spot_nodes();
        let class = |one: &Arc<Value>| one["spec"]["instanceType"].as_str().unwrap().to_owned();
        nodes.iter().map(class).collect()
    };
    assert_eq!(classes(&world), ["ch.vs1.large-ord"; 3]);
    minutes(15).await;
    world.reprice("ch.vs1.large-ord", 20);
    world.reprice("gp.vs1.large-ord", 12);
    let (mut most, mut draining, mut least) = (0, 0, usize::MAX);
    world
        .until("three others have taken their place", |world| {
            let nodes = world.spot_nodes();
            most = most.max(nodes.len());
            let leaving = nodes.iter().filter(|one| phase(one) == "Draining");
            draining = draining.max(leaving.count());
            least = least.min(world.running("web"));
            classes(world) == ["gp.vs1.large-ord"; 3]
        })
        .await;
    assert_eq!((most, draining), (6, 1));
    assert!(least >= 6, "only {least} of 9 pods ran");
    world
        .until("all pods run again", |world| world.running("web") == 9)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_04_empty_nodes_go_after_their_grace_and_not_before() {
    let world = World::start();
    world.pool("default", json!({}));
    world.deployment("web", 3, "1", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 3)
        .await;
    world.scale("web", 0);
    minutes(4).await;
    assert_eq!(world.spot_nodes().len(), 1, "five minutes are not over");
    minutes(4).await;
    assert!(world.spot_nodes().is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_04_without_consolidation_nothing_is_taken_away() {
    let mut options = KarpetrackOptions::new("demo");
    options.consolidation = false;
    let world = World::with(quick(), options);
    world.pool(
        "default",
        json!({"disruption": {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "1m"}}),
    );
    world.deployment("web", 3, "1", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 3)
        .await;
    world.scale("web", 0);
    minutes(60).await;
    assert_eq!(world.spot_nodes().len(), 1);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_04_underused_nodes_go_where_the_pool_says_so() {
    let world = World::start();
    world.pool(
        "default",
        json!({"disruption": {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "5m"}}),
    );
    world.deployment("web", 40, "900m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 40)
        .await;
    let many = world.spot_nodes().len();
    world.scale("web", 6);
    world
        .until("few servers are left", |world| {
            world.spot_nodes().len() <= 2 && world.running("web") == 6
        })
        .await;
    assert!(many > 2, "{many}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_05_regions_that_the_cloudspace_is_not_in_are_named_and_nothing_is_bought() {
    let world = World::start();
    world.pool(
        "far",
        json!({"regions": ["us-east-iad-1", "us-central-dfw-1"]}),
    );
    world.deployment("web", 1, "500m", |_| ());
    world
        .until("the pool says why", |world| {
            world
                .condition("far", "CapacityAvailable")
                .is_some_and(|(status, reason, _)| {
                    status == "False" && reason == "NoMatchingOffering"
                })
        })
        .await;
    let (_, _, said) = world.condition("far", "CapacityAvailable").unwrap();
    assert!(
        said.contains("spec.regions")
            && said.contains("us-east-iad-1")
            && said.contains("us-central-ord-1"),
        "{said}"
    );
    assert!(
        world
            .events("far")
            .iter()
            .any(|(reason, _)| reason == "ProvisioningFailed")
    );
    assert!(world.spot_nodes().is_empty());
    // One of several regions is enough, and none listed means all.
    world.change_pool("far", |spec| {
        spec["regions"] = json!(["us-east-iad-1", "us-central-ord-1"]);
    });
    world
        .until("it runs", |world| world.running("web") == 1)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_06_categories_are_kept_to_by_short_and_long_names() {
    let world = World::start();
    world.pool(
        "memory",
        json!({"categories": ["Memory Heavy"], "labels": {"of": "memory"}}),
    );
    world.pool(
        "general",
        json!({"categories": ["gp"], "labels": {"of": "general"}}),
    );
    for pool in ["memory", "general"] {
        world.deployment(pool, 1, "1", |deployment| {
            deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({"of": pool});
        });
    }
    world
        .until("both run", |world| {
            world.running("memory") + world.running("general") == 2
        })
        .await;
    for node in world.spot_nodes() {
        let category = match node["spec"]["nodePoolRef"].as_str().unwrap() {
            "memory" => "mh.",
            _ => "gp.",
        };
        assert!(
            node["spec"]["instanceType"]
                .as_str()
                .unwrap()
                .starts_with(category),
            "{node:#}"
        );
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_08_a_spot_node_goes_through_its_phases_and_deleting_it_gives_the_server_back() {
    let world = World::start();
    world.pool("default", json!({}));
    world.deployment("web", 3, "1", |_| ());
    let mut seen: Vec<String> = Vec::new();
    let mut note = |world: &World| {
        for node in world.spot_nodes() {
            let phase = phase(&node).to_owned();
            if !phase.is_empty() && seen.last() != Some(&phase) {
                seen.push(phase);
            }
        }
    };
    world
        .until("all pods run", |world| {
            note(world);
            world.running("web") == 3
        })
        .await;
    let node = world.only();
    assert_eq!(
        node["metadata"]["finalizers"],
        json!(["karpetrack.io/spotnode"])
    );
    let name = node["metadata"]["name"].as_str().unwrap().to_owned();
    world.pool("other", json!({"categories": ["mh"]}));
    world
        .api()
        .delete(NODES, "", &name, DeleteOptions::default())
        .unwrap();
    let mut draining = Vec::new();
    world
        .until("it is gone", |world| {
            if let Ok(node) = world.api().get(NODES, "", &name) {
                let phase = phase(&node).to_owned();
                if draining.last() != Some(&phase) {
                    draining.push(phase);
                }
                return false;
            }
            true
        })
        .await;
    assert_eq!(seen, ["Provisioning", "Running"]);
    assert!(
        draining.ends_with(&["Draining".to_owned(), "Terminating".to_owned()]),
        "{draining:?}"
    );
    world
        .until("its pods run elsewhere", |world| world.running("web") == 3)
        .await;
    minutes(5).await;
    assert_eq!(
        world.cloud.pools().len(),
        world.spot_nodes().len(),
        "nothing leaks"
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_08_deleting_a_spot_node_whose_server_has_not_come_leaks_nothing() {
    let world = World::start();
    world.pool("default", json!({}));
    world.deployment("web", 1, "1", |_| ());
    world
        .until("a bid is made", |world| !world.cloud.pools().is_empty())
        .await;
    let name = world.only()["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.scale("web", 0);
    world
        .api()
        .delete(NODES, "", &name, DeleteOptions::default())
        .unwrap();
    world
        .until("all is gone", |world| {
            world.spot_nodes().is_empty() && world.cloud.pools().is_empty()
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_09_no_server_is_bid_for_above_the_highest_price() {
    let world = World::start();
    world.pool("cheap", json!({"maxPrice": "0.02"}));
    world.deployment("web", 3, "1", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 3)
        .await;
    for pool in world.cloud.pools() {
        let bid: f64 = pool["spec"]["bidPrice"].as_str().unwrap().parse().unwrap();
        assert!(bid <= 0.02, "{pool:#}");
    }
    assert_eq!(world.only()["spec"]["bidPrice"], "0.020");
    // Where nothing is so cheap the pool says so, and what runs goes on running.
    world.change_pool("cheap", |spec| spec["maxPrice"] = json!("0.005"));
    let says = |world: &World, status: &str| {
        let found = world.condition("cheap", "CapacityAvailable");
        found.is_some_and(|one| one.0 == status && (status == "True" || one.1 == "AboveMaxPrice"))
    };
    world
        .until("the pool says that nothing is so cheap", |world| {
            says(world, "False")
        })
        .await;
    minutes(30).await;
    assert_eq!(world.running("web"), 3);
    world.change_pool("cheap", |spec| spec["maxPrice"] = json!("0.02"));
    world
        .until("it is well again", |world| says(world, "True"))
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_09_limits_labels_and_taints_are_kept() {
    let world = World::start();
    world.pool(
        "small",
        json!({
            "limits": {"cpu": "8", "memory": "64Gi"},
            "labels": {"team": "platform"},
            "taints": [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
        }),
    );
    world.deployment("web", 20, "900m", |deployment| {
        deployment["spec"]["template"]["spec"]["tolerations"] =
            json!([{"key": "dedicated", "operator": "Exists"}]);
    });
    for _ in 0..60 {
        minutes(1).await;
        let cpu: i64 = world
            .spot_nodes()
            .iter()
            .filter_map(|one| {
                one["spec"]["resources"]["cpu"]
                    .as_str()?
                    .parse::<i64>()
                    .ok()
            })
            .sum();
        assert!(cpu <= 8, "{cpu}");
    }
    assert!(world.running("web") >= 6, "{}", world.running("web"));
    for node in world.api().list("nodes") {
        assert_eq!(node["metadata"]["labels"]["team"], "platform");
        let taints = node["spec"]["taints"].as_array().unwrap();
        let own = taints
            .iter()
            .filter(|one| one["key"] == "dedicated")
            .count();
        assert_eq!(own, 1, "{taints:?}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_09_old_nodes_are_replaced_before_they_go() {
    let world = World::start();
    world.pool("default", json!({"disruption": {"expireAfter": "2h"}}));
    world.deployment("web", 3, "1", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 3)
        .await;
    let name = world.only()["metadata"]["name"].clone();
    minutes(100).await;
    assert_eq!(
        world.only()["metadata"]["name"],
        name,
        "it is not that old yet"
    );
    let mut least = usize::MAX;
    world
        .until("another has taken its place", |world| {
            least = least.min(world.running("web"));
            let nodes = world.spot_nodes();
            nodes.len() == 1 && nodes[0]["metadata"]["name"] != name
        })
        .await;
    world
        .until("all pods run again", |world| world.running("web") == 3)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_13_who_takes_over_from_a_dead_leader_buys_nothing_twice() {
    let mut world = World::start();
    world.pool("default", json!({}));
    world.deployment("web", 10, "500m", |_| ());
    world
        .until("bids are made", |world| !world.cloud.pools().is_empty())
        .await;
    let bids = world.cloud.pools().len();
    world.engine.take().unwrap().kill().await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    world.engine = Some(world.engine("second"));
    world
        .until("all pods run", |world| world.running("web") == 10)
        .await;
    assert_eq!(world.cloud.pools().len(), bids);
    assert_eq!(world.spot_nodes().len(), bids);
    world.stop().await;
}

/// A word of the pool's conditions, and what heals it.
async fn breaks_and_heals(world: &World, kind: &str, words: &[&str], heal: impl FnOnce(&World)) {
    world
        .until("the pool says what is wrong", |world| {
            world
                .condition("default", kind)
                .is_some_and(|(status, _, said)| {
                    status == "False" && words.iter().all(|word| said.contains(word))
                })
        })
        .await;
    heal(world);
    world
        .until("it is well again", |world| {
            world
                .condition("default", kind)
                .is_some_and(|one| one.0 == "True")
        })
        .await;
    assert!(
        world
            .events("default")
            .iter()
            .any(|(reason, _)| reason == "Recovered")
    );
}

#[tokio::test(start_paused = true)]
async fn kt_18_a_feed_that_is_down_shows_and_neither_empties_nor_dooms_the_cluster() {
    for fault in [
        CallFault::Refused(503, None),
        CallFault::Says(200, "<html>We will be back</html>".to_owned()),
        CallFault::Says(200, "{\"regions\": {}}".to_owned()),
    ] {
        let world = World::start();
        world.pool("default", json!({}));
        world.deployment("web", 3, "1", |_| ());
        world
            .until("all pods run", |world| world.running("web") == 3)
            .await;
        let name = world.only()["metadata"]["name"].clone();
        world.cloud.fail("GET /percentiles.json", fault, u32::MAX);
        world
            .until("the pool says so", |world| {
                world
                    .condition("default", "CatalogCurrent")
                    .is_some_and(|one| one.0 == "False" && one.2.contains("price feed"))
            })
            .await;
        // The prices of the classes themselves are enough to go on buying.
        world.deployment("more", 8, "1", |_| ());
        world
            .until("more runs", |world| world.running("more") == 8)
            .await;
        let names: Vec<_> = world
            .spot_nodes()
            .iter()
            .map(|one| one["metadata"]["name"].clone())
            .collect();
        assert!(names.contains(&name), "nothing was taken away");
        breaks_and_heals(&world, "CatalogCurrent", &["price feed"], |world| {
            world.cloud.forgive();
        })
        .await;
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_revoked_token_shows_spends_nothing_and_heals() {
    let world = World::start();
    world.pool("default", json!({}));
    world.deployment("web", 3, "1", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 3)
        .await;
    world
        .cloud
        .change(|options| options.refresh_token = "another".to_owned());
    world.cloud.revoke_tokens();
    world
        .until("the pool says so", |world| {
            world
                .condition("default", "Ready")
                .is_some_and(|one| one.0 == "False")
        })
        .await;
    let (_, _, said) = world.condition("default", "NodeClassReady").unwrap();
    assert!(
        said.contains("refresh token was not accepted") && said.contains("console"),
        "{said}"
    );
    assert!(!said.contains("sim-refresh-token"), "{said}");
    world.deployment("more", 8, "1", |_| ());
    minutes(10).await;
    assert_eq!(
        world.spot_nodes().len(),
        1,
        "nothing is asked for that cannot be bought"
    );
    assert_eq!(world.running("web"), 3, "what is there stays");
    breaks_and_heals(&world, "NodeClassReady", &["refresh token"], |world| {
        world
            .cloud
            .change(|options| options.refresh_token = "sim-refresh-token".to_owned());
    })
    .await;
    world
        .until("more runs", |world| world.running("more") == 8)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_quota_shows_and_heals() {
    let mut cloud = quick();
    cloud.max_pools = 1;
    let world = World::with(cloud, KarpetrackOptions::new("demo"));
    world.pool("default", json!({"limits": {"cpu": "64"}}));
    world.deployment("web", 30, "1", |_| ());
    world
        .until("the pool says so", |world| {
            world
                .condition("default", "CapacityAvailable")
                .is_some_and(|(status, _, said)| {
                    status == "False" && said.contains("maximum number of 1 servers")
                })
        })
        .await;
    assert_eq!(world.cloud.pools().len(), 1);
    world.cloud.change(|options| options.max_pools = 150);
    world
        .until("all pods run", |world| world.running("web") == 30)
        .await;
    world
        .until("the pool is well", |world| {
            world
                .condition("default", "CapacityAvailable")
                .is_some_and(|one| one.0 == "True")
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_cloudspace_that_is_not_there_is_named() {
    let world = World::with(quick(), KarpetrackOptions::new("nowhere"));
    world.pool("default", json!({}));
    world.deployment("web", 1, "1", |_| ());
    breaks_and_heals(
        &world,
        "NodeClassReady",
        &["no cloudspace \"nowhere\""],
        |world| {
            world
                .cloud
                .change(|options| options.cloudspace = "nowhere".to_owned());
        },
    )
    .await;
    world
        .until("it runs", |world| world.running("web") == 1)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bid_that_is_never_decided_makes_way_for_another_class() {
    let world = World::start();
    world.pool("default", json!({}));
    // The cheapest has nothing left, though its class says otherwise: bids on it stay undecided.
    world
        .cloud
        .change_class("ch.vs1.large-ord", |class| class.stuck = true);
    world.deployment("web", 3, "1", |_| ());
    world
        .until("a bid is made", |world| !world.cloud.pools().is_empty())
        .await;
    assert_eq!(world.only()["spec"]["instanceType"], "ch.vs1.large-ord");
    world
        .until("the pods run on another class", |world| {
            world.running("web") == 3
        })
        .await;
    assert_ne!(world.only()["spec"]["instanceType"], "ch.vs1.large-ord");
    assert_eq!(
        world.cloud.pools().len(),
        1,
        "the undecided bid was taken back"
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_can_ask_for_the_labels_of_the_document() {
    let world = World::start();
    world.pool("default", json!({}));
    world.deployment("web", 1, "1", |deployment| {
        deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({
            "karpetrack.io/nodepool": "default",
            "karpetrack.io/category": "memory-heavy",
        });
    });
    world
        .until("it runs", |world| world.running("web") == 1)
        .await;
    assert!(
        world.only()["spec"]["instanceType"]
            .as_str()
            .unwrap()
            .starts_with("mh.")
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changed_labels_replace_nodes_and_rewritten_manifests_do_not() {
    let world = World::start();
    world.pool("default", json!({"labels": {"team": "a"}, "regions": []}));
    world.deployment("web", 3, "1", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 3)
        .await;
    let name = world.only()["metadata"]["name"].clone();
    world.change_pool("default", |spec| {
        spec["limits"] = json!({"cpu": "50"});
    });
    minutes(30).await;
    assert_eq!(world.only()["metadata"]["name"], name);
    world.change_pool("default", |spec| spec["labels"] = json!({"team": "b"}));
    world
        .until("another has taken its place", |world| {
            let nodes = world.spot_nodes();
            nodes.len() == 1 && nodes[0]["metadata"]["name"] != name
        })
        .await;
    assert_eq!(world.only()["metadata"]["labels"]["team"], "b");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn kt_17_one_large_server_or_several_small_ones_whichever_is_cheaper() {
    for (large, expected) in [
        (15, vec!["ch.vs1.xlarge-ord"]),
        (60, vec!["ch.vs1.large-ord"; 2]),
    ] {
        let world = World::start();
        world.reprice("ch.vs1.xlarge-ord", large);
        world.pool("default", json!({"categories": ["ch"]}));
        world.deployment("web", 6, "1100m", |_| ());
        world
            .until("all pods run", |world| world.running("web") == 6)
            .await;
        let bought: Vec<String> = world
            .spot_nodes()
            .iter()
            .map(|one| one["spec"]["instanceType"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(bought, expected, "with {large} mills for eight cores");
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_maximum_is_refused_where_the_original_took_it_for_no_limit() {
    let world = World::start();
    let pool = json!({"apiVersion": "karpetrack.io/v1alpha1", "kind": "SpotNodePool",
        "metadata": {"name": "wrong"}, "spec": {"maxPrice": "half a dollar"}});
    let refused = world.api().create(POOLS, "", pool).unwrap_err().to_string();
    assert!(
        refused.contains("spec.maxPrice") && refused.contains("half a dollar"),
        "{refused}"
    );
    world.stop().await;
}
