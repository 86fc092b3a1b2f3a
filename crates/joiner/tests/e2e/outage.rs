//! An API server that stands still for a minute, in the middle of a launch.

use std::sync::Arc;
use std::time::Duration;

use joiner_testing::{Program, Signal};
use serde_json::json;

use crate::harness::{Sight, Story, World, tests};

tests![an_api_server_that_stands_still_for_a_minute_costs_nothing_but_time];

async fn an_api_server_that_stands_still_for_a_minute_costs_nothing_but_time() {
    let world = World::start().await;
    world.join("joiner");
    let story = Story::begin_on(Arc::clone(&world), "outage").await;
    story
        .pool(json!({"spec": {"disruption": {"consolidateAfter": "0s"}}}))
        .await;
    story.deploy("web", 4, "900m", json!({})).await;
    story.runs("web", 4).await;
    let before = story
        .until("all is well", Sight::all_ready)
        .await
        .claim_names();
    story.scale("web", 12).await;
    let asked = story
        .until("more is asked for", |sight| {
            sight.claims().len() > before.len()
        })
        .await
        .claim_names();
    world
        .plane()
        .signal(Program::KubeApiserver, Signal::Stop)
        .unwrap();
    tokio::time::sleep(Duration::from_mins(1)).await;
    world
        .plane()
        .signal(Program::KubeApiserver, Signal::Continue)
        .unwrap();
    let sight = story
        .until("all pods run", |sight| {
            sight.running("web").len() == 12 && sight.all_ready()
        })
        .await;
    assert!(world.alive("joiner"), "the same process goes on");
    let after = sight.claim_names();
    assert!(
        before.iter().chain(&asked).all(|name| after.contains(name)),
        "{before:?} {asked:?} {after:?}"
    );
    assert_eq!(sight.machines().len(), after.len());
    assert_eq!(sight.nodes().len(), after.len());
    // And it is no worse for it afterwards.
    story.scale("web", 0).await;
    story
        .until("everything is gone", |sight| {
            sight.claims().is_empty() && sight.nodes().is_empty() && sight.machines().is_empty()
        })
        .await;
}
