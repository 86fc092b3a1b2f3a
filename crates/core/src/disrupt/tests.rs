//! Small clusters, one fact at a time. Every plan must pass the checker, and planning again must change nothing.

use std::sync::Arc;

use jiff::SignedDuration;

use super::plan;
use crate::labels;
use crate::money::Money;
use crate::name::{Labels, Name};
use crate::pack::Options;
use crate::plan::{Plan, Reason, apply, check};
use crate::problem::{
    AffinityTerm, Budget, BudgetAmount, CapacityType, Catalog, ConsolidationPolicy,
    DisruptionReason, Host, InstanceType, Node, Offering, Pod, PodDisruptionBudget, PodSpec, Pool,
    Problem, Range, UnitPrices,
};
use crate::requirement::{Expression, Operator};
use crate::resources::{CPU, MEMORY, PODS, Resources};
use crate::selector::LabelSelector;
use crate::taints::{Effect, Taint, Toleration};

mod pod_budgets;
mod prices;

const GIB: i64 = 1 << 30;

fn amounts(cpu: i64, gib: i64, pods: i64) -> Resources {
    Resources::new()
        .with(CPU, cpu)
        .with(MEMORY, gib * GIB)
        .with(PODS, pods)
}

/// Sizes 2, 4 and 8 cores at 5 cents a core on demand, 2 cents spot.
fn problem() -> Problem {
    let offering = |capacity_type, cents: i64| Offering {
        zone: "a".into(),
        region: "".into(),
        capacity_type,
        price: Money::from_nanos(cents * 10_000_000),
        available: true,
        left: None,
        reservation: None,
        stock: None,
    };
    let kind = |cores: i64| InstanceType {
        name: format!("c{cores}").into(),
        labels: Labels::from([
            (Name::from(labels::ARCH), Name::from("amd64")),
            (Name::from(labels::OS), Name::from("linux")),
        ]),
        capacity: amounts(cores * 1000, cores * 4, 20),
        overhead: Resources::new(),
        offerings: vec![
            offering(CapacityType::OnDemand, cores * 5),
            offering(CapacityType::Spot, cores * 2),
        ],
        quotas: Vec::new(),
    };
    let mut pool = Pool {
        name: "main".into(),
        catalog: "shop".into(),
        ..Pool::default()
    };
    pool.disruption.budgets.clear();
    Problem {
        now: Some("2026-11-13T12:00:00Z".parse().unwrap()),
        catalogs: vec![Catalog {
            name: "shop".into(),
            types: vec![kind(2), kind(4), kind(8)],
            ranges: Vec::new(),
            quotas: Vec::new(),
        }],
        pools: vec![pool],
        ..Problem::default()
    }
}

fn on_demand_only(problem: &mut Problem) {
    for kind in &mut problem.catalogs[0].types {
        kind.offerings.truncate(1);
    }
}

fn pod(name: &str, cpu: i64) -> Pod {
    Pod::new(
        name,
        PodSpec {
            namespace: "default".into(),
            labels: Labels::from([(Name::from("app"), Name::from("web"))]),
            requests: amounts(cpu, 0, 1),
            ..PodSpec::default()
        },
    )
}

/// Adds an on-demand node with pods of these sizes.
fn node(problem: &mut Problem, name: &str, cores: i64, pods: &[i64]) {
    let kind_name = format!("c{cores}");
    let catalog = &problem.catalogs[0];
    let kind = catalog
        .types
        .iter()
        .find(|one| *one.name == *kind_name)
        .unwrap();
    let mut all = kind.labels.clone();
    for (key, value) in [
        (labels::ZONE, "a"),
        (labels::INSTANCE_TYPE, &kind_name),
        (labels::CAPACITY_TYPE, "on-demand"),
        (labels::NODEPOOL, "main"),
        (labels::HOSTNAME, name),
    ] {
        all.insert(key.into(), value.into());
    }
    let named = pods.iter().enumerate();
    let node = Node {
        name: name.into(),
        pool: Some("main".into()),
        labels: all,
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        instance_type: kind.name.clone(),
        price: Some(kind.offerings[0].price),
        created: Some("2026-11-01T00:00:00Z".parse().unwrap()),
        pods: named
            .map(|(at, cpu)| pod(&format!("{name}-{at}"), *cpu))
            .collect(),
        ..Node::default()
    };
    problem.nodes.push(node);
}

/// The plan, judged; and once it is carried out there is nothing left to do.
#[track_caller]
fn decide(problem: &Problem) -> Plan {
    let options = Options::default();
    let decided = plan(problem, &options);
    assert_eq!(check(problem, &decided), [], "{decided:#?}");
    let after = apply(problem, &decided, "new-");
    let again = plan(&after, &options);
    assert_eq!(check(&after, &again), []);
    assert!(
        again.removals.is_empty() || !decided.removals.is_empty(),
        "nothing was done, and then something"
    );
    decided
}

fn gone(plan: &Plan) -> Vec<(&str, DisruptionReason)> {
    let mut all: Vec<_> = plan
        .removals
        .iter()
        .map(|removal| (&*removal.node, removal.cause))
        .collect();
    all.sort_unstable();
    all
}

fn why_kept<'a>(plan: &'a Plan, name: &str) -> &'a str {
    let kept = plan.kept.iter().find(|kept| &*kept.node == name).unwrap();
    match &kept.reason {
        Reason::Kept { because } => because,
        other => panic!("{other:?}"),
    }
}

use DisruptionReason::{Drifted, Empty, Expired, Underutilized};

#[test]
fn a_node_whose_pods_fit_on_another_goes() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "half", 4, &[1000]);
    node(&mut problem, "full", 4, &[2000, 1000]);
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("half", Underutilized)]);
    assert!(plan.launches.is_empty());
    assert_eq!(plan.placements[0].pods.len(), 1);
    assert!(matches!(
        &plan.removals[0].reason,
        Reason::Disrupted { after, .. } if *after == Money::ZERO
    ));
}

#[test]
fn many_nodes_make_way_for_fewer_and_cheaper_machines() {
    let mut problem = problem();
    for index in 0..8 {
        node(&mut problem, &format!("n{index}"), 4, &[1000]);
    }
    let plan = decide(&problem);
    assert_eq!(plan.removals.len(), 8);
    // Eight cores of spot hold them all.
    assert_eq!(plan.cost, Money::from_dollars(0.16));
}

#[test]
fn pods_that_may_end_up_elsewhere_are_not_moved_for_less_than_one_of_them_costs() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "eight", 8, &[4000, 1900]);
    let plan = decide(&problem);
    assert_eq!(
        why_kept(&plan, "eight"),
        "replacing it would save less than 5% or less than moving its pods may cost",
        "should the small one go to the larger machine, the large one needs another"
    );
    problem.pools[0].disruption.min_savings = 20;
    assert_eq!(gone(&decide(&problem)), [("eight", Underutilized)]);
    problem.pools[0].disruption.min_savings = 0;
    problem.nodes.clear();
    node(&mut problem, "eight", 8, &[2000, 1900]);
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("eight", Underutilized)]);
    assert_eq!(plan.launches.len(), 1, "one machine for both");
}

#[test]
fn a_cluster_that_is_as_good_as_can_be_is_left_alone() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "a", 4, &[4000]);
    node(&mut problem, "b", 2, &[1500, 500]);
    let plan = decide(&problem);
    assert!(plan.removals.is_empty() && plan.launches.is_empty());
    assert_eq!(
        why_kept(&plan, "a"),
        "its pods would cost as much elsewhere"
    );
}

#[test]
fn only_wasteful_nodes_are_touched() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    for index in 0..6 {
        node(&mut problem, &format!("good{index}"), 8, &[4000, 4000]);
    }
    node(&mut problem, "waste", 8, &[1900]);
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("waste", Underutilized)]);
    assert_eq!(plan.launches.len(), 1);
    assert_eq!(&*plan.launches[0].purchase.instance_type, "c2");
}

#[test]
fn a_replacement_must_save_what_the_pool_asks_for() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    problem.catalogs[0].types[0].offerings[0].price = Money::from_dollars(0.17);
    node(&mut problem, "waste", 4, &[1900]);
    assert_eq!(gone(&decide(&problem)), [("waste", Underutilized)]);
    problem.pools[0].disruption.min_savings = 20;
    assert!(decide(&problem).removals.is_empty());
}

#[test]
fn empty_nodes_go_first_and_need_no_price() {
    let mut problem = problem();
    node(&mut problem, "empty", 4, &[]);
    problem.nodes[0].price = None;
    problem.pools[0].disruption.policy = ConsolidationPolicy::WhenEmpty;
    node(&mut problem, "half", 4, &[1000]);
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("empty", Empty)]);
    assert_eq!(
        why_kept(&plan, "half"),
        "NodePool main consolidates empty nodes only (consolidationPolicy: WhenEmpty)"
    );
}

#[test]
fn drifted_nodes_are_replaced_oldest_first_within_their_budget() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    for index in 0..3 {
        node(&mut problem, &format!("n{index}"), 4, &[4000]);
        problem.nodes[index].drifted = Some("image".to_owned());
    }
    problem.nodes[2].created = Some("2026-10-01T00:00:00Z".parse().unwrap());
    problem.pools[0].disruption.budgets = vec![Budget {
        amount: BudgetAmount::Nodes(1),
        reasons: vec![Drifted],
        schedule: None,
        duration: None,
    }];
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("n2", Drifted)]);
    assert_eq!(plan.launches.len(), 1, "whatever it costs");
    assert_eq!(
        why_kept(&plan, "n0"),
        "Disruption budget of NodePool main is exhausted (reason Drifted)"
    );
}

/// So many nodes at once, for these reasons.
fn budget(nodes: u32, reasons: &[DisruptionReason]) -> Budget {
    Budget {
        amount: BudgetAmount::Nodes(nodes),
        reasons: reasons.to_vec(),
        schedule: None,
        duration: None,
    }
}

#[test]
fn an_empty_node_that_has_drifted_goes_as_drifted_where_no_empty_one_may() {
    let mut problem = problem();
    node(&mut problem, "both", 4, &[]);
    node(&mut problem, "empty", 4, &[]);
    problem.nodes[0].drifted = Some("image".to_owned());
    problem.pools[0].disruption.budgets = vec![budget(0, &[Empty])];
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("both", Drifted)]);
    assert_eq!(
        why_kept(&plan, "empty"),
        "Disruption budget of NodePool main is exhausted (reason Empty)"
    );
    problem.pools[0].disruption.budgets = vec![budget(0, &[])];
    assert!(decide(&problem).removals.is_empty());
}

#[test]
fn a_node_that_expires_counts_against_the_budget_of_others() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "old", 4, &[4000]);
    node(&mut problem, "drifted", 4, &[4000]);
    problem.nodes[1].created = Some("2026-11-13T00:00:00Z".parse().unwrap());
    problem.nodes[1].drifted = Some("image".to_owned());
    problem.pools[0].expire_after = Some(SignedDuration::from_hours(24));
    problem.pools[0].disruption.budgets = vec![budget(1, &[])];
    assert_eq!(gone(&decide(&problem)), [("old", Expired)]);
    problem.pools[0].disruption.budgets = vec![budget(2, &[])];
    assert_eq!(
        gone(&decide(&problem)),
        [("drifted", Drifted), ("old", Expired)]
    );
}

#[test]
fn a_node_whose_pods_could_go_nowhere_says_so() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "alone", 8, &[1900]);
    problem.pools[0].limits.nodes = Some(1);
    let plan = decide(&problem);
    assert_eq!(why_kept(&plan, "alone"), "its pods fit on no other node");
    // Two that could not go together, and each of which could go without the other, are not told so.
    problem.nodes.clear();
    problem.catalogs[0].types.truncate(2);
    node(&mut problem, "half", 4, &[3000]);
    node(&mut problem, "other", 4, &[3000]);
    problem.pools[0].limits.nodes = Some(3);
    let plan = decide(&problem);
    for kept in ["half", "other"] {
        let why = "its pods would cost as much elsewhere";
        assert_eq!(why_kept(&plan, kept), why);
    }
}

#[test]
fn a_pod_that_waits_for_others_to_come_is_planned_for_as_it_is_when_nodes_stay() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "old", 8, &[]);
    node(&mut problem, "expired", 8, &[]);
    problem.nodes[1].created = Some("2026-01-01T00:00:00Z".parse().unwrap());
    problem.pools[0].expire_after = Some(SignedDuration::from_hours(24 * 30));
    let beside = |app: &str| AffinityTerm {
        topology_key: labels::HOSTNAME.into(),
        selector: Some(LabelSelector::label("app", app)),
        namespaces: Vec::new(),
        namespace_selector: None,
    };
    // It comes before the pod beside which it must be.
    let mut late = pod("late", 500);
    let mut spec = (*late.spec).clone();
    spec.labels = Labels::from([(Name::from("app"), Name::from("late"))]);
    spec.priority = 100;
    spec.affinity = vec![beside("web")];
    late.spec = Arc::new(spec);
    problem.pods = vec![late, pod("first", 1000)];
    let after_pending = crate::pack::solve(&problem, &Options::default());
    assert!(after_pending.unplaced.is_empty());
    let plan = decide(&problem);
    assert!(plan.unplaced.is_empty(), "{:?}", plan.unplaced);
    assert_eq!(gone(&plan), [("expired", Expired)]);
}

#[test]
fn expired_nodes_go_whatever_protects_them() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "old", 4, &[4000]);
    problem.nodes[0].do_not_disrupt = true;
    problem.pools[0].expire_after = Some(SignedDuration::from_hours(24));
    problem.pools[0].disruption.budgets = vec![Budget {
        amount: BudgetAmount::Nodes(0),
        reasons: Vec::new(),
        schedule: None,
        duration: None,
    }];
    assert_eq!(gone(&decide(&problem)), [("old", Expired)]);
}

#[test]
fn budgets_bound_the_batch_and_the_largest_gain_goes_first() {
    let mut problem = problem();
    for index in 0..9 {
        node(&mut problem, &format!("n{index}"), 4, &[1000]);
    }
    node(&mut problem, "big", 8, &[1000]);
    problem.pools[0].disruption.budgets = vec![Budget {
        amount: BudgetAmount::Percent(10),
        reasons: Vec::new(),
        schedule: None,
        duration: None,
    }];
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("big", Underutilized)]);
    assert!(why_kept(&plan, "n0").contains("exhausted (reason Underutilized)"));
}

#[test]
fn a_closed_budget_says_when_it_opens() {
    let mut problem = problem();
    node(&mut problem, "n", 4, &[1000]);
    problem.pools[0].disruption.budgets = vec![Budget {
        amount: BudgetAmount::Nodes(0),
        reasons: Vec::new(),
        schedule: Some("0 9 * * mon-fri".to_owned()),
        duration: Some(SignedDuration::from_hours(8)),
    }];
    let plan = decide(&problem);
    assert_eq!(
        plan.kept[0].until,
        Some("2026-11-13T17:00:00Z".parse().unwrap())
    );
}

/// What keeps a half-empty node, and until when.
#[test]
fn what_stands_in_the_way_is_said() {
    type Change = fn(&mut Problem);
    let cases: [(Change, &str, Option<&str>); 6] = [
        (
            |p| p.nodes[0].do_not_disrupt = true,
            "node has annotation karpenter.sh/do-not-disrupt",
            None,
        ),
        (
            |p| p.nodes[0].nominated = true,
            "reserved for a pending pod",
            None,
        ),
        (
            |p| p.nodes[0].pods[0].do_not_disrupt = true,
            "pod half-0 has annotation karpenter.sh/do-not-disrupt",
            None,
        ),
        (
            |p| p.pools[0].disruption.consolidate_after = None,
            "NodePool main has consolidation disabled (consolidateAfter: Never)",
            None,
        ),
        (
            |p| p.pools[0].disruption.min_age = SignedDuration::from_hours(24 * 13),
            "node is too young to be replaced in NodePool main",
            Some("2026-11-14T00:00:00Z"),
        ),
        (
            |p| {
                p.pools[0].disruption.consolidate_after = Some(SignedDuration::from_mins(10));
                p.nodes[0].last_pod_event = Some("2026-11-13T11:55:00Z".parse().unwrap());
            },
            "pods were added or removed within consolidateAfter",
            Some("2026-11-13T12:05:00Z"),
        ),
    ];
    for (change, because, until) in cases {
        let mut problem = problem();
        node(&mut problem, "half", 4, &[1000]);
        assert_eq!(gone(&decide(&problem)), [("half", Underutilized)]);
        change(&mut problem);
        let plan = decide(&problem);
        assert!(plan.removals.is_empty(), "{because}");
        assert_eq!(why_kept(&plan, "half"), because);
        assert_eq!(plan.kept[0].until, until.map(|text| text.parse().unwrap()));
    }
}

#[test]
fn a_node_that_was_just_touched_receives_nothing() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "half", 4, &[1000]);
    node(&mut problem, "busy", 4, &[2000]);
    problem.catalogs[0]
        .types
        .iter_mut()
        .for_each(|kind| kind.offerings[0].available = false);
    assert!(!decide(&problem).removals.is_empty());
    problem.pools[0].disruption.consolidate_after = Some(SignedDuration::from_mins(10));
    problem.nodes[1].last_pod_event = Some("2026-11-13T11:55:00Z".parse().unwrap());
    assert!(decide(&problem).removals.is_empty());
}

#[test]
fn spot_makes_way_for_spot_only_where_allowed() {
    let mut problem = problem();
    let spot = |problem: &mut Problem, name: &str, cores: i64, pods: &[i64]| {
        node(problem, name, cores, pods);
        let node = problem.nodes.last_mut().unwrap();
        node.capacity_type = CapacityType::Spot;
        node.labels
            .insert(labels::CAPACITY_TYPE.into(), "spot".into());
        node.price = node.price.map(|price| price.percent(40));
    };
    // Together they need twelve cores, in an eight and a four; neither has room for the other.
    for index in 0..2 {
        spot(&mut problem, &format!("s{index}"), 8, &[3000, 2500]);
    }
    assert!(
        decide(&problem).removals.is_empty(),
        "no room on the others, and no spot for spot"
    );
    problem.pools[0].disruption.spot_to_spot = true;
    assert!(!decide(&problem).removals.is_empty());
}

#[test]
fn pods_that_wait_keep_what_they_will_use() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "half", 4, &[1000]);
    node(&mut problem, "room", 4, &[1000]);
    problem.pods = vec![pod("waits", 2000)];
    let plan = decide(&problem);
    // One of the two takes the pod that waits; the other's pod joins them.
    assert_eq!(plan.removals.len(), 1);
    assert!(plan.launches.is_empty());
    let placed: usize = plan.placements.iter().map(|one| one.pods.len()).sum();
    assert_eq!(placed, 2);
}

#[test]
fn machines_for_pods_that_wait_and_that_move_keep_the_share_together() {
    let mut problem = problem();
    problem.catalogs[0].types.truncate(1);
    node(&mut problem, "old", 2, &[1500]);
    problem.nodes[0].price = Some(Money::from_dollars(0.5));
    problem.settings.spot_share = Some(50);
    let mut waits = (*pod("waits", 1500).spec).clone();
    waits
        .node_selector
        .insert(labels::CAPACITY_TYPE.into(), "spot".into());
    problem.pods = vec![Pod::new("waits", waits)];
    let plan = decide(&problem);
    assert_eq!(plan.removals.len(), 1, "{plan:?}");
    let launches = plan.launches.iter();
    let ways: Vec<CapacityType> = launches
        .map(|launch| launch.purchase.capacity_type)
        .collect();
    assert_eq!(ways, [CapacityType::Spot, CapacityType::OnDemand]);
}

#[test]
fn pods_that_wait_and_pods_that_move_share_the_room_of_a_host() {
    let mut problem = problem();
    node(&mut problem, "old", 2, &[1500]);
    problem.nodes[0].drifted = Some("it has an old image".to_owned());
    problem.pods = vec![pod("waits", 1500)];
    problem.catalogs[0].types.clear();
    problem.catalogs[0].ranges = vec![Range {
        name: "vm".into(),
        labels: Labels::new(),
        region: "".into(),
        capacity_type: CapacityType::OnDemand,
        min: amounts(1000, 1, 20),
        max: amounts(8000, 8, 20),
        step: Resources::new()
            .with(crate::resources::CPU, 1000)
            .with(crate::resources::MEMORY, 1 << 30),
        overhead: Resources::new(),
        prices: UnitPrices {
            core: Money::from_dollars(0.01),
            ..UnitPrices::default()
        },
        hosts: vec![Host {
            name: "h".into(),
            zone: "a".into(),
            free: Resources::new().with(crate::resources::CPU, 4000),
            stock: "".into(),
        }],
        left: None,
    }];
    let both = decide(&problem);
    assert_eq!((both.removals.len(), both.launches.len()), (1, 2));
    problem.catalogs[0].ranges[0].hosts[0]
        .free
        .set(crate::resources::CPU, 3000);
    let plan = plan(&problem, &Options::default());
    assert_eq!(check(&problem, &plan), []);
    assert_eq!((plan.removals.len(), plan.launches.len()), (0, 1));
}

#[test]
fn balanced_pools_do_not_move_much_for_little() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    problem.catalogs[0].types[1].offerings[0].price = Money::from_dollars(0.19);
    // Moving twenty pods off an eight-core machine saves two cents.
    node(&mut problem, "crowd", 8, &[200; 19]);
    node(&mut problem, "calm", 8, &[7500]);
    problem.nodes[0].price = Some(Money::from_dollars(0.21));
    assert_eq!(gone(&decide(&problem)), [("crowd", Underutilized)]);
    problem.pools[0].disruption.policy = ConsolidationPolicy::Balanced;
    assert!(decide(&problem).removals.is_empty());
}

#[test]
fn of_two_ways_to_save_the_same_the_one_that_moves_fewer_pods_is_taken() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "crowd", 8, &[200; 18]);
    node(&mut problem, "calm", 8, &[3600]);
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("calm", Underutilized)]);
    assert!(plan.launches.is_empty());
}

#[test]
fn not_all_pods_are_moved_for_a_price_that_half_of_them_would_give_as_well() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    for index in 0..4 {
        node(&mut problem, &format!("n{index}"), 8, &[1000; 6]);
    }
    // Its pods fit where others have room. Of all nodes it is the last that one would take away by what they cost and
    // hold, and everything packed anew costs as much as the others do without it.
    node(&mut problem, "dear", 8, &[1000; 8]);
    problem.nodes[4].price = Some(Money::from_dollars(0.52));
    let plan = decide(&problem);
    let gone: Vec<&str> = gone(&plan).into_iter().map(|(node, _)| node).collect();
    let nodes = problem.nodes.iter();
    let moved = nodes.filter(|node| gone.contains(&&*node.name));
    let moved: usize = moved.map(|node| node.pods.len()).sum();
    assert!(gone.contains(&"dear") && moved <= 32 / 2, "{gone:?}");
    assert_eq!(apply(&problem, &plan, "new-").nodes.len(), 4);
}

#[test]
fn a_small_gain_does_not_take_the_room_that_a_large_one_needs() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    problem.pools[0].disruption.min_savings = 10;
    // Four cores are free there. With half of its pods in them, the large node becomes half as large; with the small
    // node's pod in them, only the small node goes.
    node(&mut problem, "fixed", 8, &[4000]);
    problem.nodes[0].do_not_disrupt = true;
    node(&mut problem, "small", 2, &[1000]);
    node(&mut problem, "large", 8, &[4000, 800, 800, 800, 800, 800]);
    problem.catalogs[0].types[0].offerings[0].available = false;
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("large", Underutilized)]);
    assert_eq!(plan.cost, Money::from_nanos(200_000_000));
}

#[test]
fn what_is_bought_again_is_not_taken_away_first() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    // Twelve cores are used of twenty-four: whatever else is bought, one of the three may stay.
    for index in 0..3 {
        node(&mut problem, &format!("n{index}"), 8, &[2000, 2000]);
    }
    let plan = decide(&problem);
    assert!(plan.removals.len() < 3, "{:?}", gone(&plan));
    let types = plan.launches.iter().map(|one| &*one.purchase.instance_type);
    assert!(
        !types
            .clone()
            .any(|name| name == &*problem.nodes[0].instance_type)
    );
}

#[test]
fn what_others_save_makes_no_move_of_a_balanced_pool_worth_more() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    problem.catalogs[0].types[1].offerings[0].price = Money::from_dollars(0.19);
    node(&mut problem, "crowd", 8, &[200; 19]);
    problem.nodes[0].price = Some(Money::from_dollars(0.21));
    problem.pools[0].disruption.policy = ConsolidationPolicy::Balanced;
    // Beside it, a pool of its own wastes a lot: its pods keep to themselves.
    let mut other = problem.pools[0].clone();
    other.name = "other".into();
    other.disruption.policy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
    other.taints = vec![Taint {
        key: "team".into(),
        value: "other".into(),
        effect: Effect::NoSchedule,
    }];
    problem.pools.push(other);
    node(&mut problem, "waste", 8, &[1500]);
    let waste = problem.nodes.last_mut().unwrap();
    waste.pool = Some("other".into());
    waste.taints = problem.pools[1].taints.clone();
    waste.labels.insert(labels::NODEPOOL.into(), "other".into());
    let spec = Arc::make_mut(&mut waste.pods[0].spec);
    spec.tolerations = vec![Toleration::everything()];
    spec.node_selector = Labels::from([(Name::from(labels::NODEPOOL), Name::from("other"))]);
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("waste", Underutilized)]);
    assert!(why_kept(&plan, "crowd").contains("NodePool main, consolidationPolicy: Balanced"));
}

#[test]
fn budgets_and_prices_leave_a_node_eligible_and_protection_does_not() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "full", 4, &[4000]);
    node(&mut problem, "drifted", 4, &[4000]);
    node(&mut problem, "pinned", 4, &[4000]);
    problem.nodes[1].drifted = Some("its image is old".into());
    problem.nodes[2].do_not_disrupt = true;
    problem.pools[0].disruption.budgets = vec![Budget {
        reasons: vec![Drifted],
        schedule: None,
        duration: None,
        amount: BudgetAmount::Nodes(0),
    }];
    let plan = decide(&problem);
    let eligible = |name: &str| {
        let kept = plan.kept.iter().find(|kept| &*kept.node == name);
        kept.unwrap().eligible
    };
    assert_eq!(eligible("full"), Some(Underutilized));
    assert_eq!(eligible("drifted"), Some(Drifted));
    assert_eq!(eligible("pinned"), None);
    let main: Name = "main".into();
    assert_eq!(
        super::allowed(&problem),
        [
            (main.clone(), Empty, 3),
            (main.clone(), Drifted, 0),
            (main, Underutilized, 3)
        ]
    );
}

#[test]
fn pods_of_one_spec_share_it_after_a_move() {
    let mut problem = problem();
    node(&mut problem, "half", 4, &[1000]);
    let spec = Arc::clone(&problem.nodes[0].pods[0].spec);
    let after = apply(&problem, &decide(&problem), "new-");
    assert!(Arc::ptr_eq(&after.nodes[0].pods[0].spec, &spec));
}
