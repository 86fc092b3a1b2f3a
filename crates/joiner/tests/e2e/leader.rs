//! A leader that dies at the worst moment is followed by another, and nothing is bought twice.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use joiner_testing::Signal;
use serde_json::{Value, json};

use crate::harness::{Sight, Story, World, is_true, tests, text};

/// Whether a claim has come so far.
type Moment = fn(&Value) -> bool;

tests![a_leader_killed_in_mid_launch_is_followed_by_another_that_buys_nothing_twice];

/// Who leads.
async fn leader(world: &World) -> String {
    loop {
        let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/joiner-leader-election";
        let lease = world.get(path).await;
        let holder = lease
            .as_ref()
            .map_or("", |lease| text(lease, "/spec/holderIdentity"));
        if let Some(name) = world.joiner_of(holder) {
            return name;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

async fn a_leader_killed_in_mid_launch_is_followed_by_another_that_buys_nothing_twice() {
    let world = World::start().await;
    world.join("first");
    world.join("second");
    let story = Story::begin_on(Arc::clone(&world), "leader").await;
    // Long enough to be killed in.
    story
        .change_class(json!({"spec": {"bootTime": {"min": "8s", "max": "8s"}}}))
        .await;
    story.pool(json!({})).await;
    let ever: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let record = Arc::clone(&ever);
    let _watched = story.always(
        "every machine that ever was is written down",
        move |sight| {
            let mut ever = record.lock().unwrap();
            ever.extend(sight.machines());
            ever.extend(sight.claim_names());
            true
        },
    );
    // At each of these moments of a launch the leader dies.
    let moments: [(&str, Moment); 3] = [
        ("it was asked for", |_| true),
        ("it was bought", |claim| {
            !text(claim, "/status/providerID").is_empty()
        }),
        ("it became a node", |claim| is_true(claim, "Registered")),
    ];
    let mut replicas = 0;
    for (round, (what, moment)) in moments.into_iter().enumerate() {
        let before = story.sight().claim_names();
        let dying = leader(&world).await;
        replicas += 2;
        // Two pods fill a small machine.
        story.scale_or_deploy("web", replicas, "1").await;
        story
            .until(what, |sight| {
                let claims = sight.claims();
                let new = |claim: &&Arc<Value>| {
                    !before
                        .iter()
                        .any(|name| name == text(claim, "/metadata/name"))
                };
                claims.iter().filter(new).any(|claim| moment(claim))
            })
            .await;
        world.signal(&dying, Signal::Kill);
        world.join(&format!("third-{round}"));
        story
            .until("all pods run", |sight| {
                sight.running("web").len() == usize::try_from(replicas).unwrap()
                    && Sight::all_ready(sight)
            })
            .await;
    }
    let sight = story.sight();
    assert_eq!(sight.claims().len(), 3, "{:?}", sight.claim_names());
    assert_eq!(sight.machines().len(), 3);
    assert_eq!(sight.nodes().len(), 3);
    let ever = ever.lock().unwrap();
    assert_eq!(
        ever.len(),
        6,
        "three objects and three machines, ever: {ever:?}"
    );
}
