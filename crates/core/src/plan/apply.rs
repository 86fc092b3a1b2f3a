//! A plan carried out: the problem as it is afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Home, Launch, Plan, PodRef, stock};
use crate::labels;
use crate::name::Name;
use crate::problem::{InstanceType, Node, NodeId, Pod, Problem};

/// The problem after everything in the plan has come to pass: machines are nodes and no longer for sale, pods are where
/// they were put, nodes that were to go are gone. New nodes are called `prefix` and a number.
pub fn apply(problem: &Problem, plan: &Plan, prefix: &str) -> Problem {
    Aftermath::of(problem, plan, prefix).problem
}

/// The problem after a plan, and what its pods were before.
pub(crate) struct Aftermath {
    pub(crate) problem: Problem,
    /// The first pod of each group that still waits or is still on a leaving node, by home.
    origins: BTreeMap<Home, Vec<PodRef>>,
}

impl Aftermath {
    pub(crate) fn of(problem: &Problem, plan: &Plan, prefix: &str) -> Self {
        let mut after = problem.clone();
        let going: BTreeSet<&Name> = plan.removals.iter().map(|removal| &removal.node).collect();
        let index: BTreeMap<&Name, usize> = problem
            .nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (&node.name, index))
            .collect();
        for placement in &plan.placements {
            if let Some(at) = index.get(&placement.node) {
                after.nodes[*at]
                    .pods
                    .extend(singles(problem, &placement.pods));
            }
        }
        let mut moved: Vec<PodRef> = plan.placed().collect();
        moved.sort_unstable();
        let mut origins = BTreeMap::new();
        let mut remaining = |home: Home| {
            let (pods, first) = remaining(problem, home, &moved);
            origins.insert(home, first);
            pods
        };
        after.pods = remaining(Home::Pending);
        // Nodes on their way out keep what was not moved.
        for (index, node) in after.nodes.iter_mut().enumerate() {
            if problem.nodes[index].deleting {
                node.pods = remaining(Home::Node(NodeId::at(index)));
            }
        }
        after.nodes.retain(|node| !going.contains(&node.name));
        let stranded = |pod: &PodRef| match pod.home {
            Home::Pending => false,
            Home::Node(node) => going.contains(&problem.node_at(node).name),
        };
        let unplaced = plan.unplaced.iter().flat_map(|one| &one.pods);
        let stranded: Vec<PodRef> = unplaced.copied().filter(stranded).collect();
        after.pods.extend(singles(problem, &stranded));
        origins.entry(Home::Pending).or_default().extend(stranded);
        for (number, launch) in plan.launches.iter().enumerate() {
            let name = format!("{prefix}{number}");
            after.nodes.push(bought(problem, launch, &name));
            stock::take(&mut after.catalogs, launch.into());
        }
        Aftermath {
            problem: after,
            origins,
        }
    }

    /// What a pod of the problem afterwards was before.
    pub(crate) fn origin(&self, pod: PodRef) -> Option<PodRef> {
        let first = self.origins.get(&pod.home)?.get(pod.group as usize)?;
        Some(PodRef {
            position: first.position + pod.position,
            ..*first
        })
    }
}

/// Each of these pods by itself, as it is where it comes to: what was on its way out begins anew.
pub(crate) fn singles(problem: &Problem, pods: &[PodRef]) -> Vec<Pod> {
    let arrived = |pod: Pod| Pod {
        ending: false,
        ..pod
    };
    apart(problem, pods).into_iter().map(arrived).collect()
}

/// Each of these pods by itself.
fn apart(problem: &Problem, pods: &[PodRef]) -> Vec<Pod> {
    let found = pods.iter().filter_map(|pod| {
        let group = problem.pod(*pod)?;
        Some(Pod {
            name: group.name_of(pod.position),
            count: 1,
            spec: Arc::clone(&group.spec),
            ..group.clone()
        })
    });
    found.collect()
}

fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// Groups of pods that are still where they were, and the first pod of each; groups of which some went are taken apart.
fn remaining(problem: &Problem, home: Home, moved: &[PodRef]) -> (Vec<Pod>, Vec<PodRef>) {
    let groups = match home {
        Home::Pending => &problem.pods,
        Home::Node(node) => &problem.node_at(node).pods,
    };
    let mut left = (Vec::new(), Vec::new());
    for (group, pod) in groups.iter().enumerate() {
        let group = number(group);
        let mut rest: Vec<PodRef> = (0..pod.count)
            .map(|position| PodRef {
                home,
                group,
                position,
            })
            .filter(|one| moved.binary_search(one).is_err())
            .collect();
        if rest.len() == pod.count as usize {
            rest.truncate(1);
            left.0.extend((!rest.is_empty()).then(|| pod.clone()));
        } else {
            left.0.extend(apart(problem, &rest));
        }
        left.1.extend(rest);
    }
    left
}

/// A machine of a plan as the node that it becomes.
pub(crate) fn bought(problem: &Problem, launch: &Launch, name: &str) -> Node {
    let purchase = &launch.purchase;
    let catalog = problem.catalog(&purchase.catalog);
    let kind = catalog.and_then(|catalog| {
        let mut types = catalog.types.iter();
        types.find(|kind| kind.name == purchase.instance_type)
    });
    let range = catalog.and_then(|catalog| {
        let mut ranges = catalog.ranges.iter();
        ranges.find(|range| range.name == purchase.instance_type)
    });
    let overhead = kind
        .map(|kind| &kind.overhead)
        .or_else(|| range.map(|range| &range.overhead))
        .cloned()
        .unwrap_or_default();
    let machine = InstanceType {
        name: purchase.instance_type.clone(),
        labels: launch.labels.clone(),
        capacity: launch.capacity.clone(),
        overhead,
        offerings: Vec::new(),
        quotas: Vec::new(),
    };
    let pool = problem.pools.iter().find(|pool| pool.name == launch.pool);
    let mut labels = launch.labels.clone();
    labels.insert(labels::HOSTNAME.into(), Name::from(name));
    Node {
        name: name.into(),
        pool: Some(launch.pool.clone()),
        labels,
        taints: pool.map(|pool| pool.taints.clone()).unwrap_or_default(),
        capacity: launch.capacity.clone(),
        allocatable: machine.allocatable(),
        pods: singles(problem, &launch.pods),
        instance_type: purchase.instance_type.clone(),
        capacity_type: purchase.capacity_type,
        price: Some(purchase.price),
        created: problem.now,
        ..Node::default()
    }
}
