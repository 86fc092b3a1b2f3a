//! Client and simulation, each checked by code that others wrote: our provider against sushy-tools' emulator, and
//! sushy, OpenStack's client, against our simulated BMCs. Both come from `PyPI` into an environment that is made once.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::problem::CapacityType;
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::http::{Http, Reach};
use joiner_providers::redfish::claims::Reservations;
use joiner_providers::redfish::{
    Access, BootOptions, Credentials, HostOptions, PowerOffOptions, Redfish, RedfishOptions,
};
use joiner_providers::{
    LaunchRequest, MachineState, MemoryLedger, Owner, Provider, ProviderError, Uid,
};
use joiner_sim::clouds::redfish::{HostSetup, Model, RedfishFleet};
use joiner_sim::clouds::sim::Rack;
use tokio::process::Command;
use tokio::sync::Mutex;

const PACKAGES: [&str; 2] = ["sushy-tools==2.2.0", "sushy==5.14.0"];
static MAKING: Mutex<()> = Mutex::const_new(());

/// The Python environment; made on first use.
async fn python() -> PathBuf {
    let _one = MAKING.lock().await;
    let home = std::env::var("HOME").unwrap();
    let home = Path::new(&home).join(".cache/joiner/redfish-venv");
    let python = home.join("bin/python");
    if !home.join("bin/sushy-emulator").exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&home)).await;
        run(Command::new(&python)
            .args(["-m", "pip", "install", "--quiet"])
            .args(PACKAGES))
        .await;
    }
    python
}

async fn run(command: &mut Command) -> String {
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testing/redfish")
        .join(name)
}

async fn free_port() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

fn host(number: usize, port: u16, http: &Http) -> HostOptions {
    HostOptions {
        name: format!("metal-{number}").into(),
        address: format!("http://127.0.0.1:{port}"),
        system_path: None,
        system_uuid: Some(format!("{number}1111111-1111-4111-8111-111111111111")),
        serial_number: None,
        node_name: None,
        capacity: Resources::new().with(CPU, 16_000).with(MEMORY, 64 << 30),
        labels: Labels::new(),
        price: Money::from_dollars(0.02),
        access: Access {
            credentials: Arc::new(Credentials {
                username: "admin".into(),
                password: "secret".into(),
            }),
            http: http.clone(),
            unverified: true,
        },
        boot: BootOptions::default(),
        power_off: PowerOffOptions::default(),
    }
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn the_provider_powers_hosts_of_sushy_tools_on_and_off() {
    let python = python().await;
    let directory = tempfile::tempdir().unwrap();
    let port = free_port().await;
    let mut emulator = Command::new(&python)
        .arg(script("emulator.py"))
        .arg(directory.path())
        .arg(port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let reach = Reach {
        allowed_hosts: vec!["127.0.0.1".into()],
        ..Reach::default()
    };
    let http = Http::production(&reach).unwrap();
    let options = RedfishOptions {
        catalog: "racks".into(),
        hosts: vec![host(1, port, &http), host(2, port, &http)],
        fallback: None,
        allowed_hosts: vec!["127.0.0.1".into()],
        registration_timeout: Duration::from_mins(20),
    };
    let owner = Owner {
        cluster: "cluster-1".into(),
        family: "karpenter".into(),
    };
    let provider = Redfish::new(
        options,
        owner,
        Arc::new(MemoryLedger::default()),
        Arc::new(Reservations::default()),
        Arc::new(Timestamp::now),
    )
    .unwrap();
    let second = Duration::from_secs(1);
    let mut catalog = provider.catalog().await;
    for _ in 0..60 {
        let ready = |catalog: &joiner_core::problem::Catalog| {
            catalog.types.iter().all(|kind| kind.offerings[0].available)
        };
        if catalog.as_ref().is_ok_and(ready) {
            break;
        }
        tokio::time::sleep(second).await;
        catalog = provider.catalog().await;
    }
    let catalog = catalog.unwrap();
    assert_eq!(catalog.types.len(), 2);
    let concern = provider.concern().await;
    assert!(
        catalog.types.iter().all(|kind| kind.offerings[0].available),
        "{concern:?}"
    );

    let order = LaunchRequest {
        uid: Uid("0b5cbbe1-0000-4000-8000-000000000001".into()),
        name: "node-1".into(),
        purchase: Purchase {
            catalog: "racks".into(),
            instance_type: "metal-2".into(),
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
    };
    let mut machine = provider.launch(&order).await.unwrap();
    for _ in 0..60 {
        if machine.state == MachineState::Running {
            break;
        }
        tokio::time::sleep(second).await;
        machine = provider.get(&machine.id).await.unwrap();
    }
    assert_eq!(machine.state, MachineState::Running);
    let id = format!(
        "redfish://127.0.0.1:{port}/Systems/21111111-1111-4111-8111-111111111111#{}",
        order.uid.0
    );
    assert_eq!(*machine.id.0, *id);

    // What the emulator itself says, asked without our client.
    let url =
        format!("http://127.0.0.1:{port}/redfish/v1/Systems/21111111-1111-4111-8111-111111111111");
    let ask = "import sys,requests; b=requests.get(sys.argv[1],auth=('admin','secret')).json(); print(b['PowerState'],b['Boot']['BootSourceOverrideTarget'])";
    let shown = run(Command::new(&python).args(["-c", ask, &url])).await;
    assert_eq!(shown.trim(), "On Pxe");

    let mut gone = false;
    for _ in 0..90 {
        match provider.terminate(&machine.id).await {
            Err(ProviderError::NotFound(_)) => {
                gone = true;
                break;
            }
            other => other.unwrap(),
        }
        tokio::time::sleep(second).await;
    }
    assert!(gone);
    let shown = run(Command::new(&python).args(["-c", ask, &url])).await;
    assert!(shown.starts_with("Off"), "{shown}");
    provider.close().await;
    emulator.kill().await.unwrap();
}

struct NoNodes;

impl Rack for NoNodes {
    fn boot(&self, _: NodeSpec) {}
    fn kill(&self, _: &str) {}
}

#[tokio::test]
async fn sushy_drives_every_simulated_model_that_has_sessions() {
    let python = python().await;
    for mut model in Model::all().into_iter().filter(|model| model.sessions > 0) {
        model.powers_on = Duration::from_secs(1);
        model.powers_off = Duration::from_secs(1);
        model.self_test = Duration::ZERO;
        let name = model.name;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let authority = listener.local_addr().unwrap().to_string();
        let fleet = RedfishFleet::new(Clock::wall(), Arc::new(NoNodes));
        fleet.add(HostSetup::new(&authority, model));
        let router = fleet.router();
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let runner = fleet.clone();
        let running = tokio::spawn(async move { runner.run().await });
        let said = run(Command::new(&python).arg(script("drive.py")).args([
            &format!("http://{authority}/redfish/v1"),
            "admin",
            "sim-password",
        ]))
        .await;
        assert!(said.starts_with("ok "), "{name}: {said}");
        let truth = fleet.truth(&authority).unwrap();
        assert_eq!(truth.network_boots, 1, "{name}");
        assert_eq!(truth.sessions, 0, "{name}");
        server.abort();
        running.abort();
    }
}
