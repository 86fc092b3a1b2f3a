//! Rackspace Spot.

use std::sync::Arc;

use joiner_embedded::clock::Clock;
use joiner_providers::http::Http;
use joiner_providers::rackspace::{Clock as Now, Rackspace, RackspaceOptions};
use joiner_providers::{MachineId, Provider};
use joiner_sim::clouds::rackspace::{CallFault, RackspaceCloud, RackspaceCloudOptions};
use serde_json::json;

use super::{Counting, Subject};

pub(crate) struct OnRackspace {
    cloud: RackspaceCloud,
    provider: Rackspace,
}

const POOLS: &str = "/apis/ngpc.rxt.io/v1/namespaces/org-abc123/spotnodepools";

impl OnRackspace {
    pub(crate) fn open() -> Box<dyn Subject> {
        let clock = Clock::virtual_time();
        let mut options = RackspaceCloudOptions::calm(1);
        // Small pages, so that every list is more than one.
        options.page_limit = Some(1);
        let cloud = RackspaceCloud::new(options, clock.clone(), Arc::new(Counting::default()));
        let runner = cloud.clone();
        tokio::spawn(async move { runner.run().await });
        let options = RackspaceOptions::new("cluster-1", "demo", "sim-refresh-token".into());
        let now: Now = Arc::new(move || clock.now());
        let provider = Rackspace::new(Http::new(cloud.router()), options.unwrap(), now).unwrap();
        Box::new(OnRackspace { cloud, provider })
    }
}

impl Subject for OnRackspace {
    fn provider(&self) -> &dyn Provider {
        &self.provider
    }

    fn truth(&self) -> usize {
        self.cloud.pools().len()
    }

    fn lose_next_answer(&self) {
        for method in ["POST", "DELETE"] {
            self.cloud
                .fail(&format!("{method} {POOLS}"), CallFault::Lost, 1);
        }
    }

    fn sell_out(&self) {
        self.cloud.change(|options| {
            for class in &mut options.classes {
                class.availability = String::from("unavailable");
            }
        });
    }

    fn plant_foreign(&self) -> Option<MachineId> {
        let name = "00000000-0000-4000-8000-00000000beef";
        let spec = json!({"serverClass": "gp.vs1.large-ord", "desired": 1, "bidPrice": "0.02", "cloudSpace": "demo",
            "customLabels": {"joiner.dev/cluster": "another-cluster", "joiner.dev/machine": name}});
        assert!(self.cloud.plant(name, &spec));
        Some(MachineId(format!("rackspace://demo/spot/{name}").into()))
    }

    fn break_list(&self) -> bool {
        let second = format!("GET {POOLS}?limit=500&continue=");
        self.cloud.fail(&second, CallFault::Refused(500, None), 1);
        true
    }
}
