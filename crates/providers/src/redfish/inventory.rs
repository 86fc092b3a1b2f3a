//! Hosts of the inventory: what each of them is now, and what can be bought of them.

use std::sync::Arc;

use joiner_core::labels;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{CapacityType, InstanceType, Offering};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use tokio::sync::Mutex;

use super::Clock;
use super::client::{Bmc, Which};
use super::options::{Access, HostOptions, RedfishOptions};
use super::power;
use super::types::{Power, System, same_uuid};
use crate::ProviderError;

/// Zone of hosts that have no label for it.
pub const DEFAULT_ZONE: &str = "default";
const MIB: i64 = 1 << 20;
/// Of a hundred mebibytes that are built in, so many are left by firmware and kernel.
const REAL_PERCENT: i64 = 97;
/// What kubelet and system keep until a node of the host has shown what it really has: some for every machine, more for
/// each core, and the hard eviction line.
const KEPT_CPU_MILLIS: i64 = 100;
const KEPT_CPU_MILLIS_PER_CORE: i64 = 5;
const KEPT_MEMORY: i64 = (400 + 100) * MIB;
const MOST_PODS: i64 = 110;

/// One host and its BMC.
pub(super) struct Host {
    pub(super) options: HostOptions,
    pub(super) bmc: Bmc,
    /// Held while something is done to the host.
    pub(super) busy: Mutex<()>,
}

impl Host {
    pub(super) fn new(
        options: HostOptions,
        all: &RedfishOptions,
        clock: Clock,
    ) -> Result<Arc<Self>, ProviderError> {
        let which = Which {
            path: options.system_path.clone(),
            uuid: options.system_uuid.clone(),
        };
        let bmc = Bmc::new(
            &options.name,
            &options.address,
            &all.allowed_hosts,
            &options.access,
            which,
            clock,
        )?;
        Ok(Arc::new(Host {
            options,
            bmc,
            busy: Mutex::default(),
        }))
    }

    /// A host that has left the inventory: all that is known of it is where it was.
    pub(super) fn former(
        name: &Name,
        address: &str,
        system: &str,
        access: &Access,
        all: &RedfishOptions,
        clock: Clock,
    ) -> Result<Arc<Self>, ProviderError> {
        let options = HostOptions {
            name: name.clone(),
            address: address.to_owned(),
            system_path: Some(system.to_owned()),
            system_uuid: None,
            serial_number: None,
            node_name: None,
            capacity: Resources::new(),
            labels: Labels::new(),
            price: joiner_core::money::Money::ZERO,
            access: access.clone(),
            boot: super::BootOptions::default(),
            power_off: super::PowerOffOptions::default(),
        };
        Host::new(options, all, clock)
    }

    pub(super) fn name(&self) -> &Name {
        &self.options.name
    }

    /// The system, if it is the one that the inventory means.
    pub(super) async fn system(&self) -> Result<System, ProviderError> {
        let system = self.bmc.system().await?;
        if let Some(wanted) = &self.options.system_uuid
            && !system
                .uuid
                .as_ref()
                .is_some_and(|uuid| same_uuid(uuid, wanted))
        {
            let shown = system.uuid.as_deref().unwrap_or("none");
            return Err(self.bmc.invalid(&format!(
                "its system has the UUID {shown}, and the inventory says {wanted}; it is left alone"
            )));
        }
        // A serial number that is not shown is no other one, if the UUID is right.
        let known = self.options.system_uuid.is_some() && !system.shows_serial;
        if let Some(wanted) = &self.options.serial_number
            && !known
            && !system
                .serials
                .iter()
                .any(|serial| serial.trim().eq_ignore_ascii_case(wanted.trim()))
        {
            let shown = system.serials.join(" and ");
            return Err(self.bmc.invalid(&format!(
                "its system has the serial number {shown:?}, and the inventory says {wanted:?}; it is left alone"
            )));
        }
        Ok(system)
    }

    /// Whether a system is the one that was claimed under an identity.
    pub(super) fn is(&self, system: &System, identity: &str) -> bool {
        system.is(identity, &self.bmc.authority())
    }

    /// What tells the host from every other, whoever lists it.
    pub(super) fn identity(&self, system: &System) -> Name {
        system.identity(&self.bmc.authority()).into()
    }

    /// Why a host that nobody has claimed cannot be had, if so.
    pub(super) async fn unfit(&self, system: &System) -> Option<String> {
        let name = self.name();
        match system.power {
            Power::Off => {}
            Power::On | Power::PoweringOn => {
                return Some(format!(
                    "host {name} is powered on and not a machine of this cluster: it is left alone until it is powered off"
                ));
            }
            Power::PoweringOff => return Some(format!("host {name} is powering off")),
            Power::Unknown => {
                return Some(format!(
                    "host {name}: its BMC does not say whether it is on"
                ));
            }
        }
        if system.health.as_deref() == Some("Critical") {
            return Some(format!(
                "host {name}: its BMC reports its health as Critical"
            ));
        }
        let platform = self.bmc.platform().await?;
        let unable = power::unable(system, platform, &self.options.boot)?;
        Some(format!("host {name}: {unable}"))
    }

    pub(super) fn zone(&self) -> Name {
        let zone = self.options.labels.get(labels::ZONE).cloned();
        zone.unwrap_or_else(|| DEFAULT_ZONE.into())
    }

    pub(super) fn region(&self) -> Name {
        let region = self.options.labels.get(labels::REGION).cloned();
        region.unwrap_or_default()
    }

    /// What it has and what kubelet and system keep of it.
    pub(super) fn size(&self) -> (Resources, Resources) {
        let mut capacity = self.options.capacity.clone();
        let memory = capacity.get(MEMORY);
        capacity.set(MEMORY, memory / 100 * REAL_PERCENT);
        if !capacity.contains(PODS) {
            capacity.set(PODS, MOST_PODS);
        }
        let cpu = capacity.get(CPU);
        // A host so small that nothing would be left keeps half of it.
        let kept_cpu = (KEPT_CPU_MILLIS + cpu / 1000 * KEPT_CPU_MILLIS_PER_CORE).min(cpu / 2);
        let kept_memory = KEPT_MEMORY.min(capacity.get(MEMORY) / 2);
        let overhead = Resources::new()
            .with(CPU, kept_cpu)
            .with(MEMORY, kept_memory);
        (capacity, overhead)
    }

    /// Labels beside instance type, zone, region and capacity type.
    pub(super) fn labels(&self) -> Labels {
        let mut all = self.options.labels.clone();
        for key in [
            labels::ZONE,
            labels::REGION,
            labels::INSTANCE_TYPE,
            labels::CAPACITY_TYPE,
        ] {
            all.remove(key);
        }
        for (key, value) in [(labels::ARCH, "amd64"), (labels::OS, "linux")] {
            all.entry(key.into()).or_insert_with(|| value.into());
        }
        all
    }

    /// The host as something to buy.
    pub(super) fn instance_type(&self, identity: Option<&Name>, free: bool) -> InstanceType {
        let (capacity, overhead) = self.size();
        // Whoever lists the host draws on the same one.
        let stock = identity.map(|identity| format!("redfish/{identity}").into());
        InstanceType {
            name: self.name().clone(),
            labels: self.labels(),
            capacity,
            overhead,
            offerings: vec![Offering {
                zone: self.zone(),
                region: self.region(),
                capacity_type: CapacityType::OnDemand,
                price: self.options.price,
                available: free,
                left: Some(u32::from(free)),
                reservation: None,
                stock,
            }],
            quotas: Vec::new(),
        }
    }
}
