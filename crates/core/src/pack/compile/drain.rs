//! Pods of nodes that leave: which of them block the drain, and which still count for rules about other pods.

use crate::pack::dense::bits::Bits;
use crate::problem::{Pod, PodDisruptionBudget, Problem};

/// Whether rules about other pods count a pod that is on a node: it is neither on its way out nor does it leave with
/// the node.
pub(crate) fn is_counted(problem: &Problem, removed: &Bits, node: usize, pod: &Pod) -> bool {
    let deleting = problem.nodes[node].deleting;
    let goes =
        removed.contains(node) || deleting && !(pod.reschedulable() && blocks_drain(problem, pod));
    !goes && !pod.ending
}

/// Whether a pod blocks the drain of its node, so that room elsewhere would be bought in vain.
///
/// karpenter: pkg/utils/pod/scheduling.go, `IsReschedulable` and pkg/utils/pdb/pdb.go, `IsCurrentlyReschedulable`
pub(crate) fn blocks_drain(problem: &Problem, pod: &Pod) -> bool {
    let held = |budget: &PodDisruptionBudget| {
        let selector = budget.selector.as_ref();
        budget.never
            && budget.namespace == pod.spec.namespace
            && selector.is_some_and(|selector| selector.matches(&pod.spec.labels))
    };
    pod.do_not_disrupt || problem.pod_disruption_budgets.iter().any(held)
}
