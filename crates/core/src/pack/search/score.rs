//! Which of two plans, or of two packings, is the better one: the derived order is the policy.

use crate::pack::compile::ids::ClassId;
use std::collections::BTreeMap;

use crate::pack::assign::Assignment;
use crate::pack::compile::Compiled;
use crate::pack::packing::Packing;
use crate::plan::Plan;

/// How many pods have no place, by priority from the highest down. Less is better: of two lists, the one that ends first,
/// or has the lower entry first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Missing(Vec<(i32, u32)>);

impl Missing {
    /// Of a plan.
    pub(crate) fn of_plan(compiled: &Compiled<'_>, plan: &Plan) -> Self {
        let priority = |pod| compiled.profile(compiled.class_of(pod)).spec.priority;
        Self::counted(plan.waiting().map(|pod| (priority(pod), 1)))
    }

    fn counted(pods: impl Iterator<Item = (i32, u32)>) -> Self {
        let mut missing: BTreeMap<i32, u32> = BTreeMap::new();
        for (priority, count) in pods.filter(|(_, count)| *count > 0) {
            *missing.entry(priority).or_insert(0) += count;
        }
        Missing(missing.into_iter().rev().collect())
    }

    /// Whether every pod has a place.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Less is better: pods without a place, then cost, then machines.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Score {
    pub(crate) missing: Missing,
    /// In billionths of a dollar an hour.
    cost: i64,
    machines: usize,
}

impl Score {
    /// Of a plan.
    pub(crate) fn of_plan(compiled: &Compiled<'_>, plan: &Plan) -> Self {
        Score {
            missing: Missing::of_plan(compiled, plan),
            cost: plan.cost.nanos(),
            machines: plan.launches.len(),
        }
    }

    /// Of a packing. `lost` are pods that were packed in vain: class and count.
    pub(crate) fn of_packing(
        compiled: &Compiled<'_>,
        assignment: &Assignment,
        packing: &Packing,
        lost: &[(ClassId, u32)],
    ) -> Self {
        let lots = assignment.lots.iter().map(|lot| lot.class);
        let left = lots.zip(packing.left.iter().copied());
        let without = assignment.failed.iter().chain(lost).copied();
        let priority = |class| compiled.profile(class).spec.priority;
        let pods = left.chain(without);
        Score {
            missing: Missing::counted(pods.map(|(class, count)| (priority(class), count))),
            cost: packing.cost,
            machines: packing.bins.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn important_pods_count_before_many_and_many_before_cost() {
        let score = |pods: &[(i32, u32)], cost, machines| Score {
            missing: Missing::counted(pods.iter().copied()),
            cost,
            machines,
        };
        let complete = score(&[], 9, 9);
        assert!(complete < score(&[(0, 1)], 1, 1));
        assert!(score(&[(0, 5)], 9, 9) < score(&[(1, 1)], 1, 1));
        assert!(score(&[(1, 1), (0, 2)], 9, 9) < score(&[(1, 2)], 1, 1));
        assert_eq!(
            score(&[(1, 1), (1, 2), (0, 0)], 1, 1),
            score(&[(1, 3)], 1, 1)
        );
        assert!(score(&[], 8, 9) < complete);
        assert!(score(&[], 9, 8) < complete);
    }
}
