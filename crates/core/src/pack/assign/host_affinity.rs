//! Pods that must share a host with others: where those others are, and where a flock may begin.
//!
//! A pod whose rule counts the pod itself may come to any host while no such pod is anywhere; from then on only hosts
//! that carry one will do. When that host is full the flock is complete: no other machine would help.

use crate::pack::compile::caps::{self, HostCaps};
use crate::pack::compile::column_sets::NOTHING;
use crate::pack::compile::profile::Level;

use super::{ANYWHERE, Assigner};

impl Assigner<'_, '_> {
    /// Whether a new machine may do: everybody whom a pod must share a host with is on one, or nowhere yet.
    pub(super) fn may_buy(&self, level: &Level) -> bool {
        level.near.iter().all(|rule| {
            if self.on_the_way(rule.group).next().is_some() {
                return true;
            }
            let nowhere = !self.on_a_node(rule.group);
            if rule.soft {
                return nowhere && self.is_expected(rule.group);
            }
            // Whom it needs may have its turn later, and come to a node.
            nowhere && (rule.own || !self.others_come)
        })
    }

    /// Whether anybody of a group looks for a place.
    fn is_expected(&self, group: u32) -> bool {
        self.out.queues.iter().any(|queue| {
            let matched = &self.compiled.profile(queue.class).matched;
            matched.binary_search(&group).is_ok()
        })
    }

    fn on_a_node(&self, group: u32) -> bool {
        let hosts = self.hosts.iter().enumerate();
        hosts
            .filter(|(at, _)| !self.removed.contains(*at))
            .any(|(_, host)| caps::carries(&host.caps, group))
    }

    /// Cells of the new machines that pods of a group were sent to.
    fn on_the_way(&self, group: u32) -> impl Iterator<Item = u32> {
        let lots = self.out.lots.iter();
        let own = lots.filter(move |lot| {
            let matched = &self.compiled.profile(lot.class).matched;
            lot.count > 0 && matched.binary_search(&group).is_ok()
        });
        own.map(|lot| lot.cell)
    }

    /// Whether pods may begin a flock: their rules count them, and nobody else of the kind is anywhere.
    fn first_of_all(&self, level: &Level) -> bool {
        level.near.iter().all(|rule| {
            rule.own && !self.on_a_node(rule.group) && self.on_the_way(rule.group).next().is_none()
        })
    }

    /// Begins a flock on a node if none that can be bought holds more of it; returns how many pods went there.
    pub(super) fn begin(&mut self, class: u32, position: usize, set: u32, count: u32) -> u32 {
        let compiled = self.compiled;
        let level = &compiled.profile(class).levels[position];
        if !self.first_of_all(level) {
            return 0;
        }
        let Some((room, host)) = self.roomiest(class, level, |_| true) else {
            return 0;
        };
        if room < count.min(self.largest(class, level, set)) {
            return 0;
        }
        self.put(class, position, host, room.min(count));
        room.min(count)
    }

    /// The same for one of `count` pods that may only come to certain cells.
    pub(super) fn begin_within(
        &mut self,
        class: u32,
        position: usize,
        allowed: &[bool],
        count: u32,
    ) -> bool {
        let compiled = self.compiled;
        let level = &compiled.profile(class).levels[position];
        if !self.first_of_all(level) {
            return false;
        }
        let within = |host: u32| allowed[compiled.hosts[host as usize].cell as usize];
        let Some((room, host)) = self.roomiest(class, level, within) else {
            return false;
        };
        let cells = (0..compiled.cells.len() as u32).filter(|cell| allowed[*cell as usize]);
        let bought = cells.filter_map(|cell| {
            let (_, set, _) = self.opening(class, position, cell)?;
            Some(self.largest(class, level, set))
        });
        if room < count.min(bought.max().unwrap_or(0)) {
            return false;
        }
        self.put(class, position, host, 1);
        true
    }

    /// The node with room for the most pods, the first of equals.
    fn roomiest(
        &self,
        class: u32,
        level: &Level,
        allowed: impl Fn(u32) -> bool,
    ) -> Option<(u32, u32)> {
        let hosts = self.order.iter().copied().filter(|host| allowed(*host));
        let rooms = hosts.map(|host| (self.space_on(class, level, host), host));
        // Of equals `max_by_key` takes the last.
        let best = rooms.rev().max_by_key(|(room, _)| *room);
        best.filter(|(room, _)| *room > 0)
    }

    /// How many pods of a class the largest machine of a set takes.
    fn largest(&self, class: u32, level: &Level, set: u32) -> u32 {
        if set == NOTHING {
            return 0;
        }
        let compiled = self.compiled;
        let requests = &compiled.classes[class as usize].requests;
        let columns = self.sets.list(set).iter();
        let copies = columns.map(|column| {
            let room = &compiled.columns[*column as usize].room;
            requests.copies_in(room).min(i64::from(u32::MAX)) as u32
        });
        let most = caps::room(&HostCaps::new(), &level.caps);
        copies.max().unwrap_or(0).min(most)
    }

    /// Leaves only cells in which new machines carry whom a pod must share a host with. A pod that begins a flock is
    /// at home in all of them; one that waits for others who are nowhere yet, in none.
    pub(super) fn keep_to_company(&self, level: &Level, allowed: &mut [bool]) {
        for rule in &level.near {
            let cells: Vec<u32> = self.on_the_way(rule.group).collect();
            if (cells.is_empty() && rule.own) || cells.contains(&ANYWHERE) {
                continue;
            }
            for (cell, allowed) in allowed.iter_mut().enumerate() {
                *allowed &= cells.contains(&(cell as u32));
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
                ..Pod::new("flock", flock())
            }],
            ..fixtures::problem()
        }
    }

    fn flock() -> PodSpec {
        PodSpec {
            affinity: vec![beside("flock")],
            ..spec("flock", 1200)
        }
    }

    /// Adds a machine of eight cores in zone a, with so many of the flock.
    fn node(problem: &mut Problem, phase: NodePhase, flock_here: u32) {
        fixtures::node(problem, phase);
        let bound = (0..flock_here).map(|at| Pod::new(&format!("old-{at}"), flock()));
        problem.nodes[0].pods = bound.collect();
    }

    #[test]
    fn a_flock_has_one_machine_and_whoever_finds_no_room_is_told_why() {
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
    fn a_flock_begins_on_the_machine_that_is_on_its_way() {
        let mut problem = problem(8);
        node(&mut problem, NodePhase::InFlight, 0);
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![], 6, 2));
    }

    #[test]
    fn a_flock_does_not_begin_where_there_is_room_for_a_few_of_it() {
        let mut problem = problem(6);
        node(&mut problem, NodePhase::Ready, 0);
        problem.nodes[0].pods = vec![Pod::new("other", spec("other", 5000))];
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![6], 0, 0));
    }

    #[test]
    fn a_flock_grows_on_its_node_and_nowhere_else() {
        let mut problem = problem(4);
        node(&mut problem, NodePhase::Ready, 4);
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![], 2, 2));
    }

    #[test]
    fn a_flock_whose_node_goes_moves_as_one() {
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
    fn a_flock_with_a_rule_about_zones_stays_in_one() {
        let mut problem = problem(0);
        let flock = PodSpec {
            spread: vec![over_zones("other")],
            ..flock()
        };
        problem.pods = vec![Pod {
            count: 5,
            spec: Arc::new(flock),
            ..Pod::new("flock", PodSpec::default())
        }];
        let (launches, _, unplaced, _) = decide(&problem);
        assert_eq!((launches, unplaced), (vec![5], 0));
        node(&mut problem, NodePhase::InFlight, 0);
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![], 5, 0));
    }
}
