//! A cloud that sells simulated machines: it has a catalogue, a market, stock-outs and interruptions, and what it
//! sells boots as a simulated kubelet.
//!
//! Everything that happens is a function of the seed and the clock, so a run can be repeated byte for byte.

mod catalog;
mod ledger;
mod machines;
mod market;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use joiner_core::plan::Purchase;
use joiner_core::problem::{Catalog, InstanceType, Offering};
use joiner_providers::{
    LaunchRequest, Ledger, Machine, MachineId, MachineState, MemoryLedger, NodeLink, Notice,
    Provider, ProviderError, RepairPolicy, Timeouts, Uid,
};
use rand::RngExt;
use tokio::sync::Notify;

pub use self::catalog::{CatalogError, built_in, read_kwok};
pub use self::machines::Sold;
use self::machines::{Machines, Order};
pub use self::market::Market;
use self::market::Stream;
use super::watched::{CloudEvent, Observer, Watched};
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::{Kubelets, NodeSpec};

/// What a machine plugs into: where simulated kubelets run.
pub trait Rack: Send + Sync {
    /// Switches a machine on.
    fn boot(&self, spec: NodeSpec);
    /// Cuts a machine off.
    fn kill(&self, name: &str);
}

impl Rack for Kubelets {
    fn boot(&self, spec: NodeSpec) {
        Kubelets::boot(self, spec);
    }

    fn kill(&self, name: &str) {
        Kubelets::kill(self, name);
    }
}

/// How the cloud behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct SimCloudOptions {
    /// What it sells.
    pub catalog: Catalog,
    /// How prices and stock move.
    pub market: Market,
    /// The quickest that a machine becomes a node.
    pub boot_min: Duration,
    /// The slowest.
    pub boot_max: Duration,
    /// How long a machine may take to become a node before it is given up; `None` for ample time.
    pub registration: Option<Duration>,
    /// Whether the catalogue shows what is sold out; otherwise that is found out by wanting to buy.
    pub shows_stock: bool,
    /// From registration to ready.
    pub ready_after: Duration,
    /// From the order to terminate until the machine is gone.
    pub stop_after: Duration,
    /// Annotations of every node.
    pub annotations: BTreeMap<String, String>,
    /// In a hundred launches, so many are refused for no reason that would last.
    pub refused_percent: u32,
    /// In a hundred launches, so many never become a node.
    pub stillborn_percent: u32,
    /// Sells a second machine to who asks twice with one UID: a broken cloud, for tests that must notice.
    pub forgets_orders: bool,
}

impl SimCloudOptions {
    /// A calm cloud: fixed prices, endless stock, machines that boot within a minute.
    pub fn calm(catalog: Catalog, seed: u64) -> Self {
        SimCloudOptions {
            catalog,
            market: Market::calm(seed),
            boot_min: Duration::from_secs(20),
            boot_max: Duration::from_mins(1),
            registration: None,
            shows_stock: true,
            ready_after: Duration::from_secs(5),
            stop_after: Duration::from_secs(5),
            annotations: BTreeMap::new(),
            refused_percent: 0,
            stillborn_percent: 0,
            forgets_orders: false,
        }
    }
}

impl SimCloudOptions {
    /// Whether a launch is refused at this second; another second, another draw.
    fn refuses(&self, uid: &Uid, now: Timestamp) -> bool {
        let mut random = self.market.random(Stream::Refused, &uid.0, now.as_second());
        random.random_range(0..100) < self.refused_percent
    }
}

struct Inner {
    options: SimCloudOptions,
    machines: Machines,
    /// The term whose machines these are.
    term: Option<u64>,
    /// Gone, and perhaps still in the ledger.
    forget: Vec<MachineId>,
    observers: Vec<Observer>,
}

impl Inner {
    fn tell(&mut self, event: &CloudEvent) {
        for observe in &mut self.observers {
            observe(event);
        }
    }
}

/// The cloud. Cheap to clone; clones are the same cloud.
#[derive(Clone)]
pub struct SimCloud {
    inner: Arc<Mutex<Inner>>,
    clock: Clock,
    rack: Arc<dyn Rack>,
    ledger: Arc<dyn Ledger>,
    opening: Arc<tokio::sync::Mutex<()>>,
    changed: Arc<Notify>,
}

/// How soon to look again whether the ledger can be read, or whose term it is.
const LOOK: SignedDuration = SignedDuration::from_secs(1);

/// How long a launch may take.
const LAUNCH: Duration = Duration::from_mins(5);

const REPAIR: [RepairPolicy; 3] = [
    RepairPolicy {
        condition: "Ready",
        status: "False",
        tolerated: Duration::from_mins(10),
    },
    RepairPolicy {
        condition: "Ready",
        status: "Unknown",
        tolerated: Duration::from_mins(10),
    },
    // As a problem detector on the node reports it.
    RepairPolicy {
        condition: "NetworkingReady",
        status: "False",
        tolerated: Duration::from_mins(10),
    },
];

impl SimCloud {
    /// Opens the cloud. Nothing boots until [`SimCloud::run`] is polled.
    pub fn new(options: SimCloudOptions, clock: Clock, rack: Arc<dyn Rack>) -> Self {
        Self::remembering(options, clock, rack, Arc::new(MemoryLedger::default()))
    }

    /// Opens the cloud that `ledger` remembers, each time that its term begins.
    pub fn remembering(
        options: SimCloudOptions,
        clock: Clock,
        rack: Arc<dyn Rack>,
        ledger: Arc<dyn Ledger>,
    ) -> Self {
        let inner = Inner {
            options,
            machines: Machines::default(),
            term: None,
            forget: Vec::new(),
            observers: Vec::new(),
        };
        SimCloud {
            inner: Arc::new(Mutex::new(inner)),
            clock,
            rack,
            ledger,
            opening: Arc::default(),
            changed: Arc::default(),
        }
    }

    /// Sees to it that what is known is of this term.
    async fn open(&self) -> Result<(), ProviderError> {
        let Some(term) = self.ledger.term() else {
            return Err(ProviderError::Transient(
                "another process plays this cloud".to_owned(),
            ));
        };
        if self.lock().term == Some(term) {
            return Ok(());
        }
        let _first = self.opening.lock().await;
        if self.lock().term == Some(term) {
            return Ok(());
        }
        self.hand_over();
        let known = ledger::load(&*self.ledger).await?;
        let mut inner = self.lock();
        inner.machines.resume(known);
        inner.term = Some(term);
        drop(inner);
        self.changed.notify_one();
        Ok(())
    }

    /// Goes silent: the machines of a term that has ended are another's.
    fn hand_over(&self) {
        let mut inner = self.lock();
        let orders = inner.machines.hand_over();
        inner.term = None;
        inner.forget.clear();
        drop(inner);
        self.carry_out(orders);
    }

    /// Writes down what is known of a machine.
    async fn store(&self, sold: &Sold) -> Result<(), ProviderError> {
        ledger::store(&*self.ledger, sold).await?;
        self.lock().machines.stored(sold.id());
        self.changed.notify_one();
        Ok(())
    }

    /// Boots, interrupts and buries machines when their time comes, until it is dropped.
    pub async fn run(&self) {
        loop {
            let next = if let Err(error) = self.open().await {
                match self.ledger.term() {
                    Some(_) => tracing::warn!(%error, "the machines are not known yet"),
                    None => self.hand_over(),
                }
                Some(
                    self.clock
                        .now()
                        .saturating_add(LOOK)
                        .unwrap_or(Timestamp::MAX),
                )
            } else {
                self.act().await
            };
            let changed = self.changed.notified();
            let wait = next.map(|at| until(self.clock.now(), at));
            tokio::select! {
                biased;
                () = changed => {}
                () = tokio::time::sleep(wait.unwrap_or(Duration::MAX)), if wait.is_some() => {}
            }
        }
    }

    /// Changes how the cloud behaves from now on: a price jump, a stock-out, a new catalogue.
    pub fn change(&self, change: impl FnOnce(&mut SimCloudOptions)) {
        change(&mut self.lock().options);
        self.changed.notify_one();
    }

    /// Announces that a machine will be taken away, as if the market had asked for it back.
    pub fn interrupt(&self, id: &MachineId) {
        let now = self.clock.now();
        let mut inner = self.lock();
        let notice = inner.options.market.notice;
        inner.machines.interrupt(id, now, notice);
        drop(inner);
        self.changed.notify_one();
    }

    /// Puts a machine there that somebody else runs: it bears no mark of ours and becomes no node.
    pub async fn plant(&self, name: &str) -> Option<MachineId> {
        self.open().await.ok()?;
        let now = self.clock.now();
        let mut inner = self.lock();
        let kind = inner.options.catalog.types.first()?.clone();
        let offering = kind.offerings.first()?.clone();
        let id = MachineId(format!("sim:///{}/{name}", offering.zone).into());
        inner.machines.plant(Machine {
            id: id.clone(),
            uid: None,
            state: MachineState::Running,
            links: vec![NodeLink::ProviderId(id.0.clone())],
            allocatable: kind.allocatable(),
            instance_type: kind.name,
            zone: offering.zone,
            region: offering.region,
            capacity_type: offering.capacity_type,
            price: Some(offering.price),
            capacity: kind.capacity,
            labels: kind.labels,
            created: Some(now),
        });
        Some(id)
    }

    /// Every machine there is, marked or not: the truth that leak checks compare with.
    pub fn machines(&self) -> Vec<Machine> {
        let now = self.clock.now();
        self.lock().machines.list(now)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is due and says when to come again.
    async fn act(&self) -> Option<Timestamp> {
        let now = self.clock.now();
        let (orders, next) = self.lock().machines.due(now);
        self.carry_out(orders);
        let forget = std::mem::take(&mut self.lock().forget);
        let mut left = Vec::new();
        for id in forget {
            if ledger::erase(&*self.ledger, &id).await.is_err() {
                left.push(id);
            }
        }
        let again = (!left.is_empty() || self.ledger.may_end())
            .then(|| now.saturating_add(LOOK).unwrap_or(Timestamp::MAX));
        self.lock().forget.extend(left);
        [next, again].into_iter().flatten().min()
    }

    fn carry_out(&self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Boot(spec) => {
                    self.lock().tell(&CloudEvent::Booted(spec.name.clone()));
                    self.rack.boot(*spec);
                }
                Order::Kill(name) => self.rack.kill(&name),
                Order::Forget { id, taken } => {
                    let mut inner = self.lock();
                    inner.forget.push(id.clone());
                    inner.tell(&CloudEvent::Gone { id, taken });
                }
            }
        }
    }

    /// The machine of a request: the one that was sold for it already, or a new one.
    fn sell(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        let now = self.clock.now();
        let mut inner = self.lock();
        if !inner.options.forgets_orders
            && let Some(machine) = inner.machines.by_uid(&request.uid, now)
        {
            return Ok(machine);
        }
        let (kind, offering) = inner.find(request)?;
        let offering = inner.options.market.quote(&kind.name, offering, now);
        if !offering.available {
            return Err(ProviderError::OutOfCapacity(format!(
                "{} as {} in {} is sold out",
                kind.name, offering.capacity_type, offering.zone
            )));
        }
        if inner.options.refuses(&request.uid, now) {
            return Err(ProviderError::Transient(
                "the launch failed, try again".to_owned(),
            ));
        }
        let kind = kind.clone();
        let options = inner.options.clone();
        let machine = inner
            .machines
            .launch(request, &kind, &offering, &options, now);
        inner.tell(&CloudEvent::Launched(Box::new(machine.clone())));
        Ok(machine)
    }
}

fn until(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO)
}

impl Inner {
    /// The type and offering that a request names.
    fn find(&self, request: &LaunchRequest) -> Result<(&InstanceType, &Offering), ProviderError> {
        let wanted = &request.purchase;
        let kind = self
            .options
            .catalog
            .types
            .iter()
            .find(|kind| kind.name == wanted.instance_type)
            .ok_or_else(|| {
                ProviderError::Invalid(format!(
                    "there is no instance type {:?}",
                    wanted.instance_type
                ))
            })?;
        let offering = kind
            .offerings
            .iter()
            .find(|one| one.zone == wanted.zone && one.capacity_type == wanted.capacity_type)
            .ok_or_else(|| {
                ProviderError::Invalid(format!(
                    "{} is not sold as {} in zone {:?}",
                    kind.name, wanted.capacity_type, wanted.zone
                ))
            })?;
        Ok((kind, offering))
    }
}

#[async_trait]
impl Watched for SimCloud {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn observe(&self, observer: Observer) {
        self.lock().observers.push(observer);
    }

    fn marked(&self) -> Vec<MachineId> {
        let all = self.machines().into_iter();
        all.filter(|one| one.uid.is_some())
            .map(|one| one.id)
            .collect()
    }

    fn interrupt(&self, id: &MachineId) {
        SimCloud::interrupt(self, id);
    }

    fn calm(&self) {
        let now = self.clock.now();
        let mut inner = self.lock();
        let seed = inner.options.market.seed;
        inner.options.market = Market::calm(seed);
        inner.options.refused_percent = 0;
        inner.options.stillborn_percent = 0;
        inner.machines.keep(now);
        drop(inner);
        self.changed.notify_one();
    }

    async fn plant(&self, name: &str) {
        let _ = SimCloud::plant(self, name).await;
    }

    async fn run(&self) {
        SimCloud::run(self).await;
    }
}

#[async_trait]
impl Provider for SimCloud {
    fn name(&self) -> &'static str {
        "sim"
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        let now = self.clock.now();
        let inner = self.lock();
        let mut catalog = inner.options.catalog.clone();
        for kind in &mut catalog.types {
            for offering in &mut kind.offerings {
                *offering = inner.options.market.quote(&kind.name, offering, now);
                offering.available |= !inner.options.shows_stock;
            }
        }
        Ok(catalog)
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        self.open().await?;
        let machine = self.sell(request)?;
        let unstored = self.lock().machines.unstored(&machine.id);
        if let Some(sold) = unstored {
            self.store(&sold).await?;
        }
        Ok(machine)
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        self.open().await?;
        let now = self.clock.now();
        let (first, unstored) = {
            let mut inner = self.lock();
            let stop_after = inner.options.stop_after;
            let first = inner.machines.terminate(id, now, stop_after);
            if first == Some(true) {
                inner.tell(&CloudEvent::Terminating(id.clone()));
            }
            (first, inner.machines.unstored(id))
        };
        if let Some(sold) = unstored {
            self.store(&sold).await?;
        }
        first.map(drop).ok_or_else(|| gone(id))
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        self.open().await?;
        let now = self.clock.now();
        self.lock().machines.get(id, now).ok_or_else(|| gone(id))
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        self.open().await?;
        Ok(self.machines())
    }

    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError> {
        let inner = self.lock();
        let sold = inner
            .options
            .catalog
            .types
            .iter()
            .any(|kind| kind.name == machine.instance_type);
        Ok((!sold).then(|| {
            format!(
                "instance type {} is not sold any more",
                machine.instance_type
            )
        }))
    }

    async fn notices(&self) -> Result<Vec<Notice>, ProviderError> {
        self.open().await?;
        let now = self.clock.now();
        let mut inner = self.lock();
        for id in inner.machines.hear(now) {
            inner.tell(&CloudEvent::Announced(id));
        }
        Ok(inner.machines.notices(now))
    }

    fn timeouts(&self, _: &Purchase) -> Timeouts {
        let (given, slowest) = {
            let options = &self.lock().options;
            (options.registration, options.boot_max)
        };
        Timeouts {
            // A machine that boots is not launched yet.
            launch: given.map_or(LAUNCH, |given| given.min(LAUNCH)),
            registration: given.unwrap_or(slowest * 3 + Duration::from_mins(5)),
        }
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &REPAIR
    }
}

fn gone(id: &MachineId) -> ProviderError {
    ProviderError::NotFound(format!("there is no machine {id}"))
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests;
