//! `joiner.dev/v1alpha1` RackspaceNodeClass: what a NodePool needs to buy from Rackspace Spot.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::hardware::SecretReference;
use crate::text::{Duration, Percent, Price};

/// In which cloudspace servers are bought, and how bids are made. An empty spec uses what the controller was started
/// with.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "joiner.dev",
    version = "v1alpha1",
    kind = "RackspaceNodeClass",
    plural = "rackspacenodeclasses",
    doc = "Settings of Rackspace Spot for a NodePool: the cloudspace, the credentials, and how bids are made.",
    category = "karpenter",
    category = "joiner",
    status = "RackspaceNodeClassStatus",
    derive = "PartialEq",
    printcolumn(name = "Cloudspace", type_ = "string", json_path = ".spec.cloudspace"),
    printcolumn(name = "Region", type_ = "string", json_path = ".status.region"),
    printcolumn(name = "Prices", type_ = "date", json_path = ".status.pricesAsOf"),
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
pub struct RackspaceNodeClassSpec {
    /// Cloudspace that nodes join: this cluster. Without it, the key `cloudspace-id` of the Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1, "maxLength" = 253))]
    pub cloudspace: Option<String>,
    /// Organisation that owns the cloudspace; without it, the one that the token belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minLength" = 1, "maxLength" = 253))]
    pub organization: Option<String>,
    /// Secret with the key `refresh-token`, and `cloudspace-id` if the cloudspace is not named here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,
    /// What one spot server may cost at most, in dollars per hour; `0` means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::price")]
    pub max_price: Option<Price>,
    /// How bids are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bid: Option<Bid>,
    /// How long a server may take to become a node before it is given up and another is tried. Rackspace takes 8 to 45
    /// minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::duration", extend("default" = "45m"))]
    pub registration_timeout: Option<Duration>,
}

/// How a bid is made: winners pay the market price, whatever they bid, so a higher bid costs nothing until the market
/// rises, and keeps the server longer when it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct Bid {
    /// Which percentile of past prices to bid at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "P80"))]
    pub percentile: Option<BidPercentile>,
    /// How much to bid above that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::percent", extend("default" = "100%"))]
    pub headroom: Option<Percent>,
}

/// A percentile that the price feed lists.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline, description = "")]
pub enum BidPercentile {
    /// The price was below this a fifth of the time.
    P20,
    /// The price was below this half of the time.
    P50,
    /// The price was below this four fifths of the time.
    #[default]
    P80,
}

/// What has been found out about a RackspaceNodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct RackspaceNodeClassStatus {
    /// Region of the cloudspace, the only one where servers can join it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// When the prices in use were true, to five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices_as_of: Option<Time>,
    /// Whether the token is good, the cloudspace is there and prices are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

impl RackspaceNodeClassSpec {
    /// How long a machine may take to become a node, with the default filled in.
    pub fn registration_timeout(&self) -> Duration {
        self.registration_timeout
            .clone()
            .unwrap_or_else(|| "45m".into())
    }
}

impl Bid {
    /// Which percentile to bid at least, with the default filled in.
    pub fn percentile(&self) -> BidPercentile {
        self.percentile.unwrap_or_default()
    }

    /// How much to bid above that, with the default filled in.
    pub fn headroom(&self) -> Percent {
        self.headroom.clone().unwrap_or_else(|| "100%".into())
    }
}
