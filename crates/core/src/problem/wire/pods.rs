//! Pods of the comparison form.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::Fault;
use super::validate;
use crate::name::{Labels, Name};
use crate::problem::{
    AffinityTerm, DaemonSet as CoreDaemonSet, Pod as CorePod, PodSpec, Policy,
    Spread as CoreSpread, WhenUnsatisfiable,
};
use crate::requirement::Expression;
use crate::resources::{CPU, MEMORY, NVIDIA_GPU, PODS, Resources};
use crate::selector::LabelSelector;
use crate::taints::Toleration;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Pod {
    name: Name,
    #[serde(default)]
    count: u32,
    #[serde(default)]
    labels: Labels,
    cpu_milli: u32,
    #[serde(rename = "memoryMiB")]
    memory_mib: u32,
    #[serde(default)]
    gpus: u32,
    #[serde(default)]
    node_selector: Labels,
    #[serde(default)]
    required_affinity: Vec<Expression>,
    #[serde(default)]
    tolerations: Vec<Toleration>,
    #[serde(default)]
    topology_spread: Vec<Spread>,
    #[serde(default, rename = "podAntiAffinity")]
    anti_affinity: Vec<Affinity>,
    #[serde(default, rename = "podAffinity")]
    affinity: Vec<Affinity>,
}

/// A list of pods, each of them lowered as it is read: in this form a pod takes several times the room.
pub(super) struct Pending {
    pub(super) pods: Result<Vec<CorePod>, Fault>,
    pub(super) shared: Pods,
}

impl Default for Pending {
    fn default() -> Self {
        Pending {
            pods: Ok(Vec::new()),
            shared: Pods::new(),
        }
    }
}

impl<'de> Deserialize<'de> for Pending {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Read;

        impl<'de> Visitor<'de> for Read {
            type Value = Pending;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of pods")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Pending, A::Error> {
                let Pending {
                    mut pods,
                    mut shared,
                } = Pending::default();
                // What is wrong in a pod is told once it is known that the file is whole.
                while let Some(pod) = list.next_element::<Pod>()? {
                    if let Ok(known) = &mut pods {
                        match shared.lower_at(known.len(), pod) {
                            Ok(pod) => known.push(pod),
                            Err(fault) => pods = Err(fault),
                        }
                    }
                }
                Ok(Pending { pods, shared })
            }
        }

        deserializer.deserialize_seq(Read)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spread {
    topology_key: Name,
    max_skew: i32,
    #[serde(default)]
    match_labels: Labels,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Affinity {
    topology_key: Name,
    #[serde(default)]
    match_labels: Labels,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DaemonSet {
    name: Name,
    cpu_milli: u32,
    #[serde(rename = "memoryMiB")]
    memory_mib: u32,
    #[serde(default)]
    node_selector: Labels,
    #[serde(default)]
    tolerations: Vec<Toleration>,
}

/// Everything lies in one namespace.
pub(super) const NAMESPACE: &str = "default";

/// Shares names of resources and equal specs, so that memory grows with what is different.
pub(super) struct Pods {
    cpu: Name,
    memory: Name,
    slots: Name,
    gpu: Name,
    namespace: Name,
    specs: BTreeSet<Arc<PodSpec>>,
    names: BTreeSet<Name>,
}

impl Pods {
    pub(super) fn new() -> Self {
        Pods {
            cpu: CPU.into(),
            memory: MEMORY.into(),
            slots: PODS.into(),
            gpu: NVIDIA_GPU.into(),
            namespace: NAMESPACE.into(),
            specs: BTreeSet::new(),
            names: BTreeSet::new(),
        }
    }

    /// Amounts by name; GPUs only where there are any.
    pub(super) fn resources(&self, cpu: u32, memory_mib: u32, slots: u32, gpus: u32) -> Resources {
        let gpus = (gpus > 0).then(|| (self.gpu.clone(), i64::from(gpus)));
        [
            (self.cpu.clone(), i64::from(cpu)),
            (self.memory.clone(), i64::from(memory_mib) << 20),
            (self.slots.clone(), i64::from(slots)),
        ]
        .into_iter()
        .chain(gpus)
        .collect()
    }

    pub(super) fn lower_all(&mut self, pods: Vec<Pod>) -> Result<Vec<CorePod>, Fault> {
        let pods = pods.into_iter().enumerate();
        pods.map(|(index, pod)| self.lower_at(index, pod)).collect()
    }

    fn lower_at(&mut self, index: usize, pod: Pod) -> Result<CorePod, Fault> {
        self.lower(pod)
            .map_err(|fault| fault.element(index).within("pods"))
    }

    fn lower(&mut self, pod: Pod) -> Result<CorePod, Fault> {
        validate::requirements(&pod.required_affinity)
            .map_err(|fault| fault.within("requiredAffinity"))?;
        validate::each("topologySpread", &pod.topology_spread, |spread| {
            validate::skew(spread.max_skew)
        })?;
        if !self.names.insert(pod.name.clone()) {
            return Err(Fault::new(
                format!("pod {:?} appears twice", pod.name),
                "give every pod a name of its own",
            )
            .within("name"));
        }
        let required_affinity = if pod.required_affinity.is_empty() {
            Vec::new()
        } else {
            vec![pod.required_affinity]
        };
        let spec = PodSpec {
            namespace: self.namespace.clone(),
            requests: self.resources(pod.cpu_milli, pod.memory_mib, 1, pod.gpus),
            labels: pod.labels,
            node_selector: pod.node_selector,
            required_affinity,
            tolerations: pod.tolerations,
            spread: pod.topology_spread.into_iter().map(spread).collect(),
            affinity: pod.affinity.into_iter().map(term).collect(),
            anti_affinity: pod.anti_affinity.into_iter().map(term).collect(),
            ..PodSpec::default()
        };
        Ok(CorePod {
            name: pod.name,
            count: pod.count.max(1),
            spec: self.share(spec),
            ..CorePod::default()
        })
    }

    fn share(&mut self, spec: PodSpec) -> Arc<PodSpec> {
        if let Some(known) = self.specs.get(&spec) {
            return known.clone();
        }
        let spec = Arc::new(spec);
        self.specs.insert(spec.clone());
        spec
    }

    pub(super) fn lower_daemon_set(&self, daemon_set: DaemonSet) -> CoreDaemonSet {
        let spec = PodSpec {
            namespace: self.namespace.clone(),
            requests: self.resources(daemon_set.cpu_milli, daemon_set.memory_mib, 1, 0),
            node_selector: daemon_set.node_selector,
            tolerations: daemon_set.tolerations,
            ..PodSpec::default()
        };
        CoreDaemonSet {
            name: daemon_set.name,
            spec: Arc::new(spec),
        }
    }
}

fn spread(spread: Spread) -> CoreSpread {
    CoreSpread {
        topology_key: spread.topology_key,
        max_skew: spread.max_skew,
        selector: Some(selector(spread.match_labels)),
        match_label_keys: Vec::new(),
        min_domains: None,
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        node_affinity_policy: Policy::Honor,
        node_taints_policy: Policy::Ignore,
    }
}

fn term(term: Affinity) -> AffinityTerm {
    AffinityTerm {
        topology_key: term.topology_key,
        selector: Some(selector(term.match_labels)),
        namespaces: Vec::new(),
        namespace_selector: None,
    }
}

fn selector(match_labels: Labels) -> LabelSelector {
    LabelSelector {
        match_labels,
        match_expressions: Vec::new(),
    }
}
