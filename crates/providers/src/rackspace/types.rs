//! The wire as it really is: numbers that are strings, strings that are missing, fields that nobody documented.
//!
//! Reading is lenient, field by field: what cannot be understood is absent, never zero. Writing is exact.

use std::collections::BTreeMap;

use joiner_core::money::Money;
use serde::de::{DeserializeOwned, Deserializer};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The API group of everything that can be bought.
pub const API_VERSION: &str = "ngpc.rxt.io/v1";
/// Label on a pool: the name of its cloudspace.
pub const CLOUDSPACE_LABEL: &str = "ngpc.rxt.io/cloudspace";

const GIB: f64 = 1_073_741_824.0;

/// Reads a field that may be of any type; what does not fit is as good as absent.
pub(super) fn lenient<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(from)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Text, also where a number or a truth value is written without quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Text(match Value::deserialize(from)? {
            Value::String(text) => text.trim().to_owned(),
            Value::Number(number) => number.to_string(),
            Value::Bool(truth) => truth.to_string(),
            _ => String::new(),
        }))
    }
}

impl Text {
    /// Dollars per hour; see [`dollars`].
    pub fn dollars(&self) -> Option<Money> {
        dollars(&self.0)
    }

    /// A count; see [`leading_number`].
    pub fn count(&self) -> Option<u32> {
        let number = leading_number(&self.0).filter(|number| *number <= f64::from(u32::MAX))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked to be in range"
        )]
        let count = number as u32;
        Some(count)
    }
}

/// A price above nothing, such as `0.010000`, `$0.008` or `0.036000000000000004`; a price of zero is an unknown price.
pub fn dollars(text: &str) -> Option<Money> {
    let number: f64 = text.trim().trim_start_matches('$').trim().parse().ok()?;
    // A thousand dollars an hour is a mistake of the feed, not a server.
    (number.is_finite() && number > 0.0 && number < 1000.0)
        .then(|| Money::from_dollars(number))
        .filter(|money| *money > Money::ZERO)
}

/// The number that a text begins with: 8 of `8`, `8 vCPU` and `8GB`. Not below zero.
pub fn leading_number(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text.get(..end)?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// Bytes of `15GB`, `3.75GB`, `16`, `512MB`, `1TB`. The cloud says GB and means something close to GiB.
pub fn gigabytes(text: &str) -> Option<i64> {
    let number = leading_number(text)?;
    let unit = text
        .trim()
        .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
        .trim()
        .to_ascii_uppercase();
    let factor = match unit.as_str() {
        "" | "G" | "GB" | "GI" | "GIB" => GIB,
        "M" | "MB" | "MI" | "MIB" => GIB / 1024.0,
        "T" | "TB" | "TI" | "TIB" => GIB * 1024.0,
        _ => return None,
    };
    // No server has a pebibyte of anything.
    let bytes = (number * factor).round();
    #[expect(clippy::cast_possible_truncation, reason = "checked to be in range")]
    let whole = bytes as i64;
    (whole > 0 && bytes < GIB * 1_048_576.0).then_some(whole)
}

/// What every object has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name.
    #[serde(deserialize_with = "lenient")]
    pub name: String,
    /// Namespace.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Labels.
    #[serde(
        deserialize_with = "lenient",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub labels: BTreeMap<String, String>,
    /// When it was made.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<jiff::Timestamp>,
    /// Since when it is on its way out.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<jiff::Timestamp>,
}

/// A list, or a page of one.
#[derive(Debug, Deserialize)]
pub struct List {
    /// Where the list goes on.
    #[serde(default, deserialize_with = "lenient")]
    pub metadata: ListMetadata,
    /// What is in it. A list without it is no list.
    pub items: Vec<Value>,
}

/// Where a list goes on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ListMetadata {
    /// Token of the next page; empty at the end.
    #[serde(rename = "continue", deserialize_with = "lenient")]
    pub next: String,
}

/// A pool of servers that were bid for or reserved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pool {
    /// `ngpc.rxt.io/v1`.
    #[serde(deserialize_with = "lenient")]
    pub api_version: String,
    /// `SpotNodePool` or `OnDemandNodePool`.
    #[serde(deserialize_with = "lenient")]
    pub kind: String,
    /// Name, labels, times.
    #[serde(deserialize_with = "lenient")]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(deserialize_with = "lenient")]
    pub spec: PoolSpec,
    /// What has come of it.
    #[serde(deserialize_with = "lenient", skip_serializing)]
    pub status: PoolStatus,
}

/// What a pool should be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolSpec {
    /// Server class; never changes.
    #[serde(deserialize_with = "lenient")]
    pub server_class: String,
    /// How many servers; at least one.
    #[serde(deserialize_with = "lenient")]
    pub desired: i64,
    /// The bid, as text with at most three decimals; absent on demand.
    #[serde(deserialize_with = "bid_text", skip_serializing_if = "Option::is_none")]
    pub bid_price: Option<String>,
    /// Name of the cloudspace.
    #[serde(deserialize_with = "lenient")]
    pub cloud_space: String,
    /// The cloud's own scaling of the pool. Written only by others: sending it switches a user's scaling off.
    #[serde(deserialize_with = "lenient", skip_serializing)]
    pub autoscaling: Autoscaling,
    /// Labels for the nodes, stamped after they have joined.
    #[serde(
        deserialize_with = "lenient",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub custom_labels: BTreeMap<String, String>,
    /// Annotations for the nodes, likewise.
    #[serde(
        deserialize_with = "lenient",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub custom_annotations: BTreeMap<String, String>,
    /// Taints for the nodes, likewise: they never come off again by themselves.
    #[serde(deserialize_with = "lenient", skip_serializing_if = "Vec::is_empty")]
    pub custom_taints: Vec<CustomTaint>,
}

/// A taint as pools carry it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomTaint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Effect.
    pub effect: String,
}

fn bid_text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let Text(text) = Text::deserialize(from)?;
    Ok((!text.is_empty()).then_some(text))
}

/// The cloud's own scaling of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Autoscaling {
    /// Whether it is on.
    #[serde(deserialize_with = "lenient")]
    pub enabled: bool,
}

/// What has come of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolStatus {
    /// Spot: how the bid stands. The spelling is not documented.
    #[serde(deserialize_with = "lenient")]
    pub bid_status: String,
    /// Spot: servers that are won right now.
    #[serde(deserialize_with = "lenient")]
    pub won_count: i64,
    /// On demand: how the reservation stands.
    #[serde(deserialize_with = "lenient")]
    pub reserved_status: String,
    /// On demand: servers that are reserved right now.
    #[serde(deserialize_with = "lenient")]
    pub reserved_count: i64,
}

/// A kind of server in one region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServerClass {
    /// Its name among others.
    #[serde(deserialize_with = "lenient")]
    pub metadata: Metadata,
    /// What it is.
    #[serde(deserialize_with = "lenient")]
    pub spec: ServerClassSpec,
    /// How it sells.
    #[serde(deserialize_with = "lenient")]
    pub status: ServerClassStatus,
}

/// What a server class is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerClassSpec {
    /// Region.
    pub region: Text,
    /// `available`, or not.
    pub availability: Text,
    /// A loose group; worded unlike the price feed's.
    pub category: Text,
    /// Name for people.
    pub display_name: Text,
    /// `vm` or a word for bare metal.
    pub flavor_type: Text,
    /// Reserve price; empty for what cannot be bid on.
    pub min_bid_price_per_hour: Text,
    /// What it costs without bidding.
    #[serde(deserialize_with = "lenient")]
    pub on_demand_pricing: OnDemandPricing,
    /// What it has.
    #[serde(deserialize_with = "lenient")]
    pub resources: ServerResources,
}

/// What a class costs without bidding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OnDemandPricing {
    /// Dollars per interval; may be empty.
    pub cost: Text,
    /// `1h`.
    pub interval: Text,
}

/// What a server has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServerResources {
    /// Cores.
    pub cpu: Text,
    /// Memory, as in `15GB`.
    pub memory: Text,
    /// Disk, as in `60GB`; absent for some.
    pub disk: Text,
    /// GPUs; modelled by clients, not seen filled.
    pub gpu: Text,
}

/// How a class sells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServerClassStatus {
    /// Servers that could be provisioned now.
    pub available: Text,
    /// Prices of the last auction.
    #[serde(deserialize_with = "lenient")]
    pub spot_pricing: SpotPricing,
}

/// Prices of the last auction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SpotPricing {
    /// Where the market stands.
    pub market_price_per_hour: Text,
    /// What is billed now.
    pub hammer_price_per_hour: Text,
}

/// A cluster, with its control plane run by the cloud.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CloudSpace {
    /// Its name among others.
    #[serde(deserialize_with = "lenient")]
    pub metadata: Metadata,
    /// What it is.
    #[serde(deserialize_with = "lenient")]
    pub spec: CloudSpaceSpec,
}

/// What a cloudspace is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct CloudSpaceSpec {
    /// Its region, for ever.
    pub region: Text,
}

/// A region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Region {
    /// Its name among others.
    #[serde(deserialize_with = "lenient")]
    pub metadata: Metadata,
}

/// Why the API refused, as Kubernetes says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// For people, and the only place for the reasons of a refused bid.
    #[serde(deserialize_with = "lenient")]
    pub message: String,
    /// One word.
    #[serde(deserialize_with = "lenient")]
    pub reason: String,
}

/// A page of organisations.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Organizations {
    /// How many there are in all.
    #[serde(deserialize_with = "lenient")]
    pub total: usize,
    /// Those on this page.
    #[serde(deserialize_with = "lenient")]
    pub organizations: Vec<Organization>,
}

/// An organisation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Organization {
    /// `org_AbC123`.
    pub id: Text,
    /// Short name.
    pub name: Text,
}

/// What the token exchange answers.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct TokenAnswer {
    /// The token to use. (The access token beside it opens nothing.)
    #[serde(deserialize_with = "lenient")]
    pub id_token: String,
    /// Seconds.
    pub expires_in: Text,
}

/// What the token says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Claims {
    /// When it ends, in seconds since 1970.
    #[serde(deserialize_with = "lenient")]
    pub exp: i64,
    /// Whose it is: `org_AbC123`.
    #[serde(deserialize_with = "lenient")]
    pub org_id: String,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn odd_prices_are_read_or_unknown_and_never_zero() {
        for (text, expected) in [
            ("0.010000", Some(0.01)),
            ("$0.008", Some(0.008)),
            ("0.036000000000000004", Some(0.036)),
            ("1e-3", Some(0.001)),
            ("", None),
            ("0", None),
            ("-0.01", None),
            ("NaN", None),
            ("inf", None),
            ("0,50", None),
            ("100000", None),
        ] {
            assert_eq!(dollars(text), expected.map(Money::from_dollars), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_fractions() {
        assert_eq!(gigabytes("3.75GB"), Some(4_026_531_840));
        assert_eq!(gigabytes("16"), Some(17_179_869_184));
        assert_eq!(gigabytes("512 MB"), Some(536_870_912));
        for odd in ["", "GB", "0GB", "-4GB", "4 bananas", "1e30GB"] {
            assert_eq!(gigabytes(odd), None, "{odd}");
        }
        assert_eq!(leading_number("8 vCPU"), Some(8.0));
        assert_eq!(Text("24".into()).count(), Some(24));
    }

    #[test]
    fn one_odd_field_does_not_spoil_the_others() {
        let class: ServerClass = serde_json::from_value(json!({
            "metadata": {"name": "gp.vs1.large-ord", "labels": null, "creationTimestamp": 7},
            "spec": {"region": "us-central-ord-1", "onDemandPricing": "none",
                     "resources": {"cpu": 4, "memory": "15GB"}, "minBidPricePerHour": null},
            "status": []
        }))
        .unwrap();
        assert_eq!(class.metadata.name, "gp.vs1.large-ord");
        assert_eq!(class.spec.resources.cpu.0, "4");
        assert_eq!(class.spec.min_bid_price_per_hour.0, "");
    }

    #[test]
    fn a_list_without_items_is_no_list() {
        assert!(serde_json::from_value::<List>(json!({"metadata": {}})).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_a_price_that_is_not_positive(text in ".{0,20}") {
            if let Some(money) = dollars(&text) {
                prop_assert!(money > Money::ZERO);
            }
        }

        #[test]
        fn every_plain_price_is_read_exactly(thousandths in 1_u32..900_000) {
            let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
            prop_assert_eq!(
                dollars(&text),
                Some(Money::from_nanos(i64::from(thousandths) * 1_000_000))
            );
        }

        #[test]
        fn no_text_makes_a_size_that_is_not_positive(text in ".{0,20}") {
            if let Some(bytes) = gigabytes(&text) {
                prop_assert!(bytes > 0);
            }
        }
    }
}
