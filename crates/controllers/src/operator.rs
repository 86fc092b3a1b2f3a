//! Operators that render: they buy nothing and look after no machine. They keep objects of another controller's in the
//! shape that their own objects ask for, beside the loops of the engine and under the same fence.

use async_trait::async_trait;

use crate::edge::clients::Clients;
use crate::edge::clock::SharedClock;
use crate::edge::events::Events;

/// What an operator works with.
#[derive(Clone)]
pub struct Seat {
    /// Ways to the API server. Writes end when the lease does.
    pub clients: Clients,
    /// Time.
    pub clock: SharedClock,
    /// What users are told, in the operator's name.
    pub events: Events,
    /// Only say what would be written.
    pub observe_only: bool,
}

impl Seat {
    /// Whether this process leads, and so looks and decides. What it decides is written unless it only observes.
    pub fn may_act(&self) -> bool {
        self.clients.fence.holds()
    }
}

/// A family of custom resources from which other objects are rendered.
#[async_trait]
pub trait Operator: Send + Sync {
    /// Name of the family.
    fn name(&self) -> &'static str;

    /// In whose name events are written.
    fn event_source(&self) -> &'static str;

    /// Watches and acts until it is dropped; started again if it panics or returns. Acts only while
    /// [`Seat::may_act`] holds, and writes nothing but events where [`Seat::observe_only`] is set.
    async fn run(&self, seat: Seat);
}
