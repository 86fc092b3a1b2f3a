//! Providers by node class, and what each of them sells. A slow or broken cloud delays nobody else.

pub(crate) mod holds;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::problem::Catalog;
use joiner_providers::{LaunchRequest, Machine, Owner, Provider, ProviderError};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use tracing::{info, warn};

use crate::dialect::{ClassFactory, ClassSite, Ledgers, Secrets, is_of};
use crate::edge::clients::{Clients, Fence};
use crate::edge::clock::{self, SharedClock};
use crate::market::calls::{CALL_TIMEOUT, Calls, SharedCalls};
use crate::market::launches::Launches;
use crate::record::{ClassKey, ClassRecord};
use crate::view::View;

/// The longest that closing a provider may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A provider and what it sells.
pub struct Slot {
    /// Which class.
    pub key: ClassKey,
    /// Identity and generation of the class that it was made from.
    pub made_from: (Name, i64),
    /// The provider.
    pub provider: Arc<dyn Provider>,
    calls: Arc<Calls>,
    launches: Launches,
    stock: RwLock<Stock>,
}

#[derive(Clone, Debug, Default)]
struct Stock {
    catalog: Option<Arc<Catalog>>,
    read: Option<Timestamp>,
    /// When the last attempt to read it began.
    begun: Option<Timestamp>,
    /// When its prices were true, if the cloud says so.
    priced: Option<Timestamp>,
    trouble: Option<Trouble>,
    concern: Option<String>,
    busy: bool,
}

/// Why a catalogue could not be read.
#[derive(Clone, Debug)]
struct Trouble {
    said: String,
    /// Nothing will change until a person changes something: nothing can be bought either.
    lasting: bool,
}

impl Slot {
    fn new(class: &ClassRecord, provider: Arc<dyn Provider>, calls: Arc<Calls>) -> Self {
        Slot {
            key: class.key.clone(),
            made_from: (class.uid.clone(), class.generation),
            provider,
            calls,
            launches: Launches::default(),
            stock: RwLock::default(),
        }
    }

    /// What it sells, as last read.
    pub fn catalog(&self) -> Option<Arc<Catalog>> {
        self.stock().catalog.clone()
    }

    fn stock(&self) -> Stock {
        self.stock
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn change(&self, change: impl FnOnce(&mut Stock)) {
        change(&mut self.stock.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Whether it is time to read its catalogue again.
    fn due(&self, now: Timestamp, period: Duration) -> bool {
        let begun = self.stock().begun;
        begun.is_none_or(|begun| clock::since(now, begun) >= period)
    }

    /// When its catalogue was last read.
    pub fn read(&self) -> Option<Timestamp> {
        self.stock().read
    }

    /// Calls the provider, within the limits that it shares with other classes of its credential.
    pub async fn call<T>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        self.calls.call(call).await
    }

    /// Launches a machine, together with others where the cloud sells many in one call.
    pub(crate) async fn launch(
        &self,
        fence: &Fence,
        request: &LaunchRequest,
    ) -> Result<Machine, ProviderError> {
        let launches = &self.launches;
        launches
            .launch(&*self.provider, &self.calls, fence, request)
            .await
    }
}

/// That a catalogue is being read; ends however the reading ends.
struct Busy<'a>(&'a Slot);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.change(|stock| stock.busy = false);
    }
}

/// Why a class cannot be used: a word for programs and a sentence for people.
pub type Unusable = (&'static str, String);

/// All providers.
pub struct Classes {
    factories: Vec<Arc<dyn ClassFactory>>,
    secrets: Arc<dyn Secrets>,
    ledgers: Arc<dyn Ledgers>,
    /// Identity of the cluster.
    cluster: Name,
    calls: SharedCalls,
    slots: RwLock<BTreeMap<ClassKey, Arc<Slot>>>,
    trouble: RwLock<BTreeMap<ClassKey, String>>,
    written: Mutex<BTreeMap<ClassKey, serde_json::Value>>,
    /// Classes that were said to be unusable, by identity, until they are said to be usable again.
    ailing: Mutex<BTreeSet<Name>>,
    reporting: tokio::sync::Mutex<()>,
    clock: SharedClock,
}

impl Classes {
    /// None yet.
    pub fn new(
        factories: Vec<Arc<dyn ClassFactory>>,
        secrets: Arc<dyn Secrets>,
        ledgers: Arc<dyn Ledgers>,
        cluster: Name,
        clock: SharedClock,
    ) -> Self {
        Classes {
            factories,
            secrets,
            ledgers,
            cluster,
            calls: SharedCalls::default(),
            slots: RwLock::default(),
            trouble: RwLock::default(),
            written: Mutex::default(),
            ailing: Mutex::default(),
            reporting: tokio::sync::Mutex::default(),
            clock,
        }
    }

    /// The provider of a class.
    pub fn slot(&self, key: &ClassKey) -> Option<Arc<Slot>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.get(key).cloned()
    }

    /// All providers.
    pub fn slots(&self) -> Vec<Arc<Slot>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.values().cloned().collect()
    }

    /// Who makes providers out of classes of this kind.
    pub fn factory(&self, key: &ClassKey) -> Option<&Arc<dyn ClassFactory>> {
        let mut all = self.factories.iter();
        all.find(|factory| is_of(key, &factory.kind()))
    }

    /// The classes whose catalogues are to be read now; those without a period of their own are read every `usual`.
    pub fn due(&self, usual: Duration) -> Vec<Arc<Slot>> {
        let now = self.clock.now();
        let period = |slot: &Slot| self.factory(&slot.key).and_then(|one| one.period());
        let mut slots = self.slots();
        slots.retain(|slot| slot.due(now, period(slot).unwrap_or(usual)));
        slots
    }

    /// The shortest time after which some catalogue is read again.
    pub fn shortest_period(&self, usual: Duration) -> Duration {
        let periods = self.factories.iter().filter_map(|one| one.period());
        periods.chain([usual]).min().unwrap_or(usual)
    }

    /// Whether anybody here knows classes of this kind.
    pub fn supports(&self, key: &ClassKey) -> bool {
        self.factory(key).is_some()
    }

    /// Whether no provider could be made of a class as it is.
    pub(crate) fn is_broken(&self, key: &ClassKey) -> bool {
        let trouble = self.trouble.read().unwrap_or_else(PoisonError::into_inner);
        trouble.contains_key(key)
    }

    /// Why nothing can be bought from a class, if so.
    pub fn unusable(&self, key: &ClassKey, record: Option<&ClassRecord>) -> Option<Unusable> {
        let Some(record) = record else {
            return Some((
                "NodeClassNotFound",
                format!("node class {key} does not exist"),
            ));
        };
        if record.deleting {
            return Some((
                "NodeClassTerminating",
                format!("node class {key} is being deleted"),
            ));
        }
        let trouble = self.trouble.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(said) = trouble.get(key) {
            return Some(("NodeClassNotReady", format!("node class {key}: {said}")));
        }
        match self.slot(key) {
            None => Some((
                "NodeClassReadinessUnknown",
                format!("node class {key} has not been read yet"),
            )),
            Some(slot) => match slot.stock() {
                Stock {
                    catalog,
                    trouble: Some(trouble),
                    ..
                } if catalog.is_none() || trouble.lasting => Some((
                    "NodeClassNotReady",
                    format!("node class {key}: {}", trouble.said),
                )),
                Stock {
                    catalog: Some(_), ..
                } => None,
                _ => Some((
                    "NodeClassReadinessUnknown",
                    format!("the catalogue of {key} has not been read yet"),
                )),
            },
        }
    }

    /// What is wrong with the catalogue of a class although it is still in use, if anything.
    pub fn concern(&self, key: &ClassKey) -> Option<String> {
        let stock = self.slot(key)?.stock();
        // The time stands still while nothing can be read; with a concern alone it would be another at every look.
        Some(match (stock.trouble, stock.read) {
            (None, _) => stock.concern?,
            (Some(trouble), None) => trouble.said,
            (Some(trouble), Some(read)) => {
                format!("{}; what was read at {read} stays in use", trouble.said)
            }
        })
    }

    /// Makes providers for classes that are new or have changed, and drops those that nobody needs any more. Returns
    /// the classes whose providers are new: machines may be waiting for them.
    pub async fn reconcile(&self, view: &View) -> Vec<ClassKey> {
        let (records, wanted) = {
            let world = view.read();
            let records: Vec<Arc<ClassRecord>> = world.classes.iter().cloned().collect();
            // Machines outlive their class: whoever deleted it still wants them to be taken away.
            let mut wanted: Vec<ClassKey> = records.iter().map(|class| class.key.clone()).collect();
            wanted.extend(world.machines.iter().map(|machine| machine.class.clone()));
            (records, wanted)
        };
        let stale = records.iter().filter(|record| {
            let made = self.slot(&record.key).map(|slot| slot.made_from.clone());
            made.as_ref() != Some(&(record.uid.clone(), record.generation))
        });
        let stale: Vec<&Arc<ClassRecord>> = stale.collect();
        futures::future::join_all(stale.iter().map(|record| self.build(record))).await;
        let built = |record: &&&Arc<ClassRecord>| {
            let made = self.slot(&record.key).map(|slot| slot.made_from.clone());
            made == Some((record.uid.clone(), record.generation))
        };
        let built = stale.iter().filter(built);
        let built = built.map(|record| record.key.clone()).collect();
        let keep = |key: &ClassKey| wanted.contains(key);
        let dropped: Vec<Arc<Slot>> = {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            let dropped = slots.values().filter(|slot| !keep(&slot.key));
            let dropped = dropped.cloned().collect();
            slots.retain(|key, _| keep(key));
            let mut trouble = self.trouble.write().unwrap_or_else(PoisonError::into_inner);
            trouble.retain(|key, _| keep(key));
            dropped
        };
        close_all(dropped).await;
        built
    }

    /// Ends what providers hold open: at shutdown.
    pub async fn close(&self) {
        close_all(self.slots()).await;
    }

    async fn build(&self, record: &ClassRecord) {
        let Some(factory) = self.factory(&record.key) else {
            return;
        };
        let site = ClassSite {
            secrets: &*self.secrets,
            owner: Owner {
                cluster: self.cluster.clone(),
                family: factory.family().into(),
            },
            ledger: self.ledgers.open(record),
        };
        let built = tokio::time::timeout(CALL_TIMEOUT, factory.build(record, &site)).await;
        let replaced = {
            let mut trouble = self.trouble.write().unwrap_or_else(PoisonError::into_inner);
            match built {
                Ok(Ok(provider)) => {
                    info!(class = %record.key, provider = provider.name(), "node class is in use");
                    trouble.remove(&record.key);
                    let calls = self.calls.of(provider.credential());
                    let slot = Slot::new(record, provider, calls);
                    let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
                    slots.insert(record.key.clone(), Arc::new(slot))
                }
                Ok(Err(error)) => {
                    warn!(class = %record.key, %error, "node class is not usable");
                    trouble.insert(record.key.clone(), error.to_string());
                    None
                }
                Err(_) => {
                    trouble.insert(record.key.clone(), "its provider did not answer".to_owned());
                    None
                }
            }
        };
        close_all(replaced).await;
    }

    /// Reads the catalogue of one class again, unless that is being done.
    pub async fn refresh(&self, slot: &Slot) {
        let begun = self.clock.now();
        let mut free = false;
        slot.change(|stock| {
            free = !stock.busy;
            stock.busy = true;
            if free {
                stock.begun = Some(begun);
            }
        });
        if !free {
            return;
        }
        let _busy = Busy(slot);
        let read = slot.call(slot.provider.catalog()).await;
        let concern = slot.provider.concern().await;
        let priced = slot.provider.prices_as_of().await;
        let now = self.clock.now();
        slot.change(|stock| {
            stock.concern = concern;
            stock.priced = priced;
            match read {
                Ok(mut catalog) => {
                    catalog.name = slot.key.catalog();
                    sanitize(&mut catalog);
                    stock.trouble = None;
                    stock.read = Some(now);
                    if stock.catalog.as_deref() != Some(&catalog) {
                        stock.catalog = Some(Arc::new(catalog));
                    }
                }
                // What was read before stays in use: a cloud that stumbles has not lost its wares.
                Err(error) => {
                    warn!(class = %slot.key, %error, "catalogue of the node class could not be read; the last one stays in use");
                    stock.trouble = Some(Trouble {
                        lasting: !error.passes(),
                        said: error.to_string(),
                    });
                }
            }
        });
    }
}

/// Has providers end what they hold open; one that does not answer is not waited for.
async fn close_all(slots: impl IntoIterator<Item = Arc<Slot>>) {
    let close = |slot: Arc<Slot>| async move {
        let closed = tokio::time::timeout(CLOSE_TIMEOUT, slot.provider.close()).await;
        if closed.is_err() {
            warn!(class = %slot.key, "its provider could not be closed in time");
        }
    };
    futures::future::join_all(slots.into_iter().map(close)).await;
}

/// A price of nothing, or below it, is a mistake and not a bargain: what it stands for cannot be bought until a price
/// is known.
fn sanitize(catalog: &mut Catalog) {
    for offering in catalog.types.iter_mut().flat_map(|one| &mut one.offerings) {
        if offering.price <= joiner_core::money::Money::ZERO {
            offering.available = false;
            offering.price = joiner_core::money::Money::ZERO;
        }
    }
    catalog.ranges.retain(|range| {
        let prices = &range.prices;
        let zero = joiner_core::money::Money::ZERO;
        [prices.machine, prices.core, prices.memory_gib]
            .iter()
            .any(|price| *price > zero)
    });
}

/// Secrets from the cluster.
pub struct ClusterSecrets(pub Clients);

#[async_trait]
impl Secrets for ClusterSecrets {
    async fn get(&self, namespace: &str, name: &str, key: &str) -> Result<String, String> {
        let api: Api<Secret> = Api::namespaced(self.0.reads.clone(), namespace);
        let secret = api
            .get(name)
            .await
            .map_err(|error| format!("secret {namespace}/{name} cannot be read: {error}"))?;
        let value = secret
            .data
            .and_then(|mut data| data.remove(key))
            .ok_or_else(|| format!("secret {namespace}/{name} has no key {key:?}"))?;
        // Whoever pastes a token pastes its newline too, and an HTTP header refuses it.
        String::from_utf8(value.0)
            .map(|text| text.trim().to_owned())
            .map_err(|_| format!("key {key:?} of secret {namespace}/{name} is not text"))
    }
}
