//! Pods that wait, alike ones together: five hundred replicas are one row.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use joiner_controllers::context::Context;
use joiner_controllers::decisions::{Kind, Outcome, Subject};
use joiner_controllers::view::pods::PodRecord;
use joiner_core::problem::{PodSpec, WhenUnsatisfiable};
use joiner_core::resources::{CPU, MEMORY, PODS};

use super::model::{Demand, DemandGroup, SCHEMA};

/// Labels that differ between pods of one owner and decide nothing.
const OWN: [&str; 4] = [
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "batch.kubernetes.io/controller-uid",
];

/// How many names of a group are shown.
const NAMES: usize = 5;

/// All pods that wait; with `query`, those whose namespace or name contains it.
pub(crate) fn demand(context: &Context, query: &str) -> Demand {
    let now = context.now();
    let waiting: Vec<Arc<PodRecord>> = {
        let world = context.view.read();
        world
            .pods
            .iter()
            .filter(|pod| pod.waits())
            .cloned()
            .collect()
    };
    let total = waiting.len();
    let mut signatures: BTreeMap<usize, Arc<PodSpec>> = BTreeMap::new();
    let mut groups: BTreeMap<(Arc<PodSpec>, Vec<String>), Vec<&PodRecord>> = BTreeMap::new();
    for pod in &waiting {
        if !query.is_empty() && !pod.key.to_string().contains(query) {
            continue;
        }
        let at = Arc::as_ptr(&pod.spec).addr();
        let signature = signatures.entry(at).or_insert_with(|| signature(&pod.spec));
        let claims = pod.claims.iter().map(ToString::to_string).collect();
        groups
            .entry((signature.clone(), claims))
            .or_default()
            .push(pod);
    }
    let mut groups: Vec<DemandGroup> = groups
        .into_iter()
        .map(|((spec, _), pods)| {
            let subjects: Vec<Subject> = pods
                .iter()
                .map(|pod| Subject::new(Kind::Pod, pod.key.to_string()))
                .collect();
            // The one with the worst news speaks for all.
            let said = context.decisions.latest(subjects.iter());
            let placed = |outcome| matches!(outcome, Outcome::Placed | Outcome::Bought);
            let said = said.into_iter().flatten();
            let said =
                said.min_by_key(|one| (placed(one.verdict.outcome), std::cmp::Reverse(one.last)));
            let oldest = pods.iter().map(|pod| pod.created).min().unwrap_or(now);
            DemandGroup {
                count: pods.len(),
                namespace: spec.namespace.to_string(),
                names: pods
                    .iter()
                    .take(NAMES)
                    .map(|pod| pod.key.name.to_string())
                    .collect(),
                cpu: spec.requests.get(CPU),
                memory: spec.requests.get(MEMORY),
                requires: requires(&spec),
                waited: now.duration_since(oldest).as_secs().max(0),
                placed: said.as_ref().is_some_and(|one| placed(one.verdict.outcome)),
                pools: said
                    .as_ref()
                    .map(|one| one.verdict.evidence.pools.clone())
                    .unwrap_or_default(),
                said,
            }
        })
        .collect();
    groups.sort_by(|a, b| (a.placed, b.count, &a.names).cmp(&(b.placed, a.count, &b.names)));
    Demand {
        schema_version: SCHEMA,
        at: now,
        waiting: total,
        groups,
    }
}

/// A spec without what tells pods of one owner apart.
fn signature(spec: &Arc<PodSpec>) -> Arc<PodSpec> {
    if !OWN.iter().any(|key| spec.labels.contains_key(*key)) {
        return spec.clone();
    }
    let mut own = PodSpec::clone(spec);
    own.labels.retain(|key, _| !OWN.contains(&&**key));
    Arc::new(own)
}

/// What a pod asks for beside cores and memory, in words.
fn requires(spec: &PodSpec) -> Vec<String> {
    let mut all = BTreeSet::new();
    for (name, amount) in spec.requests.iter() {
        if ![CPU, MEMORY, PODS].contains(&&**name) && amount > 0 {
            all.insert(format!("{name} {amount}"));
        }
    }
    for (key, value) in &spec.node_selector {
        all.insert(format!("{key}={value}"));
    }
    for term in &spec.required_affinity {
        let all_of: Vec<String> = term
            .iter()
            .map(|one| format!("{} {:?} {}", one.key, one.operator, one.values.join(", ")))
            .collect();
        all.insert(format!("node affinity: {}", all_of.join(" and ")));
    }
    for spread in &spec.spread {
        let firm = spread.when_unsatisfiable == WhenUnsatisfiable::DoNotSchedule;
        let how = if firm {
            "spread over"
        } else {
            "rather spread over"
        };
        all.insert(format!("{how} {}", spread.topology_key));
    }
    for term in &spec.affinity {
        all.insert(format!("near other pods by {}", term.topology_key));
    }
    for term in &spec.anti_affinity {
        all.insert(format!("apart from other pods by {}", term.topology_key));
    }
    for port in &spec.host_ports {
        all.insert(format!("host port {}", port.port));
    }
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_a_stateful_set_have_one_signature() {
        let pod = |name: &str| {
            Arc::new(PodSpec {
                labels: [("app".into(), "db".into()), (OWN[0].into(), name.into())].into(),
                ..PodSpec::default()
            })
        };
        assert_eq!(signature(&pod("db-0")), signature(&pod("db-1")));
        assert_eq!(signature(&pod("db-0")).labels.len(), 1);
    }
}
