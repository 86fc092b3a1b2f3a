//! A machine's life: each call does the next step, and every step may be the last before a crash.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::problem::CapacityType;
use sha2::{Digest as _, Sha256};

use super::claims::{Claim, Phase};
use super::inventory::Host;
use super::types::{Power, System};
use super::{Redfish, power};
use crate::{LaunchRequest, Machine, MachineState, NodeLink, ProviderError, Uid};

/// How long a power-on may take to show, and for how long an order to power on may still take effect.
const SETTLED: Duration = Duration::from_mins(1);
/// How long a BMC may be busy or silent before the next host is tried.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long a host that did not start is left alone.
const REST: Duration = Duration::from_mins(15);
/// How long after the ledger was first read an asset tag of a machine that no ledger has is taken for a leftover.
const LEFTOVER: Duration = Duration::from_mins(5);
const TAG: &str = "joiner/";

fn age(now: Timestamp, since: Timestamp) -> Duration {
    now.duration_since(since).unsigned_abs()
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

impl Redfish {
    /// Our mark in an asset tag: few BMCs have room for two whole UUIDs.
    fn tag(&self, uid: &Uid) -> String {
        format!("{TAG}{}/{}", self.cluster_mark(), uid.0)
    }

    fn cluster_mark(&self) -> String {
        let digest = Sha256::digest(self.owner.cluster.as_bytes());
        let bytes = digest.iter().take(4);
        let number = bytes.fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
        format!("{number:08x}")
    }

    /// Why an asset tag keeps us from a host that is off, if it does.
    pub(super) fn foreign_tag(&self, host: &Host, system: &System, term: u64) -> Option<String> {
        let tag = system.asset_tag.as_deref()?.strip_prefix(TAG)?;
        let (cluster, uid) = tag.split_once('/')?;
        let name = host.name();
        if cluster != self.cluster_mark() {
            return Some(format!(
                "host {name}: its asset tag {TAG}{tag} says that it is a machine of another cluster; clear the tag if that is not so"
            ));
        }
        let loaded = self.memory().loaded?;
        let fresh = age(self.now(), loaded) < LEFTOVER;
        let unknown = !self.reservations.holds(uid, term);
        (unknown && fresh).then(|| {
            format!("host {name}: its asset tag names machine {uid} of this cluster, whose node class has not been read yet")
        })
    }

    /// A claim as a machine; `power` if the host was just looked at.
    pub(super) fn shown(&self, claim: &Claim, power: Option<Power>) -> Machine {
        let host = self.hosts.get(&claim.host);
        let (capacity, overhead) = host.map(|host| host.size()).unwrap_or_default();
        let mut allocatable = capacity.clone();
        allocatable.subtract(&overhead);
        let mut links = vec![NodeLink::ProviderId(claim.provider_id())];
        if let Some(uuid) = &claim.system_uuid {
            links.push(NodeLink::SystemUuid(uuid.as_str().into()));
        }
        if let Some(name) = host.and_then(|host| host.options.node_name.clone()) {
            links.push(NodeLink::Name(name));
        }
        Machine {
            id: claim.id(),
            uid: Some(claim.uid.clone()),
            state: self.state(claim, power),
            links,
            instance_type: claim.host.clone(),
            zone: host.map(|host| host.zone()).unwrap_or_default(),
            region: host.map(|host| host.region()).unwrap_or_default(),
            capacity_type: CapacityType::OnDemand,
            price: host.map(|host| host.options.price),
            capacity,
            allocatable,
            labels: host.map(|host| host.labels()).unwrap_or_default(),
            created: Some(claim.since),
        }
    }

    fn state(&self, claim: &Claim, power: Option<Power>) -> MachineState {
        let host = &claim.host;
        match (&claim.phase, power) {
            (Phase::Claimed, Some(Power::On | Power::PoweringOn)) => MachineState::Failed(format!(
                "host {host} was powered on by somebody else before it could be started"
            )),
            (Phase::Claimed, _) => {
                MachineState::Pending(format!("host {host} is claimed and not yet powered on"))
            }
            (Phase::Starting { asked }, _) => {
                let seconds = age(self.now(), *asked).as_secs();
                MachineState::Pending(format!("host {host} was asked to power on {seconds}s ago"))
            }
            (Phase::Running, Some(Power::Off)) => {
                MachineState::Failed(format!("host {host} was powered off by somebody else"))
            }
            (Phase::Running, _) => MachineState::Running,
            (Phase::Releasing { .. }, _) => MachineState::Stopping,
        }
    }

    /// Buys a host, or goes on where an earlier call ended.
    pub(super) async fn buy(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        let all = self.load().await?;
        if let Some(claim) = all.iter().find(|claim| claim.uid == request.uid) {
            let host = self.host(claim).await?;
            let _busy = host.busy.lock().await;
            let claim = self.expect(&request.uid).await?;
            return self.advance(&host, claim).await;
        }
        let name = &request.purchase.instance_type;
        let gone = |said: String| ProviderError::OutOfCapacity(said);
        if let Some(error) = self.broken.get(name) {
            return Err(gone(error.to_string()));
        }
        let host = self.hosts.get(name);
        let host = host.ok_or_else(|| gone(format!("host {name} is not in the inventory")))?;
        let _busy = host.busy.lock().await;
        if let Some(other) = self.load().await?.iter().find(|claim| claim.host == *name) {
            let uid = &other.uid.0;
            return Err(gone(format!("host {name} is machine {uid}")));
        }
        let claim = self.make_claim(host, &request.uid).await?;
        self.advance(host, claim).await
    }

    /// Claims a host that is off, free and fit.
    async fn make_claim(&self, host: &Arc<Host>, uid: &Uid) -> Result<Claim, ProviderError> {
        let gone = ProviderError::OutOfCapacity;
        let term = self.term()?;
        let system = host
            .system()
            .await
            .map_err(|error| gone(error.to_string()))?;
        if let Some((why, _)) = self.trouble(host, &system, term, Some(uid)).await {
            return Err(gone(why));
        }
        let identity: Name = host.identity(&system);
        self.reservations
            .reserve(&identity, uid, term)
            .map_err(|other| gone(format!("host {} is machine {}", host.name(), other.0)))?;
        let claim = Claim {
            uid: uid.clone(),
            host: host.name().clone(),
            address: host.options.address.clone(),
            system: system.path.clone(),
            identity,
            system_uuid: system.uuid.clone(),
            since: self.now(),
            phase: Phase::Claimed,
        };
        if let Err(error) = self.store(&claim).await {
            // Whether the ledger has the claim is unknown: the host stays reserved until the ledger is read again.
            let mut memory = self.memory();
            memory.unsure.insert(uid.clone(), claim.identity.clone());
            return Err(error);
        }
        power::tag(&host.bmc, &system, &self.tag(uid)).await;
        Ok(claim)
    }

    /// Does the next step of a machine that is to run.
    pub(super) async fn advance(
        &self,
        host: &Arc<Host>,
        mut claim: Claim,
    ) -> Result<Machine, ProviderError> {
        if matches!(claim.phase, Phase::Releasing { .. }) {
            return Ok(self.shown(&claim, None));
        }
        let system = match self.own_system(host, &claim).await {
            Ok(system) => system,
            Err(error) => return self.stumble(host, &claim, error).await,
        };
        self.note_power(&claim, system.power);
        let now = self.now();
        let is_due = match &claim.phase {
            Phase::Claimed => true,
            Phase::Starting { asked } => age(now, *asked) >= SETTLED,
            Phase::Running | Phase::Releasing { .. } => false,
        };
        match (&claim.phase, system.power) {
            (Phase::Starting { .. }, Power::On) => {
                claim.phase = Phase::Running;
                self.store(&claim).await?;
                tracing::info!(host = %claim.host, machine = %claim.uid.0, "host is powered on");
            }
            (Phase::Claimed | Phase::Starting { .. }, Power::Off) if is_due => {
                if let Err(error) = self.start(host, &mut claim, &system).await {
                    return self.stumble(host, &claim, error).await;
                }
            }
            _ => {}
        }
        Ok(self.shown(&claim, Some(system.power)))
    }

    /// Boots a host that is off from the network.
    async fn start(
        &self,
        host: &Arc<Host>,
        claim: &mut Claim,
        system: &System,
    ) -> Result<(), ProviderError> {
        power::arm(&host.bmc, &host.options.boot).await?;
        // From here on, a host that is on is on by our order.
        claim.phase = Phase::Starting { asked: self.now() };
        self.store(claim).await?;
        power::on(&host.bmc, system).await
    }

    /// The system of a claim, if it still is the one that was claimed.
    async fn own_system(&self, host: &Arc<Host>, claim: &Claim) -> Result<System, ProviderError> {
        let system = host.system().await?;
        if !host.is(&system, &claim.identity) {
            let identity = host.identity(&system);
            return Err(host.bmc.invalid(&format!(
                "its BMC now shows the system {identity}, and machine {} is {}; it is left alone",
                claim.uid.0, claim.identity
            )));
        }
        Ok(system)
    }

    /// A step that did not work. Before power-on was asked for, the host is given back and the next one tried, at once
    /// if only a person can mend it, otherwise after a while.
    async fn stumble(
        &self,
        host: &Arc<Host>,
        claim: &Claim,
        error: ProviderError,
    ) -> Result<Machine, ProviderError> {
        let waits = error.passes() && age(self.now(), claim.since) < PATIENCE;
        if claim.phase != Phase::Claimed || waits {
            return Err(error);
        }
        self.rest(host.name(), error.to_string());
        if let Ok(system) = host.system().await
            && system.power == Power::Off
        {
            self.clear(host, &system).await;
        }
        self.erase(claim).await?;
        Err(ProviderError::OutOfCapacity(error.to_string()))
    }

    fn rest(&self, host: &Name, why: String) {
        let until = later(self.now(), REST);
        self.memory().resting.insert(host.clone(), (until, why));
    }

    async fn clear(&self, host: &Arc<Host>, system: &System) {
        power::disarm(&host.bmc, &host.options.boot).await;
        let ours = system
            .asset_tag
            .as_deref()
            .is_some_and(|tag| tag.starts_with(TAG));
        if ours && let Ok(system) = host.bmc.system().await {
            power::tag(&host.bmc, &system, "").await;
        }
    }

    /// Does the next step of a machine that is to go. `NotFound` once its host is off and free.
    pub(super) async fn release(&self, claim: &Claim) -> Result<(), ProviderError> {
        let host = self.host(claim).await?;
        let _busy = host.busy.lock().await;
        let mut claim = self.expect(&claim.uid).await?;
        let system = self.own_system(&host, &claim).await?;
        let now = self.now();
        let is_off = system.power == Power::Off;
        let gone = || ProviderError::NotFound(format!("host {} is off and free", claim.host));
        let (graceful, started) = match &claim.phase {
            Phase::Claimed => {
                // Never powered on by us: whatever runs there is not ours to stop.
                if is_off {
                    self.clear(&host, &system).await;
                }
                self.erase(&claim).await?;
                return Err(gone());
            }
            Phase::Starting { asked } => {
                if is_off {
                    self.rest(
                        host.name(),
                        format!("host {} did not power on", host.name()),
                    );
                }
                (None, Some(*asked))
            }
            Phase::Running => (None, None),
            Phase::Releasing { graceful, started } => (*graceful, *started),
        };
        // An order to power on may take effect after we have looked.
        let may_start = started.is_some_and(|asked| age(now, asked) < SETTLED);
        if is_off && !may_start {
            self.clear(&host, &system).await;
            self.erase(&claim).await?;
            return Err(gone());
        }
        let off = &host.options.power_off;
        let first = !matches!(claim.phase, Phase::Releasing { .. });
        // What never became a node has nothing to save.
        let asks = off.graceful && started.is_none() && power::can_shut_down(&system);
        let ask_now = asks && graceful.is_none();
        let wanted = Phase::Releasing {
            graceful: if ask_now { Some(now) } else { graceful },
            started,
        };
        if first || ask_now {
            claim.phase = wanted;
            self.store(&claim).await?;
        }
        // A BMC that starts does not know; one that is asked by somebody else is left to it.
        if is_off || system.power == Power::Unknown {
            return Ok(());
        }
        if ask_now && system.power != Power::PoweringOff {
            return power::shut_down(&host.bmc, &system).await;
        }
        let waits = graceful.is_some_and(|asked| age(now, asked) < off.timeout);
        if asks && (waits || ask_now) {
            return Ok(());
        }
        power::force_off(&host.bmc, &system).await
    }
}
