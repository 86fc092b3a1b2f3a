//! One machine, from the wish for it until it is gone.
//!
//! ```text
//!   object written ──► launch ──► register ──► initialize ──► settled
//!                         │           │            │             │  deletion asked for
//!                         └───────────┴────────────┴─────────────┤
//!                                                                ▼
//!                               drain ──► volumes ──► terminate until the cloud says gone ──► finalizer
//! ```
//!
//! [`step`] looks at what is known and names the one thing to do next. It performs nothing and remembers nothing: what
//! has to survive a crash stands on the objects, and what is in [`Memory`] can be asked for again. So every place where
//! the process can die is the end of a step, and the tests die at each of them.

mod delete;
mod drain;
mod evict;
mod initialize;
mod launch;
mod memory;
mod nodepatch;
mod observe;
mod perform;
pub mod queue;
pub mod reconcile;
mod register;
mod removal;
mod standing;
mod terminate;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use joiner_core::name::{Labels, Name};
use joiner_providers::{LaunchRequest, MachineId, Timeouts};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

pub(crate) use delete::{delete, of_another};
pub use memory::{Memory, ProviderAnswer};
pub use nodepatch::NodeChange;
pub(crate) use register::UNREGISTERED;
pub(crate) use removal::RemovalReason;

use crate::record::{
    Condition, Conditions, MANAGED_BY, MachineRecord, MachineStatus, Mark, MetadataChange, Truth,
    kinds,
};
use crate::view::nodes::NodeRecord;
use crate::view::pods::{PodKey, PodRecord};

/// Why a machine object is deleted by us.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Cause {
    /// Nothing of what was planned can be had.
    InsufficientCapacity(String),
    /// The cloud had no machine in time.
    LaunchTimeout(String),
    /// The machine will never run.
    LaunchFailed(String),
    /// It did not become a node in time.
    RegistrationTimeout(String),
    /// The cloud no longer has it.
    GarbageCollected(String),
    /// Its node was deleted.
    NodeDeleted,
    /// Its node class does not exist.
    #[strum(serialize = "nodeclass_not_ready")]
    NoClass(String),
}

impl Cause {
    /// The word for it in metrics, as Karpenter has it.
    pub fn word(&self) -> &'static str {
        self.into()
    }

    /// The word for it in events and conditions.
    pub fn event(&self) -> &'static str {
        match self {
            Cause::InsufficientCapacity(_) => "InsufficientCapacity",
            Cause::LaunchTimeout(_) => "LaunchTimeout",
            Cause::LaunchFailed(_) => "ProvisioningFailed",
            Cause::RegistrationTimeout(_) => "RegistrationTimeout",
            Cause::GarbageCollected(_) => "MachineGone",
            Cause::NodeDeleted => "NodeDeleted",
            Cause::NoClass(_) => "NodeClassNotFound",
        }
    }

    /// The sentence for it.
    pub fn sentence(&self) -> String {
        match self {
            Cause::InsufficientCapacity(said) => {
                format!("none of the planned instance types is available: {said}")
            }
            Cause::LaunchTimeout(said) => {
                format!("the cloud did not provide the machine in time: {said}")
            }
            Cause::LaunchFailed(said) => {
                format!("the cloud reports that the machine cannot run: {said}")
            }
            Cause::RegistrationTimeout(said) => {
                format!("the machine did not join the cluster in time: {said}")
            }
            Cause::GarbageCollected(said) => {
                format!("the machine no longer exists at the cloud: {said}")
            }
            Cause::NodeDeleted => "its node was deleted".to_owned(),
            Cause::NoClass(class) => format!("node class {class} does not exist"),
        }
    }
}

/// The status of a machine that failed, with the reason in the condition of the stage that it did not reach.
fn explained(machine: &MachineRecord, cause: &Cause, now: Timestamp) -> Option<MachineStatus> {
    let stage = match cause {
        _ if machine.registered() => return None,
        Cause::RegistrationTimeout(_) | Cause::GarbageCollected(_) => kinds::REGISTERED,
        Cause::InsufficientCapacity(_)
        | Cause::LaunchTimeout(_)
        | Cause::LaunchFailed(_)
        | Cause::NoClass(_) => kinds::LAUNCHED,
        Cause::NodeDeleted => return None,
    };
    let change = (stage, Truth::False, cause.event(), cause.sentence());
    with_conditions(machine, now, [change])
}

/// When to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// When something changes.
    OnChange,
    /// Then, or when something changes.
    At(Timestamp),
}

/// The one thing to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing.
    Wait(Wake),
    /// Ask what to buy: the object does not say.
    AskForOffers,
    /// Change the metadata of the machine object.
    Metadata(MetadataChange),
    /// Write the status of the machine object.
    Status(Box<MachineStatus>),
    /// Buy.
    Launch(Box<LaunchRequest>),
    /// Ask the cloud whether it has a machine for this object.
    Find,
    /// Ask the cloud about the machine.
    Get(MachineId),
    /// Have the machine taken away.
    Terminate(MachineId),
    /// Change the node.
    Node(Box<NodeChange>),
    /// Delete the node object.
    DeleteNode {
        /// Name.
        name: Name,
        /// This very one.
        uid: Name,
        /// As it was when we looked: its mark cannot have changed since.
        version: u64,
    },
    /// Ask pods to leave, each by a request of its own, all at a time.
    Evict {
        /// Which ones, and that very one of the name.
        pods: Vec<(PodKey, Name)>,
        /// How large they are beside others.
        size: i32,
    },
    /// Make a pod leave.
    DeletePod {
        /// Which.
        pod: PodKey,
        /// This very one.
        uid: Name,
        /// Within so many seconds.
        grace_seconds: u32,
    },
    /// Ask for the machine object to be deleted.
    Delete(Cause),
    /// Take the finalizer off: there is nothing left.
    Release,
}

impl Step {
    /// What is done, in words.
    pub fn word(&self) -> &'static str {
        match self {
            Step::Wait(_) => "wait",
            Step::AskForOffers => "ask what to launch",
            Step::Metadata(_) => "write metadata of the machine object",
            Step::Status(_) => "write status of the machine object",
            Step::Launch(_) => "launch the machine",
            Step::Find => "look for the machine at the cloud",
            Step::Get(_) => "read the machine at the cloud",
            Step::Terminate(_) => "terminate the machine",
            Step::Node(_) => "write the node",
            Step::DeleteNode { .. } => "delete the node",
            Step::Evict { .. } => "evict pods",
            Step::DeletePod { .. } => "delete a pod",
            Step::Delete(_) => "delete the machine object",
            Step::Release => "remove the finalizer of the machine object",
        }
    }
}

/// What is known, beside the machine object itself.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts, as observed"
)]
#[derive(Clone, Debug)]
pub struct Observed {
    /// Now.
    pub now: Timestamp,
    /// How long things take at this cloud; `None` while there is no provider for the machine's class.
    pub timeouts: Option<Timeouts>,
    /// Its node class is of a kind that is served here, and there is none of its name.
    pub class_missing: bool,
    /// What its cloud sells is known.
    pub catalog_read: bool,
    /// No offering meets its requirements.
    pub unmet: bool,
    /// Finalizer for the node.
    pub finalizer: &'static str,
    /// Owner of the node, where an owner can be named.
    pub owner: Option<OwnerReference>,
    /// The mark that says whose the node is.
    pub mark: Mark,
    /// Whether its node is cordoned when it is drained.
    pub cordons: bool,
    /// What an object that was written by hand lacks to be launched.
    pub adoption: Option<MetadataChange>,
    /// Labels that only the machine's dialect puts on its node.
    pub node_labels: Labels,
    /// Whether users of its family are shown every stage of its life, however short.
    pub shows_phases: bool,
    /// Nodes that may be this machine; those of other machines are not among them.
    pub nodes: Vec<Arc<NodeRecord>>,
    /// Pods on its node.
    pub pods: Vec<Arc<PodRecord>>,
    /// Those of them, by identity, whose new place is a machine that was bought for them.
    pub pioneers: BTreeSet<Name>,
    /// Its node is kept for pods whose time has yet to come.
    pub reserved: bool,
    /// Somewhere a pod waits for the scheduler to look at it.
    pub pods_to_bind: bool,
    /// Volumes that are attached to its node and must not be.
    pub attached: Vec<Name>,
    /// How long its pool lets a node be quiet before it may go to save money; `None` for never.
    pub consolidate_after: Option<SignedDuration>,
    /// When a pod last came to or went from its node, since we look.
    pub last_pod_event: Option<Timestamp>,
    /// Whether the offer to be tried next keeps the pool within its limits.
    pub within_limits: bool,
    /// What was heard so far; can be lost at any time.
    pub memory: Memory,
}

/// What to do next with a machine.
pub fn step(machine: &MachineRecord, observed: &Observed) -> Step {
    let managed_by = machine.annotations.get(MANAGED_BY);
    if managed_by.is_some_and(|name| *name != observed.mark.managed_by) {
        // Another Joiner's, or restored from another cluster.
        return Step::Wait(Wake::OnChange);
    }
    if machine.deleting.is_some() {
        return terminate::step(machine, observed);
    }
    if !machine.finalizer || managed_by.is_none() {
        return Step::Metadata(MetadataChange {
            finalizer: Some(true),
            ..MetadataChange::annotation(MANAGED_BY, Some(observed.mark.managed_by.clone()))
        });
    }
    if let Some(change) = &observed.adoption {
        return Step::Metadata(change.clone());
    }
    if !machine.launched() {
        launch::step(machine, observed)
    } else if !machine.registered() {
        register::step(machine, observed)
    } else if !machine.initialized() {
        initialize::step(machine, observed)
    } else {
        initialize::settled(machine, observed)
    }
}

impl Observed {
    /// The node that the machine became; one that has joined and was not registered in time counts too.
    fn node(&self, machine: &MachineRecord) -> Option<&Arc<NodeRecord>> {
        match (&machine.status.node, self.nodes.as_slice()) {
            (Some(name), nodes) => nodes
                .iter()
                .find(|node| node.name == *name && node.belongs_to(&machine.uid)),
            (None, [node]) => Some(node),
            (None, _) => None,
        }
    }
}

/// The status with some conditions changed, or `None` if nothing would change.
fn with_conditions(
    machine: &MachineRecord,
    now: Timestamp,
    changes: impl IntoIterator<Item = (&'static str, Truth, &'static str, String)>,
) -> Option<MachineStatus> {
    let mut status = machine.status.clone();
    for (kind, truth, reason, message) in changes {
        set(
            &mut status.conditions,
            machine.generation,
            now,
            kind,
            truth,
            reason,
            message,
        );
    }
    status
        .conditions
        .ensure_ready(&kinds::LIFECYCLE, machine.generation, now);
    (status != machine.status).then_some(status)
}

fn set(
    conditions: &mut Conditions,
    generation: i64,
    now: Timestamp,
    kind: &'static str,
    status: Truth,
    reason: &str,
    message: String,
) {
    conditions.ensure(Condition {
        kind: kind.into(),
        status,
        reason: reason.into(),
        message,
        since: now,
        generation,
    });
}

/// Write the status if it would change; else wait.
fn status_or_wait(status: Option<MachineStatus>, wake: Wake) -> Step {
    status.map_or(Step::Wait(wake), |status| Step::Status(Box::new(status)))
}
