//! Reading Kubernetes' protobuf form, which kubectl's typed commands send.
//!
//! Only reading: answers are JSON, which every client accepts. The field numbers come from an asset
//! that `cargo xtask protobuf` collects from the `.proto` files of Kubernetes.

use std::{
    collections::{BTreeMap, HashMap},
    io::Read as _,
    sync::OnceLock,
};

use flate2::read::GzDecoder;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::base64;

static FIELDS: &[u8] = include_bytes!("../../assets/protobuf/fields.txt.gz");

/// What every body in this form begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Structures that Go embeds: their fields stand among those of the parent.
const INLINE: [&str; 5] = [
    "volumeSource",
    "handler",
    "persistentVolumeSource",
    "ephemeralContainerCommon",
    "localObjectReference",
];

/// Fields behind a pointer in Go: a zero in them was said on purpose. All other fields write their
/// zero always, and nobody means it.
const POINTERS: [&str; 31] = [
    "activeDeadlineSeconds",
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "backoffLimit",
    "blockOwnerDeletion",
    "completions",
    "controller",
    "enableServiceLinks",
    "expirationSeconds",
    "failedJobsHistoryLimit",
    "fsGroup",
    "gracePeriodSeconds",
    "immutable",
    "leaseTransitions",
    "optional",
    "orphanDependents",
    "parallelism",
    "partition",
    "priority",
    "privileged",
    "readOnlyRootFilesystem",
    "replicas",
    "revisionHistoryLimit",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "storageClassName",
    "successfulJobsHistoryLimit",
    "suspend",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
];

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    One,
    Many,
    Keyed,
}

#[derive(Debug, Clone)]
struct Field {
    name: String,
    shape: Shape,
    kind: String,
}

type Messages = HashMap<String, BTreeMap<u64, Field>>;

fn messages() -> &'static Messages {
    static LOADED: OnceLock<Messages> = OnceLock::new();
    LOADED.get_or_init(|| {
        let mut text = String::new();
        if let Err(error) = GzDecoder::new(FIELDS).read_to_string(&mut text) {
            tracing::error!(%error, "the field numbers of protobuf messages can't be read");
        }
        read_asset(&text)
    })
}

fn read_asset(text: &str) -> Messages {
    let mut found = Messages::new();
    let mut current = String::new();
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some(number), Some(name), Some(kind)) => {
                let (shape, kind) = match (kind.strip_prefix("[]"), kind.strip_prefix("{}")) {
                    (Some(item), _) => (Shape::Many, item),
                    (_, Some(value)) => (Shape::Keyed, value),
                    _ => (Shape::One, kind),
                };
                let field = Field {
                    name: name.to_owned(),
                    shape,
                    kind: kind.to_owned(),
                };
                if let Ok(number) = number.parse() {
                    found
                        .entry(current.clone())
                        .or_default()
                        .insert(number, field);
                }
            }
            (Some(name), None, None) => {
                name.clone_into(&mut current);
                found.entry(current.clone()).or_default();
            }
            _ => {}
        }
    }
    found
}

/// Whether a body is in this form.
pub(crate) fn is_protobuf(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Reads a body as the JSON that it stands for.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let body = bytes.strip_prefix(MAGIC).ok_or(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
    )?;
    let envelope = Reader { bytes: body }.message("k8s.io.apimachinery.pkg.runtime.Unknown")?;
    let text = |field: &str| {
        envelope["typeMeta"][field]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let raw = envelope["raw"]
        .as_str()
        .and_then(base64::decode)
        .unwrap_or_default();
    let message = message_name(&api_version, &kind)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let mut object = Reader { bytes: &raw }.message(&message)?;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    Ok(object)
}

/// The message of a kind.
fn message_name(api_version: &str, kind: &str) -> Option<String> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let folder = match group.split('.').next().unwrap_or_default() {
        "" => "core",
        other => other,
    };
    [
        format!("k8s.io.api.{folder}.{version}.{kind}"),
        format!("k8s.io.apimachinery.pkg.apis.meta.v1.{kind}"),
    ]
    .into_iter()
    .find(|name| messages().contains_key(name))
}

/// One value as it stands on the wire.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

struct Reader<'a> {
    bytes: &'a [u8],
}

const CUT: &str = "unexpected EOF";

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.bytes.split_first().ok_or(CUT)?;
            self.bytes = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".to_owned())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self.bytes.split_at_checked(count).ok_or(CUT)?;
        self.bytes = rest;
        Ok(head)
    }

    /// The next field: its number and value.
    fn field(&mut self) -> Result<(u64, Wire<'a>), String> {
        let key = self.varint()?;
        let wire = match key & 7 {
            0 => Wire::Number(self.varint()?),
            1 => Wire::Number(little_endian(self.take(8)?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| CUT)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Number(little_endian(self.take(4)?)),
            other => return Err(format!("proto: illegal wireType {other}")),
        };
        Ok((key >> 3, wire))
    }

    fn message(mut self, name: &str) -> Result<Value, String> {
        if let Some(special) = special(name, self.bytes) {
            return special;
        }
        let known = messages()
            .get(name)
            .ok_or_else(|| format!("unknown message {name}"))?;
        let mut object = Map::new();
        while !self.bytes.is_empty() {
            let (number, wire) = self.field()?;
            let Some(field) = known.get(&number) else {
                continue;
            };
            match field.shape {
                Shape::Keyed => {
                    let Wire::Bytes(entry) = wire else { continue };
                    let (key, value) = map_entry(entry, &field.kind)?;
                    let map = object
                        .entry(field.name.clone())
                        .or_insert_with(|| json!({}));
                    if let Some(map) = map.as_object_mut() {
                        map.insert(key, value);
                    }
                }
                Shape::Many => {
                    let value = value_of(&wire, &field.kind)?;
                    let list = object
                        .entry(field.name.clone())
                        .or_insert_with(|| json!([]));
                    if let Some(list) = list.as_array_mut() {
                        list.push(value);
                    }
                }
                Shape::One => {
                    let value = value_of(&wire, &field.kind)?;
                    put(&mut object, field, value);
                }
            }
        }
        Ok(Value::Object(object))
    }
}

fn put(object: &mut Map<String, Value>, field: &Field, value: Value) {
    if INLINE.contains(&field.name.as_str()) {
        if let Value::Object(inner) = value {
            object.extend(inner);
        }
        return;
    }
    let zero = value.is_null() || value == "" || value == 0 || value == false;
    if !zero || POINTERS.contains(&field.name.as_str()) {
        object.insert(field.name.clone(), value);
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| (value << 8) | u64::from(*byte))
}

fn value_of(wire: &Wire<'_>, kind: &str) -> Result<Value, String> {
    Ok(match (kind, wire) {
        ("bool", Wire::Number(number)) => json!(*number != 0),
        ("double", Wire::Number(number)) => json!(f64::from_bits(*number)),
        (_, Wire::Number(number)) => json!(number.cast_signed()),
        ("string", Wire::Bytes(bytes)) => json!(String::from_utf8_lossy(bytes)),
        ("bytes", Wire::Bytes(bytes)) => json!(base64::encode_padded(bytes)),
        (_, Wire::Bytes(bytes)) => Reader { bytes }.message(kind)?,
    })
}

fn map_entry(bytes: &[u8], kind: &str) -> Result<(String, Value), String> {
    let mut reader = Reader { bytes };
    let (mut key, mut value) = (String::new(), json!(""));
    while !reader.bytes.is_empty() {
        match reader.field()? {
            (1, Wire::Bytes(bytes)) => key = String::from_utf8_lossy(bytes).into_owned(),
            (2, wire) => value = value_of(&wire, kind)?,
            _ => {}
        }
    }
    Ok((key, value))
}

/// Messages that JSON writes in a form of their own.
fn special(name: &str, bytes: &[u8]) -> Option<Result<Value, String>> {
    let numbers = || -> Result<BTreeMap<u64, Value>, String> {
        let mut reader = Reader { bytes };
        let mut found = BTreeMap::new();
        while !reader.bytes.is_empty() {
            let (number, wire) = reader.field()?;
            let kind = if matches!(wire, Wire::Bytes(_)) {
                "string"
            } else {
                "int64"
            };
            found.insert(number, value_of(&wire, kind)?);
        }
        Ok(found)
    };
    let short = name.rsplit('.').next().unwrap_or_default();
    let read = match short {
        "Time" | "MicroTime" => |fields: &BTreeMap<u64, Value>, micros: bool| {
            let second = fields.get(&1).and_then(Value::as_i64)?;
            let nanos = fields.get(&2).and_then(Value::as_i64).unwrap_or_default();
            let at = Timestamp::new(second, i32::try_from(nanos).ok()?).ok()?;
            Some(json!(if micros {
                format!("{at:.6}")
            } else {
                crate::clock::rfc3339(at)
            }))
        },
        "Quantity" => |fields: &BTreeMap<u64, Value>, _: bool| fields.get(&1).cloned(),
        "IntOrString" => |fields: &BTreeMap<u64, Value>, _: bool| {
            let text = fields.get(&1).and_then(Value::as_i64) == Some(1);
            Some(if text {
                fields.get(&3).cloned().unwrap_or_else(|| json!(""))
            } else {
                fields.get(&2).cloned().unwrap_or_else(|| json!(0))
            })
        },
        "FieldsV1" | "RawExtension" | "JSON" => |fields: &BTreeMap<u64, Value>, _: bool| {
            fields
                .get(&1)
                .and_then(Value::as_str)
                .and_then(|text| serde_json::from_str(text).ok())
        },
        _ => return None,
    };
    Some(numbers().map(|fields| read(&fields, short == "MicroTime").unwrap_or(Value::Null)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delimited(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
        out.extend_from_slice(bytes);
        out
    }

    fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let types = [
            delimited(1, api_version.as_bytes()),
            delimited(2, kind.as_bytes()),
        ]
        .concat();
        [MAGIC.to_vec(), delimited(1, &types), delimited(2, raw)].concat()
    }

    #[test]
    fn an_eviction_is_read() {
        let metadata = [delimited(1, b"web-1"), delimited(3, b"default")].concat();
        let raw = [delimited(1, &metadata), delimited(2, &[0x08, 0x1e])].concat();
        let eviction = parse(&body("policy/v1", "Eviction", &raw)).unwrap();
        assert_eq!(
            eviction,
            json!({
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": "web-1", "namespace": "default"},
                "deleteOptions": {"gracePeriodSeconds": 30},
            })
        );
    }

    #[test]
    fn maps_bytes_and_unsaid_zeros_are_read() {
        let entry = [delimited(1, b"key"), delimited(2, b"value")].concat();
        let metadata = [delimited(1, b"s"), delimited(2, b"")].concat();
        let raw = [delimited(1, &metadata), delimited(2, &entry)].concat();
        let secret = parse(&body("v1", "Secret", &raw)).unwrap();
        assert_eq!(secret["metadata"], json!({"name": "s"}));
        assert_eq!(secret["data"], json!({"key": "dmFsdWU="}));
    }

    #[test]
    fn cut_messages_are_refused() {
        let whole = body("v1", "Secret", &delimited(1, &delimited(1, b"s")));
        for end in 0..whole.len() {
            // Some prefixes are messages of their own; none may panic.
            let _ = parse(&whole[..end]);
        }
        assert!(parse(&whole[..whole.len() - 1]).is_err());
        assert!(parse(b"{}").is_err());
    }
}
