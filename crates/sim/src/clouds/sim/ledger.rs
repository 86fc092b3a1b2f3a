//! Where the cloud remembers what it has sold, so that its machines outlive the process that plays it.

use async_trait::async_trait;
use joiner_providers::{MachineId, ProviderError};

use super::machines::Sold;

/// The cloud's memory.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// The number of the present reign; `None` while another process reigns. What was read in one reign is out of date
    /// in the next.
    fn reign(&self) -> Option<u64>;

    /// Whether a reign can end at any moment.
    fn may_end(&self) -> bool {
        true
    }

    /// Everything that is remembered.
    async fn load(&self) -> Result<Vec<Sold>, ProviderError>;

    /// Remembers a machine, in place of what was known of it.
    async fn store(&self, sold: &Sold) -> Result<(), ProviderError>;

    /// Forgets a machine.
    async fn erase(&self, id: &MachineId) -> Result<(), ProviderError>;
}

/// Remembers nothing: the cloud ends with its process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forgetful;

#[async_trait]
impl Ledger for Forgetful {
    fn reign(&self) -> Option<u64> {
        Some(0)
    }

    fn may_end(&self) -> bool {
        false
    }

    async fn load(&self) -> Result<Vec<Sold>, ProviderError> {
        Ok(Vec::new())
    }

    async fn store(&self, _: &Sold) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn erase(&self, _: &MachineId) -> Result<(), ProviderError> {
        Ok(())
    }
}
