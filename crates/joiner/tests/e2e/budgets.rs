//! How many nodes of a pool may go at once, for which reason, and when.

use serde_json::{Value, json};

use crate::harness::{Sight, Story, in_zone, is_true, tests};

tests![
    a_budget_holds_for_its_reasons_while_its_schedule_says_so,
    no_more_nodes_go_at_once_than_the_budget_says,
];

/// Every node drifts.
fn another_template() -> Value {
    json!({"spec": {"template": {"metadata": {"labels": {"generation": "two"}}}}})
}

async fn a_budget_holds_for_its_reasons_while_its_schedule_says_so() {
    let story = Story::begin("budgets").await;
    // A window of an hour that begins anew each minute is always open.
    let closed =
        json!({"nodes": "0", "reasons": ["Drifted"], "schedule": "* * * * *", "duration": "1h"});
    story
        .pool(json!({"spec": {"disruption": {
            "consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}, closed]}}}))
        .await;
    story.deploy("stays", 1, "900m", in_zone("sim-a")).await;
    story.deploy("goes", 1, "900m", in_zone("sim-b")).await;
    story.runs("goes", 1).await;
    let sight = story.runs("stays", 1).await;
    let old = sight.homes_by("stays", "kubernetes.io/hostname").remove(0);
    story.change_pool(another_template()).await;
    story
        .until("both have drifted", |sight| {
            sight.claims().len() == 2
                && sight.claims().iter().all(|claim| is_true(claim, "Drifted"))
        })
        .await;
    story.scale("goes", 0).await;
    let sight = story
        .until("the empty one goes all the same", |sight| {
            sight.claims().len() == 1
        })
        .await;
    assert_eq!(sight.claim_names(), [&*old]);
    let kept = old.clone();
    story
        .until("the other says which budget holds it", move |sight| {
            let said = sight.said(&kept);
            said.iter()
                .any(|words| words.contains("budget") && words.contains("Drifted"))
        })
        .await;
    assert_eq!(story.sight().claim_names(), [&*old]);
    // The same budget, in a window that is not now: one minute of the year.
    let open =
        json!({"nodes": "0", "reasons": ["Drifted"], "schedule": "0 0 1 1 *", "duration": "1m"});
    story
        .change_pool(json!({"spec": {"disruption": {"budgets": [{"nodes": "100%"}, open]}}}))
        .await;
    story
        .until("the drifted one is replaced", |sight| {
            sight.claim(&old).is_none() && sight.running("stays").len() == 1
        })
        .await;
    story.end().await;
}

/// Machines that are on their way out, or meant to be.
fn leaving(sight: &Sight) -> usize {
    let claims = sight.claims();
    let leaving = claims.iter().filter(|claim| {
        let metadata = &claim["metadata"];
        let going = !metadata["deletionTimestamp"].is_null()
            || !metadata["annotations"]["joiner.dev/disruption"].is_null();
        // As Karpenter counts: one whose pods are gone and whose machine ends is not in anybody's way any more.
        going && !is_true(claim, "InstanceTerminating")
    });
    leaving.count()
}

async fn no_more_nodes_go_at_once_than_the_budget_says() {
    let story = Story::begin("onebyone").await;
    story
        .pool(json!({"spec": {"disruption": {"budgets": [{"nodes": "1"}]}}}))
        .await;
    for zone in ["sim-a", "sim-b", "sim-c"] {
        story.deploy(zone, 1, "1500m", in_zone(zone)).await;
    }
    for zone in ["sim-a", "sim-b", "sim-c"] {
        story.runs(zone, 1).await;
    }
    let sight = story
        .until("three machines", |sight| {
            sight.claims().len() == 3 && sight.all_ready()
        })
        .await;
    let old = sight.claim_names();
    let held = story.always("one at a time", |sight| leaving(sight) <= 1);
    story.change_pool(another_template()).await;
    story
        .until("all three are replaced", |sight| {
            let now = sight.claim_names();
            now.len() == 3 && old.iter().all(|name| !now.contains(name)) && sight.all_ready()
        })
        .await;
    held.check();
    story.end().await;
}
