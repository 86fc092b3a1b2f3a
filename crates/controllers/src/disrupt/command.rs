//! A plan, cut into commands that do not depend on each other: each goes on, or is undone, by itself.

use std::collections::BTreeMap;

use joiner_core::plan::{Home, Launch, Plan, Removal};
use joiner_core::problem::{DisruptionReason, Problem};

/// The order in which budgets are taken up, and so that in which nodes are marked: whoever looks in between finds no more
/// of them away than may be for the reason of the last.
pub(super) const IN_TURN: [DisruptionReason; 3] = [
    DisruptionReason::Empty,
    DisruptionReason::Drifted,
    DisruptionReason::Underutilized,
];

/// Nodes that go together, and what must be in use first.
#[derive(Clone, Debug)]
pub(super) struct Command<'p> {
    /// What goes.
    pub(super) removals: Vec<&'p Removal>,
    /// What comes in its stead.
    pub(super) launches: Vec<&'p Launch>,
}

impl Command<'_> {
    /// Why.
    pub(super) fn cause(&self) -> DisruptionReason {
        let first = self.removals.first();
        first.map_or(DisruptionReason::Underutilized, |one| one.cause)
    }

    /// `delete` or `replace`.
    pub(super) fn decision(&self) -> &'static str {
        if self.launches.is_empty() {
            "delete"
        } else {
            "replace"
        }
    }
}

/// The commands of a plan. Nodes whose pods share a new machine go together; all others go alone. Machines that the plan
/// would buy for pods that wait anyway are not ours to buy.
pub(super) fn split<'p>(problem: &Problem, plan: &'p Plan) -> Vec<Command<'p>> {
    let mut removals: Vec<&Removal> = plan
        .removals
        .iter()
        .filter(|removal| removal.cause != DisruptionReason::Expired)
        .collect();
    removals.sort_by_key(|removal| IN_TURN.iter().position(|cause| *cause == removal.cause));
    let position: BTreeMap<&str, usize> = removals
        .iter()
        .enumerate()
        .map(|(at, removal)| (&*removal.node, at))
        .collect();
    // The group of each removal: the first of those that it shares a machine with.
    let mut group: Vec<usize> = (0..removals.len()).collect();
    let mut homes: Vec<Vec<usize>> = Vec::new();
    for launch in &plan.launches {
        let mut from: Vec<usize> = launch
            .pods
            .iter()
            .filter_map(|pod| match pod.home {
                Home::Node(node) => problem.nodes.get(node.index()),
                Home::Pending => None,
            })
            .filter_map(|node| position.get(&*node.name).copied())
            .collect();
        from.sort_unstable();
        from.dedup();
        let together: Vec<usize> = from
            .iter()
            .filter_map(|at| group.get(*at).copied())
            .collect();
        if let Some(least) = together.iter().min().copied() {
            for one in &mut group {
                if together.contains(one) {
                    *one = least;
                }
            }
        }
        homes.push(from);
    }
    let mut commands: BTreeMap<usize, Command<'p>> = BTreeMap::new();
    for (removal, group) in removals.iter().zip(&group) {
        let command = commands.entry(*group).or_insert_with(|| Command {
            removals: Vec::new(),
            launches: Vec::new(),
        });
        command.removals.push(removal);
    }
    for (launch, from) in plan.launches.iter().zip(&homes) {
        let own = from.first().and_then(|at| group.get(*at));
        if let Some(command) = own.and_then(|group| commands.get_mut(group)) {
            command.launches.push(launch);
        }
    }
    commands.into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use joiner_core::plan::{PodRef, Purchase, Reason};
    use joiner_core::problem::{CapacityType, Node, NodeId};

    fn node(name: &str) -> Node {
        Node {
            name: name.into(),
            ..Node::default()
        }
    }

    fn removal(node: &str) -> Removal {
        Removal {
            node: node.into(),
            cause: DisruptionReason::Underutilized,
            reason: Reason::Kept {
                because: String::new(),
            },
        }
    }

    fn launch(homes: &[Home]) -> Launch {
        Launch {
            pool: "pool".into(),
            purchase: Purchase {
                catalog: "c".into(),
                instance_type: "t".into(),
                zone: "z".into(),
                capacity_type: CapacityType::OnDemand,
                reservation: None,
                host: None,
                price: joiner_core::money::Money::ZERO,
            },
            alternatives: Arc::default(),
            capacity: joiner_core::resources::Resources::new(),
            requests: joiner_core::resources::Resources::new(),
            labels: joiner_core::name::Labels::new(),
            pods: homes
                .iter()
                .map(|home| PodRef {
                    home: *home,
                    group: 0,
                    position: 0,
                })
                .collect(),
            reason: Reason::Kept {
                because: String::new(),
            },
        }
    }

    #[test]
    fn nodes_that_share_a_new_machine_go_together_and_the_rest_alone() {
        let problem = Problem {
            nodes: ["a", "b", "c", "d"].map(node).to_vec(),
            ..Problem::default()
        };
        let plan = Plan {
            removals: ["a", "b", "c", "d"].map(removal).to_vec(),
            launches: vec![
                launch(&[Home::Pending]),
                launch(&[Home::Node(NodeId::at(0)), Home::Node(NodeId::at(2))]),
                launch(&[Home::Node(NodeId::at(2)), Home::Pending]),
            ],
            ..Plan::default()
        };
        let commands = split(&problem, &plan);
        let shape: Vec<(Vec<&str>, usize)> = commands
            .iter()
            .map(|one| {
                let names = one.removals.iter().map(|removal| &*removal.node);
                (names.collect(), one.launches.len())
            })
            .collect();
        assert_eq!(shape, [(vec!["a", "c"], 2), (vec!["b"], 0), (vec!["d"], 0)]);
    }
}
