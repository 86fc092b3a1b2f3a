//! The shapes of everything that is shown. Every figure says whether it is exact or a bound; what is not known is never
//! shown as zero.

use jiff::Timestamp;
use joiner_controllers::decisions::{Happened, PoolVerdict, Said};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of these shapes: it grows when a field changes its meaning or goes.
pub(crate) const SCHEMA: u32 = 1;

/// How a figure relates to the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Bound {
    /// It is the truth.
    #[default]
    Exact,
    /// The truth is not less.
    AtLeast,
    /// The truth is not more.
    AtMost,
    /// Not known.
    Unknown,
}

impl Bound {
    /// As it stands before a figure.
    pub(crate) fn mark(self) -> &'static str {
        match self {
            Bound::Exact => "",
            Bound::AtLeast => "≥ ",
            Bound::AtMost => "≤ ",
            Bound::Unknown => "?",
        }
    }
}

/// A figure, and whether it is exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Figure {
    /// The figure.
    pub(crate) value: f64,
    /// How it relates to the truth.
    pub(crate) bound: Bound,
}

impl Figure {
    /// The truth.
    pub(crate) fn exact(value: f64) -> Self {
        Figure {
            value,
            bound: Bound::Exact,
        }
    }

    /// Not less than the truth or not more, as told.
    pub(crate) fn bounded(value: f64, bound: Bound) -> Self {
        Figure { value, bound }
    }

    /// A figure of what is known of a sum: with parts missing it is at least that.
    pub(crate) fn sum(value: f64, missing: bool) -> Self {
        let bound = if missing {
            Bound::AtLeast
        } else {
            Bound::Exact
        };
        Figure { value, bound }
    }

    /// A figure that may be missing.
    pub(crate) fn maybe(value: Option<f64>) -> Self {
        match value {
            Some(value) => Figure::exact(value),
            None => Figure::bounded(0.0, Bound::Unknown),
        }
    }

    /// As dollars, such as `≥ $1.23`.
    pub(crate) fn dollars(&self) -> String {
        match self.bound {
            Bound::Unknown => "?".to_owned(),
            bound => format!("{}{}", bound.mark(), dollars(self.value)),
        }
    }

    /// The same for a month of 730 hours.
    pub(crate) fn monthly(&self) -> String {
        Figure::bounded(self.value * 730.0, self.bound).dollars()
    }
}

/// Dollars with as many digits as they are worth.
pub(crate) fn dollars(value: f64) -> String {
    let size = value.abs();
    if size >= 1000.0 {
        let whole = format!("{size:.0}");
        let mut grouped = String::new();
        for (position, digit) in whole.chars().enumerate() {
            if position > 0 && (whole.len() - position).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        return format!("{}${grouped}", if value < 0.0 { "-" } else { "" });
    }
    let digits = match size {
        size if size >= 1.0 || size == 0.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}${size:.digits$}")
}

/// How much of something is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usage {
    /// What pods request.
    pub(crate) requested: i64,
    /// What there is for pods.
    pub(crate) allocatable: i64,
    /// What is on its way: machines that are not in use yet.
    pub(crate) coming: i64,
}

impl Usage {
    /// Percent of what there is, at most 100.
    pub(crate) fn percent(&self) -> i64 {
        if self.allocatable <= 0 {
            return 0;
        }
        (self.requested.max(0) * 100 / self.allocatable).min(100)
    }

    /// Adds another.
    pub(crate) fn add(&mut self, other: &Usage) {
        self.requested += other.requested;
        self.allocatable += other.allocatable;
        self.coming += other.coming;
    }
}

/// Everything that machines have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Usages {
    /// Thousandths of cores.
    pub(crate) cpu: Usage,
    /// Bytes.
    pub(crate) memory: Usage,
    /// Graphics processors.
    pub(crate) gpu: Usage,
    /// Pods.
    pub(crate) pods: Usage,
}

/// How far a node has come.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "title_case")]
pub(crate) enum State {
    /// In use.
    #[default]
    Ready,
    /// It has joined, and is not in use yet.
    Starting,
    /// A machine that was asked for.
    Coming,
    /// It is drained.
    Leaving,
    /// It does not answer.
    NotReady,
}

/// A pod on a node, or one that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodView {
    /// Namespace and name.
    pub(crate) name: String,
    /// Thousandths of cores.
    pub(crate) cpu: i64,
    /// Bytes.
    pub(crate) memory: i64,
    /// Belongs to a daemon set.
    pub(crate) daemon: bool,
}

/// A node, or a machine that is to become one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeView {
    /// Name of the node; of the machine until there is one.
    pub(crate) name: String,
    /// Name of the machine object, if it is ours.
    pub(crate) machine: Option<String>,
    /// Pool.
    pub(crate) pool: Option<String>,
    /// Node class.
    pub(crate) class: Option<String>,
    /// Instance type.
    pub(crate) instance_type: String,
    /// Zone.
    pub(crate) zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub(crate) capacity_type: String,
    /// Dollars an hour.
    pub(crate) price: Figure,
    /// How full it is.
    pub(crate) usage: Usages,
    /// How far it has come.
    pub(crate) state: State,
    /// When it was made.
    #[schemars(with = "String")]
    pub(crate) created: Timestamp,
    /// Why it is here, if that is known.
    pub(crate) here: Option<Said>,
    /// Why it stays or goes, if that was decided.
    pub(crate) stays: Option<Said>,
    /// Its pods; empty unless asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) on_it: Vec<PodView>,
}

impl NodeView {
    /// Dollars an hour for what is not requested: the free share of the resource that is requested most.
    pub(crate) fn waste(&self) -> f64 {
        let used = self.usage.cpu.percent().max(self.usage.memory.percent());
        let free = 100 - used;
        #[expect(clippy::cast_precision_loss, reason = "a share is a float")]
        let share = free as f64 / 100.0;
        self.price.value * share
    }
}

/// How many nodes there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeCounts {
    /// In use.
    pub(crate) ready: usize,
    /// Joined, and not in use yet.
    pub(crate) starting: usize,
    /// Asked for.
    pub(crate) coming: usize,
    /// Drained.
    pub(crate) leaving: usize,
    /// Silent.
    pub(crate) not_ready: usize,
    /// Of all these, nodes that are not ours.
    pub(crate) foreign: usize,
}

/// A node class and its provider.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProviderView {
    /// Name of the class.
    pub(crate) class: String,
    /// What it is of.
    pub(crate) provider: String,
    /// Whether machines can be bought.
    pub(crate) ready: bool,
    /// Why not, or what is wrong although they can.
    pub(crate) sentence: Option<String>,
    /// Types in its catalogue.
    pub(crate) types: usize,
    /// Offerings.
    pub(crate) offerings: usize,
    /// Of these, for sale.
    pub(crate) for_sale: usize,
    /// Our nodes there.
    pub(crate) nodes: usize,
    /// What they cost.
    pub(crate) cost: Figure,
    /// When its catalogue was read.
    #[schemars(with = "Option<String>")]
    pub(crate) read: Option<Timestamp>,
}

/// A limit of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitView {
    /// Resource.
    pub(crate) resource: String,
    /// How much its machines have.
    pub(crate) used: i64,
    /// How much they may have.
    pub(crate) limit: i64,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PoolView {
    /// Name.
    pub(crate) name: String,
    /// Family of custom resources.
    pub(crate) family: String,
    /// Its nodes.
    pub(crate) nodes: usize,
    /// What they cost.
    pub(crate) cost: Figure,
    /// Why it must not buy, if so.
    pub(crate) closed: Option<String>,
    /// Its limits.
    pub(crate) limits: Vec<LimitView>,
    /// Offerings that are left alone for a while.
    pub(crate) waits: Vec<String>,
}

/// What was measured at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sample {
    /// When.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// Dollars an hour.
    pub(crate) cost: f64,
    /// No shape of the cluster costs less than this an hour.
    pub(crate) bound: Option<f64>,
    /// Dollars an hour had nothing ever been removed: the most until now.
    pub(crate) kept: f64,
    /// Nodes.
    pub(crate) nodes: usize,
    /// Pods on nodes.
    pub(crate) pods: usize,
    /// Pods that wait.
    pub(crate) waiting: usize,
}

/// The whole cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    /// Version of these shapes.
    pub(crate) schema_version: u32,
    /// When.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// Identity of the cluster.
    pub(crate) cluster: String,
    /// Whether this process decides.
    pub(crate) leading: bool,
    /// Whether every list has come in.
    pub(crate) synced: bool,
    /// Whether it only observes.
    pub(crate) observe_only: bool,
    /// Dollars an hour for our nodes.
    pub(crate) cost: Figure,
    /// No shape of the cluster costs less an hour.
    pub(crate) bound: Figure,
    /// Dollars an hour had nothing ever been removed since this process began.
    pub(crate) kept: Figure,
    /// Percent of the cost that is spot.
    pub(crate) spot_percent: Figure,
    /// Dollars an hour for what is not requested.
    pub(crate) waste: Figure,
    /// Nodes.
    pub(crate) nodes: NodeCounts,
    /// Pods on nodes.
    pub(crate) pods_bound: usize,
    /// Pods that wait for a node.
    pub(crate) pods_waiting: usize,
    /// Of these, pods that the last plan had no place for.
    pub(crate) pods_unplaced: usize,
    /// What there is.
    pub(crate) usage: Usages,
    /// Providers.
    pub(crate) providers: Vec<ProviderView>,
    /// Pools.
    pub(crate) pools: Vec<PoolView>,
    /// What was measured so far.
    pub(crate) history: Vec<Sample>,
}

/// Pods that wait and are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DemandGroup {
    /// How many.
    pub(crate) count: usize,
    /// Their namespace.
    pub(crate) namespace: String,
    /// Some of their names.
    pub(crate) names: Vec<String>,
    /// Thousandths of cores of one.
    pub(crate) cpu: i64,
    /// Bytes of one.
    pub(crate) memory: i64,
    /// Everything else that they request and require, in words.
    pub(crate) requires: Vec<String>,
    /// For how long the first has waited, in seconds.
    pub(crate) waited: i64,
    /// Whether there is a place, or one on its way.
    pub(crate) placed: bool,
    /// The last verdict, if they were looked at.
    pub(crate) said: Option<Said>,
    /// What each pool says.
    pub(crate) pools: Vec<PoolVerdict>,
}

/// All pods that wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Demand {
    /// Version of these shapes.
    pub(crate) schema_version: u32,
    /// When.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// Pods that wait.
    pub(crate) waiting: usize,
    /// Alike pods, those without a place first.
    pub(crate) groups: Vec<DemandGroup>,
}

/// Nodes, as asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Nodes {
    /// Version of these shapes.
    pub(crate) schema_version: u32,
    /// When.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// How many there are.
    pub(crate) total: usize,
    /// How many the filter leaves.
    pub(crate) matching: usize,
    /// These, as far as asked for.
    #[expect(
        clippy::struct_field_names,
        reason = "what readers of the JSON look for"
    )]
    pub(crate) nodes: Vec<NodeView>,
}

/// What belongs together of what happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Episode {
    /// When it began.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// What it was, in words.
    pub(crate) title: String,
    /// Whether warnings are among it.
    pub(crate) warning: bool,
    /// Dollars an hour before, of what it is about.
    pub(crate) before: Option<f64>,
    /// And after.
    pub(crate) after: Option<f64>,
    /// Everything, the newest first.
    pub(crate) entries: Vec<Happened>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Activity {
    /// Version of these shapes.
    pub(crate) schema_version: u32,
    /// When.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// The newest first.
    pub(crate) episodes: Vec<Episode>,
}

/// A price at a moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PricePoint {
    /// When.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// Dollars an hour.
    pub(crate) price: f64,
}

/// An offering.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OfferingView {
    /// Catalogue, which is called like its class.
    pub(crate) catalog: String,
    /// Instance type.
    pub(crate) instance_type: String,
    /// Zone.
    pub(crate) zone: String,
    /// `spot`, `on-demand` or `reserved`.
    pub(crate) capacity_type: String,
    /// Dollars an hour.
    pub(crate) price: f64,
    /// Dollars an hour for a core.
    pub(crate) per_core: f64,
    /// Whether it is for sale.
    pub(crate) available: bool,
    /// How many of it we have.
    pub(crate) held: usize,
    /// Prices until now.
    pub(crate) history: Vec<PricePoint>,
}

/// What we hold and what we could.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Market {
    /// Version of these shapes.
    pub(crate) schema_version: u32,
    /// When.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// How many offerings there are.
    pub(crate) offerings: usize,
    /// How many of them are for sale.
    pub(crate) for_sale: usize,
    /// Those that we hold, and the cheapest of the rest by core.
    pub(crate) shown: Vec<OfferingView>,
    /// When machines were bought or removed for their price.
    #[schemars(with = "Vec<String>")]
    pub(crate) switches: Vec<Timestamp>,
}

/// A step in the life of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Step {
    /// Condition.
    pub(crate) condition: String,
    /// `True`, `False` or `Unknown`.
    pub(crate) status: String,
    /// Since when.
    #[schemars(with = "String")]
    pub(crate) since: Timestamp,
    /// Reason and message.
    pub(crate) sentence: String,
}

/// Why something is as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    /// Version of these shapes.
    pub(crate) schema_version: u32,
    /// When.
    #[schemars(with = "String")]
    pub(crate) at: Timestamp,
    /// `pod`, `node`, `pool` or `machine`.
    pub(crate) kind: String,
    /// Its name; of a pod `namespace/name`.
    pub(crate) name: String,
    /// How it stands, in a sentence.
    pub(crate) standing: String,
    /// Whether this process decides; what another one decided is only known by conditions and events.
    pub(crate) leading: bool,
    /// The last verdicts, the newest first.
    pub(crate) verdicts: Vec<Said>,
    /// The life of a machine, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) steps: Vec<Step>,
    /// Facts beside the verdicts, such as the disruption budget that holds a pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) facts: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_have_as_many_digits_as_they_are_worth() {
        for (value, text) in [
            (0.0, "$0.00"),
            (0.01234, "$0.0123"),
            (0.25, "$0.250"),
            (12.3456, "$12.35"),
            (1234.6, "$1,235"),
            (1_234_567.0, "$1,234,567"),
            (-0.5, "-$0.500"),
        ] {
            assert_eq!(dollars(value), text);
        }
    }

    #[test]
    fn what_is_not_known_is_not_zero_and_what_is_missing_makes_a_bound() {
        assert_eq!(Figure::maybe(None).dollars(), "?");
        assert_eq!(Figure::sum(2.0, true).dollars(), "≥ $2.00");
        assert_eq!(Figure::sum(2.0, false).monthly(), "$1,460");
    }
}
