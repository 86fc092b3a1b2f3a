//! Parameters as they come over the wire, and what of them Proxmox accepts.

use std::collections::BTreeMap;

use serde_json::Value;

pub(super) type Params = BTreeMap<String, String>;

/// Settings of a machine by their full names.
const KNOWN: [&str; 42] = [
    "vmid",
    "name",
    "memory",
    "cores",
    "sockets",
    "cpu",
    "balloon",
    "boot",
    "ostype",
    "scsihw",
    "tags",
    "description",
    "smbios1",
    "pool",
    "onboot",
    "agent",
    "machine",
    "bios",
    "rng0",
    "numa",
    "hotplug",
    "protection",
    "cicustom",
    "ciuser",
    "cipassword",
    "sshkeys",
    "nameserver",
    "searchdomain",
    "ciupgrade",
    "citype",
    "start",
    "template",
    "vga",
    "tablet",
    "kvm",
    "acpi",
    "cpulimit",
    "cpuunits",
    "startup",
    "shares",
    "delete",
    "digest",
];
/// Settings by the beginning of their names, followed by a number.
const NUMBERED: [&str; 9] = [
    "net", "scsi", "virtio", "sata", "ide", "efidisk", "tpmstate", "ipconfig", "serial",
];

/// A text in which `%XX` stands for an octet and `+` for a space.
pub(super) fn decode(text: &str) -> String {
    let mut octets = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%')
            .then(|| text.get(at + 1..at + 3))
            .flatten()
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(octet) = escaped {
            octets.push(octet);
            at += 3;
        } else {
            octets.push(if *byte == b'+' { b' ' } else { *byte });
            at += 1;
        }
    }
    String::from_utf8_lossy(&octets).into_owned()
}

/// A form or a query. Splits at `;` too and cuts values at a second `=`, as the real server does.
pub(super) fn form(text: &str) -> Params {
    text.split(['&', ';'])
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let mut parts = pair.split('=');
            let key = decode(parts.next().unwrap_or_default());
            (key, decode(parts.next().unwrap_or_default()))
        })
        .collect()
}

/// A body in JSON.
pub(super) fn json(body: &[u8]) -> Option<Params> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let fields = value.as_object()?.iter().map(|(key, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Bool(yes) => u8::from(*yes).to_string(),
            other => other.to_string(),
        };
        (key.clone(), text)
    });
    Some(fields.collect())
}

pub(super) fn number(params: &Params, key: &str, default: u64) -> u64 {
    params
        .get(key)
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn is_numbered(key: &str) -> bool {
    NUMBERED.iter().any(|start| {
        key.strip_prefix(start)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// What is wrong with settings, by field.
pub(super) fn problems(params: &Params) -> BTreeMap<String, String> {
    let mut errors = BTreeMap::new();
    for (key, value) in params {
        if !KNOWN.contains(&key.as_str()) && !is_numbered(key) {
            let text = "property is not defined in schema and the schema does not allow additional properties";
            errors.insert(key.clone(), text.to_owned());
        }
        let whole = ["memory", "cores", "sockets", "balloon", "vmid"].contains(&key.as_str());
        if whole && value.parse::<u64>().is_err() {
            errors.insert(
                key.clone(),
                format!("type check ('integer') failed - got '{value}'"),
            );
        }
    }
    let name = params.get("name").filter(|name| {
        name.is_empty()
            || !name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.'))
    });
    if let Some(name) = name {
        errors.insert(
            "name".to_owned(),
            format!("invalid format - value does not look like a valid DNS name: {name}"),
        );
    }
    let good = |tag: &str| {
        !tag.is_empty()
            && tag
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'+' | b'.'))
    };
    if params
        .get("tags")
        .is_some_and(|tags| !tags.split(';').all(good))
    {
        errors.insert(
            "tags".to_owned(),
            "invalid format - invalid characters in tag".to_owned(),
        );
    }
    errors
}

/// Whether a machine has a device that it may boot from: those that its boot order names, or else any.
pub(super) fn boots_from(config: &Params) -> bool {
    let boots = |device: &str| {
        let network = device.starts_with("net");
        config
            .get(device)
            .is_some_and(|value| network || is_drive(device, value))
    };
    let order = config.get("boot").and_then(|boot| {
        let mut parts = boot.split(',');
        parts.find_map(|part| part.strip_prefix("order="))
    });
    match order {
        Some(order) => order.split(';').any(boots),
        None => config
            .keys()
            .any(|device| is_numbered(device) && boots(device)),
    }
}

/// Whether a setting is a drive that a system may be on.
fn is_drive(name: &str, value: &str) -> bool {
    is_numbered(name)
        && ["scsi", "virtio", "sata", "ide"]
            .iter()
            .any(|kind| name.starts_with(kind))
        && !value.contains("media=cdrom")
        && !value.contains("cloudinit")
}

/// Storages and bytes that the drives of a machine take.
pub(super) fn drives(config: &Params) -> Vec<(String, u64)> {
    config
        .iter()
        .filter(|(key, _)| {
            is_numbered(key) && !key.starts_with("net") && !key.starts_with("ipconfig")
        })
        .filter(|(_, value)| !value.contains("media=cdrom"))
        .filter_map(|(_, value)| {
            let (storage, made) = value.split(',').next()?.split_once(':')?;
            let bytes = made.parse::<u64>().map_or(4 << 20, |gib| gib << 30);
            Some((storage.to_owned(), bytes))
        })
        .collect()
}
