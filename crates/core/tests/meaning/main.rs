//! What rules and labels mean, as Kubernetes binds pods: whole problems, solved and judged.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

mod affinity;
mod node_labels;
mod open_labels;
mod prices;
mod world;
