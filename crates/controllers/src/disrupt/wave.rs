//! Pods that come and go all over the cluster: a rollout, a night's batch, a workload that shrinks.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_core::problem::Problem;

use crate::edge::clock;

/// A cluster that never rests is not waited for.
const LONGEST: Duration = Duration::from_mins(1);

/// A change that is under way. What is decided in the midst of it is decided on half of what there is to know, and has to
/// be done again.
#[derive(Debug, Default)]
pub(super) struct Wave {
    since: Option<Timestamp>,
}

impl Wave {
    /// Leaves every node alone until the last of them has been quiet for as long as it takes to settle.
    pub(super) fn wait_out(&mut self, settle: Duration, problem: &mut Problem) {
        let Some(now) = problem.now else {
            return;
        };
        let owned = problem.nodes.iter().filter(|node| node.pool.is_some());
        let last = owned
            .filter(|node| !node.deleting)
            .filter_map(|node| node.last_pod_event)
            .max();
        let Some(last) = last.filter(|last| clock::after(*last, settle) > now) else {
            self.since = None;
            return;
        };
        let since = *self.since.get_or_insert(last);
        if clock::after(since, LONGEST) <= now {
            return;
        }
        let quiet = clock::after(last, settle);
        for node in &mut problem.nodes {
            let pools = problem.pools.iter();
            let mut pool = pools.filter(|pool| Some(&pool.name) == node.pool.as_ref());
            let after = pool
                .next()
                .and_then(|pool| pool.disruption.consolidate_after);
            let as_if = after.map(|after| before(quiet, after));
            node.last_pod_event = node.last_pod_event.max(as_if);
        }
    }
}

fn before(at: Timestamp, after: SignedDuration) -> Timestamp {
    at.checked_sub(after).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use joiner_core::disrupt;
    use joiner_core::pack::Options;
    use joiner_core::problem::{Node, NodePhase, Pool};

    const SETTLE: Duration = Duration::from_secs(5);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Empty nodes on which pods went at these times.
    fn cluster(now: i64, events: &[i64], after: i64) -> Problem {
        let mut pool = Pool {
            name: "default".into(),
            ..Pool::default()
        };
        pool.disruption.consolidate_after = Some(SignedDuration::from_secs(after));
        pool.disruption.budgets.clear();
        let node = |(index, event): (usize, &i64)| Node {
            name: format!("node-{index}").as_str().into(),
            pool: Some("default".into()),
            phase: NodePhase::Ready,
            last_pod_event: Some(at(*event)),
            ..Node::default()
        };
        Problem {
            now: Some(at(now)),
            pools: vec![pool],
            nodes: events.iter().enumerate().map(node).collect(),
            ..Problem::default()
        }
    }

    fn going(wave: &mut Wave, mut problem: Problem) -> usize {
        wave.wait_out(SETTLE, &mut problem);
        disrupt::plan(&problem, &Options::default()).removals.len()
    }

    #[test]
    fn no_node_is_weighed_while_pods_still_come_and_go_on_another() {
        let mut wave = Wave::default();
        assert_eq!(going(&mut wave, cluster(110, &[100, 106], 5)), 0);
        assert_eq!(going(&mut wave, cluster(111, &[100, 106], 5)), 2);
    }

    #[test]
    fn a_pool_that_waits_longer_waits_no_longer_for_others_than_they_need_to_settle() {
        let mut wave = Wave::default();
        assert_eq!(going(&mut wave, cluster(170, &[100, 166], 60)), 0);
        assert_eq!(going(&mut wave, cluster(171, &[100, 166], 60)), 1);
    }

    #[test]
    fn a_cluster_that_never_rests_is_not_waited_for_for_ever() {
        let mut wave = Wave::default();
        assert_eq!(going(&mut wave, cluster(110, &[100, 110], 5)), 0);
        assert_eq!(going(&mut wave, cluster(169, &[100, 169], 5)), 0);
        assert_eq!(going(&mut wave, cluster(170, &[100, 170], 5)), 1);
    }
}
