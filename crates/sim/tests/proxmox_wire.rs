//! The Proxmox provider against the simulated cluster: what goes wrong there, one thing at a time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

#[path = "proxmox/world.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use joiner_core::resources::MEMORY;
use joiner_providers::proxmox::{IdRange, Template};
use joiner_providers::{LaunchRequest, MachineState, Provider, ProviderError, Uid};
use joiner_sim::clouds::proxmox::CallFault;
use world::{IDS, World, anywhere, class, number, order, seconds};

#[tokio::test(start_paused = true)]
async fn a_netboot_machine_becomes_a_node_with_the_uuid_of_its_object() {
    let world = World::open(|_, _| {});
    let machine = world.provider.launch(&order(1)).await.unwrap();
    let machine = world.until_running(&machine.id).await;
    seconds(60).await;
    let vm = world.cloud.machines()[&number(&machine)].clone();
    assert_eq!(vm.node, "pve1");
    assert_eq!(vm.config["boot"], "order=net0");
    assert_eq!(
        (vm.config["cores"].as_str(), vm.config["memory"].as_str()),
        ("2", "4096")
    );
    assert!(
        vm.config["net0"].starts_with("virtio=02:00:00:"),
        "{}",
        vm.config["net0"]
    );
    let nodes = world.nodes.0.lock().unwrap();
    assert_eq!(nodes[0].name, "node-1");
    assert_eq!(nodes[0].system_uuid.as_deref(), Some(&*order(1).uid.0));
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_template_is_set_up_grown_and_started() {
    let mut world = World::open(|options, _| {
        options.template = Some(Template {
            name: "debian".to_owned(),
            storage: None,
            linked: false,
            disk_gib: Some(32),
        });
        options
            .vm_options
            .push(("ide2".to_owned(), "ceph:cloudinit".to_owned()));
    });
    let template = [
        ("name", "debian"),
        ("template", "1"),
        ("scsi0", "ceph:8"),
        ("boot", "order=scsi0"),
        ("tags", "golden"),
    ];
    world.cloud.plant(9000, "pve2", &template, false);
    // The list is shown without a lag for what was always there.
    let machine = world.provider.launch(&order(1)).await.unwrap();
    assert!(matches!(machine.state, MachineState::Pending(_)));
    let vmid = number(&machine);
    assert_eq!(world.cloud.machines()[&vmid].lock.as_deref(), Some("clone"));
    let error = world.provider.terminate(&machine.id).await.unwrap_err();
    assert!(error.to_string().contains("locked (clone)"), "{error}");
    seconds(45).await;
    // Crashed between the copy and its set-up: the mark is enough to go on.
    let options = {
        let mut options = class(IDS);
        options.template = Some(Template {
            name: "debian".to_owned(),
            storage: None,
            linked: false,
            disk_gib: Some(32),
        });
        options
            .vm_options
            .push(("ide2".to_owned(), "ceph:cloudinit".to_owned()));
        options
    };
    world.restart(options);
    let again = world.provider.launch(&order(1)).await.unwrap();
    assert_eq!(again.id, machine.id);
    world.until_running(&machine.id).await;
    let vm = world.cloud.machines()[&vmid].clone();
    assert_eq!(
        (
            vm.config["scsi0"].as_str(),
            vm.config["tags"].as_str(),
            vm.node.as_str()
        ),
        ("ceph:32", "joiner", "pve1")
    );
    assert_eq!(
        vm.config["boot"], "order=scsi0",
        "it boots as its template does"
    );
    world.until_gone(&machine.id).await;
    assert_eq!(
        world.cloud.machines().keys().copied().collect::<Vec<u32>>(),
        [9000]
    );
}

#[tokio::test(start_paused = true)]
async fn a_template_that_carries_the_tag_of_machines_is_copied_like_any_other() {
    let template = || {
        Some(Template {
            name: "debian".to_owned(),
            storage: None,
            linked: false,
            disk_gib: None,
        })
    };
    let mut world = World::open(|options, _| options.template = template());
    let config = [
        ("name", "debian"),
        ("template", "1"),
        ("scsi0", "ceph:8"),
        ("boot", "order=scsi0"),
        ("tags", "joiner"),
    ];
    world.cloud.plant(9000, "pve2", &config, false);
    // One that is given up before it is set up, one over a crash, and one straight through.
    let first = world.provider.launch(&order(1)).await.unwrap();
    seconds(45).await;
    world.until_gone(&first.id).await;
    let second = world.provider.launch(&order(2)).await.unwrap();
    seconds(45).await;
    let mut options = class(IDS);
    options.template = template();
    world.restart(options);
    let again = world.provider.launch(&order(2)).await.unwrap();
    assert_eq!(again.id, second.id);
    world.until_running(&second.id).await;
    let third = world.provider.launch(&order(3)).await.unwrap();
    world.until_running(&third.id).await;
    assert_eq!(world.cloud.machines().len(), 3);
    for id in [&second.id, &third.id] {
        world.until_gone(id).await;
    }
    let left: Vec<u32> = world.cloud.machines().keys().copied().collect();
    assert_eq!(left, [9000]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_host_did_not_answer_may_still_take_effect_and_makes_no_twin() {
    for (status, takes) in [(596, 2), (597, 20), (599, 60)] {
        let world = World::open(|_, _| {});
        let late = CallFault::Late(status, Duration::from_secs(takes));
        world.cloud.fail("POST /nodes/", late, 1);
        let error = world.provider.launch(&order(1)).await.unwrap_err();
        assert!(error.passes(), "{error}");
        let mut bought = None;
        for _ in 0..30 {
            if let Ok(machine) = world.provider.launch(&order(1)).await {
                bought = Some(machine);
                break;
            }
            seconds(5).await;
        }
        world.until_running(&bought.unwrap().id).await;
        seconds(120).await;
        let all = world.cloud.machines();
        let uuids: Vec<&String> = all.values().map(|vm| &vm.config["smbios1"]).collect();
        assert_eq!(uuids.len(), 1, "{status}: {uuids:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_moved_is_the_same_machine() {
    let world = World::open(|_, _| {});
    let machine = world.provider.launch(&order(1)).await.unwrap();
    world.until_running(&machine.id).await;
    seconds(20).await;
    world.cloud.migrate(number(&machine), "pve3");
    let moved = world.provider.get(&machine.id).await.unwrap();
    assert_eq!(
        (&moved.id, &moved.state, &*moved.zone),
        (&machine.id, &MachineState::Running, "pve1")
    );
    assert_eq!(world.provider.list().await.unwrap(), [moved]);
    assert_eq!(world.provider.drift(&machine).await.unwrap(), None);
    world.cloud.set_ha(number(&machine));
    world.until_gone(&machine.id).await;
    assert!(world.cloud.machines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_number_that_was_given_to_a_stranger_is_not_touched() {
    let world = World::open(|_, _| {});
    let machine = world.provider.launch(&order(1)).await.unwrap();
    world.until_running(&machine.id).await;
    let vmid = number(&machine);
    let own = world.cloud.vanish(vmid).unwrap();
    let mark = own.config["description"].clone();
    let uuid = own.config["smbios1"].clone();
    // From a stranger's machine to one that was copied from ours with everything but the UUID.
    for (name, config) in [
        ("bare", vec![("name", "db")]),
        ("tagged", vec![("name", "node-1"), ("tags", "joiner")]),
        (
            "copied",
            vec![
                ("name", "node-1"),
                ("tags", "joiner"),
                ("description", mark.as_str()),
                ("smbios1", "uuid=beef"),
            ],
        ),
        (
            "renamed",
            vec![
                ("name", "db"),
                ("tags", "joiner"),
                ("description", mark.as_str()),
                ("smbios1", uuid.as_str()),
            ],
        ),
        (
            "untagged",
            vec![
                ("name", "node-1"),
                ("description", mark.as_str()),
                ("smbios1", uuid.as_str()),
            ],
        ),
    ] {
        world.cloud.plant(vmid, "pve1", &config, true);
        seconds(1).await;
        let before = world.cloud.touched().len();
        for error in [
            world.provider.get(&machine.id).await.unwrap_err(),
            world.provider.terminate(&machine.id).await.unwrap_err(),
        ] {
            assert_eq!(error.kind(), "not_found", "{name}: {error}");
        }
        assert_eq!(world.cloud.touched().len(), before, "{name}");
        assert!(world.provider.list().await.unwrap().is_empty(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_to_go_is_not_started_again_after_a_crash() {
    let mut world = World::open(|_, _| {});
    let machine = world.provider.launch(&order(1)).await.unwrap();
    world.until_running(&machine.id).await;
    let fault = CallFault::Refused(
        500,
        "can't lock file '/var/lock/qemu-server/lock-1.conf' - got timeout".to_owned(),
    );
    world.cloud.fail("DELETE /nodes/", fault, 1);
    let error = world.provider.terminate(&machine.id).await.unwrap_err();
    assert_eq!(error.kind(), "transient", "{error}");
    assert!(!world.cloud.machines()[&number(&machine)].running);
    world.restart(class(IDS));
    let shown = world.provider.get(&machine.id).await.unwrap();
    assert_eq!(shown.state, MachineState::Stopping);
    seconds(30).await;
    assert!(
        !world.cloud.machines()[&number(&machine)].running,
        "off it stays"
    );
    world.until_gone(&machine.id).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_switched_off_is_started_again() {
    let world = World::open(|_, _| {});
    let machine = world.provider.launch(&order(1)).await.unwrap();
    world.until_running(&machine.id).await;
    let mut vm = world.cloud.vanish(number(&machine)).unwrap();
    vm.running = false;
    let config: Vec<(&str, &str)> = vm
        .config
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    world.cloud.plant(number(&machine), "pve1", &config, false);
    assert!(matches!(
        world.provider.get(&machine.id).await.unwrap().state,
        MachineState::Pending(_)
    ));
    world.until_running(&machine.id).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_where_machines_do_not_start_is_left_alone_for_a_while() {
    let world = World::open(|_, _| {});
    world
        .cloud
        .fail_task("qmstart", "start failed: QEMU exited with code 1", 1);
    let machine = world.provider.launch(&anywhere(1)).await.unwrap();
    seconds(5).await;
    let shown = world.provider.get(&machine.id).await.unwrap();
    let MachineState::Failed(said) = &shown.state else {
        panic!("{shown:?}")
    };
    assert!(said.contains("QEMU exited"), "{said}");
    let sold = world.provider.catalog().await.unwrap();
    let closed: Vec<&str> = sold.ranges[0]
        .hosts
        .iter()
        .filter(|host| host.free.get(MEMORY) == 0)
        .map(|host| &*host.name)
        .collect();
    assert_eq!(closed, ["pve1"]);
    let concern = world.provider.concern().await.unwrap();
    assert!(concern.contains("host pve1 failed lately"), "{concern}");
    world.until_gone(&machine.id).await;
    seconds(130).await;
    let sold = world.provider.catalog().await.unwrap();
    assert!(
        sold.ranges[0]
            .hosts
            .iter()
            .all(|host| host.free.get(MEMORY) > 0),
        "it is tried again"
    );
}

#[tokio::test(start_paused = true)]
async fn without_quorum_nothing_is_written_and_nothing_called_gone() {
    let world = World::open(|_, _| {});
    let machine = world.provider.launch(&order(1)).await.unwrap();
    world.until_running(&machine.id).await;
    world.cloud.set_quorum(false);
    let touched = world.cloud.touched().len();
    for error in [
        world.provider.catalog().await.unwrap_err(),
        world.provider.launch(&order(2)).await.unwrap_err(),
        world.provider.terminate(&machine.id).await.unwrap_err(),
        world.provider.list().await.unwrap_err(),
        world.provider.find(&Uid("other".into())).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), "transient");
        assert!(error.to_string().contains("no quorum"), "{error}");
    }
    assert_eq!(world.cloud.touched().len(), touched);
    world.cloud.set_quorum(true);
    world.until_gone(&machine.id).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_offline_hides_nothing_and_stops_nobody_else() {
    let mut world = World::open(|_, _| {});
    let machine = world.provider.launch(&order(1)).await.unwrap();
    world.until_running(&machine.id).await;
    world.cloud.set_online("pve1", false);
    for error in [
        world.provider.get(&machine.id).await.unwrap_err(),
        world.provider.terminate(&machine.id).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), "transient", "{error}");
        assert!(error.to_string().contains("pve1"), "{error}");
    }
    assert_eq!(
        world.provider.list().await.unwrap().len(),
        1,
        "known before, and listed still"
    );
    let other = world.provider.launch(&anywhere(2)).await.unwrap();
    assert_ne!(world.cloud.machines()[&number(&other)].node, "pve1");
    // After a crash nobody knows whose it is: it is listed without a mark, and asking again makes no twin.
    world.restart(class(IDS));
    let listed = world.provider.list().await.unwrap();
    assert_eq!(listed.iter().filter(|one| one.uid.is_none()).count(), 1);
    let error = world.provider.launch(&order(1)).await.unwrap_err();
    assert!(error.to_string().contains("may be this machine"), "{error}");
    assert!(
        world.provider.launch(&anywhere(3)).await.is_ok(),
        "others are made all the same"
    );
    world.cloud.set_online("pve1", true);
    assert_eq!(
        world.provider.launch(&order(1)).await.unwrap().id,
        machine.id
    );
}

#[tokio::test(start_paused = true)]
async fn machines_that_are_asked_for_at_once_share_neither_number_nor_room() {
    // Room for 15 machines of 4 GiB a host, three hosts; the lists lag behind all of it.
    let world = World::open(|_, _| {});
    let orders: Vec<LaunchRequest> = (0..60).map(anywhere).collect();
    let answers = world.provider.launch_all(&orders).await;
    let made: BTreeSet<u32> = answers.iter().flatten().map(number).collect();
    assert_eq!(
        made.len(),
        answers.iter().flatten().count(),
        "each has a number of its own"
    );
    let mut by_host: BTreeMap<String, u64> = BTreeMap::new();
    for vm in world.cloud.machines().values() {
        *by_host.entry(vm.node.clone()).or_default() += vm.config["memory"].parse::<u64>().unwrap();
    }
    assert!(by_host.values().all(|mib| *mib <= 62 << 10), "{by_host:?}");
    assert_eq!(made.len(), 45, "and none is wasted: {by_host:?}");
    let refused = answers.iter().filter_map(|one| one.as_ref().err());
    assert!(
        refused
            .clone()
            .all(|error| error.kind() == "out_of_capacity"),
        "{:?}",
        refused.collect::<Vec<_>>()
    );
}

#[tokio::test(start_paused = true)]
async fn a_number_that_others_take_first_is_no_obstacle() {
    let world = World::open(|options, _| {
        options.ids = IdRange {
            first: 1250,
            last: 1253,
        }
    });
    // Seen by nobody when the numbers are listed, taken when the machine is made.
    let taken = "unable to create VM 1251 - VM 1251 already exists on node 'pve2'";
    world.cloud.fail(
        "POST /nodes/pve1/qemu",
        CallFault::Refused(500, taken.to_owned()),
        2,
    );
    let machine = world.provider.launch(&order(1)).await.unwrap();
    world.until_running(&machine.id).await;
    let config = [("name", "x")];
    for vmid in 1250..=1253 {
        if vmid != number(&machine) {
            world.cloud.plant(vmid, "pve2", &config, false);
        }
    }
    let error = world.provider.launch(&order(2)).await.unwrap_err();
    assert_eq!(error.kind(), "quota");
    assert!(
        error
            .to_string()
            .contains("vmIDRange: all numbers from 1250 to 1253 are in use"),
        "{error}"
    );
    assert_eq!(
        world.provider.catalog().await.unwrap().ranges[0].left,
        Some(0)
    );
    let concern = world.provider.concern().await.unwrap();
    assert!(concern.contains("vmIDRange"), "{concern}");
}

#[tokio::test(start_paused = true)]
async fn settings_that_no_host_can_meet_are_told_and_healed_by_mending_them() {
    let world = World::open(|options, _| options.interfaces[0].bridge = "vmbr9".to_owned());
    let error = world.provider.catalog().await.unwrap_err();
    assert_eq!(error.kind(), "invalid");
    assert!(
        error
            .to_string()
            .contains("no bridge vmbr9 that the token may use (it has vmbr0)"),
        "{error}"
    );
    world.cloud.change(|options| {
        for host in options.hosts.values_mut() {
            host.bridges.push("vmbr9".to_owned());
        }
    });
    seconds(61).await;
    assert!(world.provider.catalog().await.is_ok());
    world
        .cloud
        .change(|options| options.token.1 = "another".to_owned());
    let error = world.provider.catalog().await.unwrap_err();
    assert_eq!(error.kind(), "unauthorised");
    assert!(
        error
            .to_string()
            .contains("refuses the API token joiner@pve!sim"),
        "{error}"
    );
}

fn copying() -> Template {
    Template {
        name: "debian".to_owned(),
        storage: None,
        linked: false,
        disk_gib: None,
    }
}

const TEMPLATE: [(&str, &str); 4] = [
    ("name", "debian"),
    ("template", "1"),
    ("scsi0", "ceph:8"),
    ("boot", "order=scsi0"),
];
const LOCK: &str = "can't lock file '/var/lock/pve-manager/pve-storage-local-zfs' - got timeout";

#[tokio::test(start_paused = true)]
async fn copies_that_are_asked_for_at_once_wait_for_their_turn_at_the_storage() {
    // Two at a time get the lock in time; the third does not.
    let world = World::open(|options, there| {
        options.template = Some(copying());
        there.makes_at_once = Some(2);
    });
    world.cloud.plant(9000, "pve1", &TEMPLATE, false);
    let lives = (0..6).map(|uid| {
        let (world, order) = (&world, order(uid));
        async move {
            for _ in 0..100 {
                match world.provider.launch(&order).await {
                    Ok(machine) => return world.until_running(&machine.id).await,
                    Err(error) => {
                        assert_eq!(error.kind(), "transient", "{error}");
                        assert!(error.to_string().contains("are being made on"), "{error}");
                        seconds(5).await;
                    }
                }
            }
            panic!("machine {uid} is never made");
        }
    });
    let machines = futures::future::join_all(lives).await;
    assert_eq!(machines.len(), 6);
    let said = world.cloud.said();
    assert!(said.is_empty(), "no lock was asked for in vain: {said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_to_be_had_in_time_delays_a_machine_and_does_not_replace_it() {
    for template in [None, Some(copying())] {
        let kind = if template.is_some() {
            "qmclone"
        } else {
            "qmcreate"
        };
        let world = World::open(|options, there| {
            options.template = template;
            // Longer than a launch waits: how it ends is read later.
            there.creates_within = Duration::from_secs(30);
        });
        world.cloud.plant(9000, "pve1", &TEMPLATE, false);
        world.cloud.fail_task(kind, LOCK, 3);
        let machine = world.provider.launch(&order(1)).await.unwrap();
        let mut waited = 0;
        for _ in 0..200 {
            let shown = world.provider.get(&machine.id).await.unwrap();
            assert_eq!(shown.id, machine.id);
            let MachineState::Pending(said) = shown.state else {
                assert_eq!(shown.state, MachineState::Running, "{kind}");
                break;
            };
            if said.contains("is made again soon") {
                waited += 1;
                // It is on its way still, although there is nothing of it in the cluster.
                let listed = world.provider.list().await.unwrap();
                assert_eq!(listed.len(), 1, "{kind}");
                let found = world.provider.find(&order(1).uid).await.unwrap();
                assert_eq!(found.id, machine.id);
            }
            seconds(2).await;
        }
        // Five, ten and twenty seconds.
        assert!((12..=18).contains(&waited), "{kind}: {waited}");
        world.until_running(&machine.id).await;
        let made = world.cloud.machines();
        assert_eq!(made.len(), 2, "one machine beside the template: {kind}");
        assert_eq!(world.provider.list().await.unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_waits_to_be_made_again_is_gone_when_it_is_not_wanted_any_more() {
    let world = World::open(|_, there| there.creates_within = Duration::from_secs(30));
    world.cloud.fail_task("qmcreate", LOCK, 9);
    let machine = world.provider.launch(&order(1)).await.unwrap();
    seconds(20).await;
    let shown = world.provider.get(&machine.id).await.unwrap();
    assert!(matches!(shown.state, MachineState::Pending(_)), "{shown:?}");
    let error = world.provider.terminate(&machine.id).await.unwrap_err();
    assert_eq!(error.kind(), "not_found", "{error}");
    assert!(world.provider.list().await.unwrap().is_empty());
    seconds(120).await;
    let error = world.provider.get(&machine.id).await.unwrap_err();
    assert_eq!(error.kind(), "not_found", "{error}");
    assert!(world.cloud.machines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn classes_of_two_families_that_buy_in_the_same_instant_sell_no_host_twice() {
    let world = World::open(|_, _| {});
    let mut options = class(IdRange {
        first: 2000,
        last: 2100,
    });
    options.owner.family = "nodesmith".into();
    options.tag = "kubenodesmith-managed".to_owned();
    let other = world.class(options);
    let orders = |from: u32| {
        (from..from + 40)
            .map(anywhere)
            .collect::<Vec<LaunchRequest>>()
    };
    let (ours, theirs) = (orders(0), orders(100));
    let answers =
        futures::future::join(world.provider.launch_all(&ours), other.launch_all(&theirs)).await;
    let made = |answers: &[Result<_, ProviderError>]| answers.iter().flatten().count();
    let made = made(&answers.0) + made(&answers.1);
    // Three hosts with 62 GiB for machines of 4 GiB.
    for (host, bytes) in world.cloud.most_sold() {
        assert!(bytes <= 62 << 30, "{host} was sold {} GiB", bytes >> 30);
    }
    assert!(made <= 45, "{made}");
    assert_eq!(world.cloud.machines().len(), made);
    assert!(made >= 40, "and little is wasted: {made}");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_cannot_be_grown_ends_the_machine_so_that_another_host_has_its_turn() {
    let world = World::open(|options, _| {
        options.template = Some(Template {
            disk_gib: Some(32),
            ..copying()
        });
    });
    world.cloud.plant(9000, "pve1", &TEMPLATE, false);
    let full = "lvcreate 'pve/vm-1250-disk-0' error: insufficient free space";
    world.cloud.fail_task("resize", full, 1);
    let machine = world.provider.launch(&order(1)).await.unwrap();
    seconds(45).await;
    let shown = world.provider.get(&machine.id).await.unwrap();
    let MachineState::Failed(said) = &shown.state else {
        panic!("{shown:?}")
    };
    assert!(said.contains("insufficient free space"), "{said}");
    world.until_gone(&machine.id).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_may_still_take_effect_keeps_its_number_through_refusals() {
    let world = World::open(|_, _| {});
    let late = CallFault::Late(599, Duration::from_mins(1));
    world.cloud.fail("POST /nodes/*/qemu", late, 1);
    let error = world.provider.launch(&order(1)).await.unwrap_err();
    assert!(error.passes(), "{error}");
    let busy = CallFault::Refused(500, "got no worker upid - start worker failed".to_owned());
    world.cloud.fail("POST /nodes/*/qemu", busy, 1);
    let error = world.provider.launch(&order(1)).await.unwrap_err();
    assert!(error.passes(), "{error}");
    let machine = world.provider.launch(&order(1)).await.unwrap();
    world.until_running(&machine.id).await;
    seconds(120).await;
    assert_eq!(world.cloud.machines().len(), 1, "there is no twin");
}
