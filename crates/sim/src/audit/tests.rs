//! The auditor sees what must not happen, and is silent about what may.

mod records;
mod rules;

use http::Request;
use http_body_util::Full;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::CapacityType;
use joiner_providers::{LaunchRequest, MachineId, Provider as _, Uid};
use serde_json::{Value, json};
use tower::Service as _;

use super::*;
use crate::clouds::sim::{Rack, SimCloud, SimCloudOptions, built_in};
use joiner_embedded::api::{DeleteOptions, Options};
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;

struct NoRack;

impl Rack for NoRack {
    fn boot(&self, _: NodeSpec) {}
    fn kill(&self, _: &str) {}
}

struct World {
    server: ApiServer,
    cloud: SimCloud,
    auditor: Auditor,
}

impl World {
    /// A server, a cloud, the two kinds that matter, and a pool with room for one small machine.
    fn new() -> Self {
        let clock = Clock::virtual_time();
        let server = ApiServer::new(clock.clone(), &Options::default());
        let cloud = SimCloud::new(
            SimCloudOptions::calm(built_in(), 1),
            clock,
            Arc::new(NoRack),
        );
        let class = Class {
            group: "joiner.dev".to_owned(),
            name: "sim".to_owned(),
        };
        let classes = BTreeMap::from([(class, built_in())]);
        let auditor = Auditor::new(AuditOptions::new("cluster", vec![&KARPENTER], classes));
        auditor.watch_server(&server);
        auditor.watch_cloud(&cloud);
        let world = World {
            server,
            cloud,
            auditor,
        };
        for (plural, kind) in [("nodeclaims", "NodeClaim"), ("nodepools", "NodePool")] {
            world.create(
                "customresourcedefinitions.apiextensions.k8s.io",
                "",
                json!({
                    "metadata": {"name": format!("{plural}.karpenter.sh")},
                    "spec": {
                        "group": "karpenter.sh", "scope": "Cluster",
                        "names": {"plural": plural, "kind": kind, "singular": kind.to_lowercase()},
                        "versions": [{
                            "name": "v1", "served": true, "storage": true,
                            "schema": {"openAPIV3Schema":
                                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
                        }],
                    },
                }),
            );
        }
        world.create(
            "nodepools.karpenter.sh",
            "",
            json!({
                "metadata": {"name": "small"},
                "spec": {
                    "limits": {"cpu": "5", "nodes": "2"},
                    "disruption": {"budgets": [{"nodes": "1"}]},
                    "template": {"spec": {"nodeClassRef": {"group": "joiner.dev", "name": "sim"}}},
                },
            }),
        );
        world
    }

    fn create(&self, resource: &str, namespace: &str, object: Value) -> Arc<Value> {
        self.server
            .local()
            .create(resource, namespace, object)
            .unwrap()
    }

    /// As Joiner would, over HTTP.
    async fn send(&self, method: &str, path: &str, body: Value) -> u16 {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(
                "content-type",
                if method == "PATCH" {
                    "application/merge-patch+json"
                } else {
                    "application/json"
                },
            )
            .body(Full::<bytes::Bytes>::from(body.to_string()))
            .unwrap();
        let response = self.server.clone().call(request).await.unwrap();
        response.status().as_u16()
    }

    fn claim(&self, name: &str, class_group: &str) -> Uid {
        let claim = self.create(
            "nodeclaims.karpenter.sh",
            "",
            json!({
                "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "small"}},
                "spec": {"nodeClassRef": {"group": class_group, "name": "sim"}},
            }),
        );
        Uid(claim["metadata"]["uid"].as_str().unwrap().into())
    }

    async fn buy(&self, uid: &Uid, instance_type: &str) -> MachineId {
        let request = LaunchRequest {
            uid: uid.clone(),
            name: "node".into(),
            purchase: Purchase {
                catalog: "sim".into(),
                instance_type: instance_type.into(),
                zone: "sim-a".into(),
                capacity_type: CapacityType::OnDemand,
                reservation: None,
                host: None,
                price: joiner_core::money::Money::ZERO,
            },
            capacity: joiner_core::resources::Resources::new(),
            labels: Labels::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            max_price: None,
        };
        self.cloud.launch(&request).await.unwrap().id
    }

    /// A node of a machine, with a pod on it.
    fn node_with_pod(&self, id: &MachineId, annotations: &Value) {
        self.create(
            "nodes",
            "",
            json!({
                "metadata": {"name": "node"},
                "spec": {"providerID": id.to_string()},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }),
        );
        self.create(
            "pods",
            "default",
            json!({
                "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": annotations},
                "spec": {"nodeName": "node", "containers": [{"name": "main", "image": "none"}]},
            }),
        );
    }

    fn found(&self) -> Vec<Invariant> {
        let violations = self.auditor.violations();
        violations.into_iter().map(|one| one.invariant).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn ordinary_purchases_and_writes_are_fine() {
    let world = World::new();
    let uid = world.claim("one", "joiner.dev");
    world.buy(&uid, "m-4x-amd64").await;
    let path = "/apis/karpenter.sh/v1/nodeclaims/one";
    let patch = json!({"metadata": {"annotations": {"a": "b"}}});
    assert_eq!(world.send("PATCH", path, patch).await, 200);
    assert_eq!(world.found(), []);
}

#[tokio::test(start_paused = true)]
async fn a_second_machine_for_one_object_is_seen() {
    let world = World::new();
    world.cloud.change(|options| options.forgets_orders = true);
    let uid = world.claim("one", "joiner.dev");
    world.buy(&uid, "m-1x-amd64").await;
    world.buy(&uid, "m-1x-amd64").await;
    assert_eq!(world.found(), [Invariant::OneMachine]);
    let history = &world.auditor.violations()[0].history;
    assert!(
        history.iter().any(|line| line.contains("sold")),
        "{history:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_machine_beyond_the_limits_is_seen() {
    let world = World::new();
    let one = world.claim("one", "joiner.dev");
    let two = world.claim("two", "joiner.dev");
    world.buy(&one, "m-4x-amd64").await;
    assert_eq!(world.found(), []);
    world.buy(&two, "m-2x-amd64").await;
    assert_eq!(world.found(), [Invariant::Limits]);
}

#[tokio::test(start_paused = true)]
async fn more_machine_objects_than_nodes_allowed_are_seen() {
    let world = World::new();
    for name in ["one", "two", "three"] {
        let claim = json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "small"},
                "annotations": {"joiner.dev/managed-by": "cluster.karpenter"}},
            "spec": {"nodeClassRef": {"group": "joiner.dev"}},
        });
        let path = "/apis/karpenter.sh/v1/nodeclaims";
        assert_eq!(world.send("POST", path, claim).await, 201);
    }
    assert_eq!(world.found(), [Invariant::Limits]);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_goes_before_its_machine_is_seen() {
    let world = World::new();
    let uid = world.claim("one", "joiner.dev");
    world.buy(&uid, "m-1x-amd64").await;
    let local = world.server.local();
    local
        .delete(
            "nodeclaims.karpenter.sh",
            "",
            "one",
            DeleteOptions::default(),
        )
        .unwrap();
    assert_eq!(world.found(), [Invariant::MachineFirst]);
}

#[tokio::test(start_paused = true)]
async fn hands_on_what_others_own_are_seen() {
    let world = World::new();
    world.claim("theirs", "elsewhere.example.com");
    world.create("nodes", "", json!({"metadata": {"name": "theirs"}}));
    let planted = world.cloud.plant("theirs").await.unwrap();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    for path in [
        "/apis/karpenter.sh/v1/nodeclaims/theirs",
        "/api/v1/nodes/theirs",
    ] {
        assert_eq!(world.send("PATCH", path, label.clone()).await, 200);
    }
    world.cloud.terminate(&planted).await.unwrap();
    assert_eq!(world.found(), [Invariant::Foreign; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_pools_spec_belongs_to_its_user() {
    let world = World::new();
    let patch = json!({"spec": {"limits": {"cpu": "500"}}});
    let path = "/apis/karpenter.sh/v1/nodepools/small";
    assert_eq!(world.send("PATCH", path, patch).await, 200);
    assert_eq!(world.found(), [Invariant::OwnFields]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_stopped_under_its_pods_is_seen() {
    let world = World::new();
    let uid = world.claim("one", "joiner.dev");
    let id = world.buy(&uid, "m-1x-amd64").await;
    world.node_with_pod(&id, &json!({}));
    let local = world.server.local();
    let mut claim = Value::clone(&local.get("nodeclaims.karpenter.sh", "", "one").unwrap());
    claim["metadata"]["finalizers"] = json!(["karpenter.sh/termination"]);
    local.update("nodeclaims.karpenter.sh", claim).unwrap();
    local
        .delete(
            "nodeclaims.karpenter.sh",
            "",
            "one",
            DeleteOptions::default(),
        )
        .unwrap();
    world.cloud.terminate(&id).await.unwrap();
    assert_eq!(world.found(), [Invariant::Drained]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_or_protected_is_missed() {
    let world = World::new();
    let uid = world.claim("one", "joiner.dev");
    let id = world.buy(&uid, "m-1x-amd64").await;
    world.node_with_pod(&id, &json!({"karpenter.sh/do-not-disrupt": "true"}));
    let evict = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "default"},
    });
    let path = "/api/v1/namespaces/default/pods/web/eviction";
    assert_eq!(world.send("POST", path, evict).await, 201);
    // The node was not to go, and the pod was not to be disrupted.
    assert_eq!(world.found(), [Invariant::Protected; 2]);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_beyond_the_budget_is_seen_even_if_the_server_lets_it_pass() {
    let world = World::new();
    let uid = world.claim("one", "joiner.dev");
    let id = world.buy(&uid, "m-1x-amd64").await;
    world.node_with_pod(&id, &json!({}));
    let local = world.server.local();
    let mut pod = Value::clone(&local.get("pods", "default", "web").unwrap());
    pod["status"] =
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    local.update_status("pods", pod).unwrap();
    let mut budget = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    let made = world.create("poddisruptionbudgets.policy", "default", budget.clone());
    // A status that is wrong: it lets one go where none may.
    budget["metadata"] = made["metadata"].clone();
    budget["status"] = json!({
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 1, "desiredHealthy": 1,
        "expectedPods": 1,
    });
    local
        .update_status("poddisruptionbudgets.policy", budget)
        .unwrap();
    let evict = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": "web", "namespace": "default"},
    });
    let path = "/api/v1/namespaces/default/pods/web/eviction";
    assert_eq!(world.send("POST", path, evict).await, 201);
    assert!(
        world.found().contains(&Invariant::Evictions),
        "{:?}",
        world.found()
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_written_at_rest_is_seen_and_leases_are_not() {
    let world = World::new();
    world.claim("one", "joiner.dev");
    let now = world.server.local().clock().now();
    world.auditor.rest(now);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "joiner"},
    });
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    assert_eq!(world.send("POST", leases, lease).await, 201);
    assert_eq!(world.found(), []);
    let path = "/apis/karpenter.sh/v1/nodeclaims/one";
    let patch = json!({"metadata": {"annotations": {"a": "b"}}});
    assert_eq!(world.send("PATCH", path, patch).await, 200);
    assert_eq!(world.found(), [Invariant::Rest]);
}

#[tokio::test(start_paused = true)]
async fn a_price_may_be_looked_up_at_rest_and_not_too_often() {
    let world = World::new();
    world.claim("one", "joiner.dev");
    let path = "/apis/karpenter.sh/v1/nodeclaims/one";
    let looked = |time: &str| json!({"status": {"lastPriceCheck": time}});
    let first = looked("2026-01-01T00:00:00Z");
    assert_eq!(world.send("PATCH", path, first).await, 200);
    world.auditor.rest(world.server.local().clock().now());
    let later = looked("2026-01-01T00:10:00Z");
    assert_eq!(world.send("PATCH", path, later).await, 200);
    assert_eq!(world.found(), []);
    let soon = looked("2026-01-01T00:15:00Z");
    assert_eq!(world.send("PATCH", path, soon).await, 200);
    assert_eq!(world.found(), [Invariant::Rest]);
}

#[tokio::test(start_paused = true)]
async fn a_leak_is_seen_once_it_has_lasted_too_long() {
    let world = World::new();
    let now = world.server.local().clock().now();
    let uid = Uid("nobody".into());
    world.buy(&uid, "m-1x-amd64").await;
    let later = |minutes| now + jiff::SignedDuration::from_mins(minutes);
    world.auditor.look(now);
    world.auditor.look(later(44));
    assert!(!world.found().contains(&Invariant::NothingLeaked));
    world.auditor.look(later(46));
    world.auditor.look(later(47));
    let leaks = world
        .found()
        .into_iter()
        .filter(|one| *one == Invariant::NothingLeaked);
    assert_eq!(leaks.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_could_run_and_waits_is_open_and_one_that_cannot_is_not() {
    let world = World::new();
    let pod = |name: &str, cpu: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {"containers": [{
                "name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}},
            }]},
        })
    };
    world.create("pods", "default", pod("small", "500m"));
    world.create("pods", "default", pod("giant", "6"));
    let open = world.auditor.open();
    assert_eq!(
        open,
        ["pod default/small waits although pool small of karpenter could buy it a machine"]
    );
}

#[tokio::test(start_paused = true)]
async fn somebody_who_works_in_circles_is_seen_although_no_time_passes() {
    let world = World::new();
    let server = world.server.local();
    let lease = json!({"metadata": {"name": "round"}, "spec": {}});
    let mut lease = Value::clone(
        &*server
            .create("leases.coordination.k8s.io", "default", lease)
            .unwrap(),
    );
    for turn in 0..MOST_AT_ONCE {
        lease["spec"]["leaseTransitions"] = json!(turn + 1);
        let written = server.update("leases.coordination.k8s.io", lease).unwrap();
        lease = Value::clone(&written);
    }
    world.auditor.stuck().await;
    assert_eq!(world.found(), [Invariant::TimePasses]);
}
