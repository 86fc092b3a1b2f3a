//! The question that is asked of a compiled problem: which nodes go, which may receive, which pods wait.

use crate::pack::compile::drain::blocks_drain;
use crate::pack::compile::ids::ClassId;
use crate::pack::compile::{Compiled, Run};
use crate::pack::dense::bits::Bits;
use crate::pack::dense::vector::{CPU, MEMORY};
use crate::plan::Home;
use crate::problem::{NodeId, Problem};

/// Pods of one class that wait.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub(crate) class: ClassId,
    pub(crate) runs: Vec<Run>,
    pub(crate) count: u32,
    /// They run somewhere now.
    pub(crate) running: bool,
}

/// What is asked: as the problem stands, or "and if these nodes were not there?".
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) removed: Bits,
    pub(crate) closed: Bits,
    pub(crate) closed_to_running: Bits,
    pub(crate) buys: bool,
    pub(crate) pending: bool,
}

impl Scenario {
    /// The problem as it stands.
    pub(crate) fn of(problem: &Problem) -> Self {
        let nodes = problem.nodes.len();
        Scenario {
            removed: Bits::empty(nodes),
            closed: Bits::empty(nodes),
            closed_to_running: Bits::empty(nodes),
            buys: true,
            pending: true,
        }
    }

    /// Takes a node away: its pods join those that wait.
    #[must_use]
    pub(crate) fn without(mut self, node: NodeId) -> Self {
        self.removed.insert(node.index());
        self
    }

    /// No pod may come to this node.
    #[must_use]
    pub(crate) fn closing(mut self, node: NodeId) -> Self {
        self.closed.insert(node.index());
        self
    }

    /// No pod may come to any of these nodes.
    #[must_use]
    pub(crate) fn closing_all(self, nodes: &[NodeId]) -> Self {
        nodes.iter().copied().fold(self, Scenario::closing)
    }

    /// Only pods that wait already may come to this node, not those of nodes taken away.
    #[must_use]
    pub(crate) fn sparing(mut self, node: NodeId) -> Self {
        self.closed_to_running.insert(node.index());
        self
    }

    /// Nothing may be bought.
    #[must_use]
    pub(crate) fn buying_nothing(mut self) -> Self {
        self.buys = false;
        self
    }

    /// Pods that wait are left out: only those of nodes taken away are placed.
    #[must_use]
    pub(crate) fn leaving_pending_out(mut self) -> Self {
        self.pending = false;
        self
    }

    /// Pods that need a place, by priority, size and age.
    pub(crate) fn queues(&self, compiled: &Compiled<'_>) -> Vec<Queue> {
        let problem = compiled.problem;
        let mut runs: Vec<(ClassId, Run)> = Vec::new();
        let mut push = |home: Home, group: usize, class: ClassId, count: u32| {
            let run = Run {
                home,
                group: group as u32,
                first: 0,
                count,
            };
            if count > 0 {
                runs.push((class, run));
            }
        };
        if self.pending {
            for (group, (pod, class)) in problem.pods.iter().zip(&compiled.pending).enumerate() {
                push(Home::Pending, group, *class, pod.count);
            }
        }
        for (id, classes) in compiled.bound.pairs() {
            let node = problem.node_at(id);
            let taken_away = self.removed.contains(id.index());
            if !node.deleting && !taken_away {
                continue;
            }
            for (group, (pod, class)) in node.pods.iter().zip(classes).enumerate() {
                if pod.reschedulable() && (taken_away || !blocks_drain(problem, node, pod)) {
                    push(Home::Node(id), group, *class, pod.count);
                }
            }
        }
        let created = |run: &Run| compiled.pod(run.home, run.group).created;
        let running = |run: &Run| run.home != Home::Pending;
        runs.sort_by_key(|(class, run)| (*class, running(run), created(run)));
        let mut queues: Vec<Queue> = Vec::new();
        for (class, run) in runs {
            match queues.last_mut() {
                Some(queue) if queue.class == class && queue.running == running(&run) => {
                    queue.count += run.count;
                    queue.runs.push(run);
                }
                _ => queues.push(Queue {
                    class,
                    runs: vec![run],
                    count: run.count,
                    running: running(&run),
                }),
            }
        }
        queues.sort_by_cached_key(|queue| {
            let class = compiled.class(queue.class);
            let priority = compiled.profile(queue.class).spec.priority;
            let size = (-class.requests.0[CPU], -class.requests.0[MEMORY]);
            let oldest = queue.runs.first().and_then(created);
            (
                std::cmp::Reverse(priority),
                size,
                oldest,
                queue.class,
                queue.running,
            )
        });
        queues
    }
}

#[cfg(test)]
mod tests {
    use crate::pack::fixtures::{beside, decide, node, over_zones, pods, problem, spec};
    use crate::plan::Plan;
    use crate::problem::{NodePhase, Pod, PodDisruptionBudget, PodSpec, Problem};
    use crate::selector::LabelSelector;

    /// A node that leaves, with one pod.
    fn leaving(pod: Pod) -> Problem {
        let mut problem = problem();
        node(&mut problem, NodePhase::Ready);
        problem.nodes[0].deleting = true;
        problem.nodes[0].pods = vec![pod];
        problem
    }

    fn web() -> Pod {
        Pod::new("web", spec("web", 1000))
    }

    fn budget(never: bool) -> PodDisruptionBudget {
        PodDisruptionBudget {
            namespace: "default".into(),
            name: "web".into(),
            selector: Some(LabelSelector::label("app", "web")),
            never,
            ..PodDisruptionBudget::default()
        }
    }

    #[test]
    fn pods_of_a_leaving_node_find_a_place_in_time() {
        let mut problem = leaving(web());
        assert_eq!(decide(&problem).0, [1]);
        // A budget that is used up now will let them go later.
        problem.pod_disruption_budgets.push(budget(false));
        assert_eq!(decide(&problem).0, [1]);
    }

    /// A node in zone a with three pods like the two that wait, which are spread over zones.
    fn spread_out(change: impl Fn(&mut Problem)) -> Plan {
        let mut problem = problem();
        node(&mut problem, NodePhase::Ready);
        let web = PodSpec {
            spread: vec![over_zones("web")],
            ..spec("web", 1000)
        };
        problem.nodes[0].pods = vec![pods("old", 3, web.clone())];
        problem.pods = vec![pods("web", 2, web)];
        change(&mut problem);
        let (_, _, unplaced, plan) = decide(&problem);
        assert_eq!(unplaced, 0);
        plan
    }

    /// How many pods come to each zone, by way of new machines.
    fn zones(plan: &Plan) -> Vec<(&str, usize)> {
        let launches = plan.launches.iter();
        launches
            .map(|one| (&*one.purchase.zone, one.pods.len()))
            .collect()
    }

    #[test]
    fn pods_on_their_way_out_count_for_no_spread() {
        assert_eq!(zones(&spread_out(|_| ())), [("b", 2)]);
        let ending = spread_out(|problem| {
            problem.nodes[0].pods[0].ending = true;
            problem.nodes[0].pods[0].stays_behind = true;
        });
        assert_eq!(zones(&ending), [("b", 1)]);
        assert_eq!(ending.placements[0].pods.len(), 1);
        // The same if their node goes with them.
        let leaving = spread_out(|problem| {
            problem.nodes[0].deleting = true;
            problem.nodes[0].pods[0].ending = true;
            problem.nodes[0].pods[0].stays_behind = true;
        });
        assert_eq!(leaving.launches.len(), 2);
    }

    #[test]
    fn pods_that_will_not_leave_count_for_as_long_as_they_are_there() {
        let blocking = spread_out(|problem| {
            problem.nodes[0].deleting = true;
            problem.nodes[0].pods[0].do_not_disrupt = true;
        });
        assert_eq!(zones(&blocking), [("b", 2)]);
    }

    #[test]
    fn a_pod_that_must_share_the_host_of_a_pod_that_blocks_the_drain_waits() {
        let mut problem = leaving(Pod {
            do_not_disrupt: true,
            ..web()
        });
        let together = PodSpec {
            affinity: vec![beside("web")],
            ..spec("web", 500)
        };
        problem.pods = vec![pods("together", 2, together)];
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![], 0, 2));
        problem.nodes[0].pods[0].ending = true;
        problem.nodes[0].pods[0].stays_behind = true;
        problem.nodes[0].pods[0].do_not_disrupt = false;
        let (launches, placed, unplaced, _) = decide(&problem);
        assert_eq!((launches, placed, unplaced), (vec![2], 0, 0));
    }

    #[test]
    fn nothing_is_bought_for_pods_that_will_not_leave() {
        let nothing = (Vec::<usize>::new(), 0, 0);
        let blocking = Pod {
            do_not_disrupt: true,
            ..web()
        };
        let (launches, placed, unplaced, _) = decide(&leaving(blocking));
        assert_eq!((launches, placed, unplaced), nothing);
        let mut blocked = leaving(web());
        blocked.pod_disruption_budgets.push(budget(true));
        let (launches, placed, unplaced, _) = decide(&blocked);
        assert_eq!((launches, placed, unplaced), nothing);
    }

    #[test]
    fn pods_of_a_machine_that_the_cloud_takes_away_have_a_place_whatever_holds_them() {
        let blocking = Pod {
            do_not_disrupt: true,
            ..web()
        };
        let mut taken = leaving(blocking);
        taken.nodes[0].reclaimed = true;
        assert_eq!(decide(&taken).0, [1]);
        let mut blocked = leaving(web());
        blocked.pod_disruption_budgets.push(budget(true));
        assert!(decide(&blocked).0.is_empty());
        blocked.nodes[0].reclaimed = true;
        let (launches, placed, unplaced, _) = decide(&blocked);
        assert_eq!((launches, placed, unplaced), (vec![1], 0, 0));
    }

    #[test]
    fn pods_that_lose_their_machine_count_for_no_spread() {
        let taken = spread_out(|problem| {
            problem.nodes[0].deleting = true;
            problem.nodes[0].reclaimed = true;
            problem.nodes[0].pods[0].do_not_disrupt = true;
        });
        let all = zones(&taken);
        let count = |zone: &str| -> usize {
            let there = all.iter().filter(|(name, _)| *name == zone);
            there.map(|(_, pods)| *pods).sum()
        };
        let (a, b) = (count("a"), count("b"));
        assert_eq!((a + b, a.abs_diff(b)), (5, 1), "{all:?}");
    }
}
