//! Machines are made and removed on a simulated Proxmox cluster while everything goes wrong that is documented to: by two
//! classes at the same time, one that boots from the network and one that copies a template.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

#[path = "proxmox/failures.rs"]
mod failures;
#[path = "proxmox/world.rs"]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use failures::{Failure, How, State, documented, pattern};
use futures::future::join_all;
use joiner_providers::proxmox::{
    ApiToken, Credentials, IdRange, Proxmox, ProxmoxOptions, Template,
};
use joiner_providers::{LaunchRequest, Machine, MachineId, MachineState, Provider, ProviderError};
use world::{World, anywhere, number, seconds};

/// Machines that are made in all.
const MACHINES: u32 = 500;
/// Machines that are made at the same time.
const AT_ONCE: u32 = 4;
/// How often each failure must have been met.
const MET: u32 = 5;
const STRANGERS: [u32; 4] = [1251, 1260, 1266, 9001];
const TEMPLATE: u32 = 9000;

/// A Secret that can be edited.
struct Secret(Mutex<String>);

#[async_trait]
impl Credentials for Secret {
    async fn token(&self) -> Result<ApiToken, ProviderError> {
        Ok(ApiToken {
            id: "joiner@pve!sim".to_owned(),
            secret: self.0.lock().unwrap().clone().into(),
        })
    }
}

/// A cluster with machines of others, and two classes on it.
struct Rounds {
    world: World,
    secret: Arc<Secret>,
    copies: Proxmox,
    /// How often each failure was met, by its place in the table.
    met: Vec<u32>,
    table: Vec<Failure>,
}

fn netboot(secret: &Arc<Secret>) -> ProxmoxOptions {
    let ids = IdRange {
        first: 1250,
        last: 1279,
    };
    let disk = ("scsi0".to_owned(), "local-zfs:4".to_owned());
    ProxmoxOptions {
        credentials: Arc::clone(secret) as Arc<dyn Credentials>,
        vm_options: vec![disk],
        ..world::class(ids)
    }
}

fn copying(secret: &Arc<Secret>) -> ProxmoxOptions {
    let template = Template {
        name: "debian".to_owned(),
        storage: None,
        linked: false,
        disk_gib: Some(32),
    };
    ProxmoxOptions {
        template: Some(template),
        vm_options: vec![("ide2".to_owned(), "ceph:cloudinit".to_owned())],
        ..netboot(secret)
    }
}

impl Rounds {
    fn open() -> Self {
        let secret = Arc::new(Secret(Mutex::new("sim-token-secret".to_owned())));
        let world = World::open(|options, there| {
            *options = netboot(&secret);
            there.creates_within = Duration::from_secs(2);
            there.makes_at_once = Some(2);
        });
        let copies = world.class(copying(&secret));
        for vmid in STRANGERS {
            let config = [
                ("name", "stranger"),
                ("tags", "joiner;theirs"),
                ("memory", "2048"),
            ];
            world.cloud.plant(vmid, "pve2", &config, true);
        }
        let template = [
            ("name", "debian"),
            ("template", "1"),
            ("scsi0", "ceph:8"),
            ("boot", "order=scsi0"),
        ];
        world.cloud.plant(TEMPLATE, "pve2", &template, false);
        let table = documented();
        Rounds {
            met: vec![0; table.len()],
            world,
            secret,
            copies,
            table,
        }
    }

    /// Both classes after a crash.
    fn restart(&mut self) {
        self.world.restart(netboot(&self.secret));
        self.copies = self.world.class(copying(&self.secret));
    }

    /// The failures that were met least so far: so many of calls and tasks, and one of the cluster's state.
    fn next(&self, calls: usize) -> (Vec<usize>, usize) {
        let least = |states: bool| {
            let rows = self.table.iter().enumerate();
            let kind = rows.filter(|(_, row)| matches!(row.how, How::State(_)) == states);
            let mut all: Vec<usize> = kind.map(|(index, _)| index).collect();
            all.sort_by_key(|index| self.met.get(*index).copied());
            all
        };
        let calls = least(false).into_iter().take(calls).collect();
        (calls, least(true).first().copied().unwrap())
    }

    fn class_of(&self, order: u32) -> &Proxmox {
        if order.is_multiple_of(2) {
            &self.world.provider
        } else {
            &self.copies
        }
    }

    /// Asks for a machine until there is one, as the engine does, and follows it until it runs or has failed.
    async fn begin(&self, order: u32, request: &LaunchRequest) -> Option<Machine> {
        let class = self.class_of(order);
        let mut bought = None;
        for attempt in 0..150_u64 {
            match class.launch(request).await {
                Ok(machine) => {
                    bought = Some(machine);
                    break;
                }
                Err(_) => seconds(2 + attempt.min(18)).await,
            }
        }
        let bought = bought?;
        for _ in 0..100 {
            match class.get(&bought.id).await {
                Ok(found)
                    if matches!(found.state, MachineState::Running | MachineState::Failed(_)) =>
                {
                    return Some(found);
                }
                Err(ProviderError::NotFound(_)) => return None,
                _ => seconds(3).await,
            }
        }
        Some(bought)
    }

    async fn end(&self, order: u32, id: &MachineId) {
        for _ in 0..60 {
            if let Err(ProviderError::NotFound(_)) = self.class_of(order).terminate(id).await {
                return;
            }
            seconds(3).await;
        }
    }

    /// Something happens to the cluster or to a machine while others are made, and is over after a while.
    async fn happens(&self, state: State, wave: u32) {
        let cloud = &self.world.cloud;
        let host = format!("pve{}", 1 + wave % 3);
        match state {
            State::TokenExpires => {
                let fresh = format!("secret-of-{wave}");
                cloud.change(|options| options.token.1.clone_from(&fresh));
                seconds(20).await;
                *self.secret.0.lock().unwrap() = fresh;
            }
            State::QuorumIsLost => {
                cloud.set_quorum(false);
                seconds(15).await;
                cloud.set_quorum(true);
            }
            State::HostGoesOffline => {
                cloud.set_online(&host, false);
                seconds(25).await;
                cloud.set_online(&host, true);
            }
            _ => {}
        }
    }

    /// Something happens to a machine that runs: what is to be undone when it is over.
    fn befalls(&self, state: State, vmid: u32, wave: u32) {
        let cloud = &self.world.cloud;
        match state {
            State::HighAvailabilityMoves => {
                cloud.set_ha(vmid);
                cloud.migrate(vmid, &format!("pve{}", 1 + wave % 3));
            }
            State::BackupLocks => cloud.set_lock(vmid, Some("backup")),
            State::Protected => cloud.set_option(vmid, "protection", "1"),
            State::DiskIsFull => cloud.set_qmp(vmid, Some("io-error")),
            _ => {}
        }
    }

    fn is_over(&self, state: State, vmid: u32) {
        let cloud = &self.world.cloud;
        match state {
            State::BackupLocks => cloud.set_lock(vmid, None),
            State::Protected => cloud.set_option(vmid, "protection", "0"),
            _ => {}
        }
    }

    /// No number and no machine is there twice, whichever class made it.
    fn check_twins(&self, wave: u32) {
        let all = self.world.cloud.machines();
        let own = all.iter().filter(|(_, vm)| vm.made.is_some());
        let mut marks = BTreeMap::new();
        for (vmid, vm) in own {
            let Some(mark) = vm.config.get("description") else {
                continue;
            };
            let uid = mark.split("\"uid\":\"").nth(1).unwrap_or_default();
            let uid = uid.split('"').next().unwrap_or_default().to_owned();
            if let Some(twin) = marks.insert(uid.clone(), vmid) {
                panic!("wave {wave}: {uid} is VM {twin} and VM {vmid}");
            }
        }
    }

    /// What is ours by its mark goes, known or not: a launch whose answer was lost for good is found here.
    async fn sweep(&self) {
        for _ in 0..80 {
            let mut left = false;
            for class in [&self.world.provider, &self.copies] {
                match class.list().await {
                    Ok(listed) => {
                        left |= !listed.is_empty();
                        for machine in listed {
                            let _ = class.terminate(&machine.id).await;
                        }
                    }
                    Err(_) => left = true,
                }
            }
            if !left {
                return;
            }
            seconds(3).await;
        }
    }

    /// One wave: machines are made at the same time, something happens to one that runs, and all of them go.
    async fn wave(&mut self, wave: u32, orders: &[u32]) -> usize {
        let (calls, state) = self.next(4);
        for index in &calls {
            self.table[*index].bring_about(&self.world.cloud);
        }
        let How::State(happens) = self.table[state].how else {
            panic!("not a state");
        };
        let requests: Vec<LaunchRequest> = orders.iter().map(|order| anywhere(*order)).collect();
        let begun = orders.iter().zip(&requests);
        let begun = join_all(begun.map(|(order, request)| self.begin(*order, request)));
        let (machines, ()) = futures::future::join(begun, self.happens(happens, wave)).await;
        self.check_twins(wave);
        if wave.is_multiple_of(5) {
            self.restart();
        }
        let made: Vec<(u32, &Machine)> = orders
            .iter()
            .zip(&machines)
            .filter_map(|(order, machine)| Some((*order, machine.as_ref()?)))
            .collect();
        let running = made
            .iter()
            .filter(|(_, one)| one.state == MachineState::Running);
        let ran = running.clone().count();
        let victim = running.clone().next().map(|(_, machine)| number(machine));
        if let Some(vmid) = victim {
            self.befalls(happens, vmid, wave);
            if happens == State::DiskIsFull {
                let (order, machine) = made.iter().find(|one| number(one.1) == vmid).unwrap();
                let shown = self.class_of(*order).get(&machine.id).await.unwrap();
                assert!(matches!(shown.state, MachineState::Failed(_)), "{shown:?}");
            }
        }
        let over = async {
            seconds(12).await;
            if let Some(vmid) = victim {
                self.is_over(happens, vmid);
            }
        };
        let ends = join_all(made.iter().map(|(order, one)| self.end(*order, &one.id)));
        futures::future::join(ends, over).await;
        self.sweep().await;
        let late = |index: &usize| self.table[*index].takes_effect_late();
        if calls.iter().any(late) {
            seconds(65).await;
            self.sweep().await;
        }
        let unmet = self.world.cloud.unmet();
        for index in calls {
            self.met[index] += u32::from(!unmet.contains(&self.table[index].name()));
        }
        self.met[state] += u32::from(victim.is_some());
        let left: Vec<u32> = self.world.cloud.machines().keys().copied().collect();
        let mut expected = STRANGERS.to_vec();
        expected.push(TEMPLATE);
        expected.sort_unstable();
        assert_eq!(left, expected, "wave {wave} of {happens:?}");
        self.world.cloud.forgive();
        ran
    }
}

#[tokio::test(start_paused = true)]
async fn five_hundred_rounds_of_every_documented_failure_leave_no_machine_and_touch_no_stranger() {
    let mut rounds = Rounds::open();
    let mut ran = 0;
    for wave in 0..MACHINES / AT_ONCE {
        let orders: Vec<u32> = (0..AT_ONCE).map(|one| wave * AT_ONCE + one).collect();
        ran += rounds.wave(wave, &orders).await;
    }
    assert!(ran > 400, "{ran} of {MACHINES} machines ran");
    let rare: Vec<(String, u32)> = rounds
        .table
        .iter()
        .zip(&rounds.met)
        .filter(|(_, met)| **met < MET)
        .map(|(row, met)| (row.name(), *met))
        .collect();
    assert!(rare.is_empty(), "met less than {MET} times: {rare:#?}");
    // The table is whole: the cluster has said nothing that is not in it.
    let known: BTreeSet<String> = rounds.table.iter().flat_map(Failure::says).collect();
    let said = rounds.world.cloud.said();
    let unknown: Vec<&String> = said.keys().filter(|text| !known.contains(*text)).collect();
    assert!(unknown.is_empty(), "not in the table: {unknown:#?}");
    let silent: Vec<&String> = known
        .iter()
        .filter(|text| !said.contains_key(*text))
        .collect();
    assert!(silent.is_empty(), "never said: {silent:#?}");
    let touched: BTreeSet<u32> = rounds.world.cloud.touched().into_iter().collect();
    assert!(
        !STRANGERS.iter().any(|vmid| touched.contains(vmid)),
        "{touched:?}"
    );
    for vmid in STRANGERS {
        let all = rounds.world.cloud.machines();
        assert!(all[&vmid].running && all[&vmid].config["name"] == "stranger");
    }
    assert_eq!(pattern("VM 1250 on pve2"), "VM N on pveN");
}
