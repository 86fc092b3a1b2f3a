//! Wire JSON as it really is: numbers that are sometimes text, 1 and 0 for yes and no, keys that come and go.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::Value;

fn number<'de, D: Deserializer<'de>>(value: D) -> Result<u64, D::Error> {
    Ok(as_number(&Value::deserialize(value)?).unwrap_or(0))
}

fn maybe<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    Ok(as_number(&Value::deserialize(value)?))
}

fn flag<'de, D: Deserializer<'de>>(value: D) -> Result<bool, D::Error> {
    let value = Value::deserialize(value)?;
    Ok(value
        .as_bool()
        .unwrap_or_else(|| as_number(&value) == Some(1)))
}

/// A number, also where it comes as text or with a fraction.
pub fn as_number(value: &Value) -> Option<u64> {
    match value {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "sizes and counts; what is below nothing is nothing"
        )]
        Value::Number(number) => number
            .as_u64()
            .or_else(|| number.as_f64().map(|number| number as u64)),
        Value::String(text) => text.trim().parse().ok(),
        Value::Bool(yes) => Some(u64::from(*yes)),
        _ => None,
    }
}

/// Text, also where it comes as a number.
pub fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(u8::from(*yes).to_string()),
        _ => None,
    }
}

/// A line of `/cluster/status`.
#[derive(Clone, Debug, Deserialize)]
pub struct Member {
    /// `cluster` or `node`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Whether more than half of the hosts are together.
    #[serde(default, deserialize_with = "flag")]
    pub quorate: bool,
}

/// A host, as `/cluster/resources?type=node` lists it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct HostRow {
    /// Name.
    pub node: String,
    /// `online`, `offline` or `unknown`.
    #[serde(default)]
    pub status: String,
    /// Threads; nothing without the privilege Sys.Audit.
    #[serde(default, deserialize_with = "maybe")]
    pub maxcpu: Option<u64>,
    /// Memory in bytes; nothing without the privilege Sys.Audit.
    #[serde(default, deserialize_with = "maybe")]
    pub maxmem: Option<u64>,
}

/// A machine or container, as `/cluster/resources?type=vm` and `/nodes/N/qemu` list it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Guest {
    /// Its number.
    #[serde(deserialize_with = "vmid")]
    pub vmid: u32,
    /// Where it is; not said where only one host is listed.
    #[serde(default)]
    pub node: String,
    /// `qemu` or `lxc`; not said where only one kind is listed.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Name; comes some seconds after the machine.
    #[serde(default)]
    pub name: Option<String>,
    /// `running`, `stopped` or `unknown`.
    #[serde(default)]
    pub status: String,
    /// Whether it can only be cloned.
    #[serde(default, deserialize_with = "flag")]
    pub template: bool,
    /// Virtual CPUs; called `cpus` where one host is listed.
    #[serde(default, alias = "cpus", deserialize_with = "number")]
    pub maxcpu: u64,
    /// Memory in bytes.
    #[serde(default, deserialize_with = "number")]
    pub maxmem: u64,
    /// Joined by semicolons.
    #[serde(default)]
    pub tags: Option<String>,
    /// What is being done with it.
    #[serde(default)]
    pub lock: Option<String>,
}

fn vmid<'de, D: Deserializer<'de>>(value: D) -> Result<u32, D::Error> {
    let value = Value::deserialize(value)?;
    let number = as_number(&value).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| serde::de::Error::custom("vmid is not a number"))
}

/// Whether a list of tags has this one, whole and whatever its case.
pub fn has_tag(tags: Option<&str>, tag: &str) -> bool {
    let mut all = tags.unwrap_or_default().split([';', ',', ' ']);
    all.any(|one| one.trim().eq_ignore_ascii_case(tag))
}

/// A storage on a host, as `/cluster/resources?type=storage` lists it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct StorageRow {
    /// Name.
    pub storage: String,
    /// Host.
    pub node: String,
    /// `available` or `unknown`.
    #[serde(default)]
    pub status: String,
    /// What it may hold, joined by commas.
    #[serde(default)]
    pub content: String,
    /// Whether all hosts see the same.
    #[serde(default, deserialize_with = "flag")]
    pub shared: bool,
    /// Bytes in use.
    #[serde(default, deserialize_with = "number")]
    pub disk: u64,
    /// Bytes in all.
    #[serde(default, deserialize_with = "number")]
    pub maxdisk: u64,
}

/// What a machine does right now.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Current {
    /// `running` or `stopped`.
    #[serde(default)]
    pub status: String,
    /// What QEMU says: `paused`, `io-error`, …
    #[serde(default)]
    pub qmpstatus: Option<String>,
    /// What is being done with it.
    #[serde(default)]
    pub lock: Option<String>,
}

/// How far a task is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct TaskStatus {
    /// `running` or `stopped`.
    #[serde(default)]
    pub status: String,
    /// How it ended.
    #[serde(default)]
    pub exitstatus: Option<String>,
}

/// The settings of a machine.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(transparent)]
pub struct Config(pub BTreeMap<String, Value>);

impl Config {
    /// A setting as text.
    pub fn text(&self, key: &str) -> Option<String> {
        self.0.get(key).and_then(as_text)
    }

    /// A setting as a number.
    pub fn number(&self, key: &str) -> Option<u64> {
        self.0.get(key).and_then(as_number)
    }

    /// The UUID of the firmware, in lower case.
    pub fn uuid(&self) -> Option<String> {
        let smbios = self.text("smbios1")?;
        let uuid = smbios
            .split(',')
            .find_map(|part| part.strip_prefix("uuid="))?;
        Some(uuid.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_come_as_they_please() {
        let row = json!({"vmid": "1250", "node": "n1", "type": "qemu", "status": "unknown", "maxcpu": 4.0,
            "maxmem": "1024", "template": "1", "tags": "a;Kube-Managed"});
        let guest: Guest = serde_json::from_value(row).unwrap();
        assert_eq!((guest.vmid, guest.maxcpu, guest.maxmem), (1250, 4, 1024));
        assert!(guest.template);
        assert_eq!(guest.name, None);
        let bare: Guest = serde_json::from_value(json!({"vmid": 7, "cpus": 2})).unwrap();
        assert_eq!((bare.vmid, bare.maxcpu, bare.template), (7, 2, false));
    }

    #[test]
    fn a_tag_is_whole_and_has_no_case() {
        let tags = Some("a;kube-managed");
        assert!(has_tag(tags, "kube-managed"));
        assert!(has_tag(tags, "KUBE-MANAGED"));
        assert!(!has_tag(tags, "managed"));
        assert!(!has_tag(None, "managed"));
    }

    #[test]
    fn settings_are_read_as_text_or_number() {
        let config = json!({"memory": "2048", "cores": 4, "smbios1": "uuid=ABC-1,serial=x"});
        let config: Config = serde_json::from_value(config).unwrap();
        assert_eq!(config.number("memory"), Some(2048));
        assert_eq!(config.text("cores").as_deref(), Some("4"));
        assert_eq!(config.uuid().as_deref(), Some("abc-1"));
    }
}
