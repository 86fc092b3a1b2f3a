//! Objects of simulated worlds, as JSON.

use serde_json::{Map, Value, json};

/// A NodePool of a simulated cloud.
pub(crate) fn pool(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "nodeClassRef": {"group": "joiner.dev", "kind": "SimNodeClass", "name": class},
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
    /// Each pod wants a node without another of them.
    pub(crate) apart: bool,
    /// Pods are to be spread over zones, as far as that goes.
    pub(crate) spread: bool,
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
            apart: false,
            spread: false,
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
        if self.apart {
            spec["affinity"] = json!({"podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution":
                    [{"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}],
            }});
        }
        if self.spread {
            spec["topologySpreadConstraints"] = json!([{
                "topologyKey": "topology.kubernetes.io/zone", "maxSkew": 1,
                "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": labels,
            }]);
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
