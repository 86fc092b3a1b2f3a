//! The pools and nodes that the cloud knows, and what becomes of them when.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_embedded::clock::rfc3339;
use joiner_embedded::cluster::kubelet::NodeSpec;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::options::{Flavor, OvhCloudOptions};
use super::routes::Refused;
use crate::clouds::watched::CloudEvent;

mod due;
mod news;

pub(super) use self::news::{machine_id, node_id};

/// One node.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Node {
    id: String,
    name: String,
    instance: String,
    created: Timestamp,
    listed: Timestamp,
    instance_at: Timestamp,
    ready: Timestamp,
    /// Its Node object has been made.
    up: bool,
    /// When it is gone.
    leaves: Option<Timestamp>,
    out_of_stock: bool,
    /// The cloud has taken it away by itself.
    #[serde(default)]
    lost: bool,
}

/// One pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "fields of the wire")]
struct Pool {
    id: String,
    name: String,
    flavor: String,
    zone: Option<String>,
    monthly: bool,
    anti_affinity: bool,
    autoscale: bool,
    desired: u32,
    min: u32,
    max: u32,
    template: Value,
    created: Timestamp,
    updated: Timestamp,
    appears: Timestamp,
    installed: Timestamp,
    leaves: Option<Timestamp>,
    /// Nothing is made in it any more.
    #[serde(default)]
    broken: bool,
    /// Somebody else made it.
    #[serde(default)]
    foreign: bool,
    nodes: BTreeMap<String, Node>,
}

/// A node as tests see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// Id.
    pub id: String,
    /// Name of its pool.
    pub pool: String,
    /// Name of its Node object.
    pub name: String,
    /// What its Node object says in `spec.providerID`.
    pub provider_id: String,
    /// Flavour.
    pub flavor: String,
    /// On its way out.
    pub leaving: bool,
    /// State as the API says it.
    pub status: String,
}

/// Something to be done in the world of kubelets.
pub(super) enum Order {
    Boot(Box<NodeSpec>),
    Kill(String),
    Enforce(String, Value),
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct State {
    pools: BTreeMap<String, Pool>,
    made: u64,
    #[serde(default)]
    pub(super) removals: Vec<(String, bool)>,
    #[serde(default)]
    pub(super) peaks: (usize, usize),
    #[serde(default)]
    enforced: Option<Timestamp>,
    /// What has happened and was not told yet.
    #[serde(skip)]
    pub(super) news: Vec<CloudEvent>,
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

fn cores(options: &OvhCloudOptions, flavor: &str, count: u32) -> u32 {
    let found = options.flavors.iter().find(|one| one.name == flavor);
    found.map_or(0, |one| one.vcpus) * count
}

fn digest(seed: u64, name: &str, number: u64) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    hash.update(name.as_bytes());
    hash.update(number.to_le_bytes());
    hash.finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// A UUID that is always the same for the same arguments.
pub(super) fn uuid(seed: u64, name: &str, number: u64) -> String {
    let text = hex(&digest(seed, name, number));
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-4{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(13, 16),
        part(17, 20),
        part(20, 32)
    )
}

impl Node {
    fn status(&self, now: Timestamp) -> &'static str {
        if self.leaves.is_some() {
            "DELETING"
        } else if self.out_of_stock {
            "FLAVOR_OUT_OF_STOCK_ERROR"
        } else if self.ready <= now {
            "READY"
        } else {
            "INSTALLING"
        }
    }

    fn object(&self, pool: &Pool, options: &OvhCloudOptions, now: Timestamp) -> Value {
        let flavor = options.flavors.iter().find(|one| one.name == pool.flavor);
        let flavor = match flavor {
            Some(flavor) if options.flavor_uuids => flavor.uuid(),
            _ => pool.flavor.clone(),
        };
        let instance = (self.instance_at <= now && !self.out_of_stock).then_some(&self.instance);
        json!({"id": self.id, "nodePoolId": pool.id, "projectId": options.service_name, "name": self.name,
            "flavor": flavor, "version": "1.34.1-0", "status": self.status(now), "instanceId": instance,
            "isUpToDate": true, "createdAt": rfc3339(self.created), "updatedAt": rfc3339(self.created),
            "deployedAt": (self.ready <= now).then(|| rfc3339(self.ready))})
    }
}

impl Pool {
    fn staying(&self) -> usize {
        self.nodes
            .values()
            .filter(|node| node.leaves.is_none())
            .count()
    }

    fn status(&self, now: Timestamp) -> &'static str {
        let ready = self.nodes.values().all(|node| node.status(now) == "READY");
        let desired = usize::try_from(self.desired).unwrap_or(usize::MAX);
        if self.leaves.is_some() {
            "DELETING"
        } else if self.installed > now {
            "INSTALLING"
        } else if self.broken || self.nodes.values().any(|node| node.out_of_stock) {
            "ERROR"
        } else if self.staying() < desired {
            "UPSCALING"
        } else if self.nodes.len() > desired {
            "DOWNSCALING"
        } else if ready {
            "READY"
        } else {
            "UPSCALING"
        }
    }

    fn object(&self, options: &OvhCloudOptions, now: Timestamp) -> Value {
        let listed = self.nodes.values().filter(|node| node.listed <= now);
        let ready = listed.clone().filter(|node| node.status(now) == "READY");
        let zones: Vec<&String> = self.zone.iter().collect();
        json!({"id": self.id, "projectId": options.service_name, "name": self.name, "flavor": self.flavor,
            "status": self.status(now), "sizeStatus": "CAPACITY_OK", "autoscale": self.autoscale,
            "monthlyBilled": self.monthly, "antiAffinity": self.anti_affinity, "availabilityZones": zones,
            "attachFloatingIps": {"enabled": false}, "desiredNodes": self.desired, "minNodes": self.min,
            "maxNodes": self.max, "currentNodes": listed.count(), "availableNodes": ready.count(), "upToDateNodes": 0,
            "createdAt": rfc3339(self.created), "updatedAt": rfc3339(self.updated),
            "autoscaling": {"scaleDownUtilizationThreshold": 0.5}, "template": self.template})
    }

    fn node_spec(&self, node: &Node, flavor: &Flavor, options: &OvhCloudOptions) -> NodeSpec {
        let zone = self.zone.as_deref().unwrap_or("nova");
        let kind = if options.flavor_uuids {
            flavor.uuid()
        } else {
            flavor.name.clone()
        };
        let mut spec = NodeSpec::named(node.name.clone())
            .label("nodepool", &self.name)
            .label(
                "node.k8s.ovh/type",
                if flavor.gpus > 0 { "gpu" } else { "standard" },
            )
            .label("node.kubernetes.io/instance-type", &kind)
            .label("topology.kubernetes.io/region", &options.region)
            .label("topology.kubernetes.io/zone", zone)
            .label("topology.cinder.csi.openstack.org/zone", zone);
        for (key, value) in self.template["metadata"]["labels"]
            .as_object()
            .into_iter()
            .flatten()
        {
            spec = spec.label(key, value.as_str().unwrap_or_default());
        }
        for (key, value) in self.template["metadata"]["annotations"]
            .as_object()
            .into_iter()
            .flatten()
        {
            let value = value.as_str().unwrap_or_default().to_owned();
            spec.annotations.insert(key.clone(), value);
        }
        let cluster = "cluster.x-k8s.io/cluster-name".to_owned();
        spec.annotations.insert(cluster, options.kube_id.clone());
        spec.taints = self.template["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        spec.provider_id = format!("openstack:///{}", node.instance);
        spec.architecture = Some("amd64".to_owned());
        let memory = u64::from(flavor.ram) * 1_048_576 * 9463 / 10_000;
        let disk = u64::from(flavor.disk) * 1_048_576 * 9655 / 10_000;
        let mut amounts = BTreeMap::from([
            ("cpu".to_owned(), format!("{}m", flavor.vcpus * 1000)),
            ("memory".to_owned(), format!("{memory}Ki")),
            ("ephemeral-storage".to_owned(), format!("{disk}Ki")),
            ("pods".to_owned(), "110".to_owned()),
        ]);
        if flavor.gpus > 0 {
            amounts.insert("nvidia.com/gpu".to_owned(), flavor.gpus.to_string());
        }
        spec.capacity = amounts.clone();
        let kept = 1840 * 1024;
        amounts.insert("cpu".to_owned(), format!("{}m", flavor.vcpus * 995 - 150));
        amounts.insert(
            "memory".to_owned(),
            format!("{}Ki", memory.saturating_sub(kept)),
        );
        let kept = (f64::from(flavor.disk).log10() * 10.0 + f64::from(flavor.disk) * 0.1) * 9.3e5;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "disks are small numbers"
        )]
        let kept = kept as u64;
        amounts.insert(
            "ephemeral-storage".to_owned(),
            format!("{}Ki", disk.saturating_sub(kept)),
        );
        spec.allocatable = amounts;
        spec.ready_after = SignedDuration::from_secs(1);
        spec
    }
}

impl State {
    pub(super) fn count(&self) -> usize {
        self.pools.len()
    }

    /// Nodes that were up are booted again: the process that played them has ended.
    pub(super) fn wake(&mut self) {
        for node in self
            .pools
            .values_mut()
            .flat_map(|pool| pool.nodes.values_mut())
        {
            node.up = false;
        }
    }

    pub(super) fn views(&self, now: Timestamp) -> Vec<NodeView> {
        let view = |pool: &Pool, node: &Node| NodeView {
            id: node.id.clone(),
            pool: pool.name.clone(),
            name: node.name.clone(),
            provider_id: format!("openstack:///{}", node.instance),
            flavor: pool.flavor.clone(),
            leaving: node.leaves.is_some(),
            status: node.status(now).to_owned(),
        };
        self.pools
            .values()
            .flat_map(|pool| pool.nodes.values().map(move |node| view(pool, node)))
            .collect()
    }

    /// All pools; those that the API does not find yet only if `hidden`.
    pub(super) fn pools(
        &self,
        options: &OvhCloudOptions,
        now: Timestamp,
        hidden: bool,
    ) -> Vec<Value> {
        self.pools
            .values()
            .filter(|pool| hidden || pool.appears <= now)
            .map(|pool| pool.object(options, now))
            .collect()
    }

    pub(super) fn pool(
        &self,
        id: &str,
        options: &OvhCloudOptions,
        now: Timestamp,
    ) -> Result<Value, Refused> {
        self.seen(id, now).map(|pool| pool.object(options, now))
    }

    fn seen(&self, id: &str, now: Timestamp) -> Result<&Pool, Refused> {
        self.pools
            .get(id)
            .filter(|pool| pool.appears <= now)
            .ok_or_else(|| Refused::missing("node pool", id))
    }

    /// Nodes of one pool, or of all.
    pub(super) fn nodes(
        &self,
        pool: Option<&str>,
        options: &OvhCloudOptions,
        now: Timestamp,
    ) -> Result<Vec<Value>, Refused> {
        if let Some(id) = pool {
            self.seen(id, now)?;
        }
        Ok(self
            .pools
            .values()
            .filter(|one| pool.is_none_or(|id| one.id == id))
            .flat_map(|pool| pool.nodes.values().map(move |node| (pool, node)))
            .filter(|(_, node)| node.listed <= now)
            .map(|(pool, node)| node.object(pool, options, now))
            .collect())
    }

    /// Cores that all pools have together.
    pub(super) fn cores(&self, options: &OvhCloudOptions) -> u32 {
        let all = self.pools.values();
        all.map(|pool| cores(options, &pool.flavor, pool.desired))
            .sum()
    }

    fn check_quota(
        &self,
        options: &OvhCloudOptions,
        changed: &str,
        flavor: &str,
        desired: u32,
    ) -> Result<(), Refused> {
        let Some(most) = options.quota_cores else {
            return Ok(());
        };
        let others: u32 = self
            .pools
            .values()
            .filter(|pool| pool.id != changed)
            .map(|pool| cores(options, &pool.flavor, pool.desired))
            .sum();
        if others + cores(options, flavor, desired) > most {
            return Err(Refused::new(
                412,
                "Client::PreconditionFailed",
                "[InsufficientVCPUsQuota] Cannot perform operation: current vCPUs quota is insufficient",
            ));
        }
        Ok(())
    }

    /// Makes a pool, or says why not.
    pub(super) fn create(
        &mut self,
        body: &Value,
        options: &OvhCloudOptions,
        now: Timestamp,
    ) -> Result<Value, Refused> {
        let bad = |said: String| Err(Refused::new(400, "Client::BadRequest", said));
        let name = body["name"].as_str().unwrap_or_default();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty()
            || !name.chars().all(fits)
            || name.starts_with(|c: char| c.is_ascii_digit())
        {
            return bad(format!("invalid node pool name {name:?}"));
        }
        let wanted = body["flavorName"].as_str().unwrap_or_default();
        let Some(flavor) = options.flavors.iter().find(|one| one.name == wanted) else {
            return bad(format!(
                "flavor {wanted:?} does not exist in {}",
                options.region
            ));
        };
        if flavor.state != "available" {
            return bad(format!("flavor {wanted} is out of stock"));
        }
        check_template(&body["template"])?;
        let zones: Vec<&str> = body["availabilityZones"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if options.zones.is_empty() && !zones.is_empty() {
            return Err(Refused::new(
                422,
                "Client::UnprocessableEntity",
                "this cluster is not multi-zone compatible",
            ));
        }
        if !options.zones.is_empty() {
            match zones.as_slice() {
                [zone] if options.zones.iter().any(|one| one == zone) => {}
                [] => return bad("availabilityZones is mandatory".to_owned()),
                _ => return bad(format!("invalid availabilityZones {zones:?}")),
            }
        }
        if body["monthlyBilled"] == true && !flavor.is_gen2() {
            return bad("monthly billing not supported yet".to_owned());
        }
        if self.pools.values().any(|pool| pool.name == name) {
            let said = format!("a node pool named {name} already exists");
            return Err(Refused::new(409, "Client::Conflict", said));
        }
        if self.pools.len() >= options.max_pools {
            return Err(Refused::new(
                400,
                "Client::BadRequest",
                "the maximum number of node pools of the cluster is reached",
            ));
        }
        let number = |key: &str, default: u64| body[key].as_u64().unwrap_or(default);
        let most = if body["antiAffinity"] == true { 5 } else { 100 };
        let (desired, max) = (number("desiredNodes", 1), number("maxNodes", most));
        if desired < number("minNodes", 0) || desired > max || max > most {
            return bad("desiredNodes is not between minNodes and the maximum of nodes".to_owned());
        }
        let count = u32::try_from(desired).unwrap_or(u32::MAX);
        self.check_quota(options, "", wanted, count)?;
        let id = self.plant(body, options, now);
        let pool = self
            .pools
            .get_mut(&id)
            .ok_or_else(|| Refused::missing("node pool", &id))?;
        pool.foreign = false;
        self.news.extend(pool.made());
        Ok(pool.object(options, now))
    }

    /// Makes a pool past every check.
    pub(super) fn plant(
        &mut self,
        body: &Value,
        options: &OvhCloudOptions,
        now: Timestamp,
    ) -> String {
        self.made += 1;
        let name = body["name"].as_str().unwrap_or_default().to_owned();
        let id = uuid(options.seed, &name, self.made);
        let number = |key: &str, default: u64| {
            u32::try_from(body[key].as_u64().unwrap_or(default)).unwrap_or(0)
        };
        let anti_affinity = body["antiAffinity"] == true;
        let pool = Pool {
            id: id.clone(),
            name,
            flavor: body["flavorName"].as_str().unwrap_or_default().to_owned(),
            zone: body["availabilityZones"][0].as_str().map(str::to_owned),
            monthly: body["monthlyBilled"] == true,
            anti_affinity,
            autoscale: body["autoscale"] == true,
            desired: number("desiredNodes", 1),
            min: number("minNodes", 0),
            max: number("maxNodes", if anti_affinity { 5 } else { 100 }),
            template: body["template"].clone(),
            created: now,
            updated: now,
            appears: later(now, options.pool_appears),
            installed: later(now, options.pool_installs),
            leaves: None,
            broken: false,
            foreign: true,
            nodes: BTreeMap::new(),
        };
        self.pools.insert(id.clone(), pool);
        self.peaks.0 = self.peaks.0.max(self.pools.len());
        id
    }

    /// Changes a pool: its size, its template, and which nodes go.
    pub(super) fn change(
        &mut self,
        id: &str,
        body: &Value,
        options: &OvhCloudOptions,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let pool = self.seen(id, now)?.clone();
        if pool.leaves.is_some() {
            let said = "this node pool is being deleted";
            return Err(Refused::new(400, "Client::BadRequest", said));
        }
        let desired = body["desiredNodes"]
            .as_u64()
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(pool.desired);
        if desired < pool.min || desired > pool.max {
            let said = "desiredNodes is not between minNodes and the maximum of nodes";
            return Err(Refused::new(400, "Client::BadRequest", said));
        }
        if !body["template"].is_null() {
            check_template(&body["template"])?;
        }
        if desired > pool.desired {
            self.check_quota(options, id, &pool.flavor, desired)?;
        }
        let named: Vec<String> = body["nodesToRemove"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        let Some(pool) = self.pools.get_mut(id) else {
            return Err(Refused::missing("node pool", id));
        };
        self.news.extend(pool.told(desired));
        pool.desired = desired;
        pool.updated = now;
        if !body["template"].is_null() {
            pool.template = body["template"].clone();
        }
        let gone = later(now, options.gone_after);
        let ours = pool.is_ours();
        for node in pool.nodes.values_mut().filter(|node| node.leaves.is_none()) {
            let provider = format!("openstack:///{}", node.instance);
            let known = [&node.id, &node.instance, &provider];
            if named.iter().any(|one| known.contains(&one)) {
                node.leaves = Some(gone);
                self.removals.push((node.id.clone(), true));
                self.news.extend(ours.then(|| node.stopped()));
            }
        }
        Ok(())
    }

    /// Begins to remove a pool with everything in it.
    pub(super) fn delete(
        &mut self,
        id: &str,
        options: &OvhCloudOptions,
        now: Timestamp,
    ) -> Result<(), Refused> {
        self.seen(id, now)?;
        let Some(pool) = self.pools.get_mut(id) else {
            return Err(Refused::missing("node pool", id));
        };
        if pool.installed > now {
            let said = "this node pool is INSTALLING and cannot be deleted now";
            return Err(Refused::new(409, "Client::Conflict", said));
        }
        let gone = later(now, options.gone_after);
        pool.leaves.get_or_insert(gone);
        self.news.extend(pool.ended());
        let ours = pool.is_ours();
        let emptied = pool.desired == 0;
        for node in pool.nodes.values_mut().filter(|node| node.leaves.is_none()) {
            node.leaves = Some(gone);
            self.removals.push((node.id.clone(), emptied));
            self.news.extend(ours.then(|| node.stopped()));
        }
        Ok(())
    }

    /// What is broken is mended.
    pub(super) fn mend(&mut self) {
        for pool in self.pools.values_mut() {
            pool.broken = false;
        }
    }

    /// Lets nothing more be made in a pool.
    pub(super) fn break_pool(&mut self, name: &str) {
        for pool in self.pools.values_mut().filter(|pool| pool.name == name) {
            pool.broken = true;
        }
    }

    /// Takes a node away that nobody asked to go.
    pub(super) fn lose(&mut self, id: &str, options: &OvhCloudOptions, now: Timestamp) {
        let gone = later(now, options.gone_after);
        for pool in self.pools.values_mut() {
            let ours = pool.is_ours();
            if let Some(node) = pool.nodes.get_mut(id).filter(|node| node.leaves.is_none()) {
                node.leaves = Some(gone);
                node.lost = true;
                self.news.extend(ours.then(|| node.announced()));
            }
        }
    }
}

/// Every member of a template is required, and no taint may have an empty value.
fn check_template(template: &Value) -> Result<(), Refused> {
    if template.is_null() {
        return Ok(());
    }
    let bad = |said: &str| Err(Refused::new(400, "Client::BadRequest", said));
    let (metadata, spec) = (&template["metadata"], &template["spec"]);
    if !metadata["labels"].is_object()
        || !metadata["annotations"].is_object()
        || !metadata["finalizers"].is_array()
        || !spec["taints"].is_array()
        || !spec["unschedulable"].is_boolean()
    {
        return bad("template: every member of metadata and spec is required");
    }
    for taint in spec["taints"].as_array().into_iter().flatten() {
        if taint["value"].as_str().unwrap_or_default().is_empty() {
            return bad("template: the value of a taint may not be empty");
        }
    }
    Ok(())
}
