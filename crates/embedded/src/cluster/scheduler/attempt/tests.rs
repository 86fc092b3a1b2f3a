//! Every hard constraint, alone, with the sentence that upstream gives for it.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cluster::Key;
use crate::cluster::scheduler::cache::{NodeInfo, Volume};

/// A cluster in a cache, built from the objects.
#[derive(Default)]
struct World {
    cache: Cache,
    nominated: Nominated,
    budgets: Vec<Budget>,
}

impl World {
    fn node(mut self, name: &str, extra: Value) -> Self {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
        });
        merge(&mut node, extra);
        self.cache.set_node(name, NodeInfo::read(&node));
        self
    }

    fn placed(mut self, name: &str, node: &str, extra: Value) -> Self {
        self.cache.place(Arc::new(info(name, extra)), node);
        self
    }

    fn attempt(&mut self, pod: &PodInfo) -> Outcome {
        attempt(&mut self.cache, pod, &self.nominated, &self.budgets, &mut 0)
    }

    /// The node that is chosen, or the message.
    fn place(&mut self, extra: Value) -> Result<String, String> {
        match self.attempt(&info("new", extra)) {
            Outcome::Place { node, .. } => Ok(node),
            Outcome::Stuck { message, .. } => Err(message),
        }
    }

    /// Why the pod fits nowhere, without what preemption has to say.
    fn why(&mut self, extra: Value) -> String {
        let message = self.place(extra).expect_err("it fits nowhere");
        message
            .split(" preemption: ")
            .next()
            .unwrap_or_default()
            .to_owned()
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn info(name: &str, extra: Value) -> PodInfo {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c"}]},
    });
    merge(&mut pod, extra);
    PodInfo::read(&pod)
}

fn cpu(amount: &str) -> Value {
    json!({"spec": {"containers": [{"resources": {"requests": {"cpu": amount}}}]}})
}

fn with(mut one: Value, other: Value) -> Value {
    merge(&mut one, other);
    one
}

fn zone(name: &str) -> Value {
    json!({"metadata": {"labels": {"zone": name}}})
}

#[test]
fn resources_are_counted_with_what_is_already_there() {
    let mut world = World::default()
        .node("a", json!({}))
        .node("b", json!({}))
        .placed("x", "a", cpu("3"));
    assert_eq!(world.place(cpu("2")), Ok("b".into()));
    assert_eq!(
        world.why(cpu("8")),
        "0/2 nodes are available: 2 Insufficient cpu."
    );
    let gpu = json!({"spec": {"containers": [{"resources": {"requests": {"example.com/gpu": "1", "memory": "9Gi"}}}]}});
    assert_eq!(
        world.why(gpu),
        "0/2 nodes are available: 2 Insufficient example.com/gpu, 2 Insufficient memory."
    );
    let mut full = World::default()
        .node("a", json!({"status": {"allocatable": {"pods": "1"}}}))
        .placed("x", "a", json!({}));
    assert_eq!(
        full.why(json!({})),
        "0/1 nodes are available: 1 Too many pods."
    );
}

#[test]
fn without_nodes_the_message_says_so() {
    assert_eq!(
        World::default().place(json!({})),
        Err("no nodes available to schedule pods".into())
    );
}

#[test]
fn selectors_taints_and_cordons_each_have_their_words_and_preemption_does_not_help() {
    let mut world = World::default()
        .node(
            "a",
            json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
        )
        .node("b", json!({"spec": {"unschedulable": true}}))
        .node("c", json!({}));
    let message = world.place(json!({"spec": {"nodeSelector": {"disk": "ssd"}}}));
    assert_eq!(
        message.unwrap_err(),
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    );
    let bearing = json!({"spec": {"nodeSelector": {"kubernetes.io/hostname": "a"}, "tolerations": [{"operator": "Exists"}]}});
    assert_eq!(world.place(bearing), Ok("a".into()));
}

#[test]
fn a_pod_pinned_to_a_name_looks_at_that_node_only() {
    let pin = |name: &str| {
        json!({"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}]}}}}})
    };
    let mut world = World::default()
        .node("a", json!({}))
        .node("b", json!({}))
        .placed("x", "b", cpu("4"));
    assert_eq!(world.place(pin("a")), Ok("a".into()));
    assert_eq!(
        world.why(with(pin("b"), cpu("1"))),
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    );
}

#[test]
fn host_ports_are_taken_once() {
    let port = json!({"spec": {"containers": [{"ports": [{"hostPort": 80}]}]}});
    let mut world = World::default()
        .node("a", json!({}))
        .placed("x", "a", port.clone());
    assert_eq!(
        world.why(port),
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports."
    );
}

fn anti(app: &str, key: &str) -> Value {
    json!({"spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}}}})
}

fn near(app: &str, key: &str) -> Value {
    json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}}}})
}

fn app(name: &str) -> Value {
    json!({"metadata": {"labels": {"app": name}}})
}

#[test]
fn anti_affinity_works_in_both_directions() {
    let mut world = World::default()
        .node("a", zone("1"))
        .node("b", zone("1"))
        .node("c", zone("2"))
        .placed("x", "a", app("db"));
    assert_eq!(world.place(anti("db", "zone")), Ok("c".into()));
    let mut world = World::default()
        .node("a", zone("1"))
        .node("b", zone("1"))
        .placed("x", "a", with(app("loner"), anti("web", "zone")));
    assert_eq!(
        world.why(app("web")),
        "0/2 nodes are available: 2 node(s) didn't satisfy existing pods anti-affinity rules."
    );
    assert!(world.place(app("other")).is_ok());
    assert_eq!(
        world.why(anti("loner", "zone")),
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    );
}

#[test]
fn affinity_follows_others_and_the_first_of_its_kind_may_begin() {
    let mut world = World::default()
        .node("a", zone("1"))
        .node("b", zone("2"))
        .placed("x", "b", app("db"));
    assert_eq!(world.place(near("db", "zone")), Ok("b".into()));
    assert_eq!(
        world.why(near("cache", "zone")),
        "0/2 nodes are available: 2 node(s) didn't match pod affinity rules."
    );
    assert!(
        world
            .place(with(app("cache"), near("cache", "zone")))
            .is_ok()
    );
    assert_eq!(
        world.why(with(app("cache"), near("cache", "rack"))),
        "0/2 nodes are available: 2 node(s) didn't match pod affinity rules.",
        "even the first needs the topology label"
    );
}

#[test]
fn several_affinity_terms_must_be_met_by_the_same_pods() {
    let two = json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}},
        {"topologyKey": "zone", "labelSelector": {"matchLabels": {"tier": "gold"}}},
    ]}}}});
    let mut world = World::default()
        .node("a", zone("1"))
        .placed("x", "a", app("db"))
        .placed("y", "a", json!({"metadata": {"labels": {"tier": "gold"}}}));
    assert!(
        world.place(two.clone()).is_err(),
        "no single pod matches both"
    );
    let mut world = world.placed(
        "z",
        "a",
        json!({"metadata": {"labels": {"app": "db", "tier": "gold"}}}),
    );
    assert_eq!(world.place(two), Ok("a".into()));
}

fn spread(key: &str, extra: Value) -> Value {
    let mut constraint = json!({
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    });
    merge(&mut constraint, extra);
    with(
        app("web"),
        json!({"spec": {"topologySpreadConstraints": [constraint]}}),
    )
}

#[test]
fn spread_keeps_the_skew() {
    let mut world = World::default()
        .node("a", zone("1"))
        .node("b", zone("2"))
        .node("c", json!({}))
        .placed("x", "a", app("web"));
    assert_eq!(world.place(spread("zone", json!({}))), Ok("b".into()));
    let mut world = World::default()
        .node("a", zone("1"))
        .node(
            "b",
            with(zone("2"), json!({"spec": {"unschedulable": true}})),
        )
        .node("c", json!({}))
        .placed("x", "a", app("web"));
    assert_eq!(
        world.why(spread("zone", json!({}))),
        "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) didn't match pod topology spread constraints (missing required label), 1 node(s) were unschedulable."
    );
    assert_eq!(
        world.place(spread("zone", json!({"maxSkew": 2}))),
        Ok("a".into())
    );
}

#[test]
fn spread_may_ignore_or_honour_taints_and_affinity_and_want_more_domains() {
    let tainted = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
    let mut world = World::default()
        .node("a", zone("1"))
        .node("b", with(zone("2"), tainted))
        .placed("x", "a", app("web"));
    assert!(
        world.place(spread("zone", json!({}))).is_err(),
        "the tainted domain counts as empty"
    );
    assert_eq!(
        world.place(spread("zone", json!({"nodeTaintsPolicy": "Honor"}))),
        Ok("a".into())
    );
    let only_first = json!({"spec": {"nodeSelector": {"zone": "1"}}});
    assert_eq!(
        world.place(with(spread("zone", json!({})), only_first.clone())),
        Ok("a".into())
    );
    let ignoring = spread("zone", json!({"nodeAffinityPolicy": "Ignore"}));
    assert!(world.place(with(ignoring, only_first)).is_err());
    let honouring = json!({"nodeTaintsPolicy": "Honor", "minDomains": 2});
    assert!(
        world.place(spread("zone", honouring)).is_err(),
        "a missing domain counts as empty"
    );
}

#[test]
fn spread_by_revision_counts_the_same_revision_only() {
    let revision = |name: &str| json!({"metadata": {"labels": {"rev": name}}});
    let mut world = World::default()
        .node("a", zone("1"))
        .node(
            "b",
            with(zone("2"), json!({"spec": {"unschedulable": true}})),
        )
        .placed("x", "a", with(app("web"), revision("1")));
    let constraint = || spread("zone", json!({"matchLabelKeys": ["rev"]}));
    assert!(world.place(with(constraint(), revision("1"))).is_err());
    assert_eq!(
        world.place(with(constraint(), revision("2"))),
        Ok("a".into())
    );
}

#[test]
fn more_important_pods_take_the_place_of_less_important_ones() {
    let priority = |value: i64| json!({"spec": {"priority": value}});
    let mut world = World::default()
        .node("a", json!({}))
        .node("b", json!({}))
        .placed("low-a", "a", with(cpu("3"), priority(5)))
        .placed("low-b", "b", with(cpu("3"), priority(1)))
        .placed("small-b", "b", with(cpu("1"), priority(1)));
    let outcome = world.attempt(&info("new", with(cpu("2"), priority(10))));
    let Outcome::Stuck {
        message,
        preemption: Some(found),
        ..
    } = outcome
    else {
        panic!("someone must go: {outcome:?}");
    };
    assert_eq!(message, "0/2 nodes are available: 2 Insufficient cpu.");
    assert_eq!(found.node, "b", "its victim matters less");
    assert_eq!(
        found.victims,
        [Key::new("default", "low-b")],
        "the small one can stay"
    );
    let never = json!({"spec": {"preemptionPolicy": "Never"}});
    assert_eq!(
        world
            .place(with(with(cpu("2"), priority(10)), never))
            .unwrap_err(),
        "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    );
    assert_eq!(
        world.place(with(cpu("2"), priority(0))).unwrap_err(),
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
    );
}

#[test]
fn preemption_prefers_victims_that_no_budget_protects() {
    let labelled = |name: &str| with(app(name), with(cpu("3"), json!({"spec": {"priority": 1}})));
    let mut world = World::default()
        .node("a", json!({}))
        .node("b", json!({}))
        .placed("guarded", "a", labelled("guarded"))
        .placed(
            "free",
            "b",
            with(labelled("free"), json!({"spec": {"priority": 2}})),
        );
    world.budgets.push(Budget::read(&json!({
        "metadata": {"namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "guarded"}}}, "status": {"disruptionsAllowed": 0},
    })));
    let outcome = world.attempt(&info(
        "new",
        with(cpu("2"), json!({"spec": {"priority": 9}})),
    ));
    let Outcome::Stuck {
        preemption: Some(found),
        ..
    } = outcome
    else {
        panic!("{outcome:?}")
    };
    assert_eq!(found.node, "b", "though its victim matters more");
}

#[test]
fn room_that_was_promised_is_kept_for_those_who_matter_no_less() {
    let mut world = World::default().node("a", json!({}));
    let mut promised = info("promised", with(cpu("3"), json!({"spec": {"priority": 5}})));
    promised.nominated_node = "a".to_owned();
    world
        .nominated
        .insert("a".to_owned(), vec![Arc::new(promised.clone())]);
    assert_eq!(
        world.why(cpu("2")),
        "0/1 nodes are available: 1 Insufficient cpu."
    );
    assert!(
        world
            .place(with(cpu("2"), json!({"spec": {"priority": 6}})))
            .is_ok()
    );
    assert!(
        matches!(world.attempt(&promised), Outcome::Place { .. }),
        "its own promise does not block it"
    );
}

fn claim(name: &str, extra: Value) -> Value {
    with(
        json!({"metadata": {"name": name, "namespace": "default", "uid": name}}),
        extra,
    )
}

fn bound_to(volume: &str) -> Value {
    json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": volume}})
}

fn using(claim: &str) -> Value {
    json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})
}

#[test]
fn volumes_confine_pods_to_where_they_can_be_reached() {
    let mut world = World::default().node("a", zone("1")).node("b", zone("2"));
    assert_eq!(
        world.place(using("data")).unwrap_err(),
        "0/2 nodes are available: persistentvolumeclaim \"data\" not found. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
    let storage = &mut world.cache.storage;
    storage.claims.insert(
        Key::new("default", "data"),
        Arc::new(claim("data", bound_to("v"))),
    );
    let volume = json!({"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["2"]}]}]}}}});
    storage
        .volumes
        .insert("v".into(), Volume::read(&Arc::new(volume)));
    assert_eq!(world.place(using("data")), Ok("b".into()));
    assert_eq!(
        world.why(with(
            using("data"),
            json!({"spec": {"nodeSelector": {"zone": "1"}}})
        )),
        "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) didn't match Pod's node affinity/selector."
    );
}

#[test]
fn claims_that_wait_are_provisioned_where_their_class_allows() {
    let mut world = World::default().node("a", zone("1")).node("b", zone("2"));
    let storage = &mut world.cache.storage;
    let spec = json!({"spec": {"storageClassName": "slow"}});
    storage
        .claims
        .insert(Key::new("default", "data"), Arc::new(claim("data", spec)));
    assert_eq!(
        world.why(using("data")),
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    );
    let class = |extra: Value| {
        Arc::new(with(
            json!({"metadata": {"name": "slow"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer"}),
            extra,
        ))
    };
    let allowed = json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["2"]}]}]});
    world
        .cache
        .storage
        .classes
        .insert("slow".into(), class(allowed));
    let outcome = world.attempt(&info("new", using("data")));
    let steps = vec![VolumeStep::Provision {
        claim: Key::new("default", "data"),
    }];
    assert_eq!(
        outcome,
        Outcome::Place {
            node: "b".into(),
            steps
        }
    );
    world.cache.storage.classes.insert(
        "slow".into(),
        class(json!({"provisioner": "kubernetes.io/no-provisioner"})),
    );
    assert_eq!(
        world.why(using("data")),
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind."
    );
}

#[test]
fn a_node_takes_only_as_many_volumes_as_its_driver_can_attach() {
    let mut world = World::default()
        .node("a", json!({}))
        .placed("x", "a", using("one"));
    let storage = &mut world.cache.storage;
    for name in ["one", "two"] {
        storage.claims.insert(
            Key::new("default", name),
            Arc::new(claim(name, bound_to(name))),
        );
        let volume = json!({"metadata": {"name": name}, "spec": {"csi": {"driver": "d", "volumeHandle": name}}});
        storage
            .volumes
            .insert(name.into(), Volume::read(&Arc::new(volume)));
    }
    let limits = json!({"spec": {"drivers": [{"name": "d", "allocatable": {"count": 1}}]}});
    storage.csi_nodes.insert("a".into(), Arc::new(limits));
    assert_eq!(
        world.why(using("two")),
        "0/1 nodes are available: 1 node(s) exceed max volume count."
    );
    assert!(
        world.place(using("one")).is_ok(),
        "a volume that is attached already costs nothing"
    );
}

#[test]
fn preferences_decide_between_nodes_that_will_do() {
    let mut world = World::default()
        .node(
            "a",
            json!({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}),
        )
        .node("b", json!({}))
        .node("c", zone("1"));
    assert_eq!(
        world.place(json!({})),
        Ok("b".into()),
        "first by name among equals"
    );
    let wanted = json!({"spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 10, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]}}}});
    assert_eq!(world.place(wanted), Ok("c".into()));
    let mut world = World::default()
        .node("a", json!({}))
        .node("b", json!({}))
        .placed("x", "a", cpu("2"));
    assert_eq!(world.place(cpu("1")), Ok("b".into()), "the emptier one");
}

proptest! {
    /// Whatever is placed one after the other, every rule holds for all pods together at each moment it was checked.
    #[test]
    fn placements_never_break_resources_anti_affinity_or_spread(
        pods in prop::collection::vec((0_u8..3, 1_u8..4, any::<bool>(), any::<bool>()), 1..25)
    ) {
        let mut world = World::default();
        for (name, zone_name) in [("a", "1"), ("b", "1"), ("c", "2"), ("d", "3")] {
            world = world.node(name, zone(zone_name));
        }
        let labels = ["x", "y", "z"];
        for (number, (kind, cpus, apart, even)) in pods.into_iter().enumerate() {
            let label = labels[usize::from(kind)];
            let mut pod = with(app(label), cpu(&cpus.to_string()));
            if apart {
                pod = with(pod, anti(label, "kubernetes.io/hostname"));
            }
            if even {
                pod = with(pod, json!({"spec": {"topologySpreadConstraints": [{
                    "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": {"app": label}}}]}}));
            }
            let pod = info(&format!("p{number}"), pod);
            let Outcome::Place { node, .. } = world.attempt(&pod) else { continue };
            let slot = world.cache.node_named(&node).unwrap();
            let neighbours: Vec<_> = world.cache.slot(slot).pods.values().cloned().collect();
            let used: i64 = neighbours.iter().map(|other| other.requests.cpu_millis).sum();
            prop_assert!(used + pod.requests.cpu_millis <= 4000);
            for other in &neighbours {
                let same = other.labels == pod.labels;
                prop_assert!(!same || (other.anti_affinity.is_empty() && pod.anti_affinity.is_empty()));
            }
            world.cache.place(Arc::new(pod.clone()), &node);
            if even {
                let mut zones = [0_i64; 3];
                for (index, names) in [&["a", "b"][..], &["c"], &["d"]].iter().enumerate() {
                    for name in *names {
                        let slot = world.cache.node_named(name).unwrap();
                        let here = world.cache.slot(slot).pods.values();
                        let like = here.filter(|other| other.labels == pod.labels).count();
                        zones[index] += i64::try_from(like).unwrap();
                    }
                }
                let chosen = match node.as_str() { "a" | "b" => 0, "c" => 1, _ => 2 };
                let least = zones.iter().enumerate()
                    .map(|(index, count)| if index == chosen { count - 1 } else { *count })
                    .min().unwrap_or_default();
                prop_assert!(zones[chosen] - least <= 1, "{zones:?} in {chosen}");
            }
        }
    }
}
