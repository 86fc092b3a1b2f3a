//! Pods that must not meet. The rule holds in both directions and at every moment, so the end state decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::groups::{Term, namespaced};
use super::site::World;
use super::{Findings, Rule};
use crate::name::Name;
use crate::problem::PodSpec;

/// A pod that a term selects, and whether the plan put it there.
struct Found {
    name: Name,
    placed: bool,
    identity: crate::plan::PodRef,
}

pub(super) fn check(world: &World<'_>, findings: &mut Findings) {
    let terms = terms(world);
    if terms.is_empty() {
        return;
    }
    let mut selects: BTreeMap<*const PodSpec, Vec<usize>> = BTreeMap::new();
    let mut owns: BTreeMap<*const PodSpec, Vec<usize>> = BTreeMap::new();
    let mut selected: BTreeMap<(usize, &Name), Vec<Found>> = BTreeMap::new();
    let mut owners: BTreeMap<(usize, &Name), Vec<Found>> = BTreeMap::new();
    for site in world.sites.iter().chain(&world.lingering) {
        for (placed, pod) in site
            .staying()
            .map(|pod| (false, pod))
            .chain(site.placed.iter().map(|pod| (true, pod)))
        {
            let spec = &pod.group.spec;
            let found = || Found {
                name: pod.name(),
                placed,
                identity: pod.pod,
            };
            let matching = selects.entry(Arc::as_ptr(spec)).or_insert_with(|| {
                let hit = |index: &usize| terms[*index].selects(spec);
                (0..terms.len()).filter(hit).collect()
            });
            for term in matching.iter() {
                if let Some(domain) = site.domain(&terms[*term].key) {
                    selected.entry((*term, domain)).or_default().push(found());
                }
            }
            let owned = owns.entry(Arc::as_ptr(spec)).or_insert_with(|| {
                spec.anti_affinity
                    .iter()
                    .filter_map(|term| namespaced(world.problem, spec, term))
                    .filter_map(|term| terms.iter().position(|other| *other == term))
                    .collect()
            });
            for term in owned.iter() {
                if let Some(domain) = site.domain(&terms[*term].key) {
                    owners.entry((*term, domain)).or_default().push(found());
                }
            }
        }
    }
    for ((term, domain), holders) in owners {
        let Some(others) = selected.get(&(term, domain)) else {
            continue;
        };
        for holder in holders {
            // Two that met before the plan are not the plan's doing.
            let met = others
                .iter()
                .find(|other| other.identity != holder.identity && (other.placed || holder.placed));
            if let Some(other) = met {
                let text = format!(
                    "pod {} must not share {} {domain} with pod {}",
                    holder.name, terms[term].key, other.name
                );
                findings.add(Rule::AntiAffinity, text);
            }
        }
    }
}

/// Every anti-affinity term that some pod has.
fn terms(world: &World<'_>) -> Vec<Term> {
    let mut terms = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for site in world.sites.iter().chain(&world.lingering) {
        for pod in site.staying().chain(&site.placed) {
            if !seen.insert(Arc::as_ptr(&pod.group.spec)) {
                continue;
            }
            for term in &pod.spec().anti_affinity {
                if let Some(term) = namespaced(world.problem, pod.spec(), term)
                    && !terms.contains(&term)
                {
                    terms.push(term);
                }
            }
        }
    }
    terms
}
