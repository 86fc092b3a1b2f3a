//! What holds the engine back: limits, the launch rate, repeated purchases, the health of pools, and a check
//! of its own promises.

pub mod health;
pub mod launch_rate;
pub mod limits;
pub mod repeats;
pub(crate) mod selfcheck;

use self::health::Health;
use self::launch_rate::LaunchRate;
use self::repeats::Repeats;

/// What holds purchases back.
#[derive(Debug, Default)]
pub struct Guards {
    /// Whether machines of a pool become nodes.
    pub health: Health,
    /// How many machines pools have asked for lately.
    pub launch_rate: LaunchRate,
    /// Machines that did not help the pods that they were bought for.
    pub repeats: Repeats,
}
