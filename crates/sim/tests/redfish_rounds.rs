//! Hosts of every model are powered on and off, all at the same time, while everything goes wrong that is documented to;
//! and hosts that two classes list, before and after another process leads.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

#[path = "redfish/failures.rs"]
mod failures;
#[path = "redfish/world.rs"]
mod world;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use failures::{Failure, How, State, documented};
use futures::future::join_all;
use joiner_core::name::Name;
use joiner_providers::redfish::claims::Reservations;
use joiner_providers::redfish::{HostOptions, Redfish};
use joiner_providers::{
    LaunchRequest, Ledger, LedgerEntry, Machine, MachineState, Provider, ProviderError,
};
use joiner_sim::clouds::redfish::{HostSetup, Model};
use world::{World, bmc, free, order, seconds, until_gone, until_running};

/// Machines that are asked for in all.
const MACHINES: u32 = 504;
/// How often each failure must have been met.
const MET: u32 = 3;

/// Ledgers of several classes, that outlive the process, and the number of its leadership.
#[derive(Clone, Default)]
struct Shelf {
    entries: Arc<Mutex<BTreeMap<(String, Name), String>>>,
    term: Arc<Mutex<u64>>,
}

/// The ledger of one class.
struct Book {
    shelf: Shelf,
    class: String,
}

impl Shelf {
    fn book(&self, class: &str) -> Arc<dyn Ledger> {
        Arc::new(Book {
            shelf: self.clone(),
            class: class.to_owned(),
        })
    }
}

#[async_trait]
impl Ledger for Book {
    fn term(&self) -> Option<u64> {
        Some(*self.shelf.term.lock().unwrap())
    }

    async fn load(&self) -> Result<Vec<LedgerEntry>, ProviderError> {
        let entries = self.shelf.entries.lock().unwrap();
        let own = entries
            .iter()
            .filter(|((class, _), _)| *class == self.class);
        Ok(own.map(entry).collect())
    }

    async fn load_all(&self) -> Result<Vec<LedgerEntry>, ProviderError> {
        Ok(self
            .shelf
            .entries
            .lock()
            .unwrap()
            .iter()
            .map(entry)
            .collect())
    }

    async fn store(&self, entry: &LedgerEntry) -> Result<(), ProviderError> {
        let key = (self.class.clone(), entry.key.clone());
        let mut entries = self.shelf.entries.lock().unwrap();
        entries.insert(key, entry.value.clone());
        Ok(())
    }

    async fn erase(&self, key: &str) -> Result<(), ProviderError> {
        let mut entries = self.shelf.entries.lock().unwrap();
        entries.remove(&(self.class.clone(), key.into()));
        Ok(())
    }
}

fn entry(((_, key), value): (&(String, Name), &String)) -> LedgerEntry {
    LedgerEntry {
        key: key.clone(),
        value: value.clone(),
    }
}

/// Hosts of every model, one that runs something else, and two classes: one lists all hosts, one every other.
struct Rounds {
    world: World,
    shelf: Shelf,
    all: Redfish,
    some: Redfish,
    count: u32,
    table: Vec<Failure>,
    met: Vec<u32>,
}

fn hosts(world: &World, every: usize, count: u32) -> Vec<HostOptions> {
    let numbers = (0..=count as usize).step_by(every);
    numbers.map(|number| world.host(number)).collect()
}

impl Rounds {
    fn open() -> Self {
        let models = Model::all();
        let world = World::new(&models);
        let count = u32::try_from(models.len()).unwrap();
        let foreign = bmc(models.len());
        world.fleet.add(HostSetup::new(&foreign, Model::plain()));
        world.fleet.occupy(&foreign);
        let shelf = Shelf::default();
        let table = documented();
        Rounds {
            all: world.class(hosts(&world, 1, count), shelf.book("all")),
            some: world.class(hosts(&world, 2, count), shelf.book("some")),
            met: vec![0; table.len()],
            world,
            shelf,
            count,
            table,
        }
    }

    /// The process dies: its sessions stay open, and another one leads.
    fn restart(&mut self) {
        *self.shelf.term.lock().unwrap() += 1;
        self.world.reservations = Arc::new(Reservations::default());
        self.all = self
            .world
            .class(hosts(&self.world, 1, self.count), self.shelf.book("all"));
        self.some = self
            .world
            .class(hosts(&self.world, 2, self.count), self.shelf.book("some"));
    }

    /// Classes and what is bought of them: every host of the first, and those of the other that both list.
    fn orders(&self, wave: u32) -> Vec<(&Redfish, LaunchRequest)> {
        let order_of = |host: u32, number: u32| order(number, &format!("metal-{host}"));
        let first = (0..self.count).map(|host| (&self.all, order_of(host, wave * 100 + host)));
        let second = (0..self.count).step_by(2);
        let second = second.map(|host| (&self.some, order_of(host, wave * 100 + 50 + host)));
        // Who asks first is not always the same.
        let mut orders: Vec<_> = first.chain(second).collect();
        if wave.is_multiple_of(2) {
            orders.reverse();
        }
        orders
    }

    fn happens(&self, state: State, authority: &str) {
        let fleet = &self.world.fleet;
        match state {
            State::BmcRestarts => fleet.restart_bmc(authority, 4),
            State::SessionsAreExhausted => fleet.leave_sessions(authority, 16),
            State::BootIsForgotten => fleet.forget_boot(authority, 1),
            State::PowerOnIsForgotten => fleet.stick(authority, 1),
            State::SystemIsChanged => fleet.touch(authority),
            State::PasswordChanges => {
                fleet.change(authority, |setup| "another".clone_into(&mut setup.password));
                fleet.end_sessions(authority);
            }
            State::PlugIsPulled => {}
        }
    }

    async fn wave(&mut self, wave: u32) -> usize {
        let least = |states: bool| {
            let rows = self.table.iter().enumerate();
            let kind = rows.filter(|(_, row)| matches!(row.how, How::State(_)) == states);
            let mut all: Vec<usize> = kind.map(|(index, _)| index).collect();
            all.sort_by_key(|index| self.met.get(*index).copied());
            all
        };
        let host = |at: usize| bmc((wave as usize + at * 3) % self.count as usize);
        let calls: Vec<usize> = least(false).into_iter().take(3).collect();
        for (at, index) in calls.iter().enumerate() {
            self.table[*index].bring_about(&self.world.fleet, &host(at));
        }
        let state = *least(true).first().unwrap();
        let victim = host(3);
        let How::State(happens) = self.table[state].how else {
            panic!("not a state");
        };
        self.happens(happens, &victim);
        let orders = self.orders(wave);
        let lives = orders
            .iter()
            .map(|(class, order)| until_running(class, order));
        let bought: Vec<Result<Machine, ProviderError>> = join_all(lives).await;
        let running = |one: &Result<Machine, ProviderError>| {
            one.as_ref()
                .is_ok_and(|machine| machine.state == MachineState::Running)
        };
        let ran = bought.iter().filter(|one| running(one)).count();
        let mut sold: Vec<&Name> = bought
            .iter()
            .flatten()
            .map(|one| &one.instance_type)
            .collect();
        sold.sort();
        let all = sold.len();
        sold.dedup();
        assert_eq!(sold.len(), all, "wave {wave}: a host was sold twice");
        if happens == State::PlugIsPulled {
            self.world.fleet.unplug(&victim);
        }
        // What was changed by others is put right again.
        self.world.fleet.change(&victim, |setup| {
            "sim-password".clone_into(&mut setup.password);
        });
        let ends = orders
            .iter()
            .map(|(class, order)| until_gone(class, &order.uid));
        let gone = join_all(ends).await;
        assert!(
            gone.into_iter().all(|gone| gone),
            "wave {wave}: {happens:?}"
        );
        for index in calls {
            let unmet = self.world.fleet.unmet();
            self.met[index] += u32::from(!unmet.contains(&self.table[index].name()));
        }
        self.met[state] += 1;
        self.world.fleet.forgive();
        for number in 0..self.count as usize {
            self.world.fleet.forget_boot(&bmc(number), 0);
            self.world.fleet.stick(&bmc(number), 0);
        }
        if wave.is_multiple_of(7) {
            self.restart();
        }
        // Hosts that did not start are left alone for a while; catalogues are read meanwhile.
        for _ in 0..20 {
            seconds(60).await;
            let _ = self.all.catalog().await;
            let _ = self.some.catalog().await;
        }
        let powered = self.world.fleet.powered();
        assert_eq!(powered, 1, "wave {wave}: only what is not ours has power");
        ran
    }
}

#[tokio::test(start_paused = true)]
async fn five_hundred_rounds_of_every_documented_failure_leave_no_power_and_no_session() {
    let mut rounds = Rounds::open();
    let waves = MACHINES / rounds.count;
    let mut ran = 0;
    for wave in 0..waves {
        ran += rounds.wave(wave).await;
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
    // A session whose answer was lost ends by itself after half an hour; one that is in use is closed.
    for _ in 0..31 {
        seconds(60).await;
        rounds.all.catalog().await.unwrap();
        rounds.some.catalog().await.unwrap();
    }
    let hosts = 0..=rounds.count as usize;
    for number in hosts.clone() {
        let truth = rounds.world.fleet.truth(&bmc(number)).unwrap();
        assert!(truth.sessions <= 2, "host {number}: {truth:?}");
    }
    rounds.all.close().await;
    rounds.some.close().await;
    for number in hosts {
        let truth = rounds.world.fleet.truth(&bmc(number)).unwrap();
        let left = (truth.sessions, truth.disturbed, truth.armed);
        assert_eq!(left, (0, 0, false), "host {number}: {truth:?}");
        assert_eq!(
            truth.other_boots, 0,
            "host {number}: every boot came from the network"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_another_class_claimed_under_an_earlier_leader_is_not_bought_again() {
    // Whether its BMC has an asset tag that can be written or not.
    for model in [Model::plain(), Model::all().remove(6)] {
        let name = model.name;
        let mut world = World::new(&[model]);
        let shelf = Shelf::default();
        let first = world.class(hosts(&world, 1, 0), shelf.book("first"));
        let (a, b) = (order(1, "metal-0"), order(2, "metal-0"));
        // Claimed, and asked to power on, which takes a while; then its process dies.
        let machine = first.launch(&a).await.unwrap();
        assert!(matches!(machine.state, MachineState::Pending(_)), "{name}");
        drop(first);
        *shelf.term.lock().unwrap() += 1;
        world.reservations = Arc::new(Reservations::default());
        // In the new process the other class is read first.
        let second = world.class(hosts(&world, 1, 0), shelf.book("second"));
        assert!(free(&second.catalog().await.unwrap()).is_empty(), "{name}");
        let error = second.launch(&b).await.unwrap_err();
        assert_eq!(error.kind(), "out_of_capacity", "{name}: {error}");
        let first = world.class(hosts(&world, 1, 0), shelf.book("first"));
        let again = until_running(&first, &a).await.unwrap();
        assert_eq!(again.id, machine.id, "{name}");
        // Once it is given back, every class that lists it may have it.
        assert!(until_gone(&first, &a.uid).await, "{name}");
        assert!(until_running(&second, &b).await.is_ok(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_refused_and_is_open_all_the_same_is_ended() {
    let world = World::plain(1);
    let (provider, _) = world.all(1);
    provider.catalog().await.unwrap();
    let refused = joiner_sim::clouds::redfish::CallFault::Says(401, String::new());
    world
        .fleet
        .fail(&format!("GET {}/redfish/v1/Systems", bmc(0)), refused, 1);
    provider.catalog().await.unwrap();
    let truth = world.fleet.truth(&bmc(0)).unwrap();
    assert_eq!((truth.opened, truth.sessions), (2, 1));
    provider.close().await;
    assert_eq!(world.fleet.truth(&bmc(0)).unwrap().sessions, 0);
}
