//! What costs more than it is worth goes, as each policy says.

use serde_json::{Value, json};

use crate::harness::{Sight, Story, in_zone, tests};

tests![
    when_empty_takes_empty_nodes_and_no_others,
    when_underutilized_two_half_empty_nodes_become_one,
    when_underutilized_a_machine_that_is_too_large_is_replaced_by_a_smaller_one,
    balanced_moves_nobody_for_little,
    balanced_moves_everybody_for_much,
];

fn policy(policy: &str) -> Value {
    json!({"spec": {"disruption": {"consolidationPolicy": policy, "consolidateAfter": "0s"}}})
}

/// Whether something was said about a machine of the story.
fn said(sight: &Sight, words: &str) -> bool {
    let names = sight.claim_names();
    let mut said = names.iter().flat_map(|name| sight.said(name));
    said.any(|one| one.contains(words))
}

async fn when_empty_takes_empty_nodes_and_no_others() {
    let story = Story::begin("empty").await;
    story.pool(policy("WhenEmpty")).await;
    story.deploy("gone", 1, "900m", in_zone("sim-a")).await;
    story.deploy("less", 4, "900m", in_zone("sim-b")).await;
    story.runs("gone", 1).await;
    let sight = story.runs("less", 4).await;
    assert_eq!(sight.types(), ["medium", "small"]);
    story.scale("less", 1).await;
    story.scale("gone", 0).await;
    let sight = story
        .until("the empty one is gone", |sight| sight.types() == ["medium"])
        .await;
    // A small machine would do for the pod that is left, but that is not what was asked for.
    story
        .until("the other says why it stays", |sight| {
            said(sight, "consolidates empty nodes only")
        })
        .await;
    let kept = sight.claim_names();
    assert_eq!(story.sight().claim_names(), kept);
    story.end().await;
}

async fn when_underutilized_two_half_empty_nodes_become_one() {
    let story = Story::begin("merge").await;
    story
        .pool(json!({"spec": {"disruption": {"consolidateAfter": "Never"}}}))
        .await;
    let apart = |app: &str| {
        json!({"spec": {"template": {"spec": {"affinity": {"podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}]}}}}}})
    };
    // One of each on each of two medium machines.
    story.deploy("apart", 2, "2100m", apart("apart")).await;
    story.runs("apart", 2).await;
    story.deploy("web", 2, "900m", json!({})).await;
    let sight = story.runs("web", 2).await;
    assert_eq!(sight.types(), ["medium", "medium"]);
    story.change_pool(policy("WhenEmptyOrUnderutilized")).await;
    story.scale("apart", 1).await;
    let sight = story
        .until("one is left", |sight| {
            sight.claims().len() == 1 && sight.running("web").len() == 2
        })
        .await;
    assert_eq!(sight.running("apart").len(), 1);
    story.end().await;
}

async fn when_underutilized_a_machine_that_is_too_large_is_replaced_by_a_smaller_one() {
    let story = Story::begin("shrink").await;
    story.pool(policy("WhenEmptyOrUnderutilized")).await;
    story.deploy("web", 8, "900m", json!({})).await;
    let sight = story.runs("web", 8).await;
    assert_eq!(sight.types(), ["large"]);
    let first = story.always(
        "the new one is in use before the old one goes",
        Sight::replacement_first,
    );
    story.scale("web", 1).await;
    story
        .until("a small one is left", |sight| {
            sight.types() == ["small"] && sight.running("web").len() == 1
        })
        .await;
    first.check();
    story.end().await;
}

async fn balanced_moves_nobody_for_little() {
    let story = Story::begin("balanced").await;
    story.pool(policy("Balanced")).await;
    story.deploy("web", 4, "900m", json!({})).await;
    let sight = story.runs("web", 4).await;
    assert_eq!(sight.types(), ["medium"]);
    let kept = sight.claim_names();
    // A small machine costs 47% less: not half, and half is what moving everything must bring.
    story.scale("web", 2).await;
    story
        .until("the machine says why it stays", |sight| {
            said(sight, "NodePool balanced, consolidationPolicy: Balanced")
        })
        .await;
    assert_eq!(story.sight().claim_names(), kept);
    story.end().await;
}

async fn balanced_moves_everybody_for_much() {
    let story = Story::begin("worth").await;
    story.pool(policy("Balanced")).await;
    story.deploy("web", 8, "900m", json!({})).await;
    let sight = story.runs("web", 8).await;
    assert_eq!(sight.types(), ["large"]);
    story.scale("web", 1).await;
    story
        .until("what saves more than half is done", |sight| {
            sight.types() == ["small"] && sight.running("web").len() == 1
        })
        .await;
    story.end().await;
}
