//! What the simulated cloud has sold, in the ledger of its class: machines outlive the process as real ones would.

use joiner_providers::{Ledger, LedgerEntry, MachineId, ProviderError};
use tracing::error;

use super::Sold;

/// Everything that the ledger knows.
pub(super) async fn load(ledger: &dyn Ledger) -> Result<Vec<Sold>, ProviderError> {
    let entries = ledger.load().await?;
    let read = entries
        .into_iter()
        .filter_map(|entry| match serde_json::from_str(&entry.value) {
            Ok(sold) => Some(sold),
            Err(error) => {
                error!(key = %entry.key, %error, "a ledger entry is no simulated machine: delete it");
                None
            }
        });
    Ok(read.collect())
}

/// Writes a machine down, in place of what was known of it.
pub(super) async fn store(ledger: &dyn Ledger, sold: &Sold) -> Result<(), ProviderError> {
    let value = serde_json::to_string(sold)
        .map_err(|error| ProviderError::Invalid(format!("machine {}: {error}", sold.id())))?;
    let entry = LedgerEntry {
        key: key(sold.id()).into(),
        value,
    };
    ledger.store(&entry).await
}

/// Removes a machine.
pub(super) async fn erase(ledger: &dyn Ledger, id: &MachineId) -> Result<(), ProviderError> {
    ledger.erase(key(id)).await
}

/// The last part of a machine's id is the UID of who asked for it.
fn key(id: &MachineId) -> &str {
    id.0.rsplit('/').next().unwrap_or_default()
}
