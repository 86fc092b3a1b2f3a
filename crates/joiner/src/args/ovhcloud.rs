//! OVHcloud, as typed. Names and defaults are those of the document of karpenter-provider-ovhcloud.

use clap::{ArgAction, Args, value_parser};
use joiner_controllers::classes::ovhcloud::OvhDefaults;
use joiner_providers::ProviderError;
use joiner_providers::http::{Http, Reach};
use joiner_providers::ovhcloud::Credentials;

use crate::failure::Failure;

/// The project and its credentials, used where an `OVHNodeClass` does not say.
#[expect(
    clippy::struct_field_names,
    reason = "flags are named after their fields"
)]
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "OVHcloud")]
pub(crate) struct OvhArgs {
    /// Which API: ovh-eu, ovh-ca, ovh-us, or a URL.
    #[arg(
        long,
        value_name = "NAME",
        env = "OVH_ENDPOINT",
        default_value = "ovh-eu"
    )]
    pub(crate) ovh_endpoint: String,
    /// Id of the Public Cloud project.
    #[arg(long, value_name = "ID", env = "OVH_SERVICE_NAME")]
    pub(crate) ovh_service_name: Option<String>,
    /// Id of the Managed Kubernetes cluster; found by itself if left out.
    #[arg(long, value_name = "ID", env = "OVH_KUBE_ID")]
    pub(crate) ovh_kube_id: Option<String>,
    /// Region of the cluster; found by itself if left out.
    #[arg(long, value_name = "REGION", env = "OVH_REGION")]
    pub(crate) ovh_region: Option<String>,
    /// Application key.
    #[arg(long, env = "OVH_APPLICATION_KEY", hide = true, hide_env_values = true)]
    pub(crate) ovh_application_key: Option<String>,
    /// Application secret.
    #[arg(
        long,
        env = "OVH_APPLICATION_SECRET",
        hide = true,
        hide_env_values = true
    )]
    pub(crate) ovh_application_secret: Option<String>,
    /// Consumer key.
    #[arg(long, env = "OVH_CONSUMER_KEY", hide = true, hide_env_values = true)]
    pub(crate) ovh_consumer_key: Option<String>,
    /// Client id of a service account, instead of the three keys.
    #[arg(long, env = "OVH_CLIENT_ID", hide = true, hide_env_values = true)]
    pub(crate) ovh_client_id: Option<String>,
    /// Its secret.
    #[arg(long, env = "OVH_CLIENT_SECRET", hide = true, hide_env_values = true)]
    pub(crate) ovh_client_secret: Option<String>,
    /// Whether flavours with GPUs are offered.
    #[arg(long, env = "OVH_ENABLE_GPU_FLAVORS", num_args = 0..=1, require_equals = true,
          default_value_t = true, default_missing_value = "true", action = ArgAction::Set)]
    pub(crate) ovh_enable_gpu_flavors: bool,
    /// Most node pools of a cluster.
    #[arg(long, value_name = "N", env = "OVH_MAX_NODE_POOLS", default_value_t = 100,
          value_parser = value_parser!(u32).range(1..))]
    pub(crate) ovh_max_node_pools: u32,
    /// Most nodes of a node pool.
    #[arg(long, value_name = "N", env = "OVH_MAX_POOL_NODES", default_value_t = 100,
          value_parser = value_parser!(u32).range(1..))]
    pub(crate) ovh_max_pool_nodes: u32,
}

/// What is not empty: charts set variables to nothing.
fn given(value: Option<&String>) -> Option<String> {
    value.filter(|text| !text.trim().is_empty()).cloned()
}

impl OvhArgs {
    fn credentials(&self) -> Result<Option<Credentials>, Failure> {
        let keys = [
            (
                "OVH_APPLICATION_KEY",
                given(self.ovh_application_key.as_ref()),
            ),
            (
                "OVH_APPLICATION_SECRET",
                given(self.ovh_application_secret.as_ref()),
            ),
            ("OVH_CONSUMER_KEY", given(self.ovh_consumer_key.as_ref())),
        ];
        let account = (
            given(self.ovh_client_id.as_ref()),
            given(self.ovh_client_secret.as_ref()),
        );
        let some = keys.iter().any(|(_, value)| value.is_some());
        let [(_, Some(key)), (_, Some(secret)), (_, Some(consumer))] = &keys else {
            if some {
                let missing: Vec<&str> = keys
                    .iter()
                    .filter(|(_, value)| value.is_none())
                    .map(|(name, _)| *name)
                    .collect();
                return Err(Failure::Usage(format!(
                    "{} is missing: the three OVHcloud keys go together",
                    missing.join(" and ")
                )));
            }
            return Ok(match account {
                (Some(id), Some(secret)) => Some(Credentials::Account {
                    client_id: id.into(),
                    client_secret: secret.into(),
                }),
                _ => None,
            });
        };
        Ok(Some(Credentials::Keys {
            application_key: key.as_str().into(),
            application_secret: secret.as_str().into(),
            consumer_key: consumer.as_str().into(),
        }))
    }

    /// What classes use that do not say otherwise.
    pub(crate) fn defaults(&self) -> Result<OvhDefaults, Failure> {
        let http = |hosts: Vec<String>| {
            let reach = Reach {
                allowed_hosts: hosts,
                ..Reach::default()
            };
            Http::production(&reach).map_err(ProviderError::from)
        };
        let defaults = OvhDefaults::new(&self.ovh_endpoint, http)
            .map_err(|error| Failure::Usage(error.to_string()))?;
        let credentials = self.credentials()?;
        let service_name = given(self.ovh_service_name.as_ref());
        if credentials.is_some() && service_name.is_none() {
            return Err(Failure::Usage(
                "OVH_SERVICE_NAME is required beside OVHcloud credentials: set it to the id of the Public Cloud project"
                    .to_owned(),
            ));
        }
        Ok(OvhDefaults {
            service_name,
            kube_id: given(self.ovh_kube_id.as_ref()),
            region: given(self.ovh_region.as_ref()),
            credentials,
            gpus: self.ovh_enable_gpu_flavors,
            max_pools: usize::try_from(self.ovh_max_node_pools).unwrap_or(usize::MAX),
            max_pool_nodes: self.ovh_max_pool_nodes,
            ..defaults
        })
    }
}
