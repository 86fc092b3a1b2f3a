//! What a cloud must do.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::Purchase;
use joiner_core::problem::Catalog;

use crate::{LaunchRequest, Machine, MachineId, Notice, ProviderError, Uid};

/// How long things take at this cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// From asking until the cloud has a machine.
    pub launch: Duration,
    /// From asking until the machine is a node.
    pub registration: Duration,
}

impl Default for Timeouts {
    /// Karpenter's: a public cloud that answers within minutes.
    fn default() -> Self {
        Timeouts {
            launch: Duration::from_mins(5),
            registration: Duration::from_mins(15),
        }
    }
}

/// A condition of a node that means its machine is sick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairPolicy {
    /// Type of the node condition.
    pub condition: &'static str,
    /// Its status that means trouble.
    pub status: &'static str,
    /// How long it may be so.
    pub tolerated: Duration,
}

/// One account, cluster or rack, as one node class describes it.
///
/// Every method may be called at any time, concurrently, and again after a crash. None of them waits for a machine:
/// a slow cloud answers with [`MachineState::Pending`](crate::MachineState::Pending) and is asked again.
#[async_trait]
pub trait Provider: Send + Sync {
    /// A short word for logs and metrics.
    fn name(&self) -> &'static str;

    /// Everything that this class could buy. What is sold out is listed too, and marked.
    async fn catalog(&self) -> Result<Catalog, ProviderError>;

    /// Buys a machine and marks it with the request's UID in the same call or before it costs anything. Asked again
    /// with the same UID, returns the same machine, also when the first answer was lost.
    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError>;

    /// Buys several machines in one go, where the cloud can; one answer for each request, in the order of the requests.
    async fn launch_all(&self, requests: &[LaunchRequest]) -> Vec<Result<Machine, ProviderError>> {
        futures::future::join_all(requests.iter().map(|request| self.launch(request))).await
    }

    /// How many machines [`Provider::launch_all`] buys in one call. With 1 each is launched by itself.
    fn launch_batch(&self) -> usize {
        1
    }

    /// Sees to it that the machine goes. `Ok` when it is on its way out, `NotFound` once it is really gone; never
    /// touches a machine that does not carry our mark.
    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError>;

    /// One machine, read where it cannot be stale.
    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError>;

    /// The machine that was bought for this UID, read where it cannot be stale. A cloud that can look machines up by
    /// their mark should; the list has to do otherwise.
    async fn find(&self, uid: &Uid) -> Result<Machine, ProviderError> {
        let all = self.list().await?;
        let own = all
            .into_iter()
            .find(|machine| machine.uid.as_ref() == Some(uid));
        own.ok_or_else(|| ProviderError::NotFound(format!("no machine carries the mark {}", uid.0)))
    }

    /// All machines that this cluster owns, or an error: a partial list is never `Ok`.
    async fn list(&self) -> Result<Vec<Machine>, ProviderError>;

    /// Why the machine is not what the class would make today, if so.
    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError>;

    /// What the cloud has announced since the last call; the same notice may come more than once.
    async fn notices(&self) -> Result<Vec<Notice>, ProviderError> {
        Ok(Vec::new())
    }

    /// What is wrong although it still works: prices that are not of today, a list that could not be renewed.
    async fn concern(&self) -> Option<String> {
        None
    }

    /// When the prices in use were true, where a cloud tells them apart from what it sells.
    async fn prices_as_of(&self) -> Option<Timestamp> {
        None
    }

    /// How long things take for this purchase.
    fn timeouts(&self, _: &Purchase) -> Timeouts {
        Timeouts::default()
    }

    /// What the cloud counts calls against, as a fingerprint that tells no secret: classes with the same one share the
    /// limits on calls. `None`: this class shares them with no other.
    fn credential(&self) -> Option<Name> {
        None
    }

    /// Ends what must not stay open, such as sessions. Called when the class changes or goes, and at shutdown; the
    /// provider may be used again afterwards.
    async fn close(&self) {}

    /// Removes what the class has at the cloud besides machines, such as empty node pools. Called when no pool and no
    /// machine uses the class any more, and again until it succeeds: only then may the class itself go, because without
    /// it no other process would know what was left.
    async fn clear(&self) -> Result<(), ProviderError> {
        Ok(())
    }

    /// Which node conditions mean that a machine is sick.
    fn repair_policies(&self) -> &[RepairPolicy] {
        &[]
    }
}
