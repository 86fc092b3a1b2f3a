//! Launches of one class, gathered for a moment where its cloud sells many machines in one call.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use joiner_providers::{LaunchRequest, Machine, Provider, ProviderError};
use tokio::sync::oneshot;

use super::calls::Calls;
use crate::edge::clients::{Fence, while_leading};

/// How long launches are gathered: machine objects of one plan are written within this.
const GATHERED: Duration = Duration::from_millis(250);

type Answer = Result<Machine, ProviderError>;

/// Launches that wait for the next call.
#[derive(Debug, Default)]
pub(crate) struct Launches(Mutex<Vec<(LaunchRequest, oneshot::Sender<Answer>)>>);

impl Launches {
    /// Launches a machine: by itself, or together with others that are asked for within a moment.
    pub(crate) async fn launch(
        &self,
        provider: &dyn Provider,
        calls: &Calls,
        fence: &Fence,
        request: &LaunchRequest,
    ) -> Answer {
        let batch = provider.launch_batch();
        if batch <= 1 {
            return calls
                .call(while_leading(fence, provider.launch(request)))
                .await;
        }
        let (answer, mut answered) = oneshot::channel();
        let first = {
            let mut waiting = self.waiting();
            waiting.push((request.clone(), answer));
            waiting.len() == 1
        };
        if first {
            // Whoever comes first makes the call for all; if it is cancelled, the others are told to try again.
            let gathering = Gathering(self);
            tokio::time::sleep(GATHERED).await;
            let together = gathering.take();
            let mut rest = together.as_slice();
            let mut answers = Vec::with_capacity(together.len());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(batch.min(rest.len()));
                let requests: Vec<LaunchRequest> =
                    now.iter().map(|(request, _)| request.clone()).collect();
                answers.extend(buy(provider, calls, fence, &requests).await);
                rest = later;
            }
            for ((_, waiting), answer) in together.into_iter().zip(answers) {
                // A caller that is gone finds its machine by the UID when it comes again.
                let _ = waiting.send(answer);
            }
            return answered.try_recv().unwrap_or_else(|_| Err(cancelled()));
        }
        answered.await.unwrap_or_else(|_| Err(cancelled()))
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(LaunchRequest, oneshot::Sender<Answer>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call for all of these; one answer for each.
async fn buy(
    provider: &dyn Provider,
    calls: &Calls,
    fence: &Fence,
    requests: &[LaunchRequest],
) -> Vec<Answer> {
    let all = async { Ok(provider.launch_all(requests).await) };
    match calls.call(while_leading(fence, all)).await {
        Ok(mut answers) => {
            for error in answers.iter().filter_map(|one| one.as_ref().err()) {
                calls.heed(error);
            }
            answers.resize_with(requests.len(), || Err(cancelled()));
            answers
        }
        Err(error) => vec![Err(error); requests.len()],
    }
}

fn cancelled() -> ProviderError {
    ProviderError::Transient("the call that was to launch it with others was cancelled".to_owned())
}

/// Empties the list when it is dropped, so that the next launch makes a call of its own.
struct Gathering<'a>(&'a Launches);

impl Gathering<'_> {
    fn take(self) -> Vec<(LaunchRequest, oneshot::Sender<Answer>)> {
        std::mem::take(&mut *self.0.waiting())
    }
}

impl Drop for Gathering<'_> {
    fn drop(&mut self) {
        self.0.waiting().clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use joiner_core::money::Money;
    use joiner_core::name::Labels;
    use joiner_core::plan::Purchase;
    use joiner_core::problem::{CapacityType, Catalog};
    use joiner_core::resources::Resources;
    use joiner_providers::{MachineId, Uid};

    use super::*;

    /// Counts calls; sells nothing.
    #[derive(Default)]
    struct Counting {
        calls: AtomicUsize,
        batch: usize,
    }

    #[async_trait]
    impl Provider for Counting {
        fn name(&self) -> &'static str {
            "counting"
        }
        async fn catalog(&self) -> Result<Catalog, ProviderError> {
            Ok(Catalog::default())
        }
        async fn launch(&self, request: &LaunchRequest) -> Answer {
            self.calls.fetch_add(1, Ordering::SeqCst);
            Err(ProviderError::OutOfCapacity(request.uid.0.to_string()))
        }
        async fn launch_all(&self, requests: &[LaunchRequest]) -> Vec<Answer> {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let answer =
                |one: &LaunchRequest| Err(ProviderError::OutOfCapacity(one.uid.0.to_string()));
            requests.iter().map(answer).collect()
        }
        fn launch_batch(&self) -> usize {
            self.batch
        }
        async fn terminate(&self, _: &MachineId) -> Result<(), ProviderError> {
            Ok(())
        }
        async fn get(&self, id: &MachineId) -> Answer {
            Err(ProviderError::NotFound(id.to_string()))
        }
        async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
            Ok(Vec::new())
        }
        async fn drift(&self, _: &Machine) -> Result<Option<String>, ProviderError> {
            Ok(None)
        }
    }

    fn request(number: usize) -> LaunchRequest {
        LaunchRequest {
            uid: Uid(format!("uid-{number}").into()),
            name: format!("machine-{number}").into(),
            purchase: Purchase {
                catalog: "c".into(),
                instance_type: "t".into(),
                zone: "z".into(),
                capacity_type: CapacityType::OnDemand,
                reservation: None,
                host: None,
                price: Money::ZERO,
            },
            capacity: Resources::default(),
            labels: Labels::default(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            max_price: None,
        }
    }

    async fn launch_ten(batch: usize) -> usize {
        let provider = Counting {
            batch,
            ..Counting::default()
        };
        let (launches, calls, fence) = (Launches::default(), Calls::default(), Fence::open());
        let requests: Vec<_> = (0..10).map(request).collect();
        let all = requests
            .iter()
            .map(|one| launches.launch(&provider, &calls, &fence, one));
        let answers = futures::future::join_all(all).await;
        for (request, answer) in requests.iter().zip(answers) {
            let said = ProviderError::OutOfCapacity(request.uid.0.to_string());
            assert_eq!(answer, Err(said), "each request has its own answer");
        }
        provider.calls.load(Ordering::SeqCst)
    }

    #[tokio::test(start_paused = true)]
    async fn a_cloud_that_can_sells_many_machines_in_one_call() {
        assert_eq!(launch_ten(100).await, 1);
        assert_eq!(launch_ten(4).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cloud_that_cannot_is_asked_for_each() {
        assert_eq!(launch_ten(1).await, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_call_leaves_nobody_waiting() {
        let provider = Counting {
            batch: 100,
            ..Counting::default()
        };
        let (launches, calls, fence) = (Launches::default(), Calls::default(), Fence::open());
        let (first, second) = (request(1), request(2));
        let mut leader = Box::pin(launches.launch(&provider, &calls, &fence, &first));
        assert!(futures::poll!(&mut leader).is_pending());
        let mut follower = Box::pin(launches.launch(&provider, &calls, &fence, &second));
        assert!(futures::poll!(&mut follower).is_pending());
        drop(leader);
        assert_eq!(follower.await, Err(cancelled()));
        let again = launches.launch(&provider, &calls, &fence, &second).await;
        assert_eq!(again.unwrap_err().kind(), "out_of_capacity");
    }
}
