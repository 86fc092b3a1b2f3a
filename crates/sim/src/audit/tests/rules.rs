//! Hard rules of pods: where they are bound, and whether one that waits could be somewhere.

use super::*;

const ZONE: &str = "topology.kubernetes.io/zone";

fn spread(key: &str) -> Value {
    json!({"topologySpreadConstraints": [{"topologyKey": key, "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "web"}}}]})
}

fn apart(key: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}]}}})
}

fn near(app: &str) -> Value {
    json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}]}}})
}

fn in_zone(zone: &str) -> Value {
    let expression = json!({"key": ZONE, "operator": "In", "values": [zone]});
    let terms = json!([{"matchExpressions": [expression]}]);
    json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": terms}}}})
}

fn with_disk() -> Value {
    json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}]})
}

impl World {
    fn node(&self, name: &str, zone: &str) {
        let labels = json!({"kubernetes.io/hostname": name, ZONE: zone});
        let node = json!({"metadata": {"name": name, "labels": labels}});
        self.create("nodes", "", node);
    }

    fn pod(&self, name: &str, mut spec: Value) {
        spec["containers"] = json!([{"name": "main", "image": "none"}]);
        let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec});
        self.create("pods", "default", pod);
    }

    /// A volume that only nodes of one zone reach, and its claim.
    fn disk(&self, zone: &str) {
        let terms =
            json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]);
        let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "disks",
            "capacity": {"storage": "1Gi"}, "csi": {"driver": "disks", "volumeHandle": "v"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}});
        let volume = json!({"metadata": {"name": "volume"}, "spec": spec});
        self.create("persistentvolumes", "", volume);
        let spec = json!({"accessModes": ["ReadWriteOnce"], "storageClassName": "disks",
            "resources": {"requests": {"storage": "1Gi"}}, "volumeName": "volume"});
        let claim = json!({"metadata": {"name": "disk"}, "spec": spec});
        self.create("persistentvolumeclaims", "default", claim);
    }

    fn bind(&self, pod: &str, node: &str) {
        self.server.local().bind("default", pod, node).unwrap();
    }
}

/// Two zones with a node each, and a pod on the first: another pod with some rule may go to the second and not there.
async fn only_the_second(rule: Value) {
    for (node, expected) in [("second", vec![]), ("first", vec![Invariant::Placed])] {
        let world = World::new();
        world.node("first", "sim-a");
        world.node("second", "sim-b");
        world.disk("sim-b");
        world.pod("one", json!({}));
        world.bind("one", "first");
        world.pod("two", rule.clone());
        // What has just come may be unknown to the scheduler.
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.bind("two", node);
        assert_eq!(world.found(), expected, "{node} for {rule}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_bound_against_a_hard_rule_is_seen() {
    only_the_second(spread(ZONE)).await;
    only_the_second(spread("kubernetes.io/hostname")).await;
    only_the_second(apart(ZONE)).await;
    only_the_second(in_zone("sim-b")).await;
    only_the_second(json!({"nodeSelector": {ZONE: "sim-b"}})).await;
    only_the_second(with_disk()).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_must_be_near_another_is_bound_beside_it() {
    for (node, expected) in [("first", vec![]), ("second", vec![Invariant::Placed])] {
        let world = World::new();
        world.node("first", "sim-a");
        world.node("second", "sim-b");
        world.pod("one", json!({}));
        world.bind("one", "first");
        world.pod("two", near("web"));
        tokio::time::sleep(Duration::from_secs(10)).await;
        world.bind("two", node);
        assert_eq!(world.found(), expected, "{node}");
    }
}

/// Whether a pod with some rule is said to wait in vain, where a pod of its kind runs in each of some zones.
fn waits_in_vain(taken: &[&str], rule: Value) -> bool {
    let world = World::new();
    world.disk("elsewhere");
    for zone in taken {
        world.node(zone, zone);
        world.pod(&format!("on-{zone}"), json!({}));
        world.bind(&format!("on-{zone}"), zone);
    }
    world.pod("waits", rule);
    let open = world.auditor.open();
    open.iter()
        .any(|one| one.contains("pod default/waits waits"))
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_is_open_where_some_machine_meets_its_rules_and_nowhere_else() {
    let all = ["sim-a", "sim-b", "sim-c"];
    // Only what is sold in a zone that is free helps, and the pool sells in these three.
    assert!(waits_in_vain(&all[..2], apart(ZONE)));
    assert!(!waits_in_vain(&all, apart(ZONE)));
    assert!(waits_in_vain(&all, apart("kubernetes.io/hostname")));
    assert!(waits_in_vain(&all, spread(ZONE)));
    assert!(waits_in_vain(&all[..1], near("web")));
    assert!(waits_in_vain(&[], near("web")), "the first of its kind");
    assert!(!waits_in_vain(&all, near("another")));
    assert!(waits_in_vain(&[], in_zone("sim-b")));
    assert!(!waits_in_vain(&[], in_zone("elsewhere")));
    assert!(
        !waits_in_vain(&[], with_disk()),
        "nobody sells where its volume is"
    );
}

#[tokio::test(start_paused = true)]
async fn a_spread_waits_for_a_zone_that_nobody_sells() {
    let world = World::new();
    world.node("theirs", "elsewhere");
    for zone in ["sim-a", "sim-b", "sim-c"] {
        world.node(zone, zone);
        world.pod(&format!("on-{zone}"), json!({}));
        world.bind(&format!("on-{zone}"), zone);
    }
    world.pod("waits", spread(ZONE));
    let open = world.auditor.open();
    let waits = |one: &String| one.contains("pod default/waits waits");
    assert!(!open.iter().any(waits), "{open:?}");
}
