//! Which host is whose machine.
//!
//! A BMC cannot carry our mark reliably, so the claim on a host stands in the ledger, written before the host is
//! powered on. Beside that, [`Reservations`] keeps all classes of one process from claiming one host twice at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use joiner_core::name::Name;
use serde::{Deserialize, Serialize};

use crate::{LedgerEntry, MachineId, ProviderError, Uid};

/// How far a claim has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "phase")]
pub enum Phase {
    /// The host is ours; power-on has not been asked for. If it is on, somebody else did that.
    Claimed,
    /// Power-on was asked for at this time, or is about to be.
    Starting {
        /// When.
        asked: Timestamp,
    },
    /// It was seen on.
    Running,
    /// It is to go off.
    Releasing {
        /// When a graceful shutdown was asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        graceful: Option<Timestamp>,
        /// When power-on was last asked for, which may still take effect.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        started: Option<Timestamp>,
    },
}

/// A host that is a machine of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// Who asked for the machine.
    pub uid: Uid,
    /// Name of the host in the inventory.
    pub host: Name,
    /// Address of its BMC, for hosts that have left the inventory.
    pub address: String,
    /// Path of its system.
    pub system: String,
    /// What tells the system from every other.
    pub identity: Name,
    /// UUID of the system, by which its node is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_uuid: Option<String>,
    /// When it was claimed.
    pub since: Timestamp,
    /// How far it has come.
    #[serde(flatten)]
    pub phase: Phase,
}

impl Claim {
    /// What its node is called by the cloud: `redfish://<bmc>/Systems/<id>`.
    pub fn provider_id(&self) -> Name {
        let rest = self.address.split_once("://");
        let rest = rest.map_or(&*self.address, |(_, rest)| rest);
        let bmc = rest.split('/').next().unwrap_or_default();
        let system = self.system.trim_end_matches('/');
        let id = system.rsplit('/').next().unwrap_or_default();
        format!("redfish://{bmc}/Systems/{id}").into()
    }

    /// What the machine is called. A host is used again, so the UID that asked for it is part of the name.
    pub fn id(&self) -> MachineId {
        MachineId(format!("{}#{}", self.provider_id(), self.uid.0).into())
    }

    /// As an entry of the ledger.
    pub fn entry(&self) -> Result<LedgerEntry, ProviderError> {
        let value = serde_json::to_string(self).map_err(|error| {
            ProviderError::Transient(format!(
                "the claim on host {} cannot be written: {error}",
                self.host
            ))
        })?;
        Ok(LedgerEntry {
            key: self.uid.0.clone(),
            value,
        })
    }

    /// From an entry of the ledger.
    pub fn read(entry: &LedgerEntry) -> Result<Self, ProviderError> {
        serde_json::from_str(&entry.value).map_err(|error| {
            ProviderError::Transient(format!(
                "entry {} of the ledger cannot be read: {error}",
                entry.key
            ))
        })
    }
}

/// The UID in the name of a machine.
pub fn uid_of(id: &MachineId) -> Result<Uid, ProviderError> {
    let rest = id.0.strip_prefix("redfish://");
    let uid = rest.and_then(|rest| rest.rsplit_once('#'));
    uid.filter(|(host, uid)| !host.is_empty() && !uid.is_empty())
        .map(|(_, uid)| Uid(uid.into()))
        .ok_or_else(|| ProviderError::Invalid(format!("{id} is not a machine of an inventory")))
}

#[derive(Debug)]
struct Holder {
    uid: Uid,
    term: u64,
}

/// Claims of all classes in this process, by the identity of the host. What was reserved in one term of leadership is
/// void in the next.
#[derive(Debug, Default)]
pub struct Reservations(Mutex<BTreeMap<Name, Holder>>);

impl Reservations {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, Holder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves a host; says who has it if somebody else does.
    pub fn reserve(&self, identity: &Name, uid: &Uid, term: u64) -> Result<(), Uid> {
        let mut held = self.lock();
        match held.get(identity) {
            Some(holder) if holder.term == term && holder.uid != *uid => Err(holder.uid.clone()),
            _ => {
                let uid = uid.clone();
                held.insert(identity.clone(), Holder { uid, term });
                Ok(())
            }
        }
    }

    /// Gives a host back, if it is held for this machine.
    pub fn release(&self, identity: &Name, uid: &Uid) {
        let mut held = self.lock();
        if held.get(identity).is_some_and(|holder| holder.uid == *uid) {
            held.remove(identity);
        }
    }

    /// Who holds a host, which may have been claimed under another form of its identity.
    pub fn holder(&self, is: impl Fn(&str) -> bool, term: u64) -> Option<Uid> {
        let held = self.lock();
        let mut holders = held.iter().filter(|(_, holder)| holder.term == term);
        let (_, holder) = holders.find(|(identity, _)| is(identity))?;
        Some(holder.uid.clone())
    }

    /// Whether a machine holds any host.
    pub fn holds(&self, uid: &str, term: u64) -> bool {
        let held = self.lock();
        held.values()
            .any(|holder| holder.term == term && &*holder.uid.0 == uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim() -> Claim {
        Claim {
            uid: Uid("7c1f0f1e".into()),
            host: "metal-1".into(),
            address: "https://10.0.9.11".into(),
            system: "/redfish/v1/Systems/1/".into(),
            identity: "x".into(),
            system_uuid: None,
            since: "2026-11-18T12:00:00Z".parse().unwrap(),
            phase: Phase::Releasing {
                graceful: None,
                started: Some("2026-11-18T12:00:05Z".parse().unwrap()),
            },
        }
    }

    #[test]
    fn a_claim_survives_the_ledger() {
        let entry = claim().entry().unwrap();
        assert_eq!(Claim::read(&entry), Ok(claim()));
        assert_eq!(&*entry.key, "7c1f0f1e");
        assert!(
            Claim::read(&LedgerEntry {
                key: "x".into(),
                value: "{}".into()
            })
            .is_err()
        );
    }

    #[test]
    fn an_id_leads_back_to_the_uid_and_names_the_host() {
        let id = claim().id();
        assert_eq!(&*id.0, "redfish://10.0.9.11/Systems/1#7c1f0f1e");
        assert_eq!(uid_of(&id), Ok(Uid("7c1f0f1e".into())));
        for odd in ["redfish://10.0.9.11/Systems/1", "redfish://#x", "x#y", ""] {
            assert!(uid_of(&MachineId(odd.into())).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_host_is_reserved_once_in_a_term() {
        let all = Reservations::default();
        let host: Name = "host".into();
        let (a, b) = (Uid("a".into()), Uid("b".into()));
        assert_eq!(all.reserve(&host, &a, 1), Ok(()));
        assert_eq!(all.reserve(&host, &a, 1), Ok(()));
        assert_eq!(all.reserve(&host, &b, 1), Err(a.clone()));
        all.release(&host, &b);
        let is_it = |identity: &str| *identity == *host;
        assert_eq!(all.holder(is_it, 1), Some(a.clone()));
        assert_eq!(all.holder(is_it, 2), None);
        assert_eq!(all.reserve(&host, &b, 2), Ok(()));
        all.release(&host, &b);
        assert_eq!(all.reserve(&host, &a, 2), Ok(()));
    }
}
