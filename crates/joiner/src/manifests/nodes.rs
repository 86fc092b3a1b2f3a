//! Nodes that are there.

use joiner_core::labels;
use joiner_core::name::{Labels, Name};
use joiner_core::problem::{CapacityType, Node, Problem};
use joiner_core::taints::Taint;
use serde::Deserialize;

use super::Object;
use super::objects::{self, Amounts};
use super::pods::amounts;
use crate::failure::Failure;

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeObject {
    spec: NodeSpec,
    status: NodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    taints: Vec<objects::Taint>,
    unschedulable: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    capacity: Amounts,
    allocatable: Amounts,
}

/// Reads taints as they stand in an object.
pub(super) fn taints(given: &[objects::Taint]) -> Vec<Taint> {
    let taints = given.iter();
    taints
        .map(|taint| Taint {
            key: taint.key.clone(),
            value: taint.value.clone(),
            effect: taint.effect,
        })
        .collect()
}

/// Node affinity can ask for the name as for a label.
fn with_name(labels: &Labels, name: &Name) -> Labels {
    let mut labels = labels.clone();
    labels.insert(labels::NAME_FIELD.into(), name.clone());
    labels
}

pub(super) fn add(objects: &[Object], problem: &mut Problem) -> Result<(), Failure> {
    for object in objects.iter().filter(|object| object.kind == "Node") {
        let read: NodeObject = object.read()?;
        let own = &object.meta.labels;
        let mut taints = taints(&read.spec.taints);
        if read.spec.unschedulable {
            taints.push(Taint {
                key: "node.kubernetes.io/unschedulable".into(),
                value: "".into(),
                effect: joiner_core::taints::Effect::NoSchedule,
            });
        }
        let paid = own.get(labels::CAPACITY_TYPE);
        let annotations = &object.meta.annotations;
        problem.nodes.push(Node {
            name: object.meta.name.clone(),
            pool: own.get(labels::NODEPOOL).cloned(),
            taints,
            capacity: amounts(object, &read.status.capacity)?,
            allocatable: amounts(object, &read.status.allocatable)?,
            instance_type: own.get(labels::INSTANCE_TYPE).cloned().unwrap_or_default(),
            capacity_type: paid
                .and_then(|paid| paid.parse::<CapacityType>().ok())
                .unwrap_or_default(),
            labels: with_name(own, &object.meta.name),
            do_not_disrupt: annotations
                .get("karpenter.sh/do-not-disrupt")
                .map(String::as_str)
                == Some("true"),
            ..Node::default()
        });
    }
    Ok(())
}
