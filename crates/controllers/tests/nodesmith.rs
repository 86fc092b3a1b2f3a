//! KubeNodeSmith's promises on the embedded cluster and a simulated cloud, in virtual time.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod forge;

use std::time::Duration;

use forge::{CLAIMS, NAMESPACE, PLANES, POOLS, PROVIDERS, World, condition, pass};
use joiner_core::quantity::{parse, parse_milli};
use joiner_embedded::api::DeleteOptions;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn ns_02_only_pools_that_a_control_plane_of_their_namespace_names_are_managed() {
    let world = World::start();
    world.pool(NAMESPACE, "small", |_| ());
    // Another namespace's control plane names its own pools only.
    world.plane("other", &["small"]);
    world.deployment("web", 2, "500m", |_| ());
    pass(300).await;
    assert!(world.claims().is_empty());
    let pool = world.api().get(POOLS, NAMESPACE, "small").unwrap();
    assert!(pool["status"].is_null(), "{pool:#}");
    assert!(pool["metadata"]["finalizers"].is_null(), "{pool:#}");
    let plane = world.api().get(PLANES, "other", "plane").unwrap();
    let (status, reason, said) = condition(&plane, "Ready");
    assert_eq!((&*status, &*reason), ("False", "PoolMissing"), "{said}");

    world.plane(NAMESPACE, &["small"]);
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    world
        .until("the control plane says so", |world| {
            let plane = world.api().get(PLANES, NAMESPACE, "plane").unwrap();
            condition(&plane, "Ready").0 == "True"
        })
        .await;
    let plane = world.api().get(PLANES, NAMESPACE, "plane").unwrap();
    let (_, reason, said) = condition(&plane, "Ready");
    assert_eq!(reason, "PoolsResolved");
    assert_eq!(said, "resolved pools [small] with providers [rack]");

    // Taken off the list, its idle nodes stay and nothing is launched.
    world.change(PLANES, "plane", |spec| spec["pools"] = json!([]));
    pass(10).await;
    world.scale("web", 0);
    world.deployment("late", 200, "500m", |_| ());
    pass(600).await;
    assert_eq!(world.claims().len(), 1);
    let pool = world.api().get(POOLS, NAMESPACE, "small").unwrap();
    assert_eq!(condition(&pool, "Available").1, "NotManaged");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ns_03_a_pod_leads_to_a_claim_a_machine_and_a_node_and_the_claim_tells_how_far_it_is() {
    let world = World::start();
    world.managed("small", |_| ());
    world.deployment("web", 1, "1500m", |_| ());
    world
        .until("the pod runs", |world| world.running("web") == 1)
        .await;
    let claim = world.only();
    let name = claim["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("small-"), "{name}");
    assert_eq!(claim["metadata"]["namespace"], NAMESPACE);
    assert_eq!(claim["spec"]["poolRef"], "small");
    assert_eq!(claim["spec"]["requirements"]["cpuCores"], 2);
    assert!(claim["spec"]["requirements"]["memoryMiB"].as_i64().unwrap() >= 512);
    let finalizers = claim["metadata"]["finalizers"].as_array().unwrap();
    assert!(finalizers.contains(&json!("kubenodesmith.io/nodesmithclaim")));
    let status = &claim["status"];
    assert_eq!(status["providerRef"], "rack");
    let id = status["providerID"].as_str().unwrap();
    let node = status["nodeName"].as_str().unwrap();
    for (kind, said) in [
        ("Launched", format!("Machine provisioned: {id}")),
        ("Registered", format!("Node {node} joined cluster")),
        ("Initialized", "Node is ready".to_owned()),
        ("Ready", "Claim is fully operational".to_owned()),
    ] {
        let expected = ("True".to_owned(), kind.to_owned(), said);
        assert_eq!(condition(&claim, kind), expected);
    }
    // That no pod has come or gone for a while is said once (`Consolidatable`), and nothing that has been said is said
    // again.
    pass(120).await;
    let settled = world.only();
    assert_eq!(condition(&settled, "Consolidatable").0, "True");
    pass(600).await;
    assert_eq!(*world.only(), *settled);
    let told = world.events(&name);
    for reason in ["Launched", "Ready"] {
        let times = told.iter().filter(|(one, _)| one == reason).count();
        assert_eq!(times, 1, "{reason} in {told:#?}");
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ns_04_limits_hold_at_every_instant_and_the_least_number_of_nodes_is_kept_up() {
    let world = World::start();
    world.managed("small", |spec| {
        spec["limits"] = json!({"minNodes": 2, "maxNodes": 3, "cpuCores": 0, "memoryMiB": 40960});
    });
    world
        .until("two nodes are there without pods", |world| {
            world.nodes().len() == 2
        })
        .await;
    // Idle as they are, they stay.
    pass(1200).await;
    assert_eq!(world.nodes().len(), 2);
    world.deployment("web", 60, "900m", |_| ());
    for _ in 0..600 {
        pass(1).await;
        let claims = world.claims();
        let memory: i64 = claims
            .iter()
            .map(|one| one["spec"]["requirements"]["memoryMiB"].as_i64().unwrap())
            .sum();
        assert!(claims.len() <= 3 && memory <= 40960, "{claims:#?}");
    }
    let pool = world.api().get(POOLS, NAMESPACE, "small").unwrap();
    let (status, reason, said) = condition(&pool, "Available");
    assert_eq!((&*status, &*reason), ("False", "MaxNodesReached"), "{said}");
    assert_eq!(pool["status"]["nodes"], 3);
    let told = world.events("small");
    assert!(
        told.iter().any(|(reason, _)| reason == "ScaleUpBlocked"),
        "{told:#?}"
    );
    world.scale("web", 0);
    world
        .until("one node goes, two stay", |world| world.nodes().len() == 2)
        .await;
    pass(1200).await;
    assert_eq!(world.nodes().len(), 2);
    // One that is deleted by hand is replaced.
    let name = world.claims()[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let api = world.api();
    api.delete(CLAIMS, NAMESPACE, &name, DeleteOptions::default())
        .unwrap();
    world
        .until("another takes its place", |world| {
            let claims = world.claims();
            world.nodes().len() == 2 && claims.iter().all(|one| one["metadata"]["name"] != *name)
        })
        .await;
    world.stop().await;
}

/// What stands against the limits of a pool: claims and nodes, cores and memory of each, and claims on their way.
fn held(world: &World, pool: &str) -> [i64; 7] {
    let of_pool = |object: &&std::sync::Arc<serde_json::Value>| {
        object["metadata"]["labels"]["topology.kubenodesmith.io/pool"] == pool
    };
    let (claims, nodes) = (world.claims(), world.nodes());
    let claims = || claims.iter().filter(of_pool);
    let nodes = || nodes.iter().filter(of_pool);
    let required = |key: &str| -> i64 {
        let all = claims().filter_map(|one| one["spec"]["requirements"][key].as_i64());
        all.sum()
    };
    let capacity = |key: &str| -> i64 {
        let all = nodes().map(|one| {
            let text = one["status"]["capacity"][key].as_str().unwrap();
            match key {
                "cpu" => parse_milli(text).unwrap() / 1000,
                _ => parse(text).unwrap() >> 20,
            }
        });
        all.sum()
    };
    let begun = claims().filter(|one| condition(one, "Registered").0 != "True");
    [
        i64::try_from(claims().count()).unwrap(),
        i64::try_from(nodes().count()).unwrap(),
        required("cpuCores"),
        required("memoryMiB"),
        capacity("cpu"),
        capacity("memory"),
        i64::try_from(begun.count()).unwrap(),
    ]
}

#[tokio::test(start_paused = true)]
async fn ns_04_limits_on_cores_memory_and_nodes_hold_together_while_claims_are_on_their_way() {
    let world = World::start();
    world.plane(NAMESPACE, &["large", "small"]);
    // Of one pool the cores are used up first, of the other the memory.
    let limits = [("large", [9, 12, 131_072]), ("small", [9, 64, 20_480])];
    for (pool, [nodes, cores, memory]) in limits {
        world.pool(NAMESPACE, pool, |spec| {
            spec["limits"] = json!({"minNodes": 1, "maxNodes": nodes, "cpuCores": cores, "memoryMiB": memory});
        });
        // Pods that stay apart need machines of their own, all at once.
        world.deployment(pool, 12, "1500m", |deployment| {
            let pod = &mut deployment["spec"]["template"]["spec"];
            pod["nodeSelector"] = json!({"topology.kubenodesmith.io/pool": pool});
            pod["containers"][0]["resources"]["requests"]["memory"] = json!("3Gi");
            pod["affinity"] = json!({"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": {"app": pool}},
            }]}});
        });
    }
    let mut at_once = [0; 2];
    let check = |at_once: &mut [i64; 2]| {
        for ((pool, [nodes, cores, memory]), most) in limits.into_iter().zip(at_once) {
            let held = held(&world, pool);
            let [claims, here, required, wanted, cpu, bytes, begun] = held;
            let within = claims <= nodes
                && here <= nodes
                && required.max(cpu) <= cores
                && wanted.max(bytes) <= memory;
            assert!(within, "{pool}: {held:?}");
            *most = begun.max(*most);
        }
    };
    for _ in 0..1200 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        check(&mut at_once);
    }
    assert!(at_once.iter().all(|most| *most >= 3), "{at_once:?}");
    for (pool, _) in limits {
        assert!(world.running(pool) >= 3, "{pool}: {}", world.running(pool));
        let object = world.api().get(POOLS, NAMESPACE, pool).unwrap();
        let (status, reason, said) = condition(&object, "Available");
        assert_eq!(
            (&*status, &*reason),
            ("False", "ResourceLimitReached"),
            "{pool}: {said}"
        );
    }
    // Nodes that are replaced count as well: two are deleted by hand at once.
    for claim in world.claims().iter().take(2) {
        let name = claim["metadata"]["name"].as_str().unwrap();
        let api = world.api();
        api.delete(CLAIMS, NAMESPACE, name, DeleteOptions::default())
            .unwrap();
    }
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        check(&mut at_once);
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ns_05_pods_wait_for_the_window_up_and_idle_nodes_for_the_window_down() {
    let world = World::start();
    world.managed("small", |spec| {
        spec["scaleUp"] = json!({"stabilizationWindow": "2m"});
        spec["scaleDown"] = json!({"stabilizationWindow": "5m"});
    });
    pass(30).await;
    world.deployment("web", 1, "500m", |_| ());
    pass(110).await;
    assert!(world.claims().is_empty(), "the window is still open");
    // What comes meanwhile is served together.
    world.deployment("more", 2, "500m", |_| ());
    world
        .within(Duration::from_secs(40), "it is asked for", |world| {
            !world.claims().is_empty()
        })
        .await;
    world
        .until("all pods run", |world| {
            world.running("web") == 1 && world.running("more") == 2
        })
        .await;
    assert_eq!(world.claims().len(), 1);
    world.scale("web", 0);
    world.scale("more", 0);
    pass(280).await;
    assert!(world.only()["metadata"]["deletionTimestamp"].is_null());
    world
        .within(Duration::from_secs(90), "the idle node goes", |world| {
            world.claims().is_empty()
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ns_06_nodes_carry_the_labels_of_the_template_and_of_the_pool() {
    let world = World::start();
    world.managed("small", |spec| {
        spec["machineTemplate"] = json!({
            "labels": {"node-role.kubernetes.io/worker": "", "team": "shop"},
            "annotations": {"example.com/rack": "7"},
            "taints": [{"key": "own", "value": "hardware", "effect": "NoSchedule"}],
        });
    });
    world.deployment("web", 1, "500m", |deployment| {
        let pod = &mut deployment["spec"]["template"]["spec"];
        pod["nodeSelector"] = json!({"topology.kubenodesmith.io/pool": "small", "team": "shop"});
        pod["tolerations"] = json!([{"key": "own", "operator": "Exists"}]);
        // Such as pods that must not go to nodes of another autoscaler.
        let without = json!([{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]);
        pod["affinity"] = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": without}]}}});
    });
    world
        .until("the pod runs", |world| world.running("web") == 1)
        .await;
    let node = &world.nodes()[0];
    let labels = &node["metadata"]["labels"];
    assert_eq!(labels["topology.kubenodesmith.io/pool"], "small");
    assert_eq!(labels["node-role.kubernetes.io/worker"], "");
    assert_eq!(labels["team"], "shop");
    let claim = world.only();
    assert_eq!(
        labels["kubenodesmith.io/nodeclaim"],
        claim["metadata"]["name"]
    );
    assert!(labels["karpenter.sh/nodepool"].is_null(), "{labels:#}");
    let notes = &node["metadata"]["annotations"];
    assert_eq!(notes["example.com/rack"], "7");
    assert_eq!(notes["joiner.dev/machine-uid"], claim["metadata"]["uid"]);
    // A claim has a namespace and cannot own a node that has none.
    assert!(node["metadata"]["ownerReferences"].is_null());
    assert_eq!(
        claim["metadata"]["labels"]["topology.kubenodesmith.io/pool"],
        "small"
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ns_08_a_provider_that_cannot_be_used_says_why_wherever_users_look() {
    let world = World::start();
    world.provider(NAMESPACE, "broken");
    world.managed("small", |spec| spec["providerRef"] = json!("broken"));
    world.deployment("web", 1, "500m", |_| ());
    world
        .until("the control plane says so", |world| {
            let plane = world.api().get(PLANES, NAMESPACE, "plane").unwrap();
            condition(&plane, "Ready").1 == "ProviderInitializationFailed"
        })
        .await;
    let said = |object: &serde_json::Value, kind: &str| condition(object, kind).2;
    let key = "has no key \"PROXMOX_SECRET\"";
    let api = world.api();
    let plane = api.get(PLANES, NAMESPACE, "plane").unwrap();
    assert!(said(&plane, "Ready").contains(key));
    let provider = api.get(PROVIDERS, NAMESPACE, "broken").unwrap();
    assert!(said(&provider, "Ready").contains(key), "{provider:#}");
    assert_eq!(provider["status"]["observedGeneration"], 1);
    let pool = api.get(POOLS, NAMESPACE, "small").unwrap();
    assert_eq!(condition(&pool, "Available").0, "False");
    assert!(said(&pool, "Available").contains(key), "{pool:#}");
    let told = world.events("small");
    assert!(
        told.iter().any(|(reason, _)| reason == "ProviderNotReady"),
        "{told:#?}"
    );
    // Mended, it goes on by itself.
    world.change(POOLS, "small", |spec| spec["providerRef"] = json!("rack"));
    world
        .until("the pod runs", |world| world.running("web") == 1)
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ns_10_a_claim_that_is_deleted_has_its_node_cordoned_and_drained_first() {
    let world = World::start();
    world.managed("small", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    let claim = world.only();
    let name = claim["metadata"]["name"].as_str().unwrap().to_owned();
    let node = claim["status"]["nodeName"].as_str().unwrap().to_owned();
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}});
    let api = world.api();
    api.create("poddisruptionbudgets.policy", "default", budget)
        .unwrap();
    pass(5).await;
    api.delete(CLAIMS, NAMESPACE, &name, DeleteOptions::default())
        .unwrap();
    let mut cordoned = false;
    world
        .until("its node is gone", |world| {
            assert!(world.running("web") >= 1, "the budget holds");
            let node = world.api().get("nodes", "", &node).ok();
            cordoned |= node
                .as_ref()
                .is_some_and(|node| node["spec"]["unschedulable"] == true);
            node.is_none()
        })
        .await;
    assert!(cordoned);
    world
        .until("all pods run elsewhere", |world| {
            world.running("web") == 2 && world.cloud.machines().len() == 1
        })
        .await;
    let told = world.events(&name);
    for reason in ["Draining", "MachineDeprovisioned"] {
        assert!(
            told.iter().any(|(one, _)| one == reason),
            "{reason} in {told:#?}"
        );
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ns_10_a_pool_that_is_deleted_takes_its_machines_with_it_and_goes_last() {
    let world = World::start();
    world.managed("small", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    let api = world.api();
    let pool = api.get(POOLS, NAMESPACE, "small").unwrap();
    assert_eq!(
        pool["metadata"]["finalizers"],
        json!(["kubenodesmith.io/nodepool"])
    );
    api.delete(POOLS, NAMESPACE, "small", DeleteOptions::default())
        .unwrap();
    world
        .until("the pool is gone", |world| {
            let there = world.api().get(POOLS, NAMESPACE, "small").is_ok();
            assert!(there || world.claims().is_empty(), "claims go first");
            !there
        })
        .await;
    world
        .until("no machine is left", |world| {
            world.cloud.machines().is_empty() && world.nodes().is_empty()
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ns_10_a_claim_written_by_hand_gets_a_machine_of_its_pool() {
    let world = World::start();
    world.managed("small", |spec| spec["limits"]["minNodes"] = json!(1));
    let spec = json!({"poolRef": "small", "requirements": {"cpuCores": 3, "memoryMiB": 6144}});
    world.create(CLAIMS, "NodeSmithClaim", NAMESPACE, "by-hand", spec);
    world
        .until("it is ready", |world| {
            let claim = world.api().get(CLAIMS, NAMESPACE, "by-hand").ok();
            claim.is_some_and(|claim| condition(&claim, "Ready").0 == "True")
        })
        .await;
    let claim = world.api().get(CLAIMS, NAMESPACE, "by-hand").unwrap();
    let node = claim["status"]["nodeName"].as_str().unwrap();
    let node = world.api().get("nodes", "", node).unwrap();
    assert_eq!(
        node["metadata"]["labels"]["topology.kubenodesmith.io/pool"],
        "small"
    );
    assert!(claim["spec"]["requirements"]["cpuCores"].as_i64().unwrap() >= 3);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ns_13_a_workload_leads_to_a_node_and_its_deletion_to_the_removal_of_the_node() {
    let world = World::start();
    world.managed("small", |_| ());
    world.deployment("echoserver", 1, "100m", |_| ());
    world
        .until("it runs", |world| world.running("echoserver") == 1)
        .await;
    world.scale("echoserver", 0);
    world
        .until("everything is given back", |world| {
            world.claims().is_empty()
                && world.cloud.machines().is_empty()
                && world.nodes().is_empty()
        })
        .await;
    let told = world.events("small");
    for reason in ["ScaledUp", "ScaledDown"] {
        assert!(
            told.iter().any(|(one, _)| one == reason),
            "{reason} in {told:#?}"
        );
    }
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn ns_14_pods_that_come_together_share_machines() {
    let world = World::start();
    world.managed("small", |_| ());
    world.deployment("web", 40, "200m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 40)
        .await;
    assert!(world.claims().len() <= 2, "{}", world.claims().len());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pools_of_one_name_in_two_namespaces_are_two_pools() {
    let world = World::start();
    for namespace in [NAMESPACE, "other"] {
        world.plane(namespace, &["small"]);
        world.pool(namespace, "small", |spec| {
            spec["limits"]["maxNodes"] = json!(1);
            spec["machineTemplate"] = json!({"labels": {"room": namespace}});
        });
        world.deployment(namespace, 1, "500m", |deployment| {
            deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({"room": namespace});
        });
    }
    world
        .until("all pods run", |world| {
            world.running(NAMESPACE) == 1 && world.running("other") == 1
        })
        .await;
    assert_eq!(world.claims().len(), 2);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn another_process_goes_on_where_the_first_one_stopped() {
    let mut world = World::start();
    world.managed("small", |_| ());
    world.deployment("web", 2, "500m", |_| ());
    world
        .until("it is asked for", |world| !world.claims().is_empty())
        .await;
    world.engine.take().unwrap().kill().await;
    world.engine = Some(world.engine("second"));
    world
        .until("all pods run", |world| world.running("web") == 2)
        .await;
    assert_eq!(world.claims().len(), 1);
    assert_eq!(world.cloud.machines().len(), 1);
    world.stop().await;
}
