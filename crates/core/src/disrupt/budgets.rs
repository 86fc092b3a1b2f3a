//! How many nodes of a pool, and how many pods of a set, may be away at once.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::candidate::{Candidate, expired};
use crate::name::Name;
use crate::plan::Code;
use crate::problem::{
    BudgetAmount, DisruptionReason, Node, NodeId, NodePhase, Pod, Problem,
    UnhealthyPodEvictionPolicy,
};
use crate::requirements::Requirements;
use crate::schedule::Schedule;

/// Reasons that budgets are about.
const VOLUNTARY: [DisruptionReason; 3] = [
    DisruptionReason::Empty,
    DisruptionReason::Drifted,
    DisruptionReason::Underutilized,
];

/// A budget that lets no more go, as a code and in words, and when that may change.
pub(super) type Refusal = (Code, String, Option<Timestamp>);

/// Nodes that may still go, pool by pool.
pub(super) struct Budgets {
    pools: Vec<PoolBudget>,
}

struct PoolBudget {
    name: Name,
    /// Nodes that there are.
    total: u32,
    /// Nodes that are away or chosen to go.
    away: u32,
    /// How many may be away for each reason, and until when that holds.
    allowed: BTreeMap<DisruptionReason, (u32, Option<Timestamp>)>,
}

impl Budgets {
    pub(super) fn new(problem: &Problem) -> Self {
        let pools = problem.pools.iter().map(|pool| {
            let own = problem.nodes.iter().filter(|node| {
                node.pool.as_ref() == Some(&pool.name) && node.phase == NodePhase::Ready
            });
            let total = u32::try_from(own.clone().count()).unwrap_or(u32::MAX);
            // One that has expired goes now, whatever budgets say.
            let away = |node: &&Node| node.unready || node.deleting || expired(problem, node);
            let away = own.filter(away).count();
            let mut allowed = BTreeMap::new();
            for reason in VOLUNTARY {
                if let Some(most) = allowed_for(problem, &pool.disruption.budgets, reason, total) {
                    allowed.insert(reason, most);
                }
            }
            PoolBudget {
                name: pool.name.clone(),
                total,
                away: u32::try_from(away).unwrap_or(u32::MAX),
                allowed,
            }
        });
        Budgets {
            pools: pools.collect(),
        }
    }

    /// How many nodes of each pool may be away at once, for each reason.
    pub(super) fn allowed(&self) -> Vec<(Name, DisruptionReason, u32)> {
        let pools = self.pools.iter().flat_map(|pool| {
            VOLUNTARY.map(|reason| {
                let most = pool.allowed.get(&reason).map(|most| most.0);
                (pool.name.clone(), reason, most.unwrap_or(pool.total))
            })
        });
        pools.collect()
    }

    /// How many more nodes of a pool may go for this reason.
    pub(super) fn left(&self, pool: usize, reason: DisruptionReason) -> u32 {
        let budget = &self.pools[pool];
        let most = budget.allowed.get(&reason).map_or(u32::MAX, |most| most.0);
        most.saturating_sub(budget.away)
    }

    /// Counts a node as going.
    pub(super) fn take(
        &mut self,
        pool: usize,
        reason: DisruptionReason,
        unready: bool,
    ) -> Result<(), Refusal> {
        if self.left(pool, reason) == 0 {
            let budget = &self.pools[pool];
            let until = budget.allowed.get(&reason).and_then(|most| most.1);
            let because = format!(
                "Disruption budget of NodePool {} is exhausted (reason {reason})",
                budget.name
            );
            return Err((Code::Budget, because, until));
        }
        // One that does not answer is away already.
        if !unready {
            self.pools[pool].away += 1;
        }
        Ok(())
    }

    /// Counts a node as staying after all.
    pub(super) fn give_back(&mut self, pool: usize, unready: bool) {
        if !unready {
            self.pools[pool].away -= 1;
        }
    }
}

/// How many may be away; `None` for as many as there are.
fn allowed_for(
    problem: &Problem,
    budgets: &[crate::problem::Budget],
    reason: DisruptionReason,
    total: u32,
) -> Option<(u32, Option<Timestamp>)> {
    let mut least: Option<(u32, Option<Timestamp>)> = None;
    for budget in budgets {
        let until = match &budget.schedule {
            None => None,
            Some(text) => {
                // A schedule that cannot be read holds everything back.
                let Ok(schedule) = Schedule::parse(text) else {
                    return Some((0, None));
                };
                let length = budget.duration.unwrap_or_default();
                let Some(until) = problem.now.and_then(|now| schedule.open_until(now, length))
                else {
                    continue;
                };
                Some(until)
            }
        };
        if !budget.reasons.is_empty() && !budget.reasons.contains(&reason) {
            continue;
        }
        let most = match budget.amount {
            BudgetAmount::Nodes(nodes) => nodes,
            BudgetAmount::Percent(percent) => {
                let share = u64::from(total) * u64::from(percent);
                u32::try_from(share.div_ceil(100)).unwrap_or(u32::MAX)
            }
        };
        if least.is_none_or(|(known, _)| most < known) {
            least = Some((most, until));
        }
    }
    least
}

/// What a node takes of each budget; or why it can never be emptied.
type Claims = Result<Vec<(usize, u32)>, (Code, String)>;

/// Pods that may still be evicted, budget by budget.
///
/// A node may have more pods than a budget allows at once: its drain waits for those that are ready elsewhere, as every
/// drain does. It takes all that is left then, so that no other node begins on the same budget.
pub(super) struct PodBudgets<'p> {
    problem: &'p Problem,
    selectors: Vec<Option<Requirements>>,
    left: Vec<u32>,
    /// What each node would take, once asked for; `Err` if it can never be emptied.
    claims: BTreeMap<NodeId, Claims>,
    /// What each node has taken.
    taken: BTreeMap<NodeId, Vec<(usize, u32)>>,
}

impl<'p> PodBudgets<'p> {
    pub(super) fn new(problem: &'p Problem) -> Self {
        let budgets = &problem.pod_disruption_budgets;
        PodBudgets {
            problem,
            selectors: budgets
                .iter()
                .map(|budget| budget.selector.as_ref()?.requirements().ok())
                .collect(),
            left: budgets
                .iter()
                .map(|budget| {
                    if budget.never {
                        0
                    } else {
                        budget.disruptions_allowed
                    }
                })
                .collect(),
            claims: BTreeMap::new(),
            taken: BTreeMap::new(),
        }
    }

    fn holding(&self, pod: &Pod) -> Vec<usize> {
        let budgets = self
            .problem
            .pod_disruption_budgets
            .iter()
            .zip(&self.selectors);
        budgets
            .enumerate()
            .filter(|(_, (budget, selector))| {
                budget.namespace == pod.spec.namespace
                    && selector
                        .as_ref()
                        .is_some_and(|wanted| wanted.satisfied_by(&pod.spec.labels))
            })
            .map(|(index, _)| index)
            .collect()
    }

    fn claim(&self, node: NodeId) -> Result<Vec<(usize, u32)>, (Code, String)> {
        let mut claims: BTreeMap<usize, u32> = BTreeMap::new();
        if self.left.is_empty() {
            return Ok(Vec::new());
        }
        for pod in &self.problem.node_at(node).pods {
            if pod.stays_behind {
                continue;
            }
            let holding = self.holding(pod);
            if holding.len() > 1 {
                let said = format!(
                    "pod {} is covered by more than one PodDisruptionBudget and cannot be evicted",
                    pod.name
                );
                return Err((Code::SeveralBudgets, said));
            }
            for index in holding {
                let policy =
                    self.problem.pod_disruption_budgets[index].unhealthy_pod_eviction_policy;
                if !(pod.unready && policy == UnhealthyPodEvictionPolicy::AlwaysAllow) {
                    *claims.entry(index).or_default() += pod.count;
                }
            }
        }
        Ok(claims.into_iter().collect())
    }

    /// Counts the pods of a node as evicted, if each of their budgets still lets one go.
    pub(super) fn take(&mut self, node: NodeId) -> Result<(), (Code, String)> {
        let claim = match self.claims.get(&node) {
            Some(known) => known.clone(),
            None => self.claim(node),
        };
        self.claims.insert(node, claim.clone());
        let claim = claim?;
        for (index, count) in &claim {
            if *count > 0 && self.left[*index] == 0 {
                let budget = &self.problem.pod_disruption_budgets[*index];
                let said = format!(
                    "PodDisruptionBudget {}/{} allows no more disruptions",
                    budget.namespace, budget.name
                );
                return Err((Code::PodDisruptionBudget, said));
            }
        }
        let mut taken = claim;
        for (index, count) in &mut taken {
            *count = self.left[*index].min(*count);
            self.left[*index] -= *count;
        }
        self.taken.insert(node, taken);
        Ok(())
    }

    /// Counts the pods of a node as staying after all.
    pub(super) fn give_back(&mut self, node: NodeId) {
        for (index, count) in self.taken.remove(&node).unwrap_or_default() {
            self.left[index] += count;
        }
    }
}

/// Takes a node's share of both kinds of budget, or neither.
pub(super) fn take_both(
    problem: &Problem,
    budgets: &mut Budgets,
    pods: &mut PodBudgets<'_>,
    candidate: &Candidate,
    reason: DisruptionReason,
) -> Result<(), Refusal> {
    pods.take(candidate.node)
        .map_err(|(code, because)| (code, because, None))?;
    let unready = problem.node_at(candidate.node).unready;
    budgets
        .take(candidate.pool, reason, unready)
        .inspect_err(|_| pods.give_back(candidate.node))
}

/// Gives a node's share of both kinds of budget back.
pub(super) fn give_both_back(
    problem: &Problem,
    budgets: &mut Budgets,
    pods: &mut PodBudgets<'_>,
    candidate: &Candidate,
) {
    pods.give_back(candidate.node);
    let unready = problem.node_at(candidate.node).unready;
    budgets.give_back(candidate.pool, unready);
}
