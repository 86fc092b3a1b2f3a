//! Pods with affinity over hosts: where the pods are that they need, and where a self-affinity group may start.
//!
//! A pod whose rule counts the pod itself may come to any host while no such pod is anywhere; from then on only hosts
//! that carry one will do. When that host is full the self-affinity group is complete: no other machine would help.

use crate::pack::compile::caps::{self, HeldCaps};
use crate::pack::compile::column_sets::{NOTHING, SetId};
use crate::pack::compile::ids::{CellId, ClassId, GroupId, LevelId};
use crate::pack::compile::profile::Level;
use crate::pack::dense::typed::{Id as _, IdVec};
use crate::problem::NodeId;

use super::{ANYWHERE, Assigner};

impl Assigner<'_, '_> {
    /// Whether a new machine may do: the pods that a pod must share a host with are on one, or nowhere yet.
    pub(super) fn may_buy(&self, level: &Level) -> bool {
        level.host_affinity.iter().all(|rule| {
            if self.cells_of_lots(rule.group).next().is_some() {
                return true;
            }
            let nowhere = !self.on_a_node(rule.group);
            if rule.soft {
                return nowhere && self.has_pending(rule.group);
            }
            // The pods that it needs may have their turn later, and come to a node.
            nowhere && (rule.own || !self.others_come)
        })
    }

    /// Whether any pod of a group is pending.
    fn has_pending(&self, group: GroupId) -> bool {
        self.out.queues.iter().any(|queue| {
            let matched = &self.compiled.profile(queue.class).matched;
            matched.binary_search(&group).is_ok()
        })
    }

    fn on_a_node(&self, group: GroupId) -> bool {
        let nodes = self.nodes.iter().enumerate();
        nodes
            .filter(|(at, _)| !self.removed.contains(*at))
            .any(|(_, node)| caps::carries(&node.caps, group))
    }

    /// Cells of the new machines that pods of a group were sent to.
    fn cells_of_lots(&self, group: GroupId) -> impl Iterator<Item = CellId> {
        let lots = self.out.lots.iter();
        let own = lots.filter(move |lot| {
            let matched = &self.compiled.profile(lot.class).matched;
            lot.count > 0 && matched.binary_search(&group).is_ok()
        });
        own.map(|lot| lot.cell)
    }

    /// Whether pods may start a self-affinity group: their rules count them, and no other pod of it is anywhere.
    fn is_first_of_group(&self, level: &Level) -> bool {
        level.host_affinity.iter().all(|rule| {
            rule.own
                && !self.on_a_node(rule.group)
                && self.cells_of_lots(rule.group).next().is_none()
        })
    }

    /// Starts a self-affinity group on a node if none that can be bought holds more of it; returns how many pods went there.
    pub(super) fn start_group(
        &mut self,
        class: ClassId,
        position: LevelId,
        set: SetId,
        count: u32,
    ) -> u32 {
        let compiled = self.compiled;
        let level = &compiled.profile(class).levels[position];
        if !self.is_first_of_group(level) {
            return 0;
        }
        let Some((room, node)) = self.roomiest(class, level, |_| true) else {
            return 0;
        };
        if room < count.min(self.largest(class, level, set)) {
            return 0;
        }
        self.put(class, position, node, room.min(count));
        room.min(count)
    }

    /// The same for one of `count` pods that may only come to certain cells.
    pub(super) fn start_group_within(
        &mut self,
        class: ClassId,
        position: LevelId,
        allowed: &IdVec<CellId, bool>,
        count: u32,
    ) -> bool {
        let compiled = self.compiled;
        let level = &compiled.profile(class).levels[position];
        if !self.is_first_of_group(level) {
            return false;
        }
        let within = |node: NodeId| allowed[compiled.nodes[node].cell];
        let Some((room, node)) = self.roomiest(class, level, within) else {
            return false;
        };
        let cells = compiled.cells.ids().filter(|cell| allowed[*cell]);
        let bought = cells.filter_map(|cell| {
            let (_, set, _) = self.opening(class, position, cell)?;
            Some(self.largest(class, level, set))
        });
        if room < count.min(bought.max().unwrap_or(0)) {
            return false;
        }
        self.put(class, position, node, 1);
        true
    }

    /// The node with room for the most pods, the first of equals.
    fn roomiest(
        &self,
        class: ClassId,
        level: &Level,
        allowed: impl Fn(NodeId) -> bool,
    ) -> Option<(u32, NodeId)> {
        let nodes = self.order.iter().copied().filter(|node| allowed(*node));
        let rooms = nodes.map(|node| (self.space_on(class, level, node), node));
        // Of equals `max_by_key` takes the last.
        let best = rooms.rev().max_by_key(|(room, _)| *room);
        best.filter(|(room, _)| *room > 0)
    }

    /// How many pods of a class the largest machine of a set takes.
    fn largest(&self, class: ClassId, level: &Level, set: SetId) -> u32 {
        if set == NOTHING {
            return 0;
        }
        let compiled = self.compiled;
        let requests = &compiled.class(class).requests;
        let columns = self.sets.list(set).iter();
        let copies = columns.map(|column| {
            let room = &compiled.column(*column).room;
            requests.copies_in(room).min(i64::from(u32::MAX)) as u32
        });
        let most = caps::room(&HeldCaps::new(), &level.caps);
        copies.max().unwrap_or(0).min(most)
    }

    /// Leaves only cells in which new machines carry the pods that a pod must share a host with: all of them for a pod
    /// that starts a self-affinity group, none for one that waits for pods that are nowhere yet.
    pub(super) fn keep_to_host_affinity(&self, level: &Level, allowed: &mut IdVec<CellId, bool>) {
        for rule in &level.host_affinity {
            let cells: Vec<CellId> = self.cells_of_lots(rule.group).collect();
            if (cells.is_empty() && rule.own) || cells.contains(&ANYWHERE) {
                continue;
            }
            for (cell, allowed) in allowed.iter_mut().enumerate() {
                *allowed &= cells.contains(&CellId::at(cell));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::pack::fixtures::{self, beside, decide, over_zones, spec};
    use crate::plan::Reason;
    use crate::problem::{NodePhase, Pod, PodSpec, Problem};

    /// `count` pods that must share a host with their own kind.
    fn problem(count: u32) -> Problem {
        Problem {
            pods: vec![Pod {
                count,
                ..Pod::new("together", together())
            }],
            ..fixtures::problem()
        }
    }

    fn together() -> PodSpec {
        PodSpec {
            affinity: vec![beside("together")],
            ..spec("together", 1200)
        }
    }

    /// Adds a machine of eight cores in zone a, with so many pods of the self-affinity group.
    fn node(problem: &mut Problem, phase: NodePhase, members: u32) {
        fixtures::node(problem, phase);
        let bound = (0..members).map(|at| Pod::new(&format!("old-{at}"), together()));
        problem.nodes[0].pods = bound.collect();
    }

    #[test]
    fn a_self_affinity_group_has_one_machine_and_pods_without_room_are_told_why() {
        let (launches, _, unplaced, plan) = decide(&problem(8));
        assert_eq!((launches, unplaced), (vec![6], 2));
        assert_eq!(
            plan.unplaced[0].reason,
            Reason::NoDomain {
                rule: "pod affinity over kubernetes.io/hostname".into()
            }
        );
    }

    #[test]
    fn a_self_affinity_group_starts_on_the_machine_that_is_on_its_way() {
        let mut problem = problem(8);
        node(&mut problem, NodePhase::InFlight, 0);
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![], 6, 2));
    }

    #[test]
    fn a_self_affinity_group_does_not_start_where_there_is_room_for_a_few_of_it() {
        let mut problem = problem(6);
        node(&mut problem, NodePhase::Ready, 0);
        problem.nodes[0].pods = vec![Pod::new("other", spec("other", 5000))];
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![6], 0, 0));
    }

    #[test]
    fn a_self_affinity_group_grows_on_its_node_and_nowhere_else() {
        let mut problem = problem(4);
        node(&mut problem, NodePhase::Ready, 4);
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![], 2, 2));
    }

    #[test]
    fn a_self_affinity_group_whose_node_goes_moves_as_one() {
        let mut problem = problem(1);
        node(&mut problem, NodePhase::Ready, 3);
        problem.nodes[0].deleting = true;
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![4], 0, 0));
    }

    #[test]
    fn who_must_share_a_host_keeps_to_the_zone_of_those_it_must_be_with() {
        let mut problem = problem(0);
        // One leader in each zone; followers are spread over zones, too, and each needs a leader beside it.
        let leaders = PodSpec {
            spread: vec![over_zones("leader")],
            anti_affinity: vec![beside("leader")],
            ..spec("leader", 500)
        };
        let followers = PodSpec {
            spread: vec![over_zones("follower")],
            affinity: vec![beside("leader")],
            ..spec("follower", 300)
        };
        problem.pods = vec![
            Pod {
                count: 2,
                ..Pod::new("leader", leaders)
            },
            Pod {
                count: 6,
                ..Pod::new("follower", followers)
            },
        ];
        let (launches, _, unplaced, _) = decide(&problem);
        assert_eq!((launches, unplaced), (vec![4, 4], 0));
    }

    #[test]
    fn who_finds_no_room_beside_those_that_are_there_joins_those_that_come() {
        let mut problem = problem(0);
        node(&mut problem, NodePhase::Ready, 0);
        let leader = |name: &str, cpu: i64| Pod::new(name, spec("leader", cpu));
        problem.nodes[0].pods = vec![leader("old", 7500)];
        let follower = PodSpec {
            affinity: vec![beside("leader")],
            ..spec("follower", 1000)
        };
        problem.pods = vec![leader("new", 1000), Pod::new("follower", follower)];
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![2], 0, 0));
    }

    #[test]
    fn a_self_affinity_group_with_a_rule_about_zones_stays_in_one() {
        let mut problem = problem(0);
        let together = PodSpec {
            spread: vec![over_zones("other")],
            ..together()
        };
        problem.pods = vec![Pod {
            count: 5,
            spec: Arc::new(together),
            ..Pod::new("together", PodSpec::default())
        }];
        let (launches, _, unplaced, _) = decide(&problem);
        assert_eq!((launches, unplaced), (vec![5], 0));
        node(&mut problem, NodePhase::InFlight, 0);
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![], 5, 0));
    }
}
