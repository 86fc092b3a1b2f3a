//! Codes of reasons: one word for every kind of verdict, for programs, and what would change it, for people.

use serde::{Deserialize, Serialize};

use super::{Kept, Launch, Reason, Removal, Shortfall, Unplaced};
use crate::problem::DisruptionReason;

/// One word for why something was decided.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::Display,
    strum::EnumIter,
    strum::EnumString,
    strum::IntoStaticStr,
)]
pub enum Code {
    /// A machine is bought: the cheapest that holds its pods.
    Cheapest,
    /// The pod asks for something that has no meaning.
    Invalid,
    /// A taint of the pool is not tolerated.
    Taint,
    /// Pool and pod ask for different labels: zone, architecture, type and others.
    Requirement,
    /// Whatever would do is sold out.
    SoldOut,
    /// No type is large enough.
    TooLarge,
    /// The pool asks for more kinds to choose from than there are.
    MinValues,
    /// Rules about other pods leave no place.
    PodRules,
    /// A limit is reached: of a pool, of stock, of a quota.
    Limit,
    /// No pool can buy.
    NoPool,
    /// The node goes: nothing runs on it.
    Empty,
    /// The node goes: it is not what its pool asks for any more.
    Drifted,
    /// The node goes: its pods run cheaper elsewhere.
    Underutilized,
    /// The node goes: it is older than its pool allows.
    Expired,
    /// The node stays: it is not in use yet.
    NotInUse,
    /// The node stays: it carries `do-not-disrupt`.
    NodeDoNotDisrupt,
    /// The node stays: it is meant for a pod that waits.
    Nominated,
    /// The node stays: a pod on it carries `do-not-disrupt`.
    PodDoNotDisrupt,
    /// The node stays: its pool never consolidates.
    NeverConsolidates,
    /// The node stays for now: pods came or went a moment ago.
    Unsettled,
    /// The node stays: its pool removes empty nodes only.
    OnlyWhenEmpty,
    /// The node stays: its pool keeps a fixed number of nodes.
    FixedReplicas,
    /// The node stays for now: it is younger than its pool allows.
    TooYoung,
    /// The node stays: its price is not known.
    UnknownPrice,
    /// The node stays for now: the pool's disruption budgets are used up.
    Budget,
    /// The node stays: a `PodDisruptionBudget` lets no more of its pods go.
    PodDisruptionBudget,
    /// The node stays: a pod has several `PodDisruptionBudgets`, so it cannot be evicted.
    SeveralBudgets,
    /// The node stays: its pods have no other place.
    NoOtherPlace,
    /// The node stays: its pods cost as much elsewhere.
    NotCheaper,
    /// The node stays: elsewhere is cheaper, but by too little.
    TooLittleSaved,
    /// The node stays: a cheaper spot node is for sale, and its pool replaces no spot node by another.
    SpotToSpot,
    /// The node stays: too few types are cheaper for one spot node to replace another.
    SpotChoice,
    /// Why is told in words only.
    #[default]
    Other,
}

impl From<DisruptionReason> for Code {
    fn from(cause: DisruptionReason) -> Self {
        match cause {
            DisruptionReason::Empty => Code::Empty,
            DisruptionReason::Drifted => Code::Drifted,
            DisruptionReason::Underutilized => Code::Underutilized,
            DisruptionReason::Expired => Code::Expired,
        }
    }
}

impl Code {
    #[expect(clippy::too_many_lines, reason = "a table")]
    /// What a person can do about it, in a sentence. `about` is the pool that the verdict is about, where there is one.
    pub fn remedy(self, about: &str) -> String {
        let pool = if about.is_empty() {
            "the pool".to_owned()
        } else {
            format!("pool {about}")
        };
        match self {
            Code::Cheapest => "Nothing is to be done: the machine is on its way.".to_owned(),
            Code::Invalid => "Correct what the pod asks for; the sentence names it.".to_owned(),
            Code::Taint => {
                format!("Add a toleration for the taint to the pod, or remove the taint from {pool}.")
            }
            Code::Requirement => format!(
                "Let the requirements of {pool} allow what the pod asks for, or drop it from the pod's node selector, \
                 affinity or volumes."
            ),
            Code::SoldOut => format!(
                "Allow more types, zones or capacity types in {pool}; what is sold out is tried again by itself."
            ),
            Code::TooLarge => {
                format!("Lower the pod's requests, or allow larger types in {pool}.")
            }
            Code::MinValues => {
                format!("Lower minValues in the requirements of {pool}, or allow more types there.")
            }
            Code::PodRules => "Relax the pod's spread or anti-affinity, or give it more zones or nodes to spread over."
                .to_owned(),
            Code::Limit => format!(
                "Raise spec.limits of {pool}, or free what counts against it; another pool may take the pod as well."
            ),
            Code::NoPool => {
                "Create a pool, or repair the pools that are closed: joiner why pool NAME says why each is.".to_owned()
            }
            Code::Empty | Code::Underutilized => format!(
                "To keep it, annotate it with karpenter.sh/do-not-disrupt=true, or set a budget of 0 nodes in {pool}."
            ),
            Code::Drifted => format!(
                "It is replaced to match {pool} again; a budget with reasons: [Drifted] paces this."
            ),
            Code::Expired => format!("Raise expireAfter of {pool} to keep nodes for longer."),
            Code::NotInUse => "Nothing is to be done: it is judged once it is initialised.".to_owned(),
            Code::NodeDoNotDisrupt => "Remove the annotation karpenter.sh/do-not-disrupt from the node.".to_owned(),
            Code::Nominated => "Nothing is to be done: it is judged again once the pod has come.".to_owned(),
            Code::PodDoNotDisrupt => {
                "Remove the annotation karpenter.sh/do-not-disrupt from the pod, or wait until the pod has ended."
                    .to_owned()
            }
            Code::NeverConsolidates => {
                format!("Set spec.disruption.consolidateAfter of {pool} to a duration such as 1m.")
            }
            Code::Unsettled => format!(
                "Wait, or lower spec.disruption.consolidateAfter of {pool}: every pod that comes or goes starts it anew."
            ),
            Code::OnlyWhenEmpty => format!(
                "Set spec.disruption.consolidationPolicy of {pool} to WhenEmptyOrUnderutilized."
            ),
            Code::FixedReplicas => format!("Lower spec.replicas of {pool}, or delete the machine."),
            Code::TooYoung => format!("Wait, or lower the least age that {pool} asks for."),
            Code::UnknownPrice => {
                "Give it a price: in the node class, in a NodeOverlay, or by reading prices from the cloud again."
                    .to_owned()
            }
            Code::Budget => format!(
                "Wait until nodes that are away are back, or raise spec.disruption.budgets of {pool}."
            ),
            Code::PodDisruptionBudget => {
                "Run more healthy pods than the budget asks for, or raise its maxUnavailable.".to_owned()
            }
            Code::SeveralBudgets => {
                "Change the selectors so that one PodDisruptionBudget matches the pod, not several.".to_owned()
            }
            Code::NoOtherPlace => format!(
                "Free room on other nodes, or let a pool buy what its pods need: limits and requirements of {pool} count."
            ),
            Code::NotCheaper => "Nothing is to be done: this is the cheapest place for its pods.".to_owned(),
            Code::TooLittleSaved => format!(
                "Lower the least saving that {pool} asks for, if moving pods for so little is wanted."
            ),
            Code::SpotToSpot => format!(
                "Enable the feature gate SpotToSpotConsolidation, or let {pool} offer capacity of another type."
            ),
            Code::SpotChoice => {
                format!("Allow more instance types in {pool}: a spot node is replaced where there is a choice.")
            }
            Code::Other => "The sentence says what stands in the way.".to_owned(),
        }
    }
}

impl Reason {
    /// The code; of a pod without a machine, that of the pool with the least in the way.
    pub fn code(&self) -> Code {
        match self {
            Reason::Cheapest { .. } => Code::Cheapest,
            Reason::NoMachine { pools } => pools.first().map(|one| one.code).unwrap_or_default(),
            Reason::NoDomain { .. } => Code::PodRules,
            Reason::Limit { .. } => Code::Limit,
            Reason::NoPool => Code::NoPool,
            Reason::Disrupted { cause, .. } => (*cause).into(),
            Reason::Kept { .. } => Code::Other,
        }
    }

    /// What would change it, the most promising first.
    pub fn remedies(&self) -> Vec<String> {
        match self {
            Reason::NoMachine { pools } => {
                let mut all: Vec<String> = Vec::new();
                for one in pools.iter().take(3) {
                    let remedy = one.remedy();
                    if !all.contains(&remedy) {
                        all.push(remedy);
                    }
                }
                all
            }
            Reason::Limit { pool, .. } => vec![self.code().remedy(pool)],
            other => vec![other.code().remedy("")],
        }
    }
}

impl Shortfall {
    /// What would let this pool hold the pod.
    pub fn remedy(&self) -> String {
        self.code.remedy(&self.pool)
    }
}

impl Launch {
    /// The code of its reason.
    pub fn code(&self) -> Code {
        self.reason.code()
    }
}

impl Unplaced {
    /// The code of its reason.
    pub fn code(&self) -> Code {
        self.reason.code()
    }
}

impl Removal {
    /// The code of its reason.
    pub fn code(&self) -> Code {
        self.cause.into()
    }
}

impl Kept {
    /// What would let the node go, given the pool that it belongs to.
    pub fn remedy(&self, pool: &str) -> String {
        self.code.remedy(pool)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use strum::IntoEnumIterator as _;

    use super::*;

    #[test]
    fn every_code_has_a_remedy_of_its_own_that_names_the_pool_it_is_about() {
        let mut seen = BTreeSet::new();
        for code in Code::iter() {
            let remedy = code.remedy("gpu");
            assert!(
                remedy.ends_with('.') && remedy.len() > 20,
                "{code}: {remedy}"
            );
            // Empty and underutilised nodes are kept by the same means.
            assert!(
                seen.insert(remedy.clone()) || code == Code::Underutilized,
                "{code}: {remedy}"
            );
            assert!(!code.remedy("").contains("pool gpu"), "{code}");
        }
    }

    #[test]
    fn the_pool_with_the_least_in_the_way_gives_the_code() {
        let shortfall = |pool: &str, code| Shortfall {
            pool: pool.into(),
            code,
            ..Shortfall::default()
        };
        let reason = Reason::NoMachine {
            pools: vec![
                shortfall("gpu", Code::SoldOut),
                shortfall("web", Code::Taint),
            ],
        };
        assert_eq!(reason.code(), Code::SoldOut);
        let remedies = reason.remedies();
        assert!(remedies[0].contains("pool gpu"), "{remedies:?}");
        assert!(remedies[1].contains("pool web"), "{remedies:?}");
    }
}
