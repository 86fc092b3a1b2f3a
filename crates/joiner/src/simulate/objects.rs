//! Objects of simulated worlds, as JSON.

use joiner_controllers::dialect::ClassKind;
use serde_json::{Map, Value, json};

/// A NodePool of a class.
pub(crate) fn pool(name: &str, kind: &ClassKind, class: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": kind.group, "kind": kind.kind, "name": class},
            "requirements": [],
        }}},
    })
}

/// A NodeClaim that nobody asked Joiner for.
pub(crate) fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name},
        "spec": {
            "nodeClassRef": {"group": "joiner.dev", "kind": "SimNodeClass", "name": class},
            "requirements": [],
        },
    })
}

/// A disruption budget for the pods of an app.
pub(crate) fn budget(app: &str, mut spec: Value) -> Value {
    spec["selector"] = json!({"matchLabels": {"app": app}});
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": spec,
    })
}

/// A daemon set that runs everywhere.
pub(crate) fn daemon(name: &str, cpu: &str, memory: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "main", "image": "none",
                        "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
                },
            },
        },
    })
}

/// A Job whose pods run for a while.
pub(crate) fn job(name: &str, completions: u32, seconds: u32) -> Value {
    let mut template = Workload {
        cpu_millis: 400,
        ..Workload::named(name)
    }
    .template();
    template["metadata"]["annotations"]["sim.joiner.dev/run-seconds"] = json!(seconds.to_string());
    template["spec"]["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "completions": completions, "parallelism": completions.min(3), "backoffLimit": 100,
            "template": template,
        },
    })
}

/// The label of a node's zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// The label of a node's own name.
pub(crate) const HOST: &str = "kubernetes.io/hostname";

/// The class of volumes that are made in the zone of the first pod that uses them.
pub(crate) const DISKS: &str = "disks";

/// That class.
pub(crate) fn disks() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": DISKS},
        "provisioner": "disks.sim.joiner.dev", "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// A claim of a volume of that class.
pub(crate) fn disk(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": DISKS,
            "resources": {"requests": {"storage": "10Gi"}}},
    })
}

/// A deployment to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Workload {
    /// Name of the deployment, and value of its pods' label `app`.
    pub(crate) name: String,
    /// What each pod asks for, in thousandths of a core.
    pub(crate) cpu_millis: u32,
    /// What each pod asks for, in MiB.
    pub(crate) memory_mib: u32,
    /// Labels that its nodes must have.
    pub(crate) selector: Map<String, Value>,
    /// Taints that it does not mind.
    pub(crate) tolerations: Vec<Value>,
    /// Each pod must have a value of this topology label that no other of them has.
    pub(crate) apart: Option<&'static str>,
    /// Pods are to be spread over zones, as far as that goes.
    pub(crate) spread: bool,
    /// Pods must be spread over the values of this topology label.
    pub(crate) even: Option<&'static str>,
    /// Pods must be in a zone with pods of this app.
    pub(crate) near: Option<String>,
    /// Expressions that the labels of its nodes must meet.
    pub(crate) wants: Vec<Value>,
    /// The claim of the volume that its pods share.
    pub(crate) volume: Option<String>,
    /// Pods must not be disrupted.
    pub(crate) do_not_disrupt: bool,
    /// How long its pods take to end.
    pub(crate) stop_seconds: u32,
    /// Which version of it runs.
    pub(crate) version: u32,
}

impl Workload {
    /// A small one that asks for nothing else.
    pub(crate) fn named(name: &str) -> Self {
        Workload {
            name: name.to_owned(),
            cpu_millis: 100,
            memory_mib: 128,
            selector: Map::new(),
            tolerations: Vec::new(),
            apart: None,
            spread: false,
            even: None,
            near: None,
            wants: Vec::new(),
            volume: None,
            do_not_disrupt: false,
            stop_seconds: 1,
            version: 1,
        }
    }

    /// Runs only where a label has this value.
    pub(crate) fn selects(&mut self, key: &str, value: &str) {
        self.selector.insert(key.to_owned(), json!(value));
    }

    /// Does not mind a taint.
    pub(crate) fn tolerates(&mut self, key: &str, value: &str) {
        let toleration = json!({"key": key, "operator": "Equal", "value": value});
        self.tolerations.push(toleration);
    }

    /// The template of its pods.
    pub(crate) fn template(&self) -> Value {
        let labels = json!({"matchLabels": {"app": self.name}});
        let mut spec = json!({
            "containers": [{
                "name": "main", "image": format!("example.com/{}:{}", self.name, self.version),
                "resources": {"requests": {
                    "cpu": format!("{}m", self.cpu_millis), "memory": format!("{}Mi", self.memory_mib),
                }},
            }],
        });
        if !self.selector.is_empty() {
            spec["nodeSelector"] = Value::Object(self.selector.clone());
        }
        if !self.tolerations.is_empty() {
            spec["tolerations"] = json!(self.tolerations);
        }
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        if let Some(key) = self.apart {
            let term = json!({"topologyKey": key, "labelSelector": labels});
            spec["affinity"]["podAntiAffinity"][required] = json!([term]);
        }
        if let Some(app) = &self.near {
            let of = json!({"matchLabels": {"app": app}});
            let term = json!({"topologyKey": ZONE, "labelSelector": of});
            spec["affinity"]["podAffinity"][required] = json!([term]);
        }
        if !self.wants.is_empty() {
            let term = json!({"matchExpressions": self.wants});
            spec["affinity"]["nodeAffinity"][required] = json!({"nodeSelectorTerms": [term]});
        }
        let spread = |key: &str, unsatisfiable: &str| json!({"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": unsatisfiable, "labelSelector": labels});
        let soft = self.spread.then(|| spread(ZONE, "ScheduleAnyway"));
        let hard = self.even.map(|key| spread(key, "DoNotSchedule"));
        let spreads: Vec<Value> = soft.into_iter().chain(hard).collect();
        if !spreads.is_empty() {
            spec["topologySpreadConstraints"] = json!(spreads);
        }
        if let Some(claim) = &self.volume {
            spec["volumes"] =
                json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
        }
        let mut annotations = json!({"sim.joiner.dev/stop-seconds": self.stop_seconds.to_string()});
        if self.do_not_disrupt {
            annotations["karpenter.sh/do-not-disrupt"] = json!("true");
        }
        spec["terminationGracePeriodSeconds"] = json!(self.stop_seconds.max(30));
        json!({"metadata": {"labels": {"app": self.name}, "annotations": annotations}, "spec": spec})
    }

    /// The deployment.
    pub(crate) fn deployment(&self, replicas: u32) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": self.name}},
                "template": self.template(),
            },
        })
    }
}
