//! What the simulated cloud sells: a built-in catalogue, or one in the form that Karpenter's kwok provider reads.

use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{CapacityType, Catalog, InstanceType, Offering};
use joiner_core::quantity::QuantityError;
use joiner_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};
use serde::Deserialize;
use thiserror::Error;

const GIB: i64 = 1 << 30;
const ZONES: [&str; 3] = ["sim-a", "sim-b", "sim-c"];

/// Family, GiB of memory per core, and dollars per core-hour.
const FAMILIES: [(&str, i64, f64); 3] = [("c", 2, 0.021), ("m", 4, 0.024), ("r", 8, 0.031)];
const CORES: [i64; 9] = [1, 2, 4, 8, 16, 32, 48, 64, 96];
const ARCHITECTURES: [(&str, f64); 2] = [("amd64", 1.0), ("arm64", 0.8)];
/// What a spot machine costs of its on-demand price, zone by zone.
const SPOT: [f64; 3] = [0.34, 0.38, 0.41];

/// A small public cloud: three families, nine sizes, two architectures, three zones, spot and on-demand.
pub fn built_in() -> Catalog {
    let mut types = Vec::new();
    for (family, gib_per_core, core_price) in FAMILIES {
        for cores in CORES {
            for (architecture, discount) in ARCHITECTURES {
                #[expect(clippy::cast_precision_loss, reason = "at most 96")]
                let price = core_price * discount * cores as f64;
                types.push(InstanceType {
                    name: format!("{family}-{cores}x-{architecture}").into(),
                    labels: Labels::from([
                        (labels::ARCH.into(), architecture.into()),
                        (labels::OS.into(), "linux".into()),
                    ]),
                    capacity: Resources::new()
                        .with(CPU, cores * 1000)
                        .with(MEMORY, cores * gib_per_core * GIB)
                        .with(EPHEMERAL_STORAGE, 100 * GIB)
                        .with(PODS, if cores < 4 { 29 } else { 110 }),
                    overhead: Resources::new().with(CPU, 80).with(MEMORY, GIB / 2),
                    offerings: offerings(price),
                    quotas: Vec::new(),
                });
            }
        }
    }
    Catalog {
        name: "sim".into(),
        types,
        ranges: Vec::new(),
        quotas: Vec::new(),
    }
}

fn offerings(on_demand: f64) -> Vec<Offering> {
    let offering = |zone: &str, capacity_type, price: f64| Offering {
        zone: zone.into(),
        region: "sim".into(),
        capacity_type,
        price: Money::from_dollars(price),
        available: true,
        left: None,
        reservation: None,
        stock: None,
    };
    ZONES
        .iter()
        .zip(SPOT)
        .flat_map(|(zone, share)| {
            [
                offering(zone, CapacityType::Spot, on_demand * share),
                offering(zone, CapacityType::OnDemand, on_demand),
            ]
        })
        .collect()
}

/// Why a catalogue could not be read.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// Not JSON, or not of the right shape.
    #[error(
        "the catalogue is not a list of instance types as Karpenter's kwok provider reads it: {0}"
    )]
    Malformed(#[from] serde_json::Error),
    /// An amount that is none.
    #[error("instance type {kind:?}: resources.{resource}: {source}")]
    Amount {
        /// Instance type.
        kind: String,
        /// Resource.
        resource: String,
        /// Why.
        source: QuantityError,
    },
    /// A label of an offering that must be there is not.
    #[error("instance type {kind:?}: an offering needs a requirement on {key} with one value")]
    Label {
        /// Instance type.
        kind: String,
        /// The label.
        key: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KwokType {
    name: String,
    offerings: Vec<KwokOffering>,
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    operating_systems: Vec<String>,
    resources: std::collections::BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KwokOffering {
    price: f64,
    requirements: Vec<KwokRequirement>,
}

#[derive(Deserialize)]
struct KwokRequirement {
    key: String,
    #[serde(default)]
    values: Vec<String>,
}

/// Reads a catalogue in the form of Karpenter's kwok provider (`--instance-types-file-path`).
///
/// As there, every offering counts as available and a type without a `pods` amount has 110.
pub fn read_kwok(json: &str) -> Result<Catalog, CatalogError> {
    let listed: Vec<KwokType> = serde_json::from_str(json)?;
    let types = listed.iter().map(instance_type).collect::<Result<_, _>>()?;
    Ok(Catalog {
        name: "sim".into(),
        types,
        ranges: Vec::new(),
        quotas: Vec::new(),
    })
}

fn instance_type(listed: &KwokType) -> Result<InstanceType, CatalogError> {
    let mut capacity = Resources::new().with(PODS, 110);
    for (resource, text) in &listed.resources {
        let amount =
            Resources::parse_amount(resource, text).map_err(|source| CatalogError::Amount {
                kind: listed.name.clone(),
                resource: resource.clone(),
                source,
            })?;
        capacity.set(resource, amount);
    }
    let mut labels = Labels::from([
        (labels::ARCH.into(), or(&listed.architecture, "amd64")),
        (
            labels::OS.into(),
            listed
                .operating_systems
                .first()
                .map_or_else(|| "linux".into(), |os| or(os, "linux")),
        ),
    ]);
    labels.extend(kwok_labels(listed));
    let offerings = listed
        .offerings
        .iter()
        .map(|one| offering(&listed.name, one))
        .collect::<Result<_, _>>()?;
    Ok(InstanceType {
        name: listed.name.as_str().into(),
        labels,
        capacity,
        overhead: Resources::new(),
        offerings,
        quotas: Vec::new(),
    })
}

fn or(text: &str, otherwise: &str) -> Name {
    if text.is_empty() {
        otherwise.into()
    } else {
        text.into()
    }
}

/// The labels that the kwok provider derives from name and size.
fn kwok_labels(listed: &KwokType) -> Labels {
    let amount = |resource: &str| listed.resources.get(resource).map_or("", String::as_str);
    let family = listed.name.split(['.', '-']).next().unwrap_or_default();
    [
        ("size", amount(CPU)),
        ("family", family),
        ("cpu", amount(CPU)),
        ("memory", amount(MEMORY)),
    ]
    .into_iter()
    .map(|(what, value)| {
        (
            format!("karpenter.kwok.sh/instance-{what}").into(),
            Name::from(value),
        )
    })
    .collect()
}

fn offering(kind: &str, listed: &KwokOffering) -> Result<Offering, CatalogError> {
    let single = |key: &'static str| {
        let wanted = listed.requirements.iter().find(|one| one.key == key);
        match wanted.map(|one| one.values.as_slice()) {
            Some([value]) => Ok(value.as_str()),
            _ => Err(CatalogError::Label {
                kind: kind.to_owned(),
                key,
            }),
        }
    };
    let capacity_type =
        single(labels::CAPACITY_TYPE)?
            .parse()
            .map_err(|_| CatalogError::Label {
                kind: kind.to_owned(),
                key: labels::CAPACITY_TYPE,
            })?;
    Ok(Offering {
        zone: single(labels::ZONE)?.into(),
        region: "".into(),
        capacity_type,
        price: Money::from_dollars(listed.price),
        available: true,
        left: None,
        reservation: None,
        stock: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KWOK: &str = r#"[{"name": "c-2x-amd64-linux", "architecture": "amd64", "operatingSystems": ["linux"],
        "resources": {"cpu": "2", "memory": "4Gi"},
        "offerings": [{"Price": 0.05, "Available": false, "Requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]}]}]}]"#;

    #[test]
    fn a_kwok_catalogue_means_what_it_means_to_karpenter() {
        let catalog = read_kwok(KWOK).unwrap();
        let kind = &catalog.types[0];
        assert_eq!(kind.capacity.get(CPU), 2000);
        assert_eq!(kind.capacity.get(PODS), 110);
        assert_eq!(kind.labels["karpenter.kwok.sh/instance-family"], "c".into());
        assert!(kind.offerings[0].available);
        assert_eq!(kind.offerings[0].capacity_type, CapacityType::Spot);
    }

    #[test]
    fn a_bad_catalogue_names_the_type_and_the_field() {
        let amount = KWOK.replace("4Gi", "lots");
        assert!(
            read_kwok(&amount)
                .unwrap_err()
                .to_string()
                .contains("\"c-2x-amd64-linux\": resources.memory")
        );
        let label = KWOK.replace("topology.kubernetes.io/zone", "zone");
        assert!(
            read_kwok(&label)
                .unwrap_err()
                .to_string()
                .contains("topology.kubernetes.io/zone")
        );
        assert!(matches!(read_kwok("{}"), Err(CatalogError::Malformed(_))));
    }

    #[test]
    fn larger_machines_of_the_built_in_catalogue_cost_more() {
        let catalog = built_in();
        assert_eq!(catalog.types.len(), 54);
        let price = |name: &str| {
            catalog
                .types
                .iter()
                .find(|kind| &*kind.name == name)
                .unwrap()
                .offerings[1]
                .price
        };
        assert!(price("m-2x-amd64") < price("m-4x-amd64"));
        assert!(price("m-4x-arm64") < price("m-4x-amd64"));
    }
}
