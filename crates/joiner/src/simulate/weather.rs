//! What goes wrong in a world, and how often: drawn from its seed, and all of it at an end when the storm is.

use std::time::Duration;

use joiner_embedded::faults::Chances;
use joiner_sim::clouds::faulty::FaultRates;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::line::Side;
use crate::args::FaultKind;

/// Sets the stream of weather apart from that of the scenario, so that a world stays the same under other weather.
const STREAM: u64 = 7;

/// What goes wrong.
#[derive(Clone, Debug)]
pub(crate) struct Weather {
    /// On the way to the API server.
    pub(crate) api: Chances,
    /// At the clouds.
    pub(crate) cloud: FaultRates,
    /// How many requests a process survives at most; `None` for ever.
    pub(crate) life: Option<u64>,
    /// How many instances of Joiner there are.
    pub(crate) instances: u32,
    /// When lines are cut, whose, and for how long.
    pub(crate) cuts: Vec<(Duration, u32, Duration)>,
    random: ChaCha8Rng,
}

impl Weather {
    /// The weather of a seed.
    pub(crate) fn draw(seed: u64, kinds: &[FaultKind], storm: Duration) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(STREAM);
        // A world in which everything happens all the time is one world: most have some kinds and not others, at rates
        // from rare to often. Every kind is drawn for, so that leaving one out does not change the others.
        let mut strength = |kind| {
            let (on, strength) = (random.random_ratio(2, 3), random.random_range(0.1..1.5));
            if on && kinds.contains(&kind) {
                strength
            } else {
                0.0
            }
        };
        let rough = Chances::rough();
        let api = Chances {
            delay: rough.delay * strength(FaultKind::Delay),
            drop: rough.drop * strength(FaultKind::Drop),
            duplicate: rough.duplicate * strength(FaultKind::Duplicate),
            error_before: rough.error_before * strength(FaultKind::Error),
            error_after: rough.error_after * strength(FaultKind::Error),
            stale_read: rough.stale_read * strength(FaultKind::Stale),
            cut_watch: rough.cut_watch * strength(FaultKind::Watch),
            ..rough
        };
        let stormy = FaultRates::stormy();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a few hundred at most"
        )]
        let scaled = |rate: u32, by: f64| (f64::from(rate) * by) as u32;
        let clouds = strength(FaultKind::Cloud);
        let cloud = FaultRates {
            refused: scaled(stormy.refused, clouds),
            lost: scaled(stormy.lost, clouds),
            throttled: scaled(stormy.throttled, clouds),
            sold_out: scaled(stormy.sold_out, clouds),
            slow: scaled(stormy.slow, clouds),
        };
        let crashes = strength(FaultKind::Crash) > 0.0;
        let leases = strength(FaultKind::Lease) > 0.0;
        let life = [150, 600, 5_000][random.random_range(0..3)];
        let cuts = (0..random.random_range(1..8)).map(|_| {
            let at = random.random_range(60..storm.as_secs().max(120));
            let lasts = random.random_range(1..90);
            let whose = random.random_range(0..2);
            (Duration::from_secs(at), whose, Duration::from_secs(lasts))
        });
        let mut cuts: Vec<_> = cuts.collect();
        cuts.sort();
        Weather {
            api,
            cloud,
            life: crashes.then_some(life),
            instances: if leases { 2 } else { 1 },
            cuts: if leases { cuts } else { Vec::new() },
            random,
        }
    }

    /// At which request the next process dies.
    pub(crate) fn death(&mut self) -> Option<(u64, Side)> {
        let life = self.life?;
        // A start alone takes some 35: many die in the middle of theirs.
        let at = self.random.random_range(1..=life);
        let side = if self.random.random() {
            Side::Before
        } else {
            Side::After
        };
        Some((at, side))
    }

    /// How long a process takes to be started again.
    pub(crate) fn restart(&mut self) -> Duration {
        Duration::from_secs(self.random.random_range(1..20))
    }

    /// The storm is over.
    pub(crate) fn clear(&mut self) {
        self.life = None;
    }
}
