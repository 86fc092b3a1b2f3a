//! What a pod takes of a node, from what its containers ask for.
//!
//! kubernetes: k8s.io/component-helpers, resource/helpers.go, `PodRequests`
//!
//! ```text
//! containers + sidecars ──┐
//!                         ├─ the larger, by resource ─► pod-level values replace ─► + overhead, one slot
//! init containers, each ──┘
//! with the sidecars before it
//! ```

use crate::resources::{CPU, MEMORY, PODS, Resources};

/// What a container asks for, and what it was last given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Requests of the spec.
    pub requests: Resources,
    /// Requests in force according to the status, of a container that runs.
    pub actual: Option<Resources>,
    /// What the kubelet has set aside, of a container that runs.
    pub allocated: Option<Resources>,
}

/// A container that runs before the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitContainer {
    /// Its requests.
    pub container: Container,
    /// It goes on running beside the others (`restartPolicy: Always`).
    pub sidecar: bool,
}

/// How far a resize in place has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resize {
    /// None is asked for, or it can be done.
    #[default]
    Feasible,
    /// The node cannot do it: what runs counts, not what is asked for.
    Infeasible,
}

/// Everything that decides what a pod takes of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodResources {
    /// Containers.
    pub containers: Vec<Container>,
    /// Init containers, in order.
    pub init_containers: Vec<InitContainer>,
    /// Requests of the pod as a whole; they replace those of its containers for cpu, memory and huge pages.
    pub pod_level: Option<Resources>,
    /// What its runtime class adds.
    pub overhead: Resources,
    /// How far a resize in place has come.
    pub resize: Resize,
}

/// What a pod takes of a node, one slot included.
pub fn pod_requests(pod: &PodResources) -> Resources {
    let mut running = Resources::new();
    for container in &pod.containers {
        running.add(&effective(container, pod.resize));
    }
    let mut sidecars = Resources::new();
    let mut starting = Resources::new();
    for init in &pod.init_containers {
        if init.sidecar {
            sidecars.add(&effective(&init.container, pod.resize));
            starting.raise_to(&sidecars);
        } else {
            // Init containers cannot be resized, so their status says nothing new.
            let mut together = sidecars.clone();
            together.add(&init.container.requests);
            starting.raise_to(&together);
        }
    }
    let mut total = running;
    total.add(&sidecars);
    total.raise_to(&starting);
    if let Some(pod_level) = &pod.pod_level {
        for (name, amount) in pod_level.iter().filter(|(name, _)| pod_level_applies(name)) {
            total.set(name, amount);
        }
    }
    total.add(&pod.overhead);
    total.set(PODS, 1);
    total
}

/// Only these can be asked for by a pod as a whole.
fn pod_level_applies(resource: &str) -> bool {
    resource == CPU || resource == MEMORY || resource.starts_with("hugepages-")
}

fn effective(container: &Container, resize: Resize) -> Resources {
    let given = [&container.actual, &container.allocated]
        .into_iter()
        .flatten();
    if container.actual.is_none() {
        return container.requests.clone();
    }
    let mut most = match resize {
        Resize::Feasible => container.requests.clone(),
        Resize::Infeasible => Resources::new(),
    };
    given.for_each(|amounts| most.raise_to(amounts));
    most
}

/// Requests of a daemon set's template when none of its pods runs: what is not requested is taken from the limits.
///
/// karpenter: pkg/utils/daemonset/daemonset.go
pub fn with_limits_as_requests(requests: &Resources, limits: &Resources) -> Resources {
    let mut filled = requests.clone();
    for (name, amount) in limits.iter() {
        if !requests.contains(name) {
            filled.set(name, amount);
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(millis: i64) -> Resources {
        Resources::new().with(CPU, millis)
    }

    fn container(millis: i64) -> Container {
        Container {
            requests: cpu(millis),
            ..Container::default()
        }
    }

    fn init(millis: i64, sidecar: bool) -> InitContainer {
        InitContainer {
            container: container(millis),
            sidecar,
        }
    }

    /// Containers, init containers (sidecars marked), and the cpu that the pod takes.
    #[test]
    fn the_larger_of_starting_and_running_counts() {
        for (containers, inits, total) in [
            (vec![100, 200], vec![], 300),
            (vec![100], vec![(500, false)], 500),
            (vec![300, 300], vec![(500, false)], 600),
            // A sidecar runs beside the containers.
            (vec![100], vec![(50, true)], 150),
            // And beside every init container after it, not before it.
            (vec![100], vec![(50, true), (400, false)], 450),
            (vec![100], vec![(400, false), (50, true)], 400),
            (vec![100], vec![(50, true), (60, true)], 210),
            (
                vec![10],
                vec![(50, true), (200, false), (60, true), (170, false)],
                280,
            ),
        ] {
            let pod = PodResources {
                containers: containers.iter().map(|millis| container(*millis)).collect(),
                init_containers: inits
                    .iter()
                    .map(|(millis, sidecar)| init(*millis, *sidecar))
                    .collect(),
                ..PodResources::default()
            };
            let asked = pod_requests(&pod);
            assert_eq!(asked.get(CPU), total, "{containers:?} {inits:?}");
            assert_eq!(asked.get(PODS), 1);
        }
    }

    #[test]
    fn resources_are_compared_one_by_one() {
        let pod = PodResources {
            containers: vec![Container {
                requests: cpu(100).with(MEMORY, 1000),
                ..Container::default()
            }],
            init_containers: vec![InitContainer {
                container: Container {
                    requests: cpu(500).with("example.com/fpga", 1),
                    ..Container::default()
                },
                sidecar: false,
            }],
            ..PodResources::default()
        };
        let expected = cpu(500)
            .with(MEMORY, 1000)
            .with("example.com/fpga", 1)
            .with(PODS, 1);
        assert_eq!(pod_requests(&pod), expected);
    }

    #[test]
    fn the_pod_as_a_whole_speaks_for_cpu_memory_and_huge_pages_only() {
        let pod = PodResources {
            containers: vec![Container {
                requests: cpu(100).with("example.com/fpga", 1),
                ..Container::default()
            }],
            pod_level: Some(cpu(50).with("hugepages-2Mi", 7).with("example.com/fpga", 9)),
            overhead: cpu(5).with(MEMORY, 3),
            ..PodResources::default()
        };
        let expected = cpu(55)
            .with(MEMORY, 3)
            .with("hugepages-2Mi", 7)
            .with("example.com/fpga", 1)
            .with(PODS, 1);
        assert_eq!(pod_requests(&pod), expected);
    }

    #[test]
    fn a_container_that_runs_counts_with_what_it_was_given() {
        let running = Container {
            requests: cpu(100),
            actual: Some(cpu(300)),
            allocated: Some(cpu(200)),
        };
        let mut pod = PodResources {
            containers: vec![running.clone()],
            ..PodResources::default()
        };
        assert_eq!(pod_requests(&pod).get(CPU), 300);
        pod.containers[0].requests = cpu(400);
        assert_eq!(pod_requests(&pod).get(CPU), 400);
        pod.resize = Resize::Infeasible;
        assert_eq!(pod_requests(&pod).get(CPU), 300);
        // What an init container was given does not matter, unless it goes on running.
        let with = |sidecar| PodResources {
            init_containers: vec![InitContainer {
                container: running.clone(),
                sidecar,
            }],
            ..PodResources::default()
        };
        assert_eq!(pod_requests(&with(false)).get(CPU), 100);
        assert_eq!(pod_requests(&with(true)).get(CPU), 300);
    }

    #[test]
    fn limits_stand_in_for_requests_that_a_daemon_set_leaves_out() {
        let limits = cpu(500).with(MEMORY, 64);
        assert_eq!(
            with_limits_as_requests(&cpu(100), &limits),
            cpu(100).with(MEMORY, 64)
        );
    }
}
