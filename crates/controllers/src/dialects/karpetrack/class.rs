//! The one class that SpotNodePools buy from, and the names that the family has for what it sells.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use joiner_api::karpetrack::keys;
use joiner_core::name::{Labels, Name};
use joiner_core::plan::Purchase;
use joiner_core::problem::Catalog;
use joiner_providers::rackspace::catalog::CATEGORY_LABEL;
use joiner_providers::{
    LaunchRequest, Machine, MachineId, Notice, Provider, ProviderError, RepairPolicy, Timeouts, Uid,
};

use crate::dialect::ClassKind;
use crate::record::{ClassKey, ClassRecord};

/// What stands for a node class in this family. No such kind is served: the dialect makes the only one there is.
pub const CLOUDSPACE: ClassKind = ClassKind {
    group: "karpetrack.io",
    version: "v1alpha1",
    kind: "Cloudspace",
    plural: "cloudspaces",
};
/// The longest that a server class may be in a label.
const LONGEST_CLASS: usize = 40;

/// The class that stands for a cloudspace.
pub fn class_key(cloudspace: &str) -> ClassKey {
    ClassKey {
        group: CLOUDSPACE.group.into(),
        kind: CLOUDSPACE.kind.into(),
        namespace: "".into(),
        name: cloudspace.into(),
    }
}

pub(super) fn record(key: ClassKey) -> ClassRecord {
    ClassRecord {
        uid: key.name.clone(),
        key,
        version: 1,
        generation: 1,
        deleting: false,
        finalizers: Vec::new(),
        ready: None,
        spec: Arc::new(serde_json::json!({})),
    }
}

/// The labels of the family for a server class of a region, so that pods can ask for them.
pub(super) fn labels(class: &str, region: &str, category: &str) -> Labels {
    let category = match category {
        "gp" => "general-purpose",
        "ch" => "compute-heavy",
        "mh" => "memory-heavy",
        "bm" => "bare-metal",
        other => other,
    };
    let class: String = class
        .to_lowercase()
        .replace(['.', '_'], "-")
        .chars()
        .take(LONGEST_CLASS)
        .collect();
    let class = class.trim_end_matches('-');
    [
        (keys::REGION_LABEL, region),
        (keys::CATEGORY_LABEL, category),
        (keys::SERVER_CLASS_LABEL, class),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(key, value)| (Name::from(key), Name::from(value)))
    .collect()
}

/// A provider whose servers carry the labels of this family beside their own.
pub struct Branded(pub Arc<dyn Provider>);

fn brand(machine: Machine) -> Machine {
    let category = machine.labels.get(CATEGORY_LABEL).cloned();
    let own = labels(
        &machine.instance_type,
        &machine.region,
        category.as_deref().unwrap_or_default(),
    );
    let mut machine = machine;
    machine.labels.extend(own);
    machine
}

#[async_trait]
impl Provider for Branded {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        let mut catalog = self.0.catalog().await?;
        for kind in &mut catalog.types {
            let region = kind.offerings.first().map(|one| one.region.clone());
            let category = kind.labels.get(CATEGORY_LABEL).cloned();
            let own = labels(
                &kind.name,
                region.as_deref().unwrap_or_default(),
                category.as_deref().unwrap_or_default(),
            );
            kind.labels.extend(own);
        }
        Ok(catalog)
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        self.0.launch(request).await.map(brand)
    }

    async fn launch_all(&self, requests: &[LaunchRequest]) -> Vec<Result<Machine, ProviderError>> {
        let machines = self.0.launch_all(requests).await;
        machines.into_iter().map(|one| one.map(brand)).collect()
    }

    fn launch_batch(&self) -> usize {
        self.0.launch_batch()
    }

    fn credential(&self) -> Option<Name> {
        self.0.credential()
    }

    async fn clear(&self) -> Result<(), ProviderError> {
        self.0.clear().await
    }

    async fn close(&self) {
        self.0.close().await;
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        self.0.terminate(id).await
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        self.0.get(id).await.map(brand)
    }

    async fn find(&self, uid: &Uid) -> Result<Machine, ProviderError> {
        self.0.find(uid).await.map(brand)
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        let all = self.0.list().await?;
        Ok(all.into_iter().map(brand).collect())
    }

    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError> {
        self.0.drift(machine).await
    }

    async fn notices(&self) -> Result<Vec<Notice>, ProviderError> {
        self.0.notices().await
    }

    async fn concern(&self) -> Option<String> {
        self.0.concern().await
    }

    async fn prices_as_of(&self) -> Option<Timestamp> {
        self.0.prices_as_of().await
    }

    fn timeouts(&self, purchase: &Purchase) -> Timeouts {
        self.0.timeouts(purchase)
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.0.repair_policies()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_class_has_the_labels_of_the_document() {
        let all = labels("gp.vs1.large-ord", "us-central-ord-1", "gp");
        assert_eq!(&*all[keys::CATEGORY_LABEL], "general-purpose");
        assert_eq!(&*all[keys::SERVER_CLASS_LABEL], "gp-vs1-large-ord");
        assert_eq!(&*all[keys::REGION_LABEL], "us-central-ord-1");
    }

    #[test]
    fn a_long_class_still_fits_a_label() {
        let all = labels(&"a.".repeat(40), "", "gpu");
        let class = &all[keys::SERVER_CLASS_LABEL];
        assert!(
            class.len() <= LONGEST_CLASS && !class.ends_with('-'),
            "{class}"
        );
        assert!(!all.contains_key(keys::REGION_LABEL));
    }
}
