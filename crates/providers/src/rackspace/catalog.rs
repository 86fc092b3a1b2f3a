//! Server classes as instance types: what they have, what is left of it for pods, and what they cost.

use std::time::Duration;

use jiff::Timestamp;
use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{CapacityType, Catalog, InstanceType, Offering};
use joiner_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, NVIDIA_GPU, PODS, Resources};

use super::bids::{BidPolicy, Lessons, Quote};
use super::prices::Book;
use super::types::{ServerClass, gigabytes};

/// Label that the cloud puts on every node: its server class. (The usual label for the type says the flavour.)
pub const CLASS_LABEL: &str = "servers.ngpc.rxt.io/class";
/// Label of our own: the category of the class, as in `gp`.
pub const CATEGORY_LABEL: &str = "rackspace.joiner.dev/category";

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
/// Of a hundred gibibytes that a class promises, so many are there. Measured: 2.1 to 3.3 less; the rest is caution.
const REAL_PERCENT: i64 = 96;
/// What the kubelet keeps on every flavour: reserved for itself and the system, and the hard eviction line.
const KEPT_CPU_MILLIS: i64 = 500;
const KEPT_MEMORY: i64 = (1024 + 100) * MIB;
const KEPT_DISK: i64 = 2 * GIB;
const EVICTION_DISK_PERCENT: i64 = 10;
/// What the smallest servers have, for classes that do not say.
const LEAST_DISK: i64 = 40 * GIB;
const MOST_PODS: i64 = 110;

/// What is known when offerings are made.
pub struct Knowledge<'a> {
    /// Prices of the feed.
    pub book: &'a Book,
    /// What refusals have taught.
    pub lessons: &'a Lessons,
    /// How bids are made.
    pub policy: &'a BidPolicy,
    /// Prices older than this are as good as unknown.
    pub max_age: Duration,
    /// Now.
    pub now: Timestamp,
}

/// The classes of a region as a catalogue. Classes of other regions cannot join the cloudspace and are left out.
pub fn catalog(
    name: &Name,
    region: &str,
    classes: &[ServerClass],
    knowledge: &Knowledge<'_>,
) -> Catalog {
    let mut types: Vec<InstanceType> = classes
        .iter()
        .filter(|class| class.spec.region.0 == region)
        .filter_map(|class| instance_type(class, knowledge))
        .collect();
    types.sort_by(|a, b| a.name.cmp(&b.name));
    types.dedup_by(|a, b| a.name == b.name);
    Catalog {
        name: name.clone(),
        types,
        ranges: Vec::new(),
        quotas: Vec::new(),
    }
}

/// A class as an instance type; `None` if it does not say how large it is.
fn instance_type(class: &ServerClass, knowledge: &Knowledge<'_>) -> Option<InstanceType> {
    let (capacity, overhead) = size(class)?;
    let mut kind = InstanceType {
        name: class.metadata.name.as_str().into(),
        labels: type_labels(class),
        capacity,
        overhead,
        offerings: Vec::new(),
        quotas: Vec::new(),
    };
    let region: Name = class.spec.region.0.as_str().into();
    let left = class.status.available.count();
    // All cloudspaces of a region, and both ways of paying, draw on the same servers.
    let stock: Option<Name> = left.map(|_| format!("rackspace/{region}/{}", kind.name).into());
    let offering = |capacity_type, price, available| Offering {
        zone: region.clone(),
        region: region.clone(),
        capacity_type,
        price,
        available,
        left,
        reservation: None,
        stock: stock.clone(),
    };
    let sold = is_sold(class) && left != Some(0);
    if let Some(quote) = quote(class, knowledge) {
        let open = !knowledge
            .lessons
            .is_closed(&class.metadata.name, knowledge.now);
        let wins = knowledge.policy.bid(&quote).is_some();
        let available = sold && open && wins;
        kind.offerings
            .push(offering(CapacityType::Spot, quote.cost(), available));
    }
    if let Some(price) = on_demand_price(class) {
        let within = knowledge
            .policy
            .max_price
            .is_none_or(|limit| price <= limit);
        kind.offerings
            .push(offering(CapacityType::OnDemand, price, sold && within));
    }
    (!kind.offerings.is_empty()).then_some(kind)
}

/// Whether the cloud sells this class at all.
pub fn is_sold(class: &ServerClass) -> bool {
    class.spec.availability.0 == "available"
}

/// What is known about the market of a class; `None` if it cannot be bid on or its price is unknown.
pub fn quote(class: &ServerClass, knowledge: &Knowledge<'_>) -> Option<Quote> {
    // Bare metal has no reserve price, and refuses every bid though the feed lists it for half a cent.
    let reserve = class.spec.min_bid_price_per_hour.dollars()?;
    let name = class.metadata.name.as_str();
    let listing = knowledge.book.fresh(name, knowledge.now, knowledge.max_age);
    // The class is what bids are judged by; the feed is a copy of it that may be older.
    let market = class.status.spot_pricing.market_price_per_hour.dollars();
    let market = market.or_else(|| listing.map(|one| one.market))?;
    let quote = Quote {
        market,
        reserve,
        past: listing.and_then(|one| one.past(knowledge.policy.percentile)),
        on_demand: on_demand_price(class),
    };
    Some(knowledge.lessons.correct(name, quote, knowledge.now))
}

/// What a class costs per hour without bidding.
pub fn on_demand_price(class: &ServerClass) -> Option<Money> {
    let pricing = &class.spec.on_demand_pricing;
    // Another unit of time would make a price that is wrong by orders of magnitude.
    matches!(pricing.interval.0.as_str(), "" | "1h" | "hour" | "1hour")
        .then(|| pricing.cost.dollars())?
}

/// What a server has, and what of it pods cannot have.
pub fn size(class: &ServerClass) -> Option<(Resources, Resources)> {
    let told = &class.spec.resources;
    let cores = told.cpu.count().filter(|cores| *cores > 0)?;
    let memory = gigabytes(&told.memory.0)? / 100 * REAL_PERCENT;
    let disk = gigabytes(&told.disk.0).unwrap_or(LEAST_DISK) / 100 * REAL_PERCENT;
    let mut capacity = Resources::new()
        .with(CPU, i64::from(cores) * 1000)
        .with(MEMORY, memory)
        .with(EPHEMERAL_STORAGE, disk)
        .with(PODS, MOST_PODS);
    // No client has seen the number of GPUs on the wire; a GPU server has at least one.
    let gpus = told.gpu.count().unwrap_or(0);
    let gpus = gpus.max(u32::from(category(&class.metadata.name) == "gpu"));
    if gpus > 0 {
        capacity.set(NVIDIA_GPU, i64::from(gpus));
    }
    let overhead = Resources::new()
        .with(CPU, KEPT_CPU_MILLIS)
        .with(MEMORY, KEPT_MEMORY)
        .with(
            EPHEMERAL_STORAGE,
            KEPT_DISK + disk / 100 * EVICTION_DISK_PERCENT,
        );
    Some((capacity, overhead))
}

/// The labels of a class beside type, zone and region.
pub fn type_labels(class: &ServerClass) -> Labels {
    let name = class.metadata.name.as_str();
    Labels::from([
        (labels::ARCH.into(), "amd64".into()),
        (labels::OS.into(), "linux".into()),
        (CLASS_LABEL.into(), name.into()),
        (CATEGORY_LABEL.into(), category(name).into()),
    ])
}

/// The category of a class by its name: `gp`, `ch`, `mh`, `gpu`, or `bm` for bare metal of any kind.
pub fn category(class: &str) -> &str {
    let mut parts = class.split('.');
    let first = parts.next().unwrap_or_default();
    if parts.next().is_some_and(|family| family.starts_with("bm")) {
        "bm"
    } else {
        first
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(change: impl FnOnce(&mut Value)) -> ServerClass {
        let mut value = json!({
            "metadata": {"name": "gp.vs1.large-ord"},
            "spec": {"region": "us-central-ord-1", "availability": "available", "category": "general",
                "flavorType": "vm", "minBidPricePerHour": "0.01",
                "onDemandPricing": {"cost": "0.11", "interval": "1h"},
                "provider": {"providerFlavorID": "general1-15", "providerType": "ospc"},
                "resources": {"cpu": "4", "memory": "15GB", "disk": "60GB"}},
            "status": {"available": 37, "capacity": 240, "reserved": 203, "lastAuction": 1_787_400_000,
                "spotPricing": {"marketPricePerHour": "0.008", "hammerPricePerHour": "0.01"}}});
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    fn made(class: ServerClass) -> Vec<InstanceType> {
        let (book, lessons, policy) = (Book::default(), Lessons::default(), BidPolicy::default());
        let knowledge = Knowledge {
            book: &book,
            lessons: &lessons,
            policy: &policy,
            max_age: Duration::from_hours(6),
            now: Timestamp::UNIX_EPOCH,
        };
        catalog(
            &"rackspace".into(),
            "us-central-ord-1",
            &[class],
            &knowledge,
        )
        .types
    }

    #[test]
    fn a_class_is_offered_at_what_a_winner_pays_and_on_demand() {
        let kind = made(class(|_| {})).remove(0);
        let offers: Vec<String> = kind
            .offerings
            .iter()
            .map(|one| format!("{} {} {:?}", one.capacity_type, one.price, one.left))
            .collect();
        assert_eq!(
            offers,
            ["spot $0.0100 Some(37)", "on-demand $0.1100 Some(37)"]
        );
        let stock = "rackspace/us-central-ord-1/gp.vs1.large-ord";
        let stocks = kind.offerings.iter().map(|one| one.stock.as_deref());
        assert!(stocks.eq([Some(stock); 2]), "both are the same servers");
        assert_eq!(&*kind.offerings[0].zone, "us-central-ord-1");
        assert_eq!(&*kind.labels[CATEGORY_LABEL], "gp");
    }

    #[test]
    fn bare_metal_cannot_be_bid_on() {
        let kinds = made(class(|value| {
            value["metadata"]["name"] = json!("gp.bm2.small-iad");
            value["spec"]["minBidPricePerHour"] = json!("");
            value["status"]["spotPricing"]["marketPricePerHour"] = json!("0.005");
        }));
        let types: Vec<_> = kinds[0]
            .offerings
            .iter()
            .map(|one| one.capacity_type)
            .collect();
        assert_eq!(types, [CapacityType::OnDemand]);
        assert_eq!(category("gp.bm2.small-iad"), "bm");
        assert_eq!(category("io.bm2-iad"), "bm");
    }

    #[test]
    fn what_is_not_sold_is_listed_and_marked() {
        for (field, value) in [
            ("availability", json!("unavailable")),
            ("availability", json!("")),
        ] {
            let kinds = made(class(|class| class["spec"][field] = value));
            assert!(kinds[0].offerings.iter().all(|one| !one.available));
        }
        let kinds = made(class(|class| class["status"]["available"] = json!(0)));
        assert!(kinds[0].offerings.iter().all(|one| !one.available));
    }

    #[test]
    fn an_unknown_price_is_no_offering() {
        let kinds = made(class(|class| {
            class["status"]["spotPricing"] = json!({});
            class["spec"]["onDemandPricing"] = json!({"cost": "80", "interval": "1month"});
        }));
        assert!(kinds.is_empty());
    }

    #[test]
    fn classes_of_other_regions_are_left_out() {
        assert!(made(class(|class| class["spec"]["region"] = json!("uk-lon-1"))).is_empty());
    }

    /// Capacity and allocatable in KiB of nodes that users have measured.
    #[test]
    fn no_more_is_promised_than_real_nodes_have() {
        for (memory, capacity, allocatable) in [
            ("3.75GB", 3_810_024, 2_659_048),
            ("7.5GB", 7_608_292, 0),
            ("30GB", 30_795_724, 29_644_748),
        ] {
            let kind = made(class(|class| {
                class["spec"]["resources"]["memory"] = json!(memory);
            }))
            .remove(0);
            assert!(kind.capacity.get(MEMORY) <= capacity * 1024, "{memory}");
            assert!(
                kind.capacity.get(MEMORY) * 100 >= capacity * 1024 * 97,
                "{memory} wastes more than three percent"
            );
            if allocatable > 0 {
                assert!(
                    kind.allocatable().get(MEMORY) <= allocatable * 1024,
                    "{memory}"
                );
            }
            assert_eq!(kind.allocatable().get(CPU), 3500);
            assert_eq!(kind.allocatable().get(PODS), 110);
        }
    }

    #[test]
    fn a_gpu_server_has_a_gpu() {
        let gpu = class(|class| class["metadata"]["name"] = json!("gpu.vs2.xlargeplusplus-sjc"));
        assert_eq!(size(&gpu).unwrap().0.get(NVIDIA_GPU), 1);
    }
}
