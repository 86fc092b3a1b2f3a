//! What a family of custom resources must do: its objects in, records out; changes in, its objects out.
//!
//! Everything else (provisioning, lifecycle, disruption, garbage collection) is written once over this trait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::Catalog;
use joiner_providers::{Ledger, Owner, Provider, ProviderError, Uid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::edge::clients::{Clients, WriteError};
use crate::record::{
    Behind, BufferRecord, BufferStatus, ClassKey, ClassRecord, Conditions, GateRecord, Key,
    MachineRecord, MachineStatus, MetadataChange, NewMachine, OverlayRecord, PoolRecord,
    PoolStatus,
};

/// What a watch has seen of one kind of object.
#[derive(Clone, Debug)]
pub enum Event<T> {
    /// A new list begins; what was known before may be out of date.
    Started,
    /// In the list.
    Listed(T),
    /// The list is complete.
    Complete,
    /// New or changed.
    Changed(T),
    /// Gone.
    Gone(T),
    /// There, and not to be understood.
    Malformed(Malformed),
}

/// An object that cannot be read.
#[derive(Clone, Debug)]
pub struct Malformed {
    /// Its kind.
    pub kind: &'static str,
    /// Namespace and name.
    pub name: String,
    /// Its identity.
    pub uid: Name,
    /// What is wrong with it.
    pub message: String,
}

/// Something that a dialect saw.
#[derive(Clone, Debug)]
pub enum Sighting {
    /// A pool.
    Pool(Event<PoolRecord>),
    /// A machine.
    Machine(Event<MachineRecord>),
    /// A machine of another controller: observed, never touched.
    Foreign(Event<MachineRecord>),
    /// A node class.
    Class(Event<ClassRecord>),
    /// An object that opens pools.
    Gate(Event<GateRecord>),
    /// A price overlay.
    Overlay(Event<OverlayRecord>),
    /// A capacity buffer.
    Buffer(Event<BufferRecord>),
}

/// A stream of sightings of one kind of object. It never ends; errors are retried inside.
pub struct Watch {
    /// Name of the source, unique.
    pub source: String,
    /// What is seen.
    pub stream: BoxStream<'static, Sighting>,
}

/// How long pods are gathered before a plan is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Until no new pod came for so long.
    pub idle: Duration,
    /// But no longer than this.
    pub max: Duration,
}

impl Window {
    /// The longer of two, each time by itself.
    #[must_use]
    pub fn longer(self, other: Window) -> Window {
        Window {
            idle: self.idle.max(other.idle),
            max: self.max.max(other.max),
        }
    }
}

impl Default for Window {
    /// Karpenter's.
    fn default() -> Self {
        Window {
            idle: Duration::from_secs(1),
            max: Duration::from_secs(10),
        }
    }
}

/// What an object of ours is called in events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectRef {
    /// `group/version`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for what has none.
    pub namespace: Name,
    /// Name.
    pub name: Name,
    /// Identity.
    pub uid: Name,
}

/// A family of custom resources.
#[async_trait]
pub trait Dialect: Send + Sync {
    /// A short word, unique.
    fn name(&self) -> &'static str;

    /// How long pods are gathered that pools of this family may launch machines for.
    fn window(&self) -> Window {
        Window::default()
    }

    /// Who events come from.
    fn event_source(&self) -> &'static str {
        "karpenter"
    }

    /// What this family calls an event that the engine calls `reason`.
    fn word(&self, reason: &'static str) -> &'static str {
        reason
    }

    /// What to tell users when a machine has come from one state to another: a reason and a sentence.
    fn milestone(
        &self,
        _before: &MachineRecord,
        _after: &MachineRecord,
    ) -> Option<(&'static str, String)> {
        None
    }

    /// Whether objects of this family show every stage of a machine's life, however short: each is worth a write.
    fn shows_phases(&self) -> bool {
        false
    }

    /// Whether objects of this family say what they cost and how many pods they hold, and want it kept up to date.
    fn keeps_prices(&self) -> bool {
        false
    }

    /// What is to be written beside the status of a machine object so that it says what the machine costs now. `None` if
    /// it says so already, or if objects of this family have no place for it.
    fn price_change(&self, _machine: &MachineRecord, _price: Money) -> Option<MetadataChange> {
        None
    }

    /// Whether pools of this family say what their machines cost.
    fn shows_cost(&self) -> bool {
        self.keeps_prices()
    }

    /// Whether a machine that failed says why in its conditions before its object is deleted.
    fn explains_failures(&self) -> bool {
        false
    }

    /// Whether nodes are cordoned, `spec.unschedulable` and all, when they are drained.
    fn cordons(&self) -> bool {
        false
    }

    /// Whether pools say in events when machines are asked for and removed.
    fn announces_scaling(&self) -> bool {
        false
    }

    /// What of a pool's status is still there when its object is read back, in the family's conditions: the rest is no
    /// reason to write.
    fn shown(&self, _pool: &PoolRecord, status: PoolStatus, _now: Timestamp) -> PoolStatus {
        status
    }

    /// Where users of this family write a requirement on a label.
    fn field(&self, label: &str) -> String {
        format!("the requirement on {label}")
    }

    /// Streams of everything that it reads.
    fn watch(&self, clients: &Clients) -> Vec<Watch>;

    /// The finalizer that goes on nodes; the same word is on machine objects.
    fn finalizer(&self) -> &'static str;

    /// Labels that only this family puts on a machine's node.
    fn node_labels(&self, machine: &MachineRecord) -> Labels;

    /// The ownerReference that other tools read on the node of a machine. `None` where objects of the family have a
    /// namespace: they cannot own a node, and only the mark says whose it is.
    fn owner(&self, machine: &MachineRecord) -> Option<OwnerReference>;

    /// What a machine is called in events.
    fn machine_ref(&self, machine: &MachineRecord) -> ObjectRef;

    /// What a pool is called in events.
    fn pool_ref(&self, pool: &PoolRecord) -> ObjectRef;

    /// Writes a machine object, finalizer and all. Whoever writes the same name twice gets [`WriteError::Exists`].
    async fn create_machine(&self, machine: &NewMachine) -> Result<MachineRecord, WriteError>;

    /// Reads one machine object where it cannot be stale.
    async fn get_machine(&self, key: &Key) -> Result<MachineRecord, WriteError>;

    /// UIDs of all machine objects of the family, whatever their class and whether they can be read, listed where the
    /// answer cannot be stale.
    async fn machine_uids(&self) -> Result<BTreeSet<Name>, WriteError>;

    /// Changes the metadata of a machine object if it is still as it was when `machine` was read.
    async fn patch_machine(
        &self,
        machine: &MachineRecord,
        change: &MetadataChange,
    ) -> Result<MachineRecord, WriteError>;

    /// Writes the status of a machine object if it is still as it was when `machine` was read.
    async fn write_machine_status(
        &self,
        machine: &MachineRecord,
        status: &MachineStatus,
    ) -> Result<MachineRecord, WriteError>;

    /// Asks for a machine object to be deleted: this very one, not another of its name.
    async fn delete_machine(&self, machine: &MachineRecord) -> Result<(), WriteError>;

    /// Writes the status of a pool.
    async fn write_pool_status(
        &self,
        pool: &PoolRecord,
        status: &PoolStatus,
    ) -> Result<PoolRecord, WriteError>;

    /// What a machine object that was written by hand lacks to be launched for its pool.
    fn adopt(&self, _pool: &PoolRecord, _machine: &MachineRecord) -> Option<MetadataChange> {
        None
    }

    /// Puts the family's finalizer on a pool, or takes it off.
    async fn finalize_pool(
        &self,
        _pool: &PoolRecord,
        _wanted: bool,
    ) -> Result<Option<PoolRecord>, WriteError> {
        Ok(None)
    }

    /// Writes what has become of the pools that a gate names.
    async fn write_gate(
        &self,
        _gate: &GateRecord,
        _pools: &[(Name, Behind)],
        _now: Timestamp,
    ) -> Result<(), WriteError> {
        Ok(())
    }

    /// Metadata that the family keeps on its pools and machines to tell drift; what is to be changed, if anything.
    fn stamp(&self, _pool: &PoolRecord, _machine: &MachineRecord) -> Option<MetadataChange> {
        None
    }

    /// Notes something on a pool object, or takes a note off. `None` if this family has no place for notes.
    async fn annotate_pool(
        &self,
        _pool: &PoolRecord,
        _key: &str,
        _value: Option<&str>,
    ) -> Result<Option<PoolRecord>, WriteError> {
        Ok(None)
    }

    /// Sees to it that the pool object carries what [`Dialect::stamp`] compares with. `None` if it does already.
    async fn stamp_pool(&self, _pool: &PoolRecord) -> Result<Option<PoolRecord>, WriteError> {
        Ok(None)
    }

    /// Whether the pool's template has changed since the machine was made, as far as the family can tell.
    fn template_drift(&self, pool: &PoolRecord, machine: &MachineRecord) -> Option<String>;

    /// Writes the conditions of an overlay.
    async fn write_overlay(
        &self,
        _overlay: &OverlayRecord,
        _conditions: &Conditions,
    ) -> Result<(), WriteError> {
        Ok(())
    }

    /// Writes what has become of a buffer: its conditions and, if given, the rest of its status.
    async fn write_buffer(
        &self,
        _buffer: &BufferRecord,
        _status: Option<&BufferStatus>,
        _conditions: &Conditions,
    ) -> Result<(), WriteError> {
        Ok(())
    }
}

/// A kind of node class, as the API server knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassKind {
    /// API group.
    pub group: &'static str,
    /// Version.
    pub version: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Resource name.
    pub plural: &'static str,
}

/// Reads secrets for providers.
#[async_trait]
pub trait Secrets: Send + Sync {
    /// The value of a key of a secret, or why it cannot be had.
    async fn get(&self, namespace: &str, name: &str, key: &str) -> Result<String, String>;
}

/// What a factory is given beside the class itself.
pub struct ClassSite<'a> {
    /// Reads secrets.
    pub secrets: &'a dyn Secrets,
    /// Whose machines the provider buys: the mark that it puts on each of them.
    pub owner: Owner,
    /// Where the provider keeps what its cloud cannot carry.
    pub ledger: Arc<dyn Ledger>,
}

/// Opens the ledgers of classes.
pub trait Ledgers: Send + Sync {
    /// The ledger of one class: the same entries for the same class, whichever process asks.
    fn open(&self, class: &ClassRecord) -> Arc<dyn Ledger>;
}

/// Makes providers out of node classes of one kind.
#[async_trait]
pub trait ClassFactory: Send + Sync {
    /// Which classes.
    fn kind(&self) -> ClassKind;

    /// The family of custom resources whose pools name its classes; part of the mark on every machine.
    fn family(&self) -> &'static str {
        "karpenter"
    }

    /// Whether its classes are objects. What only stands for one has no status to write.
    fn has_objects(&self) -> bool {
        true
    }

    /// How often catalogues of its classes are read; `None` for as often as those of others.
    fn period(&self) -> Option<Duration> {
        None
    }

    /// What the status of a class says beside its conditions, given what it sells and when the prices of that were true.
    fn status(&self, catalog: &Catalog, _: Option<Timestamp>) -> serde_json::Value {
        serde_json::json!({"instanceTypes": catalog.types.len()})
    }

    /// A provider for the class. Errors are put on the class's pools as the reason why they do not buy.
    async fn build(
        &self,
        class: &ClassRecord,
        site: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError>;
}

/// Whether `kind` is the kind of `class`.
pub fn is_of(class: &ClassKey, kind: &ClassKind) -> bool {
    &*class.group == kind.group && &*class.kind == kind.kind
}

/// The UID of an object as a provider's mark.
pub fn uid(text: &str) -> Uid {
    Uid(text.into())
}
