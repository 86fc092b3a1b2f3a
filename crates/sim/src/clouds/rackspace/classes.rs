//! What the simulated Rackspace sells, and how its market moves.

use std::time::Duration;

use jiff::Timestamp;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

/// A server class. Prices are in thousandths of a dollar per hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Such as `gp.vs1.large-ord`.
    pub name: String,
    /// Region.
    pub region: String,
    /// `v1` or `v2`.
    pub generation: String,
    /// Category in the words of the price feed.
    pub category: String,
    /// What nodes show as their instance type.
    pub flavor: String,
    /// Cores.
    pub cpu: u32,
    /// Memory in hundredths of a gigabyte.
    pub memory: u32,
    /// Disk in gigabytes; bare metal does not say.
    pub disk: Option<u32>,
    /// Around what the market price moves.
    pub base: u32,
    /// Reserve price; bare metal has none and takes no bids.
    pub reserve: Option<u32>,
    /// Price without bidding, if it can be had so.
    pub on_demand: Option<u32>,
    /// Servers that nobody has.
    pub available: u32,
    /// `available`, or what else the catalogue says.
    pub availability: String,
    /// A market price set by hand instead of by chance.
    pub pinned: Option<u32>,
    /// Bids on it are neither won nor lost.
    pub stuck: bool,
}

/// How prices move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auctions {
    /// Of every price.
    pub seed: u64,
    /// How far prices stray from their base, in percent.
    pub swing_percent: u32,
    /// How often auctions are held.
    pub every: Duration,
}

impl Auctions {
    /// The auction that is in force at a moment.
    pub fn period(&self, now: Timestamp) -> i64 {
        now.as_second().div_euclid(self.seconds())
    }

    /// When the next auction is held.
    pub fn next(&self, now: Timestamp) -> Timestamp {
        let second = (self.period(now) + 1) * self.seconds();
        Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
    }

    fn seconds(&self) -> i64 {
        i64::try_from(self.every.as_secs())
            .unwrap_or(i64::MAX)
            .max(1)
    }

    /// The market price of a class in an auction. The mean of three draws, so that it wanders more than it jumps.
    pub fn market(&self, class: &Class, period: i64) -> u32 {
        if let Some(pinned) = class.pinned {
            return pinned;
        }
        let swing = i64::from(self.swing_percent) * 10;
        let draw = |at: i64| stream(self.seed, &class.name, at).random_range(-swing..=swing);
        let level = (draw(period) + draw(period - 1) + draw(period - 2)) / 3;
        let price = i64::from(class.base) * (1000 + level) / 1000;
        u32::try_from(price).unwrap_or(0).max(1)
    }
}

/// Random numbers for one subject and one number, the same for the same seed.
pub(super) fn stream(seed: u64, subject: &str, number: i64) -> ChaCha8Rng {
    let mut state = seed ^ 0x9E37_79B9_7F4A_7C15;
    for byte in subject.bytes().chain(number.to_le_bytes()) {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    ChaCha8Rng::seed_from_u64(state)
}

/// Thousandths of a dollar as the API prints them: `0.01`.
pub(super) fn plain(mills: u32) -> String {
    let text = format!("{}.{:03}", mills / 1000, mills % 1000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Thousandths of a dollar as the feed and refusals print them: `0.010000`.
pub(super) fn six(mills: u32) -> String {
    format!("{}.{:03}000", mills / 1000, mills % 1000)
}

impl Class {
    fn gigabytes(&self) -> String {
        let text = format!("{}.{:02}", self.memory / 100, self.memory % 100);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        format!("{text}GB")
    }

    /// As the API shows it.
    pub(super) fn object(&self, market: u32, last_auction: i64) -> Value {
        let mut resources = json!({"cpu": self.cpu.to_string(), "memory": self.gigabytes()});
        if let Some(disk) = self.disk {
            resources["disk"] = json!(format!("{disk}GB"));
        }
        let hammer = market.max(self.reserve.unwrap_or(0));
        json!({
            "apiVersion": "ngpc.rxt.io/v1", "kind": "ServerClass", "metadata": {"name": self.name},
            "spec": {
                "region": self.region, "availability": self.availability, "category": self.category,
                "flavorType": if self.reserve.is_some() { "vm" } else { "baremetal" },
                "minBidPricePerHour": self.reserve.map(plain).unwrap_or_default(),
                "onDemandPricing": {"cost": self.on_demand.map(plain).unwrap_or_default(), "interval": "1h"},
                "provider": {"providerFlavorID": self.flavor, "providerType": "ospc"},
                "resources": resources,
            },
            "status": {
                "available": self.available, "lastAuction": last_auction,
                "spotPricing": {"marketPricePerHour": plain(market), "hammerPricePerHour": plain(hammer)},
            },
        })
    }

    /// As the price feed shows it.
    pub(super) fn listing(&self, market: u32) -> Value {
        let share = |percent: u32| f64::from(self.base * percent / 100) / 1000.0;
        json!({
            "20_percentile": share(80), "50_percentile": share(110), "80_percentile": share(150),
            "market_price": six(market), "cpu": self.cpu.to_string(), "memory": self.gigabytes(),
            "display_name": format!("Virtual Server {}", self.name), "category": self.category,
            "description": self.region,
        })
    }

    /// Memory that a node of this class reports, in KiB: a little less than promised, as measured.
    pub(super) fn memory_kib(&self) -> u64 {
        u64::from(self.memory) * 1_048_576 / 100 * 967 / 1000
    }
}

/// Short form of a class of Chicago; memory in hundredths of a gigabyte, prices in thousandths of a dollar.
fn chicago(name: &str, category: &str, size: (u32, u32, u32), prices: (u32, u32, u32)) -> Class {
    let (cpu, memory, disk) = size;
    let (base, reserve, on_demand) = prices;
    Class {
        name: format!("{name}-ord"),
        region: "us-central-ord-1".to_owned(),
        generation: "v1".to_owned(),
        category: category.to_owned(),
        flavor: format!(
            "{}1-{}",
            category
                .split(' ')
                .next()
                .unwrap_or_default()
                .to_lowercase(),
            memory / 100
        ),
        cpu,
        memory,
        disk: Some(disk),
        base,
        reserve: Some(reserve),
        on_demand: Some(on_demand),
        available: 100,
        availability: "available".to_owned(),
        pinned: None,
        stuck: false,
    }
}

/// The classes of Chicago, with one of bare metal, and one of another region.
pub fn built_in() -> Vec<Class> {
    let (general, compute, memory) = ("General Purpose", "Compute Heavy", "Memory Heavy");
    let mut classes = vec![
        chicago("gp.vs1.medium", general, (2, 375, 40), (4, 10, 50)),
        chicago("gp.vs1.large", general, (4, 1500, 60), (12, 10, 110)),
        chicago("gp.vs1.xlarge", general, (8, 3000, 120), (33, 20, 220)),
        chicago("gp.vs1.2xlarge", general, (16, 6000, 240), (70, 40, 440)),
        chicago("ch.vs1.medium", compute, (2, 375, 40), (6, 10, 50)),
        chicago("ch.vs1.large", compute, (4, 750, 100), (11, 10, 90)),
        chicago("ch.vs1.xlarge", compute, (8, 1500, 100), (22, 15, 180)),
        chicago("ch.vs1.2xlarge", compute, (16, 3000, 200), (50, 40, 360)),
        chicago("mh.vs1.medium", memory, (2, 1500, 40), (10, 10, 90)),
        chicago("mh.vs1.large", memory, (4, 3000, 60), (18, 10, 170)),
        chicago("mh.vs1.xlarge", memory, (8, 6000, 120), (40, 10, 340)),
    ];
    classes.push(Class {
        disk: None,
        reserve: None,
        on_demand: None,
        ..chicago("gp.bm2.small", "Bare Metal", (12, 3200, 0), (5, 0, 0))
    });
    classes.push(Class {
        name: "gp.vs2.medium-sjc".to_owned(),
        region: "us-west-sjc-1".to_owned(),
        generation: "v2".to_owned(),
        ..chicago("gp.vs2.medium", general, (2, 400, 40), (11, 10, 60))
    });
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_wander_around_their_base_and_repeat_with_the_seed() {
        let auctions = Auctions {
            seed: 7,
            swing_percent: 50,
            every: Duration::from_mins(5),
        };
        let class = &built_in()[2];
        let path: Vec<u32> = (0..500).map(|at| auctions.market(class, at)).collect();
        let again: Vec<u32> = (0..500).map(|at| auctions.market(class, at)).collect();
        assert_eq!(path, again);
        assert!(
            path.iter().all(|price| (16..=50).contains(price)),
            "{path:?}"
        );
        assert!(path.iter().min() < path.iter().max());
    }

    #[test]
    fn prices_are_printed_as_the_wire_has_them() {
        assert_eq!(
            (plain(20), plain(1000), six(10)),
            ("0.02".into(), "1".into(), "0.010000".into())
        );
    }
}
