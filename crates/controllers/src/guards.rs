//! What holds the engine back: limits, the launch rate, repeated purchases, the health of pools, and a check
//! of its own promises.

pub mod health;
pub mod launch_rate;
pub mod limits;
pub mod repeats;
pub(crate) mod selfcheck;
