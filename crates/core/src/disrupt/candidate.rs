//! Which nodes may go, and what stands in the way of the others.
//!
//! karpenter: pkg/controllers/disruption/types.go, `NewCandidate`

use jiff::Timestamp;

use super::explain::Obstacle;
use super::pending::PendingPlaced;
use super::pool_offers::OffersByPool;
use crate::money::Money;
use crate::plan::Code;
use crate::problem::{
    ConsolidationPolicy, DisruptionReason, Node, NodeId, NodePhase, Pod, Pool, Problem,
};

/// Whether a node may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may go if it pays.
    Free,
    /// Something stands in the way.
    Held {
        code: Code,
        because: String,
        until: Option<Timestamp>,
    },
}

impl Standing {
    pub(super) fn held(code: Code, because: impl Into<String>) -> Self {
        let because = because.into();
        Standing::Held {
            code,
            because,
            until: None,
        }
    }
}

/// What the pods of a node would cost if it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elsewhere {
    /// Not asked yet.
    Unknown,
    /// So much an hour: their share of machines that would be bought, surcharges included.
    Cost(Money),
    /// Not all of them find a place when every candidate goes. Room on nodes that stay may still take them.
    Nowhere,
}

impl Elsewhere {
    /// The cost, or the one given where none is known.
    pub(super) fn cost_or(self, other: Money) -> Money {
        match self {
            Elsewhere::Cost(cost) => cost,
            Elsewhere::Unknown | Elsewhere::Nowhere => other,
        }
    }
}

/// A node of a pool.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Index of the node.
    pub(super) node: NodeId,
    /// Index of its pool.
    pub(super) pool: usize,
    /// Whether it may go to save money.
    pub(super) standing: Standing,
    /// What keeps even a reason that is not about money away, if anything.
    pub(super) protected: Option<Standing>,
    /// Pods that would move.
    pub(super) pods: u32,
    /// What moving them costs beside moving others; one for the node itself.
    pub(super) burden: f64,
    /// Nothing on it needs a place.
    pub(super) empty: bool,
    /// What its pods would cost elsewhere.
    pub(super) elsewhere: Elsewhere,
    /// The rule by which it had to stay, if it was tried without it.
    pub(super) obstacle: Option<Obstacle>,
    /// Why it may go, budgets and prices aside.
    pub(super) eligible: Option<DisruptionReason>,
}

/// What moving a pod costs beside moving others.
///
/// karpenter: pkg/utils/disruption/disruption.go, `EvictionCost`
fn eviction_cost(pod: &Pod) -> f64 {
    let deletion = f64::from(pod.deletion_cost) / f64::from(1 << 27);
    let priority = f64::from(pod.spec.priority) / f64::from(1 << 25);
    (1.0 + deletion + priority).clamp(-10.0, 10.0)
}

/// Every node of a pool, with what stands in its way.
pub(super) fn standings(problem: &Problem, pending_placed: &PendingPlaced<'_>) -> Vec<Candidate> {
    let mut all = Vec::new();
    let offers_by_pool = OffersByPool::new(problem);
    for (index, node) in problem.nodes.iter().enumerate() {
        let pool = node
            .pool
            .as_ref()
            .and_then(|name| problem.pools.iter().position(|pool| pool.name == *name));
        let Some(pool) = pool.filter(|_| !node.deleting) else {
            continue;
        };
        let moving = node.pods.iter().filter(|pod| pod.reschedulable());
        let pods = moving.clone().map(|pod| pod.count).sum();
        let empty = moving.map(eviction_cost).all(|cost| cost <= 0.0);
        let costs = |pod: &Pod| eviction_cost(pod).max(0.0) * f64::from(pod.count);
        let burden = 1.0 + pending_placed.present(index).map(costs).sum::<f64>();
        let protected = protection(node, pending_placed.receives(index));
        let terms = &problem.pools[pool];
        let standing = protected
            .clone()
            .or_else(|| {
                hold(problem, terms, node, empty)
                    .filter(|_| empty || !offers_by_pool.beat(pool, node))
            })
            .or_else(|| tied(problem, terms, node, empty))
            .unwrap_or(Standing::Free);
        let eligible = match (&standing, &protected) {
            (Standing::Free, _) if empty => Some(DisruptionReason::Empty),
            (_, None) if node.drifted.is_some() => Some(DisruptionReason::Drifted),
            (Standing::Free, _) => Some(DisruptionReason::Underutilized),
            _ => None,
        };
        all.push(Candidate {
            node: NodeId::at(index),
            pool,
            standing,
            protected,
            pods,
            burden,
            empty,
            elsewhere: Elsewhere::Unknown,
            obstacle: None,
            eligible,
        });
    }
    all
}

/// What keeps a node from going for any reason but old age.
fn protection(node: &Node, receives: bool) -> Option<Standing> {
    let said = |code, text: &str| Some(Standing::held(code, text));
    if node.phase != NodePhase::Ready {
        return said(Code::NotInUse, "node is not initialized yet");
    }
    if node.do_not_disrupt {
        return said(
            Code::NodeDoNotDisrupt,
            "node has annotation karpenter.sh/do-not-disrupt",
        );
    }
    if node.nominated || receives {
        return said(Code::Nominated, "reserved for a pending pod");
    }
    let pinned = node.pods.iter().find(|pod| pod.do_not_disrupt);
    pinned.map(|pod| {
        let said = format!(
            "pod {} has annotation karpenter.sh/do-not-disrupt",
            pod.name
        );
        Standing::held(Code::PodDoNotDisrupt, said)
    })
}

/// What keeps a node from going to save money, unless its price alone is reason enough.
fn hold(problem: &Problem, pool: &Pool, node: &Node, empty: bool) -> Option<Standing> {
    let said = |code, text: String| Some(Standing::held(code, text));
    let terms = &pool.disruption;
    if terms.consolidate_after.is_none() {
        let because = format!(
            "NodePool {} has consolidation disabled (consolidateAfter: Never)",
            problem.title(pool)
        );
        return said(Code::NeverConsolidates, because);
    }
    if let Some(until) = quiet_until(problem, pool, node) {
        return Some(Standing::Held {
            code: Code::Unsettled,
            because: "pods were added or removed within consolidateAfter".to_owned(),
            until: Some(until),
        });
    }
    if !empty && terms.policy == ConsolidationPolicy::WhenEmpty {
        let because = format!(
            "NodePool {} consolidates empty nodes only (consolidationPolicy: WhenEmpty)",
            problem.title(pool)
        );
        return said(Code::OnlyWhenEmpty, because);
    }
    None
}

/// What keeps a node from going to save money, however much it would.
fn tied(problem: &Problem, pool: &Pool, node: &Node, empty: bool) -> Option<Standing> {
    let said = |code, text: String| Some(Standing::held(code, text));
    let terms = &pool.disruption;
    if pool.replicas.is_some() {
        let because = format!(
            "NodePool {} keeps a fixed number of nodes (spec.replicas)",
            problem.title(pool)
        );
        return said(Code::FixedReplicas, because);
    }
    if empty {
        return None;
    }
    let grown = node
        .created
        .map(|created| created.checked_add(terms.min_age).unwrap_or(Timestamp::MAX));
    if let (Some(grown), Some(now)) = (grown, problem.now)
        && grown > now
    {
        return Some(Standing::Held {
            code: Code::TooYoung,
            because: format!(
                "node is too young to be replaced in NodePool {}",
                problem.title(pool)
            ),
            until: Some(grown),
        });
    }
    if node.price.is_none() {
        return said(
            Code::UnknownPrice,
            "price of the node is unknown".to_owned(),
        );
    }
    None
}

/// Whether a node is older than its pool allows.
pub(super) fn expired(problem: &Problem, node: &Node) -> bool {
    let pool = node
        .pool
        .as_ref()
        .and_then(|name| problem.pools.iter().find(|pool| pool.name == *name));
    let expires = node
        .created
        .zip(pool.and_then(|pool| pool.expire_after))
        .and_then(|(created, after)| created.checked_add(after).ok());
    expires
        .zip(problem.now)
        .is_some_and(|(expires, now)| expires <= now)
}

/// Until when a node is left alone because pods came or went, if it is.
pub(super) fn quiet_until(problem: &Problem, pool: &Pool, node: &Node) -> Option<Timestamp> {
    let after = pool.disruption.consolidate_after?;
    let last = node.last_pod_event.or(node.created)?;
    let until = last.checked_add(after).unwrap_or(Timestamp::MAX);
    problem.now.filter(|now| until > *now).map(|_| until)
}
