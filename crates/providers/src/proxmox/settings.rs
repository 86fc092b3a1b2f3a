//! How machines are made: the options of the class become the settings of a virtual machine.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::client::Fields;
use super::mark::{Mark, digest};
use super::{Interface, ProxmoxOptions};
use crate::{ProviderError, Uid};

/// Settings that Joiner sets itself. Where a class sets them too, Joiner's hold and the class is told.
const OURS: [&str; 7] = [
    "name",
    "tags",
    "memory",
    "cores",
    "sockets",
    "smbios1",
    "description",
];
/// Settings that no class may set, and why.
const REFUSED: [(&str, &str); 18] = [
    ("vmid", "numbers come from vmIDRange"),
    ("node", "hosts come from nodeWhitelist"),
    (
        "args",
        "it can run anything on the host, and only root may set it",
    ),
    (
        "hookscript",
        "it runs on the host, and only root may set it",
    ),
    ("lock", "it would keep the machine from being removed"),
    ("skiplock", "it would work against backups and migrations"),
    ("protection", "it would keep the machine from being removed"),
    ("template", "a template cannot be started"),
    ("archive", "it would restore another machine's disks"),
    ("force", "it would overwrite another machine"),
    ("unique", "it belongs to restoring"),
    ("live-restore", "it belongs to restoring"),
    (
        "start",
        "Joiner starts machines itself, so that a failure is seen",
    ),
    ("delete", "it belongs to changing a machine"),
    ("revert", "it belongs to changing a machine"),
    ("digest", "it belongs to changing a machine"),
    ("vmstate", "it belongs to snapshots"),
    (
        "ivshmem",
        "it shares memory with other machines, and only root may set it",
    ),
];
const MODELS: [&str; 15] = [
    "e1000",
    "e1000e",
    "e1000-82540em",
    "e1000-82544gc",
    "e1000-82545em",
    "i82551",
    "i82557b",
    "i82559er",
    "ne2k_isa",
    "ne2k_pci",
    "pcnet",
    "rtl8139",
    "virtio",
    "vmxnet3",
    "",
];

/// The size of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Cores.
    pub cores: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
}

impl Size {
    /// Memory in bytes.
    pub fn memory(self) -> i64 {
        i64::try_from(self.memory_mib << 20).unwrap_or(i64::MAX)
    }

    /// Thousandths of a core.
    pub fn cpu(self) -> i64 {
        i64::from(self.cores) * 1000
    }
}

/// Room on a storage that every machine takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Which storage.
    pub storage: String,
    /// How much, in GiB.
    pub gib: u64,
}

/// Checks what a class asks for, and says which of its options are not used.
pub fn check(options: &ProxmoxOptions) -> Result<Vec<String>, ProviderError> {
    let invalid = |text: String| Err(ProviderError::Invalid(text));
    let mut ignored = Vec::new();
    for (name, value) in &options.vm_options {
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| refused == name) {
            return invalid(format!("vmOptions: {name:?} may not be set: {why}"));
        }
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return invalid(format!("vmOptions: {name:?} is not the name of an option"));
        }
        if value.chars().any(char::is_control) && name != "sshkeys" {
            return invalid(format!(
                "vmOptions: {name} has a line break or control character in its value"
            ));
        }
        if let Some(why) = reaches_others(name, value) {
            return invalid(format!("vmOptions: {name}: {value:?} {why}"));
        }
        let one_socket = name == "sockets" && value == "1";
        let own_device = options.interfaces.iter().any(|one| one.name == *name);
        if (OURS.contains(&name.as_str()) || own_device) && !one_socket {
            ignored.push(format!(
                "vmOptions: {name} is not used: Joiner sets it itself"
            ));
        }
    }
    let mut names = Vec::new();
    for (index, one) in options.interfaces.iter().enumerate() {
        let field = format!("networkInterfaces[{index}]");
        let number = one
            .name
            .strip_prefix("net")
            .and_then(|text| text.parse::<u8>().ok());
        if number.is_none_or(|number| number > 31) || names.contains(&&one.name) {
            return invalid(format!(
                "{field}.name: {:?} is not a name of its own from net0 to net31",
                one.name
            ));
        }
        names.push(&one.name);
        if !MODELS.contains(&one.model.as_str()) {
            return invalid(format!(
                "{field}.model: {:?} is not a network device that Proxmox has: write virtio",
                one.model
            ));
        }
        if one.bridge.is_empty()
            || !one
                .bridge
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        {
            return invalid(format!(
                "{field}.bridge: {:?} is not the name of a bridge, such as vmbr0",
                one.bridge
            ));
        }
        if one.vlan.is_some_and(|vlan| vlan > 4094) {
            return invalid(format!(
                "{field}.vlanTag: {} is not from 1 to 4094",
                one.vlan.unwrap_or_default()
            ));
        }
        if let Some(prefix) = &one.mac_prefix {
            octets(prefix).map_err(|why| {
                ProviderError::Invalid(format!("{field}.macPrefix: {prefix:?} {why}"))
            })?;
        }
    }
    Ok(ignored)
}

fn is_drive(name: &str) -> bool {
    ["scsi", "virtio", "sata", "ide", "efidisk", "tpmstate"]
        .iter()
        .any(|bus| name.strip_prefix(bus).is_some_and(is_number))
}

/// Why a drive would be one of another machine or of the host, if so: it is neither a volume to be made, nor an image to
/// be imported, nor a CD.
fn reaches_others(name: &str, value: &str) -> Option<&'static str> {
    let attached = "would attach a volume that is there already to every machine: write STORAGE:SIZE to make one for each";
    if name.strip_prefix("unused").is_some_and(is_number) {
        return Some(attached);
    }
    // Proxmox knows the third drive by another name too.
    if !is_drive(name) && name != "cdrom" {
        return None;
    }
    let field = |key: &str| {
        let mut parts = value.split(',');
        parts.find_map(|part| part.trim().strip_prefix(key)?.strip_prefix('='))
    };
    let from = field("import-from");
    // What it is called in the storage: `import/x.qcow2` and `iso/x.iso` belong to nobody, `vm-100-disk-0` to VM 100.
    let content = |volume: &str, kind: &str| {
        let named = volume.split_once(':');
        named.is_some_and(|(_, name)| name.starts_with(kind) && !name.contains(".."))
    };
    if from.is_some_and(|volume| !content(volume, "import/")) {
        return Some(
            "would read the disk of another machine or of the host: write import-from=STORAGE:import/FILE",
        );
    }
    let mut parts = value.split(',').map(str::trim);
    let bare = parts.find(|part| !part.contains('='));
    let volume = field("file").or(bare).unwrap_or_default();
    let made = volume.split_once(':').map(|(_, made)| made);
    let is_made = made.is_some_and(|made| made == "cloudinit" || made.parse::<f64>().is_ok());
    let is_disc = matches!(volume, "none" | "cdrom") || content(volume, "iso/");
    let is_cd = name == "cdrom" || field("media") == Some("cdrom");
    if is_made || volume == "none" || is_cd && is_disc {
        None
    } else if is_cd {
        Some("would show the disk of another machine as a CD: write STORAGE:iso/FILE")
    } else {
        Some(attached)
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// What every machine takes of storages.
pub fn disks(options: &ProxmoxOptions) -> Vec<Disk> {
    let mut disks: Vec<Disk> = options
        .vm_options
        .iter()
        .filter(|(name, _)| is_drive(name))
        .filter_map(|(_, value)| {
            let volume = value.split(',').next()?;
            let (storage, made) = volume.split_once(':')?;
            let gib = match made {
                "cloudinit" => 0,
                number => number.parse().ok()?,
            };
            Some(Disk {
                storage: storage.to_owned(),
                gib,
            })
        })
        .collect();
    if let Some(template) = &options.template
        && let Some(storage) = &template.storage
    {
        disks.push(Disk {
            storage: storage.clone(),
            gib: u64::from(template.disk_gib.unwrap_or_default()),
        });
    }
    disks
}

/// What pods may write to disk, if the class makes a disk.
pub fn largest_disk(options: &ProxmoxOptions) -> Option<u64> {
    let made = disks(options).into_iter().map(|disk| disk.gib);
    let grown = options
        .template
        .as_ref()
        .and_then(|one| one.disk_gib)
        .map(u64::from);
    made.chain(grown).max().filter(|gib| *gib > 0)
}

/// A name for all settings that a machine is made with: another name, and machines have drifted.
///
/// Written on every machine: what is added here later must leave the text as it is where it is not used, or an upgrade
/// replaces the whole fleet.
pub fn fingerprint(options: &ProxmoxOptions) -> String {
    let interfaces = options
        .interfaces
        .iter()
        .map(|one| json!([one.name, one.model, one.bridge, one.vlan, one.mac_prefix]));
    let interfaces: Vec<Value> = interfaces.collect();
    let template = options
        .template
        .as_ref()
        .map(|one| json!([one.name, one.storage, one.linked, one.disk_gib]));
    let all = json!([interfaces, options.vm_options, template, options.tag]);
    digest(&all.to_string())
}

/// The settings that every machine has, however it is made.
fn common(options: &ProxmoxOptions, mark: &Mark, size: Size) -> Fields {
    // Memory that a host may take back is none that Kubernetes can count on.
    let mut fields = Fields::from([
        ("balloon".to_owned(), "0".to_owned()),
        ("ostype".to_owned(), "l26".to_owned()),
    ]);
    fields.extend(options.vm_options.iter().cloned());
    for one in &options.interfaces {
        fields.insert(one.name.clone(), interface(one, &mark.uid));
    }
    let own = [
        ("name", mark.name.clone()),
        ("tags", options.tag.clone()),
        ("memory", size.memory_mib.to_string()),
        ("cores", size.cores.to_string()),
        ("sockets", "1".to_owned()),
        ("smbios1", format!("uuid={}", mark.uuid)),
        ("description", mark.description()),
    ];
    fields.extend(own.map(|(key, value)| (key.to_owned(), value)));
    fields
}

/// What is sent to make a machine that boots by itself.
pub fn create(options: &ProxmoxOptions, mark: &Mark, size: Size) -> Fields {
    let mut fields = common(options, mark, size);
    fields.insert("vmid".to_owned(), mark.vmid.to_string());
    fields
        .entry("boot".to_owned())
        .or_insert_with(|| "order=net0".to_owned());
    fields
}

/// What is sent to copy a template: name and mark go with the first call.
pub fn copy(options: &ProxmoxOptions, mark: &Mark, target: Option<&str>) -> Fields {
    let mut fields = Fields::from([
        ("newid".to_owned(), mark.vmid.to_string()),
        ("name".to_owned(), mark.name.clone()),
        ("description".to_owned(), mark.description()),
    ]);
    let template = options.template.as_ref();
    let linked = template.is_some_and(|one| one.linked);
    fields.insert("full".to_owned(), u8::from(!linked).to_string());
    if let Some(storage) = template
        .and_then(|one| one.storage.clone())
        .filter(|_| !linked)
    {
        fields.insert("storage".to_owned(), storage);
    }
    if let Some(host) = target {
        fields.insert("target".to_owned(), host.to_owned());
    }
    if let Some((_, pool)) = options.vm_options.iter().find(|(name, _)| name == "pool") {
        fields.insert("pool".to_owned(), pool.clone());
    }
    fields
}

/// What is set on a copy of a template.
pub fn set_up(options: &ProxmoxOptions, mark: &Mark, size: Size) -> Fields {
    let mut fields = common(options, mark, size);
    // Known only when a machine is made.
    fields.remove("pool");
    fields
}

/// A network device: `virtio=02:00:00:aa:bb:cc,bridge=vmbr0,tag=20`.
fn interface(one: &Interface, uid: &Uid) -> String {
    let model = if one.model.is_empty() {
        "virtio"
    } else {
        &one.model
    };
    let mut text = match one.mac_prefix.as_deref().map(octets) {
        Some(Ok(prefix)) if !prefix.is_empty() => {
            format!("{model}={}", address(&prefix, uid, &one.name))
        }
        _ => model.to_owned(),
    };
    text.push_str(",bridge=");
    text.push_str(&one.bridge);
    if let Some(vlan) = one.vlan.filter(|vlan| *vlan > 0) {
        text.push_str(",tag=");
        text.push_str(&vlan.to_string());
    }
    text
}

/// A hardware address of the machine's own: the prefix, and the rest by its UID, so that asking twice gives the same.
fn address(prefix: &[u8], uid: &Uid, device: &str) -> String {
    let digits = digest(&format!("{} {device}", uid.0));
    let rest = (0..6).filter_map(|at| u8::from_str_radix(digits.get(at * 2..at * 2 + 2)?, 16).ok());
    let octets: Vec<String> = prefix
        .iter()
        .copied()
        .chain(rest)
        .take(6)
        .map(|octet| format!("{octet:02X}"))
        .collect();
    octets.join(":")
}

fn octets(prefix: &str) -> Result<Vec<u8>, String> {
    if prefix.is_empty() {
        return Ok(Vec::new());
    }
    let octets: Option<Vec<u8>> = prefix
        .split(':')
        .map(|part| {
            (part.len() == 2)
                .then(|| u8::from_str_radix(part, 16).ok())
                .flatten()
        })
        .collect();
    let octets = octets
        .filter(|octets| octets.len() <= 5)
        .ok_or("is not one to five octets joined by colons, such as 02:00:00")?;
    if octets.first().is_some_and(|first| first & 1 == 1) {
        return Err(
            "begins with an odd octet, which means a group: write an even one, such as 02"
                .to_owned(),
        );
    }
    Ok(octets)
}

/// The drive that a machine boots from, to be made larger.
pub fn boot_disk(config: &BTreeMap<String, serde_json::Value>) -> Option<String> {
    let boot = config
        .get("boot")
        .and_then(super::types::as_text)
        .unwrap_or_default();
    let order = boot
        .split(',')
        .find_map(|part| part.strip_prefix("order="))
        .unwrap_or_default();
    let listed = order
        .split(';')
        .find(|device| is_drive(device) && config.contains_key(*device));
    listed.map(str::to_owned).or_else(|| {
        ["scsi0", "virtio0", "sata0", "ide0"]
            .into_iter()
            .find(|device| config.contains_key(*device))
            .map(str::to_owned)
    })
}

#[cfg(test)]
mod tests;
