//! Mock mode: the simulated Rackspace Spot in this process. Its servers are simulated kubelets that join the real
//! cluster, and what it has sold stands in a ConfigMap, so that servers outlive the process as real ones would.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use joiner_controllers::classes::rackspace::RackspaceDefaults;
use joiner_controllers::edge::clients::Clients;
use joiner_controllers::edge::tasks::Tasks;
use joiner_embedded::clock::Clock;
use joiner_providers::http::Http;
use joiner_sim::clouds::rackspace::{Auctions, RackspaceCloud, RackspaceCloudOptions};
use joiner_sim::clouds::sim::Rack;
use serde_json::Value;

use crate::classes::memory::{self, Played};

/// The cloudspace of the simulated cloud.
pub(crate) const MOCK_CLOUDSPACE: &str = "mock";
/// Its refresh token: it opens nothing else.
const TOKEN: &str = "mock-refresh-token";

/// The simulated Rackspace Spot.
#[derive(Clone)]
pub(crate) struct MockRackspace {
    cloud: RackspaceCloud,
}

/// The region of the cloudspace: one that the documented SpotNodePool allows.
const REGION: &str = "us-central-dfw-1";

/// Everything of the real one, only sooner: half an hour is long to wait for a server that does not exist.
fn options() -> RackspaceCloudOptions {
    let mut calm = RackspaceCloudOptions::calm(1);
    for class in &mut calm.classes {
        if class.region == calm.region {
            REGION.clone_into(&mut class.region);
            class.name = class.name.replace("-ord", "-dfw");
        }
    }
    REGION.clone_into(&mut calm.region);
    RackspaceCloudOptions {
        refresh_token: TOKEN.to_owned(),
        cloudspace: MOCK_CLOUDSPACE.to_owned(),
        auctions: Auctions {
            seed: 1,
            swing_percent: 30,
            every: Duration::from_mins(5),
        },
        decides_after: Duration::from_secs(2),
        arrives_min: Duration::from_secs(5),
        arrives_max: Duration::from_secs(20),
        stops_after: Duration::from_secs(2),
        ..calm
    }
}

impl MockRackspace {
    /// Starts it. It rests while another process leads.
    pub(crate) fn start(
        clients: &Clients,
        namespace: &str,
        rack: Arc<dyn Rack>,
        tasks: &Tasks,
    ) -> Self {
        let cloud = RackspaceCloud::new(options(), Clock::wall(), rack);
        memory::play(cloud.clone(), clients, namespace, tasks);
        MockRackspace { cloud }
    }

    /// The same defaults with the simulated cloud in place of the real one.
    pub(crate) fn behind(&self, defaults: RackspaceDefaults) -> RackspaceDefaults {
        RackspaceDefaults {
            token: Some(TOKEN.into()),
            cloudspace: Some(MOCK_CLOUDSPACE.to_owned()),
            organization: None,
            http: Http::new(self.cloud.router()),
            ..defaults
        }
    }
}

#[async_trait]
impl Played for RackspaceCloud {
    const MEMORY: &'static str = "joiner-mock-rackspace";

    fn memory(&self) -> Value {
        RackspaceCloud::memory(self)
    }

    fn restore(&self, known: &Value) -> usize {
        RackspaceCloud::restore(self, known)
    }

    fn rest(&self) {
        RackspaceCloud::rest(self);
    }

    async fn play(&self) {
        self.run().await;
    }
}
