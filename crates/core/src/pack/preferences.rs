//! How preferences are relaxed: the one place to read about it, with the places that act.
//!
//! 1. *Levels.* Each class has a list of levels, from all of its preferences to none (`Profiler` in `compile/profile.rs`
//!    makes it, in Karpenter's order). A pod is assigned at the first level at which it finds a node or a column
//!    (`Assigner` in `assign.rs`).
//! 2. *Scarcity.* If packing leaves pods without a machine, they are assigned again at the next level, and once with all
//!    preferences ignored (`assign_and_pack` in `search/reassign.rs`, with `LotLimits`).
//! 3. *Cap.* What preferences may cost is bounded here: the problem is compiled with all of them, with the heavy ones and
//!    with none, and the first of these plans within the cap wins ([`Relaxations`]).
//! 4. *Fallback.* If pods still wait, the problem is planned with preferences ignored ([`ignoring`]), and that plan is
//!    taken if fewer or less important pods wait (`planned` in `replan.rs`).
//!
//! After assignment only rules count: the order of binding and the bound read the last level of a class.

use crate::pack::compile::Compiled;
use crate::pack::scenario::Scenario;
use crate::pack::search::score::Missing;
use crate::pack::search::{Anytime, Options};
use crate::plan::{Launch, Plan};
use crate::problem::{PodSpec, PreferencePolicy, Problem, WhenUnsatisfiable};
use crate::taints::Effect;

/// Weight from which a preference is still respected when all of them together cost too much, before none is.
const HEAVY: i32 = 50;

/// The same problem with all preferences ignored, if any are respected now.
pub(crate) fn ignoring(problem: &Problem) -> Option<Problem> {
    let respected = problem.settings.preferences == PreferencePolicy::Respect;
    (respected && has_preferences(problem)).then(|| {
        let mut ignoring = problem.clone();
        ignoring.settings.preferences = PreferencePolicy::Ignore;
        ignoring
    })
}

/// A problem with all preferences of its pods and, where a cap bounds what they may cost, with fewer of them.
#[derive(Clone, Debug)]
pub(crate) struct Relaxations<'p> {
    /// With every preference.
    all: Compiled<'p>,
    /// From many preferences to none; empty if nothing bounds what preferences may cost, or no pod has any.
    fewer: Vec<Compiled<'p>>,
    /// In percent.
    cap: u32,
}

impl<'p> Relaxations<'p> {
    pub(crate) fn of(problem: &'p Problem) -> Self {
        let cap = problem.settings.preference_cap;
        let bounded = cap.is_some() && has_preferences(problem);
        let least: &[i32] = if bounded { &[HEAVY, i32::MAX] } else { &[] };
        Relaxations {
            all: Compiled::new(problem),
            fewer: least
                .iter()
                .map(|least| Compiled::respecting(problem, *least))
                .collect(),
            cap: cap.unwrap_or_default(),
        }
    }

    /// The problem with every preference.
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
        let relaxations = std::iter::once(&self.all).chain(&self.fewer);
        let mut searches: Vec<Anytime<'_, 'p>> = relaxations
            .map(|relaxation| Anytime::new(relaxation, scenario, options))
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

    /// The first plan, from all preferences to none, that costs little more than the one without any, and leaves no pod
    /// unplaced for the sake of a preference.
    fn affordable(&self, plans: &[Plan]) -> usize {
        let Some((none, wishful)) = plans.split_last() else {
            return 0;
        };
        let most = none.cost + none.cost.percent(self.cap);
        let missed = Missing::of_plan(&self.all, none);
        wishful
            .iter()
            .position(|plan| plan.cost <= most && Missing::of_plan(&self.all, plan) <= missed)
            .unwrap_or(wishful.len())
    }

    /// Whether a launch leaves the choice of types that its pool asks for.
    pub(crate) fn meets_min_values(&self, launch: &Launch) -> bool {
        self.all.meets_min_values(launch)
    }
}

/// Whether some pod would rather be somewhere than elsewhere.
fn has_preferences(problem: &Problem) -> bool {
    let respected = problem.settings.preferences == PreferencePolicy::Respect;
    let pools = problem.pools.iter().flat_map(|pool| &pool.taints);
    let nodes = problem.nodes.iter().flat_map(|node| &node.taints);
    let bound = problem.nodes.iter().flat_map(|node| &node.pods);
    let mut pods = problem.pods.iter().chain(bound);
    pools
        .chain(nodes)
        .any(|taint| taint.effect == Effect::PreferNoSchedule)
        || respected && pods.any(|pod| preferences(&pod.spec))
}

fn preferences(spec: &PodSpec) -> bool {
    let soft = |when| when == WhenUnsatisfiable::ScheduleAnyway;
    !spec.preferred_affinity.is_empty()
        || !spec.preferred_pod_affinity.is_empty()
        || !spec.preferred_pod_anti_affinity.is_empty()
        || spec.spread.iter().any(|one| soft(one.when_unsatisfiable))
}
