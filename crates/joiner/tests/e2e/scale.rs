//! Nodes come when they are wanted and go when they are not.

use serde_json::json;

use crate::harness::{Sight, Story, is_true, merge, paths, pod_template, tests, text};

tests![
    nodes_come_from_nothing_and_go_when_nothing_is_left,
    what_runs_on_every_node_is_reckoned_with,
    limits_hold_at_every_moment_of_a_burst,
    a_pool_that_is_deleted_takes_its_machines_with_it,
    a_static_pool_has_as_many_nodes_as_it_says,
    a_buffer_is_room_that_is_kept_free,
    an_overlay_changes_what_is_cheapest,
    a_heavier_pool_is_first_until_its_limit_is_reached,
];

async fn nodes_come_from_nothing_and_go_when_nothing_is_left() {
    let story = Story::begin("zero").await;
    story
        .pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}}))
        .await;
    story.deploy("web", 10, "500m", json!({})).await;
    let sight = story.runs("web", 10).await;
    // Five cores: a small and a medium machine are the cheapest that hold them.
    assert_eq!(sight.types(), ["medium", "small"]);
    let sight = story.until("all are ready", Sight::all_ready).await;
    for claim in sight.claims() {
        for kind in ["Launched", "Registered", "Initialized", "Ready"] {
            assert!(is_true(&claim, kind), "{kind}: {claim:#}");
        }
        assert!(text(&claim, "/status/providerID").starts_with("sim:///"));
    }
    assert_eq!(
        sight.machines().len(),
        2,
        "the cloud sold what was asked for"
    );
    story
        .until("the pool says what it has", |sight| {
            let pool = sight.pool().unwrap();
            pool["status"]["nodes"] == json!(2)
                && pool["status"]["resources"]["cpu"] == "6"
                && is_true(&pool, "Ready")
        })
        .await;
    story.scale("web", 0).await;
    story
        .until("everything is gone", |sight| {
            sight.claims().is_empty() && sight.nodes().is_empty() && sight.machines().is_empty()
        })
        .await;
    story.end().await;
}

async fn what_runs_on_every_node_is_reckoned_with() {
    let story = Story::begin("daemons").await;
    story.pool(json!({})).await;
    let template = pod_template("agent", "daemons", "1");
    story
        .create(
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template}}),
        )
        .await;
    story.deploy("web", 1, "1500m", json!({})).await;
    let sight = story.runs("web", 1).await;
    // Alone it would fit on a small machine of two cores.
    assert_eq!(sight.types(), ["medium"]);
    story.runs("agent", 1).await;
    story.end().await;
}

/// Cores of all machines, whether they were bought or are about to be.
fn cores(sight: &Sight) -> i64 {
    let milli = |text: &str| joiner_core::quantity::parse_milli(text).unwrap_or_default();
    let claims = sight.claims();
    let cores = claims.iter().map(|claim| {
        let asked = milli(text(claim, "/spec/resources/requests/cpu"));
        milli(text(claim, "/status/capacity/cpu")).max(asked)
    });
    cores.sum()
}

async fn limits_hold_at_every_moment_of_a_burst() {
    let story = Story::begin("limits").await;
    story
        .pool(json!({"spec": {"limits": {"cpu": "12", "nodes": "4"}}}))
        .await;
    let held = story.always("12 cores and 4 machines at most", |sight| {
        cores(sight) <= 12_000 && sight.claims().len() <= 4 && sight.machines().len() <= 4
    });
    story.deploy("web", 10, "900m", json!({})).await;
    story.deploy("burst", 40, "900m", json!({})).await;
    story
        .until("as many run as the limit lets", |sight| {
            sight.running("web").len() + sight.running("burst").len() == 12
        })
        .await;
    story.scale("burst", 80).await;
    story
        .until("the others are told about the limit", |sight| {
            let pods = sight.pods("burst");
            pods.len() == 80
                && pods.iter().any(|pod| {
                    let said = sight.said(text(pod, "/metadata/name"));
                    said.iter().any(|words| words.contains("limit"))
                })
        })
        .await;
    // Room comes free, and is used again, within the limit.
    story.scale("web", 0).await;
    story
        .until("what is free is used", |sight| {
            sight.running("burst").len() == 12
        })
        .await;
    held.check();
    story.end().await;
}

async fn a_pool_that_is_deleted_takes_its_machines_with_it() {
    let story = Story::begin("deletion").await;
    story.pool(json!({})).await;
    story.deploy("web", 3, "900m", json!({})).await;
    story.runs("web", 3).await;
    story
        .world
        .delete(&format!("{}/deletion", paths::POOLS))
        .await;
    let sight = story
        .until("all of it is gone", |sight| {
            sight.pool().is_none()
                && sight.claims().is_empty()
                && sight.nodes().is_empty()
                && sight.machines().is_empty()
        })
        .await;
    assert_eq!(sight.running("web").len(), 0);
    story
        .until("the pods wait for another pool", |sight| {
            sight.pods("web").len() == 3
        })
        .await;
    story.pool_named("deletion-next", json!({})).await;
    story.runs("web", 3).await;
    story.end().await;
}

async fn a_static_pool_has_as_many_nodes_as_it_says() {
    let story = Story::begin("static").await;
    story.pool(json!({"spec": {"replicas": 2}})).await;
    let ready = |count: usize| {
        move |sight: &Sight| {
            sight.nodes().len() == count && sight.claims().len() == count && sight.all_ready()
        }
    };
    story.until("two nodes", ready(2)).await;
    // As `kubectl scale nodepool static --replicas 3` does it.
    let path = format!("{}/static/scale", paths::POOLS);
    story
        .world
        .patch(&path, &json!({"spec": {"replicas": 3}}))
        .await;
    story.until("three nodes", ready(3)).await;
    story.change_pool(json!({"spec": {"replicas": 1}})).await;
    story.until("one node", ready(1)).await;
    // One that is lost is bought again.
    let name = story.sight().claim_names().remove(0);
    story
        .world
        .delete(&format!("{}/{name}", paths::CLAIMS))
        .await;
    story
        .until("another node", |sight| {
            sight.claim(&name).is_none() && ready(1)(sight)
        })
        .await;
    story.end().await;
}

async fn a_buffer_is_room_that_is_kept_free() {
    let story = Story::begin("buffer").await;
    story.pool(json!({})).await;
    let template = pod_template("spare", "buffer", "900m");
    story
        .create(
            json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "spare"},
            "template": template}),
        )
        .await;
    story
        .create(
            json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "room"},
            "spec": {"podTemplateRef": {"name": "spare"}, "replicas": 2}}),
        )
        .await;
    let sight = story
        .until("there is room before anybody needs it", |sight| {
            sight.claims().len() == 1 && sight.all_ready()
        })
        .await;
    assert_eq!(sight.types(), ["small"]);
    story
        .until("the buffer says that it is there", |sight| {
            let buffer = sight.seen.get(paths::BUFFERS, "buffer", "room").unwrap();
            is_true(buffer, "ReadyForProvisioning") && is_true(buffer, "Provisioning")
        })
        .await;
    let kept = text(&sight.claims()[0], "/status/nodeName").to_owned();
    story.deploy("web", 2, "900m", json!({})).await;
    let sight = story.runs("web", 2).await;
    // Room is made again as soon as some is used: the second pod may come to run there.
    let homes = sight.homes_by("web", "kubernetes.io/hostname");
    assert!(homes.contains(&kept), "{kept} was kept free: {homes:?}");
    story
        .until("room is made again", |sight| {
            sight.claims().len() == 2 && sight.all_ready()
        })
        .await;
    story.end().await;
}

async fn an_overlay_changes_what_is_cheapest() {
    let story = Story::begin("overlay").await;
    story
        .create(json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay",
            "metadata": {"name": "overlay"},
            "spec": {"price": "0.05", "requirements": [
                {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["overlay"]},
                {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["large"]}]}}))
        .await;
    story
        .until("the overlay is read", |sight| {
            let overlay = sight.seen.get(paths::OVERLAYS, "", "overlay");
            overlay.is_some_and(|overlay| is_true(overlay, "Ready"))
        })
        .await;
    story.pool(json!({})).await;
    story.deploy("web", 1, "500m", json!({})).await;
    let sight = story.runs("web", 1).await;
    assert_eq!(
        sight.types(),
        ["large"],
        "eight cores for half the price of two"
    );
    story
        .world
        .delete(&format!("{}/overlay", paths::OVERLAYS))
        .await;
    story.end().await;
}

async fn a_heavier_pool_is_first_until_its_limit_is_reached() {
    let story = Story::begin("weight").await;
    let mut own = json!({"spec": {"weight": 50, "limits": {"cpu": "2"}}});
    // What is bought first is not what is cheapest: the weight decides.
    let large = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
    let spot = json!([{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
    merge(
        &mut own,
        json!({"spec": {"template": {"spec": {"requirements": large}}}}),
    );
    story.pool_named("weight-own", own).await;
    story
        .pool_named(
            "weight-burst",
            json!({"spec": {"weight": 10, "template": {"spec": {"requirements": spot}}}}),
        )
        .await;
    story.deploy("web", 2, "900m", json!({})).await;
    let sight = story.runs("web", 2).await;
    let pools = sight.homes_by("web", "karpenter.sh/nodepool");
    assert_eq!(pools, ["weight-own", "weight-own"]);
    story.scale("web", 4).await;
    let sight = story.runs("web", 4).await;
    let pools = sight.homes_by("web", "karpenter.sh/nodepool");
    assert_eq!(
        pools,
        ["weight-burst", "weight-burst", "weight-own", "weight-own"]
    );
    story.end().await;
}
