//! What a world sees of any simulated cloud and does to it, whatever wire it speaks.

use async_trait::async_trait;
use joiner_embedded::clock::Clock;
use joiner_providers::{Machine, MachineId};

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
}

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

    /// Boots, interrupts and removes machines when their time comes, until it is dropped.
    async fn run(&self);
}
