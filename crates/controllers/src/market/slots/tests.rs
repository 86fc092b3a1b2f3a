use joiner_core::money::Money;
use joiner_core::problem::{CapacityType, Host, InstanceType, Offering, Range, UnitPrices};
use joiner_core::resources::Resources;
use joiner_providers::MachineId;

use super::*;
use crate::dialect::ClassKind;
use crate::edge::ledger::MemoryLedgers;

fn offering(price: Money) -> Offering {
    Offering {
        zone: "a".into(),
        region: "".into(),
        capacity_type: CapacityType::OnDemand,
        price,
        available: true,
        left: None,
        reservation: None,
        stock: None,
    }
}

fn range(name: &str, prices: UnitPrices) -> Range {
    Range {
        name: name.into(),
        labels: joiner_core::name::Labels::new(),
        region: "".into(),
        capacity_type: CapacityType::OnDemand,
        min: Resources::new(),
        max: Resources::new(),
        step: Resources::new(),
        overhead: Resources::new(),
        prices,
        hosts: vec![Host {
            name: "host".into(),
            zone: "a".into(),
            free: Resources::new(),
            stock: "".into(),
        }],
        left: None,
    }
}

#[test]
fn what_costs_nothing_cannot_be_bought() {
    let cent = Money::from_dollars(0.01);
    let per_core = UnitPrices {
        core: cent,
        ..UnitPrices::default()
    };
    let mut catalog = Catalog {
        types: vec![InstanceType {
            name: "type".into(),
            offerings: vec![
                offering(cent),
                offering(Money::ZERO),
                offering(Money::from_nanos(-1)),
            ],
            ..InstanceType::default()
        }],
        ranges: vec![
            range("free", UnitPrices::default()),
            range("paid", per_core),
        ],
        ..Catalog::default()
    };
    sanitize(&mut catalog);
    let available = |one: &Offering| one.available;
    let offerings = &catalog.types[0].offerings;
    let sold: Vec<bool> = offerings.iter().map(available).collect();
    assert_eq!(sold, [true, false, false]);
    assert!(offerings.iter().all(|one| one.price >= Money::ZERO));
    let ranges: Vec<&str> = catalog.ranges.iter().map(|one| &*one.name).collect();
    assert_eq!(ranges, ["paid"]);
}

struct FixedClock(Mutex<Timestamp>);

impl clock::Clock for FixedClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }
}

struct NoSecrets;

#[async_trait]
impl Secrets for NoSecrets {
    async fn get(&self, _: &str, _: &str, _: &str) -> Result<String, String> {
        Err("there is none".to_owned())
    }
}

/// Sells nothing.
struct Empty;

#[async_trait]
impl Provider for Empty {
    fn name(&self) -> &'static str {
        "empty"
    }
    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        Ok(Catalog::default())
    }
    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        Err(ProviderError::OutOfCapacity(request.name.to_string()))
    }
    async fn terminate(&self, _: &MachineId) -> Result<(), ProviderError> {
        Ok(())
    }
    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        Err(ProviderError::NotFound(id.to_string()))
    }
    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        Ok(Vec::new())
    }
    async fn drift(&self, _: &Machine) -> Result<Option<String>, ProviderError> {
        Ok(None)
    }
}

struct Every(&'static str, Option<Duration>);

#[async_trait]
impl ClassFactory for Every {
    fn kind(&self) -> ClassKind {
        ClassKind {
            group: "joiner.dev",
            version: "v1alpha1",
            kind: self.0,
            plural: self.0,
        }
    }

    fn period(&self) -> Option<Duration> {
        self.1
    }

    async fn build(
        &self,
        _: &ClassRecord,
        _: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        Ok(Arc::new(Empty))
    }
}

#[tokio::test]
async fn each_cloud_has_its_catalogue_read_in_its_own_time() {
    let clock = Arc::new(FixedClock(Mutex::new(Timestamp::UNIX_EPOCH)));
    let hour = Duration::from_hours(1);
    let factories: Vec<Arc<dyn ClassFactory>> = vec![
        Arc::new(Every("Slow", Some(hour))),
        Arc::new(Every("Usual", None)),
    ];
    let classes = Classes::new(
        factories,
        Arc::new(NoSecrets),
        Arc::new(MemoryLedgers),
        "cluster".into(),
        clock.clone(),
    );
    for kind in ["Slow", "Usual"] {
        let record = ClassRecord {
            key: ClassKey {
                group: "joiner.dev".into(),
                kind: kind.into(),
                namespace: "".into(),
                name: "one".into(),
            },
            uid: kind.into(),
            version: 1,
            generation: 1,
            deleting: false,
            finalizers: Vec::new(),
            ready: None,
            spec: Arc::default(),
        };
        classes.build(&record).await;
    }
    let usual = Duration::from_secs(30);
    let due = |seconds| {
        *clock.0.lock().unwrap() = Timestamp::from_second(seconds).unwrap();
        let due = classes.due(usual);
        due.iter()
            .map(|slot| slot.key.kind.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(due(0), ["Slow", "Usual"], "none was ever read");
    for slot in classes.slots() {
        classes.refresh(&slot).await;
    }
    assert_eq!(due(29), [""; 0]);
    assert_eq!(due(30), ["Usual"]);
    assert_eq!(due(3599), ["Usual"]);
    assert_eq!(due(3600), ["Slow", "Usual"]);
    assert_eq!(classes.shortest_period(usual), usual);
    assert_eq!(classes.shortest_period(hour * 2), hour);
}
