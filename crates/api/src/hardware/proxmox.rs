//! Settings of a Proxmox VE cluster.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Tls;

/// A Proxmox VE cluster, and how virtual machines are made there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [
    {
        "message": "endpoint must be a valid HTTP/HTTPS URL",
        "rule": "self.endpoint.startsWith('https://') || self.endpoint.startsWith('http://')"
    },
    {
        "message": "vmMemOverheadMiB must be non-negative",
        "rule": "!has(self.vmMemOverheadMiB) || self.vmMemOverheadMiB >= 0"
    }
]))]
pub struct ProxmoxSettings {
    /// Address of the API, such as `https://10.0.4.30:8006/api2/json`.
    pub endpoint: String,
    /// Proxmox nodes where machines may run; none listed means all that are online.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_whitelist: Vec<String>,
    /// Numbers that machines may have.
    #[serde(rename = "vmIDRange", default, skip_serializing_if = "Option::is_none")]
    pub vm_id_range: Option<VmIdRange>,
    /// Tag that every machine gets. Machines without it are never touched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_node_tag: Option<String>,
    /// Memory that a machine gets beyond what its node must offer, in MiB.
    #[serde(
        rename = "vmMemOverheadMiB",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub vm_mem_overhead_mib: Option<i64>,
    /// Network devices of every machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_interfaces: Vec<NetworkInterface>,
    /// Options that are handed to Proxmox as they are when a machine is made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vm_options: Vec<VmOption>,
    /// Whom to trust; Proxmox signs its own certificates unless told otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// A template to copy; without it, machines are made new and boot from the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<VmTemplate>,
    /// Zone of each Proxmox node, such as its rack; a node that is not listed is a zone of its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 200))]
    pub zones: BTreeMap<String, String>,
    /// How much of a Proxmox node may be promised to machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overcommit: Option<Overcommit>,
    /// Memory that stays with each Proxmox node, in MiB; 2048 if not set.
    #[serde(
        rename = "hostReserveMiB",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(extend("minimum" = 0))]
    pub host_reserve_mib: Option<i64>,
}

/// A template to copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct VmTemplate {
    /// Its name, its tag or its number. Each Proxmox node has one, or it stands on storage that all of them share.
    #[schemars(extend("minLength" = 1, "maxLength" = 63))]
    pub name: String,
    /// Storage for the disks of full copies; that of the template if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 100))]
    pub storage: Option<String>,
    /// Whether copies share the disk of the template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linked: Option<bool>,
    /// Size of the disk that machines boot from, in GiB; that of the template if not set.
    #[serde(rename = "diskGiB", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 65536))]
    pub disk_gib: Option<i64>,
}

/// How much of a Proxmox node may be promised to machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Overcommit {
    /// Cores as a share of the node's threads, in percent; 200 if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 10000))]
    pub cpu_percent: Option<i64>,
    /// Memory as a share of the node's memory, in percent; 100 if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = 1000))]
    pub memory_percent: Option<i64>,
}

/// A range of machine numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [
    { "message": "lower must be >= 100 (Proxmox reserved range)", "rule": "self.lower >= 100" },
    { "message": "upper must be <= 999999999 (Proxmox max VMID)", "rule": "self.upper <= 999999999" },
    { "message": "upper must be >= lower", "rule": "self.upper >= self.lower" }
]))]
pub struct VmIdRange {
    /// The first.
    pub lower: i64,
    /// The last.
    pub upper: i64,
}

/// A network device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NetworkInterface {
    /// Name of the device, `net0` to `net31`.
    pub name: String,
    /// Model of the device, such as `virtio`.
    pub model: String,
    /// Bridge that it is plugged into, such as `vmbr0`.
    pub bridge: String,
    /// VLAN; 0 means none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::int", extend("minimum" = 0, "maximum" = 4094))]
    pub vlan_tag: Option<i64>,
    /// First octets of its hardware address, such as `02:00:00`; the rest is random.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^([0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){0,4})?$"))]
    pub mac_prefix: Option<String>,
}

/// An option of a virtual machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct VmOption {
    /// Name, such as `boot`.
    pub name: String,
    /// Value, such as `order=net0`; text, a number or a truth value.
    #[schemars(schema_with = "crate::schema::anything")]
    pub value: Value,
}
