//! `NodeSmithPools`.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use joiner_api::nodesmith::{NodeSmithPool, PoolLimits, ScalePolicy, keys};
use joiner_api::scheduling::Taint;
use joiner_api::validate::Validate as _;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{
    Budget, BudgetAmount, ConsolidationPolicy, Disruption, DisruptionReason, Limits, Pool,
};
use joiner_core::resources::{CPU, MEMORY, Resources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::terms::Terms;
use super::{NAME, PROVIDER};
use crate::dialects::convert::{key, lower_conditions, render_conditions, text};
use crate::edge::names::digest;
use crate::record::{ClassKey, Condition, Key, PoolRecord, PoolStatus, Truth, annotations, kinds};
use crate::view::{labels, version};

pub(super) const MIB: i64 = 1 << 20;
/// How long a node must be idle before it is removed, where its pool does not say.
const IDLE: SignedDuration = SignedDuration::from_secs(30);
/// How many of a pool's nodes may be replaced at once because the pool has changed, in percent.
const REPLACED_AT_ONCE: u8 = 10;
/// What a node has room for, beside daemon sets, that is there only because of `minNodes`.
const MIN_CORES: i64 = 1;
const MIN_MEMORY_MIB: i64 = 2048;

/// The class that a provider of a namespace is.
pub(super) fn class_key(namespace: &str, provider: &str) -> ClassKey {
    ClassKey {
        group: PROVIDER.group.into(),
        kind: PROVIDER.kind.into(),
        namespace: namespace.into(),
        name: provider.into(),
    }
}

/// The name of a pool in problems and plans. Pools without a namespace have no slash in theirs.
pub(super) fn id(namespace: &str, name: &str) -> Name {
    format!("{namespace}/{name}").into()
}

/// A pool as the engine keeps it.
pub(super) fn lower(pool: &NodeSmithPool) -> Result<PoolRecord, String> {
    let mut invalid: Vec<String> = pool.validate().iter().map(ToString::to_string).collect();
    let key = key(NAME, &pool.metadata);
    let core = core_pool(pool, &key, &mut invalid);
    invalid.sort();
    invalid.dedup();
    let given = labels(pool.metadata.annotations.clone());
    let template =
        serde_json::to_value(Terms::of(pool, &core)).map_err(|error| error.to_string())?;
    let status = pool.status.clone().unwrap_or_default();
    let finalizers = pool.metadata.finalizers.iter().flatten();
    Ok(PoolRecord {
        uid: text(pool.metadata.uid.as_ref()),
        version: version(pool.metadata.resource_version.as_deref()),
        generation: pool.metadata.generation.unwrap_or(0),
        created: pool.metadata.creation_timestamp.as_ref().map(|time| time.0),
        deleting: pool.metadata.deletion_timestamp.is_some(),
        class: class_key(&key.namespace, &pool.spec.provider_ref),
        max_price: None,
        min_nodes: u32::try_from(pool.spec.limits.min_nodes).unwrap_or(0),
        min_size: Resources::new()
            .with(CPU, MIN_CORES * 1000)
            .with(MEMORY, MIN_MEMORY_MIB * MIB),
        scale_up_after: window("spec.scaleUp", pool.spec.scale_up.as_ref(), &mut Vec::new())
            .unwrap_or(SignedDuration::ZERO),
        gated: true,
        finalizer: Some(finalizers.clone().any(|one| one == keys::POOL_FINALIZER)),
        paused: given
            .get(annotations::PAUSED)
            .is_some_and(|text| &**text == "true"),
        invalid: (!invalid.is_empty()).then(|| invalid.join("; ")),
        termination_grace: None,
        drained_at_once: None,
        expiry_window: SignedDuration::ZERO,
        annotations: given,
        hash: digest(&template.to_string()).into(),
        status: PoolStatus {
            nodes: status
                .nodes
                .and_then(|count| u32::try_from(count).ok())
                .unwrap_or(0),
            conditions: lower_conditions(&status.conditions),
            ..PoolStatus::default()
        },
        template: Arc::new(template),
        pool: core,
        key,
    })
}

/// The window of a policy; `None` if there is none, or none that can be read.
fn window(
    field: &str,
    policy: Option<&ScalePolicy>,
    invalid: &mut Vec<String>,
) -> Option<SignedDuration> {
    let window = policy?.stabilization_window.as_ref()?;
    match window.get() {
        Ok(window) => Some(window),
        Err(error) => {
            invalid.push(format!("{field}.stabilizationWindow: {error}"));
            None
        }
    }
}

fn core_pool(pool: &NodeSmithPool, key: &Key, invalid: &mut Vec<String>) -> Pool {
    let spec = &pool.spec;
    let given = spec.machine_template.labels.iter();
    let mut own: Labels = given
        .map(|(key, value)| (Name::from(key.as_str()), Name::from(value.as_str())))
        .collect();
    own.insert(spec.pool_label_key().into(), key.name.clone());
    let taints = |given: &[Taint]| {
        let mut all: Vec<_> = given.iter().map(Taint::to_core).collect();
        all.sort();
        all
    };
    let idle = window("spec.scaleDown", spec.scale_down.as_ref(), invalid);
    Pool {
        name: id(&key.namespace, &key.name),
        nodepool: Some(Name::default()),
        labels: own,
        taints: taints(&spec.machine_template.taints),
        startup_taints: taints(&spec.machine_template.startup_taints),
        limits: limits(spec.limits),
        disruption: Disruption {
            // Idle nodes go. Pods that run are not moved to save a machine: KubeNodeSmith's users do not expect it.
            policy: ConsolidationPolicy::WhenEmpty,
            consolidate_after: Some(idle.unwrap_or(IDLE)),
            budgets: vec![Budget {
                amount: BudgetAmount::Percent(REPLACED_AT_ONCE),
                reasons: vec![DisruptionReason::Drifted],
                schedule: None,
                duration: None,
            }],
            ..Disruption::default()
        },
        ..Pool::default()
    }
}

/// Limits; zero means that there is none.
fn limits(given: PoolLimits) -> Limits {
    let mut resources = Resources::new();
    if given.cpu_cores > 0 {
        resources.set(CPU, given.cpu_cores.saturating_mul(1000));
    }
    if given.memory_mib > 0 {
        resources.set(MEMORY, given.memory_mib.saturating_mul(MIB));
    }
    Limits {
        resources,
        nodes: u32::try_from(given.max_nodes).ok().filter(|most| *most > 0),
        cost: None,
    }
}

/// The status with the family's own conditions, and without what its objects have no place for.
pub(super) fn shown(pool: &PoolRecord, mut status: PoolStatus, now: Timestamp) -> PoolStatus {
    let (truth, reason, message) = available(pool, &status);
    let mut set = |kind: &str, truth: Truth, reason: &str, message: String| {
        status.conditions.ensure(Condition {
            kind: kind.into(),
            status: truth,
            reason: reason.into(),
            message,
            since: now,
            generation: pool.generation,
        });
    };
    set(kinds::AVAILABLE, truth, &reason, message);
    match (status.arriving, status.leaving) {
        (0, 0) => set(kinds::PROGRESSING, Truth::False, "Stable", String::new()),
        (0, count) => {
            let said = format!("Removing {count} machines");
            set(kinds::PROGRESSING, Truth::True, "ScalingDown", said);
        }
        (count, _) => {
            let said = format!("Waiting for {count} machines to become ready nodes");
            set(kinds::PROGRESSING, Truth::True, "ScalingUp", said);
        }
    }
    PoolStatus {
        nodes: status.nodes,
        conditions: status.conditions,
        ..PoolStatus::default()
    }
}

/// Whether the pool may grow.
fn available(pool: &PoolRecord, status: &PoolStatus) -> (Truth, Name, String) {
    for part in [kinds::VALIDATION_SUCCEEDED, kinds::NODE_CLASS_READY] {
        if let Some(one) = status.conditions.get(part)
            && one.status != Truth::True
        {
            return (one.status, one.reason.clone(), one.message.clone());
        }
    }
    let limits = &pool.pool.limits;
    if let Some(most) = limits.nodes
        && status.nodes >= most
    {
        let said = format!(
            "Pool at max capacity: {}/{most} nodes (including {} pending)",
            status.nodes, status.arriving
        );
        return (Truth::False, "MaxNodesReached".into(), said);
    }
    let full = limits
        .resources
        .iter()
        .find(|(name, most)| status.resources.get(name) >= *most);
    if let Some((name, most)) = full {
        let used = status.resources.get(name);
        let (unit, scale) = if &**name == CPU {
            ("cores", 1000)
        } else {
            ("MiB", MIB)
        };
        let said = format!(
            "Pool at its limit of {} {unit} of {name}: its machines have {}",
            most / scale,
            used / scale
        );
        return (Truth::False, "ResourceLimitReached".into(), said);
    }
    (
        Truth::True,
        "Available".into(),
        "Pool within limits".to_owned(),
    )
}

/// The status as a merge patch that is refused if the pool has changed meanwhile.
pub(super) fn status_patch(pool: &PoolRecord, status: &PoolStatus) -> Value {
    let mut written = json!({
        "nodes": status.nodes,
        "observedGeneration": pool.generation,
        "conditions": render_conditions(&status.conditions),
    });
    if let Some(since) = status.conditions.true_since(kinds::PROGRESSING) {
        written["lastScaleActivity"] = json!(Time(since));
    }
    json!({
        "metadata": {"uid": &*pool.uid, "resourceVersion": pool.version.to_string()},
        "status": written,
    })
}
