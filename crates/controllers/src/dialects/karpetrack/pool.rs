//! SpotNodePools.

use std::sync::Arc;

use jiff::SignedDuration;
use joiner_api::karpetrack::{
    ConsolidationPolicy as ApiPolicy, ResourceLimits, SpotNodePool, SpotNodePoolStatus, keys,
};
use joiner_api::scheduling::{NodeSelectorRequirement, Taint};
use joiner_api::text::{DurationOrNever, Price, Quantity};
use joiner_api::validate::Validate as _;
use joiner_core::labels as well_known;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{ConsolidationPolicy, Disruption, Limits, Pool};
use joiner_core::requirement::{Expression, Operator};
use joiner_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, Resources};
use joiner_providers::rackspace::catalog::CATEGORY_LABEL;
use serde_json::{Value, json};

use super::terms::Terms;
use super::{KarpetrackOptions, NAME, class_key};
use crate::dialects::convert::{key, lower_conditions, render_conditions, text};
use crate::edge::names::digest;
use crate::record::{PoolRecord, PoolStatus, annotations};
use crate::view::pods::quantity_map;
use crate::view::{labels, version};

/// Its kind, which no namespace could be called.
const KIND: &str = "SpotNodePool";
/// What the status of a pool has a place for.
const SHOWN: [&str; 3] = [CPU, MEMORY, EPHEMERAL_STORAGE];
/// In percent of a pool's nodes.
const DRAINED_AT_ONCE: u8 = 10;
/// From the age at which a node is to be replaced until it goes whatever happens: as long again, within these.
const LEAST_PATIENCE: SignedDuration = SignedDuration::from_hours(1);
const MOST_PATIENCE: SignedDuration = SignedDuration::from_hours(24);

/// The id of a pool: NodePools may have the same name. No namespace begins like this, so no pool of a namespace does.
pub(super) fn id(name: &str) -> Name {
    format!("{KIND}/{name}").into()
}

/// The name of the pool with an id.
pub(super) fn name_of(id: &str) -> Name {
    let name = id
        .strip_prefix(KIND)
        .and_then(|rest| rest.strip_prefix('/'));
    name.unwrap_or(id).into()
}

/// A pool as the engine keeps it.
pub(super) fn lower(
    pool: &SpotNodePool,
    options: &KarpetrackOptions,
) -> Result<PoolRecord, String> {
    let mut invalid: Vec<String> = pool.validate().iter().map(ToString::to_string).collect();
    // A pool that makes no sense still keeps its machines: what can be read is used, and it does not buy.
    let core = core_pool(pool, options).unwrap_or_else(|problem| {
        invalid.push(problem);
        let name = text(pool.metadata.name.as_ref());
        Pool {
            name: id(&name),
            nodepool: Some(name),
            ..Pool::default()
        }
    });
    invalid.sort();
    invalid.dedup();
    let given = labels(pool.metadata.annotations.clone());
    let template = Terms::of(pool, &core);
    let template = serde_json::to_value(&template).map_err(|error| error.to_string())?;
    let status = pool.status.clone().unwrap_or_default();
    Ok(PoolRecord {
        key: key(NAME, &pool.metadata),
        uid: text(pool.metadata.uid.as_ref()),
        version: version(pool.metadata.resource_version.as_deref()),
        generation: pool.metadata.generation.unwrap_or(0),
        created: pool.metadata.creation_timestamp.as_ref().map(|time| time.0),
        deleting: pool.metadata.deletion_timestamp.is_some(),
        class: class_key(&options.cloudspace),
        max_price: pool.spec.max_price.as_ref().and_then(limit),
        min_nodes: 0,
        min_size: Resources::new(),
        scale_up_after: SignedDuration::ZERO,
        gated: false,
        finalizer: None,
        paused: given
            .get(annotations::PAUSED)
            .is_some_and(|text| &**text == "true"),
        invalid: (!invalid.is_empty()).then(|| invalid.join("; ")),
        termination_grace: None,
        drained_at_once: Some(DRAINED_AT_ONCE),
        expiry_window: core.expire_after.map_or(SignedDuration::ZERO, |_| {
            patience(expire_after(pool).unwrap_or_default())
        }),
        annotations: given,
        hash: digest(&template.to_string()).into(),
        status: lower_status(&status),
        template: Arc::new(template),
        pool: core,
    })
}

/// A highest price; zero means that there is none.
fn limit(price: &Price) -> Option<Money> {
    price.get().ok().filter(|price| *price > Money::ZERO)
}

fn expire_after(pool: &SpotNodePool) -> Option<SignedDuration> {
    let after = pool.spec.disruption.as_ref()?.expire_after.as_ref()?;
    after.get().ok().flatten()
}

/// How long a node that is too old may wait for its replacement to be ready.
fn patience(age: SignedDuration) -> SignedDuration {
    age.clamp(LEAST_PATIENCE, MOST_PATIENCE)
}

fn core_pool(pool: &SpotNodePool, options: &KarpetrackOptions) -> Result<Pool, String> {
    let spec = &pool.spec;
    let name = text(pool.metadata.name.as_ref());
    let mut own: Labels = spec
        .labels
        .iter()
        .map(|(key, value)| (Name::from(key.as_str()), Name::from(value.as_str())))
        .collect();
    own.insert(keys::NODEPOOL_LABEL.into(), name.clone());
    own.insert(keys::MANAGED_LABEL.into(), "true".into());
    let old = duration(
        "spec.disruption.expireAfter",
        disruption_text(pool, |one| &one.expire_after),
    )?;
    Ok(Pool {
        name: id(&name),
        nodepool: Some(name),
        labels: own,
        requirements: requirements(pool),
        taints: spec.taints.iter().map(Taint::to_core).collect(),
        limits: limits(spec.limits.as_ref())?,
        disruption: disruption(pool, options)?,
        expire_after: old.map(|age| age.saturating_add(patience(age))),
        ..Pool::default()
    })
}

fn requirements(pool: &SpotNodePool) -> Vec<Expression> {
    let spec = &pool.spec;
    let mut all = Vec::new();
    if !spec.regions.is_empty() {
        let regions: Vec<&str> = spec.regions.iter().map(String::as_str).collect();
        all.push(Expression::new(well_known::ZONE, Operator::In, &regions));
    }
    let categories: Vec<&str> = spec
        .categories
        .iter()
        .filter_map(joiner_api::karpetrack::Category::short)
        .collect();
    all.push(if spec.categories.is_empty() {
        Expression::new(CATEGORY_LABEL, Operator::NotIn, &["gpu"])
    } else {
        Expression::new(CATEGORY_LABEL, Operator::In, &categories)
    });
    // Spot is what the family is for; whoever wants servers on demand beside it says so.
    let says = |one: &NodeSelectorRequirement| one.key == well_known::CAPACITY_TYPE;
    if !spec.requirements.iter().any(says) {
        all.push(Expression::new(
            well_known::CAPACITY_TYPE,
            Operator::In,
            &["spot"],
        ));
    }
    all.extend(
        spec.requirements
            .iter()
            .map(NodeSelectorRequirement::to_expression),
    );
    all
}

fn limits(given: Option<&ResourceLimits>) -> Result<Limits, String> {
    let mut resources = Resources::new();
    let Some(given) = given else {
        return Ok(Limits::default());
    };
    for (name, field, quantity) in [
        (CPU, "cpu", &given.cpu),
        (MEMORY, "memory", &given.memory),
        (
            EPHEMERAL_STORAGE,
            "ephemeralStorage",
            &given.ephemeral_storage,
        ),
    ] {
        let Some(quantity) = quantity else { continue };
        let amount = if name == CPU {
            quantity.milli()
        } else {
            quantity.units()
        };
        let amount = amount.map_err(|error| format!("spec.limits.{field}: {error}"))?;
        resources.set(name, amount);
    }
    Ok(Limits {
        resources,
        ..Limits::default()
    })
}

fn disruption_text(
    pool: &SpotNodePool,
    which: fn(&joiner_api::karpetrack::Disruption) -> &Option<DurationOrNever>,
) -> Option<DurationOrNever> {
    pool.spec
        .disruption
        .as_ref()
        .and_then(|one| which(one).clone())
}

fn duration(field: &str, text: Option<DurationOrNever>) -> Result<Option<SignedDuration>, String> {
    let Some(text) = text else { return Ok(None) };
    text.get().map_err(|error| format!("{field}: {error}"))
}

fn disruption(pool: &SpotNodePool, options: &KarpetrackOptions) -> Result<Disruption, String> {
    let given = pool.spec.disruption.clone().unwrap_or_default();
    let grace = SignedDuration::try_from(options.empty_grace).unwrap_or(SignedDuration::MAX);
    let after = match given.consolidate_after {
        None => Some(grace),
        text => duration("spec.disruption.consolidateAfter", text)?,
    };
    Ok(Disruption {
        policy: match given.consolidation_policy.unwrap_or_default() {
            ApiPolicy::WhenEmpty => ConsolidationPolicy::WhenEmpty,
            ApiPolicy::WhenUnderutilized => ConsolidationPolicy::WhenEmptyOrUnderutilized,
        },
        consolidate_after: after.filter(|_| options.consolidation),
        min_savings: options.min_savings,
        min_age: options.min_age(),
        spot_to_spot: true,
        price_replacement: true,
        // Servers take long to come: all that pays is replaced at once, and drained by and by.
        budgets: Vec::new(),
    })
}

fn lower_status(status: &SpotNodePoolStatus) -> PoolStatus {
    let mut resources = Resources::new();
    if let Some(written) = &status.resources {
        let amount = |name: &str, quantity: &Option<Quantity>| {
            let quantity = quantity.as_ref()?;
            let amount = if name == CPU {
                quantity.milli()
            } else {
                quantity.units()
            };
            amount.ok()
        };
        for (name, quantity) in [
            (CPU, &written.cpu),
            (MEMORY, &written.memory),
            (EPHEMERAL_STORAGE, &written.ephemeral_storage),
        ] {
            if let Some(amount) = amount(name, quantity) {
                resources.set(name, amount);
            }
        }
    }
    PoolStatus {
        resources,
        nodes: status
            .node_count
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(0),
        cost: status
            .price_per_hour
            .as_ref()
            .and_then(|price| price.get().ok()),
        class_generation: None,
        conditions: lower_conditions(&status.conditions),
        ..PoolStatus::default()
    }
}

/// What of a status is still there when it is read back.
pub(super) fn shown(mut status: PoolStatus) -> PoolStatus {
    status.resources = status
        .resources
        .iter()
        .filter(|(name, _)| SHOWN.contains(&&***name))
        .map(|(name, amount)| (name.clone(), amount))
        .collect();
    status.class_generation = None;
    status
}

/// The status as a merge patch that is refused if the pool has changed meanwhile.
pub(super) fn status_patch(pool: &PoolRecord, status: &PoolStatus) -> Value {
    let mut amounts = quantity_map(&status.resources);
    json!({
        "metadata": {"uid": &*pool.uid, "resourceVersion": pool.version.to_string()},
        "status": {
            "resources": {
                "cpu": amounts.remove(CPU),
                "memory": amounts.remove(MEMORY),
                "ephemeralStorage": amounts.remove(EPHEMERAL_STORAGE),
            },
            "nodeCount": status.nodes,
            "pricePerHour": status.cost.map(price_text),
            "conditions": render_conditions(&status.conditions),
        }
    })
}

/// Dollars as the family writes them: six decimals.
pub(super) fn price_text(price: Money) -> String {
    format!("{:.6}", price.dollars())
}
