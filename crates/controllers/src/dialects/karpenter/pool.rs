//! Pools.

use std::sync::Arc;

use jiff::SignedDuration;
use joiner_api::karpenter::{
    ConsolidationPolicy as ApiPolicy, DisruptionReason as ApiReason, NodePool,
};
use joiner_api::text::{Duration, NodeCount};
use joiner_api::validate::Validate as _;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::problem::{
    Budget, BudgetAmount, ConsolidationPolicy, Disruption, DisruptionReason, Limits, Pool,
};
use joiner_core::resources::Resources;
use serde_json::{Value, json};

use super::hash;
use crate::dialects::convert::{
    key, lower_conditions, lower_resources, render_conditions, render_resources, text,
};
use crate::record::{ClassKey, PoolRecord, PoolStatus, annotations};
use crate::view::{labels, version};

/// How long before expiry nodes may be replaced at leisure; an addition of ours, off unless written.
const EXPIRY_WINDOW: &str = "joiner.dev/expire-window";

/// Groups of node classes that nobody else has, and their kinds.
const OWN_CLASSES: [(&str, &[&str]); 2] = [
    (
        "joiner.dev",
        &[
            "SimNodeClass",
            "RackspaceNodeClass",
            "ProxmoxNodeClass",
            "RedfishNodeClass",
        ],
    ),
    ("karpenter.ovhcloud.sh", &["OVHNodeClass"]),
];

/// What is wrong with a kind that a group of ours does not have: no other controller can be meant.
fn misspelt(group: &str, kind: &str) -> Option<String> {
    let (_, kinds) = OWN_CLASSES.iter().find(|(own, _)| *own == group)?;
    (!kinds.contains(&kind)).then(|| {
        format!(
            "spec.template.spec.nodeClassRef: group {group} has no kind {kind:?}; write one of {}",
            kinds.join(", ")
        )
    })
}

/// A pool as the engine keeps it; `None` if another controller's.
pub(super) fn lower(pool: &NodePool, supported: bool) -> Result<Option<PoolRecord>, String> {
    let class = &pool.spec.template.spec.node_class_ref;
    let misspelt = (!supported)
        .then(|| misspelt(&class.group, &class.kind))
        .flatten();
    if !supported && misspelt.is_none() {
        return Ok(None);
    }
    let violations = pool.validate();
    let template = serde_json::to_value(&pool.spec.template).map_err(|error| error.to_string())?;
    let given = labels(pool.metadata.annotations.clone());
    let mut invalid: Vec<String> = violations.iter().map(ToString::to_string).collect();
    invalid.extend(misspelt);
    // A pool that makes no sense still keeps its machines: what can be read is used, and it does not buy.
    let core = core_pool(pool).unwrap_or_else(|problem| {
        invalid.push(problem);
        Pool {
            name: text(pool.metadata.name.as_ref()),
            ..Pool::default()
        }
    });
    let status = pool.status.clone().unwrap_or_default();
    let grace = pool.spec.template.spec.termination_grace_period.as_ref();
    Ok(Some(PoolRecord {
        key: key(super::NAME, &pool.metadata),
        uid: text(pool.metadata.uid.as_ref()),
        version: version(pool.metadata.resource_version.as_deref()),
        generation: pool.metadata.generation.unwrap_or(0),
        created: pool.metadata.creation_timestamp.as_ref().map(|time| time.0),
        deleting: pool.metadata.deletion_timestamp.is_some(),
        class: ClassKey {
            group: class.group.as_str().into(),
            kind: class.kind.as_str().into(),
            namespace: "".into(),
            name: class.name.as_str().into(),
        },
        max_price: None,
        min_nodes: 0,
        min_size: Resources::new(),
        scale_up_after: SignedDuration::ZERO,
        gated: false,
        finalizer: None,
        paused: given
            .get(annotations::PAUSED)
            .is_some_and(|text| &**text == "true"),
        invalid: (!invalid.is_empty()).then(|| invalid.join("; ")),
        termination_grace: grace.and_then(|one| one.get().ok()),
        drained_at_once: None,
        expiry_window: given
            .get(EXPIRY_WINDOW)
            .and_then(|text| Duration::from(&**text).get().ok())
            .unwrap_or(SignedDuration::ZERO),
        hash: hash::of(&template),
        status: lower_status(&status),
        template: Arc::new(template),
        annotations: given,
        pool: core,
    }))
}

fn lower_status(status: &joiner_api::karpenter::NodePoolStatus) -> PoolStatus {
    let mut resources = lower_resources(status.resources.as_ref()).unwrap_or_default();
    // The number of nodes stands among the resources too.
    resources = resources
        .iter()
        .filter(|(name, _)| &***name != "nodes")
        .map(|(n, a)| (n.clone(), a))
        .collect();
    PoolStatus {
        resources,
        nodes: status
            .nodes
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(0),
        cost: status
            .price_per_hour
            .as_ref()
            .and_then(|text| text.parse().ok())
            .map(Money::from_dollars),
        class_generation: status.node_class_observed_generation,
        conditions: lower_conditions(&status.conditions),
        ..PoolStatus::default()
    }
}

/// The pool by itself, if a cluster would take it.
pub(super) fn read(pool: &NodePool) -> Result<Pool, String> {
    let violations = pool.validate();
    if !violations.is_empty() {
        let said: Vec<String> = violations.iter().map(ToString::to_string).collect();
        return Err(said.join("; "));
    }
    core_pool(pool)
}

fn core_pool(pool: &NodePool) -> Result<Pool, String> {
    let template = &pool.spec.template.spec;
    let metadata = pool.spec.template.metadata.clone().unwrap_or_default();
    let mut limits = lower_resources(pool.spec.limits.as_ref())
        .map_err(|error| format!("spec.limits.{error}"))?;
    let nodes = limits
        .contains("nodes")
        .then(|| u32::try_from(limits.get("nodes").max(0)).unwrap_or(u32::MAX));
    limits = limits
        .iter()
        .filter(|(name, _)| &***name != "nodes")
        .map(|(n, a)| (n.clone(), a))
        .collect();
    let own: Labels = metadata
        .labels
        .iter()
        .map(|(key, value)| (key.as_str().into(), value.as_str().into()))
        .collect();
    let expire_after = template.expire_after();
    Ok(Pool {
        name: text(pool.metadata.name.as_ref()),
        nodepool: None,
        catalog: "".into(),
        weight: pool.spec.weight.unwrap_or(0),
        labels: own,
        requirements: template
            .requirements
            .iter()
            .map(joiner_api::scheduling::NodeSelectorRequirement::to_expression)
            .collect(),
        taints: template
            .taints
            .iter()
            .map(joiner_api::scheduling::Taint::to_core)
            .collect(),
        startup_taints: template
            .startup_taints
            .iter()
            .map(joiner_api::scheduling::Taint::to_core)
            .collect(),
        limits: Limits {
            resources: limits,
            nodes,
            cost: None,
        },
        disruption: disruption(pool)?,
        expire_after: expire_after
            .get()
            .map_err(|error| format!("spec.template.spec.expireAfter: {error}"))?,
        replicas: pool
            .spec
            .replicas
            .map(|count| u32::try_from(count).unwrap_or(0)),
        closed: None,
    })
}

fn disruption(pool: &NodePool) -> Result<Disruption, String> {
    let given = pool.spec.disruption();
    let consolidate_after = match &given.consolidate_after {
        None => Some(SignedDuration::ZERO),
        Some(text) => text
            .get()
            .map_err(|error| format!("spec.disruption.consolidateAfter: {error}"))?,
    };
    let mut budgets = Vec::new();
    for (position, budget) in given.budgets.iter().flatten().enumerate() {
        let amount = match budget.nodes.get() {
            Ok(NodeCount::Nodes(count)) => BudgetAmount::Nodes(count),
            Ok(NodeCount::Percent(percent)) => BudgetAmount::Percent(percent),
            Err(error) => {
                return Err(format!(
                    "spec.disruption.budgets[{position}].nodes: {error}"
                ));
            }
        };
        let duration = budget.duration.as_ref().map(Duration::get).transpose();
        budgets.push(Budget {
            amount,
            reasons: budget
                .reasons
                .iter()
                .map(|reason| match reason {
                    ApiReason::Underutilized => DisruptionReason::Underutilized,
                    ApiReason::Empty => DisruptionReason::Empty,
                    ApiReason::Drifted => DisruptionReason::Drifted,
                })
                .collect(),
            schedule: budget.schedule.clone(),
            duration: duration.map_err(|error| {
                format!("spec.disruption.budgets[{position}].duration: {error}")
            })?,
        });
    }
    Ok(Disruption {
        policy: match given.consolidation_policy.unwrap_or_default() {
            ApiPolicy::WhenEmpty => ConsolidationPolicy::WhenEmpty,
            ApiPolicy::WhenEmptyOrUnderutilized => ConsolidationPolicy::WhenEmptyOrUnderutilized,
            ApiPolicy::Balanced => ConsolidationPolicy::Balanced,
        },
        consolidate_after,
        budgets,
        ..Disruption::default()
    })
}

/// The status as a merge patch that is refused if the pool has changed meanwhile.
pub(super) fn status_patch(pool: &PoolRecord, status: &PoolStatus) -> Value {
    let mut resources = render_resources(&status.resources);
    resources.insert("nodes".into(), status.nodes.to_string().as_str().into());
    json!({
        "metadata": {"uid": &*pool.uid, "resourceVersion": pool.version.to_string()},
        "status": {
            "resources": resources,
            "nodes": status.nodes,
            "nodeClassObservedGeneration": status.class_generation,
            "pricePerHour": status.cost.map(|cost| format!("{:.6}", cost.dollars())),
            "conditions": render_conditions(&status.conditions),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::misspelt;

    #[test]
    fn a_kind_that_our_groups_do_not_have_is_told_and_others_are_left_to_their_owners() {
        let said = misspelt("joiner.dev", "SimNodeClas").unwrap();
        assert!(
            said.contains("SimNodeClas\"") && said.contains("RackspaceNodeClass"),
            "{said}"
        );
        assert_eq!(misspelt("joiner.dev", "SimNodeClass"), None);
        assert_eq!(misspelt("karpenter.k8s.aws", "EC2NodeClas"), None);
    }
}
