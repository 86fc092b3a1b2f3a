//! Who is in the way of a drain, and what becomes of it.

use serde_json::{Value, json};

use crate::harness::{Sight, Story, paths, tests, text};

tests![
    a_drain_that_a_disruption_budget_forbids_waits_and_names_it,
    a_blocked_drain_ends_with_the_termination_grace_period,
    pods_that_must_not_be_disrupted_keep_their_node,
];

fn budget(app: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}}})
}

/// All conditions of a machine, as text.
fn conditions(sight: &Sight, claim: &str) -> String {
    let claim = sight.claim(claim);
    claim.map_or_else(String::new, |claim| {
        claim["status"]["conditions"].to_string()
    })
}

async fn a_drain_that_a_disruption_budget_forbids_waits_and_names_it() {
    let story = Story::begin("pdb").await;
    story.pool(json!({})).await;
    story.create(budget("web")).await;
    story.deploy("web", 2, "500m", json!({})).await;
    story.deploy("free", 1, "500m", json!({})).await;
    story.runs("free", 1).await;
    let sight = story.runs("web", 2).await;
    let name = sight.claim_names().remove(0);
    assert_eq!(sight.claims().len(), 1);
    let held = story.always("both pods run", |sight| sight.running("web").len() == 2);
    story
        .world
        .delete(&format!("{}/{name}", paths::CLAIMS))
        .await;
    story
        .until("the budget is named", |sight| {
            conditions(sight, &name).contains("PodDisruptionBudget pdb/web")
        })
        .await;
    // Whoever may go has gone, to a new machine.
    story
        .until("the other pod has moved", |sight| {
            let homes = sight.homes_by("free", "kubernetes.io/hostname");
            homes.len() == 1 && homes[0] != name
        })
        .await;
    held.check();
    drop(held);
    let path = story.path("policy/v1", "PodDisruptionBudget", "web");
    story.world.delete(&path).await;
    story
        .until("the old machine is gone and both pods run", |sight| {
            sight.claim(&name).is_none() && sight.running("web").len() == 2
        })
        .await;
    story.end().await;
}

async fn a_blocked_drain_ends_with_the_termination_grace_period() {
    let story = Story::begin("grace").await;
    story
        .pool(json!({"spec": {"template": {"spec": {"terminationGracePeriod": "15s"}}}}))
        .await;
    story.create(budget("web")).await;
    story.deploy("web", 1, "500m", json!({})).await;
    let sight = story.runs("web", 1).await;
    let name = sight.claim_names().remove(0);
    story
        .world
        .delete(&format!("{}/{name}", paths::CLAIMS))
        .await;
    story
        .until("it says until when it waits", |sight| {
            sight.claim(&name).is_none_or(|claim| {
                !text(
                    &claim,
                    "/metadata/annotations/karpenter.sh~1nodeclaim-termination-timestamp",
                )
                .is_empty()
            })
        })
        .await;
    story
        .until("it is gone in spite of the budget", |sight| {
            sight.claim(&name).is_none() && sight.running("web").len() == 1
        })
        .await;
    story.end().await;
}

async fn pods_that_must_not_be_disrupted_keep_their_node() {
    let story = Story::begin("keep").await;
    story
        .pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}}))
        .await;
    let marked = json!({"spec": {"template": {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}}});
    story.deploy("job", 1, "500m", marked).await;
    story.deploy("web", 8, "900m", json!({})).await;
    story.runs("job", 1).await;
    let sight = story.runs("web", 8).await;
    let home = sight.homes_by("job", "kubernetes.io/hostname").remove(0);
    let pod = text(&sight.running("job")[0], "/metadata/name").to_owned();
    story.scale("web", 0).await;
    // Its machine is too large by far now, and the template has changed, too.
    story
        .change_pool(json!({"spec": {"template": {"metadata": {"labels": {"generation": "two"}}}}}))
        .await;
    let kept = home.clone();
    story
        .until("the machine says why it stays", move |sight| {
            let said = sight.said(&kept);
            said.iter().any(|words| words.contains("do-not-disrupt"))
        })
        .await;
    let sight = story.runs("job", 1).await;
    assert_eq!(sight.homes_by("job", "kubernetes.io/hostname"), [&*home]);
    assert_eq!(text(&sight.running("job")[0], "/metadata/name"), pod);
    let path = story.path("v1", "Pod", &pod);
    story
        .world
        .patch(
            &path,
            &json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}}),
        )
        .await;
    story
        .until("now it goes", |sight| {
            sight.claim(&home).is_none() && sight.running("job").len() == 1
        })
        .await;
    story.end().await;
}
