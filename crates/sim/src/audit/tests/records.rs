//! Machines of a cloud whose wire carries no marks, against what stands on record.

use super::*;
use crate::clouds::ovhcloud::{OvhCloud, OvhCloudOptions};
use axum::body::Body;
use tower::ServiceExt as _;

const POOLS: &str = "/1.0/cloud/project/p/kube/k/nodepool";

struct Groups {
    world: World,
    cloud: OvhCloud,
}

impl Groups {
    /// A cloud that lets everybody in, beside the usual one, and its only pool, empty.
    async fn new() -> Self {
        let world = World::new();
        let mut options = OvhCloudOptions::calm(1);
        options.pool_appears = std::time::Duration::ZERO;
        let clock = world.server.local().clock().clone();
        let cloud = OvhCloud::new(options, clock, Arc::new(NoRack)).open();
        world.auditor.watch_cloud(&cloud);
        let running = cloud.clone();
        tokio::spawn(async move { running.run().await });
        let groups = Groups { world, cloud };
        let pool = json!({
            "name": "group", "flavorName": "b3-8", "desiredNodes": 0, "minNodes": 0, "maxNodes": 9,
            "availabilityZones": ["eu-west-par-a"],
            "template": {
                "metadata": {"labels": {}, "finalizers": [],
                    "annotations": {"joiner.dev/owner": "cluster/karpenter/default"}},
                "spec": {"taints": [], "unschedulable": false},
            },
        });
        groups.call("POST", POOLS, pool).await;
        groups
    }

    async fn call(&self, method: &str, path: &str, body: Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::from(body.to_string())).unwrap();
        let answer = self.cloud.router().oneshot(request).await.unwrap();
        assert!(answer.status().is_success(), "{answer:?}");
    }

    /// Tells the pool how many nodes it is to have.
    async fn resize(&self, wanted: u32) {
        let id = self.cloud.pools()[0]["id"].as_str().unwrap().to_owned();
        let body = json!({"desiredNodes": wanted, "nodesToRemove": []});
        self.call("PUT", &format!("{POOLS}/{id}"), body).await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }

    /// Puts an order on record, as Joiner would.
    async fn order(&self, uid: &Uid, node: Option<&str>) {
        let value = json!({"pool": "group", "flavor": "b3-8", "zone": "eu-west-par-a", "node": node,
            "at": "2026-01-01T00:00:00Z"});
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("order-{}", uid.0), "labels": {"joiner.dev/ledger": "c"}},
            "data": {"key": uid.0, "value": value.to_string()},
        });
        let path = "/api/v1/namespaces/default/configmaps";
        let name = format!("{path}/order-{}", uid.0);
        if self.world.send("POST", path, map.clone()).await != 201 {
            let patch = json!({"data": map["data"]});
            assert_eq!(self.world.send("PATCH", &name, patch).await, 200);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_may_grow_to_what_is_on_record_and_no_further() {
    let groups = Groups::new().await;
    let uid = groups.world.claim("one", "joiner.dev");
    groups.order(&uid, None).await;
    groups.resize(1).await;
    assert_eq!(groups.world.found(), []);
    groups.resize(2).await;
    assert_eq!(groups.world.found(), [Invariant::OneMachine]);
}

#[tokio::test(start_paused = true)]
async fn a_group_may_not_shrink_below_what_stays() {
    let groups = Groups::new().await;
    let uid = groups.world.claim("one", "joiner.dev");
    groups.order(&uid, None).await;
    groups.resize(1).await;
    let node = groups.cloud.nodes()[0].id.clone();
    groups.order(&uid, Some(&node)).await;
    assert_eq!(groups.world.found(), []);
    groups.resize(0).await;
    // It was told to be too small, and the machine that went is one that was not to go.
    assert_eq!(groups.world.found(), [Invariant::Drained; 2]);
}

#[tokio::test(start_paused = true)]
async fn machines_that_are_made_for_orders_count_against_limits_before_they_are_given() {
    let groups = Groups::new().await;
    // Five cores are allowed, and each node has two.
    for name in ["one", "two", "three"] {
        let uid = groups.world.claim(name, "joiner.dev");
        groups.order(&uid, None).await;
    }
    groups.resize(2).await;
    assert_eq!(groups.world.found(), []);
    groups.resize(3).await;
    assert_eq!(groups.world.found(), [Invariant::Limits]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_goes_before_its_order_is_seen() {
    let groups = Groups::new().await;
    let uid = groups.world.claim("one", "joiner.dev");
    groups.order(&uid, None).await;
    let local = groups.world.server.local();
    let options = DeleteOptions::default();
    local
        .delete("nodeclaims.karpenter.sh", "", "one", options)
        .unwrap();
    assert_eq!(groups.world.found(), [Invariant::MachineFirst]);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_left_behind_and_a_machine_on_no_record_are_leaks() {
    let groups = Groups::new().await;
    let open = groups.world.auditor.open();
    assert_eq!(open, ["group group is empty and still there"]);
    let uid = groups.world.claim("one", "joiner.dev");
    groups.order(&uid, None).await;
    groups.resize(1).await;
    // A hypervisor breaks, and the cloud makes another node by itself.
    let node = groups.cloud.nodes()[0].id.clone();
    groups.order(&uid, Some(&node)).await;
    groups.cloud.lose_node(&node);
    tokio::time::sleep(std::time::Duration::from_mins(3)).await;
    let open = groups.world.auditor.open();
    assert!(
        open.iter().any(|one| one.contains("is on no record")),
        "{open:?}"
    );
    let found = groups.world.found();
    assert_eq!(found, [], "nobody at Joiner's did anything");
}
