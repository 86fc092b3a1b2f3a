//! How the containers of a pod behave: there is no image to run, so annotations on the pod say it.

use jiff::SignedDuration;
use serde_json::Value;

use crate::cluster::fields::Fields as _;

/// Seconds from being placed on a node to the first container running.
pub const START_SECONDS: &str = "sim.joiner.dev/start-seconds";
/// Seconds that each init container runs.
pub const INIT_SECONDS: &str = "sim.joiner.dev/init-seconds";
/// Seconds from running to ready.
pub const READY_SECONDS: &str = "sim.joiner.dev/ready-seconds";
/// Seconds that the containers run before they end by themselves; for ever where it is not given.
pub const RUN_SECONDS: &str = "sim.joiner.dev/run-seconds";
/// The exit code of containers that end by themselves.
pub const EXIT_CODE: &str = "sim.joiner.dev/exit-code";
/// Seconds that the containers take to end when they are told to.
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
    pub(crate) ready: SignedDuration,
    pub(crate) run: Option<SignedDuration>,
    pub(crate) exit_code: i64,
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
        Self {
            start: seconds(START_SECONDS).unwrap_or(defaults.start),
            init: seconds(INIT_SECONDS).unwrap_or(defaults.init),
            ready: seconds(READY_SECONDS).unwrap_or_else(probed),
            run: seconds(RUN_SECONDS),
            exit_code: pod
                .annotation(EXIT_CODE)
                .and_then(|text| text.parse().ok())
                .unwrap_or_default(),
            stop: seconds(STOP_SECONDS).unwrap_or(defaults.stop),
        }
    }
}
