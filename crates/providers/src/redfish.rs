//! Bare metal behind Redfish: an inventory of hosts that are powered on to join a cluster and off to leave it.
//!
//! ```text
//!  request ─► host is off and free ─► claim in the ledger ─► PXE for the next boot ─► power on ─► node joins
//!                                          │ Claimed            Starting                 Running
//!  terminate ─► shut down, forced when the time is up ─► off is confirmed ─► claim erased: the host is free
//!                     Releasing
//! ```
//!
//! Nothing here waits: each call does the next step and says how far the host has come. A host that is on without a
//! claim runs something else and is never touched.

pub mod claims;
mod client;
mod inventory;
mod machines;
pub mod options;
mod power;
pub mod quirks;
pub mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::Purchase;
use joiner_core::problem::Catalog;
use tokio::sync::Mutex as AsyncMutex;

use self::claims::{Claim, Phase, Reservations, uid_of};
pub use self::inventory::DEFAULT_ZONE;
use self::inventory::Host;
pub use self::options::{
    Access, BootMode, BootOptions, BootOverride, BootTarget, CredentialSource, Credentials,
    HostOptions, PowerOffOptions, RedfishOptions,
};
use self::types::{Power, System};
use crate::{
    LaunchRequest, Ledger, Machine, MachineId, Notice, NoticeKind, Owner, Provider, ProviderError,
    RepairPolicy, Timeouts, Uid,
};

/// Says what time it is: the system's clock, or a simulation's.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How many BMCs are asked at once.
const AT_ONCE: usize = 32;
/// How long a running machine must be seen off before it counts as gone: BMCs misreport while they restart.
const GONE_AFTER: Duration = Duration::from_mins(1);
/// From asking for power until the host must be on: a power-on takes up to a minute, and is asked for again.
const LAUNCH: Duration = Duration::from_mins(6);

const REPAIR: [RepairPolicy; 2] = [
    RepairPolicy {
        condition: "Ready",
        status: "False",
        tolerated: Duration::from_mins(15),
    },
    RepairPolicy {
        condition: "Ready",
        status: "Unknown",
        tolerated: Duration::from_mins(15),
    },
];

/// An inventory of hosts.
pub struct Redfish {
    options: RedfishOptions,
    owner: Owner,
    ledger: Arc<dyn Ledger>,
    reservations: Arc<Reservations>,
    clock: Clock,
    hosts: BTreeMap<Name, Arc<Host>>,
    /// Hosts whose settings are wrong, and why.
    broken: BTreeMap<Name, ProviderError>,
    /// Hosts that have left the inventory while their machine is still there.
    former: AsyncMutex<BTreeMap<Name, Arc<Host>>>,
    memory: Mutex<Memory>,
}

/// What need not outlive the process.
#[derive(Default)]
struct Memory {
    term: Option<u64>,
    loaded: Option<Timestamp>,
    claims: BTreeMap<Uid, Claim>,
    /// Machines whose claim may or may not have been written down, and their hosts.
    unsure: BTreeMap<Uid, Name>,
    /// What is odd about hosts, for people.
    warnings: BTreeMap<Name, String>,
    /// Running machines that were seen off, and since when.
    off: BTreeMap<Uid, Timestamp>,
    /// Hosts that did not start, until when they are left alone, and why.
    resting: BTreeMap<Name, (Timestamp, String)>,
}

impl fmt::Debug for Redfish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redfish")
            .field("hosts", &self.hosts.keys())
            .finish_non_exhaustive()
    }
}

impl Redfish {
    /// A provider for an inventory. Nothing is sent yet. `reservations` are those of all inventories of the process.
    pub fn new(
        options: RedfishOptions,
        owner: Owner,
        ledger: Arc<dyn Ledger>,
        reservations: Arc<Reservations>,
        clock: Clock,
    ) -> Result<Self, ProviderError> {
        if options.hosts.is_empty() {
            let said = "the inventory has no hosts: list the hosts that can be powered on";
            return Err(ProviderError::Invalid(said.to_owned()));
        }
        let mut names = BTreeSet::new();
        let mut hosts = BTreeMap::new();
        let mut broken = BTreeMap::new();
        for host in &options.hosts {
            if !names.insert(host.name.clone()) {
                return Err(ProviderError::Invalid(format!(
                    "host {} is listed twice: each host needs a name of its own",
                    host.name
                )));
            }
            match Host::new(host.clone(), &options, Clock::clone(&clock)) {
                Ok(made) => {
                    hosts.insert(host.name.clone(), made);
                }
                Err(error) => {
                    broken.insert(host.name.clone(), error);
                }
            }
        }
        Ok(Redfish {
            options,
            owner,
            ledger,
            reservations,
            clock,
            hosts,
            broken,
            former: AsyncMutex::default(),
            memory: Mutex::default(),
        })
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present leadership; without it, nothing may be claimed or given back.
    fn term(&self) -> Result<u64, ProviderError> {
        let term = self.ledger.term();
        term.ok_or_else(|| ProviderError::Transient("this process does not lead".to_owned()))
    }

    /// Reserves the hosts that other classes have claimed, of which this process may not have served any yet. From then on
    /// they tell by their reservations.
    async fn learn_of_others(&self, term: u64) -> Result<(), ProviderError> {
        let entries = self.ledger.load_all().await?;
        // Other clouds keep other things in their ledgers.
        for claim in entries.iter().filter_map(|entry| Claim::read(entry).ok()) {
            if let Err(other) = self.reservations.reserve(&claim.identity, &claim.uid, term) {
                tracing::debug!(host = %claim.host, machine = %claim.uid.0, other = %other.0,
                    "host of another class was claimed anew meanwhile");
            }
        }
        Ok(())
    }

    /// All claims, as they stand in the ledger.
    async fn load(&self) -> Result<Vec<Claim>, ProviderError> {
        let term = self.term()?;
        if self.memory().term != Some(term) {
            self.learn_of_others(term).await?;
        }
        let entries = self.ledger.load().await?;
        let claims = entries.iter().map(Claim::read);
        let claims: Vec<Claim> = claims.collect::<Result<_, _>>()?;
        for claim in &claims {
            if let Err(other) = self.reservations.reserve(&claim.identity, &claim.uid, term) {
                tracing::error!(host = %claim.host, machine = %claim.uid.0, other = %other.0,
                    "two machines claim one host");
            }
        }
        let mut memory = self.memory();
        if memory.term != Some(term) {
            memory.term = Some(term);
            memory.loaded = Some(self.now());
            memory.off.clear();
        }
        for (uid, identity) in std::mem::take(&mut memory.unsure) {
            if !claims.iter().any(|claim| claim.uid == uid) {
                self.reservations.release(&identity, &uid);
            }
        }
        memory.claims = claims
            .iter()
            .map(|claim| (claim.uid.clone(), claim.clone()))
            .collect();
        Ok(claims)
    }

    /// The claim of a machine; the ledger is read again before it is said that there is none.
    async fn claim(&self, uid: &Uid) -> Result<Option<Claim>, ProviderError> {
        let term = self.term()?;
        let known = {
            let memory = self.memory();
            let claim = memory.claims.get(uid).cloned();
            claim.filter(|_| memory.term == Some(term))
        };
        if known.is_some() {
            return Ok(known);
        }
        let all = self.load().await?;
        Ok(all.into_iter().find(|claim| claim.uid == *uid))
    }

    async fn expect(&self, uid: &Uid) -> Result<Claim, ProviderError> {
        self.claim(uid).await?.ok_or_else(|| {
            ProviderError::NotFound(format!("no host is claimed for machine {}", uid.0))
        })
    }

    /// Writes a claim down. It is durable when this returns.
    async fn store(&self, claim: &Claim) -> Result<(), ProviderError> {
        self.ledger.store(&claim.entry()?).await?;
        let mut memory = self.memory();
        memory.claims.insert(claim.uid.clone(), claim.clone());
        Ok(())
    }

    /// Gives a host back.
    async fn erase(&self, claim: &Claim) -> Result<(), ProviderError> {
        self.ledger.erase(&claim.uid.0).await?;
        {
            let mut memory = self.memory();
            memory.claims.remove(&claim.uid);
            memory.off.remove(&claim.uid);
        }
        self.reservations.release(&claim.identity, &claim.uid);
        tracing::info!(host = %claim.host, machine = %claim.uid.0, "host is free");
        Ok(())
    }

    /// The host of a claim, in the inventory or formerly.
    async fn host(&self, claim: &Claim) -> Result<Arc<Host>, ProviderError> {
        if let Some(host) = self.hosts.get(&claim.host) {
            return Ok(Arc::clone(host));
        }
        if let Some(error) = self.broken.get(&claim.host) {
            return Err(error.clone());
        }
        let mut former = self.former.lock().await;
        if let Some(host) = former.get(&claim.host) {
            return Ok(Arc::clone(host));
        }
        let access = self.options.fallback.as_ref().ok_or_else(|| {
            ProviderError::Invalid(format!(
                "host {} has left the inventory while its machine {} is still there: list it again until the machine is gone",
                claim.host, claim.uid.0
            ))
        })?;
        let host = Host::former(
            &claim.host,
            &claim.address,
            &claim.system,
            access,
            &self.options,
            Clock::clone(&self.clock),
        )?;
        former.insert(claim.host.clone(), Arc::clone(&host));
        Ok(host)
    }

    /// Looks at every host of the inventory.
    async fn look(&self) -> Vec<(Arc<Host>, Result<System, ProviderError>)> {
        let hosts: Vec<Arc<Host>> = self.hosts.values().cloned().collect();
        let looks = hosts.into_iter().map(|host| async move {
            let system = host.system().await;
            (host, system)
        });
        let mut seen: Vec<_> = futures::stream::iter(looks)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        seen.sort_by(|(a, _), (b, _)| a.name().cmp(b.name()));
        seen
    }

    /// Why a host cannot be bought for a machine now, if so, and whether people should hear of it.
    async fn trouble(
        &self,
        host: &Host,
        system: &System,
        term: u64,
        own: Option<&Uid>,
    ) -> Option<(String, bool)> {
        let identity = host.identity(system);
        let holder = self.reservations.holder(
            |claimed| *claimed == *identity || host.is(system, claimed),
            term,
        );
        if let Some(uid) = holder.filter(|uid| own != Some(uid)) {
            return Some((format!("host {} is machine {}", host.name(), uid.0), false));
        }
        if let Some(why) = host.unfit(system).await {
            let warns = !matches!(system.power, Power::PoweringOff);
            return Some((why, warns));
        }
        if let Some(why) = self.foreign_tag(host, system, term) {
            return Some((why, true));
        }
        let now = self.now();
        let memory = self.memory();
        let (until, why) = memory.resting.get(host.name())?;
        (now < *until).then(|| (format!("{why}; it is left alone until {until:.0}"), true))
    }

    /// Keeps track of machines that somebody else powered off.
    fn note_power(&self, claim: &Claim, power: Power) {
        let now = self.now();
        let mut memory = self.memory();
        if claim.phase == Phase::Running && power == Power::Off {
            memory.off.entry(claim.uid.clone()).or_insert(now);
        } else {
            memory.off.remove(&claim.uid);
        }
    }
}

#[async_trait]
impl Provider for Redfish {
    fn name(&self) -> &'static str {
        "redfish"
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        let claims = self.load().await?;
        let term = self.term()?;
        let mut types = Vec::new();
        let mut warnings: BTreeMap<Name, String> = self
            .broken
            .iter()
            .map(|(name, error)| (name.clone(), error.to_string()))
            .collect();
        let mut lasting: Option<ProviderError> = self.broken.values().next().cloned();
        let mut usable = false;
        let mut identities: BTreeMap<Name, Name> = BTreeMap::new();
        for (host, system) in self.look().await {
            let claim = claims.iter().find(|claim| claim.host == *host.name());
            let (identity, free) = match &system {
                Ok(system) => {
                    usable = true;
                    let identity = host.identity(system);
                    if let Some(claim) = claim {
                        self.note_power(claim, system.power);
                    }
                    let twin = identities.insert(identity.clone(), host.name().clone());
                    let trouble = match twin {
                        Some(twin) => Some((
                            format!(
                                "host {} is the same system as host {twin}: list it once",
                                host.name()
                            ),
                            true,
                        )),
                        None => self.trouble(&host, system, term, None).await,
                    };
                    if let Some((why, true)) = &trouble
                        && claim.is_none()
                    {
                        warnings.insert(host.name().clone(), why.clone());
                    }
                    (Some(identity), trouble.is_none() && claim.is_none())
                }
                Err(error) => {
                    usable |= error.passes();
                    if !error.passes() && lasting.is_none() {
                        lasting = Some(error.clone());
                    }
                    warnings.insert(host.name().clone(), error.to_string());
                    (None, false)
                }
            };
            if let Some(note) = host.bmc.note().await {
                warnings.entry(host.name().clone()).or_insert(note);
            }
            types.push(host.instance_type(identity.as_ref(), free));
        }
        self.memory().warnings = warnings;
        if let Some(error) = lasting
            && !usable
        {
            return Err(error);
        }
        Ok(Catalog {
            name: self.options.catalog.clone(),
            types,
            ..Catalog::default()
        })
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        self.buy(request).await
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        let claim = self.expect(&uid_of(id)?).await?;
        self.release(&claim).await
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        let claim = self.expect(&uid_of(id)?).await?;
        let host = self.host(&claim).await?;
        let _busy = host.busy.lock().await;
        let claim = self.expect(&claim.uid).await?;
        self.advance(&host, claim).await
    }

    async fn find(&self, uid: &Uid) -> Result<Machine, ProviderError> {
        let all = self.load().await?;
        let claim = all.into_iter().find(|claim| claim.uid == *uid);
        let claim = claim.ok_or_else(|| {
            ProviderError::NotFound(format!("no host is claimed for machine {}", uid.0))
        })?;
        Ok(self.shown(&claim, None))
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        let claims = self.load().await?;
        Ok(claims.iter().map(|claim| self.shown(claim, None)).collect())
    }

    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError> {
        let claim = self.expect(&uid_of(&machine.id)?).await?;
        if self.hosts.contains_key(&claim.host) || self.broken.contains_key(&claim.host) {
            return Ok(None);
        }
        let host = &claim.host;
        Ok(Some(format!("host {host} is no longer in the inventory")))
    }

    async fn notices(&self) -> Result<Vec<Notice>, ProviderError> {
        let now = self.now();
        let memory = self.memory();
        let gone = memory
            .off
            .iter()
            .filter(|(_, since)| now.duration_since(**since).unsigned_abs() >= GONE_AFTER);
        Ok(gone
            .filter_map(|(uid, since)| {
                let claim = memory.claims.get(uid)?;
                Some(Notice {
                    id: claim.id(),
                    kind: NoticeKind::Gone,
                    at: Some(*since),
                })
            })
            .collect())
    }

    async fn concern(&self) -> Option<String> {
        let mut said: Vec<String> = self.memory().warnings.values().cloned().collect();
        let unverified: Vec<&str> = self
            .options
            .hosts
            .iter()
            .filter(|host| host.access.unverified)
            .map(|host| &*host.name)
            .collect();
        if !unverified.is_empty() {
            said.push(format!(
                "certificates of {} are not verified (tls.insecureSkipVerify): whoever sits in between can read the password",
                unverified.join(", ")
            ));
        }
        (!said.is_empty()).then(|| said.join("; "))
    }

    fn timeouts(&self, _: &Purchase) -> Timeouts {
        Timeouts {
            launch: LAUNCH.min(self.options.registration_timeout),
            registration: self.options.registration_timeout,
        }
    }

    async fn close(&self) {
        let former: Vec<Arc<Host>> = self.former.lock().await.values().cloned().collect();
        let all = self.hosts.values().cloned().chain(former);
        let ends = all.map(|host| async move { host.bmc.log_out().await });
        futures::future::join_all(ends).await;
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &REPAIR
    }
}

impl Redfish {
    /// What is odd about each host, as last seen.
    pub fn warnings(&self) -> BTreeMap<Name, String> {
        self.memory().warnings.clone()
    }
}
