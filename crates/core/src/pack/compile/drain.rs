//! Pods of nodes that leave: which of them block the drain, and which still count for rules about other pods.

use crate::pack::dense::bits::Bits;
use crate::problem::{Node, NodeId, Pod, PodDisruptionBudget, Problem};

/// Whether rules about other pods count a pod that is on a node: it is neither on its way out nor does it leave with
/// the node.
pub(crate) fn is_counted(problem: &Problem, removed: &Bits, node: NodeId, pod: &Pod) -> bool {
    let own = problem.node_at(node);
    let stays = || pod.reschedulable() && blocks_drain(problem, own, pod);
    let goes = removed.contains(node.index()) || own.deleting && !stays();
    !goes && !pod.ending
}

/// Whether a pod blocks the drain of its node, so that room elsewhere would be bought in vain. None does where the cloud
/// takes the machine away: they lose their place in any case.
///
/// karpenter: pkg/utils/pod/scheduling.go, `IsReschedulable` and pkg/utils/pdb/pdb.go, `IsCurrentlyReschedulable`
pub(crate) fn blocks_drain(problem: &Problem, node: &Node, pod: &Pod) -> bool {
    let held = |budget: &PodDisruptionBudget| {
        let selector = budget.selector.as_ref();
        budget.never
            && budget.namespace == pod.spec.namespace
            && selector.is_some_and(|selector| selector.matches(&pod.spec.labels))
    };
    !node.reclaimed && (pod.do_not_disrupt || problem.pod_disruption_budgets.iter().any(held))
}
