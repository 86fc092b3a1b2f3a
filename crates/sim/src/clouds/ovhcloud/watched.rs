//! The cloud as a world sees it: pools are groups of machines, and which machine is whose stands in the ledger.

use async_trait::async_trait;
use joiner_embedded::clock::Clock;
use joiner_providers::MachineId;
use joiner_providers::ovhcloud::pools::OWNER_MARK;
use serde_json::{Value, json};

use super::OvhCloud;
use super::state::{machine_id, node_id};
use crate::clouds::watched::{Observer, ReadRecord, Record, Watched};

/// Reads an entry as the provider writes it.
fn record(value: &Value) -> Option<Record> {
    Some(Record {
        group: value["pool"].as_str()?.to_owned(),
        machine: value["node"].as_str().map(machine_id),
        leaving: !value["leaving"].is_null(),
    })
}

#[async_trait]
impl Watched for OvhCloud {
    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn observe(&self, observer: Observer) {
        self.lock().observers.push(observer);
    }

    fn marked(&self) -> Vec<MachineId> {
        self.lock().state.running()
    }

    /// A hypervisor breaks, with the node on it: nobody is warned.
    fn interrupt(&self, id: &MachineId) {
        if let Some(node) = node_id(id) {
            self.lose_node(node);
        }
    }

    fn calm(&self) {
        let mut inner = self.lock();
        inner.options.quota_cores = None;
        for flavor in &mut inner.options.flavors {
            "available".clone_into(&mut flavor.state);
            flavor.stock = None;
        }
        inner.faults.clear();
        inner.state.mend();
        drop(inner);
        self.changed.notify_one();
    }

    async fn plant(&self, name: &str) {
        let (flavor, zone) = {
            let options = &self.lock().options;
            let flavor = options.flavors.first().map(|one| one.name.clone());
            (flavor, options.zones.first().cloned())
        };
        // As another cluster's Joiner would have made it.
        let body = json!({
            "name": format!("karpenter-{name}"), "flavorName": flavor, "desiredNodes": 1,
            "availabilityZones": zone.into_iter().collect::<Vec<_>>(),
            "template": {
                "metadata": {"labels": {"managed-by": "karpenter"}, "finalizers": [],
                    "annotations": {OWNER_MARK: "another-cluster/karpenter/default"}},
                "spec": {"taints": [], "unschedulable": false},
            },
        });
        OvhCloud::plant(self, &body);
    }

    fn records(&self) -> Option<ReadRecord> {
        Some(record)
    }

    async fn run(&self) {
        OvhCloud::run(self).await;
    }
}
