//! Pools and what they refer to.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use joiner_api::text::PriceChange;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::Pool;
use joiner_core::requirement::Expression;
use joiner_core::resources::Resources;

use super::{ClassKey, Condition, Conditions, Key};

/// What has been found out about a pool. The dialect writes it in its own form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolStatus {
    /// What all its machines together have.
    pub resources: Resources,
    /// How many machines it has.
    pub nodes: u32,
    /// What all its machines together cost, in dollars per hour; only families whose objects say so have it.
    pub cost: Option<Money>,
    /// Generation of its node class that was last seen.
    pub class_generation: Option<i64>,
    /// Whether it is healthy and ready to buy.
    pub conditions: Conditions,
    /// How many of its machines cannot be used yet.
    pub arriving: u32,
    /// How many of its machines are being removed.
    pub leaving: u32,
}

/// A pool object.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolRecord {
    /// Which.
    pub key: Key,
    /// Its identity.
    pub uid: Name,
    /// Version of the object.
    pub version: u64,
    /// Generation of its settings.
    pub generation: i64,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// It is to go, and its machines with it.
    pub deleting: bool,
    /// On which terms it buys; its name is an id, unique over all dialects.
    pub pool: Pool,
    /// Node class that it buys from.
    pub class: ClassKey,
    /// What one of its machines may cost at most, in dollars per hour.
    pub max_price: Option<Money>,
    /// Neither buys nor takes away.
    pub paused: bool,
    /// Why its settings make no sense.
    pub invalid: Option<String>,
    /// How long a drain of its nodes may last.
    pub termination_grace: Option<SignedDuration>,
    /// How long before its nodes expire they may be replaced at leisure; zero for not at all.
    pub expiry_window: SignedDuration,
    /// How many of its nodes are drained at the same time, in percent and rounded up, however many are being replaced.
    pub drained_at_once: Option<u8>,
    /// Nodes that it keeps whatever the pods want; it may have more.
    pub min_nodes: u32,
    /// What a node must have room for that is launched to reach `min_nodes`, beside daemon sets.
    pub min_size: Resources,
    /// How long a pod must wait before machines are launched for it.
    pub scale_up_after: SignedDuration,
    /// Whether a gate of its family must name it before it is managed.
    pub gated: bool,
    /// Whether the family's finalizer is on the pool; `None` for a family whose pools have none.
    pub finalizer: Option<bool>,
    /// Annotations of the pool object.
    pub annotations: Labels,
    /// Digest of everything whose change means drift.
    pub hash: Name,
    /// What has been found out about it so far.
    pub status: PoolStatus,
    /// Whatever the dialect wants back when it writes a machine of this pool.
    pub template: Arc<serde_json::Value>,
}

impl PoolRecord {
    /// Its name in problems and plans.
    pub fn id(&self) -> &Name {
        &self.pool.name
    }

    /// Its name as its users know it, and as the label `karpenter.sh/nodepool` has it. Pools of several families may have
    /// the same.
    pub fn name(&self) -> &Name {
        self.pool.nodepool()
    }
}

/// An object that names the pools of its family and namespace that are managed.
#[derive(Clone, Debug, PartialEq)]
pub struct GateRecord {
    /// Which.
    pub key: Key,
    /// Its identity.
    pub uid: Name,
    /// Version of the object.
    pub version: u64,
    /// Generation of its settings.
    pub generation: i64,
    /// It is to go: its pools are not managed any more.
    pub deleting: bool,
    /// Names of the pools that it opens, in its own namespace.
    pub pools: Vec<Name>,
    /// Its conditions so far.
    pub conditions: Conditions,
}

impl GateRecord {
    /// Whether it opens a pool.
    pub fn opens(&self, pool: &Key) -> bool {
        !self.deleting
            && self.key.dialect == pool.dialect
            && self.key.namespace == pool.namespace
            && self.pools.contains(&pool.name)
    }
}

/// What stands behind a name that a gate has.
#[derive(Clone, Debug, PartialEq)]
pub enum Behind {
    /// There is no such pool.
    NoPool,
    /// The pool cannot be used: why, as a word for programs and a sentence.
    Unusable {
        /// Name of its node class.
        class: Name,
        /// A word for programs.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// The pool can be used.
    Usable {
        /// Name of its node class.
        class: Name,
    },
}

/// A node class object, or what stands for one.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassRecord {
    /// Which.
    pub key: ClassKey,
    /// Its identity.
    pub uid: Name,
    /// Version of the object.
    pub version: u64,
    /// Generation of its settings.
    pub generation: i64,
    /// It is to go.
    pub deleting: bool,
    /// Finalizers.
    pub finalizers: Vec<Name>,
    /// Its own `Ready` condition, if somebody writes one.
    pub ready: Option<Condition>,
    /// Its settings, as they stand in the object.
    pub spec: Arc<serde_json::Value>,
}

/// How an overlay changes a price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PriceRule {
    /// It is this.
    Fixed(Money),
    /// More or less.
    Change(PriceChange),
}

impl PriceRule {
    /// The price under this rule.
    pub fn apply(self, price: Money) -> Money {
        match self {
            PriceRule::Fixed(fixed) => fixed,
            PriceRule::Change(change) => change.apply(price),
        }
    }
}

/// Changes to what a catalogue says, made by the user.
#[derive(Clone, Debug, PartialEq)]
pub struct OverlayRecord {
    /// Which.
    pub key: Key,
    /// Its identity.
    pub uid: Name,
    /// Version of the object.
    pub version: u64,
    /// Generation of its settings.
    pub generation: i64,
    /// Heavier ones win.
    pub weight: i32,
    /// Which offerings it is for.
    pub requirements: Vec<Expression>,
    /// What they cost.
    pub price: Option<PriceRule>,
    /// What their machines have beside what the catalogue says.
    pub capacity: Resources,
    /// Why its settings make no sense: then it changes nothing.
    pub invalid: Option<String>,
    /// Its conditions so far.
    pub conditions: Conditions,
}

/// What a buffer multiplies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalableRef {
    /// API group.
    pub group: Name,
    /// Kind.
    pub kind: Name,
    /// Name, in the buffer's namespace.
    pub name: Name,
}

/// Room that is kept free.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferRecord {
    /// Which.
    pub key: Key,
    /// Its identity.
    pub uid: Name,
    /// Version of the object.
    pub version: u64,
    /// Generation of its settings.
    pub generation: i64,
    /// Name of a pod template in its namespace.
    pub template: Option<Name>,
    /// Workload whose pods it is room for.
    pub scalable: Option<ScalableRef>,
    /// For so many pods.
    pub replicas: Option<u32>,
    /// For so many in a hundred of the workload's pods.
    pub percentage: Option<u32>,
    /// For no more than this.
    pub limits: Resources,
    /// How the room is to be kept.
    pub strategy: Option<Name>,
    /// What its status says so far.
    pub status: BufferStatus,
    /// Its conditions so far.
    pub conditions: Conditions,
}

/// What the status of a buffer says beside its conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BufferStatus {
    /// For how many pods it stands.
    pub replicas: Option<u32>,
    /// The pod template that was read.
    pub template: Option<Name>,
    /// Its generation.
    pub template_generation: Option<i64>,
    /// How the room is kept.
    pub strategy: Option<Name>,
}
