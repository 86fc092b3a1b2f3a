//! Mock mode: the simulated OVHcloud in this process. Its nodes are simulated kubelets that join the real cluster.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use joiner_controllers::classes::ovhcloud::OvhDefaults;
use joiner_controllers::edge::clients::Clients;
use joiner_controllers::edge::tasks::Tasks;
use joiner_embedded::clock::Clock;
use joiner_providers::http::Http;
use joiner_providers::ovhcloud::Credentials;
use joiner_sim::clouds::ovhcloud::{OvhCloud, OvhCloudOptions};
use joiner_sim::clouds::sim::Rack;
use serde_json::Value;

use crate::classes::memory::{self, Played};

/// The simulated OVHcloud.
pub(crate) struct MockOvh {
    cloud: OvhCloud,
}

/// Everything of the real one, only sooner. Every project, cluster and key is accepted as it stands in the class.
fn options() -> OvhCloudOptions {
    OvhCloudOptions {
        ready_min: Duration::from_secs(2),
        ready_max: Duration::from_secs(10),
        ..OvhCloudOptions::calm(1).quick()
    }
}

impl MockOvh {
    /// Starts it. It rests while another process leads.
    pub(crate) fn start(
        clients: &Clients,
        namespace: &str,
        rack: Arc<dyn Rack>,
        tasks: &Tasks,
    ) -> Self {
        let cloud = OvhCloud::new(options(), Clock::wall(), rack).open();
        memory::play(cloud.clone(), clients, namespace, tasks);
        MockOvh { cloud }
    }

    /// The same defaults with the simulated cloud in place of the real one.
    pub(crate) fn behind(&self, defaults: OvhDefaults) -> OvhDefaults {
        let options = options();
        OvhDefaults {
            kube_id: defaults.kube_id.or(Some(options.kube_id)),
            credentials: defaults.credentials.or_else(|| {
                Some(Credentials::Keys {
                    application_key: options.application_key.into(),
                    application_secret: options.application_secret.into(),
                    consumer_key: options.consumer_key.into(),
                })
            }),
            simulated: true,
            http: Http::new(self.cloud.router()),
            ..defaults
        }
    }
}

#[async_trait]
impl Played for OvhCloud {
    const MEMORY: &'static str = "joiner-mock-ovhcloud";

    fn memory(&self) -> Value {
        OvhCloud::memory(self)
    }

    fn restore(&self, known: &Value) -> usize {
        OvhCloud::restore(self, known)
    }

    fn rest(&self) {
        OvhCloud::rest(self);
    }

    async fn play(&self) {
        self.run().await;
    }
}
