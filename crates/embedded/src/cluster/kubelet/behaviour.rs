//! How the containers of a pod behave: there is no image to run, so annotations on the pod say it.

use jiff::SignedDuration;
use serde_json::Value;

use crate::cluster::fields::Fields as _;

/// Seconds from being placed on a node to the first container running.
pub const START_SECONDS: &str = "sim.joiner.dev/start-seconds";
/// Seconds that each init container runs.
pub const INIT_SECONDS: &str = "sim.joiner.dev/init-seconds";
/// Seconds from running to ready, or `never`.
pub const READY_SECONDS: &str = "sim.joiner.dev/ready-seconds";
/// Seconds that the containers run before they end by themselves; for ever where it is not given.
pub const RUN_SECONDS: &str = "sim.joiner.dev/run-seconds";
/// The exit code of containers that end by themselves.
pub const EXIT_CODE: &str = "sim.joiner.dev/exit-code";
/// Seconds that the containers take to end when they are told to, after their preStop hooks.
pub const STOP_SECONDS: &str = "sim.joiner.dev/stop-seconds";

/// What pods do that say nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PodDefaults {
    /// From being placed on a node to the first container running.
    pub start: SignedDuration,
    /// How long each init container runs.
    pub init: SignedDuration,
    /// How long containers take to end when they are told to.
    pub stop: SignedDuration,
}

impl Default for PodDefaults {
    fn default() -> Self {
        Self {
            start: SignedDuration::from_secs(2),
            init: SignedDuration::from_secs(1),
            stop: SignedDuration::from_secs(1),
        }
    }
}

/// How one pod behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    pub(crate) start: SignedDuration,
    pub(crate) init: SignedDuration,
    /// From running to ready; `None` if it never is.
    pub(crate) ready: Option<SignedDuration>,
    pub(crate) run: Option<SignedDuration>,
    pub(crate) exit_code: i64,
    /// From the order to end to the end, preStop hooks included.
    pub(crate) stop: SignedDuration,
}

impl Behaviour {
    /// Reads a pod's annotations; without them its readiness probes say when it is ready.
    pub fn read(pod: &Value, defaults: &PodDefaults) -> Self {
        let seconds = |annotation| {
            let text = pod.annotation(annotation)?;
            let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds >= 0.0)?;
            SignedDuration::try_from_secs_f64(seconds).ok()
        };
        let probed = || {
            let delays = pod
                .items(&["spec", "containers"])
                .iter()
                .filter_map(|container| container.int(&["readinessProbe", "initialDelaySeconds"]));
            SignedDuration::from_secs(delays.max().unwrap_or_default())
        };
        let ready = match pod.annotation(READY_SECONDS) {
            Some("never") => None,
            _ => Some(seconds(READY_SECONDS).unwrap_or_else(probed)),
        };
        let stop = seconds(STOP_SECONDS).unwrap_or(defaults.stop);
        Self {
            start: seconds(START_SECONDS).unwrap_or(defaults.start),
            init: seconds(INIT_SECONDS).unwrap_or(defaults.init),
            ready,
            run: seconds(RUN_SECONDS),
            exit_code: pod
                .annotation(EXIT_CODE)
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            stop: stop.saturating_add(before_stop(pod)),
        }
    }
}

/// How long the preStop hooks of a pod take, which run at the same time: those that say so.
fn before_stop(pod: &Value) -> SignedDuration {
    let hooks = pod.items(&["spec", "containers"]).iter();
    let seconds = hooks.filter_map(|container| {
        let hook = &container["lifecycle"]["preStop"];
        hook["sleep"]["seconds"].as_i64().or_else(|| slept(hook))
    });
    SignedDuration::from_secs(seconds.max().unwrap_or_default().max(0))
}

/// The seconds of a command that only sleeps: `sleep 5`, alone or in a shell.
fn slept(hook: &Value) -> Option<i64> {
    let command = hook["exec"]["command"].as_array()?;
    let text: Vec<&str> = command.iter().filter_map(Value::as_str).collect();
    let text = text.join(" ");
    let mut words = text.split_whitespace();
    words.by_ref().find(|word| *word == "sleep")?;
    words.next()?.trim_end_matches('s').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_takes_as_long_to_end_as_its_slowest_hook_and_then_its_containers() {
        let hooks = |hooks: &[Value]| {
            let containers = hooks
                .iter()
                .map(|hook| json!({"lifecycle": {"preStop": hook}}));
            let pod = json!({"spec": {"containers": containers.collect::<Vec<_>>()}});
            Behaviour::read(&pod, &PodDefaults::default())
                .stop
                .as_secs()
        };
        let command = |words: &[&str]| json!({"exec": {"command": words}});
        assert_eq!(hooks(&[json!({"httpGet": {"port": 80}})]), 1);
        assert_eq!(
            hooks(&[json!({"sleep": {"seconds": 5}}), command(&["sleep", "20"])]),
            21
        );
        assert_eq!(hooks(&[command(&["/bin/sh", "-c", "sleep 300"])]), 301);
    }
}
