//! What is done when a class goes: nobody is there afterwards to remove its pools.

use super::Ovh;
use crate::ProviderError;

impl Ovh {
    /// Removes the pools of a class that has no machines. A pool is kept for a while after its last node has gone, for
    /// machines that come and go; when the class goes there are none to come.
    pub(super) async fn leave(&self) {
        // At shutdown another process leads: pools are for it to keep.
        if self.options.ledger.term().is_none() || self.known_site().is_none() {
            return;
        }
        if let Err(error) = self.remove_pools().await {
            tracing::warn!(%error, "node pools of a class that is not in use stay");
        }
    }

    async fn remove_pools(&self) -> Result<(), ProviderError> {
        // A class that has only changed has another provider by now, which may be buying: the ledger says so first.
        if self.is_in_use().await? {
            return Ok(());
        }
        let kube = &self.site().await?.kube;
        let mut fleet = self.fleet.lock().await;
        fleet.read = None;
        for pool in self.client.pools(kube).await? {
            let own = self.options.mark.owns(&pool) && !pool.is_leaving();
            if !own || pool.desired_nodes > 0 {
                continue;
            }
            if self.is_in_use().await? {
                return Ok(());
            }
            match self.client.delete(kube, &pool.id).await {
                Ok(()) => {
                    tracing::info!(pool = %pool.name, "removed a node pool of a class without machines");
                }
                Err(refused) => {
                    tracing::warn!(pool = %pool.name, error = %refused.error, "an empty node pool stays");
                }
            }
        }
        Ok(())
    }

    async fn is_in_use(&self) -> Result<bool, ProviderError> {
        let ledger = &self.options.ledger;
        Ok(ledger.term().is_none() || !ledger.load().await?.is_empty())
    }
}
