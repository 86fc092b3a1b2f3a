//! SimNodeClass objects become simulated clouds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use joiner_api::joiner::{
    Catalog as CatalogSource, ConfigMapKeyRef, Kubelet, OfferingSelector, SimNodeClassSpec,
};
use joiner_api::text;
use joiner_controllers::dialect::{ClassFactory, ClassKind, ClassSite};
use joiner_controllers::edge::tasks::Tasks;
use joiner_controllers::record::ClassRecord;
use joiner_core::name::Name;
use joiner_core::problem::Catalog;
use joiner_embedded::clock::Clock;
use joiner_providers::{Provider, ProviderError};
use joiner_sim::clouds::sim::{Market, Rack, SimCloud, SimCloudOptions, built_in, read_kwok};
use joiner_sim::clouds::watched::{CloudEvent, Watched as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use crate::kubelets::KWOK;

/// The kind of class that simulated clouds are described by.
pub(crate) const SIM: ClassKind = ClassKind {
    group: "joiner.dev",
    version: "v1alpha1",
    kind: "SimNodeClass",
    plural: "simnodeclasses",
};

/// Opens a simulated cloud for each SimNodeClass, and keeps it when the class changes: its machines stay.
pub(crate) struct SimClasses {
    client: Client,
    clock: Clock,
    rack: Arc<dyn Rack>,
    tasks: Tasks,
    open: Mutex<BTreeMap<Name, SimCloud>>,
    observer: Option<Observer>,
}

/// Sees what happens at every cloud.
type Observer = Arc<dyn Fn(&CloudEvent) + Send + Sync>;

impl SimClasses {
    /// Clouds whose machines plug into `rack`.
    pub(crate) fn new(client: Client, clock: Clock, rack: Arc<dyn Rack>, tasks: Tasks) -> Self {
        SimClasses {
            client,
            clock,
            rack,
            tasks,
            open: Mutex::default(),
            observer: None,
        }
    }

    /// The same under the eyes of an observer, which must not ask a cloud anything.
    pub(crate) fn observed(self, observer: impl Fn(&CloudEvent) + Send + Sync + 'static) -> Self {
        SimClasses {
            observer: Some(Arc::new(observer)),
            ..self
        }
    }

    /// The clouds that have been opened so far.
    pub(crate) fn clouds(&self) -> Vec<SimCloud> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.values().cloned().collect()
    }

    async fn catalog(&self, source: Option<&CatalogSource>) -> Result<Catalog, ProviderError> {
        let Some(source) = source else {
            return Ok(built_in());
        };
        let text = match (&source.config_map_key_ref, &source.file) {
            (Some(reference), None) => self.config_map(reference).await?,
            (None, Some(file)) => tokio::fs::read_to_string(file).await.map_err(|error| {
                ProviderError::Invalid(format!(
                    "spec.catalog.file {file:?} cannot be read: {error}"
                ))
            })?,
            _ => {
                return Err(ProviderError::Invalid(
                    "spec.catalog needs exactly one of configMapKeyRef and file".to_owned(),
                ));
            }
        };
        read_kwok(&text).map_err(|error| ProviderError::Invalid(format!("spec.catalog: {error}")))
    }

    async fn config_map(&self, reference: &ConfigMapKeyRef) -> Result<String, ProviderError> {
        let at = format!("{}/{}", reference.namespace, reference.name);
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &reference.namespace);
        let found = api
            .get_opt(&reference.name)
            .await
            .map_err(|error| ProviderError::Transient(format!("ConfigMap {at}: {error}")))?
            .ok_or_else(|| {
                ProviderError::Invalid(format!(
                    "spec.catalog.configMapKeyRef: there is no ConfigMap {at}"
                ))
            })?;
        found
            .data
            .and_then(|mut data| data.remove(reference.key()))
            .ok_or_else(|| {
                ProviderError::Invalid(format!(
                    "spec.catalog.configMapKeyRef: ConfigMap {at} has no key {:?}",
                    reference.key()
                ))
            })
    }
}

#[async_trait]
impl ClassFactory for SimClasses {
    fn kind(&self) -> ClassKind {
        SIM
    }

    async fn build(
        &self,
        class: &ClassRecord,
        site: &ClassSite<'_>,
    ) -> Result<Arc<dyn Provider>, ProviderError> {
        let spec: SimNodeClassSpec = serde_json::from_value((*class.spec).clone())
            .map_err(|error| ProviderError::Invalid(format!("spec: {error}")))?;
        let options = options(&spec, self.catalog(spec.catalog.as_ref()).await?)?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cloud) = open.get(&class.uid) {
            cloud.change(|present| *present = options);
            return Ok(Arc::new(cloud.clone()));
        }
        let cloud = SimCloud::remembering(
            options,
            self.clock.clone(),
            Arc::clone(&self.rack),
            Arc::clone(&site.ledger),
        );
        if let Some(observer) = self.observer.clone() {
            cloud.observe(Box::new(move |event| observer(event)));
        }
        let running = cloud.clone();
        self.tasks
            .spawn(format!("cloud {}", class.key), async move {
                running.run().await;
            });
        open.insert(class.uid.clone(), cloud.clone());
        Ok(Arc::new(cloud))
    }
}

/// How the cloud behaves, as its class says.
fn options(
    spec: &SimNodeClassSpec,
    mut catalog: Catalog,
) -> Result<SimCloudOptions, ProviderError> {
    let mut market = Market::calm(spec.seed().unsigned_abs());
    if let Some(prices) = &spec.spot_prices {
        market.swing_percent = percent("spec.spotPrices.swing", &prices.swing)?;
        market.price_every = duration("spec.spotPrices.every", &prices.every())?;
    }
    if let Some(stock) = &spec.stock_outs {
        if let Some(chance) = &stock.chance {
            market.sold_out_percent = percent("spec.stockOuts.chance", chance)?;
        }
        market.stock_every = duration("spec.stockOuts.every", &stock.every())?;
        stock
            .offerings
            .iter()
            .for_each(|sold_out| sell_out(&mut catalog, sold_out));
    }
    if let Some(interruptions) = &spec.interruptions {
        let chance = percent("spec.interruptions.chance", &interruptions.chance)?;
        let every = duration("spec.interruptions.every", &interruptions.every())?;
        // A chance of one in ten each hour is a life of ten hours.
        market.spot_life = (chance > 0).then(|| every * 100 / chance);
        market.notice = duration("spec.interruptions.notice", &interruptions.notice())?;
    }
    let mut options = SimCloudOptions {
        market,
        ..SimCloudOptions::calm(catalog, 0)
    };
    let boot = spec.boot_time();
    if let (Some(min), Some(max)) = (&boot.min, &boot.max) {
        options.boot_min = duration("spec.bootTime.min", min)?;
        options.boot_max = duration("spec.bootTime.max", max)?.max(options.boot_min);
        // A cloud that boots at once has kubelets that are ready at once.
        options.ready_after = options.ready_after.min(options.boot_min);
    }
    options.stop_after = duration("spec.stopTime", &spec.stop_time())?;
    if spec.kubelet() == Kubelet::Kwok {
        options.annotations.insert(KWOK.into(), "fake".into());
    }
    if let Some(timeout) = &spec.registration_timeout {
        options.registration = Some(duration("spec.registrationTimeout", timeout)?);
    }
    options.shows_stock = spec
        .stock_outs
        .as_ref()
        .is_none_or(|stock| stock.hidden != Some(true));
    let failures = spec.failures.clone().unwrap_or_default();
    if let Some(launch) = &failures.launch {
        options.refused_percent = percent("spec.failures.launch", launch)?;
    }
    if let Some(registration) = &failures.registration {
        options.stillborn_percent = percent("spec.failures.registration", registration)?;
    }
    Ok(options)
}

fn sell_out(catalog: &mut Catalog, which: &OfferingSelector) {
    let is =
        |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|one| one == value);
    for kind in catalog
        .types
        .iter_mut()
        .filter(|kind| is(&which.instance_type, &kind.name))
    {
        for offering in &mut kind.offerings {
            let paid = offering.capacity_type.to_string();
            if is(&which.zone, &offering.zone) && is(&which.capacity_type, &paid) {
                offering.available = false;
            }
        }
    }
}

fn percent(field: &str, text: &text::Percent) -> Result<u32, ProviderError> {
    let millionths = text
        .millionths()
        .map_err(|error| ProviderError::Invalid(format!("{field}: {error}")))?;
    Ok(millionths / 10_000)
}

fn duration(field: &str, text: &text::Duration) -> Result<Duration, ProviderError> {
    let signed = text
        .get()
        .map_err(|error| ProviderError::Invalid(format!("{field}: {error}")))?;
    Duration::try_from(signed)
        .map_err(|_| ProviderError::Invalid(format!("{field}: {} is in the past", text.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(spec: serde_json::Value) -> Result<SimCloudOptions, ProviderError> {
        options(&serde_json::from_value(spec).unwrap(), built_in())
    }

    #[test]
    fn an_empty_class_is_a_calm_cloud() {
        let options = read(json!({})).unwrap();
        assert_eq!(options.market, Market::calm(0));
        assert_eq!(options.boot_max, Duration::from_secs(15));
    }

    #[test]
    fn every_field_of_the_class_has_an_effect() {
        let options = read(json!({
            "seed": 7,
            "spotPrices": {"swing": "20%", "every": "1m"},
            "bootTime": {"min": "1s", "max": "2s"},
            "stopTime": "3s",
            "kubelet": "Kwok",
            "registrationTimeout": "40s",
            "stockOuts": {"chance": "5%", "every": "3m", "hidden": true, "offerings": [{"zone": "sim-b"}]},
            "interruptions": {"chance": "10%", "every": "1h", "notice": "30s"},
            "failures": {"launch": "3%", "registration": "4%"},
        }))
        .unwrap();
        let market = &options.market;
        assert_eq!(
            (market.seed, market.swing_percent, market.sold_out_percent),
            (7, 20, 5)
        );
        assert_eq!(market.spot_life, Some(Duration::from_hours(10)));
        assert_eq!(market.notice, Duration::from_secs(30));
        assert_eq!((options.refused_percent, options.stillborn_percent), (3, 4));
        assert_eq!(options.registration, Some(Duration::from_secs(40)));
        assert_eq!(options.stop_after, Duration::from_secs(3));
        assert_eq!(options.annotations[KWOK], "fake");
        assert!(!options.shows_stock);
        let sold_out = |zone: &str| {
            let offerings = options
                .catalog
                .types
                .iter()
                .flat_map(|kind| &kind.offerings);
            offerings
                .filter(|one| &*one.zone == zone)
                .all(|one| !one.available)
        };
        assert!(sold_out("sim-b") && !sold_out("sim-a"));
    }

    #[test]
    fn a_bad_duration_names_its_field() {
        let refused = read(json!({"bootTime": {"min": "soon", "max": "2s"}})).unwrap_err();
        assert!(
            refused.to_string().contains("spec.bootTime.min"),
            "{refused}"
        );
    }
}
