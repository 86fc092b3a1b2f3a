//! `joiner.dev/v1alpha1` SimNodeClass: a simulated cloud, to try Joiner on any cluster without buying anything.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::text::{Duration, Percent};

/// What the simulated cloud sells and how it misbehaves. An empty spec is a cloud that works.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "joiner.dev",
    version = "v1alpha1",
    kind = "SimNodeClass",
    plural = "simnodeclasses",
    doc = "A simulated cloud: machines that cost nothing and register as nodes with simulated kubelets.",
    category = "karpenter",
    category = "joiner",
    status = "SimNodeClassStatus",
    derive = "PartialEq",
    printcolumn(name = "Types", type_ = "integer", json_path = ".status.instanceTypes"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct SimNodeClassSpec {
    /// What it sells; without it, a catalogue that is built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<Catalog>,
    /// From what all its chances are drawn: with the same seed the same things happen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 0, "minimum" = 0))]
    pub seed: Option<i64>,
    /// How its spot prices move; without it, they stay as the catalogue has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spot_prices: Option<SpotPrices>,
    /// How long a machine takes to become a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_time: Option<BootTime>,
    /// How long a machine takes to be gone when it is told to go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration", extend("default" = "5s"))]
    pub stop_time: Option<Duration>,
    /// Who runs the pods of its nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "Simulated"))]
    pub kubelet: Option<Kubelet>,
    /// How long a machine may take to become a node; without it, ample time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration")]
    pub registration_timeout: Option<Duration>,
    /// How often it is sold out; without it, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stock_outs: Option<StockOuts>,
    /// How often it takes spot machines back; without it, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interruptions: Option<Interruptions>,
    /// How often it fails; without it, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<Failures>,
}

/// Where a catalogue is read from: JSON as Karpenter's kwok provider reads it, so that both can run on the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = [{
    "message": "catalog needs exactly one of configMapKeyRef and file",
    "rule": "has(self.configMapKeyRef) != has(self.file)"
}]))]
pub struct Catalog {
    /// Key of a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_key_ref: Option<ConfigMapKeyRef>,
    /// File that the controller can read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1, "maxLength" = 4096))]
    pub file: Option<String>,
}

/// Key of a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ConfigMapKeyRef {
    /// Namespace.
    #[schemars(extend("minLength" = 1, "maxLength" = 63))]
    pub namespace: String,
    /// Name.
    #[schemars(extend("minLength" = 1, "maxLength" = 253))]
    pub name: String,
    /// Key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "instance-types.json", "minLength" = 1, "maxLength" = 253))]
    pub key: Option<String>,
}

/// How spot prices move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SpotPrices {
    /// How far a price may stray from the catalogue's, up or down.
    #[schemars(schema_with = "crate::schema::percent")]
    pub swing: Percent,
    /// How often prices change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration", extend("default" = "5m"))]
    pub every: Option<Duration>,
}

/// How long a machine takes to become a node: a time between these two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct BootTime {
    /// At least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration", extend("default" = "5s"))]
    pub min: Option<Duration>,
    /// At most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration", extend("default" = "15s"))]
    pub max: Option<Duration>,
}

/// How often the cloud is sold out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct StockOuts {
    /// Offerings that are sold out until this list says otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 100))]
    pub offerings: Vec<OfferingSelector>,
    /// Whether the catalogue keeps quiet about it, and a purchase finds out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// How likely each other offering is sold out in a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::percent")]
    pub chance: Option<Percent>,
    /// How long a period is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration", extend("default" = "10m"))]
    pub every: Option<Duration>,
}

/// Which offerings; what is left out matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct OfferingSelector {
    /// Of this machine type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 253))]
    pub instance_type: Option<String>,
    /// In this zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("maxLength" = 63))]
    pub zone: Option<String>,
    /// Paid for in this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["spot", "on-demand", "reserved"]))]
    pub capacity_type: Option<String>,
}

/// How often spot machines are taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Interruptions {
    /// How likely each spot machine is taken back in a period.
    #[schemars(schema_with = "crate::schema::percent")]
    pub chance: Percent,
    /// How long a period is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration", extend("default" = "1h"))]
    pub every: Option<Duration>,
    /// How long before it is announced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration", extend("default" = "2m"))]
    pub notice: Option<Duration>,
}

/// How often things go wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Failures {
    /// How likely a launch is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::percent")]
    pub launch: Option<Percent>,
    /// How likely a machine that was launched never becomes a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::percent")]
    pub registration: Option<Percent>,
}

/// What has been found out about a SimNodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct SimNodeClassStatus {
    /// How many machine types it sells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_types: Option<i32>,
    /// Whether its catalogue can be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Who runs the pods of a simulated machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline, description = "")]
pub enum Kubelet {
    /// Joiner itself.
    #[default]
    Simulated,
    /// A kwok that somebody else runs: nodes carry the annotation that it knows its own by.
    Kwok,
}

impl SimNodeClassSpec {
    /// From what all chances are drawn, with the default filled in.
    pub fn seed(&self) -> i64 {
        self.seed.unwrap_or(0)
    }

    /// Who runs the pods of its nodes, with the default filled in.
    pub fn kubelet(&self) -> Kubelet {
        self.kubelet.unwrap_or_default()
    }

    /// How long a machine takes to be gone, with the default filled in.
    pub fn stop_time(&self) -> Duration {
        self.stop_time.clone().unwrap_or_else(|| "5s".into())
    }

    /// How long a machine takes to become a node, with the defaults filled in.
    pub fn boot_time(&self) -> BootTime {
        let boot = self.boot_time.clone().unwrap_or_default();
        BootTime {
            min: boot.min.or_else(|| Some("5s".into())),
            max: boot.max.or_else(|| Some("15s".into())),
        }
    }
}

impl ConfigMapKeyRef {
    /// The key, with the default filled in.
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or("instance-types.json")
    }
}

impl SpotPrices {
    /// How often prices change, with the default filled in.
    pub fn every(&self) -> Duration {
        self.every.clone().unwrap_or_else(|| "5m".into())
    }
}

impl StockOuts {
    /// How long a period is, with the default filled in.
    pub fn every(&self) -> Duration {
        self.every.clone().unwrap_or_else(|| "10m".into())
    }
}

impl Interruptions {
    /// How long a period is, with the default filled in.
    pub fn every(&self) -> Duration {
        self.every.clone().unwrap_or_else(|| "1h".into())
    }

    /// How long before an interruption is announced, with the default filled in.
    pub fn notice(&self) -> Duration {
        self.notice.clone().unwrap_or_else(|| "2m".into())
    }
}
