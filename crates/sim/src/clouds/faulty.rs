//! Any provider, with things going wrong at its calls: delays, refusals, answers lost after the deed.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::Purchase;
use joiner_core::problem::Catalog;
use joiner_providers::{
    LaunchRequest, Machine, MachineId, Notice, Provider, ProviderError, RepairPolicy, Timeouts, Uid,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How often, in ten thousand calls, each thing goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultRates {
    /// The call is refused before it does anything.
    pub refused: u32,
    /// The call is done and its answer lost.
    pub lost: u32,
    /// The cloud wants to be left alone for a while.
    pub throttled: u32,
    /// A launch finds the offering sold out.
    pub sold_out: u32,
    /// The call takes up to a minute.
    pub slow: u32,
}

impl FaultRates {
    /// A bad day: every twentieth call goes wrong in one way or another.
    pub fn stormy() -> Self {
        FaultRates {
            refused: 100,
            lost: 150,
            throttled: 50,
            sold_out: 100,
            slow: 100,
        }
    }
}

/// What goes wrong at a cloud, by seed: the same for every provider that talks to it. Clones are the same.
#[derive(Clone)]
pub struct Faults {
    rates: Arc<Mutex<FaultRates>>,
    random: Arc<Mutex<ChaCha8Rng>>,
}

impl Faults {
    /// Draws from a seed.
    pub fn new(rates: FaultRates, seed: u64) -> Self {
        Faults {
            rates: Arc::new(Mutex::new(rates)),
            random: Arc::new(Mutex::new(ChaCha8Rng::seed_from_u64(seed))),
        }
    }

    /// Other rates from now on; all zero ends the faults.
    pub fn change(&self, rates: FaultRates) {
        *self.rates.lock().unwrap_or_else(PoisonError::into_inner) = rates;
    }

    /// What becomes of the next call, after the time that it takes.
    pub async fn fate(&self) -> Fate {
        let rates = *self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        let (draw, delay) = {
            let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
            let slow = random.random_range(0..10_000) < rates.slow;
            let delay = random.random_range(1..=60_u64);
            (random.random_range(0..10_000), slow.then_some(delay))
        };
        if let Some(seconds) = delay {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
        let mut floor = 0;
        for (rate, fate) in [
            (rates.refused, Fate::Refused),
            (rates.lost, Fate::Lost),
            (rates.throttled, Fate::Throttled),
            (rates.sold_out, Fate::SoldOut),
        ] {
            floor += rate;
            if draw < floor {
                return fate;
            }
        }
        Fate::Fine
    }
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done and answered.
    Fine,
    /// It is refused before it does anything.
    Refused,
    /// It is done, and its answer lost.
    Lost,
    /// It is refused: there were too many.
    Throttled,
    /// What it asks for is sold out, if it asks for a machine.
    SoldOut,
}

/// A provider whose calls go wrong.
pub struct Faulty<P> {
    inner: P,
    faults: Faults,
}

impl<P: Provider> Faulty<P> {
    /// Wraps a provider.
    pub fn new(inner: P, faults: Faults) -> Self {
        Faulty { inner, faults }
    }

    /// What goes wrong.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    async fn call<T>(
        &self,
        done: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        suffer(self.faults.fate().await, done).await
    }
}

fn sold_out() -> ProviderError {
    ProviderError::OutOfCapacity("sold out this minute".to_owned())
}

/// Lets a call meet its fate. Only a launch can find its offering sold out; other calls take that as fine.
async fn suffer<T>(
    fate: Fate,
    done: impl Future<Output = Result<T, ProviderError>> + Send,
) -> Result<T, ProviderError> {
    match fate {
        Fate::Fine | Fate::SoldOut => done.await,
        Fate::Refused => Err(ProviderError::Transient(
            "503 service unavailable".to_owned(),
        )),
        Fate::Throttled => Err(ProviderError::Throttled {
            message: "429 too many requests".to_owned(),
            retry_after: Some(Duration::from_secs(10)),
        }),
        Fate::Lost => {
            // Whatever it answered, nobody hears it.
            let _ = done.await;
            Err(ProviderError::Transient(
                "connection reset by peer".to_owned(),
            ))
        }
    }
}

#[async_trait]
impl<P: Provider> Provider for Faulty<P> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        self.call(self.inner.catalog()).await
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        match self.faults.fate().await {
            Fate::SoldOut => Err(sold_out()),
            fate => suffer(fate, self.inner.launch(request)).await,
        }
    }

    async fn launch_all(&self, requests: &[LaunchRequest]) -> Vec<Result<Machine, ProviderError>> {
        if self.inner.launch_batch() == 1 {
            return futures::future::join_all(requests.iter().map(|one| self.launch(one))).await;
        }
        let done = match self.faults.fate().await {
            Fate::SoldOut => Err(sold_out()),
            fate => suffer(fate, async { Ok(self.inner.launch_all(requests).await) }).await,
        };
        done.unwrap_or_else(|error| requests.iter().map(|_| Err(error.clone())).collect())
    }

    fn launch_batch(&self) -> usize {
        self.inner.launch_batch()
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        self.call(self.inner.terminate(id)).await
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        self.call(self.inner.get(id)).await
    }

    async fn find(&self, uid: &Uid) -> Result<Machine, ProviderError> {
        self.call(self.inner.find(uid)).await
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        self.call(self.inner.list()).await
    }

    async fn concern(&self) -> Option<String> {
        self.inner.concern().await
    }

    async fn prices_as_of(&self) -> Option<Timestamp> {
        self.inner.prices_as_of().await
    }

    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError> {
        self.call(self.inner.drift(machine)).await
    }

    async fn notices(&self) -> Result<Vec<Notice>, ProviderError> {
        self.call(self.inner.notices()).await
    }

    fn timeouts(&self, purchase: &Purchase) -> Timeouts {
        self.inner.timeouts(purchase)
    }

    fn credential(&self) -> Option<Name> {
        self.inner.credential()
    }

    async fn clear(&self) -> Result<(), ProviderError> {
        self.call(self.inner.clear()).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.inner.repair_policies()
    }
}
