//! What a world sees of any simulated cloud and does to it, whatever wire it speaks.

use async_trait::async_trait;
use joiner_embedded::clock::Clock;
use joiner_providers::{Machine, MachineId};
use serde_json::Value;

/// Something that happened at a cloud.
#[derive(Clone, Debug, PartialEq)]
pub enum CloudEvent {
    /// A machine was sold.
    Launched(Box<Machine>),
    /// A machine booted.
    Booted(String),
    /// Its end is announced, for the first time.
    Announced(MachineId),
    /// The cloud has taken away what runs; what was ordered is still on record and waits to be terminated.
    Taken(MachineId),
    /// A machine was asked to go, for the first time.
    Terminating(MachineId),
    /// A machine is gone.
    Gone {
        /// Which.
        id: MachineId,
        /// Whether the cloud took it back by itself.
        taken: bool,
    },
    /// Something happened to a group of machines.
    Group(String, GroupEvent),
}

/// What happens to a group of machines, at a cloud that sells by the group: its machines bear no marks of their own.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupEvent {
    /// It was made, without a machine in it.
    Made,
    /// It was told how many machines it is to have.
    Told {
        /// How many before.
        before: u32,
        /// How many now.
        wanted: u32,
    },
    /// The cloud has made a machine in it.
    Added(Box<Machine>),
    /// It was told to go, with everything in it.
    Ended,
    /// It is gone.
    Gone,
}

/// An entry of a provider's ledger, as far as an auditor understands it: a machine that was ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The group that it comes from.
    pub group: String,
    /// Which machine it is, once that is known.
    pub machine: Option<MachineId>,
    /// Whether it is to go.
    pub leaving: bool,
}

/// Reads the value of an entry; nothing if it is no entry of this cloud's.
pub type ReadRecord = fn(&Value) -> Option<Record>;

/// Sees what happens at a cloud, in its moment and with the cloud locked: it must not ask the cloud anything.
pub type Observer = Box<dyn FnMut(&CloudEvent) + Send>;

/// A simulated cloud as a world knows it.
#[async_trait]
pub trait Watched: Send + Sync {
    /// The time at this cloud.
    fn clock(&self) -> &Clock;

    /// Shows everything that happens from now on to an observer.
    fn observe(&self, observer: Observer);

    /// Machines that bear a mark of Joiner's, whichever, in a fixed order.
    fn marked(&self) -> Vec<MachineId>;

    /// Announces that a machine will be taken away.
    fn interrupt(&self, id: &MachineId);

    /// The market stands still from now on, everything is in stock, and no machine is taken back but those announced.
    fn calm(&self);

    /// Puts a machine there that another runs: it bears no mark of Joiner's.
    async fn plant(&self, name: &str);

    /// How entries of the ledger are read in which it stands whose machine is whose; `None` where the cloud carries
    /// marks itself.
    fn records(&self) -> Option<ReadRecord> {
        None
    }

    /// Boots, interrupts and removes machines when their time comes, until it is dropped.
    async fn run(&self);
}
