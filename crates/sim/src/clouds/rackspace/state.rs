//! The pools that the cloud knows, and what becomes of them when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rand::RngExt;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::RackspaceCloudOptions;
use super::admission::{self, Refused};
use super::classes::{Class, stream};
use crate::clouds::watched::CloudEvent;
use joiner_embedded::clock::rfc3339;
use joiner_embedded::cluster::kubelet::NodeSpec;

/// How a pool's servers are paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Kind {
    Spot,
    OnDemand,
}

impl Kind {
    pub(super) fn parse(plural: &str) -> Option<Self> {
        match plural {
            "spotnodepools" => Some(Kind::Spot),
            "ondemandnodepools" => Some(Kind::OnDemand),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Kind::Spot => "SpotNodePool",
            Kind::OnDemand => "OnDemandNodePool",
        }
    }
}

/// How far the one server of a pool has come. (Pools of more than one server get one here.)
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Server {
    /// Not decided before this.
    Undecided(Timestamp),
    /// Won; becomes a node then.
    Building(Timestamp),
    /// A node.
    Up,
    /// Lost, or never had.
    Lost,
}

/// One pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pool {
    pub(super) kind: Kind,
    namespace: String,
    pub(super) name: String,
    labels: Value,
    pub(super) spec: Value,
    pub(super) created: Timestamp,
    version: u64,
    server: Server,
    /// Pre-empted: when the server is taken.
    pub(super) taken: Option<Timestamp>,
    /// Deleted: when it is gone.
    pub(super) ends: Option<Timestamp>,
}

/// Something to be done in the world of kubelets.
pub(super) enum Order {
    Boot(Box<NodeSpec>),
    Kill(String),
    /// Labels and taints, some time after the node has joined.
    Stamp(String, Value, Value),
}

#[derive(Default)]
pub(super) struct State {
    pub(super) pools: BTreeMap<(Kind, String), Pool>,
    stamps: BTreeMap<(Timestamp, String), (Value, Value)>,
    /// What would have been sent to the cloudspace's webhook.
    pub(super) webhook: Vec<String>,
    /// What has happened to marked pools and was not told yet.
    pub(super) news: Vec<CloudEvent>,
    /// Names of pools that another made.
    pub(super) foreign: BTreeSet<String>,
    version: u64,
}

pub(super) fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

impl Pool {
    fn class<'a>(&self, options: &'a RackspaceCloudOptions) -> Option<&'a Class> {
        let wanted = self.spec["serverClass"].as_str()?;
        options.classes.iter().find(|class| class.name == wanted)
    }

    fn bid(&self) -> u32 {
        admission::bid(&self.name, &self.spec).unwrap_or(0)
    }

    pub(super) fn has_server(&self) -> bool {
        matches!(self.server, Server::Building(_) | Server::Up)
    }

    /// Name of the node: moment of birth and seven digits, nothing of the pool's.
    fn node(&self, seed: u64) -> String {
        let digits: u32 = stream(seed, &self.name, 1).random_range(1_000_000..10_000_000);
        format!("prod-instance-{}{digits}", self.created.as_second())
    }

    pub(super) fn object(&self) -> Value {
        let mut metadata = json!({"name": self.name, "namespace": self.namespace, "labels": self.labels,
            "creationTimestamp": rfc3339(self.created), "resourceVersion": self.version.to_string()});
        if let Some(ends) = self.ends {
            metadata["deletionTimestamp"] = json!(rfc3339(ends));
        }
        let count = i64::from(self.has_server());
        let word = match (&self.server, self.taken) {
            (_, Some(_)) | (Server::Lost, _) => "Lost",
            (Server::Undecided(_), _) => "Pending",
            _ => "Fulfilled",
        };
        let mut status = match self.kind {
            Kind::Spot => json!({"bidStatus": word, "wonCount": count}),
            Kind::OnDemand => json!({"reservedStatus": word, "reservedCount": count}),
        };
        if self.server == Server::Up && self.spec["customLabels"].is_object() {
            let keys: Vec<&String> = self.spec["customLabels"]
                .as_object()
                .into_iter()
                .flat_map(|labels| labels.keys())
                .collect();
            status["customMetadataStatus"] = json!({"labels": keys});
        }
        json!({"apiVersion": "ngpc.rxt.io/v1", "kind": self.kind.word(), "metadata": metadata,
            "spec": self.spec, "status": status})
    }

    fn node_spec(&self, class: &Class, options: &RackspaceCloudOptions) -> NodeSpec {
        let name = self.node(options.auctions.seed);
        let paid = match self.kind {
            Kind::Spot => "spot",
            Kind::OnDemand => "ondemand",
        };
        let site = class
            .name
            .rsplit('-')
            .next()
            .unwrap_or_default()
            .to_uppercase();
        let mut spec = NodeSpec::named(name)
            .label("nodepool.ngpc.rxt.io/name", &self.name)
            .label("servers.ngpc.rxt.io/class", &class.name)
            .label("servers.ngpc.rxt.io/type", paid)
            .label("node.kubernetes.io/instance-type", &class.flavor)
            .label("topology.kubernetes.io/region", &site)
            .label("topology.cinder.csi.openstack.org/zone", "nova");
        let mut id = self.name.clone().into_bytes();
        id.reverse();
        let id = String::from_utf8_lossy(&id).into_owned();
        spec.provider_id = format!("openstack:///{id}");
        spec.architecture = Some("amd64".to_owned());
        let memory = class.memory_kib();
        let disk = u64::from(class.disk.unwrap_or(40)) * 1_048_576 * 967 / 1000;
        let amounts = |cpu: u32, memory: u64, disk: u64| {
            BTreeMap::from([
                ("cpu".to_owned(), format!("{cpu}m")),
                ("memory".to_owned(), format!("{memory}Ki")),
                ("ephemeral-storage".to_owned(), format!("{disk}Ki")),
                ("pods".to_owned(), "110".to_owned()),
            ])
        };
        spec.capacity = amounts(class.cpu * 1000, memory, disk);
        spec.allocatable = amounts(
            class.cpu * 1000 - 500,
            memory.saturating_sub((1024 + 100) * 1024),
            disk * 9 / 10 - 2 * 1_048_576,
        );
        spec.ready_after = SignedDuration::from_secs(15);
        spec
    }
}

impl State {
    /// Whether a pool is one that Joiner made and marked.
    pub(super) fn is_marked(&self, pool: &Pool) -> bool {
        pool.mark().is_some() && !self.foreign.contains(&pool.name)
    }

    /// Everything that was sold, for another process to go on with.
    pub(super) fn memory(&self) -> Value {
        let pools: Vec<&Pool> = self.pools.values().collect();
        serde_json::to_value(pools).unwrap_or_default()
    }

    /// Goes on where another process ended: servers that were nodes are switched on again. Says how many pools there are.
    pub(super) fn restore(&mut self, memory: &Value) -> usize {
        let pools: Vec<Pool> = serde_json::from_value(memory.clone()).unwrap_or_default();
        self.version = pools.iter().map(|pool| pool.version).max().unwrap_or(0);
        self.stamps.clear();
        self.pools = pools
            .into_iter()
            .map(|mut pool| {
                if pool.server == Server::Up {
                    pool.server = Server::Building(pool.created);
                }
                ((pool.kind, pool.name.clone()), pool)
            })
            .collect();
        self.pools.len()
    }

    /// Forgets everything; names the nodes that somebody else looks after from now on.
    pub(super) fn rest(&mut self, seed: u64) -> Vec<String> {
        let pools = std::mem::take(&mut self.pools);
        let up = pools.into_values().filter(|pool| pool.server == Server::Up);
        up.map(|pool| pool.node(seed)).collect()
    }

    /// Makes a pool, or says why not.
    pub(super) fn create(
        &mut self,
        kind: Kind,
        namespace: &str,
        body: &Value,
        options: &RackspaceCloudOptions,
        now: Timestamp,
    ) -> Result<Value, Refused> {
        let name = body["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let spec = &body["spec"];
        admission::shape(&name, spec)?;
        if self.pools.contains_key(&(kind, name.clone())) {
            let message = format!("{} \"{name}\" already exists", kind.word());
            return Err(Refused::new(409, "AlreadyExists", message));
        }
        self.admit(kind, &name, spec, options, now)?;
        let decided = later(now, options.decides_after);
        self.version += 1;
        let pool = Pool {
            kind,
            namespace: namespace.to_owned(),
            name: name.clone(),
            labels: body["metadata"]["labels"].clone(),
            spec: spec.clone(),
            created: now,
            version: self.version,
            server: Server::Undecided(decided),
            taken: None,
            ends: None,
        };
        let object = pool.object();
        if self.is_marked(&pool) {
            let machine = pool.machine(pool.class(options));
            self.news.push(CloudEvent::Launched(Box::new(machine)));
        }
        self.pools.insert((kind, name), pool);
        Ok(object)
    }

    fn admit(
        &self,
        kind: Kind,
        name: &str,
        spec: &Value,
        options: &RackspaceCloudOptions,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let space = spec["cloudSpace"].as_str().unwrap_or_default();
        if space != options.cloudspace {
            return Err(Refused::webhook(format!("cloudspace {space:?} not found")));
        }
        let wanted = spec["serverClass"].as_str().unwrap_or_default();
        let class = options
            .classes
            .iter()
            .find(|class| class.name == wanted && class.region == options.region)
            .ok_or_else(|| {
                Refused::webhook(format!("serverclass {wanted:?} not found in the region"))
            })?;
        if self.pools.len() >= options.max_pools {
            return Err(Refused::webhook(format!(
                "maximum number of {} servers of the cloudspace is reached",
                options.max_pools
            )));
        }
        if kind == Kind::Spot {
            let bid = admission::bid(name, spec)?;
            let market = options.auctions.market(class, options.auctions.period(now));
            admission::judge(class, bid, market)?;
        }
        Ok(())
    }

    /// Merges a patch into the spec of a pool. Only the bid and the labels can change.
    pub(super) fn patch(
        &mut self,
        kind: Kind,
        name: &str,
        patch: &Value,
        options: &RackspaceCloudOptions,
        now: Timestamp,
    ) -> Result<Value, Refused> {
        let pool = self
            .pools
            .get_mut(&(kind, name.to_owned()))
            .ok_or_else(|| missing(kind, name))?;
        let mut spec = pool.spec.clone();
        if let (Some(spec), Some(changes)) = (spec.as_object_mut(), patch["spec"].as_object()) {
            for (key, value) in changes {
                spec.insert(key.clone(), value.clone());
            }
        }
        admission::shape(name, &spec)?;
        if kind == Kind::Spot && spec["bidPrice"] != pool.spec["bidPrice"] {
            let bid = admission::bid(name, &spec)?;
            if let Some(class) = pool.class(options) {
                let market = options.auctions.market(class, options.auctions.period(now));
                admission::judge(class, bid, market)?;
            }
        }
        pool.spec = spec;
        self.version += 1;
        pool.version = self.version;
        Ok(pool.object())
    }

    /// Begins to take a pool down.
    pub(super) fn delete(
        &mut self,
        kind: Kind,
        name: &str,
        options: &RackspaceCloudOptions,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let pool = self
            .pools
            .get_mut(&(kind, name.to_owned()))
            .ok_or_else(|| missing(kind, name))?;
        if pool.ends.is_none() {
            pool.ends = Some(later(now, options.stops_after));
            self.news.push(CloudEvent::Terminating(pool.id()));
        }
        Ok(())
    }

    /// Does what is due: decides bids, builds, pre-empts, buries. Says when there is something to do again.
    pub(super) fn due(
        &mut self,
        options: &mut RackspaceCloudOptions,
        now: Timestamp,
    ) -> (Vec<Order>, Option<Timestamp>) {
        let mut orders = Vec::new();
        let mut next: Option<Timestamp> = None;
        let mut wake = |at: Timestamp| next = Some(next.map_or(at, |next| next.min(at)));
        let period = options.auctions.period(now);
        let mut gone = Vec::new();
        for (key, pool) in &mut self.pools {
            let node = pool.node(options.auctions.seed);
            let marked = pool.mark().is_some() && !self.foreign.contains(&pool.name);
            let news = &mut self.news;
            let mut tell = |event: CloudEvent| news.extend(marked.then_some(event));
            if end(pool, &node, options, now, &mut orders, &mut tell) {
                gone.push(key.clone());
                continue;
            }
            let Some(class) = pool.class(options).cloned() else {
                continue;
            };
            let market = options.auctions.market(&class, period);
            decide(pool, &class, market, options, now);
            if outbid(pool, market) && pool.taken.is_none() && pool.ends.is_none() {
                pool.taken = Some(later(now, options.notice));
                tell(CloudEvent::Announced(pool.id()));
                self.webhook
                    .push(format!("{node} of pool {} will be taken", pool.name));
            }
            if matches!(pool.server, Server::Building(at) if at <= now) {
                pool.server = Server::Up;
                tell(CloudEvent::Booted(node.clone()));
                orders.push(Order::Boot(Box::new(pool.node_spec(&class, options))));
                let stamp = (
                    pool.spec["customLabels"].clone(),
                    pool.spec["customTaints"].clone(),
                );
                self.stamps
                    .insert((later(now, options.stamps_after), node), stamp);
            }
            match pool.server {
                Server::Undecided(at) if at > now => wake(at),
                Server::Building(at) => wake(at),
                _ => {}
            }
            [pool.ends, pool.taken]
                .into_iter()
                .flatten()
                .for_each(&mut wake);
            if pool.kind == Kind::Spot && pool.server != Server::Lost
                || matches!(pool.server, Server::Undecided(_))
            {
                wake(options.auctions.next(now));
            }
        }
        for key in gone {
            self.pools.remove(&key);
        }
        while let Some(entry) = self.stamps.first_entry() {
            if entry.key().0 > now {
                wake(entry.key().0);
                break;
            }
            let ((_, node), (labels, taints)) = entry.remove_entry();
            orders.push(Order::Stamp(node, labels, taints));
        }
        (orders, next)
    }
}

pub(super) fn missing(kind: Kind, name: &str) -> Refused {
    let message = format!("{} \"{name}\" not found", kind.word());
    Refused::new(404, "NotFound", message)
}

fn outbid(pool: &Pool, market: u32) -> bool {
    pool.kind == Kind::Spot && pool.has_server() && market > pool.bid()
}

/// Takes away what is due to go. Whether the pool itself is gone.
fn end(
    pool: &mut Pool,
    node: &str,
    options: &mut RackspaceCloudOptions,
    now: Timestamp,
    orders: &mut Vec<Order>,
    tell: &mut impl FnMut(CloudEvent),
) -> bool {
    let is_due = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
    let deleted = is_due(pool.ends);
    if !deleted && !is_due(pool.taken) {
        return false;
    }
    if pool.has_server() {
        if pool.server == Server::Up {
            orders.push(Order::Kill(node.to_owned()));
        }
        if !deleted {
            tell(CloudEvent::Taken(pool.id()));
        }
        give_back(options, pool);
    }
    pool.server = Server::Lost;
    pool.taken = None;
    if deleted {
        tell(CloudEvent::Gone {
            id: pool.id(),
            taken: false,
        });
    }
    deleted
}

fn give_back(options: &mut RackspaceCloudOptions, pool: &Pool) {
    let wanted = pool.spec["serverClass"].as_str().unwrap_or_default();
    if let Some(class) = options
        .classes
        .iter_mut()
        .find(|class| class.name == wanted)
    {
        class.available += 1;
    }
}

/// Holds the auction for one pool: it wins a server, loses, or waits on.
fn decide(
    pool: &mut Pool,
    class: &Class,
    market: u32,
    options: &mut RackspaceCloudOptions,
    now: Timestamp,
) {
    if !matches!(pool.server, Server::Undecided(at) if at <= now) || pool.ends.is_some() {
        return;
    }
    if pool.kind == Kind::Spot && pool.bid() < market {
        pool.server = Server::Lost;
        return;
    }
    let Some(stock) = options
        .classes
        .iter_mut()
        .find(|one| one.name == class.name)
    else {
        return;
    };
    if stock.available == 0 || stock.stuck {
        return;
    }
    stock.available -= 1;
    let span = options
        .arrives_max
        .saturating_sub(options.arrives_min)
        .as_secs();
    let extra = stream(options.auctions.seed, &pool.name, 2).random_range(0..=span);
    pool.server = Server::Building(later(now, options.arrives_min + Duration::from_secs(extra)));
}
