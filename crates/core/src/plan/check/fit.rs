//! What holds on each site by itself: room, labels, taints, ports, volumes.

use std::collections::{BTreeMap, BTreeSet};

use super::site::{Kind, Occupant, Site, World, daemons, read_term, selected};
use super::{Findings, Rule};
use crate::name::{Labels, Name};
use crate::problem::{DisruptionReason, NodePhase, PodSpec, Volume};
use crate::resources::Resources;
use crate::taints::untolerated;

pub(super) fn check(world: &World<'_>, findings: &mut Findings) {
    for site in &world.sites {
        if site.placed.is_empty() && matches!(site.kind, Kind::Node(_)) {
            continue;
        }
        let expected = daemons(world.problem, &site.labels, &site.taints);
        room(site, &expected, findings);
        for pod in &site.placed {
            labels(site, pod, findings);
            tolerations(site, pod, findings);
        }
        ports(site, &expected, findings);
        volumes(site, findings);
        arrivals(world, site, findings);
    }
}

fn room(site: &Site<'_>, expected: &[&PodSpec], findings: &mut Findings) {
    let Some(room) = &site.room else { return };
    let mut taken = Resources::new();
    let mut daemons_bound = Resources::new();
    for pod in site.all_occupants() {
        if pod.group.daemon {
            daemons_bound.add(&pod.spec().requests);
        } else {
            taken.add(&pod.spec().requests);
        }
    }
    // Daemons that are there count as they are, those that will come as they are expected.
    let mut daemons = Resources::new();
    for spec in expected {
        daemons.add(&spec.requests);
    }
    daemons.raise_to(&daemons_bound);
    taken.add(&daemons);
    if let Kind::Launch(launch) = site.kind {
        let same = taken
            .iter()
            .chain(launch.requests.iter())
            .all(|(name, _)| taken.get(name) == launch.requests.get(name));
        if !same {
            let text = format!(
                "{} says that its pods and daemons request {}, they request {}",
                site.title,
                show(&launch.requests),
                show(&taken)
            );
            findings.add(Rule::Capacity, text);
        }
    }
    for (name, amount) in taken.iter() {
        let has = room.get(name);
        if amount > has {
            let text = format!(
                "{} has {has} of {name}, its pods request {amount}",
                site.title
            );
            findings.add(Rule::Capacity, text);
        }
    }
}

fn show(amounts: &Resources) -> String {
    let parts: Vec<String> = amounts
        .iter()
        .map(|(name, amount)| format!("{name} {amount}"))
        .collect();
    parts.join(", ")
}

fn labels(site: &Site<'_>, pod: &Occupant<'_>, findings: &mut Findings) {
    let hostname = matches!(site.kind, Kind::Node(_)).then_some(&site.hostname);
    if !selected(pod.spec(), &site.labels, hostname) {
        let text = format!(
            "pod {} does not select the labels of {}",
            pod.name(),
            site.title
        );
        findings.add(Rule::Labels, text);
    }
}

fn tolerations(site: &Site<'_>, pod: &Occupant<'_>, findings: &mut Findings) {
    if let Some(taint) = untolerated(site.taints.iter().copied(), &pod.spec().tolerations) {
        let text = format!(
            "pod {} does not tolerate {}={}:{} of {}",
            pod.name(),
            taint.key,
            taint.value,
            taint.effect,
            site.title
        );
        findings.add(Rule::Taints, text);
    }
}

fn ports(site: &Site<'_>, expected: &[&PodSpec], findings: &mut Findings) {
    let bound_daemons = site.bound.iter().any(|pod| pod.group.daemon);
    let coming = expected.iter().filter(|_| !bound_daemons);
    let mut taken: Vec<_> = coming
        .flat_map(|spec| &spec.host_ports)
        .map(|port| (port, "a daemon".to_owned()))
        .collect();
    for pod in &site.bound {
        let name = pod.name().to_string();
        taken.extend(
            pod.group
                .spec
                .host_ports
                .iter()
                .map(|port| (port, name.clone())),
        );
    }
    for pod in &site.placed {
        for port in &pod.group.spec.host_ports {
            if let Some((_, other)) = taken.iter().find(|(other, _)| other.conflicts(port)) {
                let text = format!(
                    "pods {} and {other} both want port {} of {}",
                    pod.name(),
                    port.port,
                    site.title
                );
                findings.add(Rule::Ports, text);
            }
        }
        let name = pod.name().to_string();
        taken.extend(
            pod.group
                .spec
                .host_ports
                .iter()
                .map(|port| (port, name.clone())),
        );
    }
}

/// Whether a volume can be reached from a node with these labels.
pub(super) fn reachable(volume: &Volume, labels: &Labels) -> bool {
    volume.topology.is_empty()
        || volume
            .topology
            .iter()
            .filter_map(read_term)
            .any(|wanted| wanted.satisfied_by(labels))
}

fn volumes(site: &Site<'_>, findings: &mut Findings) {
    for pod in &site.placed {
        for volume in &pod.spec().volumes {
            if !reachable(volume, &site.labels) {
                let text = format!(
                    "volume {} of pod {} cannot be reached from {}",
                    volume.claim,
                    pod.name(),
                    site.title
                );
                findings.add(Rule::Volumes, text);
            }
        }
    }
    let Kind::Node(node) = site.kind else { return };
    let mut attached: BTreeMap<&Name, BTreeSet<&Name>> = BTreeMap::new();
    for pod in site.bound.iter().chain(&site.placed) {
        for volume in &pod.group.spec.volumes {
            attached
                .entry(&volume.driver)
                .or_default()
                .insert(&volume.claim);
        }
    }
    for (driver, claims) in attached {
        if let Some(limit) = node.volume_limits.get(driver)
            && claims.len() > *limit as usize
        {
            let text = format!(
                "{} attaches at most {limit} volumes of {driver}, its pods have {}",
                site.title,
                claims.len()
            );
            findings.add(Rule::Volumes, text);
        }
    }
}

/// Pods that leave a node which need not go may only move to nodes that are settled.
fn arrivals(world: &World<'_>, site: &Site<'_>, findings: &mut Findings) {
    let Kind::Node(node) = site.kind else { return };
    let window = node
        .pool
        .as_deref()
        .and_then(|pool| world.pools.get(pool))
        .and_then(|pool| super::removals::quiet_until(world.problem, pool, node));
    for pod in &site.placed {
        let crate::plan::Home::Node(from) = pod.pod.home else {
            continue;
        };
        let Some(cause) = super::removals::cause(world, from.index()) else {
            continue;
        };
        if node.phase != NodePhase::Ready && cause != DisruptionReason::Expired {
            let text = format!(
                "pod {} is moved to {}, which is not ready yet",
                pod.name(),
                site.title
            );
            findings.add(Rule::Disruption, text);
        } else if let Some(until) = window
            && cause == DisruptionReason::Underutilized
        {
            let text = format!(
                "pod {} is moved to {}, which must be left alone until {until}",
                pod.name(),
                site.title
            );
            findings.add(Rule::Disruption, text);
        }
    }
}
