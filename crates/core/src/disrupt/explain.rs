//! Why a node goes, and what keeps one that could go, as sentences. A sentence about a node that stays names no price:
//! prices move, and what is said again in other words would be told again as news.

use super::candidate::{Candidate, Elsewhere, Standing};
use crate::money::Money;
use crate::plan::{Code, Kept, Reason};
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
    let node = problem.node_at(candidate.node);
    let (code, because, until) = match &candidate.standing {
        Standing::Free => {
            let (code, because) = free(problem, candidate, node);
            (code, because, None)
        }
        Standing::Held {
            code,
            because,
            until,
        } => (*code, because.clone(), *until),
    };
    Kept {
        node: node.name.clone(),
        reason: Reason::Kept { because },
        code,
        until,
        eligible: candidate.eligible,
    }
}

/// What keeps a node that nothing holds.
fn free(problem: &Problem, candidate: &Candidate, node: &Node) -> (Code, String) {
    let pool = &problem.pools[candidate.pool];
    let price = node.price.unwrap_or_default() + problem.settings.node_surcharge;
    let spot = node.capacity_type == CapacityType::Spot;
    match (candidate.obstacle, candidate.elsewhere) {
        (Some(obstacle), _) => stopped(obstacle, problem.title(pool)),
        (None, Elsewhere::Nowhere | Elsewhere::Unknown) => {
            (Code::NoOtherPlace, NO_PLACE.to_owned())
        }
        (None, Elsewhere::Cost(cost)) if cost >= price => {
            let said = "its pods would cost as much elsewhere";
            (Code::NotCheaper, said.to_owned())
        }
        (None, Elsewhere::Cost(_)) if spot && !pool.disruption.spot_to_spot => {
            (Code::SpotToSpot, spot_to_spot(problem.title(pool)))
        }
        (None, Elsewhere::Cost(_)) => {
            let said = "its pods would be cheaper elsewhere only if other nodes went as well";
            (Code::NotCheaper, said.to_owned())
        }
    }
}

/// What a rule says that kept a node from going.
fn stopped(obstacle: Obstacle, pool: &str) -> (Code, String) {
    match obstacle {
        Obstacle::Stranded => (Code::NoOtherPlace, NO_PLACE.to_owned()),
        Obstacle::Saving(percent) => {
            let said = format!(
                "replacing it would save less than {percent}% or less than moving its pods may cost"
            );
            (Code::TooLittleSaved, said)
        }
        Obstacle::SpotToSpot => (Code::SpotToSpot, spot_to_spot(pool)),
        Obstacle::SpotChoice(least) => {
            let said = format!(
                "replacing one spot node by another needs {least} cheaper instance types to choose from"
            );
            (Code::SpotChoice, said)
        }
        Obstacle::Balanced => {
            let said = format!(
                "replacing it would save too little for the pods it moves (NodePool {pool}, consolidationPolicy: Balanced)"
            );
            (Code::TooLittleSaved, said)
        }
        Obstacle::MinValues => {
            let said = format!(
                "fewer instance types are cheaper than minValues of NodePool {pool} asks for"
            );
            (Code::MinValues, said)
        }
    }
}

fn spot_to_spot(pool: &str) -> String {
    format!(
        "a cheaper spot node is for sale, but NodePool {pool} does not replace spot by spot (feature gate \
         SpotToSpotConsolidation)"
    )
}
