//! Objects of the API as they are sent and received. Fields that are not known here are ignored; states are texts,
//! because new ones appear without notice.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};

/// Reads `null` as the default.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// A Managed Kubernetes cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cluster {
    /// UUID.
    pub id: String,
    /// Region, such as `EU-WEST-PAR`.
    pub region: String,
    /// State.
    pub status: String,
}

/// A taint in a pool's template. The API wants a value that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolTaint {
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
    /// Effect.
    pub effect: String,
}

/// Metadata of a template. The API wants every member, also an empty one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateMetadata {
    /// Labels of every node of the pool, put back whenever they change.
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    /// Annotations, likewise.
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    /// Finalizers.
    #[serde(deserialize_with = "or_default")]
    pub finalizers: Vec<String>,
}

/// Spec of a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateSpec {
    /// Taints of every node of the pool, put back whenever they change.
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<PoolTaint>,
    /// Whether nodes are cordoned.
    #[serde(deserialize_with = "or_default")]
    pub unschedulable: bool,
}

/// What every node of a pool gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Template {
    /// Metadata.
    #[serde(deserialize_with = "or_default")]
    pub metadata: TemplateMetadata,
    /// Spec.
    #[serde(deserialize_with = "or_default")]
    pub spec: TemplateSpec,
}

/// A node pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodePool {
    /// UUID.
    pub id: String,
    /// Name, unique in the cluster.
    pub name: String,
    /// Flavour of its nodes.
    #[serde(deserialize_with = "or_default")]
    pub flavor: String,
    /// State.
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    /// Whether the cluster autoscaler of OVHcloud moves it.
    #[serde(deserialize_with = "or_default")]
    pub autoscale: bool,
    /// Paid by the month.
    #[serde(deserialize_with = "or_default")]
    pub monthly_billed: bool,
    /// Nodes on different hypervisors.
    #[serde(deserialize_with = "or_default")]
    pub anti_affinity: bool,
    /// Zone, in regions that have several.
    #[serde(deserialize_with = "or_default")]
    pub availability_zones: Vec<String>,
    /// How many nodes it should have.
    #[serde(deserialize_with = "or_default")]
    pub desired_nodes: u32,
    /// How many nodes it may have.
    #[serde(deserialize_with = "or_default")]
    pub max_nodes: u32,
    /// Nodes in any state.
    #[serde(deserialize_with = "or_default")]
    pub current_nodes: u32,
    /// Nodes that are ready.
    #[serde(deserialize_with = "or_default")]
    pub available_nodes: u32,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// When it last changed.
    pub updated_at: Option<Timestamp>,
    /// What its nodes get.
    #[serde(deserialize_with = "or_default")]
    pub template: Template,
}

impl NodePool {
    /// Whether it is on its way out.
    pub fn is_leaving(&self) -> bool {
        matches!(self.status.as_str(), "DELETING" | "DELETED")
    }

    /// Whether it says that it cannot go on by itself.
    pub fn is_broken(&self) -> bool {
        self.status.contains("ERROR")
    }
}

/// A pool to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NewPool {
    /// Name.
    pub name: String,
    /// Flavour.
    pub flavor_name: String,
    /// How many nodes.
    pub desired_nodes: u32,
    /// Least.
    pub min_nodes: u32,
    /// Most.
    pub max_nodes: u32,
    /// Always false: whoever moves the pool is us.
    pub autoscale: bool,
    /// Paid by the month.
    pub monthly_billed: bool,
    /// Nodes on different hypervisors.
    pub anti_affinity: bool,
    /// The zone: mandatory where there are several, refused where there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub availability_zones: Vec<String>,
    /// What its nodes get.
    pub template: Template,
}

/// A change of a pool: its size, and which nodes go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolChange {
    /// How many nodes it should have from now on.
    pub desired_nodes: u32,
    /// Ids of the nodes that go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes_to_remove: Vec<String>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Node {
    /// UUID.
    pub id: String,
    /// Pool that it belongs to.
    #[serde(deserialize_with = "or_default")]
    pub node_pool_id: String,
    /// Name of the node.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Flavour, by name or by UUID.
    #[serde(deserialize_with = "or_default")]
    pub flavor: String,
    /// State.
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    /// OpenStack instance, once there is one.
    #[serde(deserialize_with = "or_default")]
    pub instance_id: String,
    /// When it was made.
    pub created_at: Option<Timestamp>,
}

impl Node {
    /// Whether it is on its way out.
    pub fn is_leaving(&self) -> bool {
        matches!(self.status.as_str(), "DELETING" | "DELETED")
    }

    /// Whether it will never run by itself.
    pub fn is_broken(&self) -> bool {
        self.status.contains("ERROR")
    }

    /// What its Node object says in `spec.providerID`; `None` before there is a server.
    pub fn provider_id(&self) -> Option<String> {
        (!self.instance_id.is_empty()).then(|| format!("openstack:///{}", self.instance_id))
    }
}

/// A flavour as Managed Kubernetes lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeFlavor {
    /// Name.
    pub name: String,
    /// First letter of the family.
    #[serde(deserialize_with = "or_default")]
    pub category: String,
    /// `available` or `unavailable`.
    #[serde(deserialize_with = "or_default")]
    pub state: String,
    /// Cores.
    #[serde(rename = "vCPUs", alias = "vcpus", deserialize_with = "or_default")]
    pub vcpus: u32,
    /// GPUs.
    #[serde(deserialize_with = "or_default")]
    pub gpus: u32,
    /// Memory in GiB.
    #[serde(deserialize_with = "or_default")]
    pub ram: u32,
}

/// Plan codes of a flavour in its region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PlanCodes {
    /// By the hour.
    pub hourly: Option<String>,
    /// By the month.
    pub monthly: Option<String>,
}

/// A flavour as the Public Cloud lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NovaFlavor {
    /// UUID.
    pub id: String,
    /// Name.
    pub name: String,
    /// `linux` or `windows`.
    #[serde(deserialize_with = "or_default")]
    pub os_type: String,
    /// Disk in GB.
    #[serde(deserialize_with = "or_default")]
    pub disk: u32,
    /// Whether it is in stock.
    #[serde(default)]
    pub available: Option<bool>,
    /// How many more the project may start.
    #[serde(default)]
    pub quota: Option<i64>,
    /// Plan codes.
    #[serde(deserialize_with = "or_default")]
    pub plan_codes: PlanCodes,
}

/// A region of the project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Region {
    /// Name.
    pub name: String,
    /// `region`, `region-3-az` or `localzone`.
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub kind: String,
    /// Zones; empty where there is but one.
    #[serde(deserialize_with = "or_default")]
    pub availability_zones: Vec<String>,
}

/// What the project may have in a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Quotas {
    /// Of servers.
    #[serde(deserialize_with = "or_default")]
    pub instance: InstanceQuota,
}

/// Quota of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceQuota {
    /// Most cores.
    pub max_cores: Option<i64>,
    /// Cores in use.
    pub used_cores: Option<i64>,
    /// Most servers.
    pub max_instances: Option<i64>,
    /// Servers in use.
    pub used_instances: Option<i64>,
}

/// An error as the API words it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Refusal {
    /// Class, such as `Client::Forbidden`.
    #[serde(deserialize_with = "or_default")]
    pub class: String,
    /// For people.
    #[serde(deserialize_with = "or_default")]
    pub message: String,
    /// Such as `NOT_GRANTED_CALL`.
    #[serde(deserialize_with = "or_default")]
    pub error_code: String,
}
