//! What pods ask of their nodes is what they get (OV-02). The real scheduler is the judge: a pod that runs is where it
//! may be.

use serde_json::{Value, json};

use crate::harness::{Story, tests, text};

tests![
    ov_02_machines_are_as_large_as_what_pods_request,
    ov_02_node_selectors_are_met,
    ov_02_required_node_affinity_is_met,
    ov_02_preferred_node_affinity_is_met_where_it_can_be,
    ov_02_pods_go_where_those_are_that_they_want_to_be_with,
    ov_02_pods_that_want_to_be_together_share_a_node,
    ov_02_whoever_finds_no_room_beside_its_kind_waits_and_nothing_is_bought_for_it,
    ov_02_pods_that_cannot_bear_each_other_are_kept_apart,
    ov_02_taints_keep_away_whoever_does_not_tolerate_them,
    ov_02_pods_are_spread_over_zones_hosts_and_capacity_types,
    ov_02_two_pods_cannot_have_the_same_port_of_a_host,
    ov_02_pods_go_where_their_volumes_are,
    ov_02_a_pod_that_fits_nowhere_is_told_why,
];

const ZONE: &str = "topology.kubernetes.io/zone";
const TYPE: &str = "node.kubernetes.io/instance-type";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const HOST: &str = "kubernetes.io/hostname";

/// A change of a deployment that only concerns the spec of its pods.
fn pods(spec: Value) -> Value {
    json!({"spec": {"template": {"spec": spec}}})
}

/// A change of a pool that lets it buy anything.
fn anything() -> Value {
    json!({"spec": {"template": {"spec": {"requirements": []}}}})
}

async fn ov_02_machines_are_as_large_as_what_pods_request() {
    let story = Story::begin("requests").await;
    story.pool(anything()).await;
    let amounts = |requests: Value| {
        pods(
            json!({"containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}]}),
        )
    };
    story
        .deploy("cores", 1, "0", amounts(json!({"cpu": "5"})))
        .await;
    story
        .deploy("memory", 1, "0", amounts(json!({"memory": "20Gi"})))
        .await;
    story
        .deploy(
            "device",
            1,
            "0",
            pods(
                json!({"containers": [{"name": "main", "image": "none", "resources": {
                "requests": {"example.dev/gpu": "1"}, "limits": {"example.dev/gpu": "1"}}}]}),
            ),
        )
        .await;
    // What runs before the others counts as much as they do.
    let first = json!({"name": "first", "image": "none", "resources": {"requests": {"cpu": "7"}}});
    story
        .deploy("init", 1, "100m", pods(json!({"initContainers": [first]})))
        .await;
    for app in ["cores", "memory", "device", "init"] {
        story.runs(app, 1).await;
    }
    let sight = story.sight();
    assert_eq!(sight.homes_by("device", TYPE), ["gpu"]);
    for app in ["cores", "memory", "init"] {
        assert_eq!(sight.homes_by(app, TYPE), ["large"], "{app}");
    }
    story.end().await;
}

async fn ov_02_node_selectors_are_met() {
    let story = Story::begin("selectors").await;
    story.pool(anything()).await;
    let wishes = [
        ("zone", ZONE, "sim-b"),
        ("arch", "kubernetes.io/arch", "arm64"),
        ("paid", CAPACITY_TYPE, "on-demand"),
        ("type", TYPE, "large"),
        ("pool", "karpenter.sh/nodepool", "selectors"),
        ("os", "kubernetes.io/os", "linux"),
    ];
    for (app, key, value) in wishes {
        story
            .deploy(app, 2, "600m", pods(json!({"nodeSelector": {key: value}})))
            .await;
    }
    for (app, key, value) in wishes {
        let sight = story.runs(app, 2).await;
        assert_eq!(sight.homes_by(app, key), [value, value]);
    }
    story.end().await;
}

/// Node affinity with these required terms.
fn required(terms: Value) -> Value {
    pods(json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}))
}

async fn ov_02_required_node_affinity_is_met() {
    let story = Story::begin("required").await;
    story.pool(json!({})).await;
    let not_in = json!([{"matchExpressions": [
        {"key": ZONE, "operator": "NotIn", "values": ["sim-a", "sim-b"]}]}]);
    let greater = json!([{"matchExpressions": [
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Gt", "values": ["4"]}]}]);
    let either = json!([
        {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["elsewhere"]}]},
        {"matchExpressions": [
            {"key": ZONE, "operator": "In", "values": ["sim-b"]},
            {"key": TYPE, "operator": "Exists"},
            {"key": "example.dev/none", "operator": "DoesNotExist"}]},
    ]);
    story.deploy("not-in", 1, "500m", required(not_in)).await;
    story.deploy("greater", 1, "500m", required(greater)).await;
    story.deploy("either", 1, "500m", required(either)).await;
    for app in ["not-in", "greater", "either"] {
        story.runs(app, 1).await;
    }
    let sight = story.sight();
    assert_eq!(sight.homes_by("not-in", ZONE), ["sim-c"]);
    assert_eq!(sight.homes_by("greater", TYPE), ["large"]);
    assert_eq!(sight.homes_by("either", ZONE), ["sim-b"]);
    story.end().await;
}

async fn ov_02_preferred_node_affinity_is_met_where_it_can_be() {
    let story = Story::begin("preferred").await;
    story.pool(json!({})).await;
    let preferred = |zone: &str| {
        pods(json!({"affinity": {"nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "preference": {
                "matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}}]}}}))
    };
    story.deploy("can", 2, "500m", preferred("sim-c")).await;
    story
        .deploy("cannot", 2, "500m", preferred("nowhere"))
        .await;
    let sight = story.runs("can", 2).await;
    assert_eq!(sight.homes_by("can", ZONE), ["sim-c", "sim-c"]);
    story.runs("cannot", 2).await;
    story.end().await;
}

/// A term of pod affinity or anti-affinity.
fn near(app: &str, key: &str) -> Value {
    json!({"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}]})
}

async fn ov_02_pods_go_where_those_are_that_they_want_to_be_with() {
    let story = Story::begin("affinity").await;
    story.pool(json!({})).await;
    story
        .deploy(
            "db",
            1,
            "1500m",
            pods(json!({"nodeSelector": {ZONE: "sim-c"}})),
        )
        .await;
    story
        .deploy(
            "web",
            4,
            "900m",
            pods(json!({"affinity": {"podAffinity": near("db", ZONE)}})),
        )
        .await;
    let sight = story.runs("web", 4).await;
    assert_eq!(sight.homes_by("web", ZONE), ["sim-c"; 4]);
    story.end().await;
}

async fn ov_02_pods_that_want_to_be_together_share_a_node() {
    // Alone: the scheduler would else put the first of them where there is no room for the others.
    let story = Story::begin("flock").await;
    story.pool(json!({})).await;
    let together = json!({"affinity": {"podAffinity": near("flock", HOST)}});
    story.deploy("flock", 3, "1200m", pods(together)).await;
    let sight = story.runs("flock", 3).await;
    let mut hosts = sight.homes_by("flock", HOST);
    hosts.dedup();
    assert_eq!(hosts.len(), 1);
    story.end().await;
}

async fn ov_02_whoever_finds_no_room_beside_its_kind_waits_and_nothing_is_bought_for_it() {
    let story = Story::begin("crowd").await;
    story.pool(json!({})).await;
    // They may begin on any machine, and from then on only that one will do: the largest has room for six.
    let one = story.always("one machine", |sight| sight.claims().len() <= 1);
    let together = json!({"affinity": {"podAffinity": near("crowd", HOST)}});
    story.deploy("crowd", 8, "1200m", pods(together)).await;
    let sight = story.runs("crowd", 6).await;
    let mut hosts = sight.homes_by("crowd", HOST);
    hosts.dedup();
    assert_eq!(hosts.len(), 1);
    story
        .until("the others are told why they wait", |sight| {
            let waiting = sight.pods("crowd");
            let waiting = waiting
                .iter()
                .filter(|pod| text(pod, "/spec/nodeName").is_empty());
            let told = waiting.filter(|pod| {
                let said = sight.said(text(pod, "/metadata/name"));
                said.iter().any(|words| words.contains("pod affinity over"))
            });
            told.count() == 2
        })
        .await;
    one.check();
    story.end().await;
}

async fn ov_02_pods_that_cannot_bear_each_other_are_kept_apart() {
    let story = Story::begin("anti").await;
    story.pool(json!({})).await;
    let apart =
        |app: &str, key: &str| pods(json!({"affinity": {"podAntiAffinity": near(app, key)}}));
    story.deploy("hosts", 3, "100m", apart("hosts", HOST)).await;
    story.deploy("zones", 3, "100m", apart("zones", ZONE)).await;
    let sight = story.runs("hosts", 3).await;
    let mut hosts = sight.homes_by("hosts", HOST);
    hosts.dedup();
    assert_eq!(hosts.len(), 3);
    let sight = story.runs("zones", 3).await;
    assert_eq!(sight.homes_by("zones", ZONE), ["sim-a", "sim-b", "sim-c"]);
    story.end().await;
}

async fn ov_02_taints_keep_away_whoever_does_not_tolerate_them() {
    let story = Story::begin("taints").await;
    story.pool(json!({})).await;
    let own = json!({"key": "e2e.joiner.dev/story", "value": "taints", "effect": "NoSchedule"});
    let dedicated = json!({"key": "dedicated", "value": "team", "effect": "NoExecute"});
    story
        .pool_named(
            "taints-dedicated",
            json!({"spec": {"weight": 100, "template": {"spec": {"taints": [own, dedicated]}}}}),
        )
        .await;
    let toleration = |value: &str| {
        json!([{"key": "e2e.joiner.dev/story", "operator": "Equal", "value": "taints"},
            {"key": "dedicated", "operator": "Equal", "value": value}])
    };
    let there = json!({"karpenter.sh/nodepool": "taints-dedicated"});
    story.deploy("plain", 2, "500m", json!({})).await;
    story
        .deploy(
            "team",
            2,
            "500m",
            pods(json!({"tolerations": toleration("team"), "nodeSelector": there})),
        )
        .await;
    story
        .deploy(
            "other",
            1,
            "500m",
            pods(json!({"tolerations": toleration("other"), "nodeSelector": there})),
        )
        .await;
    // The heavier pool would have been first.
    let sight = story.runs("plain", 2).await;
    assert_eq!(
        sight.homes_by("plain", "karpenter.sh/nodepool"),
        ["taints", "taints"]
    );
    story.runs("team", 2).await;
    let sight = story
        .until("the pod that may not is told why", |sight| {
            let pod = sight.pods("other").pop();
            pod.is_some_and(|pod| {
                let said = sight.said(text(&pod, "/metadata/name"));
                said.iter()
                    .any(|words| words.contains("dedicated=team:NoExecute"))
            })
        })
        .await;
    assert!(sight.running("other").is_empty());
    story.end().await;
}

/// Spread over the values of a label, strictly.
fn spread(app: &str, key: &str) -> Value {
    pods(json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}}}]}))
}

async fn ov_02_pods_are_spread_over_zones_hosts_and_capacity_types() {
    let story = Story::begin("spread").await;
    let arch = json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]);
    story
        .pool(json!({"spec": {"template": {"spec": {"requirements": arch}}}}))
        .await;
    story
        .deploy("zones", 6, "500m", spread("zones", ZONE))
        .await;
    story
        .deploy("hosts", 4, "100m", spread("hosts", HOST))
        .await;
    story
        .deploy("paid", 4, "300m", spread("paid", CAPACITY_TYPE))
        .await;
    let sight = story.runs("zones", 6).await;
    let zones = ["sim-a", "sim-a", "sim-b", "sim-b", "sim-c", "sim-c"];
    assert_eq!(sight.homes_by("zones", ZONE), zones);
    let sight = story.runs("hosts", 4).await;
    let mut hosts = sight.homes_by("hosts", HOST);
    hosts.dedup();
    assert_eq!(hosts.len(), 4);
    let sight = story.runs("paid", 4).await;
    assert_eq!(
        sight.homes_by("paid", CAPACITY_TYPE),
        ["on-demand", "on-demand", "spot", "spot"]
    );
    story.end().await;
}

async fn ov_02_two_pods_cannot_have_the_same_port_of_a_host() {
    let story = Story::begin("ports").await;
    story.pool(json!({})).await;
    let port = json!([{"name": "main", "image": "none", "ports": [{"containerPort": 80, "hostPort": 8080}],
        "resources": {"requests": {"cpu": "100m"}}}]);
    story
        .deploy("web", 2, "0", pods(json!({"containers": port})))
        .await;
    let sight = story.runs("web", 2).await;
    let mut hosts = sight.homes_by("web", HOST);
    hosts.dedup();
    assert_eq!(hosts.len(), 2);
    story.end().await;
}

async fn ov_02_pods_go_where_their_volumes_are() {
    let story = Story::begin("volumes").await;
    story.pool(json!({})).await;
    story
        .create(json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "volumes-disk"},
            "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
                "storageClassName": "", "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {"namespace": "volumes", "name": "disk"},
                "local": {"path": "/mnt"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": ZONE, "operator": "In", "values": ["sim-b"]}]}]}}}}))
        .await;
    story
        .create(json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": "volumes-disk",
                "resources": {"requests": {"storage": "1Gi"}}}}))
        .await;
    let volumes = json!([{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]);
    story
        .deploy("db", 1, "500m", pods(json!({"volumes": volumes})))
        .await;
    let sight = story.runs("db", 1).await;
    assert_eq!(sight.homes_by("db", ZONE), ["sim-b"]);
    story
        .world
        .delete("/api/v1/persistentvolumes/volumes-disk")
        .await;
    story.end().await;
}

async fn ov_02_a_pod_that_fits_nowhere_is_told_why() {
    let story = Story::begin("nowhere").await;
    story.pool(json!({})).await;
    story.deploy("huge", 1, "100", json!({})).await;
    story
        .deploy(
            "astray",
            1,
            "100m",
            pods(json!({"nodeSelector": {ZONE: "sim-z"}})),
        )
        .await;
    for (app, word) in [("huge", "needs 100 CPU"), ("astray", "sim-z")] {
        story
            .until(&format!("{app} is told about {word}"), |sight| {
                let pod = sight.pods(app).pop();
                pod.is_some_and(|pod| {
                    let said = sight.said(text(&pod, "/metadata/name"));
                    said.iter().any(|words| {
                        words.starts_with("FailedScheduling: Failed to schedule pod")
                            && words.contains(word)
                    })
                })
            })
            .await;
    }
    assert!(story.sight().claims().is_empty());
    story.end().await;
}
