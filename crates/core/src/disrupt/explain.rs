//! Why a node goes, and what keeps one that could go, as sentences. A sentence about a node that stays names no price:
//! prices move, and what is said again in other words would be told again as news.

use super::candidate::{Candidate, Elsewhere, Standing};
use crate::money::Money;
use crate::plan::{Kept, Reason};
use crate::problem::{CapacityType, DisruptionReason, Node, Problem};

/// Pods that could not run anywhere else.
pub(super) const NO_PLACE: &str = "its pods fit on no other node";

/// The rule by which a node that was to be replaced or removed had to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// Some of its pods found no place when everything was tried carefully.
    Stranded,
    /// Less is saved than must be, in percent of what is paid now; or less than what pods cost that may end up elsewhere.
    Saving(u32),
    /// Its pool replaces no spot node by another one.
    SpotToSpot,
    /// Too few instance types to choose from for one spot node by another one.
    SpotChoice(usize),
    /// A balanced pool saves too little for the pods that it disturbs.
    Balanced,
    /// Fewer instance types than the pool's `minValues` would be cheap enough.
    MinValues,
}

/// Why a node goes.
pub(super) fn removal(
    node: &Node,
    cause: DisruptionReason,
    pods: u32,
    (before, after): (Money, Money),
    told: Option<&String>,
) -> Reason {
    let detail = match cause {
        DisruptionReason::Drifted => node.drifted.clone().unwrap_or_default(),
        DisruptionReason::Expired => "it is older than expireAfter".to_owned(),
        DisruptionReason::Empty => "no pod needs it".to_owned(),
        DisruptionReason::Underutilized => {
            let moved = match pods {
                1 => "its pod moves".to_owned(),
                pods => format!("its {pods} pods move"),
            };
            let moved = if after == Money::ZERO {
                format!("{moved} to nodes that stay")
            } else {
                moved
            };
            match told {
                Some(told) => format!("{told}; {moved}"),
                None => moved,
            }
        }
    };
    Reason::Disrupted {
        cause,
        before,
        after,
        detail,
    }
}

/// Why a node stays.
pub(super) fn kept(problem: &Problem, candidate: &Candidate) -> Kept {
    let node = &problem.nodes[candidate.node as usize];
    let (because, until) = match &candidate.standing {
        Standing::Free => (free(problem, candidate, node), None),
        Standing::Held { because, until } => (because.clone(), *until),
    };
    Kept {
        node: node.name.clone(),
        reason: Reason::Kept { because },
        until,
        eligible: candidate.eligible,
    }
}

/// What keeps a node that nothing holds.
fn free(problem: &Problem, candidate: &Candidate, node: &Node) -> String {
    let pool = &problem.pools[candidate.pool];
    let price = node.price.unwrap_or_default() + problem.settings.node_surcharge;
    let spot = node.capacity_type == CapacityType::Spot;
    match (candidate.obstacle, candidate.elsewhere) {
        (Some(Obstacle::Stranded), _) | (None, Elsewhere::Nowhere | Elsewhere::Unknown) => {
            NO_PLACE.to_owned()
        }
        (Some(Obstacle::Saving(percent)), _) => format!(
            "replacing it would save less than {percent}% or less than moving its pods may cost"
        ),
        (Some(Obstacle::SpotToSpot), _) => spot_to_spot(&pool.name),
        (Some(Obstacle::SpotChoice(least)), _) => format!(
            "replacing one spot node by another needs {least} cheaper instance types to choose from"
        ),
        (Some(Obstacle::Balanced), _) => format!(
            "replacing it would save too little for the pods it moves (NodePool {}, consolidationPolicy: Balanced)",
            pool.name
        ),
        (Some(Obstacle::MinValues), _) => format!(
            "fewer instance types are cheaper than minValues of NodePool {} asks for",
            pool.name
        ),
        (None, Elsewhere::Cost(cost)) if cost >= price => {
            "its pods would cost as much elsewhere".to_owned()
        }
        (None, Elsewhere::Cost(_)) if spot && !pool.disruption.spot_to_spot => {
            spot_to_spot(&pool.name)
        }
        (None, Elsewhere::Cost(_)) => {
            "its pods would be cheaper elsewhere only if other nodes went as well".to_owned()
        }
    }
}

fn spot_to_spot(pool: &str) -> String {
    format!(
        "a cheaper spot node is for sale, but NodePool {pool} does not replace spot by spot (feature gate \
         SpotToSpotConsolidation)"
    )
}
