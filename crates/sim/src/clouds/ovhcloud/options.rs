//! How the simulated cloud behaves, and what it sells.

use std::time::Duration;

use joiner_providers::ovhcloud::table::TABLE;

/// One thing that a consumer key may do: a method and a path, in which `*` stands for anything.
pub type Rule = (String, String);

/// A flavour on sale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flavor {
    /// Name.
    pub name: String,
    /// Cores.
    pub vcpus: u32,
    /// Memory in GiB.
    pub ram: u32,
    /// Disk in GB.
    pub disk: u32,
    /// GPUs.
    pub gpus: u32,
    /// `available` or `unavailable`.
    pub state: String,
    /// How many are left; `None` for as many as anybody wants.
    pub stock: Option<u32>,
    /// Price of an hour, in hundred-millionths.
    pub hourly: i64,
    /// Price of a month, in hundred-millionths, for flavours that can be paid so.
    pub monthly: Option<i64>,
}

impl Flavor {
    /// The UUID that OpenStack knows it by.
    pub fn uuid(&self) -> String {
        super::state::uuid(0, &self.name, 0)
    }

    /// Whether the service bills it by the month.
    pub fn is_gen2(&self) -> bool {
        ["b2-", "c2-", "d2-", "r2-"]
            .iter()
            .any(|start| self.name.starts_with(start))
    }
}

/// Everything with a known price.
pub fn built_in() -> Vec<Flavor> {
    TABLE
        .iter()
        .filter_map(|row| {
            Some(Flavor {
                name: row.name.to_owned(),
                vcpus: row.vcpus,
                ram: row.ram,
                disk: row.disk,
                gpus: row.gpus,
                state: "available".to_owned(),
                stock: None,
                hourly: row.hourly? * 100,
                monthly: row.monthly.map(|micros| micros * 100),
            })
        })
        .collect()
}

/// The permissions that the document asks for, and nothing else.
pub fn documented_rules(service: &str, kube: &str) -> Vec<Rule> {
    let project = format!("/cloud/project/{service}");
    let cluster = format!("{project}/kube/{kube}");
    let pools = format!("{cluster}/nodepool");
    [
        ("GET", cluster.clone()),
        ("GET", pools.clone()),
        ("GET", format!("{pools}/*")),
        ("POST", pools.clone()),
        ("PUT", format!("{pools}/*")),
        ("DELETE", format!("{pools}/*")),
        ("GET", format!("{cluster}/flavors")),
        ("GET", format!("{project}/capabilities/kube/*")),
    ]
    .map(|(method, path)| (method.to_owned(), path))
    .to_vec()
}

/// How the cloud behaves.
#[derive(Clone, Debug)]
pub struct OvhCloudOptions {
    /// Makes names and times differ from run to run, always the same for the same number.
    pub seed: u64,
    /// The application key that is accepted.
    pub application_key: String,
    /// Its secret.
    pub application_secret: String,
    /// The consumer key that is accepted.
    pub consumer_key: String,
    /// Other consumer keys that are accepted: each has a limit of its own at the real service.
    pub more_consumer_keys: Vec<String>,
    /// The service account that is accepted: client id and secret.
    pub account: (String, String),
    /// What the credentials may do; everything if empty.
    pub rules: Vec<Rule>,
    /// The project.
    pub service_name: String,
    /// The cluster.
    pub kube_id: String,
    /// Its region.
    pub region: String,
    /// Zones; empty where there is but one.
    pub zones: Vec<String>,
    /// What is sold.
    pub flavors: Vec<Flavor>,
    /// Cores that the project may have.
    pub quota_cores: Option<u32>,
    /// Most pools.
    pub max_pools: usize,
    /// Calls that one key may make in a minute.
    pub calls_per_minute: usize,
    /// By how many seconds its clock is ahead of the clock of everybody else.
    pub clock_skew: i64,
    /// How far off a timestamp may be, in seconds.
    pub tolerated_skew: i64,
    /// From making a pool until the API finds it.
    pub pool_appears: Duration,
    /// From making a pool until it is ready.
    pub pool_installs: Duration,
    /// From wanting a node until it is listed.
    pub node_appears: Duration,
    /// From then until it has a server.
    pub instance_after: Duration,
    /// From then until it is ready, at least.
    pub ready_min: Duration,
    /// At most.
    pub ready_max: Duration,
    /// The same for flavours with GPUs.
    pub gpu_ready: Duration,
    /// From removing a node until it is gone.
    pub gone_after: Duration,
    /// How often templates are enforced.
    pub enforce_every: Duration,
    /// Nodes say their flavour by its UUID.
    pub flavor_uuids: bool,
    /// Tokens of service accounts end after this.
    pub token_life: Duration,
}

impl OvhCloudOptions {
    /// A cluster in a region of three zones, with the timings of the real service.
    pub fn calm(seed: u64) -> Self {
        let service_name = "0123456789abcdef0123456789abcdef".to_owned();
        let kube_id = "11111111-2222-3333-4444-555555555555".to_owned();
        OvhCloudOptions {
            seed,
            application_key: "simAppKey0000001".to_owned(),
            application_secret: "simAppSecret00000000000000000001".to_owned(),
            consumer_key: "simConsumerKey000000000000000001".to_owned(),
            more_consumer_keys: Vec::new(),
            account: ("EU.simclient".to_owned(), "simClientSecret1".to_owned()),
            rules: documented_rules(&service_name, &kube_id),
            service_name,
            kube_id,
            region: "EU-WEST-PAR".to_owned(),
            zones: ["a", "b", "c"]
                .map(|zone| format!("eu-west-par-{zone}"))
                .to_vec(),
            flavors: built_in(),
            quota_cores: None,
            max_pools: 100,
            calls_per_minute: 60,
            clock_skew: 0,
            tolerated_skew: 30,
            pool_appears: Duration::from_secs(20),
            pool_installs: Duration::from_mins(1),
            node_appears: Duration::from_secs(15),
            instance_after: Duration::from_secs(45),
            ready_min: Duration::from_mins(1),
            ready_max: Duration::from_mins(4),
            gpu_ready: Duration::from_mins(55),
            gone_after: Duration::from_mins(1),
            enforce_every: Duration::from_secs(30),
            flavor_uuids: false,
            token_life: Duration::from_hours(1),
        }
    }

    /// The same in a region of one zone.
    #[must_use]
    pub fn single_zone(mut self) -> Self {
        "GRA11".clone_into(&mut self.region);
        self.zones.clear();
        self
    }

    /// Nothing takes long: for tests on real time.
    #[must_use]
    pub fn quick(mut self) -> Self {
        let second = Duration::from_secs(1);
        self.pool_appears = Duration::ZERO;
        self.pool_installs = second;
        self.node_appears = Duration::from_millis(200);
        self.instance_after = Duration::from_millis(500);
        self.ready_min = second;
        self.ready_max = second;
        self.gpu_ready = second * 3;
        self.gone_after = second;
        self.calls_per_minute = 100_000;
        self
    }
}
