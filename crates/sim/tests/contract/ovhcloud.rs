//! OVHcloud Managed Kubernetes.

use std::sync::Arc;
use std::time::Duration;

use joiner_embedded::clock::Clock;
use joiner_providers::http::Http;
use joiner_providers::ovhcloud::pools::Mark;
use joiner_providers::ovhcloud::{Credentials, Ovh, OvhOptions};
use joiner_providers::rackspace::Clock as Now;
use joiner_providers::{MachineId, MemoryLedger, Provider};
use joiner_sim::clouds::ovhcloud::{OvhCloud, OvhCloudOptions};
use joiner_sim::clouds::rackspace::CallFault;
use serde_json::json;

use super::{Counting, Subject};

pub(crate) struct OnOvh {
    cloud: OvhCloud,
    provider: Ovh,
}

const KUBE: &str = "11111111-2222-3333-4444-555555555555";
const OVH_POOLS: &str = "/1.0/cloud/project/0123456789abcdef0123456789abcdef/kube/11111111-2222-3333-4444-555555555555/nodepool";

impl OnOvh {
    pub(crate) fn open() -> Box<dyn Subject> {
        let clock = Clock::virtual_time();
        let mut options = OvhCloudOptions::calm(1);
        options.pool_appears = Duration::ZERO;
        let keys = Credentials::Keys {
            application_key: options.application_key.as_str().into(),
            application_secret: options.application_secret.as_str().into(),
            consumer_key: options.consumer_key.as_str().into(),
        };
        let mark = Mark {
            cluster: "cluster-1".to_owned(),
            family: "karpenter".to_owned(),
            class: "default".to_owned(),
        };
        let ledger = Arc::new(MemoryLedger::default());
        let mut ovh = OvhOptions::new(&options.service_name, keys, mark, ledger).unwrap();
        ovh.kube_id = Some(options.kube_id.clone());
        let cloud = OvhCloud::new(options, clock.clone(), Arc::new(Counting::default()));
        let runner = cloud.clone();
        tokio::spawn(async move { runner.run().await });
        let now: Now = Arc::new(move || clock.now());
        let provider = Ovh::new(Http::new(cloud.router()), ovh, now).unwrap();
        Box::new(OnOvh { cloud, provider })
    }
}

impl Subject for OnOvh {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn truth(&self) -> usize {
        // What a pool is still to make is as good as made.
        let wanted = |pool: &serde_json::Value| pool["desiredNodes"].as_u64().unwrap_or(0);
        let wanted: u64 = self.cloud.pools().iter().map(wanted).sum();
        self.cloud
            .nodes()
            .len()
            .max(usize::try_from(wanted).unwrap())
    }

    fn lose_next_answer(&self) {
        for method in ["POST", "PUT", "DELETE"] {
            self.cloud
                .fail(&format!("{method} {OVH_POOLS}"), CallFault::Lost, 1);
        }
    }

    fn sell_out(&self) {
        self.cloud.change(|options| {
            for flavor in &mut options.flavors {
                "unavailable".clone_into(&mut flavor.state);
            }
        });
    }

    fn plant_foreign(&self) -> Option<MachineId> {
        let id = self.cloud.plant(
            &json!({"name": "karpenter-b3-8-theirs", "flavorName": "b3-8", "desiredNodes": 1,
            "availabilityZones": ["eu-west-par-a"],
            "template": {"metadata": {"labels": {"managed-by": "karpenter"}, "annotations":
                {"joiner.dev/owner": "another-cluster/karpenter/default"}, "finalizers": []},
                "spec": {"taints": [], "unschedulable": false}}}),
        );
        Some(MachineId(format!("ovhcloud://{KUBE}/node-{id}").into()))
    }

    fn break_list(&self) -> bool {
        false
    }
}
