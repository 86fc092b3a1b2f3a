//! What holds the engine back: limits, the launch rate, the health of pools, and a check of its own promises.

pub mod health;
pub mod launch_rate;
pub mod limits;
pub(crate) mod selfcheck;
