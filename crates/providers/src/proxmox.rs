//! Proxmox VE: virtual machines of any size that a host can still hold, made to boot from the network or copied from a
//! template.
//!
//! ```text
//!  request ── settings ──► VM (tag, mark in its description, UUID of its object)
//!                           │ create or clone, set up, start: one call at a time, each followed to its end
//!                           ▼
//!  machine ◄── prove ── VM wherever it is now ◄── smbios UUID = systemUUID ── node
//! ```
//!
//! A machine is what its number, name, UUID and mark say together; the host that it is on is looked up each time.
//! Making one takes several calls. Each call of [`Provider::launch`] and [`Provider::get`] takes it as far as it will
//! go, so that a crash at any point is mended by asking again.

pub mod catalog;
pub mod client;
pub mod headroom;
pub mod ids;
mod look;
mod make;
pub mod mark;
mod memory;
mod place;
pub mod refusal;
mod remove;
pub mod settings;
mod shared;
pub mod types;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::plan::Purchase;
use joiner_core::problem::{CapacityType, Catalog, UnitPrices};
use tokio::sync::Mutex as AsyncMutex;

use self::client::Client;
pub use self::client::{ApiToken, Credentials};
pub use self::ids::IdRange;
use self::look::Site;
use self::mark::Mark;
use self::memory::{Memory, Turns};
use self::settings::Size;
pub use self::shared::{Clusters, PER_HOST, PER_STORAGE};
use crate::http::{Endpoint, Http};
use crate::{
    LaunchRequest, Machine, MachineId, MachineState, NodeLink, Owner, Provider, ProviderError,
    RepairPolicy, Timeouts, Uid,
};

/// Says what time it is: the system's clock, or a simulation's.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

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

/// A network device of every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// `net0` to `net31`.
    pub name: String,
    /// Model; virtio if empty.
    pub model: String,
    /// Bridge that it is plugged into.
    pub bridge: String,
    /// VLAN, if any.
    pub vlan: Option<u16>,
    /// First octets of its hardware address; Proxmox chooses if there are none.
    pub mac_prefix: Option<String>,
}

/// A template to copy, in place of a machine that boots from the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its name, its tag or its number. Each host has one of its own, or it stands on storage that all share.
    pub name: String,
    /// Storage for the disks of full copies; that of the template if left out.
    pub storage: Option<String>,
    /// Whether copies share the disk of the template.
    pub linked: bool,
    /// Size of the disk that machines boot from, in GiB; that of the template if left out.
    pub disk_gib: Option<u32>,
}

/// Sizes that machines may have; what is left out is bounded by the hosts alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Cores at least.
    pub min_cores: Option<u32>,
    /// Cores at most.
    pub max_cores: Option<u32>,
    /// Memory at least, in MiB.
    pub min_memory_mib: Option<u64>,
    /// Memory at most, in MiB.
    pub max_memory_mib: Option<u64>,
}

/// Which cluster, with which token, and how machines are made.
#[derive(Clone)]
pub struct ProxmoxOptions {
    /// Whose machines.
    pub owner: Owner,
    /// Where the API is, `/api2/json` included.
    pub api: Endpoint,
    /// Where the API token comes from.
    pub credentials: Arc<dyn Credentials>,
    /// Hosts that machines may be made on; all if empty.
    pub hosts: Vec<String>,
    /// Numbers that machines may have.
    pub ids: IdRange,
    /// Tag of every machine.
    pub tag: String,
    /// Memory of a machine that system and kubelet keep, in MiB.
    pub vm_mem_overhead_mib: u64,
    /// Network devices of every machine.
    pub interfaces: Vec<Interface>,
    /// Options of every machine, as Proxmox calls them.
    pub vm_options: Vec<(String, String)>,
    /// What to copy; machines are made new if nothing.
    pub template: Option<Template>,
    /// Zone of each host; a host that is not listed is a zone of its own.
    pub zones: BTreeMap<String, String>,
    /// How much of a host's threads may be promised, in percent.
    pub cpu_percent: u32,
    /// How much of a host's memory may be promised, in percent.
    pub memory_percent: u32,
    /// Memory that stays with each host, in MiB.
    pub host_reserve_mib: u64,
    /// Sizes of machines.
    pub sizes: Sizes,
    /// What machines are worth.
    pub prices: UnitPrices,
    /// How long a machine may take to become a node.
    pub registration_timeout: Duration,
    /// Name of the catalogue.
    pub catalog: Name,
    /// Whether any certificate is accepted; then the status says so.
    pub accepts_any_certificate: bool,
}

impl ProxmoxOptions {
    /// Everything at its default.
    pub fn new(
        owner: Owner,
        api: Endpoint,
        credentials: Arc<dyn Credentials>,
        ids: IdRange,
        tag: &str,
    ) -> Self {
        ProxmoxOptions {
            owner,
            api,
            credentials,
            hosts: Vec::new(),
            ids,
            tag: tag.to_owned(),
            vm_mem_overhead_mib: 0,
            interfaces: Vec::new(),
            vm_options: Vec::new(),
            template: None,
            zones: BTreeMap::new(),
            cpu_percent: 200,
            memory_percent: 100,
            host_reserve_mib: 2048,
            sizes: Sizes::default(),
            prices: UnitPrices {
                machine: Money::ZERO,
                core: Money::from_nanos(1_000_000),
                memory_gib: Money::from_nanos(100_000),
            },
            registration_timeout: Duration::from_mins(5),
            catalog: "proxmox".into(),
            accepts_any_certificate: false,
        }
    }

    fn zone(&self, host: &str) -> String {
        self.zones.get(host).map_or(host, String::as_str).to_owned()
    }

    fn check(&self) -> Result<Vec<String>, ProviderError> {
        let invalid = |text: String| Err(ProviderError::Invalid(text));
        let IdRange { first, last } = self.ids;
        if first < 100 || last > 999_999_999 || first > last {
            return invalid(format!(
                "vmIDRange: {first}..{last} is not a range of machine numbers: from 100 to 999999999, lower first"
            ));
        }
        let good = |b: u8| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-' | b'+' | b'.')
        };
        if self.tag.is_empty()
            || !self.tag.bytes().all(good)
            || self.tag.starts_with(['-', '+', '.'])
        {
            return invalid(format!(
                "managedNodeTag: {:?} is not a tag: write lower-case letters, digits, dots, dashes or underscores",
                self.tag
            ));
        }
        if self.cpu_percent == 0 || self.memory_percent == 0 {
            return invalid("overcommit: 0 percent of a host holds no machine".to_owned());
        }
        settings::check(self)
    }
}

impl fmt::Debug for ProxmoxOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxmoxOptions")
            .field("api", &self.api)
            .field("ids", &self.ids)
            .field("tag", &self.tag)
            .finish_non_exhaustive()
    }
}

/// One Proxmox VE cluster.
pub struct Proxmox {
    options: ProxmoxOptions,
    client: Client,
    clock: Clock,
    /// Options of the class that are not used.
    ignored: Vec<String>,
    /// What the settings of machines are today.
    settings: String,
    site: AsyncMutex<Option<Site>>,
    memory: Mutex<Memory>,
    clusters: Arc<Clusters>,
    turns: Turns,
}

impl Proxmox {
    /// A provider that talks through `http`. Nothing is sent yet.
    pub fn new(http: Http, options: ProxmoxOptions, clock: Clock) -> Result<Self, ProviderError> {
        let ignored = options.check()?;
        Ok(Proxmox {
            client: Client::new(http, options.api.clone(), Arc::clone(&options.credentials)),
            clock,
            ignored,
            settings: settings::fingerprint(&options),
            site: AsyncMutex::new(None),
            memory: Mutex::default(),
            clusters: Arc::default(),
            turns: Turns::default(),
            options,
        })
    }

    /// The same beside all other classes of the process, which may choose hosts of this cluster at the same moment.
    #[must_use]
    pub fn beside(self, clusters: &Arc<Clusters>) -> Self {
        Proxmox {
            clusters: Arc::clone(clusters),
            ..self
        }
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A machine as the engine knows it.
    fn shown(&self, cluster: &str, mark: &Mark, size: Size, state: MachineState) -> Machine {
        let capacity = catalog::capacity(&self.options, size);
        let mut allocatable = capacity.clone();
        allocatable.subtract(&catalog::reserved(&self.options));
        Machine {
            id: machine_id(cluster, mark.vmid, &mark.uid),
            uid: Some(mark.uid.clone()),
            state,
            links: vec![
                NodeLink::SystemUuid(mark.uuid.as_str().into()),
                NodeLink::ProviderId(provider_id(cluster, mark.vmid)),
            ],
            instance_type: mark.instance_type.clone(),
            zone: mark.zone.clone(),
            region: cluster.into(),
            capacity_type: CapacityType::OnDemand,
            price: Some(catalog::price(&self.options.prices, size)),
            capacity,
            allocatable,
            labels: catalog::machine_labels(),
            created: Some(mark.created),
        }
    }
}

/// What a node calls the machine: numbers are used again, so this alone proves nothing.
fn provider_id(cluster: &str, vmid: u32) -> Name {
    format!("proxmox://{cluster}/vms/{vmid}").into()
}

/// What we call the machine: its number, and the object that it was made for.
fn machine_id(cluster: &str, vmid: u32, uid: &Uid) -> MachineId {
    MachineId(format!("proxmox://{cluster}/vms/{vmid}/{}", uid.0).into())
}

/// Number and object of a machine.
fn parse_id(id: &MachineId) -> Result<(u32, Uid), ProviderError> {
    let wrong = || ProviderError::Invalid(format!("{id} is not a machine on Proxmox"));
    let rest = id.0.strip_prefix("proxmox://").ok_or_else(wrong)?;
    let parts: Vec<&str> = rest.split('/').collect();
    match parts.as_slice() {
        [_, "vms", vmid, uid] if !uid.is_empty() => {
            let vmid = vmid.parse().map_err(|_| wrong())?;
            Ok((vmid, Uid((*uid).into())))
        }
        _ => Err(wrong()),
    }
}

#[async_trait]
impl Provider for Proxmox {
    fn name(&self) -> &'static str {
        "proxmox"
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        self.look_around().await
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        self.make(request).await
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        self.remove(id).await
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        self.further(id).await
    }

    async fn find(&self, uid: &Uid) -> Result<Machine, ProviderError> {
        self.find_by_mark(uid).await
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        self.list_own().await
    }

    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError> {
        let (vmid, uid) = parse_id(&machine.id)?;
        let (_, _, proven) = self.read_own(vmid, &uid).await?;
        let same = proven.mark.settings == self.settings;
        Ok((!same).then(|| {
            "it was made with other network devices, options or another template than the class has today".to_owned()
        }))
    }

    async fn concern(&self) -> Option<String> {
        let mut all = Vec::new();
        if self.options.accepts_any_certificate {
            all.push(
                "any certificate of the Proxmox endpoint is accepted: whoever stands in between can read the token; set a CA bundle or a fingerprint"
                    .to_owned(),
            );
        }
        all.extend(self.ignored.iter().cloned());
        all.extend(self.memory().concerns.iter().cloned());
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn timeouts(&self, _: &Purchase) -> Timeouts {
        Timeouts {
            launch: self.options.registration_timeout,
            registration: self.options.registration_timeout,
        }
    }

    fn credential(&self) -> Option<Name> {
        Some(format!("proxmox/{}", self.options.api).into())
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        &REPAIR
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// A class as most are.
    pub(super) fn options() -> ProxmoxOptions {
        let token = ApiToken {
            id: "joiner@pve!t".to_owned(),
            secret: "secret".into(),
        };
        let api = Endpoint::parse("https://pve.example.com:8006/api2/json", &[]).unwrap();
        let ids = IdRange {
            first: 1250,
            last: 1300,
        };
        ProxmoxOptions {
            interfaces: vec![Interface {
                name: "net0".to_owned(),
                model: "virtio".to_owned(),
                bridge: "vmbr0".to_owned(),
                vlan: None,
                mac_prefix: None,
            }],
            ..ProxmoxOptions::new(mark::tests::owner(), api, Arc::new(token), ids, "joiner")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_number_and_object() {
        let id = machine_id("pve", 1250, &Uid("u-1".into()));
        assert_eq!(&*id.0, "proxmox://pve/vms/1250/u-1");
        assert_eq!(parse_id(&id), Ok((1250, Uid("u-1".into()))));
        for wrong in [
            "elsewhere:///x",
            "proxmox://pve/vms/1250",
            "proxmox://pve/vms/x/u",
            "proxmox://pve/vms/1250/",
        ] {
            assert!(parse_id(&MachineId(wrong.into())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_and_tags_that_cannot_be_are_refused() {
        let http = || {
            Http::new(tower::service_fn(
                |_: http::Request<http_body_util::Full<bytes::Bytes>>| async {
                    Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Full::<
                        bytes::Bytes,
                    >::default(
                    )))
                },
            ))
        };
        let clock: Clock = Arc::new(|| Timestamp::UNIX_EPOCH);
        let refused = |change: fn(&mut ProxmoxOptions)| {
            let mut options = testing::options();
            change(&mut options);
            let built = Proxmox::new(http(), options, Arc::clone(&clock));
            built
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert!(refused(|options| options.ids.first = 1).contains("vmIDRange"));
        assert!(refused(|options| options.ids.last = 10).contains("vmIDRange"));
        assert!(refused(|options| options.tag = "Joiner".to_owned()).contains("managedNodeTag"));
        assert!(refused(|options| options.memory_percent = 0).contains("overcommit"));
        assert_eq!(
            refused(|options| options.ids.last = 1250),
            "",
            "one number is a range"
        );
    }
}
