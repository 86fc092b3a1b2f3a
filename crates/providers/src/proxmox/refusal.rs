//! What Proxmox means when it says no.
//!
//! The status says little: almost everything is a 500, a missing machine too. The text in the reason phrase, or at the
//! end of a task, is what tells; all of it is read here and nowhere else.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::ProviderError;

/// What is wrong, by what is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The token is wrong, expired or removed.
    Token,
    /// The token lacks a privilege.
    Privilege,
    /// An option is not acceptable.
    Option,
    /// The id is taken.
    Exists,
    /// There is no such machine on that host.
    Missing,
    /// Something else is being done with the machine: a backup, a migration.
    Locked,
    /// Too much is being done at once: a lock was not to be had in time, a worker did not start.
    Busy,
    /// The cluster has no quorum: it can be read, and not written.
    NoQuorum,
    /// The storage has no room left.
    StorageFull,
    /// The storage is not there, or not on that host.
    StorageMissing,
    /// The host has no memory left, or lacks something that the machine needs to start.
    HostUnfit,
    /// The host that owns the machine does not answer. The call had no effect.
    HostOffline,
    /// The machine runs, and should not for this.
    Running,
    /// The machine is protected against being removed.
    Protected,
    /// The host that the call was handed to did not say how it ended: it may have taken effect.
    Unanswered,
    /// The task is not known (yet).
    NoTask,
    /// Path or method is unknown: an old version, or not Proxmox.
    NoSuchCall,
    /// Anything else; it may pass.
    Other,
}

/// Why a call did not do what it should.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// Proxmox refused.
    #[error("{text}")]
    Refused {
        /// What it means.
        trouble: Trouble,
        /// What it said.
        text: String,
    },
    /// There was no answer, or none that can be read: whether the call took effect is unknown.
    #[error("{0}")]
    Lost(String),
    /// What answers is not Proxmox, or the client cannot be set up.
    #[error("{0}")]
    Misplaced(String),
}

impl CallError {
    /// What it means.
    pub fn trouble(&self) -> Trouble {
        match self {
            CallError::Refused { trouble, .. } => *trouble,
            CallError::Lost(_) => Trouble::Other,
            CallError::Misplaced(_) => Trouble::NoSuchCall,
        }
    }

    /// Whether the call certainly changed nothing.
    pub fn had_no_effect(&self) -> bool {
        matches!(self, CallError::Refused { .. } | CallError::Misplaced(_))
    }
}

impl From<CallError> for ProviderError {
    fn from(error: CallError) -> Self {
        let (trouble, text) = match error {
            CallError::Refused { trouble, text } => (trouble, text),
            CallError::Lost(text) => return ProviderError::Transient(text),
            CallError::Misplaced(text) => return ProviderError::Invalid(text),
        };
        match trouble {
            Trouble::Token | Trouble::Privilege => ProviderError::Unauthorised(text),
            Trouble::Option | Trouble::NoSuchCall => ProviderError::Invalid(text),
            Trouble::Missing => ProviderError::NotFound(text),
            Trouble::StorageFull
            | Trouble::StorageMissing
            | Trouble::HostUnfit
            | Trouble::HostOffline => ProviderError::OutOfCapacity(text),
            Trouble::Exists
            | Trouble::Locked
            | Trouble::Busy
            | Trouble::NoQuorum
            | Trouble::Running
            | Trouble::Protected
            | Trouble::Unanswered
            | Trouble::NoTask
            | Trouble::Other => ProviderError::Transient(text),
        }
    }
}

/// What a refusal means: its status, if it came with one, its text and the fields that it names.
pub fn trouble(status: Option<u16>, text: &str, fields: &BTreeMap<String, String>) -> Trouble {
    let said = |words: &[&str]| words.iter().all(|word| text.contains(word));
    match status {
        Some(401) => return Trouble::Token,
        Some(595) => return Trouble::HostOffline,
        Some(596..=599) => return Trouble::Unanswered,
        Some(501) => return Trouble::NoSuchCall,
        _ => {}
    }
    if said(&["Permission check failed"])
        || said(&["not available with API token"])
        || status == Some(403)
    {
        return Trouble::Privilege;
    }
    if said(&["no quorum"]) || said(&["cluster not ready"]) {
        return Trouble::NoQuorum;
    }
    if said(&["no such task"]) {
        return Trouble::NoTask;
    }
    if let Some(trouble) = of_machine(&said) {
        return trouble;
    }
    if let Some(trouble) = of_storage(&said) {
        return trouble;
    }
    if fields
        .values()
        .any(|text| text.contains("already exists") && text.contains("VM"))
    {
        return Trouble::Exists;
    }
    if status == Some(400)
        || said(&["only root can set"])
        || said(&["unable to parse"])
        || said(&["invalid format"])
    {
        return Trouble::Option;
    }
    Trouble::Other
}

fn of_machine(said: &dyn Fn(&[&str]) -> bool) -> Option<Trouble> {
    let any = |all: &[&[&str]]| all.iter().any(|words| said(words));
    Some(
        if any(&[&["VM", "already exists"], &["config file already exists"]]) {
            Trouble::Exists
        } else if any(&[
            &["Configuration file", "does not exist"],
            &["no such VM"],
            &["unable to find configuration file for VM"],
        ]) {
            Trouble::Missing
        } else if said(&["VM is locked"]) {
            Trouble::Locked
        } else if any(&[
            &["can't lock file"],
            &["got lock request timeout"],
            &["got lock timeout"],
            &["got no worker upid"],
            &["proxy loop detected"],
        ]) {
            Trouble::Busy
        } else if any(&[
            &["is running - destroy failed"],
            &["unable to destroy", "is running"],
        ]) {
            Trouble::Running
        } else if said(&["protection mode enabled"]) {
            Trouble::Protected
        } else if any(&[
            &["hostname lookup"],
            &["No route to host"],
            &["Network is unreachable"],
        ]) {
            Trouble::HostOffline
        } else if any(&[
            &["start failed"],
            &["QEMU exited with code"],
            &["bridge", "does not exist"],
            &["no physical interface on bridge"],
            &["Cannot allocate memory"],
            &["vcpus allowed per VM on this node"],
            &["can't clone VM to node"],
            &["can't clone to non-shared storage"],
        ]) {
            Trouble::HostUnfit
        } else {
            return None;
        },
    )
}

fn of_storage(said: &dyn Fn(&[&str]) -> bool) -> Option<Trouble> {
    let any = |all: &[&[&str]]| all.iter().any(|words| said(words));
    Some(
        if any(&[
            &["out of space"],
            &["No space left on device"],
            &["lvcreate", "error"],
            &["not enough free space"],
            &["insufficient free space"],
        ]) {
            Trouble::StorageFull
        } else if any(&[
            &["storage", "does not exist"],
            &["is not available on node"],
            &["storage", "is disabled"],
            &["storage", "is not online"],
            &["volume", "does not exist"],
            &["no such volume"],
            &["no such logical volume"],
        ]) {
            Trouble::StorageMissing
        } else {
            return None;
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, text: &str) -> Trouble {
        trouble(Some(status), text, &BTreeMap::new())
    }

    #[test]
    fn every_documented_refusal_has_its_meaning() {
        for (status, text, expected) in [
            (401, "", Trouble::Token),
            (401, "invalid token value!", Trouble::Token),
            (
                403,
                "Permission check failed (/vms/1250, VM.Allocate)",
                Trouble::Privilege,
            ),
            (
                403,
                "URI '/x' not available with API token, need proper ticket.",
                Trouble::Privilege,
            ),
            (400, "Parameter verification failed.", Trouble::Option),
            (400, "no such task", Trouble::NoTask),
            (500, "only root can set 'args' config", Trouble::Option),
            (
                500,
                "unable to create VM 1250 - VM 1250 already exists on node 'a'",
                Trouble::Exists,
            ),
            (
                500,
                "unable to create VM 1250: config file already exists",
                Trouble::Exists,
            ),
            (
                500,
                "Configuration file 'nodes/n1/qemu-server/1250.conf' does not exist",
                Trouble::Missing,
            ),
            (
                500,
                "can't lock file '/var/lock/qemu-server/lock-1250.conf' - got timeout",
                Trouble::Busy,
            ),
            (
                500,
                "got no worker upid - start worker failed",
                Trouble::Busy,
            ),
            (500, "cluster not ready - no quorum?", Trouble::NoQuorum),
            (500, "storage 'x' does not exist", Trouble::StorageMissing),
            (
                500,
                "storage 'x' is not available on node 'n1'",
                Trouble::StorageMissing,
            ),
            (500, "VM 1250 is running - destroy failed", Trouble::Running),
            (
                500,
                "can't remove VM 1250 - protection mode enabled",
                Trouble::Protected,
            ),
            (
                500,
                "hostname lookup 'x' failed - failed to get address info",
                Trouble::HostOffline,
            ),
            (501, "Method 'GET /x' not implemented", Trouble::NoSuchCall),
            (595, "No route to host", Trouble::HostOffline),
            (596, "Broken pipe", Trouble::Unanswered),
            (599, "Connection timed out", Trouble::Unanswered),
            (500, "something new", Trouble::Other),
        ] {
            assert_eq!(of(status, text), expected, "{status} {text}");
        }
    }

    #[test]
    fn every_documented_end_of_a_task_has_its_meaning() {
        let of = |text: &str| trouble(None, text, &BTreeMap::new());
        for (text, expected) in [
            ("VM is locked (backup)", Trouble::Locked),
            (
                "can't lock file '/var/lock/pve-manager/pve-storage-local' - got timeout",
                Trouble::Busy,
            ),
            (
                "cfs-lock 'storage-ceph' error: got lock request timeout",
                Trouble::Busy,
            ),
            (
                "cfs-lock 'storage-ceph' error: no quorum!",
                Trouble::NoQuorum,
            ),
            (
                "zfs error: cannot create 'rpool/data': out of space",
                Trouble::StorageFull,
            ),
            (
                "lvcreate 'pve/vm-1250-disk-0' error: insufficient free space",
                Trouble::StorageFull,
            ),
            ("start failed: QEMU exited with code 1", Trouble::HostUnfit),
            ("bridge 'vmbr9' does not exist", Trouble::HostUnfit),
            (
                "Permission check failed (/, Sys.Modify for modifying tag 'x')",
                Trouble::Privilege,
            ),
            (
                "can't clone VM to node 'b' (VM uses local storage)",
                Trouble::HostUnfit,
            ),
            ("unexpected status", Trouble::Other),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn an_id_that_is_taken_is_also_told_by_the_field() {
        let fields = BTreeMap::from([("vmid".to_owned(), "VM 200 already exists".to_owned())]);
        let text = "Parameter verification failed.";
        assert_eq!(trouble(Some(400), text, &fields), Trouble::Exists);
    }
}
