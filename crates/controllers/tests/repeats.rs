//! Buying the same again and again is recognised whatever its cause, slowed down and explained: on the embedded
//! cluster, an hour of virtual time for each cause.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod world;

use std::collections::BTreeSet;

use joiner_embedded::api::DeleteOptions;
use serde_json::{Value, json};
use world::{World, pass};

/// How many machines an hour of the same mistake may buy.
const MOST: usize = 12;

/// Every second of an hour something outside plays its part; returns how many machines were bought.
async fn an_hour(world: &World, mut part: impl FnMut(&World)) -> usize {
    let mut bought: BTreeSet<String> = BTreeSet::new();
    for _ in 0..3600 {
        part(world);
        pass(1).await;
        let claims = world.claims();
        let names = claims.iter().map(|one| one["metadata"]["uid"].to_string());
        bought.extend(names);
    }
    bought.len()
}

/// Gone without a grace period.
fn now() -> DeleteOptions {
    DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    }
}

/// What events with this reason say about objects of this kind.
fn said(world: &World, kind: &str, words: &str) -> Vec<String> {
    let events = world.api().list("events");
    let about = events
        .iter()
        .filter(|one| one["involvedObject"]["kind"] == kind);
    about
        .filter_map(|one| one["message"].as_str().map(str::to_owned))
        .filter(|message| message.contains(words))
        .collect()
}

fn explained(world: &World) {
    let words = "machines were bought within an hour";
    assert!(!said(world, "Pod", words).is_empty(), "the pods are told");
    assert!(
        !said(world, "NodePool", words).is_empty(),
        "the pool is told"
    );
}

/// Pods that are told that they should go to this machine.
fn nominated(world: &World, machine: &str) -> BTreeSet<String> {
    let place = format!("Pod should schedule on: nodeclaim/{machine}");
    let events = world.api().list("events");
    let about = events
        .iter()
        .filter(|one| one["involvedObject"]["kind"] == "Pod" && one["reason"] == "Nominated");
    about
        .filter(|one| {
            let message = one["message"].as_str();
            message.is_some_and(|message| message.starts_with(&place))
        })
        .filter_map(|one| one["involvedObject"]["name"].as_str().map(str::to_owned))
        .collect()
}

fn impatient(pool: &mut Value) {
    pool["spec"]["disruption"]["consolidateAfter"] = json!("0s");
}

/// Nodes on which a pod of the app runs, with the names of these pods.
fn hosts(world: &World) -> Vec<(Value, Vec<String>)> {
    let pods = world.api().list("pods");
    let on = |node: &Value| -> Vec<String> {
        pods.iter()
            .filter(|pod| {
                pod["spec"]["nodeName"] == node["metadata"]["name"]
                    && pod["metadata"]["labels"]["app"] == "web"
                    && pod["status"]["phase"] == "Running"
            })
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let nodes = world.api().list("nodes").into_iter();
    nodes
        .map(|node| ((*node).clone(), on(&node)))
        .filter(|(_, pods)| !pods.is_empty())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_always_tainted_again_is_not_bought_for_ever() {
    let world = World::start().await;
    world.pool("default", impatient);
    world.deployment("web", 1, "500m", |_| ());
    let bought = an_hour(&world, |world| {
        for (mut node, _) in hosts(world) {
            let taints = node["spec"]["taints"].as_array().cloned();
            let mut taints = taints.unwrap_or_default();
            taints.push(json!({"key": "someone/else", "value": "x", "effect": "NoExecute"}));
            node["spec"]["taints"] = json!(taints);
            // The node may have changed meanwhile: then it is tainted a second later.
            let _ = world.api().update("nodes", node);
        }
    })
    .await;
    assert!((3..=MOST).contains(&bought), "{bought} machines");
    explained(&world);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_scheduler_never_binds_is_not_bought_for_for_ever() {
    let world = World::start().await;
    world.pool("default", impatient);
    // No scheduler here binds these pods: as if a plugin held them back for a reason of its own. A controller makes them
    // anew every other minute, so that they are never the same pods.
    world.deployment("web", 1, "500m", |deployment| {
        deployment["spec"]["template"]["spec"]["schedulerName"] = json!("elsewhere");
    });
    let mut second = 0;
    let bought = an_hour(&world, |world| {
        second += 1;
        let api = world.api();
        let nodes = api.list("nodes").len();
        let said =
            format!("0/{nodes} nodes are available: {nodes} node(s) were held back by a plugin.");
        for pod in api.list("pods") {
            if second % 120 == 0 {
                let name = pod["metadata"]["name"].as_str().unwrap();
                let _ = api.delete("pods", "default", name, now());
                continue;
            }
            if pod["status"]["conditions"][0]["message"] == *said {
                continue;
            }
            let mut pod = (*pod).clone();
            pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "False",
                "reason": "Unschedulable", "message": said}]);
            let _ = api.update_status("pods", pod);
        }
    })
    .await;
    // By its requests every one of them fits on the first machine: that stays for them, and no other is bought.
    assert_eq!(bought, 1, "machines");
    let claims = world.claims();
    assert_eq!(claims.len(), 1, "{claims:#?}");
    let machine = claims[0]["metadata"]["name"].as_str().unwrap();
    // What the scheduler says beside it is the plugin's own word: users see the place that is there and why it is not
    // taken.
    let told = nominated(&world, machine);
    assert!(told.len() > 3, "who came later is told as well: {told:?}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_preempted_on_every_new_node_is_not_bought_for_for_ever() {
    let world = World::start().await;
    world.pool("default", impatient);
    world.deployment("web", 1, "500m", |_| ());
    let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "large"}, "value": 1000});
    let classes = "priorityclasses.scheduling.k8s.io";
    world.api().create(classes, "", class).unwrap();
    // A limit range makes pods of a high priority as large as a whole node, which no template says: the scheduler makes
    // room for one of them on every node.
    let bought = an_hour(&world, |world| {
        let api = world.api();
        for (node, pods) in hosts(world) {
            for pod in pods {
                let _ = api.delete("pods", "default", &pod, now());
            }
            let name = node["metadata"]["name"].as_str().unwrap();
            let cores = node["status"]["allocatable"]["cpu"].as_str().unwrap();
            let milli = match cores.strip_suffix('m') {
                Some(milli) => milli.parse::<i64>().unwrap(),
                None => cores.parse::<i64>().unwrap() * 1000,
            };
            let pod = json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("large-{name}"), "namespace": "default"},
                "spec": {"nodeName": name, "priorityClassName": "large", "containers": [{
                    "name": "main", "image": "none",
                    "resources": {"requests": {"cpu": format!("{}m", milli - 200)}}}]}});
            api.create("pods", "default", pod).unwrap();
        }
    })
    .await;
    assert!((3..=MOST).contains(&bought), "{bought} machines");
    explained(&world);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn workloads_that_grow_and_shrink_all_the_time_get_their_machines_at_once() {
    let world = World::start().await;
    world.pool("default", impatient);
    world.deployment("web", 3, "900m", |_| ());
    for replicas in [3, 9, 1, 6].into_iter().cycle().take(40) {
        world.scale("web", replicas);
        let mut all = |world: &World| world.running("web") == usize::try_from(replicas).unwrap();
        let limit = std::time::Duration::from_secs(150);
        world.within(limit, "all pods run", &mut all).await;
        pass(8).await;
    }
    let words = "machines were bought within an hour";
    assert_eq!(said(&world, "Pod", words), Vec::<String>::new());
    world.stop().await;
}
