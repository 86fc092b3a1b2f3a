//! What is done when a class goes: nobody is there afterwards to remove its pools.

use super::Ovh;
use super::errors::Meaning;
use super::fleet::not_leading;
use super::operate::not_an_answer;
use crate::ProviderError;

impl Ovh {
    /// Removes the pools of a class that has no machines, as far as that can be done now. A pool is kept for a while
    /// after its last node has gone, for machines that come and go; when the class goes there are none to come.
    pub(super) async fn leave(&self) {
        // At shutdown another process leads: pools are for it to keep.
        if self.options.ledger.term().is_none() || self.known_site().is_none() {
            return;
        }
        match self.remove_pools().await {
            Ok(None) => {}
            Ok(Some(stays)) => tracing::warn!(%stays, "a node pool of a class that goes stays"),
            Err(error) => {
                tracing::warn!(%error, "node pools of a class that is not in use stay");
            }
        }
    }

    /// Removes every pool of the class, or says which one stays and why.
    pub(super) async fn remove_all_pools(&self) -> Result<(), ProviderError> {
        if self.options.ledger.term().is_none() {
            return Err(not_leading());
        }
        if self.is_in_use().await? {
            let said = "machines of the class are still on record".to_owned();
            return Err(ProviderError::Transient(said));
        }
        match self.remove_pools().await? {
            None => Ok(()),
            Some(stays) => Err(ProviderError::Transient(stays)),
        }
    }

    /// Removes the empty pools of a class without machines. Says which pool stays and why, if one does.
    async fn remove_pools(&self) -> Result<Option<String>, ProviderError> {
        // A class that has only changed has another provider by now, which may be buying: the ledger says so first.
        if self.is_in_use().await? {
            return Ok(None);
        }
        let kube = &self.site().await?.kube;
        let mut fleet = self.fleet.lock().await;
        fleet.read = None;
        let mut stays = None;
        for pool in self.client.pools(kube).await.map_err(not_an_answer)? {
            if !self.options.mark.owns(&pool) || pool.is_leaving() {
                continue;
            }
            let name = &pool.name;
            if pool.desired_nodes > 0 || pool.current_nodes > 0 {
                stays = Some(format!("node pool {name} still has nodes"));
                continue;
            }
            if self.is_in_use().await? {
                return Ok(None);
            }
            match self.client.delete(kube, &pool.id).await {
                Ok(()) => {
                    tracing::info!(pool = %name, "removed a node pool of a class without machines");
                }
                Err(refused) if refused.meaning == Meaning::NotFound => {}
                Err(refused) => {
                    let error = refused.error;
                    stays = Some(format!(
                        "node pool {name} ({}) cannot be removed yet: {error}",
                        pool.status
                    ));
                }
            }
        }
        Ok(stays)
    }

    async fn is_in_use(&self) -> Result<bool, ProviderError> {
        let ledger = &self.options.ledger;
        Ok(ledger.term().is_none() || !ledger.load().await?.is_empty())
    }
}
