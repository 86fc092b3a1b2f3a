//! Observe and act: the cluster view, provisioning, machine lifecycle, disruption.
//!
//! Written once over two traits: [`Provider`](joiner_providers::Provider), what a cloud must do, and
//! [`Dialect`](dialect::Dialect), what a family of custom resources must do. Deciding is core's: from here a
//! [`Problem`](joiner_core::problem::Problem) goes in and a [`Plan`](joiner_core::plan::Plan) comes out.
//!
//! | room | what happens there |
//! | --- | --- |
//! | [`edge`] | the ways in and out: API clients and the fence, time, events, the lease, metrics, names, tasks |
//! | [`record`], [`view`] | objects as plain records, and a consistent view of all of them |
//! | [`dialect`], [`dialects`] | the trait for a family of custom resources, and each family |
//! | [`operator`], [`operators`] | the trait for a family that only renders objects of another controller, and each such family |
//! | [`classes`] | node classes become providers, one module for each kind |
//! | [`market`] | what can be bought: providers by class, catalogues, overlays, prices, what is sold out |
//! | [`decisions`] | the ledger: what was decided about each pod, node, pool and machine, and why |
//! | [`last_logs`] | what was logged last, so that the same is not logged again and again |
//! | [`guards`] | what holds the engine back: limits, launch rate, health of pools, a check of its own promises |
//! | `provision` | pending pods become machines |
//! | [`lifecycle`] | one reconciler for each machine: launch, register, initialise, drain, terminate |
//! | `disrupt` | nodes that can go: candidates, commands, budgets, drift |
//! | `upkeep` | the rest: garbage, repair, interruption notices, buffers, the status of pools |

pub mod classes;
pub mod context;
pub mod decisions;
pub mod dialect;
pub mod dialects;
mod disrupt;
pub mod edge;
pub mod engine;
pub mod guards;
mod last_decision;
pub mod last_logs;
pub mod lifecycle;
pub mod market;
pub mod operator;
pub mod operators;
mod provision;
pub mod record;
pub mod upkeep;
pub mod view;

pub use context::{Decide, Mode, Settings, SolveOn};
pub use engine::{Engine, EngineOptions};
