//! Decides: pods, pools, catalogues and nodes in; the cheapest valid plan out.
//!
//! Pure functions. No clock, no randomness but a seed, no I/O: the same [`Problem`](problem::Problem) gives the same
//! plan on every machine and with any number of threads.

pub mod disrupt;
pub mod labels;
pub mod leftover;
pub mod money;
pub mod name;
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers of things are u32 throughout, and floats stay inside the bound"
)]
pub mod pack;
pub mod plan;
pub mod problem;
pub mod quantity;
pub mod requests;
pub mod requirement;
pub mod requirements;
pub mod resources;
pub mod schedule;
pub mod selector;
pub mod taints;
