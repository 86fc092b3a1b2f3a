//! OVHcloud Managed Kubernetes: nodes that come and go in node pools.
//!
//! ```text
//!  request ── Shape ──► pool karpenter-<flavour>-<zone>-<digest>[-n]   (shared by machines that are alike)
//!     │                    ▲ PUT desiredNodes = machines of the pool, nodesToRemove = nodes of those that leave
//!     ▼                    │
//!  ledger: uid → pool, node ◄── one shared reading of pools and nodes ── GET nodepool, GET node
//! ```

mod auth;
pub mod client;
pub mod errors;
pub mod flavors;
mod fleet;
mod leave;
mod operate;
mod options;
mod pace;
pub mod pools;
pub mod prices;
mod site;
mod slot;
pub mod table;
pub mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::plan::Purchase;
use joiner_core::problem::{CapacityType, Catalog, InstanceType, Offering, Quota};
use joiner_core::resources::{CPU, MEMORY, Resources};
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

pub use self::auth::{CredentialSource, Credentials, signature};
use self::client::Client;
use self::errors::Meaning;
use self::fleet::{Entry, Fleet, NODE_APPEARS, passed};
use self::operate::{FRESH, Wanted};
pub use self::options::{OvhOptions, endpoint};
pub use self::pace::Pace;
use self::pools::{BARE_MARK, SINGLE_ZONE, machine_id, parse_id, stray_uid};
use self::prices::{Plan, PriceList, Prices};
pub use self::site::Site;
use self::slot::Slot;
use self::types::{KubeFlavor, Node, NovaFlavor};
use crate::http::Http;
use crate::{
    LaunchRequest, Machine, MachineId, MachineState, NodeLink, Provider, ProviderError,
    RepairPolicy, Timeouts, Uid,
};

/// How long lists of flavours are used.
const FLAVORS_TRUST: Duration = Duration::from_mins(1);
/// How long stock and disks are used.
const STOCK_TRUST: Duration = Duration::from_mins(5);
/// How long a reading may be old when machines are placed.
const PLACING: Duration = Duration::from_secs(30);
/// Machines that one call may buy.
const BATCH: usize = 100;

const REPAIR: [RepairPolicy; 2] = [
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
];

/// Says what time it is: the system's clock, or a simulation's.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// What refusals have taught.
#[derive(Default)]
struct Lessons {
    /// Flavour and zone that were out of stock, and when.
    sold_out: BTreeMap<(String, String), Timestamp>,
    /// The smallest number of cores that was too much, and when.
    over_quota: Option<(u32, Timestamp)>,
    /// Cores by flavour.
    cores: BTreeMap<String, u32>,
    /// Flavours with GPUs.
    gpus: BTreeSet<String>,
    no_monthly: BTreeSet<String>,
    zoned: Option<bool>,
    most_pools: Option<usize>,
    room: BTreeMap<String, usize>,
    /// Optional calls that are not granted.
    refused: BTreeMap<&'static str, Timestamp>,
}

/// One cluster of OVHcloud Managed Kubernetes.
pub struct Ovh {
    options: OvhOptions,
    client: Client,
    clock: Clock,
    prices: Prices,
    site: OnceCell<Site>,
    zones: AsyncMutex<Slot<Vec<String>>>,
    flavors: AsyncMutex<Slot<Vec<KubeFlavor>>>,
    stock: AsyncMutex<Slot<BTreeMap<String, NovaFlavor>>>,
    lessons: Mutex<Lessons>,
    fleet: AsyncMutex<Fleet>,
    /// Machines to be removed: whoever holds the fleet takes them all in one go.
    leaving: Mutex<Vec<Uid>>,
}

/// What is known about flavours when machines are shown.
struct Facts {
    flavors: Arc<Vec<KubeFlavor>>,
    stock: Arc<BTreeMap<String, NovaFlavor>>,
    prices: Arc<PriceList>,
    multi_zone: bool,
}

impl Facts {
    fn flavor(&self, name: &str) -> Option<&KubeFlavor> {
        self.flavors.iter().find(|flavor| flavor.name == name)
    }

    /// The name of a flavour that may be given by its UUID.
    fn name<'a>(&'a self, text: &'a str) -> &'a str {
        self.stock
            .values()
            .find(|flavor| flavor.id == text)
            .map_or(text, |flavor| flavor.name.as_str())
    }

    fn price(&self, flavor: &str, monthly: bool) -> Option<Money> {
        let codes = self.stock.get(flavor).map(|one| &one.plan_codes);
        let code = codes.and_then(|codes| {
            if monthly {
                codes.monthly.as_deref()
            } else {
                codes.hourly.as_deref()
            }
        });
        self.prices.hour(Plan {
            flavor,
            code,
            monthly,
            multi_zone: self.multi_zone,
        })
    }

    fn sizes(&self, flavor: &str) -> (Resources, Resources) {
        let disk = self.stock.get(flavor).map(|one| one.disk);
        self.flavor(flavor)
            .map(|flavor| flavors::sizes(flavor, disk))
            .unwrap_or_default()
    }
}

impl Ovh {
    /// A provider that talks through `http`. Nothing is sent yet.
    pub fn new(http: Http, options: OvhOptions, clock: Clock) -> Result<Self, ProviderError> {
        options.check()?;
        Ok(Ovh {
            client: Client::new(http, &options, Clock::clone(&clock)),
            prices: Prices::new(options.subsidiary.clone()),
            clock,
            site: OnceCell::new(),
            zones: AsyncMutex::default(),
            flavors: AsyncMutex::default(),
            stock: AsyncMutex::default(),
            lessons: Mutex::default(),
            fleet: AsyncMutex::default(),
            leaving: Mutex::default(),
            options,
        })
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn lessons(&self) -> MutexGuard<'_, Lessons> {
        self.lessons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Flavours from the cache.
    async fn flavors(&self) -> Result<Arc<Vec<KubeFlavor>>, ProviderError> {
        let mut slot = self.flavors.lock().await;
        let now = self.now();
        if let Some(value) = slot.fresh(now, FLAVORS_TRUST) {
            return Ok(value);
        }
        if slot.held(now).is_none() {
            let site = self.site().await?;
            match self.client.flavors(&site.kube, &site.region).await {
                Ok(all) => {
                    let mut all: Vec<KubeFlavor> =
                        all.into_iter().filter(flavors::is_usable).collect();
                    all.sort_by(|a, b| a.name.cmp(&b.name));
                    all.dedup_by(|a, b| a.name == b.name);
                    self.learn_flavors(&all);
                    return Ok(slot.keep(all, now));
                }
                Err(refused) => {
                    tracing::warn!(error = %refused.error, "flavours stay what they were");
                    slot.failed = Some((self.now(), refused.error));
                }
            }
        }
        match (slot.held(now).cloned(), slot.value()) {
            // A person must act: it must show.
            (Some(error), _) if !error.passes() => Err(error),
            (_, Some(value)) => Ok(value),
            (Some(error), None) => Err(error),
            (None, None) => Err(ProviderError::Transient("no flavours are known".to_owned())),
        }
    }

    fn learn_flavors(&self, all: &[KubeFlavor]) {
        let mut lessons = self.lessons();
        lessons.cores = all
            .iter()
            .map(|flavor| (flavor.name.clone(), flavor.vcpus))
            .collect();
        lessons.gpus = all
            .iter()
            .filter(|flavor| flavor.gpus > 0)
            .map(|flavor| flavor.name.clone())
            .collect();
    }

    /// Disks, stock and plan codes, where the credentials may ask.
    async fn stock(&self) -> Arc<BTreeMap<String, NovaFlavor>> {
        let mut slot = self.stock.lock().await;
        let now = self.now();
        if let Some(value) = slot.fresh(now, STOCK_TRUST) {
            return value;
        }
        let kept = slot.value().unwrap_or_default();
        let Ok(site) = self.site().await else {
            return kept;
        };
        if slot.held(now).is_some() || !self.may_try("GET flavor", now) {
            return kept;
        }
        match self.client.nova_flavors(&site.region).await {
            Ok(all) => {
                let value: BTreeMap<String, NovaFlavor> = all
                    .into_iter()
                    .filter(|flavor| flavor.os_type != "windows")
                    .map(|flavor| (flavor.name.clone(), flavor))
                    .collect();
                slot.keep(value, now)
            }
            Err(refused) => {
                if let Meaning::NotGranted(call) = &refused.meaning {
                    self.note_refused("GET flavor", call, now);
                }
                slot.failed = Some((self.now(), refused.error));
                kept
            }
        }
    }

    async fn facts(&self) -> Result<Facts, ProviderError> {
        Ok(Facts {
            flavors: self.flavors().await?,
            stock: self.stock().await,
            prices: self.prices.list(&self.client, self.now()).await,
            multi_zone: self.zones().await?.len() > 1,
        })
    }

    /// Name of the quota that all flavours of a project in a region count against, whichever class buys them.
    fn cores(&self, region: &str) -> Name {
        format!("ovhcloud/{}/{region}/cores", self.options.service_name).into()
    }

    /// Cores that the project may still have, where the credentials may ask.
    async fn quota(&self, region: &str) -> Option<Quota> {
        let now = self.now();
        if !self.may_try("GET quota", now) {
            return None;
        }
        match self.client.quota(region).await {
            Ok(quotas) => {
                let cores = quotas.instance;
                let left = cores.max_cores? - cores.used_cores.unwrap_or(0);
                Some(Quota {
                    name: self.cores(region),
                    left: Resources::new().with(CPU, left.max(0) * 1000),
                })
            }
            Err(refused) => {
                if let Meaning::NotGranted(call) = &refused.meaning {
                    self.note_refused("GET quota", call, now);
                }
                None
            }
        }
    }

    /// The prices in use, for people.
    pub async fn price_list(&self) -> Arc<PriceList> {
        self.prices.list(&self.client, self.now()).await
    }

    fn instance_type(
        &self,
        flavor: &KubeFlavor,
        facts: &Facts,
        zones: &[String],
        region: &str,
    ) -> Option<InstanceType> {
        if flavor.gpus > 0 && !self.options.gpus {
            return None;
        }
        let now = self.now();
        let price = facts.price(&flavor.name, self.pays_monthly(&flavor.name))?;
        let stock = facts.stock.get(&flavor.name);
        let left = stock
            .and_then(|one| one.quota)
            .and_then(|quota| u32::try_from(quota.max(0)).ok());
        // The project may start so many in a region, whichever zone they are in and whichever class buys them.
        let shared: Option<Name> = left.map(|_| {
            let project = &self.options.service_name;
            format!("ovhcloud/{project}/{region}/{}", flavor.name).into()
        });
        let (capacity, overhead) = facts.sizes(&flavor.name);
        let sold = flavor.state == "available"
            && stock.is_none_or(|one| one.available != Some(false) && one.quota != Some(0));
        let offerings = zones
            .iter()
            .map(|zone| Offering {
                zone: zone.as_str().into(),
                region: region.into(),
                capacity_type: CapacityType::OnDemand,
                price,
                available: sold && self.shunned(&flavor.name, zone, now).is_none(),
                left,
                reservation: None,
                stock: shared.clone(),
            })
            .collect();
        let kind = InstanceType {
            name: flavor.name.as_str().into(),
            labels: flavors::type_labels(flavor),
            capacity,
            overhead,
            offerings,
            quotas: vec![self.cores(region)],
        };
        // The smallest flavours have less memory than the service keeps for itself.
        let free = kind.allocatable();
        (free.get(CPU) > 0 && free.get(MEMORY) > 0).then_some(kind)
    }

    /// Whether a request can be met at all.
    async fn check(&self, request: &LaunchRequest) -> Result<(), ProviderError> {
        let wanted = &request.purchase;
        let name = &*wanted.instance_type;
        let flavors = self.flavors().await?;
        let site = self.site().await?;
        let gone = |why: &str| ProviderError::OutOfCapacity(format!("{name}: {why}"));
        let flavor = flavors
            .iter()
            .find(|flavor| flavor.name == name)
            .ok_or_else(|| {
                ProviderError::Invalid(format!(
                    "flavour {name:?} is not sold in {}: choose one of status.discoveredFlavors",
                    site.region
                ))
            })?;
        if flavor.state != "available" {
            return Err(gone(&format!("it is not available in {}", site.region)));
        }
        let zones = self.zones().await?;
        if !zones.iter().any(|zone| **zone == *wanted.zone) {
            return Err(ProviderError::Invalid(format!(
                "zone {:?} is not one of {}",
                wanted.zone, site.region
            )));
        }
        if wanted.capacity_type != CapacityType::OnDemand {
            return Err(ProviderError::Invalid(
                "OVHcloud sells neither spot nor reserved capacity".to_owned(),
            ));
        }
        match self.shunned(name, &wanted.zone, self.now()) {
            Some(why) => Err(gone(why)),
            None => Ok(()),
        }
    }

    /// A machine of the ledger.
    fn shown(
        &self,
        fleet: &Fleet,
        site: &Site,
        uid: &Name,
        entry: &Entry,
        facts: Option<&Facts>,
    ) -> Machine {
        let node = entry
            .node
            .as_ref()
            .and_then(|id| fleet.nodes_of(&entry.pool).iter().find(|one| one.id == *id));
        let flavor = facts.map_or(entry.flavor.as_str(), |facts| facts.name(&entry.flavor));
        let (capacity, overhead) = facts.map(|facts| facts.sizes(flavor)).unwrap_or_default();
        let mut allocatable = capacity.clone();
        allocatable.subtract(&overhead);
        let monthly = fleet
            .pools
            .get(&entry.pool)
            .map_or_else(|| self.pays_monthly(flavor), |pool| pool.monthly_billed);
        let labels = facts
            .and_then(|facts| facts.flavor(flavor))
            .map_or_else(Labels::new, flavors::type_labels);
        Machine {
            id: machine_id(&site.kube, uid),
            uid: Some(Uid(uid.clone())),
            state: state(fleet, entry, node, self.now()),
            links: node
                .and_then(Node::provider_id)
                .map(|id| NodeLink::ProviderId(id.into()))
                .into_iter()
                .collect(),
            instance_type: flavor.into(),
            zone: entry.zone.as_str().into(),
            region: site.region.as_str().into(),
            capacity_type: CapacityType::OnDemand,
            price: facts.and_then(|facts| facts.price(flavor, monthly)),
            capacity,
            allocatable,
            labels,
            created: Some(entry.at),
        }
    }

    /// Takes the lock, with the ledger loaded and the reading no older than `age`.
    async fn fleet(
        &self,
        age: Duration,
    ) -> Result<tokio::sync::MutexGuard<'_, Fleet>, ProviderError> {
        let mut fleet = self.fleet.lock().await;
        self.load(&mut fleet).await?;
        self.refresh(&mut fleet, age).await?;
        Ok(fleet)
    }

    async fn launch_many(
        &self,
        requests: &[LaunchRequest],
    ) -> Result<Vec<Result<Machine, ProviderError>>, ProviderError> {
        let site = self.site().await?;
        let facts = self.facts().await?;
        let mut fleet = self.fleet(PLACING).await?;
        let mut wanted: Vec<Wanted<'_>> = requests
            .iter()
            .map(|request| Wanted {
                request,
                answer: None,
            })
            .collect();
        self.place(&mut fleet, &mut wanted).await?;
        let lost = || ProviderError::Transient("it was made and is gone again".to_owned());
        Ok(wanted
            .into_iter()
            .map(|one| {
                one.answer.unwrap_or(Ok(()))?;
                let uid = &one.request.uid.0;
                let entry = fleet.entries.get(uid).ok_or_else(lost)?;
                Ok(self.shown(&fleet, site, uid, entry, Some(&facts)))
            })
            .collect())
    }

    /// Whether machines of a flavour take long; also if nobody has said yet what the flavour is.
    fn is_slow(&self, flavor: &str) -> bool {
        let lessons = self.lessons();
        match table::find(flavor) {
            Some(row) => row.gpus > 0,
            None => lessons.cores.is_empty() || lessons.gpus.contains(flavor),
        }
    }

    /// How long machines of a flavour take.
    fn timeouts_of(&self, flavor: &str) -> Timeouts {
        if self.is_slow(flavor) {
            return Timeouts {
                launch: Duration::from_mins(90),
                registration: Duration::from_hours(2),
            };
        }
        Timeouts {
            launch: Duration::from_mins(15),
            registration: Duration::from_mins(25),
        }
    }
}

/// How far a machine has come.
fn state(fleet: &Fleet, entry: &Entry, node: Option<&Node>, now: Timestamp) -> MachineState {
    let pool = &entry.pool;
    if entry.leaving.is_some() {
        return MachineState::Stopping;
    }
    match node {
        Some(node) if node.is_leaving() => MachineState::Stopping,
        Some(node) if node.status == "FLAVOR_OUT_OF_STOCK_ERROR" => MachineState::Failed(format!(
            "out of stock: {} in {} cannot be had now (node pool {pool})",
            entry.flavor, entry.zone
        )),
        Some(node) if node.status == "USER_QUOTA_ERROR" => MachineState::Failed(format!(
            "the quota of the project is used up: raise it in the OVHcloud console (node pool {pool})"
        )),
        Some(node) if node.is_broken() && node.instance_id.is_empty() => {
            MachineState::Failed(format!(
                "node {} of node pool {pool} failed: {}",
                node.name, node.status
            ))
        }
        Some(node) if node.instance_id.is_empty() => MachineState::Pending(format!(
            "node {} of node pool {pool} is {}",
            node.name,
            node.status.to_ascii_lowercase()
        )),
        Some(_) => MachineState::Running,
        None => {
            let known = fleet.pools.get(pool);
            match known {
                Some(known) if known.status == "USER_QUOTA_ERROR" => MachineState::Failed(format!(
                    "the quota of the project is used up: raise it in the OVHcloud console (node pool {pool})"
                )),
                // Others of the pool may be why it says so: a node is waited for as long as one usually takes.
                Some(known) if known.is_broken() && passed(now, entry.at) >= NODE_APPEARS => {
                    MachineState::Failed(format!(
                        "node pool {pool} is in the state {} and has made no node for this machine",
                        known.status
                    ))
                }
                Some(known) => MachineState::Pending(format!(
                    "node pool {pool} is {}; its new node is not listed yet",
                    known.status.to_ascii_lowercase()
                )),
                None => MachineState::Pending(format!("node pool {pool} is being made")),
            }
        }
    }
}

#[async_trait]
impl Provider for Ovh {
    fn name(&self) -> &'static str {
        "ovhcloud"
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        let site = self.site().await?;
        let zones = self.zones().await?;
        let facts = self.facts().await?;
        let types = facts
            .flavors
            .iter()
            .filter_map(|flavor| self.instance_type(flavor, &facts, &zones, &site.region))
            .collect();
        let quota = self.quota(&site.region).await;
        let mut catalog = Catalog {
            name: self.options.catalog.clone(),
            types,
            quotas: quota.into_iter().collect(),
            ..Catalog::default()
        };
        if catalog.quotas.is_empty() {
            for kind in &mut catalog.types {
                kind.quotas.clear();
            }
        }
        Ok(catalog)
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        let mut answers = self.launch_many(std::slice::from_ref(request)).await?;
        answers
            .pop()
            .unwrap_or_else(|| Err(ProviderError::Transient("nothing was done".to_owned())))
    }

    async fn launch_all(&self, requests: &[LaunchRequest]) -> Vec<Result<Machine, ProviderError>> {
        match self.launch_many(requests).await {
            Ok(answers) => answers,
            Err(error) => requests.iter().map(|_| Err(error.clone())).collect(),
        }
    }

    fn launch_batch(&self) -> usize {
        BATCH
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        let site = self.site().await?;
        let uid = parse_id(&site.kube, id)?;
        let queue = || self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        queue().push(uid.clone());
        let mut fleet = self.fleet(FRESH).await?;
        let leaving = std::mem::take(&mut *queue());
        self.dismiss(&mut fleet, leaving).await?;
        let Some(entry) = fleet.entries.get(&uid.0) else {
            return Err(ProviderError::NotFound(format!("{id} is not there")));
        };
        let pool = entry.pool.clone();
        self.sync(&mut fleet, &pool, None).await?;
        if fleet.entries.contains_key(&uid.0) {
            Ok(())
        } else {
            Err(ProviderError::NotFound(format!("{id} is not there")))
        }
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        let site = self.site().await?;
        let uid = parse_id(&site.kube, id)?.0;
        let facts = self.facts().await.ok();
        let fleet = self.fleet(FRESH).await?;
        let entry = fleet
            .entries
            .get(&uid)
            .ok_or_else(|| ProviderError::NotFound(format!("{id} is not there")))?;
        Ok(self.shown(&fleet, site, &uid, entry, facts.as_ref()))
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        let site = self.site().await?;
        let facts = self.facts().await.ok();
        let fleet = self.fleet(FRESH).await?;
        let unread = fleet.unread();
        if unread > 0 {
            return Err(ProviderError::Transient(format!(
                "the nodes of {unread} node pools have not been read yet"
            )));
        }
        let mut machines: Vec<Machine> = fleet
            .entries
            .iter()
            .map(|(uid, entry)| self.shown(&fleet, site, uid, entry, facts.as_ref()))
            .collect();
        for pool in fleet.pools.values() {
            for node in fleet.strays(&pool.name) {
                let entry = Entry {
                    pool: pool.name.clone(),
                    flavor: pool.flavor.clone(),
                    zone: pool
                        .availability_zones
                        .first()
                        .cloned()
                        .unwrap_or_else(|| SINGLE_ZONE.to_owned()),
                    node: Some(node.id.clone()),
                    at: node.created_at.unwrap_or_else(|| self.now()),
                    leaving: None,
                };
                let uid: Name = stray_uid(&node.id).into();
                machines.push(self.shown(&fleet, site, &uid, &entry, facts.as_ref()));
            }
        }
        Ok(machines)
    }

    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError> {
        let site = self.site().await?;
        let uid = parse_id(&site.kube, &machine.id)?.0;
        let fleet = self.fleet(Duration::from_mins(1)).await?;
        let pool = fleet
            .entries
            .get(&uid)
            .and_then(|entry| fleet.pools.get(&entry.pool));
        let Some(pool) = pool else { return Ok(None) };
        let monthly = self.pays_monthly(&machine.instance_type);
        if pool.monthly_billed != monthly {
            let now = if monthly {
                "by the month"
            } else {
                "by the hour"
            };
            return Ok(Some(format!(
                "MonthlyBillingChanged: machines of the class are paid {now} now"
            )));
        }
        if pool.anti_affinity != self.options.anti_affinity {
            return Ok(Some(format!(
                "AntiAffinityChanged: antiAffinity of the class is {} now",
                self.options.anti_affinity
            )));
        }
        let template = &pool.template.metadata;
        let bare = template.annotations.contains_key(BARE_MARK);
        let tags = &self.options.tags;
        let missing = tags
            .iter()
            .find(|(key, value)| template.labels.get(*key) != Some(value));
        Ok(missing
            .filter(|_| !bare)
            .map(|(key, value)| format!("TagsChanged: the class asks for the tag {key}={value}")))
    }

    async fn concern(&self) -> Option<String> {
        self.prices.trouble().await
    }

    async fn prices_as_of(&self) -> Option<Timestamp> {
        self.prices.as_of().await
    }

    fn timeouts(&self, purchase: &Purchase) -> Timeouts {
        self.timeouts_of(&purchase.instance_type)
    }

    async fn close(&self) {
        self.leave().await;
    }

    async fn clear(&self) -> Result<(), ProviderError> {
        self.remove_all_pools().await
    }

    fn credential(&self) -> Option<Name> {
        Some(self.options.fingerprint.clone())
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &REPAIR
    }
}
