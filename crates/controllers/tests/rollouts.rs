//! Nodes that are replaced because their pool changed, and machines that others asked for: on the embedded cluster.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use world::{World, is_true, pass};

const POOLS: &str = "nodepools.karpenter.sh";
const CLAIMS: &str = "nodeclaims.karpenter.sh";
const BUFFERS: &str = "capacitybuffers.autoscaling.x-k8s.io";

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

/// Changes the template of a pool, so that all its nodes drift.
fn drift(world: &World, pool: &str) {
    drift_to(world, pool, "yes");
}

fn drift_to(world: &World, pool: &str, value: &str) {
    let api = world.api();
    let mut object = (*api.get(POOLS, "", pool).unwrap()).clone();
    object["spec"]["template"]["metadata"]["annotations"]["changed"] = json!(value);
    api.update(POOLS, object).unwrap();
}

fn changed(claim: &Value) -> bool {
    claim["metadata"]["annotations"]["changed"] == "yes"
}

#[tokio::test(start_paused = true)]
async fn look_alike_nodes_follow_the_first_that_was_replaced() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 6, "500m", apart);
    world
        .until("all pods run", |world| world.running("web") == 6)
        .await;
    drift(&world, "default");
    world
        .within(
            Duration::from_mins(6),
            "all nodes are of the new template",
            &mut |world: &World| {
                let claims = world.claims();
                claims.len() == 6 && claims.iter().all(|one| changed(one))
            },
        )
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_second_change_of_the_template_is_no_repetition_but_to_and_fro_is() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 1, "500m", |_| ());
    world
        .until("the pod runs", |world| world.running("web") == 1)
        .await;
    for value in ["one", "two", "three"] {
        drift_to(&world, "default", value);
        world
            .within(
                Duration::from_mins(2),
                &format!("the node is of template {value}"),
                &mut |world: &World| {
                    let claims = world.claims();
                    claims.len() == 1
                        && claims[0]["metadata"]["annotations"]["changed"] == value
                        && world.running("web") == 1
                },
            )
            .await;
    }
    // Back to a template that the node was given a moment ago: whoever writes that is at odds with somebody.
    drift_to(&world, "default", "two");
    pass(120).await;
    let claims = world.claims();
    assert_eq!(claims.len(), 1);
    assert_eq!(claims[0]["metadata"]["annotations"]["changed"], "three");
    world
        .within(
            Duration::from_mins(12),
            "it is carried out all the same",
            &mut |world: &World| {
                let claims = world.claims();
                claims.len() == 1 && claims[0]["metadata"]["annotations"]["changed"] == "two"
            },
        )
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn empty_nodes_that_drifted_go_together() {
    let world = World::start().await;
    world.pool("default", |pool| {
        pool["spec"]["disruption"]["consolidateAfter"] = json!("Never");
    });
    world.deployment("web", 5, "500m", apart);
    world
        .until("all pods run", |world| world.running("web") == 5)
        .await;
    world.scale("web", 0);
    world
        .until("the nodes are empty", |world| world.running("web") == 0)
        .await;
    drift(&world, "default");
    world
        .within(
            Duration::from_mins(2),
            "all of them are leaving",
            &mut |world: &World| {
                let claims = world.claims();
                claims.len() == 5
                    && claims
                        .iter()
                        .all(|one| !one["metadata"]["deletionTimestamp"].is_null())
            },
        )
        .await;
    world.stop().await;
}

/// How many events with this reason there are.
fn told(world: &World, reason: &str) -> usize {
    let events = world.api().list("events");
    events.iter().filter(|one| one["reason"] == reason).count()
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_comes_into_use_is_not_bought_again_at_once() {
    let world = World::start().await;
    world.pool("default", |_| ());
    world.deployment("web", 1, "500m", |_| ());
    world
        .until("the pod runs", |world| world.running("web") == 1)
        .await;
    let api = world.api();
    let mut pool = (*api.get(POOLS, "", "default").unwrap()).clone();
    // Nothing here takes this taint off.
    pool["spec"]["template"]["spec"]["startupTaints"] =
        json!([{"key": "someone/else", "effect": "NoSchedule"}]);
    api.update(POOLS, pool).unwrap();
    drift(&world, "default");
    let (mut known, mut undone) = (0, Vec::new());
    for second in 0..7200 {
        pass(1).await;
        if told(&world, "DisruptionUndone") > undone.len() {
            undone.push(second);
        }
        let bought = world.claims().iter().filter(|one| changed(one)).count();
        if bought > known
            && let Some(last) = undone.last()
        {
            assert!(second - last >= 240, "bought at {second}, undone at {last}");
        }
        known = bought;
    }
    assert!((1..=4).contains(&undone.len()), "undone at {undone:?}");
    assert_eq!(world.running("web"), 1, "the pod stays where it is");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_static_pool_that_changed_never_falls_below_its_size_nor_exceeds_its_limit() {
    let world = World::start().await;
    world.pool("fixed", |pool| {
        pool["spec"]["replicas"] = json!(4);
        pool["spec"]["limits"] = json!({"nodes": "5"});
    });
    let ready = |world: &World| {
        let claims = world.claims();
        let ready = claims.iter().filter(|one| {
            is_true(one, "Initialized") && one["metadata"]["deletionTimestamp"].is_null()
        });
        ready.count()
    };
    world.until("four nodes", |world| ready(world) == 4).await;
    drift(&world, "fixed");
    world
        .until("all are of the new template", |world| {
            let claims = world.claims();
            assert!(ready(world) >= 4, "{claims:#?}");
            assert!(claims.len() <= 5, "{claims:#?}");
            claims.len() == 4 && claims.iter().all(|one| changed(one))
        })
        .await;
    world.stop().await;
}

fn claim(name: &str, class: &str) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
    "metadata": {"name": name},
    "spec": {
        "nodeClassRef": {"group": "joiner.dev", "kind": "SimNodeClass", "name": class},
        "requirements": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]
    }})
}

#[tokio::test(start_paused = true)]
async fn a_machine_object_that_is_seen_before_its_class_becomes_a_node() {
    let world = World::start().await;
    let api = world.api();
    pass(5).await;
    api.create(CLAIMS, "", claim("mine", "late")).unwrap();
    pass(3).await;
    api.create(
        "simnodeclasses.joiner.dev",
        "",
        json!({"apiVersion": "joiner.dev/v1alpha1", "kind": "SimNodeClass",
            "metadata": {"name": "late"}, "spec": {}}),
    )
    .unwrap();
    world
        .within(Duration::from_mins(2), "a node", &mut |world: &World| {
            let claim = world.api().get(CLAIMS, "", "mine");
            claim.is_ok_and(|claim| is_true(&claim, "Initialized"))
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_object_without_a_class_is_deleted() {
    let world = World::start().await;
    world
        .api()
        .create(CLAIMS, "", claim("lost", "nowhere"))
        .unwrap();
    world
        .within(
            Duration::from_mins(1),
            "it is gone",
            &mut |world: &World| world.api().get(CLAIMS, "", "lost").is_err(),
        )
        .await;
    world.stop().await;
}

fn template(cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PodTemplate",
        "metadata": {"name": "room", "namespace": "default"},
        "template": {"spec": {"containers": [{
            "name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}]}}})
}

#[tokio::test(start_paused = true)]
async fn a_buffer_says_what_it_was_read_from_and_its_nodes_drift() {
    let world = World::start().await;
    world.pool("default", |_| ());
    let api = world.api();
    api.create("podtemplates", "default", template("500m"))
        .unwrap();
    api.create(
        BUFFERS,
        "default",
        json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "room", "namespace": "default"},
            "spec": {"podTemplateRef": {"name": "room"}, "replicas": 2}}),
    )
    .unwrap();
    let buffer = |world: &World| world.api().get(BUFFERS, "default", "room").unwrap();
    world
        .within(
            Duration::from_secs(10),
            "the buffer is read at once",
            &mut |world: &World| {
                let status = buffer(world)["status"].clone();
                status["replicas"] == 2 && status["podTemplateRef"]["name"] == "room"
            },
        )
        .await;
    assert!(buffer(&world)["status"]["podTemplateGeneration"].is_number());
    let mut object = (*buffer(&world)).clone();
    object["spec"]["replicas"] = json!(1);
    api.update(BUFFERS, object).unwrap();
    world
        .within(
            Duration::from_secs(10),
            "a change of its size is told",
            &mut |world: &World| buffer(world)["status"]["replicas"] == 1,
        )
        .await;
    world
        .until("there is room", |world| {
            is_true(&buffer(world), "Provisioning")
        })
        .await;
    drift(&world, "default");
    world
        .within(
            Duration::from_mins(5),
            "room on a node of the new template",
            &mut |world: &World| {
                let claims = world.claims();
                let alive = claims.iter().filter(|one| is_true(one, "Initialized"));
                alive.clone().count() > 0
                    && alive.clone().all(|one| changed(one))
                    && is_true(&buffer(world), "Provisioning")
            },
        )
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rollout_waits_for_the_room_of_the_pods_that_it_ends_and_buys_nothing() {
    let world = World::start().await;
    // One pod fills a node.
    world.pool("default", |pool| {
        pool["spec"]["template"]["spec"]["requirements"] = json!([
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m-2x-amd64"]}]);
    });
    world.deployment("web", 4, "1200m", |deployment| {
        deployment["spec"]["strategy"] =
            json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}});
        let pod = &mut deployment["spec"]["template"]["spec"];
        pod["containers"][0]["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 20}}});
    });
    world
        .until("all pods run", |world| world.running("web") == 4)
        .await;
    let machines = |world: &World| -> BTreeSet<String> {
        let claims = world.claims();
        let names = claims.iter().map(|one| one["metadata"]["name"].to_string());
        names.collect()
    };
    let before = machines(&world);
    assert_eq!(before.len(), 4);
    let api = world.api();
    let mut deployment = (*api.get("deployments.apps", "default", "web").unwrap()).clone();
    deployment["spec"]["template"]["metadata"]["labels"]["version"] = json!("two");
    api.update("deployments.apps", deployment).unwrap();
    let new = |world: &World| {
        let pods = world.api().list("pods");
        let of_version = pods.iter().filter(|pod| {
            pod["metadata"]["labels"]["version"] == "two" && pod["status"]["phase"] == "Running"
        });
        of_version.count()
    };
    for _ in 0..300 {
        pass(1).await;
        assert_eq!(machines(&world), before, "{} pods are new", new(&world));
    }
    assert_eq!(new(&world), 4);
    world.stop().await;
}
