//! Observe and act: the cluster view, provisioning, machine lifecycle, disruption.
//!
//! Written once over two traits: [`Provider`](joiner_providers::Provider), what a cloud must do, and
//! [`Dialect`](dialect::Dialect), what a family of custom resources must do. Deciding is core's: from here a
//! [`Problem`](joiner_core::problem::Problem) goes in and a [`Plan`](joiner_core::plan::Plan) comes out.

pub mod backoff;
pub mod buffers;
pub mod classes;
pub mod clients;
pub mod clock;
pub mod context;
pub mod dialect;
pub mod dialects;
mod disrupt;
pub mod engine;
pub mod events;
mod gc;
pub mod health;
mod interruption;
pub mod learn;
pub mod lease;
pub mod lifecycle;
pub mod limits;
pub mod metrics;
pub mod names;
mod overlays;
pub mod pace;
mod pools;
mod prices;
mod provision;
pub mod record;
mod repair;
mod selfcheck;
pub mod tasks;
mod terms;
mod thought;
pub mod view;

pub use context::{Decide, Mode, Settings, Thinking};
pub use engine::{Engine, EngineOptions};
