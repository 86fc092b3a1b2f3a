//! Clouds that do not deliver, and what is left lying about.

use serde_json::json;

use crate::harness::{Sight, Story, label, paths, tests, text};

tests![
    a_machine_that_never_becomes_a_node_is_given_up,
    what_is_sold_out_is_bought_elsewhere,
    a_machine_without_an_object_is_taken_away,
    a_machine_whose_object_went_before_it_joined_is_taken_away_with_its_node,
    an_object_without_a_machine_is_taken_away,
];

async fn a_machine_that_never_becomes_a_node_is_given_up() {
    let story = Story::begin("stillborn").await;
    story
        .change_class(
            json!({"spec": {"registrationTimeout": "10s", "failures": {"registration": "100%"}}}),
        )
        .await;
    story.pool(json!({})).await;
    story.deploy("web", 2, "500m", json!({})).await;
    let sight = story
        .until("a machine is bought", |sight| sight.machines().len() == 1)
        .await;
    let first = sight.claim_names().remove(0);
    story
        .until("it is given up and paid for no longer", |sight| {
            sight.claim(&first).is_none()
        })
        .await;
    let said = story.sight().said(&first).join("\n");
    assert!(said.contains("in time"), "it says why: {said}");
    story
        .change_class(json!({"spec": {"failures": {"registration": "0%"}}}))
        .await;
    story.runs("web", 2).await;
    story
        .until("there is nothing but what is used", |sight| {
            sight.claims().len() == 1 && sight.machines().len() == 1
        })
        .await;
    story.end().await;
}

async fn what_is_sold_out_is_bought_elsewhere() {
    let story = Story::begin("soldout").await;
    // The price list does not say so: it shows when somebody wants to buy.
    story
        .change_class(json!({"spec": {"stockOuts": {"hidden": true, "offerings": [
            {"instanceType": "small"}, {"instanceType": "medium", "zone": "sim-a"}]}}}))
        .await;
    story.pool(json!({})).await;
    story.deploy("web", 2, "500m", json!({})).await;
    let sight = story.runs("web", 2).await;
    let claims = sight.claims();
    assert_eq!(claims.len(), 1);
    assert_eq!(sight.types(), ["medium"]);
    let zone = label(&claims[0], "topology.kubernetes.io/zone");
    assert!(zone == "sim-b" || zone == "sim-c", "{zone}");
    assert_eq!(sight.machines().len(), 1);
    story.end().await;
}

/// As many nodes and machines as objects, and all pods run.
fn tidy(sight: &Sight) -> bool {
    let claims = sight.claims().len();
    claims == 1
        && sight.nodes().len() == claims
        && sight.machines().len() == claims
        && sight.running("web").len() == 2
}

/// Takes a machine object away by force, so that nobody looks after its machine any more.
async fn take_by_force(story: &Story, name: &str) {
    let path = format!("{}/{name}", paths::CLAIMS);
    let free = json!({"metadata": {"finalizers": null}});
    story.world.patch(&path, &free).await;
    story.world.delete(&path).await;
    // Somebody may have put them on again in between.
    if story.world.get(&path).await.is_some() {
        story.world.patch(&path, &free).await;
    }
}

async fn a_machine_without_an_object_is_taken_away() {
    let story = Story::begin("leaked").await;
    story.pool(json!({})).await;
    story.deploy("web", 2, "500m", json!({})).await;
    story.runs("web", 2).await;
    let sight = story.until("all is well", Sight::all_ready).await;
    let (name, sold) = (sight.claim_names().remove(0), sight.machines());
    take_by_force(&story, &name).await;
    story
        .until("what nobody asked for is gone, and the pods run", |sight| {
            tidy(sight) && sight.machines().iter().all(|one| !sold.contains(one))
        })
        .await;
    story.end().await;
}

async fn a_machine_whose_object_went_before_it_joined_is_taken_away_with_its_node() {
    let story = Story::begin("orphan").await;
    story
        .change_class(json!({"spec": {"bootTime": {"min": "4s", "max": "4s"}}}))
        .await;
    story.pool(json!({})).await;
    story.deploy("web", 2, "500m", json!({})).await;
    let bought = |sight: &Sight| {
        let claims = sight.claims();
        claims
            .iter()
            .any(|claim| !text(claim, "/status/providerID").is_empty())
    };
    let sight = story.until("a machine is bought", bought).await;
    let (name, sold) = (sight.claim_names().remove(0), sight.machines());
    assert!(sight.node(&name).is_none(), "it has not joined yet");
    take_by_force(&story, &name).await;
    story
        .until("it is gone, its node too, and the pods run", |sight| {
            sight.node(&name).is_none()
                && tidy(sight)
                && sight.machines().iter().all(|one| !sold.contains(one))
        })
        .await;
    story.end().await;
}

async fn an_object_without_a_machine_is_taken_away() {
    let story = Story::begin("lost").await;
    // The cloud takes the machine back without a word.
    let old = story.doomed("30s", "0s").await;
    story
        .until("the cloud has taken it back", |sight| {
            sight.machines().is_empty()
        })
        .await;
    story
        .until(
            "its object and its node are gone, and the pods run",
            |sight| sight.claim(&old).is_none() && sight.node(&old).is_none() && tidy(sight),
        )
        .await;
    story.end().await;
}
