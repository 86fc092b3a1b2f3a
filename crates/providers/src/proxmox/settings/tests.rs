//! What is sent for a class, and what is refused in it.

use jiff::Timestamp;

use super::*;
use crate::proxmox::mark::Stage;
use crate::proxmox::testing::options;

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
        settings: String::new(),
        created: Timestamp::UNIX_EPOCH,
        stage: Stage::Wanted,
        copying: false,
    }
}

const SIZE: Size = Size {
    cores: 4,
    memory_mib: 8192,
};

#[test]
fn a_netboot_machine_is_made_as_the_class_says() {
    let mut options = options();
    options.vm_options = vec![
        ("cpu".to_owned(), "host".to_owned()),
        ("boot".to_owned(), "order=net0".to_owned()),
        ("memory".to_owned(), "1".to_owned()),
        ("sockets".to_owned(), "1".to_owned()),
    ];
    options.interfaces[0].vlan = Some(20);
    options.interfaces[0].mac_prefix = Some("02:00:00".to_owned());
    let ignored = check(&options).unwrap();
    assert_eq!(
        ignored,
        ["vmOptions: memory is not used: Joiner sets it itself"]
    );
    let fields = create(&options, &mark(), SIZE);
    let get = |key: &str| fields[key].as_str();
    assert_eq!(get("vmid"), "1250");
    assert_eq!(get("memory"), "8192");
    assert_eq!(
        (get("cores"), get("sockets"), get("balloon")),
        ("4", "1", "0")
    );
    assert_eq!(
        (get("cpu"), get("boot"), get("tags")),
        ("host", "order=net0", "joiner")
    );
    assert_eq!(get("smbios1"), "uuid=0b5cbbe1-0000-4000-8000-000000000001");
    let net = get("net0");
    assert!(
        net.starts_with("virtio=02:00:00:") && net.ends_with(",bridge=vmbr0,tag=20"),
        "{net}"
    );
    assert_eq!(
        net,
        create(&options, &mark(), SIZE)["net0"],
        "the same address when asked again"
    );
    assert_eq!(Mark::read(get("description")), Some(mark()));
}

#[test]
fn a_copy_carries_its_mark_from_the_first_call() {
    let mut options = options();
    options.template = Some(crate::proxmox::Template {
        name: "debian".to_owned(),
        storage: Some("local-zfs".to_owned()),
        linked: false,
        disk_gib: Some(32),
    });
    let fields = copy(&options, &mark(), Some("n2"));
    assert_eq!(fields["newid"], "1250");
    assert_eq!(
        (
            fields["full"].as_str(),
            fields["storage"].as_str(),
            fields["target"].as_str()
        ),
        ("1", "local-zfs", "n2")
    );
    assert_eq!(Mark::read(&fields["description"]), Some(mark()));
    assert!(
        !set_up(&options, &mark(), SIZE).contains_key("boot"),
        "a copy boots as its template does"
    );
    options.template.as_mut().unwrap().linked = true;
    assert!(
        !copy(&options, &mark(), None).contains_key("storage"),
        "refused for linked copies"
    );
}

#[test]
fn dangerous_options_are_refused_with_a_reason() {
    for (name, value, why) in [
        ("args", "-fda /etc/shadow", "run anything on the host"),
        ("hookscript", "local:snippets/x.sh", "runs on the host"),
        ("lock", "backup", "kept from being removed"),
        ("force", "1", "overwrite another machine"),
        (
            "scsi0",
            "local-zfs:vm-100-disk-0",
            "attach a volume that is there already",
        ),
        ("scsi0", "/dev/sda", "attach a volume that is there already"),
        (
            "scsi1",
            "fast:0,import-from=fast:vm-100-disk-0",
            "read the disk of another machine",
        ),
        (
            "scsi1",
            "fast:0,import-from=/etc/shadow",
            "read the disk of another machine",
        ),
        (
            "scsi1",
            "fast:0,import-from=local:import/../100/vm-100-disk-0.qcow2",
            "read the disk of another machine",
        ),
        (
            "ide3",
            "fast:vm-100-disk-0,media=cdrom",
            "disk of another machine as a CD",
        ),
        (
            "ide3",
            "media=cdrom,file=fast:vm-100-disk-0",
            "disk of another machine as a CD",
        ),
        (
            "ide3",
            "/dev/sda,media=cdrom",
            "disk of another machine as a CD",
        ),
        (
            "cdrom",
            "fast:vm-100-disk-0",
            "disk of another machine as a CD",
        ),
        ("unused0", "fast:vm-100-disk-0", "there already"),
        ("a=b", "1", "not the name of an option"),
        ("cpu", "host\nargs: x", "line break"),
    ] {
        let mut options = options();
        options.vm_options = vec![(name.to_owned(), value.to_owned())];
        let said = check(&options).unwrap_err().to_string();
        let why = if why == "kept from being removed" {
            "keep the machine from being removed"
        } else {
            why
        };
        assert!(said.contains(why) && said.contains("vmOptions"), "{said}");
    }
    for (name, value) in [
        ("scsi0", "local-zfs:32,discard=on"),
        ("ide2", "local-zfs:cloudinit"),
        ("ide3", "local:iso/x.iso,media=cdrom"),
        ("ide3", "none,media=cdrom"),
        ("ide3", "cdrom,media=cdrom"),
        ("cdrom", "local:iso/x.iso"),
        ("scsi0", "file=local-zfs:32"),
        ("scsi1", "local-zfs:0,import-from=local:import/x.qcow2"),
        ("cicustom", "user=local:snippets/u.yaml"),
    ] {
        let mut options = options();
        options.vm_options = vec![(name.to_owned(), value.to_owned())];
        assert_eq!(check(&options), Ok(Vec::new()), "{name}={value}");
    }
}

#[test]
fn devices_that_cannot_be_are_refused() {
    type Change = fn(&mut Interface);
    let changes: [(&str, Change); 5] = [
        ("networkInterfaces[0].name", |one| {
            one.name = "eth0".to_owned();
        }),
        ("networkInterfaces[0].model", |one| {
            one.model = "carrier-pigeon".to_owned();
        }),
        ("networkInterfaces[0].bridge", |one| {
            one.bridge = "vmbr0,firewall=1".to_owned();
        }),
        ("networkInterfaces[0].vlanTag", |one| one.vlan = Some(5000)),
        ("networkInterfaces[0].macPrefix", |one| {
            one.mac_prefix = Some("03:00".to_owned());
        }),
    ];
    for (field, change) in changes {
        let mut options = options();
        change(&mut options.interfaces[0]);
        let said = check(&options).unwrap_err().to_string();
        assert!(said.contains(field), "{said}");
    }
}

#[test]
fn what_a_machine_takes_of_storages_is_known() {
    let mut options = options();
    options.vm_options = vec![
        ("scsi0".to_owned(), "fast:32,discard=on".to_owned()),
        ("ide2".to_owned(), "slow:cloudinit".to_owned()),
        ("cpu".to_owned(), "host".to_owned()),
    ];
    let found: Vec<(String, u64)> = disks(&options)
        .into_iter()
        .map(|one| (one.storage, one.gib))
        .collect();
    assert_eq!(found, [("fast".to_owned(), 32), ("slow".to_owned(), 0)]);
    assert_eq!(largest_disk(&options), Some(32));
}

/// The digest is written on machines: if it changes with a version, that version replaces every machine.
#[test]
fn the_fingerprint_of_settings_is_the_same_in_every_version() {
    let mut options = options();
    options.vm_options = vec![("cpu".to_owned(), "host".to_owned())];
    options.template = Some(crate::proxmox::Template {
        name: "debian".to_owned(),
        storage: None,
        linked: true,
        disk_gib: Some(32),
    });
    let text = r#"[[["net0","virtio","vmbr0",null,null]],[["cpu","host"]],["debian",null,true,32],"joiner"]"#;
    assert_eq!(fingerprint(&options), digest(text));
    let before = fingerprint(&options);
    options.interfaces[0].vlan = Some(20);
    assert_ne!(fingerprint(&options), before);
}
