//! Whose machine it is: a tag that lists show, and a mark in the description that proves it.
//!
//! Numbers are used again, names can be given twice, tags and descriptions are copied when somebody clones a machine.
//! So the mark names the cluster, the family, the object, the number, the name and the UUID, and a machine is ours only
//! if all of them are what the machine itself has.

use std::fmt::Write as _;

use jiff::Timestamp;
use joiner_core::name::Name;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::types::{Config, has_tag};
use crate::{Owner, Uid};

/// What stands before the mark in a description.
const KEY: &str = "joiner.dev/machine: ";

/// How far a machine has come, as far as it must be known after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It is to run.
    #[default]
    Wanted,
    /// It is to go, and must not be started again.
    Unwanted,
}

/// What is written on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mark {
    /// Which Kubernetes cluster.
    pub cluster: Name,
    /// Which family of objects.
    pub family: Name,
    /// Which object.
    pub uid: Uid,
    /// Which number: a copy has another.
    pub vmid: u32,
    /// Which name.
    pub name: String,
    /// Which UUID its firmware reports.
    pub uuid: String,
    /// Range that it was made from.
    pub instance_type: Name,
    /// Zone that it was made in; it stays what its node says when the machine is moved.
    pub zone: Name,
    /// Cores that it is to have: a copy has those of its template until it is set up.
    pub cores: u32,
    /// Memory that it is to have, in MiB.
    pub memory_mib: u64,
    /// Settings that it was made with, as a digest.
    pub settings: String,
    /// When it was made.
    pub created: Timestamp,
    /// How far it has come.
    #[serde(default)]
    pub stage: Stage,
    /// Whether it is a copy of a template that is not set up yet: it still has the tags and the UUID that came with the
    /// copy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copying: bool,
}

impl Mark {
    /// The description of a machine that carries this mark.
    pub fn description(&self) -> String {
        let line = serde_json::to_string(self).unwrap_or_default();
        format!(
            "Node {} of a Kubernetes cluster. Joiner makes and removes it; the next line says whose it is.\n\n{KEY}{line}\n",
            self.name
        )
    }

    /// Reads a description.
    pub fn read(description: &str) -> Option<Self> {
        let line = description
            .lines()
            .find_map(|line| line.trim().strip_prefix(KEY))?;
        serde_json::from_str(line).ok()
    }
}

/// A machine whose mark is ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proven {
    /// What is written on it.
    pub mark: Mark,
    /// Whether it is all there: a copy of a template gets tag and UUID only after it was copied.
    pub finished: bool,
}

/// Whether a machine is ours, or why not.
pub fn prove(owner: &Owner, tag: &str, vmid: u32, config: &Config) -> Result<Proven, String> {
    let description = config.text("description").unwrap_or_default();
    let mark =
        Mark::read(&description).ok_or_else(|| format!("VM {vmid} carries no mark of Joiner"))?;
    if mark.cluster != owner.cluster || mark.family != owner.family {
        return Err(format!("VM {vmid} belongs to another cluster or family"));
    }
    if mark.vmid != vmid {
        return Err(format!("VM {vmid} is a copy of VM {}", mark.vmid));
    }
    let name = config.text("name").unwrap_or_default();
    if name != mark.name {
        return Err(format!(
            "VM {vmid} is called {name:?}, and was made as {:?}",
            mark.name
        ));
    }
    let tagged = has_tag(config.text("tags").as_deref(), tag);
    let uuid = config.uuid().unwrap_or_default();
    match (tagged, uuid == mark.uuid) {
        (true, true) => Ok(Proven {
            mark,
            finished: true,
        }),
        // A copy of a template: marked with its own number and name by the call that made it. The template may carry the
        // tag too.
        (false, false) => Ok(Proven {
            mark,
            finished: false,
        }),
        (true, false) if mark.copying => Ok(Proven {
            mark,
            finished: false,
        }),
        (false, true) => Err(format!("VM {vmid} has lost the tag {tag}")),
        (true, false) => Err(format!(
            "VM {vmid} has the UUID {uuid}, and was made with {}",
            mark.uuid
        )),
    }
}

/// The UUID that the firmware of a machine reports: that of its object, so that its node is known for certain.
pub fn uuid(uid: &Uid) -> String {
    let text = uid.0.to_ascii_lowercase();
    let groups: Vec<&str> = text.split('-').collect();
    let hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    let lengths: Vec<usize> = groups.iter().map(|part| part.len()).collect();
    if lengths == [8, 4, 4, 4, 12] && groups.iter().all(|part| hex(part)) {
        return text;
    }
    let digits = digest(&text);
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-4{}-8{}-{}",
        part(0, 8),
        part(8, 12),
        part(13, 16),
        part(17, 20),
        part(20, 32)
    )
}

/// A short name for a text.
pub fn digest(text: &str) -> String {
    let octets = Sha256::digest(text.as_bytes());
    let mut digits = String::with_capacity(32);
    for octet in octets.iter().take(16) {
        let _ = write!(digits, "{octet:02x}");
    }
    digits
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(in crate::proxmox) fn owner() -> Owner {
        Owner {
            cluster: "c-1".into(),
            family: "karpenter".into(),
        }
    }

    fn mark() -> Mark {
        Mark {
            cluster: "c-1".into(),
            family: "karpenter".into(),
            uid: Uid("0b5cbbe1-0000-4000-8000-000000000001".into()),
            vmid: 1250,
            name: "pool-a".to_owned(),
            uuid: "0b5cbbe1-0000-4000-8000-000000000001".to_owned(),
            instance_type: "proxmox-16".into(),
            zone: "n1".into(),
            cores: 4,
            memory_mib: 8192,
            settings: "x".to_owned(),
            created: Timestamp::UNIX_EPOCH,
            stage: Stage::Wanted,
            copying: false,
        }
    }

    fn config(mark: &Mark) -> Config {
        let config = json!({"name": "pool-a", "tags": "joiner;web", "description": mark.description(),
            "smbios1": format!("uuid={}", mark.uuid)});
        serde_json::from_value(config).unwrap()
    }

    #[test]
    fn a_machine_is_ours_only_if_everything_agrees() {
        type Change = fn(&mut Config);
        let good = mark();
        let proven = prove(&owner(), "joiner", 1250, &config(&good)).unwrap();
        assert!(proven.finished);
        assert_eq!(proven.mark, good);
        let changes: [(&str, Change); 6] = [
            ("no mark", |config| drop(config.0.remove("description"))),
            ("lost the tag", |config| {
                drop(config.0.insert("tags".into(), "web".into()));
            }),
            ("has the UUID", |config| {
                drop(config.0.insert("smbios1".into(), "uuid=beef".into()));
            }),
            ("is called", |config| {
                drop(config.0.insert("name".into(), "db".into()));
            }),
            ("a copy of", |config| {
                let copied = Mark {
                    vmid: 1251,
                    ..mark()
                };
                config
                    .0
                    .insert("description".into(), copied.description().into());
            }),
            ("another cluster", |config| {
                let other = Mark {
                    cluster: "c-2".into(),
                    ..mark()
                };
                config
                    .0
                    .insert("description".into(), other.description().into());
            }),
        ];
        for (why, change) in changes {
            let mut config = config(&good);
            change(&mut config);
            let said = prove(&owner(), "joiner", 1250, &config).unwrap_err();
            assert!(said.contains(why), "{why}: {said}");
        }
    }

    #[test]
    fn a_copy_that_is_not_set_up_yet_is_ours_by_its_mark() {
        let mut config = config(&mark());
        config.0.insert("tags".into(), "template".into());
        config.0.insert("smbios1".into(), "uuid=beef".into());
        assert!(!prove(&owner(), "joiner", 1250, &config).unwrap().finished);
    }

    #[test]
    fn a_copy_of_a_template_that_carries_the_tag_is_ours_until_it_is_set_up() {
        let copying = Mark {
            copying: true,
            ..mark()
        };
        let mut half = config(&copying);
        half.0.insert("smbios1".into(), "uuid=beef".into());
        assert!(!prove(&owner(), "joiner", 1250, &half).unwrap().finished);
        let unwanted = Mark {
            stage: Stage::Unwanted,
            ..copying
        };
        half.0
            .insert("description".into(), unwanted.description().into());
        let proven = prove(&owner(), "joiner", 1250, &half).unwrap();
        assert_eq!(
            (proven.finished, proven.mark.stage),
            (false, Stage::Unwanted)
        );
        assert!(!mark().description().contains("copying"));
    }

    #[test]
    fn the_uuid_is_that_of_the_object_or_made_of_it() {
        let uid = |text: &str| Uid(text.into());
        let given = "0B5CBBE1-0000-4000-8000-000000000001";
        assert_eq!(uuid(&uid(given)), given.to_ascii_lowercase());
        let made = uuid(&uid("x"));
        assert_eq!(made.len(), 36);
        assert_eq!(made, uuid(&uid("x")));
        assert_ne!(made, uuid(&uid("y")));
    }
}
