//! Machines: from the wish for one until it is gone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use joiner_core::labels;
use joiner_core::money::Money;
use joiner_core::name::{Labels, Name};
use joiner_core::plan::Purchase;
use joiner_core::problem::DisruptionReason;
use joiner_core::requirement::Expression;
use joiner_core::resources::Resources;
use joiner_core::taints::Taint;
use joiner_providers::{MachineId, Provider, Timeouts, Uid};
use serde::{Deserialize, Serialize};

use super::{ClassKey, Conditions, Key, PoolRecord, kinds};
use crate::edge::clock;

/// Annotations of Joiner's own on machine objects, the same in every dialect.
pub mod annotations {
    /// What to buy, best first: a JSON list of offers.
    pub const OFFERS: &str = "joiner.dev/purchases";
    /// How many of the offers have been refused so far.
    pub const TRIED: &str = "joiner.dev/purchases-tried";
    /// What the cloud calls the machine, where that is not the node's provider id.
    pub const MACHINE_ID: &str = "joiner.dev/machine-id";
    /// When the cloud announced that it takes the machine away: its pods leave it whatever holds them, so that room
    /// for them is bought before that.
    pub const INTERRUPTED_AT: &str = "joiner.dev/interrupted-at";
    /// Why and for what the machine is to go: a JSON intent.
    pub const INTENT: &str = "joiner.dev/disruption";
    /// Why the machine was bought, for people, and for whichever process leads after the one that bought it.
    pub const WHY: &str = "joiner.dev/why";
    /// Which disruption the machine was bought for.
    pub const REPLACES: &str = "joiner.dev/replaces";
    /// `"true"` on a pool: it neither buys nor takes away.
    pub const PAUSED: &str = "joiner.dev/paused";
    /// What a pool waits for and until when: a JSON list, kept so that a restart does not forget it.
    pub const WAITING: &str = "joiner.dev/waiting";
    /// What the machine costs at today's price, in dollars per hour, for people and other tools.
    pub const PRICE: &str = "joiner.dev/price";
    /// Label of a node: the same, where eks-node-viewer looks for it.
    pub const INSTANCE_PRICE: &str = "eks-node-viewer/instance-price";
    /// When every pod is gone at the latest.
    pub const TERMINATION_TIMESTAMP: &str = "karpenter.sh/nodeclaim-termination-timestamp";
    /// `"true"` on a node or machine: leave it alone.
    pub const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";
}

/// A price as annotations and labels have it: dollars per hour, to a millionth.
pub fn price_text(price: Money) -> Name {
    price.to_micros().dollars().to_string().into()
}

/// One way to buy a machine, and what one would get. Written down before anything is bought, so that whoever takes
/// over buys the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "WrittenOffer", into = "WrittenOffer")]
pub struct Offer {
    /// What to buy.
    pub purchase: Purchase,
    /// What it has; counts against limits from the moment it is tried.
    pub capacity: Resources,
    /// What of it pods can have.
    pub allocatable: Resources,
    /// Labels that only this offer brings.
    pub labels: Labels,
}

/// An offer as it is written on a machine object, of which every cluster stores one for each machine: without what the
/// rest of it says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenOffer {
    purchase: Purchase,
    capacity: Resources,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allocatable: Option<Resources>,
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    labels: Labels,
}

/// Labels that a purchase says by itself.
fn told(purchase: &Purchase) -> [(&'static str, Name); 3] {
    let capacity_type: &'static str = purchase.capacity_type.into();
    [
        (labels::INSTANCE_TYPE, purchase.instance_type.clone()),
        (labels::ZONE, purchase.zone.clone()),
        (labels::CAPACITY_TYPE, capacity_type.into()),
    ]
}

impl From<Offer> for WrittenOffer {
    fn from(offer: Offer) -> Self {
        let mut labels = offer.labels;
        for (key, value) in told(&offer.purchase) {
            if labels.get(key) == Some(&value) {
                labels.remove(key);
            }
        }
        WrittenOffer {
            allocatable: (offer.allocatable != offer.capacity).then_some(offer.allocatable),
            purchase: offer.purchase,
            capacity: offer.capacity,
            labels,
        }
    }
}

impl From<WrittenOffer> for Offer {
    fn from(written: WrittenOffer) -> Self {
        let mut labels = written.labels;
        for (key, value) in told(&written.purchase) {
            labels.entry(key.into()).or_insert(value);
        }
        Offer {
            allocatable: written
                .allocatable
                .unwrap_or_else(|| written.capacity.clone()),
            purchase: written.purchase,
            capacity: written.capacity,
            labels,
        }
    }
}

/// That a machine is to go, written on it so that a restart finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Machines that go together share it.
    pub id: Name,
    /// Why.
    pub cause: DisruptionReason,
    /// Machines that must be ready first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replacements: Vec<Name>,
    /// Whether pods go from there to several places: then it matters which of them goes where.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scatters: bool,
    /// When it was decided.
    pub since: Timestamp,
}

/// What has become of a machine. The dialect writes it in its own form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineStatus {
    /// What the cloud calls it.
    pub machine_id: Option<MachineId>,
    /// What its node calls it.
    pub provider_id: Option<Name>,
    /// Node that it became.
    pub node: Option<Name>,
    /// Dollars per hour, if known.
    pub price: Option<Money>,
    /// What it has.
    pub capacity: Resources,
    /// What of it pods can have.
    pub allocatable: Resources,
    /// How far it has come.
    pub conditions: Conditions,
    /// When a pod last came or went.
    pub last_pod_event: Option<Timestamp>,
    /// When its price was last looked up; only families whose objects say what they cost have it.
    pub price_checked: Option<Timestamp>,
    /// How many pods are on its node; likewise.
    pub pods: Option<u32>,
}

/// A machine object.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineRecord {
    /// Which.
    pub key: Key,
    /// Its identity: names are reused, this is not.
    pub uid: Uid,
    /// Version of the object.
    pub version: u64,
    /// Generation of its settings.
    pub generation: i64,
    /// When it was asked for.
    pub created: Timestamp,
    /// Since when it is to go.
    pub deleting: Option<Timestamp>,
    /// Whether our finalizer is on it.
    pub finalizer: bool,
    /// Id of the pool that it belongs to; `None` for one that stands alone.
    pub pool: Option<Name>,
    /// Node class that it is bought from.
    pub class: ClassKey,
    /// Labels; its node gets them too.
    pub labels: Labels,
    /// Annotations.
    pub annotations: Labels,
    /// Annotations for its node.
    pub node_annotations: Labels,
    /// What it must be.
    pub requirements: Vec<Expression>,
    /// What it must have room for.
    pub requests: Resources,
    /// Taints of its node.
    pub taints: Vec<Taint>,
    /// Taints that its node loses when it is ready.
    pub startup_taints: Vec<Taint>,
    /// How old it may get.
    pub expire_after: Option<SignedDuration>,
    /// How long its drain may last.
    pub termination_grace: Option<SignedDuration>,
    /// How long it may take to become a node, counted from its launch, where its pool says so.
    pub registration_timeout: Option<SignedDuration>,
    /// What it may cost at most, in dollars per hour, where that is not fixed when it is bought.
    pub max_price: Option<Money>,
    /// What to buy, best first.
    pub offers: Arc<Vec<Offer>>,
    /// What has become of it.
    pub status: MachineStatus,
}

impl MachineRecord {
    /// How many offers have been refused.
    pub fn tried(&self) -> usize {
        self.annotations
            .get(annotations::TRIED)
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    }

    /// The offer to try, or that was taken.
    pub fn offer(&self) -> Option<&Offer> {
        self.offers.get(self.tried())
    }

    /// How long things take for what it is bought as.
    pub fn timeouts(&self, provider: &dyn Provider) -> Timeouts {
        let mut timeouts = match self.offer().or_else(|| self.offers.last()) {
            Some(offer) => provider.timeouts(&offer.purchase),
            None => Timeouts::default(),
        };
        if let Some(own) = self.registration_timeout {
            timeouts.registration = Duration::try_from(own).unwrap_or_default();
        }
        timeouts
    }

    /// Until when it must have become a node. A pool's own timeout counts from the launch; that of a provider, which
    /// knows how long a launch takes, from the request.
    pub fn registration_deadline(&self, timeouts: &Timeouts) -> Timestamp {
        let launched = self.status.conditions.true_since(kinds::LAUNCHED);
        let from = launched.filter(|_| self.registration_timeout.is_some());
        clock::after(from.unwrap_or(self.created), timeouts.registration)
    }

    /// Whether the cloud has announced that it takes the machine away.
    pub fn interrupted(&self) -> bool {
        self.annotations.contains_key(annotations::INTERRUPTED_AT)
    }

    /// That it is to go, and for what; `None` also if the note cannot be read.
    pub fn intent(&self) -> Option<Intent> {
        serde_json::from_str(self.annotations.get(annotations::INTENT)?).ok()
    }

    /// Whether the cloud has it.
    pub fn launched(&self) -> bool {
        self.status.conditions.is_true(kinds::LAUNCHED)
    }

    /// Whether it is a node.
    pub fn registered(&self) -> bool {
        self.status.conditions.is_true(kinds::REGISTERED)
    }

    /// Whether its node can be used.
    pub fn initialized(&self) -> bool {
        self.status.conditions.is_true(kinds::INITIALIZED)
    }

    /// What it has, or will have.
    pub fn capacity(&self) -> &Resources {
        match self.offer() {
            Some(offer) if self.status.capacity.is_empty() => &offer.capacity,
            _ => &self.status.capacity,
        }
    }

    /// What of it pods can have, or will.
    pub fn allocatable(&self) -> &Resources {
        match self.offer() {
            Some(offer) if self.status.allocatable.is_empty() => &offer.allocatable,
            _ => &self.status.allocatable,
        }
    }
}

/// Changes to the metadata of a machine object; `None` takes a key away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataChange {
    /// Labels.
    pub labels: BTreeMap<Name, Option<Name>>,
    /// Annotations.
    pub annotations: BTreeMap<Name, Option<Name>>,
    /// Whether our finalizer is to be on it.
    pub finalizer: Option<bool>,
}

impl MetadataChange {
    /// One annotation.
    pub fn annotation(key: &str, value: Option<Name>) -> Self {
        MetadataChange {
            annotations: BTreeMap::from([(key.into(), value)]),
            ..Self::default()
        }
    }
}

/// A machine object to be written, before anything is bought.
#[derive(Clone, Debug)]
pub struct NewMachine {
    /// Its pool.
    pub pool: Arc<PoolRecord>,
    /// Name, chosen beforehand so that others can refer to it.
    pub name: Name,
    /// What to buy, best first.
    pub offers: Vec<Offer>,
    /// What it must have room for.
    pub requests: Resources,
    /// Labels that its node will have.
    pub labels: Labels,
    /// Further annotations.
    pub annotations: Labels,
}

#[cfg(test)]
mod tests {
    use joiner_core::problem::CapacityType;

    use super::*;

    #[test]
    fn an_offer_is_written_without_what_the_rest_of_it_says() {
        let capacity = Resources::new().with("cpu", 4000).with("memory", 8 << 30);
        let purchase = Purchase {
            catalog: "cloud".into(),
            instance_type: "m-4x".into(),
            zone: "a".into(),
            capacity_type: CapacityType::Spot,
            reservation: None,
            host: None,
            price: Money::from_dollars(0.1),
        };
        let mut labels: Labels = told(&purchase)
            .into_iter()
            .map(|(key, value)| (key.into(), value))
            .collect();
        labels.insert("kubernetes.io/arch".into(), "arm64".into());
        let offer = Offer {
            allocatable: capacity.clone(),
            capacity,
            purchase,
            labels,
        };
        let text = serde_json::to_string(&offer).unwrap();
        assert!(
            !text.contains("instance-type") && !text.contains("allocatable"),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Offer>(&text).unwrap(), offer);
        assert!(text.len() < 220, "{} bytes: {text}", text.len());
    }
}
