//! What a pod asks for and what a node has, in integers.
//!
//! kubernetes: component-helpers `resource/helpers.go` (`PodRequests`): the larger of the running containers with their
//! sidecars and of each init step, pod-level resources instead where they are set, plus the overhead.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::cluster::fields::Fields as _;
use crate::cluster::quantity;

/// An amount of each resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    pub(crate) cpu_millis: i64,
    pub(crate) memory_bytes: i64,
    pub(crate) ephemeral_bytes: i64,
    /// Number of pods; only meaningful for what a node has.
    pub(crate) pods: i64,
    /// Extended resources, huge pages and attachable volumes.
    pub(crate) others: BTreeMap<Arc<str>, i64>,
}

impl Resources {
    /// Reads a resource list (`requests`, `allocatable`).
    pub(crate) fn read(list: &Value) -> Self {
        let mut out = Self::default();
        for (name, quantity) in list.as_object().into_iter().flatten() {
            match name.as_str() {
                "cpu" => out.cpu_millis = quantity::millis(quantity),
                "memory" => out.memory_bytes = quantity::units(quantity),
                "ephemeral-storage" => out.ephemeral_bytes = quantity::units(quantity),
                "pods" => out.pods = quantity::units(quantity),
                _ => {
                    out.others
                        .insert(name.as_str().into(), quantity::units(quantity));
                }
            }
        }
        out
    }

    /// Adds another amount.
    pub(crate) fn add(&mut self, other: &Self) {
        self.cpu_millis = self.cpu_millis.saturating_add(other.cpu_millis);
        self.memory_bytes = self.memory_bytes.saturating_add(other.memory_bytes);
        self.ephemeral_bytes = self.ephemeral_bytes.saturating_add(other.ephemeral_bytes);
        for (name, amount) in &other.others {
            let held = self.others.entry(Arc::clone(name)).or_default();
            *held = held.saturating_add(*amount);
        }
    }

    /// Takes another amount away again.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.cpu_millis -= other.cpu_millis;
        self.memory_bytes -= other.memory_bytes;
        self.ephemeral_bytes -= other.ephemeral_bytes;
        for (name, amount) in &other.others {
            if let Some(held) = self.others.get_mut(name) {
                *held -= amount;
            }
        }
    }

    /// Raises each amount to the other's where that is larger.
    fn raise_to(&mut self, other: &Self) {
        self.cpu_millis = self.cpu_millis.max(other.cpu_millis);
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
        self.ephemeral_bytes = self.ephemeral_bytes.max(other.ephemeral_bytes);
        for (name, amount) in &other.others {
            let held = self.others.entry(Arc::clone(name)).or_default();
            *held = (*held).max(*amount);
        }
    }

    /// Whether nothing at all is asked for.
    fn is_zero(&self) -> bool {
        self.cpu_millis == 0
            && self.memory_bytes == 0
            && self.ephemeral_bytes == 0
            && self.others.is_empty()
    }

    /// What does not fit into `free`, named as the scheduler names it; `total` tells what could never fit.
    pub(crate) fn shortfalls(&self, total: &Self, used: &Self, pods: usize) -> Vec<Shortfall> {
        let mut out = Vec::new();
        if i64::try_from(pods).unwrap_or(i64::MAX) + 1 > total.pods {
            out.push(Shortfall {
                reason: "Too many pods".into(),
                resolvable: true,
            });
        }
        if self.is_zero() {
            return out;
        }
        let mut check = |name: &str, asked: i64, total: i64, used: i64| {
            if asked > 0 && asked > total - used {
                out.push(Shortfall {
                    reason: format!("Insufficient {name}").into(),
                    resolvable: asked <= total,
                });
            }
        };
        check("cpu", self.cpu_millis, total.cpu_millis, used.cpu_millis);
        check(
            "memory",
            self.memory_bytes,
            total.memory_bytes,
            used.memory_bytes,
        );
        check(
            "ephemeral-storage",
            self.ephemeral_bytes,
            total.ephemeral_bytes,
            used.ephemeral_bytes,
        );
        for (name, asked) in &self.others {
            let held = |from: &Self| from.others.get(name).copied().unwrap_or_default();
            check(name, *asked, held(total), held(used));
        }
        out
    }

    /// Whether it fits; the quick form of `shortfalls`.
    pub(crate) fn fit(&self, total: &Self, used: &Self, pods: usize) -> bool {
        let enough = |asked: i64, total: i64, used: i64| asked <= 0 || asked <= total - used;
        i64::try_from(pods).unwrap_or(i64::MAX) < total.pods
            && enough(self.cpu_millis, total.cpu_millis, used.cpu_millis)
            && enough(self.memory_bytes, total.memory_bytes, used.memory_bytes)
            && enough(
                self.ephemeral_bytes,
                total.ephemeral_bytes,
                used.ephemeral_bytes,
            )
            && self.others.iter().all(|(name, asked)| {
                let held = |from: &Self| from.others.get(name).copied().unwrap_or_default();
                enough(*asked, held(total), held(used))
            })
    }
}

/// One reason why a pod does not fit a node's resources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shortfall {
    pub(crate) reason: Arc<str>,
    /// Whether taking other pods away could help: the node as a whole is large enough.
    pub(crate) resolvable: bool,
}

/// What a pod occupies on the node that runs it.
pub(crate) fn pod_requests(pod: &Value) -> Resources {
    let spec = pod.at(&["spec"]);
    let mut running = Resources::default();
    for container in spec.items(&["containers"]) {
        running.add(&Resources::read(container.at(&["resources", "requests"])));
    }
    // Each init step runs beside the sidecars that were started before it.
    let mut sidecars = Resources::default();
    let mut largest_step = Resources::default();
    for container in spec.items(&["initContainers"]) {
        let asked = Resources::read(container.at(&["resources", "requests"]));
        if container.text(&["restartPolicy"]) == "Always" {
            running.add(&asked);
            sidecars.add(&asked);
            largest_step.raise_to(&sidecars);
        } else {
            let mut step = sidecars.clone();
            step.add(&asked);
            largest_step.raise_to(&step);
        }
    }
    running.raise_to(&largest_step);
    let whole_pod = spec.at(&["resources", "requests"]);
    for (name, quantity) in whole_pod.as_object().into_iter().flatten() {
        match name.as_str() {
            "cpu" => running.cpu_millis = quantity::millis(quantity),
            "memory" => running.memory_bytes = quantity::units(quantity),
            name if name.starts_with("hugepages-") => {
                running
                    .others
                    .insert(name.into(), quantity::units(quantity));
            }
            _ => {}
        }
    }
    running.add(&Resources::read(spec.at(&["overhead"])));
    running.pods = 0;
    running
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(cpu: &str, memory: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu, "memory": memory}}})
    }

    #[test]
    fn init_containers_count_as_the_largest_step_and_sidecars_stay() {
        let mut sidecar = container("200m", "100");
        sidecar["restartPolicy"] = json!("Always");
        let pod = json!({"spec": {
            "initContainers": [container("100m", "10"), sidecar, container("2", "50")],
            "containers": [container("500m", "1000"), container("500m", "1000")],
            "overhead": {"cpu": "50m"},
        }});
        let asked = pod_requests(&pod);
        // The second init container runs beside the sidecar: 2000 + 200, more than 1000 + 200 later.
        assert_eq!(asked.cpu_millis, 2250);
        assert_eq!(asked.memory_bytes, 2100);
    }

    #[test]
    fn pod_level_requests_replace_what_containers_sum_to() {
        let pod = json!({"spec": {
            "resources": {"requests": {"cpu": "3"}},
            "containers": [container("500m", "1000")],
        }});
        let asked = pod_requests(&pod);
        assert_eq!((asked.cpu_millis, asked.memory_bytes), (3000, 1000));
    }

    #[test]
    fn shortfalls_are_named_and_say_whether_preemption_could_help() {
        let asked = Resources::read(&json!({"cpu": "2", "memory": "10", "example.com/gpu": "1"}));
        let total = Resources::read(&json!({"cpu": "4", "memory": "5", "pods": "10"}));
        let used = Resources::read(&json!({"cpu": "3"}));
        let found = asked.shortfalls(&total, &used, 10);
        let named: Vec<_> = found
            .iter()
            .map(|one| (&*one.reason, one.resolvable))
            .collect();
        assert_eq!(
            named,
            [
                ("Too many pods", true),
                ("Insufficient cpu", true),
                ("Insufficient memory", false),
                ("Insufficient example.com/gpu", false),
            ]
        );
        assert!(!asked.fit(&total, &used, 10));
        assert!(Resources::default().fit(&total, &used, 9));
    }
}
