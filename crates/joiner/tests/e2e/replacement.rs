//! Nodes that must go are followed by others: changed, old, asked back, sick.

use serde_json::{Value, json};

use crate::harness::{Sight, Story, is_true, tests};

tests![
    a_changed_template_replaces_nodes_and_the_new_are_ready_before_the_old_go,
    a_requirement_that_a_node_no_longer_meets_replaces_it,
    a_node_that_is_too_old_is_replaced,
    a_machine_that_is_asked_back_is_replaced_before_it_is_taken,
    a_sick_node_is_replaced,
    startup_taints_are_waited_for_and_nothing_more_is_bought_meanwhile,
];

async fn a_changed_template_replaces_nodes_and_the_new_are_ready_before_the_old_go() {
    let story = Story::begin("drift").await;
    story.pool(json!({})).await;
    story.deploy("web", 3, "500m", json!({})).await;
    let sight = story.runs("web", 3).await;
    let old = sight.claim_names().remove(0);
    let first = story.always(
        "the new one is in use before the old one goes",
        Sight::replacement_first,
    );
    story
        .change_pool(json!({"spec": {"template": {"metadata": {"labels": {"generation": "two"}}}}}))
        .await;
    story
        .until("the old one says that it has drifted", |sight| {
            sight
                .claim(&old)
                .is_none_or(|claim| is_true(&claim, "Drifted"))
        })
        .await;
    let sight = story
        .until("the old one is gone", |sight| {
            sight.claim(&old).is_none() && sight.running("web").len() == 3
        })
        .await;
    assert_eq!(sight.homes_by("web", "generation"), ["two", "two", "two"]);
    first.check();
    story.end().await;
}

async fn a_requirement_that_a_node_no_longer_meets_replaces_it() {
    let story = Story::begin("narrowed").await;
    story.pool(json!({})).await;
    story.deploy("web", 2, "500m", json!({})).await;
    let sight = story.runs("web", 2).await;
    let old = sight.claim_names().remove(0);
    assert_eq!(sight.types(), ["small"]);
    let requirements = json!([
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["medium"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}]);
    story
        .change_pool(json!({"spec": {"template": {"spec": {"requirements": requirements}}}}))
        .await;
    story
        .until("it is replaced by what is allowed", |sight| {
            sight.claim(&old).is_none()
                && sight.types() == ["medium"]
                && sight.running("web").len() == 2
        })
        .await;
    story.end().await;
}

async fn a_node_that_is_too_old_is_replaced() {
    let story = Story::begin("expiry").await;
    story
        .pool(json!({"spec": {"template": {"spec": {"expireAfter": "40s"}}}}))
        .await;
    story.deploy("web", 2, "500m", json!({})).await;
    let sight = story.runs("web", 2).await;
    let old = sight.claim_names().remove(0);
    story
        .until("the old one is gone, the pods run elsewhere", |sight| {
            sight.claim(&old).is_none() && sight.running("web").len() == 2
        })
        .await;
    story.end().await;
}

async fn a_machine_that_is_asked_back_is_replaced_before_it_is_taken() {
    let story = Story::begin("interrupted").await;
    let old = story.doomed("60s", "25s").await;
    story
        .until("the machine says that it is asked back", |sight| {
            sight
                .said(&old)
                .iter()
                .any(|words| words.starts_with("Interrupted"))
        })
        .await;
    let sight = story
        .until("the pods run elsewhere", |sight| {
            let homes = sight.homes_by("web", "kubernetes.io/hostname");
            homes.len() == 2 && !homes.contains(&old)
        })
        .await;
    assert_eq!(
        sight.homes_by("web", "karpenter.sh/capacity-type"),
        ["spot", "spot"]
    );
    story
        .until("nothing is left of the old one", |sight| {
            sight.claim(&old).is_none() && sight.node(&old).is_none() && sight.machines().len() == 1
        })
        .await;
    story.end().await;
}

async fn a_sick_node_is_replaced() {
    let story = Story::begin("sick").await;
    story.pool(json!({})).await;
    story.deploy("web", 2, "500m", json!({})).await;
    story.runs("web", 2).await;
    let sight = story.until("all is well", Sight::all_ready).await;
    let old = sight.claim_names().remove(0);
    // A problem detector on it has been saying for longer than that is tolerated that it has no network.
    let since = jiff::Timestamp::now() - jiff::SignedDuration::from_mins(11);
    let since = since.strftime("%FT%TZ").to_string();
    let mut conditions = sight.node(&old).unwrap()["status"]["conditions"].clone();
    conditions.as_array_mut().unwrap().push(json!({
        "type": "NetworkingReady", "status": "False", "reason": "NoRoute", "message": "",
        "lastTransitionTime": since, "lastHeartbeatTime": since}));
    let path = format!("/api/v1/nodes/{old}/status");
    story
        .world
        .patch(&path, &json!({"status": {"conditions": conditions}}))
        .await;
    story
        .until("it is replaced", |sight| {
            sight.claim(&old).is_none()
                && sight.node(&old).is_none()
                && sight.running("web").len() == 2
        })
        .await;
    story.end().await;
}

async fn startup_taints_are_waited_for_and_nothing_more_is_bought_meanwhile() {
    let story = Story::begin("startup").await;
    let taint = json!([{"key": "example.dev/agent", "value": "starting", "effect": "NoSchedule"}]);
    story
        .pool(json!({"spec": {"template": {"spec": {"startupTaints": taint}}}}))
        .await;
    let one = story.always("one machine is enough", |sight| sight.claims().len() <= 1);
    story.deploy("web", 2, "500m", json!({})).await;
    let sight = story
        .until("the machine says what it waits for", |sight| {
            sight.claims().iter().any(|claim| {
                is_true(claim, "Registered")
                    && claim["status"]["conditions"]
                        .to_string()
                        .contains("StartupTaintsExist")
            })
        })
        .await;
    assert!(sight.running("web").is_empty());
    let name = sight.claim_names().remove(0);
    let node = sight.node(&name).unwrap();
    let left: Vec<&Value> = node["spec"]["taints"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|taint| taint["key"] != "example.dev/agent")
        .collect();
    let path = format!("/api/v1/nodes/{name}");
    story
        .world
        .patch(&path, &json!({"spec": {"taints": left}}))
        .await;
    story.runs("web", 2).await;
    story.until("it is initialized", Sight::all_ready).await;
    one.check();
    story.end().await;
}
