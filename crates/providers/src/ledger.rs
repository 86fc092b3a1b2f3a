//! A place to keep what a cloud cannot carry: which of its machines is whose.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use joiner_core::name::Name;

use crate::ProviderError;

/// One entry: a key that the provider chooses, and whatever it wants to know again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Unique within the ledger; letters, digits, `-` and `.` only.
    pub key: Name,
    /// Text, usually JSON.
    pub value: String,
}

/// The entries of one class.
///
/// Crash-safe: what [`Ledger::store`] has returned from is there after a restart. Fenced: only the leader's writes
/// succeed.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Number of the present leadership; `None` while another process leads. What was read in one term is out of date in
    /// the next.
    fn term(&self) -> Option<u64>;

    /// Whether a term can end at any moment.
    fn may_end(&self) -> bool {
        true
    }

    /// All entries, or an error: a partial list is never `Ok`.
    async fn load(&self) -> Result<Vec<LedgerEntry>, ProviderError>;

    /// Entries of all ledgers, those of other classes too, whether these are served yet or not: what another class has
    /// written about hardware that both list counts as much. Values may be of any kind.
    async fn load_all(&self) -> Result<Vec<LedgerEntry>, ProviderError> {
        self.load().await
    }

    /// Writes an entry, in place of what stood under its key.
    async fn store(&self, entry: &LedgerEntry) -> Result<(), ProviderError>;

    /// Removes an entry; one that is not there is no error.
    async fn erase(&self, key: &str) -> Result<(), ProviderError>;
}

/// A ledger that ends with the process: for tests, and for clouds that need none.
#[derive(Debug, Default)]
pub struct MemoryLedger(Mutex<BTreeMap<Name, String>>);

#[async_trait]
impl Ledger for MemoryLedger {
    fn term(&self) -> Option<u64> {
        Some(0)
    }

    fn may_end(&self) -> bool {
        false
    }

    async fn load(&self) -> Result<Vec<LedgerEntry>, ProviderError> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = |(key, value): (&Name, &String)| LedgerEntry {
            key: key.clone(),
            value: value.clone(),
        };
        Ok(entries.iter().map(entry).collect())
    }

    async fn store(&self, entry: &LedgerEntry) -> Result<(), ProviderError> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.insert(entry.key.clone(), entry.value.clone());
        Ok(())
    }

    async fn erase(&self, key: &str) -> Result<(), ProviderError> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(key);
        Ok(())
    }
}
