//! A pod's life on its node, as a pure state machine over time.
//!
//! ```text
//!   Creating ──► Init(0) ──► Init(1) ──► … ──► Running ──► Done
//!                                                │  ▲
//!                                                ▼  │
//!                                              BackOff          any ──► Stopping ──► Stopped
//! ```
//!
//! All main containers of a pod start and end together; sidecars start in their place among the init containers and run
//! as long as the pod does.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::behaviour::Behaviour;
use crate::cluster::fields::Fields as _;

/// The wait before the second restart; it doubles with each (kubelet: `MaxContainerBackOff` and its initial value).
const FIRST_BACKOFF: SignedDuration = SignedDuration::from_secs(10);
/// The longest wait before a restart.
const LONGEST_BACKOFF: SignedDuration = SignedDuration::from_mins(5);
/// The exit code of a container that ended when it was asked to (128 + SIGTERM).
pub(crate) const TERMINATED: i64 = 143;
/// The exit code of a container that had to be killed (128 + SIGKILL).
pub(crate) const KILLED: i64 = 137;

/// One finished run of the main containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) started: Timestamp,
    pub(crate) finished: Timestamp,
    pub(crate) code: i64,
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Images and volumes are being prepared.
    Creating,
    /// The init container of this index runs.
    Init { index: usize, since: Timestamp },
    /// The main containers run.
    Running { since: Timestamp },
    /// The main containers ended and will be started again.
    BackOff { until: Timestamp },
    /// The pod has ended by itself.
    Done(Ended),
    /// The containers were told to end; `running` says since when they had been running, if they had.
    Stopping {
        running: Option<Timestamp>,
        until: Timestamp,
        code: i64,
    },
    /// The containers ended because they were told to.
    Stopped {
        running: Option<Timestamp>,
        at: Timestamp,
        code: i64,
    },
}

/// A pod on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub(crate) uid: String,
    pub(crate) admitted: Timestamp,
    pub(crate) stage: Stage,
    pub(crate) restarts: u32,
    /// The last run of the main containers before this one.
    pub(crate) last: Option<Ended>,
    /// When each init container that has started did, and ended if it has.
    pub(crate) init: Vec<(Timestamp, Option<Timestamp>)>,
    pub(crate) address: String,
    pub(crate) behaviour: Behaviour,
}

impl Run {
    /// A pod that its node has just taken on.
    pub fn admit(pod: &Value, behaviour: Behaviour, address: String, now: Timestamp) -> Self {
        Self {
            uid: pod.uid().to_owned(),
            admitted: now,
            stage: Stage::Creating,
            restarts: 0,
            last: None,
            init: Vec::new(),
            address,
            behaviour,
        }
    }

    /// A pod that its node runs already, as its status tells: a kubelet that was restarted finds its containers again.
    pub fn resume(pod: &Value, behaviour: Behaviour, address: String, now: Timestamp) -> Self {
        let mut run = Self::admit(pod, behaviour, address, now);
        if let Some(admitted) = pod.time(&["status", "startTime"]) {
            run.admitted = admitted;
        }
        if let [main, ..] = pod.items(&["status", "containerStatuses"]) {
            let restarts = main.int(&["restartCount"]).unwrap_or_default();
            run.restarts = u32::try_from(restarts).unwrap_or_default();
            if let Some(since) = main.time(&["state", "running", "startedAt"]) {
                run.stage = Stage::Running { since };
                run.init = pod
                    .items(&["status", "initContainerStatuses"])
                    .iter()
                    .map(began)
                    .collect();
            }
        }
        run
    }

    /// Lets time pass up to `now` and says when something will happen next.
    pub fn advance(&mut self, pod: &Value, now: Timestamp) -> Option<Timestamp> {
        if pod.deleting() {
            self.begin_to_stop(pod, now);
        }
        loop {
            let next = self.next_change();
            match next {
                Some(at) if at <= now => self.step(pod, at),
                _ => {
                    return next
                        .into_iter()
                        .chain(self.ready_at().filter(|at| *at > now))
                        .min();
                }
            }
        }
    }

    /// Whether this is the life of the pod with that identity.
    pub fn is_of(&self, uid: &str) -> bool {
        self.uid == uid
    }

    /// Whether the main containers run and have become ready.
    pub(crate) fn is_ready(&self, now: Timestamp) -> bool {
        self.ready_at().is_some_and(|at| at <= now)
    }

    /// Whether nothing of the pod runs any more because it was told to end.
    pub fn is_stopped(&self) -> bool {
        matches!(self.stage, Stage::Stopped { .. })
    }

    /// Whether nothing of the pod runs any more, for whatever reason: it takes no room on its node.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Done(_) | Stage::Stopped { .. })
    }

    /// Ends the pod at once, as when its node shuts down.
    pub(crate) fn kill(&mut self, now: Timestamp) {
        let running = self.running_since();
        self.stage = Stage::Stopped {
            running,
            at: now,
            code: KILLED,
        };
    }

    /// Probes go on while containers are ending.
    fn ready_at(&self) -> Option<Timestamp> {
        match self.stage {
            Stage::Running { since }
            | Stage::Stopping {
                running: Some(since),
                ..
            } => Some(later(since, self.behaviour.ready?)),
            _ => None,
        }
    }

    fn next_change(&self) -> Option<Timestamp> {
        match self.stage {
            Stage::Creating => Some(later(self.admitted, self.behaviour.start)),
            Stage::Init { since, .. } => Some(later(since, self.behaviour.init)),
            Stage::Running { since } => self.behaviour.run.map(|run| later(since, run)),
            Stage::BackOff { until } | Stage::Stopping { until, .. } => Some(until),
            Stage::Done(_) | Stage::Stopped { .. } => None,
        }
    }

    fn step(&mut self, pod: &Value, at: Timestamp) {
        self.stage = match self.stage {
            Stage::Creating => self.next_init(pod, 0, at),
            Stage::Init { index, .. } => {
                if let Some((_, finished)) = self.init.get_mut(index) {
                    *finished = Some(at);
                }
                self.next_init(pod, index + 1, at)
            }
            Stage::Running { since } => self.end_of_run(pod, since, at),
            Stage::BackOff { .. } => {
                self.restarts += 1;
                Stage::Running { since: at }
            }
            Stage::Stopping { running, code, .. } => Stage::Stopped { running, at, code },
            ended => ended,
        };
    }

    /// The first init container from `index` on that takes time; sidecars only start.
    fn next_init(&mut self, pod: &Value, index: usize, at: Timestamp) -> Stage {
        for (index, container) in pod
            .items(&["spec", "initContainers"])
            .iter()
            .enumerate()
            .skip(index)
        {
            self.init.push((at, None));
            if container.text(&["restartPolicy"]) != "Always" {
                return Stage::Init { index, since: at };
            }
        }
        Stage::Running { since: at }
    }

    fn end_of_run(&mut self, pod: &Value, since: Timestamp, at: Timestamp) -> Stage {
        let ended = Ended {
            started: since,
            finished: at,
            code: self.behaviour.exit_code,
        };
        let again = match pod.text(&["spec", "restartPolicy"]) {
            "Never" => false,
            "OnFailure" => ended.code != 0,
            _ => true,
        };
        if !again {
            return Stage::Done(ended);
        }
        self.last = Some(ended);
        // The first restart follows at once; only then does the kubelet begin to wait.
        let wait = match self.restarts {
            0 => SignedDuration::ZERO,
            restarts => FIRST_BACKOFF
                .checked_mul(1 << (restarts - 1).min(10))
                .unwrap_or(LONGEST_BACKOFF)
                .min(LONGEST_BACKOFF),
        };
        Stage::BackOff {
            until: later(at, wait),
        }
    }

    fn begin_to_stop(&mut self, pod: &Value, now: Timestamp) {
        let running = self.running_since();
        if let Stage::Done(_) | Stage::Stopped { .. } = self.stage {
            if let Stage::Done(ended) = self.stage {
                self.stage = Stage::Stopped {
                    running: Some(ended.started),
                    at: ended.finished,
                    code: ended.code,
                };
            }
            return;
        }
        let grace = pod
            .int(&["metadata", "deletionGracePeriodSeconds"])
            .unwrap_or_default();
        let grace = SignedDuration::from_secs(grace.max(0));
        let in_time = self.behaviour.stop <= grace;
        let code = if in_time { TERMINATED } else { KILLED };
        let wanted = match running {
            Some(_) => later(now, self.behaviour.stop.min(grace)),
            // What never ran has nothing to wind down.
            None => now,
        };
        match &mut self.stage {
            // A second, shorter grace period hurries a pod that is already stopping.
            Stage::Stopping { until, .. } => *until = (*until).min(wanted),
            stage => {
                *stage = Stage::Stopping {
                    running,
                    until: wanted,
                    code,
                }
            }
        }
    }

    fn running_since(&self) -> Option<Timestamp> {
        match self.stage {
            Stage::Running { since } => Some(since),
            Stage::Stopping { running, .. } | Stage::Stopped { running, .. } => running,
            _ => None,
        }
    }
}

/// When an init container started, and ended if it has.
fn began(status: &Value) -> (Timestamp, Option<Timestamp>) {
    let at = |state: &str, field: &str| status.time(&["state", state, field]);
    let started = at("running", "startedAt").or_else(|| at("terminated", "startedAt"));
    (started.unwrap_or_default(), at("terminated", "finishedAt"))
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::kubelet::behaviour::PodDefaults;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000 + seconds).unwrap()
    }

    fn admit(pod: &Value) -> Run {
        let behaviour = Behaviour::read(pod, &PodDefaults::default());
        Run::admit(pod, behaviour, "10.0.0.1".into(), at(0))
    }

    fn pod(spec: &Value, annotations: &Value) -> Value {
        json!({"metadata": {"name": "p", "uid": "u", "annotations": annotations}, "spec": spec})
    }

    #[test]
    fn a_plain_pod_starts_and_runs_for_ever() {
        let pod = pod(&json!({"containers": [{}]}), &json!({}));
        let mut run = admit(&pod);
        assert_eq!(run.advance(&pod, at(0)), Some(at(2)));
        assert!(!run.is_ready(at(1)));
        assert_eq!(run.advance(&pod, at(2)), None);
        assert!(run.is_ready(at(2)));
    }

    #[test]
    fn init_containers_run_one_after_the_other_and_sidecars_only_start() {
        let spec = json!({
            "initContainers": [{"name": "a"}, {"name": "s", "restartPolicy": "Always"}, {"name": "b"}],
            "containers": [{}],
        });
        let pod = pod(&spec, &json!({"sim.joiner.dev/init-seconds": "5"}));
        let mut run = admit(&pod);
        assert_eq!(run.advance(&pod, at(2)), Some(at(7)));
        assert_eq!(
            run.stage,
            Stage::Init {
                index: 0,
                since: at(2)
            }
        );
        assert_eq!(run.advance(&pod, at(7)), Some(at(12)));
        assert_eq!(
            run.stage,
            Stage::Init {
                index: 2,
                since: at(7)
            }
        );
        run.advance(&pod, at(12));
        assert_eq!(run.stage, Stage::Running { since: at(12) });
        assert_eq!(
            run.init,
            [(at(2), Some(at(7))), (at(7), None), (at(7), Some(at(12)))]
        );
    }

    #[test]
    fn restart_policy_decides_what_follows_the_end() {
        let annotations = json!({
            "sim.joiner.dev/run-seconds": "3", "sim.joiner.dev/exit-code": "1",
        });
        let never = pod(
            &json!({"restartPolicy": "Never", "containers": [{}]}),
            &annotations,
        );
        let mut run = admit(&never);
        assert_eq!(run.advance(&never, at(100)), None);
        assert!(matches!(run.stage, Stage::Done(Ended { code: 1, .. })));

        let always = pod(&json!({"containers": [{}]}), &annotations);
        let mut run = admit(&always);
        // Ends at 5, starts again at once, ends at 8, and now waits ten seconds.
        assert_eq!(run.advance(&always, at(9)), Some(at(18)));
        assert_eq!(
            (run.stage, run.restarts),
            (Stage::BackOff { until: at(18) }, 1)
        );
        run.advance(&always, at(18));
        assert_eq!(
            (run.stage, run.restarts),
            (Stage::Running { since: at(18) }, 2)
        );
    }

    #[test]
    fn a_deleted_pod_ends_within_its_grace() {
        let spec = json!({"containers": [{}]});
        let mut pod = pod(&spec, &json!({"sim.joiner.dev/stop-seconds": "20"}));
        let mut run = admit(&pod);
        run.advance(&pod, at(2));
        pod["metadata"]["deletionTimestamp"] = json!("x");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        assert_eq!(run.advance(&pod, at(10)), Some(at(30)));
        assert!(run.is_ready(at(10)), "until its containers have ended");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(5);
        assert_eq!(run.advance(&pod, at(12)), Some(at(17)));
        assert_eq!(run.advance(&pod, at(17)), None);
        assert!(run.is_stopped() && !run.is_ready(at(17)));
    }

    #[test]
    fn a_pod_whose_probes_never_succeed_runs_and_is_not_ready() {
        let never = json!({"sim.joiner.dev/ready-seconds": "never"});
        let pod = pod(&json!({"containers": [{}]}), &never);
        let mut run = admit(&pod);
        assert_eq!(run.advance(&pod, at(2)), None);
        assert_eq!(run.stage, Stage::Running { since: at(2) });
        assert!(!run.is_ready(at(1_000_000)));
    }

    #[test]
    fn a_restarted_kubelet_finds_its_containers_again() {
        let mut pod = pod(
            &json!({"initContainers": [{"name": "a"}], "containers": [{"name": "c"}]}),
            &json!({"sim.joiner.dev/run-seconds": "60", "sim.joiner.dev/exit-code": "1"}),
        );
        let mut run = admit(&pod);
        run.advance(&pod, at(70));
        assert_eq!(run.restarts, 1);
        pod = crate::cluster::kubelet::report(&pod, &run, "10.0.0.9", at(70));
        let behaviour = Behaviour::read(&pod, &PodDefaults::default());
        let mut found = Run::resume(&pod, behaviour, run.address.clone(), at(80));
        assert_eq!(found.stage, run.stage);
        assert_eq!(
            (found.restarts, found.admitted),
            (run.restarts, run.admitted)
        );
        assert_eq!(found.init, run.init);
        assert_eq!(found.advance(&pod, at(80)), run.advance(&pod, at(80)));
    }

    #[test]
    fn a_pod_that_never_ran_ends_at_once() {
        let mut pod = pod(&json!({"containers": [{}]}), &json!({}));
        let mut run = admit(&pod);
        pod["metadata"]["deletionTimestamp"] = json!("x");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
        run.advance(&pod, at(1));
        assert!(run.is_stopped());
    }
}
