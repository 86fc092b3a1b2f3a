//! The Redfish provider against simulated BMCs of every model, and against what goes wrong with them.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::CapacityType;
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::http::Http;
use joiner_providers::redfish::claims::Reservations;
use joiner_providers::redfish::{
    Access, BootMode, BootOptions, CredentialSource, Credentials, HostOptions, PowerOffOptions,
    Redfish, RedfishOptions,
};
use joiner_providers::{
    LaunchRequest, Ledger, Machine, MachineState, MemoryLedger, Owner, Provider, ProviderError, Uid,
};
use joiner_sim::clouds::redfish::{CallFault, HostSetup, Model, RedfishFleet};
use joiner_sim::clouds::sim::Rack;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Nodes that are up, with their provider ids.
#[derive(Default)]
struct Nodes(Mutex<BTreeMap<String, String>>);

impl Rack for Nodes {
    fn boot(&self, spec: NodeSpec) {
        self.0.lock().unwrap().insert(spec.name, spec.provider_id);
    }
    fn kill(&self, name: &str) {
        self.0.lock().unwrap().remove(name);
    }
}

/// A Secret that can be edited.
struct Secret(Mutex<String>);

#[async_trait]
impl CredentialSource for Secret {
    async fn credentials(&self) -> Result<Credentials, ProviderError> {
        Ok(Credentials {
            username: "admin".into(),
            password: self.0.lock().unwrap().clone().into(),
        })
    }
}

struct World {
    fleet: RedfishFleet,
    nodes: Arc<Nodes>,
    clock: Clock,
    secret: Arc<Secret>,
    reservations: Arc<Reservations>,
}

impl World {
    fn new(models: &[Model]) -> Self {
        let clock = Clock::virtual_time();
        let nodes = Arc::new(Nodes::default());
        let fleet = RedfishFleet::new(clock.clone(), Arc::clone(&nodes) as Arc<dyn Rack>);
        for (number, model) in models.iter().enumerate() {
            fleet.add(HostSetup::new(&bmc(number), model.clone()));
        }
        let runner = fleet.clone();
        tokio::spawn(async move { runner.run().await });
        World {
            fleet,
            nodes,
            clock,
            secret: Arc::new(Secret(Mutex::new("sim-password".into()))),
            reservations: Arc::default(),
        }
    }

    fn plain(count: usize) -> Self {
        World::new(&vec![Model::plain(); count])
    }

    fn host(&self, number: usize) -> HostOptions {
        HostOptions {
            name: format!("metal-{number}").into(),
            address: format!("https://{}", bmc(number)),
            system_path: None,
            system_uuid: None,
            serial_number: None,
            node_name: None,
            capacity: Resources::new().with(CPU, 16_000).with(MEMORY, 64 << 30),
            labels: Labels::new(),
            price: Money::from_dollars(0.02),
            access: Access {
                credentials: Arc::clone(&self.secret) as Arc<dyn CredentialSource>,
                http: Http::new(self.fleet.router()),
                unverified: false,
            },
            boot: BootOptions::default(),
            power_off: PowerOffOptions::default(),
        }
    }

    fn provider(&self, hosts: Vec<HostOptions>, ledger: &Arc<MemoryLedger>) -> Redfish {
        let options = RedfishOptions {
            catalog: "racks".into(),
            hosts,
            fallback: None,
            allowed_hosts: Vec::new(),
            registration_timeout: Duration::from_mins(20),
        };
        let owner = Owner {
            cluster: "cluster-1".into(),
            family: "karpenter".into(),
        };
        let clock = self.clock.clone();
        Redfish::new(
            options,
            owner,
            Arc::clone(ledger) as Arc<dyn Ledger>,
            Arc::clone(&self.reservations),
            Arc::new(move || clock.now()),
        )
        .unwrap()
    }

    fn all(&self, count: usize) -> (Redfish, Arc<MemoryLedger>) {
        let ledger = Arc::new(MemoryLedger::default());
        let hosts = (0..count).map(|number| self.host(number)).collect();
        (self.provider(hosts, &ledger), ledger)
    }
}

fn bmc(number: usize) -> String {
    format!("10.0.9.{}", number + 11)
}

fn order(uid: u32, host: &str) -> LaunchRequest {
    LaunchRequest {
        uid: Uid(format!("0b5cbbe1-0000-4000-8000-{uid:012}").into()),
        name: format!("node-{uid}").into(),
        purchase: Purchase {
            catalog: "racks".into(),
            instance_type: host.into(),
            zone: "default".into(),
            capacity_type: CapacityType::OnDemand,
            reservation: None,
            host: None,
            price: Money::from_dollars(0.02),
        },
        capacity: Resources::new(),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    }
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

/// Asks again, as the engine does, until the machine runs or a quarter of an hour has passed.
async fn until_running(
    provider: &Redfish,
    order: &LaunchRequest,
) -> Result<Machine, ProviderError> {
    let mut last = Err(ProviderError::Transient("never asked".into()));
    for _ in 0..180 {
        last = provider.launch(order).await;
        match &last {
            Ok(machine) if machine.state == MachineState::Running => return last,
            Err(ProviderError::OutOfCapacity(_)) => return last,
            _ => seconds(5).await,
        }
    }
    last
}

/// Asks again, as the engine does, until the machine is gone.
async fn until_gone(provider: &Redfish, uid: &Uid) -> bool {
    for _ in 0..400 {
        let found = match provider.find(uid).await {
            Ok(machine) => provider.terminate(&machine.id).await,
            Err(error) => Err(error),
        };
        match found {
            Err(ProviderError::NotFound(_)) => return true,
            _ => seconds(5).await,
        }
    }
    false
}

fn free(catalog: &joiner_core::problem::Catalog) -> Vec<String> {
    let free = catalog
        .types
        .iter()
        .filter(|kind| kind.offerings[0].available);
    free.map(|kind| kind.name.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_host_of_every_model_boots_from_the_network_and_goes_off_again() {
    for model in Model::all() {
        let name = model.name;
        let world = World::new(&[model]);
        let (provider, _) = world.all(1);
        assert_eq!(
            free(&provider.catalog().await.unwrap()),
            ["metal-0"],
            "{name}: {:?}",
            provider.concern().await
        );
        let order = order(1, "metal-0");
        let machine = until_running(&provider, &order).await.unwrap();
        seconds(300).await;
        let truth = world.fleet.truth(&bmc(0)).unwrap();
        assert_eq!((truth.network_boots, truth.other_boots), (1, 0), "{name}");
        let ids: Vec<String> = world.nodes.0.lock().unwrap().values().cloned().collect();
        assert_eq!(ids.len(), 1, "{name}");
        assert!(
            machine.id.0.starts_with(&format!("{}#", ids[0])),
            "{name}: {}",
            machine.id
        );
        assert!(
            free(&provider.catalog().await.unwrap()).is_empty(),
            "{name}"
        );
        assert!(until_gone(&provider, &order.uid).await, "{name}");
        provider.close().await;
        let truth = world.fleet.truth(&bmc(0)).unwrap();
        assert!(
            !truth.power && !truth.armed && truth.asset_tag.is_empty(),
            "{name}: {truth:?}"
        );
        assert_eq!(truth.sessions, 0, "{name}: no session is left open");
        assert!(
            truth.opened <= 1,
            "{name}: one session was enough, not {}",
            truth.opened
        );
        assert!(world.nodes.0.lock().unwrap().is_empty(), "{name}");
        assert_eq!(
            free(&provider.catalog().await.unwrap()),
            ["metal-0"],
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_runs_something_else_is_not_for_sale_and_never_touched() {
    let world = World::plain(2);
    world.fleet.occupy(&bmc(0));
    let (provider, _) = world.all(2);
    assert_eq!(free(&provider.catalog().await.unwrap()), ["metal-1"]);
    let said = provider.concern().await.unwrap();
    assert!(
        said.contains("host metal-0 is powered on and not a machine of this cluster"),
        "{said}"
    );
    let error = provider.launch(&order(1, "metal-0")).await.unwrap_err();
    assert_eq!(error.kind(), "out_of_capacity", "{error}");
    assert_eq!(world.fleet.truth(&bmc(0)).unwrap().disturbed, 0);
    assert!(provider.list().await.unwrap().is_empty());
    world.fleet.unplug(&bmc(0));
    seconds(60).await;
    assert_eq!(
        free(&provider.catalog().await.unwrap()).len(),
        2,
        "healed by itself"
    );
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_is_said_not_hammered_and_heals_with_the_secret() {
    let world = World::plain(1);
    *world.secret.0.lock().unwrap() = "old".into();
    let (provider, _) = world.all(1);
    for _ in 0..20 {
        let error = provider.catalog().await.unwrap_err();
        assert_eq!(error.kind(), "unauthorised");
        assert!(
            error
                .to_string()
                .contains("host metal-0: its BMC at https://10.0.9.11 refuse"),
            "{error}"
        );
        seconds(30).await;
    }
    let truth = world.fleet.truth(&bmc(0)).unwrap();
    assert!(
        truth.refused_logins <= 2,
        "one login by session and one without, not {}",
        truth.refused_logins
    );
    *world.secret.0.lock().unwrap() = "sim-password".into();
    assert_eq!(free(&provider.catalog().await.unwrap()), ["metal-0"]);
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_a_sentence_about_the_host_and_spares_the_others() {
    let world = World::plain(3);
    world
        .fleet
        .change(&bmc(0), |setup| setup.modes = vec!["UEFI".into()]);
    let mut hosts: Vec<HostOptions> = (0..3).map(|number| world.host(number)).collect();
    hosts[0].boot.mode = Some(BootMode::Legacy);
    world.fleet.fail(
        "GET 10.0.9.12/redfish/v1/",
        CallFault::Says(200, "<html>router login</html>".into()),
        99,
    );
    let provider = world.provider(hosts, &Arc::default());
    assert_eq!(free(&provider.catalog().await.unwrap()), ["metal-2"]);
    let said = provider.warnings();
    assert!(
        said["metal-0"].contains("boot.mode Legacy is not among what its BMC allows (UEFI)"),
        "{said:?}"
    );
    assert!(
        said["metal-1"].contains("this is not a Redfish service"),
        "{said:?}"
    );
    world.fleet.forgive();
    assert_eq!(
        free(&provider.catalog().await.unwrap()),
        ["metal-1", "metal-2"]
    );

    let mut other = world.host(2);
    other.system_uuid = Some("00112233-4455-6677-8899-aabbccddeeff".into());
    let provider = world.provider(vec![other], &Arc::default());
    let error = provider.catalog().await.unwrap_err();
    assert!(error.to_string().contains("it is left alone"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn two_classes_that_list_one_host_buy_it_once() {
    for model in [Model::plain(), Model::all().remove(5)] {
        let world = World::new(&[model]);
        let (first, _) = world.all(1);
        let (second, _) = world.all(1);
        let (a, b) = (order(1, "metal-0"), order(2, "metal-0"));
        let bought = futures::future::join(first.launch(&a), second.launch(&b)).await;
        let refused = [&bought.0, &bought.1]
            .into_iter()
            .filter_map(|one| one.as_ref().err());
        let kinds: Vec<&str> = refused.map(ProviderError::kind).collect();
        assert_eq!(kinds, ["out_of_capacity"]);
        seconds(60).await;
        assert!(free(&first.catalog().await.unwrap()).is_empty());
        assert!(free(&second.catalog().await.unwrap()).is_empty());
        let machines = first.list().await.unwrap().len() + second.list().await.unwrap().len();
        assert_eq!(machines, 1);
        assert_eq!(
            second.concern().await,
            None,
            "a host of another class is no trouble"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_table_of_sessions_that_is_full_does_not_stop_the_work() {
    let idrac = Model::all()
        .into_iter()
        .find(|model| model.name == "dell-idrac9")
        .unwrap();
    let world = World::new(&[idrac]);
    world.fleet.leave_sessions(&bmc(0), 8);
    let (provider, _) = world.all(1);
    assert_eq!(free(&provider.catalog().await.unwrap()), ["metal-0"]);
    let said = provider.concern().await.unwrap();
    assert!(said.contains("its BMC has no session left"), "{said}");
    assert!(until_running(&provider, &order(1, "metal-0")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_the_bmc_forgot_is_opened_anew() {
    let world = World::plain(1);
    let (provider, _) = world.all(1);
    provider.catalog().await.unwrap();
    world.fleet.end_sessions(&bmc(0));
    provider.catalog().await.unwrap();
    assert_eq!(world.fleet.truth(&bmc(0)).unwrap().opened, 2);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_ignores_the_shutdown_is_forced_off_when_the_time_is_up() {
    let openbmc = Model::all()
        .into_iter()
        .find(|model| model.name == "openbmc")
        .unwrap();
    let world = World::new(&[openbmc]);
    let (provider, _) = world.all(1);
    let order = order(1, "metal-0");
    let machine = until_running(&provider, &order).await.unwrap();
    seconds(300).await;
    provider.terminate(&machine.id).await.unwrap();
    seconds(170).await;
    provider.terminate(&machine.id).await.unwrap();
    assert!(
        world.fleet.truth(&bmc(0)).unwrap().power,
        "it is given three minutes"
    );
    seconds(15).await;
    provider.terminate(&machine.id).await.unwrap();
    seconds(10).await;
    assert!(!world.fleet.truth(&bmc(0)).unwrap().power);
    let error = provider.terminate(&machine.id).await.unwrap_err();
    assert_eq!(error.kind(), "not_found", "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_somebody_powered_off_is_announced_as_gone() {
    let world = World::plain(1);
    let (provider, _) = world.all(1);
    let order = order(1, "metal-0");
    let machine = until_running(&provider, &order).await.unwrap();
    world.fleet.unplug(&bmc(0));
    seconds(10).await;
    provider.catalog().await.unwrap();
    assert!(
        provider.notices().await.unwrap().is_empty(),
        "one look is not enough"
    );
    seconds(70).await;
    provider.catalog().await.unwrap();
    let notices = provider.notices().await.unwrap();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].id, machine.id);
    assert!(until_gone(&provider, &order.uid).await);
    assert_eq!(free(&provider.catalog().await.unwrap()), ["metal-0"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_process_goes_on_where_the_old_one_died() {
    let lines = ["PATCH", "POST 10.0.9.11/redfish/v1/Systems/1/Actions"];
    for line in lines {
        for fault in [
            CallFault::Lost,
            CallFault::Hangs,
            CallFault::Refused(500, None),
        ] {
            let world = World::plain(1);
            let ledger = Arc::new(MemoryLedger::default());
            let order = order(1, "metal-0");
            {
                let provider = world.provider(vec![world.host(0)], &ledger);
                provider.catalog().await.unwrap();
                world.fleet.fail(line, fault.clone(), 1);
                let _ = tokio::time::timeout(Duration::from_secs(5), provider.launch(&order)).await;
            }
            let provider = world.provider(vec![world.host(0)], &ledger);
            let machine = until_running(&provider, &order).await.unwrap();
            assert_eq!(machine.uid.as_ref(), Some(&order.uid));
            let truth = world.fleet.truth(&bmc(0)).unwrap();
            assert_eq!(
                (truth.network_boots, truth.other_boots),
                (1, 0),
                "{line} {fault:?}"
            );
            assert!(until_gone(&provider, &order.uid).await, "{line} {fault:?}");
            assert!(!world.fleet.truth(&bmc(0)).unwrap().power);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn five_hundred_rounds_with_every_fault_leave_nothing_behind() {
    let models = Model::all();
    let world = World::new(&models);
    let count = models.len();
    world.fleet.add(HostSetup::new(&bmc(count), Model::plain()));
    world.fleet.occupy(&bmc(count));
    let (provider, _) = world.all(count + 1);
    let mut random = ChaCha8Rng::seed_from_u64(23);
    let mut ran = 0;
    for round in 0..500 {
        let number = random.random_range(0..=count);
        let authority = bmc(number);
        let order = order(round, &format!("metal-{number}"));
        for _ in 0..random.random_range(0..4) {
            let line = match random.random_range(0..4) {
                0 => format!("GET {authority}/redfish/v1/Systems"),
                1 => format!("PATCH {authority}/"),
                2 => format!("POST {authority}/redfish/v1/Systems"),
                _ => format!("GET {authority}/redfish/v1/"),
            };
            let fault = match random.random_range(0..5) {
                0 => CallFault::Lost,
                1 => CallFault::Refused(503, None),
                2 => CallFault::Refused(500, None),
                3 => CallFault::Says(200, "<html></html>".into()),
                _ => CallFault::Hangs,
            };
            world.fleet.fail(&line, fault, random.random_range(1..4));
        }
        if random.random_range(0..10) == 0 {
            world.fleet.end_sessions(&authority);
        }
        let bought = until_running(&provider, &order).await;
        ran += u32::from(bought.is_ok());
        let truth = world.fleet.truth(&authority).unwrap();
        assert!(bought.is_err() || truth.power, "round {round}");
        let machines = provider.list().await.unwrap();
        assert!(machines.len() <= 1, "round {round}: {machines:?}");
        assert!(until_gone(&provider, &order.uid).await, "round {round}");
        world.fleet.forgive();
        seconds(20 * 60).await;
        assert_eq!(
            world.fleet.powered(),
            1,
            "round {round}: only what is not ours has power"
        );
    }
    provider.close().await;
    assert!(ran > 150, "{ran} of 500 rounds led to a machine");
    for number in 0..=count {
        let truth = world.fleet.truth(&bmc(number)).unwrap();
        assert_eq!(
            (truth.sessions, truth.disturbed),
            (0, 0),
            "host {number}: {truth:?}"
        );
        assert_eq!(
            truth.other_boots, 0,
            "host {number}: every boot came from the network"
        );
    }
}
