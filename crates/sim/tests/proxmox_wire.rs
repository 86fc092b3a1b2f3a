//! The Proxmox provider against the simulated cluster: what goes wrong there, one thing at a time and all at once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::CapacityType;
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::http::{Endpoint, Http};
use joiner_providers::proxmox::{ApiToken, IdRange, Interface, Proxmox, ProxmoxOptions, Template};
use joiner_providers::{
    LaunchRequest, Machine, MachineId, MachineState, Owner, Provider, ProviderError, Uid,
};
use joiner_sim::clouds::proxmox::{CallFault, ProxmoxCloud, ProxmoxCloudOptions};
use joiner_sim::clouds::sim::Rack;

#[derive(Default)]
struct Booted(Mutex<Vec<NodeSpec>>);

impl Rack for Booted {
    fn boot(&self, spec: NodeSpec) {
        self.0.lock().unwrap().push(spec);
    }
    fn kill(&self, _: &str) {}
}

struct World {
    cloud: ProxmoxCloud,
    provider: Proxmox,
    nodes: Arc<Booted>,
    clock: Clock,
}

fn class(ids: IdRange) -> ProxmoxOptions {
    let owner = Owner {
        cluster: "cluster-1".into(),
        family: "karpenter".into(),
    };
    let token = ApiToken {
        id: "joiner@pve!sim".to_owned(),
        secret: "sim-token-secret".into(),
    };
    let api = Endpoint::parse("https://pve.example.com:8006/api2/json", &[]).unwrap();
    let mut options = ProxmoxOptions::new(owner, api, Arc::new(token), ids, "joiner");
    options.interfaces.push(Interface {
        name: "net0".to_owned(),
        model: "virtio".to_owned(),
        bridge: "vmbr0".to_owned(),
        vlan: None,
        mac_prefix: Some("02:00:00".to_owned()),
    });
    options
}

const IDS: IdRange = IdRange {
    first: 1250,
    last: 1300,
};

impl World {
    fn open(change: impl FnOnce(&mut ProxmoxOptions, &mut ProxmoxCloudOptions)) -> Self {
        let clock = Clock::virtual_time();
        let (mut options, mut there) = (class(IDS), ProxmoxCloudOptions::of_hosts(3));
        change(&mut options, &mut there);
        let nodes = Arc::new(Booted::default());
        let cloud = ProxmoxCloud::new(there, clock.clone(), Arc::clone(&nodes) as Arc<dyn Rack>);
        let runner = cloud.clone();
        tokio::spawn(async move { runner.run().await });
        let provider = World::provider(&cloud, options, &clock);
        World {
            cloud,
            provider,
            nodes,
            clock,
        }
    }

    fn provider(cloud: &ProxmoxCloud, options: ProxmoxOptions, clock: &Clock) -> Proxmox {
        let clock = clock.clone();
        let now: Arc<dyn Fn() -> Timestamp + Send + Sync> = Arc::new(move || clock.now());
        Proxmox::new(Http::new(cloud.router()), options, now).unwrap()
    }

    /// The same class after a crash: everything that was remembered is lost.
    fn restart(&mut self, options: ProxmoxOptions) {
        self.provider = World::provider(&self.cloud, options, &self.clock);
    }

    async fn until_running(&self, id: &MachineId) -> Machine {
        for _ in 0..120 {
            let machine = self.provider.get(id).await.unwrap();
            if machine.state == MachineState::Running {
                return machine;
            }
            seconds(2).await;
        }
        panic!("{id} does not run: {:?}", self.provider.get(id).await);
    }

    async fn until_gone(&self, id: &MachineId) {
        for _ in 0..120 {
            if let Err(ProviderError::NotFound(_)) = self.provider.terminate(id).await {
                return;
            }
            seconds(5).await;
        }
        panic!("{id} does not go: {:?}", self.provider.terminate(id).await);
    }
}

fn order(uid: u32) -> LaunchRequest {
    LaunchRequest {
        uid: Uid(format!("0b5cbbe1-0000-4000-8000-{uid:012}").into()),
        name: format!("node-{uid}").into(),
        purchase: Purchase {
            catalog: "proxmox".into(),
            instance_type: "proxmox-16".into(),
            zone: "pve1".into(),
            capacity_type: CapacityType::OnDemand,
            reservation: None,
            host: Some("pve1".into()),
            price: Money::ZERO,
        },
        capacity: Resources::new().with(CPU, 2000).with(MEMORY, 4 << 30),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    }
}

fn anywhere(uid: u32) -> LaunchRequest {
    let mut order = order(uid);
    order.purchase.zone = "".into();
    order.purchase.host = None;
    order
}

fn number(machine: &Machine) -> u32 {
    machine.id.0.split('/').nth(4).unwrap().parse().unwrap()
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

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

/// Everything that the page of failures lists, as calls and tasks that go wrong.
fn break_something(cloud: &ProxmoxCloud, round: u32) {
    let refused = |status: u16, text: &str| CallFault::Refused(status, text.to_owned());
    let lock = "can't lock file '/var/lock/qemu-server/lock-N.conf' - got timeout";
    match round % 17 {
        0 => cloud.fail("POST /nodes/", CallFault::Lost, 1),
        1 => cloud.fail("DELETE /nodes/", CallFault::Lost, 1),
        2 => cloud.fail("PUT /nodes/", CallFault::Lost, 1),
        3 => cloud.fail("POST /nodes/", refused(500, lock), 1),
        4 => cloud.fail("DELETE /nodes/", refused(500, lock), 1),
        5 => cloud.fail(
            "POST /nodes/",
            refused(500, "got no worker upid - start worker failed"),
            1,
        ),
        6 => cloud.fail("POST /nodes/", refused(595, "No route to host"), 1),
        7 => cloud.fail("GET /nodes/", refused(599, "Connection timed out"), 1),
        8 => cloud.fail_task(
            "qmcreate",
            "cfs-lock 'storage-ceph' error: got lock request timeout",
            1,
        ),
        9 => cloud.fail_task("qmcreate", "zfs error: cannot create 'x': out of space", 1),
        10 => cloud.fail_task("qmstart", "start failed: QEMU exited with code 1", 1),
        11 => cloud.fail_task("qmstop", "VM is locked (backup)", 1),
        12 => cloud.fail_task("qmdestroy", lock, 1),
        13 => cloud.fail(
            "POST /nodes/",
            refused(
                500,
                "unable to create VM 1 - VM 1 already exists on node 'pve2'",
            ),
            1,
        ),
        14 => cloud.set_quorum(false),
        15 => cloud.fail("GET /cluster/resources", refused(596, "Broken pipe"), 1),
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn five_hundred_rounds_of_failures_leave_no_machine_and_touch_no_stranger() {
    let mut world = World::open(|options, there| {
        options.ids = IdRange {
            first: 1250,
            last: 1270,
        };
        there.creates_within = Duration::from_secs(1);
    });
    let class = || {
        let mut options = class(IDS);
        options.ids = IdRange {
            first: 1250,
            last: 1270,
        };
        options
    };
    let strangers: Vec<u32> = vec![1251, 1260, 1266, 9000];
    for vmid in &strangers {
        let config = [
            ("name", "stranger"),
            ("tags", "joiner;theirs"),
            ("memory", "2048"),
        ];
        world.cloud.plant(*vmid, "pve2", &config, true);
    }
    let mut made = 0;
    for round in 0..500_u32 {
        break_something(&world.cloud, round);
        let order = anywhere(round);
        let mut bought = None;
        for attempt in 0..40 {
            match world.provider.launch(&order).await {
                Ok(machine) => {
                    bought = Some(machine);
                    break;
                }
                Err(error) => {
                    assert!(error.passes(), "round {round}: {error}");
                    if attempt == 1 {
                        world.cloud.set_quorum(true);
                    }
                    seconds(5).await;
                }
            }
        }
        world.cloud.set_quorum(true);
        if round % 5 == 0 {
            // The process dies, and another one goes on.
            world.restart(class());
        }
        if let Some(machine) = &bought {
            made += 1;
            for _ in 0..20 {
                match world.provider.get(&machine.id).await {
                    Ok(found)
                        if matches!(
                            found.state,
                            MachineState::Running | MachineState::Failed(_)
                        ) =>
                    {
                        break;
                    }
                    Err(ProviderError::NotFound(_)) => break,
                    _ => seconds(3).await,
                }
            }
            if round % 7 == 0 {
                world.cloud.migrate(number(machine), "pve3");
            }
            if round % 11 == 0 {
                world.cloud.set_lock(number(machine), Some("backup"));
                let _ = world.provider.terminate(&machine.id).await;
                seconds(10).await;
                world.cloud.set_lock(number(machine), None);
            }
        }
        // What is ours by its mark goes, known or not: a launch whose answer was lost for good is found here.
        for _ in 0..60 {
            let Ok(listed) = world.provider.list().await else {
                seconds(5).await;
                continue;
            };
            if listed.is_empty() {
                break;
            }
            for machine in listed {
                let _ = world.provider.terminate(&machine.id).await;
            }
            seconds(5).await;
        }
        let left: Vec<u32> = world.cloud.machines().keys().copied().collect();
        assert_eq!(left, strangers, "round {round}");
        world.cloud.forgive();
    }
    assert!(made > 450, "{made}");
    let touched: BTreeSet<u32> = world.cloud.touched().into_iter().collect();
    assert!(
        strangers.iter().all(|vmid| !touched.contains(vmid)),
        "{touched:?}"
    );
    for (vmid, vm) in world.cloud.machines() {
        assert!(vm.running && vm.config["name"] == "stranger", "{vmid}");
    }
}
