//! Headroom, from what lists show.

use super::*;
use crate::proxmox::testing::options;

const GIB: u64 = 1 << 30;

fn host(name: &str) -> HostRow {
    HostRow {
        node: name.to_owned(),
        status: "online".to_owned(),
        maxcpu: Some(16),
        maxmem: Some(64 * GIB),
    }
}

fn guest(vmid: u32, cores: u64, gib: u64, status: &str) -> Guest {
    Guest {
        vmid,
        node: "n1".to_owned(),
        kind: "qemu".to_owned(),
        status: status.to_owned(),
        maxcpu: cores,
        maxmem: gib * GIB,
        ..Guest::default()
    }
}

fn room(options: &ProxmoxOptions, seen: &Observed) -> Headroom {
    survey(options, seen).unwrap().remove(0)
}

#[test]
fn promised_memory_counts_and_templates_and_stopped_strangers_do_not() {
    let mut seen = Observed {
        hosts: vec![host("n1")],
        guests: vec![
            guest(100, 4, 16, "running"),
            guest(101, 2, 8, "stopped"),
            Guest {
                template: true,
                ..guest(9000, 8, 32, "stopped")
            },
        ],
        ..Observed::default()
    };
    let options = options();
    let free = room(&options, &seen);
    // Twice the threads, less 4; the memory less 2 GiB for the host and 16.
    assert_eq!((free.cpu, free.memory), (28_000, 46 << 30));
    // One of ours counts although it is off.
    let size = Size {
        cores: 2,
        memory_mib: 8192,
    };
    seen.promises.insert(
        101,
        Promise {
            host: "n1".to_owned(),
            size,
        },
    );
    assert_eq!(room(&options, &seen).memory, 38 << 30);
}

#[test]
fn what_is_being_made_counts_before_any_list_shows_it() {
    let size = Size {
        cores: 8,
        memory_mib: 10 << 10,
    };
    let mut seen = Observed {
        hosts: vec![host("n1"), host("n2")],
        promises: BTreeMap::from([(
            1250,
            Promise {
                host: "n1".to_owned(),
                size,
            },
        )]),
        ..Observed::default()
    };
    let rooms = survey(&options(), &seen).unwrap();
    assert_eq!((rooms[0].cpu, rooms[0].memory), (24_000, 52 << 30));
    assert_eq!(rooms[1].memory, 62 << 30);
    // Listed without a size, as lists do in the first seconds.
    seen.guests = vec![guest(1250, 0, 0, "unknown")];
    assert_eq!(room(&options(), &seen).memory, 52 << 30);
}

#[test]
fn ratios_and_reserve_are_the_classes() {
    let mut options = options();
    options.memory_percent = 150;
    options.cpu_percent = 100;
    options.host_reserve_mib = 0;
    let seen = Observed {
        hosts: vec![host("n1")],
        ..Observed::default()
    };
    let free = room(&options, &seen);
    assert_eq!((free.cpu, free.memory), (16_000, 96 << 30));
    let wide = Size {
        cores: 17,
        memory_mib: 1024,
    };
    options.cpu_percent = 400;
    assert!(
        !room(&options, &seen).holds(wide),
        "no machine has more cores than its host has threads"
    );
}

#[test]
fn hosts_that_cannot_say_why() {
    let mut offline = host("n2");
    offline.status = "offline".to_owned();
    let mut seen = Observed {
        hosts: vec![host("n1"), offline, host("n3")],
        ..Observed::default()
    };
    seen.avoided
        .insert("n3".to_owned(), "start failed".to_owned());
    let rooms = survey(&options(), &seen).unwrap();
    let why: Vec<Option<&str>> = rooms.iter().map(|room| room.unfit.as_deref()).collect();
    assert_eq!(
        why,
        [
            None,
            Some("host n2 is offline"),
            Some("host n3 failed lately: start failed")
        ]
    );
}

#[test]
fn what_no_host_has_is_a_fault_of_the_class() {
    let mut seen = Observed {
        hosts: vec![host("n1"), host("n2")],
        ..Observed::default()
    };
    let mut options = options();
    for name in ["n1", "n2"] {
        seen.bridges
            .insert(name.to_owned(), vec!["vmbr1".to_owned()]);
    }
    let said = survey(&options, &seen).unwrap_err().to_string();
    assert!(
        said.contains("networkInterfaces: host n1 has no bridge vmbr0"),
        "{said}"
    );
    assert!(said.contains("it has vmbr1"), "{said}");
    seen.bridges
        .insert("n2".to_owned(), vec!["vmbr0".to_owned()]);
    assert!(
        survey(&options, &seen).unwrap()[0].unfit.is_some(),
        "one host has it"
    );
    options.hosts = vec!["nowhere".to_owned()];
    let said = survey(&options, &seen).unwrap_err().to_string();
    assert!(
        said.contains("none of nowhere is a host of the cluster (it has n1, n2)"),
        "{said}"
    );
}

#[test]
fn a_full_storage_takes_its_host_out_and_not_the_class() {
    let mut options = options();
    options
        .vm_options
        .push(("scsi0".to_owned(), "fast:32".to_owned()));
    let storage = |node: &str, used: u64| StorageRow {
        storage: "fast".to_owned(),
        node: node.to_owned(),
        status: "available".to_owned(),
        disk: used * GIB,
        maxdisk: 100 * GIB,
        ..StorageRow::default()
    };
    let mut seen = Observed {
        hosts: vec![host("n1")],
        storages: vec![storage("n1", 90)],
        ..Observed::default()
    };
    let why = room(&options, &seen).unfit.unwrap();
    assert_eq!(
        why,
        "storage fast on host n1 has 10 GiB left, and a machine takes 32"
    );
    seen.storages = vec![StorageRow {
        storage: "other".to_owned(),
        ..storage("n1", 0)
    }];
    assert!(
        survey(&options, &seen).is_err(),
        "no host has that storage at all"
    );
}

#[test]
fn the_planned_host_comes_first_and_then_the_emptiest_of_its_zone() {
    let seen = Observed {
        hosts: vec![host("n1"), host("n2"), host("n3")],
        guests: vec![guest(100, 1, 8, "running")],
        ..Observed::default()
    };
    let mut options = options();
    options.zones = BTreeMap::from([
        ("n1".to_owned(), "a".to_owned()),
        ("n2".to_owned(), "a".to_owned()),
        ("n3".to_owned(), "b".to_owned()),
    ]);
    let rooms = survey(&options, &seen).unwrap();
    let size = Size {
        cores: 2,
        memory_mib: 2048,
    };
    let pick =
        |zone: &str, planned| choose(&rooms, size, zone, planned).map(|room| room.host.as_str());
    assert_eq!(pick("a", Some("n1")), Some("n1"));
    assert_eq!(pick("a", None), Some("n2"));
    assert_eq!(pick("b", Some("n1")), Some("n3"));
    let large = Size {
        cores: 2,
        memory_mib: 60 << 10,
    };
    assert_eq!(choose(&rooms, large, "a", Some("n1")).unwrap().host, "n2");
    assert_eq!(choose(&rooms, large, "c", None), None);
}
