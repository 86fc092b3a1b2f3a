//! Generated clusters with every constraint at once: whatever is planned must hold.
#![allow(
    clippy::unwrap_used,
    clippy::items_after_statements,
    reason = "helpers of tests may give up, and stand beside what they help"
)]

mod clusters;
mod completeness;
mod disruption;
mod oracle;
mod packing;
mod ranges;
mod twists;
mod yielding;
