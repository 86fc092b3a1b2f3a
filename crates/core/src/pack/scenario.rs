//! The question that is asked of a compiled problem: which nodes go, which may receive, who waits.

use crate::plan::Home;
use crate::problem::Problem;

use super::assign::Queue;
use super::bits::Bits;
use super::compile::{Compiled, Run};
use super::vector::{CPU, MEMORY};

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
    pub(crate) fn without(mut self, node: u32) -> Self {
        self.removed.insert(node as usize);
        self
    }

    /// No pod may come to this node.
    #[must_use]
    pub(crate) fn closing(mut self, node: u32) -> Self {
        self.closed.insert(node as usize);
        self
    }

    /// Only pods that wait already may come to this node, not those of nodes taken away.
    #[must_use]
    pub(crate) fn sparing(mut self, node: u32) -> Self {
        self.closed_to_running.insert(node as usize);
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
        let mut runs: Vec<(u32, Run)> = Vec::new();
        let mut push = |home: Home, group: usize, class: u32, count: u32| {
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
        for (index, classes) in compiled.bound.iter().enumerate() {
            let node = &problem.nodes[index];
            if !node.deleting && !self.removed.contains(index) {
                continue;
            }
            for (group, (pod, class)) in node.pods.iter().zip(classes).enumerate() {
                if pod.reschedulable() {
                    push(Home::Node(index as u32), group, *class, pod.count);
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
            let class = &compiled.classes[queue.class as usize];
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
