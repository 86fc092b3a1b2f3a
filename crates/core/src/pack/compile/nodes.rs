//! Nodes that are there, or on their way, as places for pods.

use crate::pack::compile::ids::{CellId, ClassId};
use crate::pack::dense::typed::IdVec;
use std::collections::{BTreeMap, BTreeSet};

use crate::labels;
use crate::name::Name;
use crate::pack::compile::Class;
use crate::pack::compile::caps::{HeldCaps, hold};
use crate::pack::compile::demand::Demand;
use crate::pack::compile::drain::is_counted;
use crate::pack::compile::groups::{GroupKind, Groups};
use crate::pack::compile::labels::{ABSENT, Keys};
use crate::pack::compile::profile::{Cap, Profile};
use crate::pack::dense::bits::Bits;
use crate::pack::dense::vector::{Table, Vector};
use crate::problem::{Node, NodeId, NodePhase, Pool, Problem};
use crate::taints::{Effect, Taint};

/// Volumes attached to a node, by driver: how many may be, and which are.
pub(crate) type Attached = BTreeMap<Name, (u32, BTreeSet<Name>)>;

/// A node as a place for pods.
#[derive(Clone, Debug)]
pub(crate) struct ExistingNode {
    /// What is free.
    pub(crate) room: Vector,
    /// Label values, by tracked key.
    pub(crate) values: Box<[u32]>,
    pub(crate) cell: CellId,
    pub(crate) caps: HeldCaps,
    /// Taints that count.
    pub(crate) taints: Vec<Taint>,
    pub(crate) attached: Attached,
    /// Ready ones first, then by name.
    pub(crate) order: u32,
}

/// Taints that a node loses by itself while it starts.
///
/// karpenter: pkg/scheduling/taints.go, `KnownEphemeralTaints`
fn passes(taint: &Taint) -> bool {
    matches!(
        (&*taint.key, taint.effect),
        (
            "node.kubernetes.io/not-ready" | "karpenter.sh/unregistered",
            Effect::NoExecute
        ) | (
            "node.kubernetes.io/not-ready"
                | "node.kubernetes.io/unreachable"
                | "node.cloudprovider.kubernetes.io/uninitialized",
            Effect::NoSchedule
        )
    ) || taint.key.starts_with("readiness.k8s.io/")
}

/// The taints that keep pods off a node.
fn lasting_taints(node: &Node) -> Vec<Taint> {
    let all = node.taints.iter();
    if node.phase == NodePhase::Ready || node.pool.is_none() {
        return all.cloned().collect();
    }
    let starts = |taint: &Taint| {
        let same = |other: &Taint| other.key == taint.key && other.effect == taint.effect;
        node.startup_taints.iter().any(same)
    };
    all.filter(|taint| !starts(taint) && !passes(taint))
        .cloned()
        .collect()
}

/// All nodes of a problem, daemons that are yet to come not considered.
pub(crate) fn compile(
    problem: &Problem,
    keys: &mut Keys,
    table: &Table,
    groups: &Groups,
    profiles: &[Profile<'_>],
    classes: &IdVec<ClassId, Class>,
    bound: &[Vec<ClassId>],
) -> Vec<ExistingNode> {
    let mut nodes: Vec<ExistingNode> = Vec::with_capacity(problem.nodes.len());
    let removed = Bits::empty(problem.nodes.len());
    for (index, (observed, classes_here)) in problem.nodes.iter().zip(bound).enumerate() {
        let mut node = ExistingNode {
            room: table.vector(&observed.allocatable),
            values: values(problem, observed, keys),
            cell: CellId::default(),
            caps: HeldCaps::new(),
            taints: lasting_taints(observed),
            attached: attached(observed),
            order: 0,
        };
        for (pod, class) in observed.pods.iter().zip(classes_here) {
            let class = &classes[*class];
            node.room
                .subtract(&class.requests.times(i64::from(pod.count)));
            let profile = &profiles[class.profile as usize];
            let counted = is_counted(problem, &removed, NodeId::at(index), pod);
            for cap in profile.bound_caps(groups) {
                if counted || groups.all.get(cap.group).kind == GroupKind::Port {
                    hold(&mut node.caps, cap, pod.count);
                }
            }
        }
        nodes.push(node);
    }
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|index| (problem.nodes[*index].phase, &problem.nodes[*index].name));
    for (position, index) in order.into_iter().enumerate() {
        nodes[index].order = position as u32;
    }
    nodes
}

fn attached(node: &Node) -> Attached {
    let mut attached: Attached = node
        .volume_limits
        .iter()
        .map(|(driver, most)| (driver.clone(), (*most, BTreeSet::new())))
        .collect();
    for volume in node.pods.iter().flat_map(|pod| &pod.spec.volumes) {
        if let Some((_, claims)) = attached.get_mut(&volume.driver) {
            claims.insert(volume.claim.clone());
        }
    }
    attached
}

fn values(problem: &Problem, node: &Node, keys: &mut Keys) -> Box<[u32]> {
    let names: Vec<Name> = keys.iter().cloned().collect();
    let mut values = vec![ABSENT; names.len()].into_boxed_slice();
    for (index, key) in names.iter().enumerate() {
        let found = node.labels.get(key).cloned().or_else(|| {
            let alias = |(own, _): &(&Name, &Name)| labels::canonical(own) == &**key;
            node.labels
                .iter()
                .find(alias)
                .map(|(_, value)| value.clone())
        });
        let value = found.or_else(|| match &**key {
            labels::HOSTNAME => Some(node.name.clone()),
            labels::INSTANCE_TYPE if !node.instance_type.is_empty() => {
                Some(node.instance_type.clone())
            }
            labels::NODEPOOL => {
                let own = node.pool.as_ref()?;
                let pool = problem.pools.iter().find(|pool| pool.name == *own);
                pool.map_or(Some(own), Pool::nodepool_label).cloned()
            }
            labels::CAPACITY_TYPE if node.pool.is_some() => {
                let text: &'static str = node.capacity_type.into();
                Some(text.into())
            }
            _ => None,
        });
        if let Some(value) = value {
            values[index] = keys.values[index].id(&value);
        }
    }
    values
}

/// Which nodes meet a demand, taints included.
pub(crate) fn admit(demand: &Demand, keys: &Keys, nodes: &[ExistingNode]) -> Bits {
    let mut bits = demand.admits(keys, &nodes.iter().map(|node| &*node.values));
    for (index, node) in nodes.iter().enumerate() {
        if demand.tolerated.refuses(&node.taints).is_some() {
            bits.remove(index);
        }
    }
    bits
}

/// Takes room off for daemons that a node should have and has not, and the ports that they will take.
///
/// karpenter: pkg/controllers/provisioning/scheduling/existingnode.go, `NewExistingNode`
pub(crate) fn withhold_daemons(
    problem: &Problem,
    keys: &Keys,
    table: &Table,
    groups: &mut Groups,
    nodes: &mut [ExistingNode],
) {
    let mut missing = vec![Vector::ZERO; nodes.len()];
    for daemon in &problem.daemon_sets {
        let Ok(demand) = Demand::daemon(daemon) else {
            continue;
        };
        let requests = table.vector(&daemon.spec.requests);
        let ports = groups.ports(&daemon.spec);
        for index in admit(&demand, keys, nodes).iter() {
            missing[index].add(&requests);
            for group in &ports {
                let taken = Cap {
                    group: *group,
                    matched: true,
                    most: 1,
                    soft: false,
                };
                hold(&mut nodes[index].caps, taken, 1);
            }
        }
    }
    for ((node, observed), missing) in nodes.iter_mut().zip(&problem.nodes).zip(&mut missing) {
        for pod in observed.pods.iter().filter(|pod| pod.daemon) {
            let here = table.vector(&pod.spec.requests);
            missing.subtract(&here.times(i64::from(pod.count)));
        }
        for amount in &mut missing.0 {
            *amount = (*amount).max(0);
        }
        node.room.subtract(missing);
    }
}

#[cfg(test)]
mod tests {
    use crate::labels;
    use crate::name::{Labels, Name};
    use crate::pack::fixtures::{decide, machine, node, pods, selling, spec};
    use crate::problem::{NodePhase, PodSpec};
    use crate::requirement::{Expression, Operator};

    #[test]
    fn nodes_of_a_pool_may_have_no_label_with_its_name() {
        let mut problem = selling(vec![machine(8)]);
        problem.pools[0].nodepool = Some(Name::default());
        let by_name = PodSpec {
            node_selector: Labels::from([(labels::NODEPOOL.into(), "main".into())]),
            ..spec("web", 500)
        };
        let without = PodSpec {
            required_affinity: vec![vec![Expression::new(
                labels::NODEPOOL,
                Operator::DoesNotExist,
                &[],
            )]],
            ..spec("web", 500)
        };
        problem.pods = vec![pods("by-name", 1, by_name), pods("without", 1, without)];
        let (launches, placed, unplaced, plan) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![1], 0, 1));
        assert!(!plan.launches[0].labels.contains_key(labels::NODEPOOL));
        node(&mut problem, NodePhase::Ready);
        problem.nodes[0].labels.remove(labels::NODEPOOL);
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![], 1, 1));
    }
}
