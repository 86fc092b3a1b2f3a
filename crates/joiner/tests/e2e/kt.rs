//! Karpetrack's promises, each under its id: the real binary on a real control plane, buying from the simulated
//! Rackspace Spot over HTTP.

mod cloudspace;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use joiner_sim::clouds::rackspace::CallFault;
use joiner_testing::{Seen, Signal};
use serde_json::{Value, json};

pub(crate) use self::cloudspace::{Cloudspace, kwok, node};
use crate::harness::{is_true, label, merge, paths, tests, text};

tests![
    kt_01_pods_that_wait_get_the_cheapest_server,
    kt_02_pods_that_come_together_are_planned_together,
    kt_03_a_node_makes_way_for_a_cheaper_one_and_its_pods_never_wait,
    kt_04_empty_nodes_go_after_their_grace,
    kt_05_regions_that_the_cloudspace_is_not_in_are_named,
    kt_06_categories_are_kept_to,
    kt_07_the_manifest_of_the_document_is_taken_as_it_stands,
    kt_08_a_spot_node_has_phases_and_a_finalizer_and_leaks_nothing,
    kt_09_price_limits_labels_and_age_are_kept_to,
    kt_13_a_dead_leader_is_followed_by_another_that_buys_nothing_twice,
    kt_18_a_feed_that_is_down_shows_and_hurts_nobody,
];

/// The label and the taint of a story's nodes.
const STORY: &str = "e2e.joiner.dev/story";
/// How long anything may take; a loaded machine is slow.
const LIMIT: Duration = Duration::from_mins(3);

/// A namespace and a SpotNodePool that belong to one test.
pub(crate) struct Story {
    pub(crate) space: Arc<Cloudspace>,
    name: &'static str,
}

impl Story {
    async fn begin(name: &'static str) -> Self {
        Self::begin_on(Cloudspace::shared().await, name).await
    }

    pub(crate) async fn begin_on(space: Arc<Cloudspace>, name: &'static str) -> Self {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        space.world.create("", &namespace).await;
        Story { space, name }
    }

    /// A pool that only pods of this story use.
    pub(crate) async fn pool(&self, spec: Value) {
        let mut pool = json!({"apiVersion": "karpetrack.io/v1alpha1", "kind": "SpotNodePool",
            "metadata": {"name": self.name},
            "spec": {"labels": {STORY: self.name},
                "taints": [{"key": STORY, "value": self.name, "effect": "NoSchedule"}]}});
        merge(&mut pool["spec"], spec);
        self.space.world.create("", &pool).await;
    }

    pub(crate) async fn deploy(&self, app: &str, replicas: u32, cpu: &str) {
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": app},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}}, "template": {
            "metadata": {"labels": {"app": app}},
            "spec": {
                "nodeSelector": {STORY: self.name},
                "tolerations": [{"key": STORY, "operator": "Exists"}],
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "main", "image": "none",
                    "resources": {"requests": {"cpu": cpu, "memory": "512Mi"}}}],
            }}}});
        self.space.world.create(self.name, &deployment).await;
    }

    async fn scale(&self, app: &str, replicas: u32) {
        let path = format!("/apis/apps/v1/namespaces/{}/deployments/{app}", self.name);
        let change = json!({"spec": {"replicas": replicas}});
        self.space.world.patch(&path, &change).await;
    }

    pub(crate) fn spot_nodes(&self, seen: &Seen) -> Vec<Arc<Value>> {
        let own = |node: &&Arc<Value>| node["spec"]["nodePoolRef"] == self.name;
        seen.list(paths::SPOT_NODES).filter(own).cloned().collect()
    }

    pub(crate) fn running(&self, seen: &Seen) -> usize {
        let running = |pod: &&Arc<Value>| {
            pod["metadata"]["namespace"] == self.name
                && pod["metadata"]["deletionTimestamp"].is_null()
                && is_true(pod, "Ready")
        };
        seen.list(paths::PODS).filter(running).count()
    }

    fn condition<'a>(&self, seen: &'a Seen, kind: &str) -> Option<&'a Value> {
        let pool = seen.get(paths::SPOT_POOLS, "", self.name)?;
        let all = pool["status"]["conditions"].as_array()?;
        all.iter().find(|one| one["type"] == kind)
    }

    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut(&Seen) -> bool) -> Seen {
        let mirror = self.space.world.mirror();
        if mirror.until(LIMIT, &mut holds).await {
            return mirror.seen();
        }
        let seen = mirror.seen();
        let nodes: Vec<String> = self
            .spot_nodes(&seen)
            .iter()
            .map(|one| format!("{} {}", one["metadata"]["name"], one["status"]))
            .collect();
        let pool = seen.get(paths::SPOT_POOLS, "", self.name);
        let pool = pool.map_or(Value::Null, |pool| pool["status"].clone());
        let logs = self.space.world.logs(40);
        panic!("{LIMIT:?} passed and still not: {what}\n{nodes:#?}\n{pool:#}\n{logs}");
    }

    /// Leaves nothing behind.
    pub(crate) async fn end(self) {
        let world = &self.space.world;
        world
            .delete(&format!("/api/v1/namespaces/{}", self.name))
            .await;
        world
            .delete(&format!("{}/{}", paths::SPOT_POOLS, self.name))
            .await;
        self.until("its servers are given back", |seen| {
            self.spot_nodes(seen).is_empty()
        })
        .await;
    }
}

fn phase(node: &Value) -> &str {
    text(node, "/status/phase")
}

async fn kt_01_pods_that_wait_get_the_cheapest_server() {
    let story = Story::begin("kt-01").await;
    story.pool(json!({"categories": ["gp", "ch"]})).await;
    story.deploy("web", 6, "500m").await;
    // Pods may run a moment before the SpotNode says so.
    let seen = story
        .until("all pods run on servers that run", |seen| {
            let nodes = story.spot_nodes(seen);
            story.running(seen) == 6 && nodes.iter().all(|node| phase(node) == "Running")
        })
        .await;
    let nodes = story.spot_nodes(&seen);
    assert_eq!(nodes.len(), 1, "{nodes:#?}");
    assert_eq!(nodes[0]["spec"]["instanceType"], "ch.vs1.large-ord");
    let node = seen
        .get(paths::NODES, "", text(&nodes[0], "/status/nodeName"))
        .unwrap();
    assert_eq!(label(node, "karpetrack.io/nodepool"), "kt-01");
    assert_eq!(label(node, "karpenter.sh/capacity-type"), "spot");
    assert_eq!(
        label(node, "topology.kubernetes.io/zone"),
        "us-central-ord-1"
    );
    story.end().await;
}

async fn kt_02_pods_that_come_together_are_planned_together() {
    let story = Story::begin("kt-02").await;
    story.pool(json!({"categories": ["ch"]})).await;
    for number in 0..5 {
        story.deploy(&format!("web-{number}"), 1, "600m").await;
    }
    let seen = story
        .until("all pods run", |seen| story.running(seen) == 5)
        .await;
    assert_eq!(
        story.spot_nodes(&seen).len(),
        1,
        "one server for all of them"
    );
    story.end().await;
}

/// Only this story buys memory-heavy servers: it changes what they cost.
async fn kt_03_a_node_makes_way_for_a_cheaper_one_and_its_pods_never_wait() {
    let story = Story::begin("kt-03").await;
    story.pool(json!({"categories": ["mh"]})).await;
    story.deploy("web", 1, "3").await;
    let seen = story
        .until("it runs", |seen| story.running(seen) == 1)
        .await;
    let first = story.spot_nodes(&seen)[0].clone();
    assert_eq!(first["spec"]["instanceType"], "mh.vs1.large-ord");
    // A price that rose above the bid would be a lost server, and another story.
    story
        .space
        .cloud
        .change_class("mh.vs1.xlarge-ord", |class| class.pinned = Some(10));
    let old = first["metadata"]["name"].clone();
    story
        .until("another has taken its place", |seen| {
            let nodes = story.spot_nodes(seen);
            // The old one is drained only when the new one is there.
            let draining = nodes
                .iter()
                .any(|node| node["metadata"]["name"] == old && phase(node) == "Draining");
            let ready = nodes
                .iter()
                .any(|node| node["metadata"]["name"] != old && phase(node) == "Running");
            assert!(!draining || ready, "{nodes:#?}");
            nodes.len() == 1 && nodes[0]["metadata"]["name"] != old
        })
        .await;
    let seen = story
        .until("it runs again", |seen| story.running(seen) == 1)
        .await;
    assert_eq!(
        story.spot_nodes(&seen)[0]["spec"]["instanceType"],
        "mh.vs1.xlarge-ord"
    );
    story.end().await;
}

async fn kt_04_empty_nodes_go_after_their_grace() {
    let story = Story::begin("kt-04").await;
    story.pool(json!({"categories": ["gp", "ch"]})).await;
    story.deploy("web", 3, "1").await;
    story
        .until("all pods run", |seen| story.running(seen) == 3)
        .await;
    story.scale("web", 0).await;
    story
        .until("the server is given back", |seen| {
            story.spot_nodes(seen).is_empty()
        })
        .await;
    story.end().await;
}

async fn kt_05_regions_that_the_cloudspace_is_not_in_are_named() {
    let story = Story::begin("kt-05").await;
    story
        .pool(json!({"regions": ["us-east-iad-1", "us-central-dfw-1"]}))
        .await;
    story.deploy("web", 1, "500m").await;
    let seen = story
        .until("the pool says why", |seen| {
            let found = story.condition(seen, "CapacityAvailable");
            found.is_some_and(|one| one["reason"] == "NoMatchingOffering")
        })
        .await;
    let said = text(
        story.condition(&seen, "CapacityAvailable").unwrap(),
        "/message",
    )
    .to_owned();
    assert!(
        said.contains("spec.regions") && said.contains("us-central-ord-1"),
        "{said}"
    );
    let path = format!("{}/kt-05", paths::SPOT_POOLS);
    let regions = json!({"spec": {"regions": ["us-east-iad-1", "us-central-ord-1"]}});
    story.space.world.patch(&path, &regions).await;
    story
        .until("it runs", |seen| story.running(seen) == 1)
        .await;
    story.end().await;
}

async fn kt_06_categories_are_kept_to() {
    let story = Story::begin("kt-06").await;
    story.pool(json!({"categories": ["General Purpose"]})).await;
    story.deploy("web", 6, "500m").await;
    let seen = story
        .until("all pods run", |seen| story.running(seen) == 6)
        .await;
    for node in story.spot_nodes(&seen) {
        assert!(
            text(&node, "/spec/instanceType").starts_with("gp."),
            "{node:#}"
        );
    }
    story.end().await;
}

async fn kt_07_the_manifest_of_the_document_is_taken_as_it_stands() {
    let space = Cloudspace::shared().await;
    let manifest = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../config/samples/karpetrack_v1alpha1_spotnodepool.yaml"
    );
    let plane = space.world.plane();
    let said = plane.kubectl(["apply", "-f", manifest]).await.unwrap();
    assert!(
        said.contains("spotnodepool.karpetrack.io/default created"),
        "{said}"
    );
    let table = plane.kubectl(["get", "snp"]).await.unwrap();
    let head = table.lines().next().unwrap_or_default();
    for column in ["NAME", "NODES", "PRICE", "READY", "AGE"] {
        assert!(head.contains(column), "no {column} in {head}");
    }
    for command in [
        vec!["get", "spotnodepools"],
        vec!["get", "spotnodes"],
        vec!["get", "sn"],
        vec!["describe", "snp", "default"],
    ] {
        plane.kubectl(command).await.unwrap();
    }
    let said = plane.kubectl(["apply", "-f", manifest]).await.unwrap();
    assert!(
        said.contains("unchanged"),
        "what we write does not come between: {said}"
    );
    plane.kubectl(["delete", "snp", "default"]).await.unwrap();
}

async fn kt_08_a_spot_node_has_phases_and_a_finalizer_and_leaks_nothing() {
    let story = Story::begin("kt-08").await;
    story.pool(json!({"categories": ["ch"]})).await;
    story.deploy("web", 1, "1").await;
    let phases: Arc<Mutex<Vec<String>>> = Arc::default();
    let record = Arc::clone(&phases);
    let (mirror, pool) = (story.space.world.mirror(), story.name);
    let _watched = mirror.always("every phase is written down", move |seen| {
        let mut phases = record.lock().unwrap();
        let own = |node: &&Arc<Value>| node["spec"]["nodePoolRef"] == pool;
        for node in seen.list(paths::SPOT_NODES).filter(own) {
            let phase = phase(node).to_owned();
            if !phase.is_empty() && phases.last() != Some(&phase) {
                phases.push(phase);
            }
        }
        true
    });
    let seen = story
        .until("it runs", |seen| story.running(seen) == 1)
        .await;
    let node = story.spot_nodes(&seen)[0].clone();
    assert_eq!(
        node["metadata"]["finalizers"],
        json!(["karpetrack.io/spotnode"])
    );
    let table = story
        .space
        .world
        .plane()
        .kubectl(["get", "sn"])
        .await
        .unwrap();
    for column in ["PHASE", "NODE", "INSTANCE", "REGION", "PRICE", "AGE"] {
        assert!(table.contains(column), "{table}");
    }
    story.scale("web", 0).await;
    let name = text(&node, "/metadata/name").to_owned();
    let world = Arc::clone(&story.space.world);
    world.delete(&format!("{}/{name}", paths::SPOT_NODES)).await;
    story
        .until("it is gone", |seen| story.spot_nodes(seen).is_empty())
        .await;
    let walk = phases.lock().unwrap().join(" ");
    assert_eq!(walk, "Provisioning Running Draining Terminating");
    let uid = text(&node, "/metadata/uid");
    let left = story.space.cloud.pools();
    assert!(
        left.iter().all(|pool| pool["metadata"]["name"] != uid),
        "{left:#?}"
    );
    story.end().await;
}

async fn kt_09_price_limits_labels_and_age_are_kept_to() {
    let story = Story::begin("kt-09").await;
    story
        .pool(
            json!({"categories": ["ch"], "maxPrice": "0.02", "limits": {"cpu": "4"},
            "labels": {"team": "platform"}, "disruption": {"expireAfter": "20s"}}),
        )
        .await;
    story.deploy("web", 8, "900m").await;
    let seen = story
        .until("what the limit allows runs", |seen| {
            story.running(seen) >= 3
        })
        .await;
    let first = story.spot_nodes(&seen)[0].clone();
    let node = seen
        .get(paths::NODES, "", text(&first, "/status/nodeName"))
        .unwrap();
    assert_eq!(label(node, "team"), "platform");
    let uid = text(&first, "/metadata/uid").to_owned();
    let pools = story.space.cloud.pools();
    let pool = pools
        .iter()
        .find(|pool| pool["metadata"]["name"] == *uid)
        .unwrap();
    let bid: f64 = text(pool, "/spec/bidPrice").parse().unwrap();
    assert!(bid <= 0.02, "{pool:#}");
    let cpu = |seen: &Seen| -> i64 {
        let nodes = story.spot_nodes(seen);
        nodes
            .iter()
            .filter_map(|one| text(one, "/spec/resources/cpu").parse::<i64>().ok())
            .sum()
    };
    assert_eq!(cpu(&seen), 4);
    // A node that is too old is replaced, its replacement ready first: the limit must have room for both, and nobody
    // else must want it.
    story.scale("web", 3).await;
    story
        .until("nobody waits", |seen| {
            let pods = seen.list(paths::PODS);
            let own = pods.filter(|pod| pod["metadata"]["namespace"] == story.name);
            own.count() == 3 && story.running(seen) == 3
        })
        .await;
    let path = format!("{}/kt-09", paths::SPOT_POOLS);
    story
        .space
        .world
        .patch(&path, &json!({"spec": {"limits": {"cpu": "8"}}}))
        .await;
    story
        .until("an old node was replaced", |seen| {
            assert!(cpu(seen) <= 8);
            let nodes = story.spot_nodes(seen);
            nodes.iter().all(|one| text(one, "/metadata/uid") != uid) && story.running(seen) >= 3
        })
        .await;
    story.end().await;
}

async fn kt_13_a_dead_leader_is_followed_by_another_that_buys_nothing_twice() {
    let space = Cloudspace::start().await;
    space.join("first");
    let story = Story::begin_on(Arc::clone(&space), "kt-13").await;
    story.pool(json!({"categories": ["ch"]})).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/karpetrack-leader-election";
    while space.world.get(lease).await.is_none() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    space.join("second");
    space.cloud.change(|options| {
        options.arrives_min = Duration::from_secs(15);
        options.arrives_max = Duration::from_secs(15);
    });
    story.deploy("web", 1, "3").await;
    story
        .until("a bid is made", |_| !space.cloud.pools().is_empty())
        .await;
    space.world.signal("first", Signal::Kill);
    story
        .until("the other has taken over and it runs", |seen| {
            story.running(seen) == 1
        })
        .await;
    let bought: Vec<String> = space
        .cloud
        .calls()
        .into_iter()
        .filter(|call| call.starts_with("POST") && call.contains("spotnodepools"))
        .collect();
    assert_eq!(space.cloud.pools().len(), 1, "{bought:#?}");
    let holder = space.world.get(lease).await.unwrap();
    let holder = text(&holder, "/spec/holderIdentity");
    assert_eq!(space.world.joiner_of(holder).as_deref(), Some("second"));
}

async fn kt_18_a_feed_that_is_down_shows_and_hurts_nobody() {
    let space = Cloudspace::start().await;
    space.join("karpetrack");
    let story = Story::begin_on(Arc::clone(&space), "kt-18").await;
    story.pool(json!({"categories": ["ch"]})).await;
    story.deploy("web", 1, "1").await;
    story
        .until("it runs", |seen| story.running(seen) == 1)
        .await;
    let page = "<!DOCTYPE html><html>We will be back</html>".to_owned();
    space.cloud.fail(
        "GET /percentiles.json",
        CallFault::Says(200, page),
        u32::MAX,
    );
    let seen = story
        .until("the pool says so", |seen| {
            let found = story.condition(seen, "CatalogCurrent");
            found.is_some_and(|one| one["status"] == "False")
        })
        .await;
    let said = text(
        story.condition(&seen, "CatalogCurrent").unwrap(),
        "/message",
    )
    .to_owned();
    assert!(
        said.contains("price feed") && said.contains("<!DOCTYPE html>"),
        "{said}"
    );
    story.scale("web", 6).await;
    story
        .until("more runs", |seen| story.running(seen) == 6)
        .await;
    space.cloud.forgive();
    story
        .until("the pool is well again", |seen| {
            let found = story.condition(seen, "CatalogCurrent");
            found.is_some_and(|one| one["status"] == "True")
        })
        .await;
}
