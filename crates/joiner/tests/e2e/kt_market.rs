//! A cloudspace whose prices these tests make, served by one Joiner for both families that can buy there.

use std::sync::Arc;

use joiner_testing::Seen;
use serde_json::json;
use tokio::sync::OnceCell;

use crate::harness::{Story, is_true, label, tests, text};
use crate::kt::{self, Cloudspace};

tests![
    kt_17_one_large_server_or_several_small_ones_whichever_is_cheaper,
    karpenter_pools_buy_from_rackspace_with_the_token_of_a_secret,
];

const CLASSES: &str = "/apis/joiner.dev/v1alpha1/rackspacenodeclasses";

static MARKET: OnceCell<Arc<Cloudspace>> = OnceCell::const_new();

async fn market() -> Arc<Cloudspace> {
    let made = MARKET.get_or_init(|| async {
        let space = Cloudspace::start().await;
        let both = [space.arguments(), vec!["--dialect=karpenter".to_owned()]].concat();
        space.world.join_with("joiner", &both);
        space
    });
    Arc::clone(made.await)
}

/// Only this story buys what it changes the price of.
async fn kt_17_one_large_server_or_several_small_ones_whichever_is_cheaper() {
    for (name, mills, expected) in [
        ("kt-17-one", 15, vec!["ch.vs1.xlarge-ord"]),
        ("kt-17-two", 60, vec!["ch.vs1.large-ord"; 2]),
    ] {
        let story = kt::Story::begin_on(market().await, name).await;
        let cloud = &story.space.cloud;
        cloud.change_class("ch.vs1.xlarge-ord", |class| class.pinned = Some(mills));
        // What is bought is decided with the prices of that moment: both families must have read them.
        let reads = |calls: &[String]| {
            let feed = calls.iter().filter(|call| call.contains("/serverclasses"));
            feed.count()
        };
        let before = reads(&cloud.calls());
        story.pool(json!({"categories": ["ch"]})).await;
        while reads(&cloud.calls()) < before + 5 {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        story.deploy("web", 6, "1100m").await;
        let seen = story
            .until("all pods run", |seen: &Seen| story.running(seen) == 6)
            .await;
        let nodes = story.spot_nodes(&seen);
        let bought: Vec<&str> = nodes
            .iter()
            .map(|node| text(node, "/spec/instanceType"))
            .collect();
        assert_eq!(bought, expected, "with {mills} mills for eight cores");
        story.end().await;
    }
}

async fn karpenter_pools_buy_from_rackspace_with_the_token_of_a_secret() {
    let space = market().await;
    let story = Story::begin_on(Arc::clone(&space.world), "rackspace").await;
    let secret = |token: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "spot"},
            "stringData": {"refresh-token": token, "cloudspace-id": "demo"}})
    };
    story.create(secret("revoked")).await;
    let class = json!({"apiVersion": "joiner.dev/v1alpha1", "kind": "RackspaceNodeClass",
        "metadata": {"name": "rackspace"},
        "spec": {"credentialsSecretRef": {"name": "spot", "namespace": "rackspace"}, "maxPrice": "0.05"}});
    story.create(class).await;
    story
        .pool(json!({"spec": {
            "disruption": {"consolidateAfter": "0s"},
            "template": {"spec": {
                "nodeClassRef": {"kind": "RackspaceNodeClass"},
                "requirements": [
                    {"key": "node.kubernetes.io/instance-type", "operator": "In",
                        "values": ["gp.vs1.large-ord", "gp.vs1.xlarge-ord"]},
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]}}}}))
        .await;
    story.deploy("web", 6, "500m", json!({})).await;
    story
        .until("the pool says that the token is no good", |sight| {
            let pool = sight.pool();
            pool.is_some_and(|pool| {
                let said = pool["status"]["conditions"].to_string();
                !is_true(&pool, "Ready") && said.contains("token")
            })
        })
        .await;
    // Whoever replaces the token need not restart anything.
    let path = story.path("v1", "Secret", "spot");
    story.world.patch(&path, &secret("sim-refresh-token")).await;
    let sight = story.runs("web", 6).await;
    let claims = sight.claims();
    let [claim] = &*claims else {
        panic!("{claims:#?}");
    };
    assert_eq!(
        label(claim, "node.kubernetes.io/instance-type"),
        "gp.vs1.large-ord"
    );
    assert_eq!(label(claim, "karpenter.sh/capacity-type"), "spot");
    let uid = text(claim, "/metadata/uid").to_owned();
    let pools = space.cloud.pools();
    let own = pools.iter().find(|pool| pool["metadata"]["name"] == *uid);
    let bid: f64 = text(own.unwrap(), "/spec/bidPrice").parse().unwrap();
    assert!(bid <= 0.05, "{bid}");
    let class = story.world.get(&format!("{CLASSES}/rackspace")).await;
    let class = class.unwrap();
    assert!(is_true(&class, "Ready"), "{class:#}");
    assert_eq!(text(&class, "/status/region"), "us-central-ord-1");
    assert!(!text(&class, "/status/pricesAsOf").is_empty(), "{class:#}");
    story.scale("web", 0).await;
    story
        .until("the server is given back", |sight| {
            let pools = space.cloud.pools();
            sight.claims().is_empty() && pools.iter().all(|pool| pool["metadata"]["name"] != *uid)
        })
        .await;
    story.end().await;
}
