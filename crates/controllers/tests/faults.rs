//! The same loop while things go wrong: an API server that is away, answers that are lost, requests that fail.

mod world;

use std::time::Duration;

use joiner_embedded::api::Verb;
use joiner_embedded::faults::{Chances, Fault, Rule};
use world::{World, pass};

/// Nothing leaked, nothing bought twice: what the cloud has, what was asked for and what is a node are the same.
fn settled(world: &World) -> bool {
    let claims = world.claims().len();
    world.cloud.machines().len() == claims && world.nodes() == claims
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_for_a_minute_changes_nothing() {
    let world = World::start().await;
    // Watches that were opened before the outage end soon after it begins.
    world.cluster.server().faults().rule(Rule {
        verb: Some(Verb::Watch),
        fault: Fault::CutWatch(Duration::from_secs(5)),
        ..Rule::default()
    });
    world.pool("default", |_| ());
    world.deployment("web", 10, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 10)
        .await;
    let before = world.cloud.machines().len();
    world.cluster.server().faults().clear();
    world.cluster.server().faults().rule(Rule {
        fault: Fault::DropRequest,
        ..Rule::default()
    });
    pass(60).await;
    world.cluster.server().faults().clear();
    pass(120).await;
    assert_eq!(
        world.cloud.machines().len(),
        before,
        "nobody concluded anything from silence"
    );
    world.deployment("more", 10, "500m", |_| ());
    world
        .until("new pods run too", |world| {
            world.running("more") == 10 && settled(world)
        })
        .await;
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn lost_answers_to_creations_buy_nothing_twice() {
    let world = World::start().await;
    world.pool("default", |_| ());
    for fault in [Fault::DropResponse, Fault::ErrorAfter(504)] {
        world.cluster.server().faults().rule(Rule {
            resource: Some("nodeclaims.karpenter.sh".into()),
            times: Some(6),
            fault,
            ..Rule::default()
        });
    }
    world.deployment("web", 10, "500m", |_| ());
    world
        .until("all pods run", |world| world.running("web") == 10)
        .await;
    pass(300).await;
    assert!(
        settled(&world),
        "{} claims, {} machines",
        world.claims().len(),
        world.cloud.machines().len()
    );
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_rough_hour_ends_well() {
    let world = World::start().await;
    world.pool("default", |pool| {
        pool["spec"]["limits"] = serde_json::json!({"nodes": "20"});
    });
    world.cluster.server().faults().chances(Chances::rough());
    world.deployment("web", 20, "700m", |_| ());
    for turn in 0..12 {
        pass(300).await;
        world.scale("web", [20, 3, 30, 11][turn % 4]);
        assert!(
            world.claims().len() <= 20,
            "the limit holds at every moment"
        );
    }
    world.cluster.server().faults().clear();
    world.scale("web", 8);
    world
        .until("all is well", |world| {
            world.running("web") == 8 && settled(world)
        })
        .await;
    pass(1800).await;
    world
        .until("all is still well", |world| {
            world.running("web") == 8 && settled(world)
        })
        .await;
    world.stop().await;
}
