//! Where the pods of leaving nodes are to go: their room is kept for them until they are there.

use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_core::name::Name;
use joiner_core::plan::{Home, Launch, Plan, PodRef};
use joiner_core::problem::Problem;

use crate::context::Context;
use crate::provision::{Ground, Kind, Reservation};
use crate::record::{Key, MachineRecord, annotations};
use crate::view::World;
use crate::view::pods::{PodKey, PodRecord};

/// Pods that move onto machines that are there, by the node that they leave.
#[derive(Debug, Default)]
pub(super) struct Moves(BTreeMap<Name, Vec<(PodKey, Key)>>);

impl Moves {
    /// The moves of a plan.
    pub(super) fn of(problem: &Problem, plan: &Plan, machines: &BTreeMap<Name, Key>) -> Self {
        let mut moves = Moves::default();
        for placement in &plan.placements {
            let Some(machine) = machines.get(&placement.node) else {
                continue;
            };
            for (node, pod) in placement.pods.iter().filter_map(|pod| from(problem, pod)) {
                let leaving = moves.0.entry(node.clone()).or_default();
                leaving.push((pod, machine.clone()));
            }
        }
        moves
    }

    /// Whether pods of this node go to machines that are there.
    pub(super) fn leave(&self, node: &Name) -> bool {
        self.0.contains_key(node)
    }

    /// Keeps the room for the pods of a node that leaves now.
    pub(super) fn promise(&self, context: &Context, node: &Name) {
        let world = context.view.read();
        for (pod, machine) in self.0.get(node).into_iter().flatten() {
            context
                .provision
                .served
                .moved(machine, Ground::Old, uid(&world, pod));
        }
    }
}

/// Keeps room on a machine that was just asked for.
pub(super) fn promise_new(
    context: &Context,
    problem: &Problem,
    launch: &Launch,
    machine: &MachineRecord,
) {
    let world = context.view.read();
    let pods = launch.pods.iter().filter_map(|pod| from(problem, pod));
    let pods: Vec<&Arc<PodRecord>> = pods.filter_map(|(_, pod)| world.pods.get(&pod)).collect();
    let own = pods.iter().map(|pod| pod.uid.clone());
    context
        .provision
        .served
        .moved(&machine.key, Ground::New, own);
    if let Some(id) = machine.annotations.get(annotations::REPLACES)
        && !pods.is_empty()
    {
        let kinds = pods.iter().map(|pod| Kind::of(pod));
        let reservation = Reservation {
            machine: machine.key.clone(),
            pool: launch.pool.clone(),
            pods: kinds.collect(),
        };
        context.provision.served.reserve(id, reservation);
    }
}

fn uid(world: &World, pod: &PodKey) -> Option<Name> {
    world.pods.get(pod).map(|pod| pod.uid.clone())
}

/// The node that a pod leaves, and which pod it is; `None` for one that waits.
fn from<'p>(problem: &'p Problem, pod: &PodRef) -> Option<(&'p Name, PodKey)> {
    let Home::Node(node) = pod.home else {
        return None;
    };
    let node = problem.nodes.get(node.index())?;
    let group = node.pods.get(usize::try_from(pod.group).ok()?)?;
    let (namespace, name) = group.name.split_once('/')?;
    let key = PodKey {
        namespace: namespace.into(),
        name: name.into(),
    };
    Some((&node.name, key))
}
