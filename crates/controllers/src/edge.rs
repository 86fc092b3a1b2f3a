//! The ways in and out: API clients and their fence, time, events, the lease, metrics, names, tasks.

pub mod clients;
pub mod clock;
pub mod events;
pub mod lease;
pub mod ledger;
pub mod metrics;
pub mod names;
pub mod tasks;

use self::clients::Clients;
use self::clock::SharedClock;
use self::events::Events;
use self::metrics::Metrics;
use self::names::Names;
use self::tasks::Tasks;

/// All that is not a function.
pub struct Edge {
    /// Ways to the API server.
    pub clients: Clients,
    /// Time.
    pub clock: SharedClock,
    /// What users are told.
    pub events: Events,
    /// What is counted.
    pub metrics: Metrics,
    /// Names for machines.
    pub names: Names,
    /// Everything that runs.
    pub tasks: Tasks,
}
