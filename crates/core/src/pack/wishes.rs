//! What wishes may cost: a problem is read with all of them and with fewer, and the dearest reading within the cap wins.

use crate::plan::{Launch, Plan};
use crate::problem::{PodSpec, PreferencePolicy, Problem, WhenUnsatisfiable};
use crate::taints::Effect;

use super::compile::Compiled;
use super::scenario::Scenario;
use super::second_look;
use super::solve::{Anytime, Options, missing, standing};

/// Weight from which a wish is still heard when all of them together cost too much, before none is.
const HEAVY: i32 = 50;

/// The cheapest plan found within the options.
pub fn solve(problem: &Problem, options: &Options) -> Plan {
    solve_while(problem, options, || true)
}

/// The same for a caller with a clock: improves for as long as it says so, or until nothing can be gained.
pub fn solve_while(problem: &Problem, options: &Options, mut go_on: impl FnMut() -> bool) -> Plan {
    looked_after(problem, &[], options, &mut go_on)
}

/// The cheapest plan in which no pod comes to one of these nodes.
pub(crate) fn solve_closing(problem: &Problem, closed: &[u32], options: &Options) -> Plan {
    looked_after(problem, closed, options, &mut || true)
}

/// The best plan, and where somebody is left who might have had a place, the best after a second look.
fn looked_after(
    problem: &Problem,
    closed: &[u32],
    options: &Options,
    go_on: &mut dyn FnMut() -> bool,
) -> Plan {
    let readings = Readings::of(problem);
    let compiled = &readings.all;
    let asked = Scenario::of(problem).closing_all(closed);
    let plan = readings.solve_while(&asked, options, &mut *go_on);
    if !second_look::is_hoped_for(compiled, &plan) {
        return plan;
    }
    let mut best = second_look::complete(compiled, closed, plan, options, &mut *go_on);
    if options.steps > 0 {
        // What is cheaper before the second look may be dearer after it, and more steps must not make a plan worse.
        let simplest = Options {
            steps: 0,
            ..options.clone()
        };
        let first = readings.solve(&asked, &simplest);
        let first = second_look::complete(compiled, closed, first, &simplest, || true);
        let first = second_look::complete(compiled, closed, first, options, &mut *go_on);
        if standing(compiled, &first) < standing(compiled, &best) {
            best = first;
        }
    }
    let left = second_look::is_hoped_for(compiled, &best);
    if let Some(unheard) = unheard(problem).filter(|_| left) {
        // Nobody waits for the sake of a wish.
        let plain = looked_after(&unheard, closed, options, &mut *go_on);
        if missing(compiled, &plain) < missing(compiled, &best) {
            // Whoever is left may be lucky where wishes are heard again.
            best = second_look::complete(compiled, closed, plain, options, go_on);
        }
    }
    best
}

/// The same problem with nobody's wishes heard, if any are.
pub(crate) fn unheard(problem: &Problem) -> Option<Problem> {
    let heard = problem.settings.preferences == PreferencePolicy::Respect;
    (heard && has_wishes(problem)).then(|| {
        let mut unheard = problem.clone();
        unheard.settings.preferences = PreferencePolicy::Ignore;
        unheard
    })
}

/// A problem with all wishes of its pods and, where a cap bounds what they may cost, with fewer of them.
#[derive(Clone, Debug)]
pub(crate) struct Readings<'p> {
    /// With every wish.
    all: Compiled<'p>,
    /// From many wishes to none; empty if nothing bounds what wishes may cost, or nobody has any.
    fewer: Vec<Compiled<'p>>,
    /// In percent.
    cap: u32,
}

impl<'p> Readings<'p> {
    pub(crate) fn of(problem: &'p Problem) -> Self {
        let cap = problem.settings.preference_cap;
        let bounded = cap.is_some() && has_wishes(problem);
        let least: &[i32] = if bounded { &[HEAVY, i32::MAX] } else { &[] };
        Readings {
            all: Compiled::new(problem),
            fewer: least
                .iter()
                .map(|least| Compiled::hearing(problem, *least))
                .collect(),
            cap: cap.unwrap_or_default(),
        }
    }

    /// The cheapest plan found for a scenario.
    pub(crate) fn solve(&self, scenario: &Scenario, options: &Options) -> Plan {
        self.solve_while(scenario, options, || true)
    }

    pub(crate) fn solve_while(
        &self,
        scenario: &Scenario,
        options: &Options,
        mut go_on: impl FnMut() -> bool,
    ) -> Plan {
        let readings = std::iter::once(&self.all).chain(&self.fewer);
        let mut searches: Vec<Anytime<'_, 'p>> = readings
            .map(|reading| Anytime::new(reading, scenario, options))
            .collect();
        // In turns, so that what is compared in the end was sought equally hard, whenever the caller stops.
        let mut improving = true;
        while improving && go_on() {
            improving = false;
            for search in &mut searches {
                improving |= search.improve();
            }
        }
        let mut plans: Vec<Plan> = searches.iter().map(Anytime::plan).collect();
        let chosen = self.affordable(&plans);
        plans.swap_remove(chosen)
    }

    /// The first plan, from all wishes to none, that costs little more than the one without any, and leaves nobody
    /// without a place for a wish.
    fn affordable(&self, plans: &[Plan]) -> usize {
        let Some((none, wishful)) = plans.split_last() else {
            return 0;
        };
        let most = none.cost + none.cost.percent(self.cap);
        let missed = missing(&self.all, none);
        wishful
            .iter()
            .position(|plan| plan.cost <= most && missing(&self.all, plan) <= missed)
            .unwrap_or(wishful.len())
    }

    /// Whether a launch leaves the choice of types that its pool asks for.
    pub(crate) fn replaceable(&self, launch: &Launch) -> bool {
        self.all.replaceable(launch)
    }
}

/// Whether some pod would rather be somewhere than elsewhere.
fn has_wishes(problem: &Problem) -> bool {
    let heard = problem.settings.preferences == PreferencePolicy::Respect;
    let pools = problem.pools.iter().flat_map(|pool| &pool.taints);
    let nodes = problem.nodes.iter().flat_map(|node| &node.taints);
    let bound = problem.nodes.iter().flat_map(|node| &node.pods);
    let mut pods = problem.pods.iter().chain(bound);
    pools
        .chain(nodes)
        .any(|taint| taint.effect == Effect::PreferNoSchedule)
        || heard && pods.any(|pod| wishes(&pod.spec))
}

fn wishes(spec: &PodSpec) -> bool {
    let soft = |when| when == WhenUnsatisfiable::ScheduleAnyway;
    !spec.preferred_affinity.is_empty()
        || !spec.preferred_pod_affinity.is_empty()
        || !spec.preferred_pod_anti_affinity.is_empty()
        || spec.spread.iter().any(|one| soft(one.when_unsatisfiable))
}
