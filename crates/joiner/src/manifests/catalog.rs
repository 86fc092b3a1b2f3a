//! What a node class sells, from a file: Joiner's own form, or the instance types of Karpenter's kwok provider.

use std::path::Path;

use joiner_core::labels;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::wire::{self, ReadError};
use joiner_core::problem::{Catalog, InstanceType, Offering};
use joiner_core::requirement::Expression;
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use serde::Deserialize;
use serde_json::Value;

use super::objects::Amounts;
use crate::failure::Failure;
use crate::input;

/// A type as kwok lists it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KwokType {
    name: Name,
    architecture: Name,
    #[serde(default)]
    operating_systems: Vec<Name>,
    resources: Amounts,
    offerings: Vec<KwokOffering>,
}

#[derive(Deserialize)]
struct KwokOffering {
    #[serde(rename = "Price", alias = "price")]
    price: f64,
    #[serde(rename = "Available", alias = "available", default = "available")]
    available: bool,
    #[serde(rename = "Requirements", alias = "requirements")]
    requirements: Vec<Expression>,
}

fn available() -> bool {
    true
}

/// kwok's own default.
const KWOK_PODS: i64 = 110;
/// What kwok keeps of every machine: 100m of cpu and 10 MiB.
const KWOK_OVERHEAD: [(&str, i64); 2] = [(CPU, 100), (MEMORY, 10 << 20)];

/// Reads a catalogue and calls it `name`.
pub(super) fn read(path: &Path, name: &str) -> Result<Catalog, Failure> {
    let text = input::text(path)?;
    let malformed = |source: ReadError| Failure::Malformed {
        path: path.to_owned(),
        source: Box::new(source),
    };
    let mut catalog = if text.trim_start().starts_with('[') {
        let listed: Vec<KwokType> = wire::read(&text).map_err(malformed)?;
        let types = listed.iter().map(|one| {
            lower(one).map_err(|what| {
                Failure::Manifest(format!("{}: type {}: {what}", path.display(), one.name))
            })
        });
        Catalog {
            types: types.collect::<Result<_, _>>()?,
            ..Catalog::default()
        }
    } else {
        Catalog::from_json(&text).map_err(malformed)?
    };
    catalog.name = name.into();
    Ok(catalog)
}

fn lower(given: &KwokType) -> Result<InstanceType, String> {
    let mut capacity = Resources::new().with(PODS, KWOK_PODS);
    for (name, value) in &given.resources {
        let amount = Resources::parse_amount(name, &written(value));
        capacity.set(name, amount.map_err(|error| format!("{name}: {error}"))?);
    }
    let os = given.operating_systems.first().cloned();
    let mut own = Labels::from([
        (Name::from(labels::ARCH), given.architecture.clone()),
        (labels::OS.into(), os.unwrap_or_else(|| "linux".into())),
        (
            "karpenter.kwok.sh/instance-family".into(),
            given
                .name
                .split(['.', '-'])
                .next()
                .unwrap_or_default()
                .into(),
        ),
    ]);
    for (label, resource) in [("cpu", CPU), ("memory", MEMORY)] {
        if let Some(value) = given.resources.get(resource) {
            own.insert(
                format!("karpenter.kwok.sh/instance-{label}").into(),
                written(value).into(),
            );
        }
    }
    let size = match given.name.split_once('.') {
        Some((_, size)) => size.to_owned(),
        None => given.resources.get(CPU).map(written).unwrap_or_default(),
    };
    own.insert("karpenter.kwok.sh/instance-size".into(), size.into());
    let offerings = given.offerings.iter().map(offering);
    Ok(InstanceType {
        name: given.name.clone(),
        labels: own,
        capacity,
        overhead: KWOK_OVERHEAD
            .iter()
            .map(|(name, amount)| (Name::from(*name), *amount))
            .collect(),
        offerings: offerings.collect::<Result<_, _>>()?,
        quotas: Vec::new(),
    })
}

fn written(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn offering(given: &KwokOffering) -> Result<Offering, String> {
    let value = |key: &str| {
        let wanted = given.requirements.iter().find(|one| &*one.key == key);
        wanted.and_then(|one| one.values.first()).cloned()
    };
    let paid = value(labels::CAPACITY_TYPE).unwrap_or_else(|| "on-demand".into());
    Ok(Offering {
        zone: value(labels::ZONE).ok_or("an offering names no topology.kubernetes.io/zone")?,
        region: value(labels::REGION).unwrap_or_default(),
        capacity_type: paid.parse().map_err(|_| {
            format!("{paid:?} is not a capacity type: write spot, on-demand or reserved")
        })?,
        price: wire::price(given.price)?,
        available: given.available,
        left: None,
        reservation: None,
        stock: None,
    })
}
