//! The ways in and out: API clients and their fence, time, events, the lease, metrics, names, tasks.

pub mod clients;
pub mod clock;
pub mod events;
pub mod lease;
pub mod ledger;
pub mod metrics;
pub mod names;
pub mod tasks;
