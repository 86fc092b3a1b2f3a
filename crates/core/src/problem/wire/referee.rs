//! The comparison form of a problem: one catalogue, whole numbers, no limits and no budgets.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::error::Fault;
use super::pods::{DaemonSet, Pending, Pod, Pods};
use super::validate;
use crate::labels;
use crate::money::Money;
use crate::name::{Labels, Name};
use crate::problem::{
    CapacityType, Catalog, Disruption, InstanceType as CoreType, Node as CoreNode,
    Offering as CoreOffering, Pool, Problem as CoreProblem,
};
use crate::requirement::Expression;
use crate::taints::Taint;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Problem {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "kind")]
    _kind: String,
    #[serde(default, rename = "seed")]
    _seed: i64,
    instance_types: Vec<InstanceType>,
    node_pools: Vec<NodePool>,
    #[serde(default)]
    daemon_sets: Option<Vec<DaemonSet>>,
    #[serde(default)]
    pods: Option<Pending>,
    #[serde(default)]
    nodes: Option<Vec<Node>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct InstanceType {
    name: Name,
    arch: Name,
    cpu_milli: u32,
    #[serde(rename = "memoryMiB")]
    memory_mib: u32,
    pods: u32,
    #[serde(default)]
    gpus: u32,
    #[serde(default, rename = "zones")]
    _zones: Option<Vec<Name>>,
    #[serde(default)]
    labels: Labels,
    offerings: Option<Vec<Offering>>,
    #[serde(default)]
    overhead_cpu_milli: u32,
    #[serde(default, rename = "overheadMemoryMiB")]
    overhead_memory_mib: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Offering {
    zone: Name,
    capacity_type: CapacityType,
    price: f64,
    #[serde(default)]
    unavailable: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NodePool {
    name: Name,
    #[serde(default)]
    weight: i32,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    requirements: Option<Vec<Expression>>,
    #[serde(default)]
    taints: Option<Vec<Taint>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Node {
    name: Name,
    #[serde(rename = "nodePool")]
    pool: Name,
    instance_type: Name,
    zone: Name,
    capacity_type: CapacityType,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    taints: Vec<Taint>,
    #[serde(default)]
    pods: Vec<Pod>,
}

/// The only catalogue there is.
const CATALOG: &str = "catalog";

impl Problem {
    pub(super) fn lower(self) -> Result<CoreProblem, Fault> {
        let pending = self.pods.unwrap_or_default();
        let mut pods = pending.shared;
        let types = lower_types(self.instance_types, &pods)?;
        let pools = lower_pools(self.node_pools)?;
        let daemon_sets = self.daemon_sets.unwrap_or_default();
        let pending = pending.pods?;
        let nodes = lower_nodes(self.nodes.unwrap_or_default(), &types, &pools, &mut pods)?;
        Ok(CoreProblem {
            name: self.name,
            daemon_sets: daemon_sets
                .into_iter()
                .map(|daemon_set| pods.lower_daemon_set(daemon_set))
                .collect(),
            catalogs: vec![Catalog {
                name: CATALOG.into(),
                types,
                ranges: Vec::new(),
                quotas: Vec::new(),
            }],
            pools,
            pods: pending,
            nodes,
            ..CoreProblem::default()
        })
    }
}

fn lower_types(types: Vec<InstanceType>, amounts: &Pods) -> Result<Vec<CoreType>, Fault> {
    let mut seen = BTreeSet::new();
    types
        .into_iter()
        .enumerate()
        .map(|(index, given)| {
            let within = |fault: Fault| fault.element(index).within("instanceTypes");
            if !seen.insert(given.name.clone()) {
                return Err(within(
                    validate::twice("instance type", &given.name).within("name"),
                ));
            }
            lower_type(given, amounts).map_err(within)
        })
        .collect()
}

fn lower_type(given: InstanceType, amounts: &Pods) -> Result<CoreType, Fault> {
    let mut own = given.labels;
    own.insert(labels::ARCH.into(), given.arch);
    own.insert(labels::OS.into(), "linux".into());
    let offerings = given.offerings.unwrap_or_default();
    for (index, offering) in offerings.iter().enumerate() {
        validate::price(offering.price)
            .map_err(|fault| fault.within("price").element(index).within("offerings"))?;
    }
    let mut overhead = amounts.resources(given.overhead_cpu_milli, given.overhead_memory_mib, 0, 0);
    overhead.set(crate::resources::PODS, 0);
    Ok(CoreType {
        name: given.name,
        labels: own,
        capacity: amounts.resources(given.cpu_milli, given.memory_mib, given.pods, given.gpus),
        overhead,
        offerings: offerings
            .into_iter()
            .map(|offering| CoreOffering {
                zone: offering.zone,
                region: "".into(),
                capacity_type: offering.capacity_type,
                price: Money::from_dollars(offering.price),
                available: !offering.unavailable,
                left: None,
                reservation: None,
                stock: None,
            })
            .collect(),
        quotas: Vec::new(),
    })
}

fn lower_pools(pools: Vec<NodePool>) -> Result<Vec<Pool>, Fault> {
    let mut seen = BTreeSet::new();
    pools
        .into_iter()
        .enumerate()
        .map(|(index, given)| {
            let within = |fault: Fault| fault.element(index).within("nodePools");
            if !seen.insert(given.name.clone()) {
                return Err(within(
                    validate::twice("node pool", &given.name).within("name"),
                ));
            }
            let requirements = given.requirements.unwrap_or_default();
            validate::requirements(&requirements)
                .map_err(|fault| within(fault.within("requirements")))?;
            Ok(Pool {
                name: given.name,
                catalog: CATALOG.into(),
                weight: given.weight,
                labels: given.labels,
                requirements,
                taints: given.taints.unwrap_or_default(),
                disruption: Disruption {
                    // The form has no budgets, and what is not forbidden is allowed.
                    budgets: Vec::new(),
                    ..Disruption::default()
                },
                ..Pool::default()
            })
        })
        .collect()
}

fn lower_nodes(
    nodes: Vec<Node>,
    types: &[CoreType],
    pools: &[Pool],
    pods: &mut Pods,
) -> Result<Vec<CoreNode>, Fault> {
    let types: BTreeMap<&Name, &CoreType> = types.iter().map(|one| (&one.name, one)).collect();
    let pools: BTreeMap<&Name, &Pool> = pools.iter().map(|one| (&one.name, one)).collect();
    let mut seen = BTreeSet::new();
    nodes
        .into_iter()
        .enumerate()
        .map(|(index, given)| {
            let within = |fault: Fault| fault.element(index).within("nodes");
            if !seen.insert(given.name.clone()) {
                return Err(within(validate::twice("node", &given.name).within("name")));
            }
            let Some(kind) = types.get(&given.instance_type) else {
                let fault = format!("unknown instance type {:?}", given.instance_type);
                let remedy = "name one that instanceTypes lists";
                return Err(within(Fault::new(fault, remedy).within("instanceType")));
            };
            let pool = pools.get(&given.pool).copied();
            lower_node(given, kind, pool, pods).map_err(within)
        })
        .collect()
}

fn lower_node(
    given: Node,
    kind: &CoreType,
    pool: Option<&Pool>,
    pods: &mut Pods,
) -> Result<CoreNode, Fault> {
    let mut all = kind.labels.clone();
    if let Some(pool) = pool {
        all.extend(pool.labels.clone());
    }
    all.extend(given.labels);
    all.extend([
        (
            Name::from(labels::INSTANCE_TYPE),
            given.instance_type.clone(),
        ),
        (labels::ZONE.into(), given.zone.clone()),
        (
            labels::CAPACITY_TYPE.into(),
            given.capacity_type.to_string().into(),
        ),
        (labels::NODEPOOL.into(), given.pool.clone()),
        (labels::HOSTNAME.into(), given.name.clone()),
    ]);
    let price = kind
        .offerings
        .iter()
        .find(|one| one.zone == given.zone && one.capacity_type == given.capacity_type)
        .map(|one| one.price);
    Ok(CoreNode {
        name: given.name,
        pool: pool.map(|pool| pool.name.clone()),
        labels: all,
        taints: given.taints,
        capacity: kind.capacity.clone(),
        allocatable: kind.allocatable(),
        pods: pods.lower_all(given.pods)?,
        instance_type: given.instance_type,
        capacity_type: given.capacity_type,
        price,
        ..CoreNode::default()
    })
}
