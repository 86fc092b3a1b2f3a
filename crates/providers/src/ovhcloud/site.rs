//! Which cluster it is, where it is, and the zones of its region.

use super::Ovh;
use super::errors::{Meaning, Refused};
use super::pools::SINGLE_ZONE;
use crate::ProviderError;

/// Regions that are known to have three zones, for credentials that may not ask.
const THREE_ZONES: [&str; 2] = ["EU-WEST-PAR", "EU-SOUTH-MIL"];

/// The cluster, once it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Id of the cluster.
    pub kube: String,
    /// Its region.
    pub region: String,
}

impl Ovh {
    /// The cluster and its region, found if they were not given.
    pub async fn site(&self) -> Result<&Site, ProviderError> {
        self.site.get_or_try_init(|| self.find_site()).await
    }

    /// The same, if it has been found already.
    pub fn known_site(&self) -> Option<&Site> {
        self.site.get()
    }

    async fn find_site(&self) -> Result<Site, ProviderError> {
        let project = &self.options.service_name;
        let kube = match &self.options.kube_id {
            Some(kube) => kube.clone(),
            None => self.find_kube().await?,
        };
        let cluster = match self.client.cluster(&kube).await {
            Ok(cluster) => cluster,
            Err(Refused {
                meaning: Meaning::NotFound,
                error,
            }) => {
                return Err(ProviderError::Invalid(format!(
                    "project {project} has no cluster {kube}: check serviceName and kubeId ({error})"
                )));
            }
            Err(refused) => return Err(refused.error),
        };
        let region = cluster.region;
        if region.is_empty() {
            return Err(ProviderError::Transient(format!(
                "cluster {kube} does not say its region"
            )));
        }
        if let Some(named) = &self.options.region
            && !named.eq_ignore_ascii_case(&region)
        {
            return Err(ProviderError::Invalid(format!(
                "region mismatch: spec.region is {named:?}, and cluster {kube} is in {region}; write {region}, or \
                 leave region out to have it found"
            )));
        }
        Ok(Site { kube, region })
    }

    async fn find_kube(&self) -> Result<String, ProviderError> {
        let way = "set spec.kubeId, or OVH_KUBE_ID of the controller";
        let mut all = self.client.clusters().await.map_err(|refused| {
            if let Meaning::NotGranted(_) = refused.meaning {
                ProviderError::Invalid(format!(
                    "kubeId is not given, no node says it, and {}: {way}",
                    refused.error
                ))
            } else {
                refused.error
            }
        })?;
        match (all.pop(), all.len()) {
            (Some(only), 0) => Ok(only),
            (None, _) => Err(ProviderError::Invalid(format!(
                "project {} has no Kubernetes cluster: {way}",
                self.options.service_name
            ))),
            (Some(_), more) => Err(ProviderError::Invalid(format!(
                "project {} has {} Kubernetes clusters: {way}",
                self.options.service_name,
                more + 1
            ))),
        }
    }

    /// Whether the cluster wants to hear a zone.
    pub(super) fn zoned(&self) -> bool {
        self.lessons().zoned != Some(false)
    }

    /// The zones of the region: [`SINGLE_ZONE`] alone where there is but one.
    pub(super) async fn zones(&self) -> Result<Vec<String>, ProviderError> {
        let learned = self.lessons().zoned;
        if learned == Some(false) {
            return Ok(vec![SINGLE_ZONE.to_owned()]);
        }
        let site = self.site().await?;
        let mut slot = self.zones.lock().await;
        if let Some(zones) = slot.value()
            && !(learned == Some(true) && zones.len() == 1)
        {
            return Ok(zones.to_vec());
        }
        let now = self.now();
        if let Some(error) = slot.held(now) {
            return Err(error.clone());
        }
        let usual = || {
            let low = site.region.to_ascii_lowercase();
            ["a", "b", "c"]
                .map(|letter| format!("{low}-{letter}"))
                .to_vec()
        };
        let mut told = Vec::new();
        if self.may_try("GET region", now) {
            match self.client.region(&site.region).await {
                Ok(region) => told = region.availability_zones,
                Err(refused) => match refused.meaning {
                    Meaning::NotGranted(call) => self.note_refused("GET region", &call, now),
                    Meaning::NotFound => {}
                    _ => {
                        slot.failed = Some((self.now(), refused.error.clone()));
                        return Err(refused.error);
                    }
                },
            }
        }
        let several = THREE_ZONES.contains(&site.region.as_str()) || learned == Some(true);
        let zones = if !told.is_empty() {
            told
        } else if several {
            usual()
        } else {
            vec![SINGLE_ZONE.to_owned()]
        };
        Ok(slot.keep(zones, now).to_vec())
    }
}
