//! What wishes may cost: a problem is read with all of them and with fewer, and the dearest reading within the cap wins.

use crate::pack::compile::Compiled;
use crate::pack::scenario::Scenario;
use crate::pack::search::score::missing;
use crate::pack::search::{Anytime, Options};
use crate::plan::{Launch, Plan};
use crate::problem::{PodSpec, PreferencePolicy, Problem, WhenUnsatisfiable};
use crate::taints::Effect;

/// Weight from which a wish is still heard when all of them together cost too much, before none is.
const HEAVY: i32 = 50;

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

    /// The problem with every wish.
    pub(crate) fn compiled(&self) -> &Compiled<'p> {
        &self.all
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
