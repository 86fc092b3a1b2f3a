//! Machines in a toy world: one object, one node, one cloud, and a process that can die after every request.

mod crashes;
mod toy;

use std::sync::Arc;
use std::time::Duration;

use joiner_core::problem::PodSpec;
use joiner_core::resources;
use joiner_core::taints::{Effect, Taint};
use joiner_providers::{MachineState, ProviderError, Uid};

use super::{Cause, ProviderAnswer, Step, Wake};
use crate::edge::clock;
use crate::record::{MANAGED_BY, Mark, Truth, annotations, kinds, manager};
use crate::view::pods::{DISRUPTED, DoNotDisrupt, PodRecord};
use toy::{Toy, pod};

#[test]
fn a_machine_becomes_a_node_that_can_be_used() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    let node = toy.node.clone().unwrap();
    assert!(node.labels.contains_key("karpenter.sh/registered"));
    assert!(node.labels.contains_key("karpenter.sh/initialized"));
    assert_eq!(node.labels["karpenter.sh/nodepool"], "pool".into());
    assert!(!node.tainted("karpenter.sh/unregistered", Effect::NoExecute));
    assert!(node.tainted("team", Effect::NoSchedule));
    assert_eq!(node.finalizers, ["karpenter.sh/termination".into()]);
    assert!(toy.machine().status.conditions.is_true(kinds::READY));
    assert!(matches!(toy.next(), Step::Wait(Wake::OnChange)));
}

#[test]
fn what_is_sold_out_gives_way_to_the_next_offer() {
    let mut toy = Toy::new();
    toy.sold_out = vec!["small".into()];
    toy.run_until(|toy| toy.machine().launched());
    assert_eq!(toy.machine().tried(), 1);
    assert_eq!(
        toy.machine().labels["node.kubernetes.io/instance-type"],
        "large".into()
    );
}

#[test]
fn when_nothing_can_be_had_the_object_goes_and_says_why() {
    let mut toy = Toy::new();
    toy.sold_out = vec!["small".into(), "large".into()];
    toy.run_until(|toy| toy.machine.is_none());
    let Some(Cause::InsufficientCapacity(said)) = &toy.given_up else {
        panic!("{:?}", toy.given_up)
    };
    assert!(said.contains("sold out"), "{said}");
    assert_eq!(toy.bought, 0);
    // Every offer was refused for certain: nobody waits for a purchase that might still come.
    assert!(
        toy.elapsed() < Duration::from_secs(5),
        "{:?}",
        toy.elapsed()
    );
}

#[test]
fn an_alternative_that_would_exceed_the_limits_is_passed_over() {
    let mut toy = Toy::new();
    toy.sold_out = vec!["small".into()];
    toy.within_limits = false;
    toy.run_until(|toy| toy.machine.is_none());
    assert_eq!(toy.bought, 0);
}

#[test]
fn a_machine_that_never_joins_is_given_up_in_time() {
    let mut toy = Toy::new();
    toy.joins_after = None;
    toy.run_until(|toy| toy.given_up.is_some());
    assert!(matches!(toy.given_up, Some(Cause::RegistrationTimeout(_))));
    assert_eq!(toy.elapsed(), Duration::from_mins(15));
    toy.run_until(|toy| toy.machine.is_none());
    assert!(toy.cloud.is_empty());
}

#[test]
fn a_machine_that_the_cloud_gives_up_is_not_waited_for() {
    let mut toy = Toy::new();
    toy.joins_after = None;
    toy.run_until(|toy| toy.machine().launched());
    toy.cloud[0].state = MachineState::Failed("no boot disk".into());
    toy.run_until(|toy| toy.given_up.is_some());
    assert_eq!(
        toy.given_up,
        Some(Cause::LaunchFailed("no boot disk".into()))
    );
}

#[test]
fn a_slow_cloud_says_what_it_waits_for() {
    let mut toy = Toy::new();
    toy.pending = Some("in the auction".into());
    toy.run_for(Duration::from_secs(20));
    let launched = toy
        .machine()
        .status
        .conditions
        .get(kinds::LAUNCHED)
        .unwrap()
        .clone();
    assert_eq!(
        (launched.status, &*launched.message),
        (Truth::Unknown, "in the auction")
    );
    toy.pending = None;
    toy.cloud[0].state = MachineState::Running;
    toy.run_until(|toy| toy.machine().initialized());
}

#[test]
fn a_cloud_that_is_behind_its_own_nodes_is_asked_at_once() {
    let mut toy = Toy::new();
    toy.pending = Some("booting".into());
    toy.run_until(|toy| {
        let conditions = &toy.machine().status.conditions;
        conditions.get(kinds::LAUNCHED).is_some()
    });
    toy.wait(Duration::from_secs(2));
    assert!(matches!(toy.next(), Step::Wait(_)));
    toy.cloud[0].state = MachineState::Running;
    toy.joins_after = Some(Duration::ZERO);
    toy.wait(Duration::ZERO);
    assert!(toy.node.is_some());
    assert!(matches!(toy.next(), Step::Get(_)));
}

#[test]
fn a_node_of_another_machine_is_never_taken() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().launched());
    toy.wait(Duration::from_mins(1));
    toy.node.as_mut().unwrap().owners = vec!["somebody else".into()];
    toy.run_for(Duration::from_mins(2));
    assert!(!toy.machine().registered());
    assert!(toy.node.as_ref().unwrap().finalizers.is_empty());
}

#[test]
fn a_machine_that_cannot_own_its_node_marks_it() {
    let mut toy = Toy::new();
    toy.owns_nodes = false;
    toy.run_until(|toy| toy.machine().initialized());
    let node = toy.node.as_ref().unwrap();
    assert_eq!(node.owners, ["uid-1".into()]);
    toy.delete();
    toy.run_until(|toy| toy.machine.is_none());
    assert!(toy.node.is_none() && toy.cloud.is_empty());
}

#[test]
fn a_node_is_cordoned_where_the_family_says_so() {
    for cordons in [true, false] {
        let mut toy = Toy::new();
        toy.cordons = cordons;
        toy.run_until(|toy| toy.machine().initialized());
        toy.delete();
        toy.run_until(|toy| {
            let node = toy.node.as_ref();
            node.is_none_or(|node| node.tainted("karpenter.sh/disrupted", Effect::NoSchedule))
        });
        assert_eq!(toy.node.as_ref().unwrap().unschedulable, cordons);
    }
}

#[test]
fn a_pool_s_own_timeout_counts_from_the_launch() {
    let mut toy = Toy::new();
    toy.joins_after = None;
    toy.pending = Some("booting".into());
    toy.machine.as_mut().unwrap().registration_timeout = Some(jiff::SignedDuration::from_mins(5));
    toy.run_for(Duration::from_mins(3));
    toy.pending = None;
    toy.cloud[0].state = MachineState::Running;
    toy.run_until(|toy| toy.machine().launched());
    toy.run_for(Duration::from_mins(4));
    assert!(toy.given_up.is_none());
    toy.run_for(Duration::from_mins(2));
    assert!(matches!(toy.given_up, Some(Cause::RegistrationTimeout(_))));
}

#[test]
fn a_node_that_carries_the_mark_of_another_machine_is_never_taken() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().launched());
    toy.wait(Duration::from_mins(1));
    let other = Uid("another".into());
    toy.node.as_mut().unwrap().mark = Some(Mark::new("cluster", "toy", &other));
    toy.run_for(Duration::from_mins(2));
    assert!(!toy.machine().registered());
    assert!(toy.node.as_ref().unwrap().finalizers.is_empty());
}

#[test]
fn a_machine_object_of_another_joiner_is_left_alone() {
    let mut toy = Toy::new();
    toy.change(|machine| {
        let other = manager("elsewhere", "toy");
        machine.annotations.insert(MANAGED_BY.into(), other);
    });
    toy.run_for(Duration::from_mins(2));
    assert!(toy.cloud.is_empty() && toy.writes.is_empty());
    toy.delete();
    toy.run_for(Duration::from_mins(2));
    assert!(toy.writes.is_empty());
}

#[test]
fn a_registered_node_carries_the_mark_of_its_machine() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().registered());
    let mark = Mark::new("cluster", "toy", &toy.machine().uid);
    assert_eq!(toy.node.as_ref().unwrap().mark, Some(mark.clone()));
    // One that was registered before there were marks gets its mark.
    toy.run_until(|toy| toy.machine().initialized());
    toy.node.as_mut().unwrap().mark = None;
    toy.run_for(Duration::from_mins(10));
    assert_eq!(toy.node.as_ref().unwrap().mark, Some(mark));
}

#[test]
fn a_startup_taint_that_was_taken_off_is_not_put_back() {
    let mut toy = Toy::new();
    toy.removes_startup_taints = true;
    toy.run_until(|toy| toy.machine().registered());
    toy.node
        .as_mut()
        .unwrap()
        .taints
        .retain(|taint| &*taint.key != "cni");
    toy.run_until(|toy| toy.machine().initialized());
    assert!(
        !toy.node
            .as_ref()
            .unwrap()
            .tainted("cni", Effect::NoSchedule)
    );
}

#[test]
fn pods_leave_in_order_and_the_machine_goes_last() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    let mut critical = pod("critical");
    critical.critical = true;
    toy.pods = vec![critical, pod("web")];
    toy.delete();
    toy.run_until(|toy| toy.machine.is_none());
    let at = |what: &str| {
        toy.log
            .iter()
            .position(|line| line.contains(what))
            .unwrap_or(usize::MAX)
    };
    assert!(at("taint") < at("evict default/web"));
    assert!(at("evict default/web") < at("evict default/critical"));
    assert!(at("evict default/critical") < at("terminate"));
    assert!(at("terminate") < at("delete node"));
    assert!(at("delete node") < at("release"));
}

#[test]
fn a_family_that_shows_phases_shows_the_last_ones_of_an_empty_node_too() {
    let ends = |shows: bool| {
        let mut toy = Toy::new();
        toy.shows_phases = shows;
        toy.run_until(|toy| toy.machine().initialized());
        toy.delete();
        let mut seen = Vec::new();
        toy.run_until(|toy| {
            if let Some(machine) = &toy.machine {
                let is = |kind: &str| machine.status.conditions.get(kind).is_some();
                let now = (is(kinds::DRAINED), is(kinds::INSTANCE_TERMINATING));
                if seen.last() != Some(&now) {
                    seen.push(now);
                }
            }
            toy.machine.is_none()
        });
        seen
    };
    assert_eq!(ends(false), [(false, false)]);
    assert_eq!(ends(true), [(false, false), (true, false), (true, true)]);
}

#[test]
fn a_budget_that_forbids_it_is_named_until_the_grace_period_ends() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    toy.change(|machine| machine.termination_grace = Some(jiff::SignedDuration::from_mins(10)));
    toy.pods = vec![pod("web")];
    toy.held_back = Some("PodDisruptionBudget default/web".into());
    toy.delete();
    toy.run_for(Duration::from_mins(5));
    let drained = toy
        .machine()
        .status
        .conditions
        .get(kinds::DRAINED)
        .unwrap()
        .clone();
    assert_eq!(
        drained.message,
        "pod default/web cannot be evicted: PodDisruptionBudget default/web"
    );
    assert!(
        toy.cloud
            .iter()
            .all(|one| one.state == MachineState::Running)
    );
    toy.run_until(|toy| toy.machine.is_none());
    assert!(
        toy.log
            .iter()
            .any(|line| line == "delete pod default/web within 30s"),
        "{:?}",
        toy.log
    );
}

/// A pod that asks for so many thousandths of a core.
fn sized(name: &str, milli: i64) -> PodRecord {
    let mut spec = PodSpec::default();
    spec.requests.set(resources::CPU, milli);
    PodRecord {
        spec: Arc::new(spec),
        ..pod(name)
    }
}

#[test]
fn small_pods_leave_when_larger_ones_have_found_their_places() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    toy.pods = vec![
        sized("small", 100),
        sized("large", 2000),
        sized("big", 3000),
    ];
    toy.delete();
    toy.run_until(|toy| toy.pods.len() < 3);
    let asked = toy.now;
    let last: Vec<&str> = toy.pods.iter().map(|pod| &*pod.uid).collect();
    assert_eq!(last, ["small"], "of one size, both at a time");
    toy.run_until(|toy| toy.pods.is_empty());
    let waited = clock::since(toy.now, asked);
    assert!(waited >= Duration::from_millis(200), "{waited:?}");
    assert_eq!(toy.evicted(), ["big", "large", "small"]);
}

#[test]
fn pods_that_machines_were_bought_for_leave_after_the_others() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    toy.pods = vec![
        sized("pioneer", 3000),
        sized("small", 100),
        sized("large", 2000),
        sized("follower", 50),
    ];
    toy.pioneers = ["pioneer".into(), "follower".into()].into();
    toy.delete();
    toy.run_until(|toy| toy.pods.is_empty());
    assert_eq!(toy.evicted(), ["large", "small", "pioneer", "follower"]);
}

#[test]
fn a_node_that_is_kept_takes_pods_when_their_time_has_come() {
    let mut toy = Toy::new();
    toy.reserved = true;
    toy.run_until(|toy| toy.machine().initialized());
    let is_reserved = |toy: &Toy| toy.node.as_ref().unwrap().reserved();
    toy.run_for(Duration::from_secs(30));
    assert!(is_reserved(&toy));
    toy.reserved = false;
    toy.run_for(Duration::from_secs(1));
    assert!(!is_reserved(&toy));
}

#[test]
fn pods_that_nobody_binds_hold_a_drain_up_for_two_seconds_only() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    toy.pods = vec![sized("small", 100), sized("large", 2000)];
    toy.pods_to_bind = true;
    toy.delete();
    toy.run_until(|toy| toy.pods.len() == 1);
    let asked = toy.now;
    toy.run_until(|toy| toy.pods.is_empty());
    let waited = clock::since(toy.now, asked).as_millis();
    assert!((2000..2500).contains(&waited), "{waited}");
}

#[test]
fn do_not_disrupt_holds_a_drain_without_a_deadline() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    let mut precious = pod("job");
    precious.do_not_disrupt = DoNotDisrupt::Always;
    toy.pods = vec![precious];
    toy.delete();
    toy.run_for(Duration::from_hours(5));
    assert!(toy.machine.is_some());
    toy.pods.clear();
    toy.run_until(|toy| toy.machine.is_none());
}

#[test]
fn volumes_are_detached_before_the_machine_goes() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    toy.attached = vec!["pv-1".into()];
    toy.delete();
    toy.run_for(Duration::from_mins(10));
    let waiting = toy
        .machine()
        .status
        .conditions
        .get(kinds::VOLUMES_DETACHED)
        .unwrap()
        .clone();
    assert_eq!(waiting.message, "attached: pv-1");
    assert_eq!(toy.terminations, 0);
    toy.attached.clear();
    toy.run_until(|toy| toy.machine.is_none());
}

#[test]
fn an_error_of_the_cloud_never_releases_the_object() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    toy.trouble = Some(ProviderError::Transient("502".into()));
    toy.delete();
    toy.run_for(Duration::from_hours(1));
    assert!(toy.machine.is_some());
    let said = toy
        .machine()
        .status
        .conditions
        .get(kinds::INSTANCE_TERMINATING)
        .unwrap()
        .clone();
    assert_eq!(said.message, "502");
    toy.trouble = None;
    toy.run_until(|toy| toy.machine.is_none());
    assert!(toy.cloud.is_empty());
}

#[test]
fn a_purchase_whose_answer_was_lost_is_looked_for_twice() {
    let mut toy = Toy::new();
    toy.loses_answers = true;
    toy.run_for(Duration::from_secs(1));
    assert_eq!(toy.bought, 1);
    toy.memory = super::Memory::default();
    toy.hides = true;
    toy.delete();
    toy.run_for(Duration::from_secs(20));
    assert!(toy.machine.is_some(), "one look is not enough");
    toy.hides = false;
    toy.loses_answers = false;
    toy.run_until(|toy| toy.machine.is_none());
    assert!(
        toy.cloud.is_empty(),
        "the late purchase was found and taken away"
    );
}

#[test]
fn a_machine_without_a_provider_says_so_and_stays() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    toy.provider = false;
    toy.delete();
    toy.run_for(Duration::from_hours(1));
    let said = toy
        .machine()
        .status
        .conditions
        .get(kinds::INSTANCE_TERMINATING)
        .unwrap()
        .clone();
    assert_eq!(
        (said.status, &*said.reason),
        (Truth::False, "NodeClassNotReady")
    );
}

#[test]
fn a_node_deleted_by_hand_takes_its_machine_along() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    toy.node.as_mut().unwrap().deleting = true;
    toy.run_until(|toy| toy.machine.is_none());
    assert_eq!(toy.given_up, Some(Cause::NodeDeleted));
    assert!(toy.cloud.is_empty() && toy.node.is_none());
}

#[test]
fn foreign_fields_of_a_node_survive() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.node.is_some());
    let foreign = Taint {
        key: "someone/else".into(),
        value: "x".into(),
        effect: Effect::NoExecute,
    };
    let node = toy.node.as_mut().unwrap();
    node.taints.push(foreign.clone());
    node.finalizers.push("other/finalizer".into());
    toy.run_until(|toy| toy.machine().initialized());
    let node = toy.node.as_ref().unwrap();
    assert!(node.taints.contains(&foreign));
    assert!(node.finalizers.contains(&"other/finalizer".into()));
    toy.delete();
    toy.run_for(Duration::from_mins(5));
    let node = toy.node.as_ref().unwrap();
    assert!(node.tainted(DISRUPTED, Effect::NoSchedule));
    assert_eq!(node.finalizers, ["other/finalizer".into()]);
}

#[test]
fn a_machine_object_stays_until_its_node_is_gone() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    let node = toy.node.as_mut().unwrap();
    node.finalizers.push("other/finalizer".into());
    toy.delete();
    toy.run_for(Duration::from_mins(5));
    assert!(toy.cloud.is_empty());
    let conditions = &toy.machine().status.conditions;
    assert!(conditions.is_true(kinds::INSTANCE_TERMINATING));
    toy.node = None;
    toy.run_until(|toy| toy.machine.is_none());
}

#[test]
fn a_machine_whose_class_does_not_exist_is_given_up_and_leaves_nothing() {
    let mut toy = Toy::new();
    toy.provider = false;
    toy.change(|machine| machine.offers = std::sync::Arc::default());
    toy.run_for(Duration::from_mins(5));
    assert!(toy.given_up.is_none(), "the class may be read later");
    toy.class_missing = true;
    toy.run_until(|toy| toy.machine.is_none());
    assert!(matches!(toy.given_up, Some(Cause::NoClass(_))));
    assert_eq!(toy.bought, 0);
}

#[test]
fn a_machine_that_may_have_been_bought_outlives_its_class() {
    let mut toy = Toy::new();
    toy.provider = false;
    toy.class_missing = true;
    toy.run_for(Duration::from_mins(5));
    assert!(toy.given_up.is_none());
    toy.delete();
    toy.run_for(Duration::from_hours(1));
    assert!(toy.machine.is_some());
}

#[test]
fn the_deadline_of_a_drain_survives_on_the_object() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    toy.change(|machine| machine.termination_grace = Some(jiff::SignedDuration::from_mins(10)));
    toy.pods = vec![pod("web")];
    toy.delete();
    toy.run_for(Duration::from_secs(1));
    assert!(
        toy.machine()
            .annotations
            .contains_key(annotations::TERMINATION_TIMESTAMP)
    );
}

#[test]
fn absence_after_a_machine_was_confirmed_is_final() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    toy.cloud.clear();
    toy.delete();
    toy.node.as_mut().unwrap().conditions.clear();
    toy.run_until(|toy| toy.machine.is_none());
    assert!(matches!(
        toy.memory.cloud,
        Some(ProviderAnswer::Absent { .. })
    ));
    assert!(toy.elapsed() < Duration::from_mins(2));
}

#[test]
fn a_node_that_joined_and_was_never_registered_goes_with_its_machine() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().launched());
    toy.delete();
    toy.wait(Duration::from_mins(1));
    assert!(toy.node.is_some());
    toy.run_until(|toy| toy.machine.is_none());
    assert!(toy.node.is_none() && toy.cloud.is_empty());
}

#[test]
fn a_node_life_takes_few_writes() {
    let mut toy = Toy::new();
    // A cloud that hands out nodes as they were ordered: nothing is left to be put on them.
    toy.change(|machine| {
        machine.taints.clear();
        machine.startup_taints.clear();
    });
    toy.consolidate_after = Some(jiff::SignedDuration::ZERO);
    toy.run_until(|toy| toy.machine().initialized());
    toy.run_for(Duration::from_hours(1));
    toy.delete();
    toy.run_until(|toy| toy.machine.is_none());
    // Together with the object itself: eight.
    assert_eq!(
        toy.writes,
        [
            "metadata",
            "status",
            "node",
            "status",
            "node",
            "delete node",
            "node",
            "release"
        ],
        "{:#?}",
        toy.log
    );
}

#[test]
fn a_quiet_node_says_that_it_may_go() {
    let mut toy = Toy::new();
    toy.consolidate_after = Some(jiff::SignedDuration::from_secs(60));
    toy.run_until(|toy| toy.machine().initialized());
    let consolidatable = |toy: &Toy| {
        toy.machine()
            .status
            .conditions
            .is_true(kinds::CONSOLIDATABLE)
    };
    assert!(!consolidatable(&toy));
    toy.run_for(Duration::from_secs(65));
    assert!(consolidatable(&toy));
    // A pod comes: the minute begins anew, and both are said with one write.
    let before = toy.writes.len();
    toy.last_pod_event = Some(toy.now);
    toy.run_for(Duration::from_secs(30));
    assert!(!consolidatable(&toy));
    assert!(toy.machine().status.last_pod_event.is_some());
    assert_eq!(toy.writes.len(), before + 1);
    toy.run_for(Duration::from_secs(35));
    assert!(consolidatable(&toy));
    // Pods that come every second are not writes every second.
    let (before, start) = (toy.writes.len(), toy.now);
    for _ in 0..60 {
        toy.last_pod_event = Some(toy.now);
        toy.run_for(Duration::from_secs(1));
    }
    let writes = u64::try_from(toy.writes.len() - before).unwrap();
    let seconds = crate::edge::clock::since(toy.now, start).as_secs();
    assert!(
        writes > 0 && writes <= seconds / 10 + 1,
        "{writes} writes in {seconds}s"
    );
    toy.consolidate_after = None;
    toy.run_for(Duration::from_secs(1));
    assert!(
        toy.machine()
            .status
            .conditions
            .get(kinds::CONSOLIDATABLE)
            .is_none()
    );
}

#[test]
fn a_node_that_is_less_than_was_bought_says_so() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    let found = |toy: &Toy| {
        let conditions = &toy.machine().status.conditions;
        conditions
            .get(kinds::CONSISTENT_STATE_FOUND)
            .unwrap()
            .clone()
    };
    assert_eq!(found(&toy).status, Truth::True);
    toy.node.as_mut().unwrap().capacity.set("cpu", 1000);
    toy.run_for(Duration::from_secs(5));
    let said = found(&toy);
    assert_eq!(
        (said.status, &*said.reason),
        (Truth::False, "ConsistencyCheckFailed")
    );
    assert_eq!(
        said.message,
        "expected 2000 of resource cpu, but found 1000 (50% of expected)"
    );
}

#[test]
fn why_a_machine_is_to_go_stands_on_it_until_it_is_not() {
    let mut toy = Toy::new();
    toy.run_until(|toy| toy.machine().initialized());
    let intent = r#"{"id":"d","cause":"Drifted","since":"2026-01-01T00:00:00Z"}"#;
    toy.change(|machine| {
        let key = annotations::INTENT.into();
        machine.annotations.insert(key, intent.into());
    });
    toy.run_for(Duration::from_secs(2));
    let reason = |toy: &Toy| {
        let conditions = &toy.machine().status.conditions;
        conditions
            .get(kinds::DISRUPTION_REASON)
            .map(|one| one.reason.clone())
    };
    assert_eq!(reason(&toy).as_deref(), Some("Drifted"));
    toy.change(|machine| {
        machine.annotations.remove(annotations::INTENT);
    });
    toy.run_for(Duration::from_secs(2));
    assert_eq!(reason(&toy), None);
}
