//! Whether pods that are about to move have a place at this moment: a plan that is half an hour old may not hold any
//! more, and the scheduler puts pods where it likes, not where the plan had them.

use std::collections::BTreeSet;

use joiner_core::name::Name;
use joiner_core::plan::Home;
use joiner_core::problem::{NodePhase, Problem};

use crate::context::Context;
use crate::record::{Key, MachineRecord};

/// How many pods of a machine would find no place on what is in use now, if it went; `None` if that cannot be told.
pub(super) async fn lacking(context: &Context, machine: &MachineRecord) -> Option<usize> {
    let Some(node) = &machine.status.node else {
        return Some(0);
    };
    let problem = without(context, &machine.key, node);
    let (problem, plan) = context.provide(problem).await?;
    let own = |home: Home| match home {
        Home::Node(id) => problem
            .nodes
            .get(id.index())
            .is_some_and(|one| one.name == *node),
        Home::Pending => false,
    };
    let homeless = plan.unplaced.iter().flat_map(|one| &one.pods);
    Some(homeless.filter(|pod| own(pod.home)).count())
}

/// The cluster with nothing but what is in use, in which this node goes and those that wait for their turn do not yet.
fn without(context: &Context, machine: &Key, node: &Name) -> Problem {
    let now = context.now();
    let world = context.view.read();
    let mut terms = crate::market::terms::terms(context, &world, now);
    let waiting: BTreeSet<&Name> = world
        .pods
        .iter()
        .filter(|pod| pod.node.is_none())
        .map(|pod| &pod.uid)
        .collect();
    terms.promises.retain(|pod, _| waiting.contains(pod));
    let snapshot = world.problem(&terms, now);
    let mut problem = snapshot.problem;
    problem.settings.max_new_nodes = Some(0);
    problem.nodes.retain(|one| one.phase == NodePhase::Ready);
    for one in &mut problem.nodes {
        let key = snapshot.machines.get(&one.name);
        let record = key.and_then(|key| world.machines.get(key));
        let waits = record.is_some_and(|one| one.deleting.is_none() && one.key != *machine);
        one.deleting = one.name == *node || (one.deleting && !waits);
    }
    problem
}
