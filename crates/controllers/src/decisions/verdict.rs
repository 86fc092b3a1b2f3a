//! A verdict: outcome, code, sentence, evidence, and what would change it.

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::plan::{Kept, Launch, Reason, Removal, Shortfall};
use joiner_core::problem::Problem;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::provision::sentence;

/// What became of it.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum Outcome {
    /// A pod has a place on a node that is there, or on its way.
    Placed,
    /// A machine is bought.
    Bought,
    /// A pod has no place.
    Unplaced,
    /// A pod is left out of plans.
    LeftOut,
    /// A node stays.
    Stays,
    /// A node goes.
    Goes,
    /// An event.
    #[default]
    Told,
}

/// What one pool says to a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolVerdict {
    /// Pool.
    #[schemars(with = "String")]
    pub pool: Name,
    /// The first constraint that fails, in a word.
    pub code: String,
    /// Types in its catalogue.
    pub types: u32,
    /// Of these, types that the pool's and the pod's requirements allow.
    pub allowed: u32,
    /// Of these, types with an offering for sale.
    pub offered: u32,
    /// Of these, types large enough.
    pub large_enough: u32,
    /// Types that would be large enough and are sold out.
    #[schemars(with = "Vec<String>")]
    pub sold_out: Vec<Name>,
    /// The first constraint that fails, in words.
    pub sentence: String,
    /// What would let this pool hold it.
    pub remedy: String,
}

/// What people call the pool of a launch.
fn nodepool(launch: &Launch) -> &Name {
    let said = launch.labels.get(joiner_core::labels::NODEPOOL);
    said.unwrap_or(&launch.pool)
}

impl From<&Shortfall> for PoolVerdict {
    fn from(one: &Shortfall) -> Self {
        PoolVerdict {
            pool: one.pool.clone(),
            code: one.code.to_string(),
            types: one.types,
            allowed: one.allowed,
            offered: one.offered,
            large_enough: one.large_enough,
            sold_out: one.sold_out.clone(),
            sentence: one.ended_by.clone(),
            remedy: one.remedy(),
        }
    }
}

/// Something else that could have been bought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Alternative {
    /// Instance type.
    #[schemars(with = "String")]
    pub instance_type: Name,
    /// Dollars an hour.
    pub price: f64,
}

/// What a verdict rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Evidence {
    /// Pool by pool, the nearest miss first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<PoolVerdict>,
    /// Where it goes: a node, or a machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Name>,
    /// The pool that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub pool: Option<Name>,
    /// Types that could have held the same pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub considered: Option<u32>,
    /// The cheapest alternative that was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Alternative>,
    /// Dollars an hour before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<f64>,
    /// Dollars an hour after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<f64>,
    /// How many pods it concerns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<u32>,
    /// Until when it holds, if time alone changes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub until: Option<Timestamp>,
}

/// What was decided about something, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// What became of it.
    pub outcome: Outcome,
    /// Why, in a word.
    #[schemars(with = "String")]
    pub code: Name,
    /// Why, in a sentence.
    pub sentence: String,
    /// What it rests on.
    #[serde(default)]
    pub evidence: Evidence,
    /// What would change it, the most promising first.
    #[serde(default)]
    pub remedies: Vec<String>,
}

impl Verdict {
    /// Whether two verdicts say the same.
    pub(super) fn same(&self, other: &Verdict) -> bool {
        self.outcome == other.outcome && self.code == other.code && self.sentence == other.sentence
    }

    /// An event.
    pub(super) fn told(reason: &str, message: &str) -> Self {
        Verdict {
            code: reason.into(),
            sentence: message.to_owned(),
            ..Verdict::default()
        }
    }

    /// A pod that fits on a node that is there, or on its way.
    pub fn placed(node: &Name) -> Self {
        Verdict {
            outcome: Outcome::Placed,
            code: "Fits".into(),
            sentence: format!("fits on {node}, which is there or on its way"),
            evidence: Evidence {
                place: Some(node.clone()),
                ..Evidence::default()
            },
            remedies: vec![
                "Nothing is to be done: the scheduler binds it when the node is ready.".to_owned(),
            ],
        }
    }

    /// A pod that a machine is bought for, or the machine itself. `machine` is its name once it has one.
    pub fn bought(launch: &Launch, machine: Option<&Name>) -> Self {
        let (considered, rejected) = match &launch.reason {
            Reason::Cheapest {
                considered,
                runner_up,
            } => (Some(*considered), runner_up.clone()),
            _ => (None, None),
        };
        let what = sentence(launch);
        let sentence = match machine {
            Some(name) => format!("machine {name} is bought: {what}"),
            None => format!("a machine is to be bought: {what}"),
        };
        Verdict {
            outcome: Outcome::Bought,
            code: launch.code().to_string().into(),
            sentence,
            evidence: Evidence {
                place: machine.cloned(),
                pool: Some(nodepool(launch).clone()),
                considered,
                rejected: rejected.map(|(instance_type, price)| Alternative {
                    instance_type,
                    price: price.dollars(),
                }),
                after: Some(launch.purchase.price.dollars()),
                pods: u32::try_from(launch.pods.len()).ok(),
                ..Evidence::default()
            },
            remedies: launch.reason.remedies(),
        }
    }

    /// A machine that a plan asks for and that was not written: a limit, the launch rate, or only observing.
    pub fn not_bought(launch: &Launch) -> Self {
        let mut verdict = Self::bought(launch, None);
        verdict.outcome = Outcome::Unplaced;
        verdict.code = "NotAskedFor".into();
        verdict.sentence = format!(
            "a machine is to be bought and is not asked for yet: {}",
            sentence(launch)
        );
        verdict.remedies = vec![format!(
            "Look at the events of pool {}: its limit or launch rate is reached, or Joiner only observes.",
            nodepool(launch)
        )];
        verdict
    }

    /// A pod that fits nowhere. Pools that must not buy are part of the evidence.
    pub fn unplaced(reason: &Reason, problem: &Problem) -> Self {
        let mut pools: Vec<PoolVerdict> = match reason {
            Reason::NoMachine { pools } => pools.iter().map(PoolVerdict::from).collect(),
            _ => Vec::new(),
        };
        let mut remedies = reason.remedies();
        for pool in &problem.pools {
            let Some(closed) = &pool.closed else { continue };
            let types = problem
                .catalog(&pool.catalog)
                .map_or(0, |one| one.types.len());
            let title = problem.title(pool);
            let remedy = format!("Repair or open pool {title}: {closed}.");
            pools.push(PoolVerdict {
                pool: title.clone(),
                code: "Closed".to_owned(),
                types: u32::try_from(types).unwrap_or(u32::MAX),
                sentence: format!("must not buy now: {closed}"),
                remedy: remedy.clone(),
                ..PoolVerdict::default()
            });
            if remedies.len() < 4 {
                remedies.push(remedy);
            }
        }
        let pool = match reason {
            Reason::Limit { pool, .. } => Some(pool.clone()),
            _ => None,
        };
        Verdict {
            outcome: Outcome::Unplaced,
            code: reason.code().to_string().into(),
            sentence: reason.to_string(),
            evidence: Evidence {
                pools,
                pool,
                ..Evidence::default()
            },
            remedies,
        }
    }

    /// A pod that is left out of plans.
    pub fn left_out(why: &str) -> Self {
        Verdict {
            outcome: Outcome::LeftOut,
            code: "LeftOut".into(),
            sentence: format!("is left out of plans: {why}"),
            remedies: vec![
                "Change what the sentence names; the pod is looked at again at once.".to_owned(),
            ],
            ..Verdict::default()
        }
    }

    /// A node that stays.
    pub fn stays(kept: &Kept, pool: Option<&Name>, price: Option<Money>) -> Self {
        Verdict {
            outcome: Outcome::Stays,
            code: kept.code.to_string().into(),
            sentence: format!("stays: {}", kept.reason),
            evidence: Evidence {
                pool: pool.cloned(),
                before: price.map(Money::dollars),
                until: kept.until,
                ..Evidence::default()
            },
            remedies: vec![kept.remedy(pool.map_or("", |name| name))],
        }
    }

    /// A node that goes.
    pub fn goes(removal: &Removal, pool: Option<&Name>) -> Self {
        let (before, after) = match &removal.reason {
            Reason::Disrupted { before, after, .. } => {
                (Some(before.dollars()), Some(after.dollars()))
            }
            _ => (None, None),
        };
        Verdict {
            outcome: Outcome::Goes,
            code: removal.code().to_string().into(),
            sentence: format!("goes: {}", removal.reason),
            evidence: Evidence {
                pool: pool.cloned(),
                before,
                after,
                ..Evidence::default()
            },
            remedies: vec![removal.code().remedy(pool.map_or("", |name| name))],
        }
    }
}
