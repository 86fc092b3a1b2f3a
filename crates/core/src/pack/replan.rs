//! Planning again for pods that found no place: they may find one when the others have theirs.
//!
//! The plan is simulated as executed, and what it leaves pending is planned for, until no more pods find a place. So
//! planning again after execution changes nothing.

use std::collections::BTreeMap;

use crate::name::Name;
use crate::pack::compile::Compiled;
use crate::pack::compile::ids::{ClassId, ColumnId};
use crate::pack::dense::typed::Id as _;
use crate::pack::dense::vector::Vector;
use crate::pack::output::alternatives;
use crate::pack::preferences::{Relaxations, ignoring};
use crate::pack::scenario::Scenario;
use crate::pack::search::Options;
use crate::pack::search::score::{Missing, Score};
use crate::plan::{Aftermath, Placement, Plan, PodRef, stock};
use crate::problem::{NodeId, PoolId, Problem};

/// Rounds at most. Every one places some pods; two are hardly ever needed.
const LOOKS: usize = 8;

/// What machines of the plan are called in the simulation: no node of a cluster can be called that.
const NEW: &str = "(new machine) ";

/// The best plan; where pods are left that might have had a place, the best after planning again for them.
pub(crate) fn planned(
    problem: &Problem,
    closed: &[NodeId],
    options: &Options,
    go_on: &mut dyn FnMut() -> bool,
) -> Plan {
    let relaxations = Relaxations::of(problem);
    let compiled = relaxations.compiled();
    let asked = Scenario::of(problem).closing_all(closed);
    let plan = relaxations.solve_while(&asked, options, &mut *go_on);
    if !may_place_more(compiled, &plan) {
        return plan;
    }
    let mut best = complete(compiled, closed, plan, options, &mut *go_on);
    if options.steps > 0 {
        // What is cheaper before replanning may be dearer after it, and more steps must not make a plan worse.
        let simplest = Options {
            steps: 0,
            ..options.clone()
        };
        let first = relaxations.solve(&asked, &simplest);
        let first = complete(compiled, closed, first, &simplest, || true);
        let first = complete(compiled, closed, first, options, &mut *go_on);
        if Score::of_plan(compiled, &first) < Score::of_plan(compiled, &best) {
            best = first;
        }
    }
    let left = may_place_more(compiled, &best);
    if let Some(ignoring) = ignoring(problem).filter(|_| left) {
        // No pod waits for the sake of a preference.
        let plain = planned(&ignoring, closed, options, &mut *go_on);
        if Missing::of_plan(compiled, &plain) < Missing::of_plan(compiled, &best) {
            // Pods that are left may find a place where preferences are respected again.
            best = complete(compiled, closed, plain, options, go_on);
        }
    }
    best
}

/// Whether a pod without a place might find one with others elsewhere.
pub(crate) fn may_place_more(compiled: &Compiled<'_>, plan: &Plan) -> bool {
    let mut classes: Vec<ClassId> = plan.waiting().map(|pod| compiled.class_of(pod)).collect();
    classes.sort_unstable();
    classes.dedup();
    classes
        .into_iter()
        .any(|class| may_be_placed(compiled, class))
}

/// Whether pods depend on where others are, or there are machines or nodes that would hold them.
fn may_be_placed(compiled: &Compiled<'_>, class: ClassId) -> bool {
    let profile = compiled.profile(class);
    let class = compiled.class(class);
    if profile.invalid.is_some() || class.uncounted.is_some() {
        return false;
    }
    let fits = |room: &Vector| class.requests.fits(room);
    profile.anchored
        || profile.levels.last().is_some_and(|level| {
            let mut columns = compiled.demand_columns[level.demand].iter();
            let mut nodes = compiled.demand_nodes[level.demand].iter();
            !level.host_affinity.is_empty()
                || columns.any(|column| fits(&compiled.column(ColumnId::at(column)).room))
                || nodes.any(|node| fits(&compiled.nodes[NodeId::at(node)].room))
        })
}

/// The plan with places for pods that find one after its execution, but on nodes that are closed.
pub(crate) fn complete(
    compiled: &Compiled<'_>,
    closed: &[NodeId],
    mut plan: Plan,
    options: &Options,
    mut go_on: impl FnMut() -> bool,
) -> Plan {
    for _ in 0..LOOKS {
        if plan.placed().next().is_none() || !may_place_more(compiled, &plan) {
            break;
        }
        let after = executed(compiled.problem, &plan);
        let asked = Scenario::of(&after.problem).closing_all(closed);
        let asked = closing_bounded_by_min_values(compiled, &plan, asked);
        let mut decide = |problem: &Problem| {
            let relaxations = Relaxations::of(problem);
            let late = relaxations.solve_while(&asked, options, &mut go_on);
            Some(late).filter(|late| late.placed().next().is_some())
        };
        let late = decide(&after.problem);
        let late = late.or_else(|| decide(&ignoring(&after.problem)?));
        let Some(late) = late else {
            break;
        };
        let whole = joined(compiled, &plan, late, &after);
        if !whole
            .launches
            .iter()
            .all(|one| compiled.meets_min_values(one))
        {
            break;
        }
        plan = whole;
    }
    plan
}

/// What is left to decide when a plan is executed, within what bounds the plan as a whole.
fn executed(problem: &Problem, plan: &Plan) -> Aftermath {
    let mut after = Aftermath::of(problem, plan, NEW);
    let bought = u32::try_from(plan.launches.len()).unwrap_or(u32::MAX);
    let settings = &mut after.problem.settings;
    settings.max_new_nodes = settings
        .max_new_nodes
        .map(|most| most.saturating_sub(bought));
    if let Some(percent) = settings.spot_share {
        stock::hold_shares(&mut after.problem.catalogs, percent, &plan.launches);
    }
    after
}

/// Machines of pools with `minValues` take no more pods before they are bought: the more they carry, the fewer
/// types could.
fn closing_bounded_by_min_values(
    compiled: &Compiled<'_>,
    plan: &Plan,
    asked: Scenario,
) -> Scenario {
    let nodes = compiled.problem.nodes.len();
    let launches = plan.launches.iter().enumerate();
    let picky = launches.filter(|(_, launch)| {
        let mut pools = compiled.problem.pools.iter();
        let pool = pools.position(|pool| pool.name == launch.pool);
        pool.is_some_and(|pool| compiled.min_values.asks(PoolId::at(pool)))
    });
    picky.fold(asked, |asked, (index, _)| {
        asked.closing(NodeId::at(nodes + index))
    })
}

/// A plan and what was decided after it, as one.
fn joined(compiled: &Compiled<'_>, plan: &Plan, late: Plan, after: &Aftermath) -> Plan {
    let origins = |pods: &[PodRef]| -> Vec<PodRef> {
        pods.iter().filter_map(|pod| after.origin(*pod)).collect()
    };
    let mut whole = plan.clone();
    if !whole.order.is_empty() {
        let order: Vec<PodRef> = if late.order.is_empty() {
            late.placed().collect()
        } else {
            late.order
        };
        whole.order.extend(origins(&order));
    }
    let new: BTreeMap<Name, usize> = (0..whole.launches.len())
        .map(|index| (format!("{NEW}{index}").into(), index))
        .collect();
    for Placement { node, pods } in late.placements {
        let pods = origins(&pods);
        if let Some(index) = new.get(&node) {
            let launch = &mut whole.launches[*index];
            for pod in &pods {
                let spec = &compiled.pod(pod.home, pod.group).spec;
                launch.requests.add(&spec.requests);
            }
            launch.pods.extend(pods);
        } else {
            whole.place(Placement { node, pods });
        }
    }
    whole
        .launches
        .extend(late.launches.into_iter().map(|mut launch| {
            launch.pods = origins(&launch.pods);
            launch
        }));
    whole.unplaced = late.unplaced;
    for one in &mut whole.unplaced {
        one.pods = origins(&one.pods);
    }
    whole.cost += late.cost;
    alternatives::renew(compiled, &mut whole);
    whole
}

#[cfg(test)]
mod tests {
    use crate::labels;
    use crate::pack::fixtures::{decide, machine, node, over_zones, pods, problem, selling, spec};
    use crate::problem::{NodePhase, PodSpec, Policy, Problem};
    use crate::requirement::{Expression, Operator};

    fn in_zone(zone: &str, spec: PodSpec) -> PodSpec {
        let mut spec = spec;
        spec.node_selector.insert(labels::ZONE.into(), zone.into());
        spec
    }

    /// Three web pods run in zone a and two more wait for zone b. A watcher that comes before them may only run in zone
    /// a, and only if there are not many more web pods than elsewhere.
    fn watched(running: i64) -> Problem {
        let mut problem = problem();
        node(&mut problem, NodePhase::Ready);
        problem.nodes[0].pods = vec![pods("old", 3, spec("web", running))];
        let mut spread = over_zones("web");
        spread.node_affinity_policy = Policy::Ignore;
        let watcher = PodSpec {
            priority: 100,
            spread: vec![spread],
            ..in_zone("a", spec("watcher", 1000))
        };
        problem.pods = vec![
            pods("watcher", 1, watcher),
            pods("web", 2, in_zone("b", spec("web", 900))),
        ];
        problem
    }

    #[test]
    fn who_had_to_wait_for_others_comes_to_a_node_in_the_same_plan() {
        let (launches, placed, unplaced, _) = decide(&watched(1000));
        assert_eq!((launches, placed, unplaced), (vec![2], 1, 0));
    }

    #[test]
    fn it_shares_a_machine_that_is_bought_for_others_and_alternatives_hold_both() {
        let mut problem = watched(2500);
        let other = in_zone("a", spec("other", 1000));
        problem.pods.push(pods("other", 1, other));
        let (_, placed, unplaced, plan) = decide(&problem);
        assert_eq!((plan.launches.len(), placed, unplaced), (2, 0, 0));
        let shared = plan.launches.iter().find(|one| &*one.purchase.zone == "a");
        let shared = shared.unwrap();
        assert_eq!(shared.pods.len(), 2);
        assert_eq!(shared.requests.get(crate::resources::CPU), 2000);
        let alternatives = shared.alternatives.iter();
        let zones: Vec<&str> = alternatives.map(|one| &*one.zone).collect();
        assert_eq!(zones, ["a", "a"]);
    }

    #[test]
    fn a_zone_whose_last_machine_went_to_others_holds_a_spread_back_no_longer() {
        let mut kind = machine(2);
        kind.offerings[1].left = Some(1);
        let mut problem = selling(vec![kind]);
        let teams = Expression::new("team", Operator::In, &["red", "blue"]);
        problem.pools[0].requirements.push(teams);
        let of_team = |team: &str, mut spec: PodSpec| {
            spec.node_selector.insert("team".into(), team.into());
            spec
        };
        let first = PodSpec {
            priority: 100,
            ..in_zone("b", of_team("blue", spec("other", 1500)))
        };
        let web = PodSpec {
            spread: vec![over_zones("web")],
            ..of_team("red", spec("web", 1500))
        };
        problem.pods = vec![pods("other", 1, first), pods("web", 2, web)];
        let (launches, _, unplaced, _) = decide(&problem);
        assert_eq!((launches, unplaced), (vec![1, 1, 1], 0));
    }
}
