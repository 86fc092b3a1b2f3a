//! Whether a pod could run: whether some pool may buy some machine that holds it. Judged by itself, in the plainest way,
//! so that it shares no mistake with the packer. It knows what simulated worlds ask for: node selectors, tolerations,
//! requests; pools with requirements of the operator `In`, taints and limits.

use joiner_core::labels;
use joiner_core::problem::{Catalog, InstanceType, Offering};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use serde_json::Value;

use super::AuditOptions;
use super::ledger::{Id, Ledger, Pool};
use super::purchases::used;
use joiner_embedded::cluster::fields::Fields as _;
use joiner_embedded::cluster::quantity;

/// A pool that could buy a machine for a pod.
pub(super) fn pool_for(ledger: &Ledger, options: &AuditOptions, pod: &Value) -> Option<String> {
    ledger
        .pools
        .iter()
        .filter(|(_, pool)| !pool.deleting() && pool.terms.for_pods)
        .find(|(id, pool)| {
            let catalog = options.classes.get(&pool.terms.class);
            tolerates(pod, pool)
                && catalog.is_some_and(|catalog| sells(ledger, id, pool, catalog, pod))
        })
        .map(|((family, name), _)| format!("{name} of {family}"))
}

fn sells(ledger: &Ledger, id: &Id, pool: &Pool, catalog: &Catalog, pod: &Value) -> bool {
    let limits = &pool.terms.limits;
    let full = limits.get("nodes").is_some_and(|most| {
        i64::try_from(ledger.claims_of(id).count()).unwrap_or(i64::MAX) >= quantity::units(most)
    });
    if full {
        return false;
    }
    let mut used = used(ledger, id);
    // Nodes report a little less memory than was promised, and the promise may count against the limit.
    let memory = used.get(MEMORY);
    used.set(MEMORY, memory + memory / 25);
    let within = |kind: &InstanceType| {
        let most = |resource: &str| limits.get(resource);
        most(CPU)
            .is_none_or(|most| used.get(CPU) + kind.capacity.get(CPU) <= quantity::millis(most))
            && most(MEMORY).is_none_or(|most| {
                used.get(MEMORY) + kind.capacity.get(MEMORY) <= quantity::units(most)
            })
    };
    let wanted = requests(ledger, pod);
    catalog
        .types
        .iter()
        .filter(|kind| within(kind) && holds(kind, &wanted))
        .flat_map(|kind| kind.offerings.iter().map(move |offering| (kind, offering)))
        .any(|(kind, offering)| {
            let label = |key: &str| value(kind, offering, pool, key);
            let mut pool_wants = pool.terms.requirements.iter();
            let pool_agrees =
                pool_wants.all(|(key, values)| label(key).is_some_and(|has| values.contains(&has)));
            let selector = pod.at(&["spec", "nodeSelector"]).as_object();
            pool_agrees
                && selector
                    .into_iter()
                    .flatten()
                    .all(|(key, wanted)| label(key).is_some_and(|has| *wanted == has))
        })
}

/// What the pod and every daemon beside it ask for.
fn requests(ledger: &Ledger, pod: &Value) -> Resources {
    let mut wanted = Resources::new().with(PODS, 1);
    let mut add = |spec: &Value| {
        for container in spec.items(&["containers"]) {
            let asked = container.at(&["resources", "requests"]);
            wanted.add(
                &Resources::new()
                    .with(CPU, quantity::millis(asked.at(&["cpu"])))
                    .with(MEMORY, quantity::units(asked.at(&["memory"]))),
            );
        }
    };
    add(pod.at(&["spec"]));
    for daemon in ledger.daemons.values() {
        add(daemon.at(&["spec", "template", "spec"]));
    }
    wanted
}

fn holds(kind: &InstanceType, wanted: &Resources) -> bool {
    let allocatable = kind.allocatable();
    [CPU, MEMORY]
        .iter()
        .all(|name| wanted.get(name) <= allocatable.get(name))
}

fn tolerates(pod: &Value, pool: &Pool) -> bool {
    pool.terms.taints.iter().all(|taint| {
        pod.items(&["spec", "tolerations"]).iter().any(|one| {
            let key = one.text(&["key"]);
            let any = one.text(&["operator"]) == "Exists";
            (key.is_empty() || key == taint.text(&["key"]))
                && (any || one.text(&["value"]) == taint.text(&["value"]))
        })
    })
}

/// What a node of an offering bears for a label.
fn value(kind: &InstanceType, offering: &Offering, pool: &Pool, key: &str) -> Option<String> {
    match key {
        labels::ZONE => Some(offering.zone.to_string()),
        labels::CAPACITY_TYPE => Some(offering.capacity_type.to_string()),
        labels::INSTANCE_TYPE => Some(kind.name.to_string()),
        labels::NODEPOOL => Some(pool.name.clone()),
        _ => kind
            .labels
            .get(key)
            .map(ToString::to_string)
            .or_else(|| pool.terms.labels.get(key).cloned()),
    }
}
