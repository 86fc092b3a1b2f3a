//! What a fresh cluster holds.

use serde_json::json;

use super::{state::State, write::WriteOptions};

impl State {
    /// Creates the namespaces and priority classes that every cluster has.
    pub(crate) fn bootstrap(&mut self) {
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            self.plant(
                "namespaces",
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            );
        }
        for (name, value) in [
            ("system-cluster-critical", 2_000_000_000),
            ("system-node-critical", 2_000_001_000),
        ] {
            let purpose = if name.contains("cluster") {
                "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
            } else {
                "Used for system critical pods that must not be moved from their current node."
            };
            self.plant(
                "priorityclasses.scheduling.k8s.io",
                json!({
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                    "description": purpose,
                }),
            );
        }
    }

    fn plant(&mut self, table: &str, object: serde_json::Value) {
        let options = WriteOptions {
            manager: Some("kube-apiserver".to_owned()),
            ..WriteOptions::default()
        };
        let planted = self
            .resource(table)
            .and_then(|resource| self.create(&resource, "", object, &options));
        if let Err(status) = planted {
            // Our own constants: a failure here is a mistake in this file, and tests see it.
            tracing::error!(%status, table, "a built-in object was refused");
        }
    }
}
