//! Client and simulation, each checked by code that others wrote: proxmoxer drives the simulation, and the provider
//! drives fakepve. Both come from `PyPI` into an environment under the target directory.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::plan::Purchase;
use joiner_core::resources::{CPU, MEMORY, Resources};
use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::http::{Endpoint, Http, Reach};
use joiner_providers::proxmox::{ApiToken, IdRange, Interface, Proxmox, ProxmoxOptions};
use joiner_providers::{LaunchRequest, MachineState, Owner, Provider, ProviderError, Uid};
use joiner_sim::clouds::proxmox::{ProxmoxCloud, ProxmoxCloudOptions};
use joiner_sim::clouds::sim::Rack;

static SETTING_UP: Mutex<()> = Mutex::new(());

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/proxmox")
}

/// A Python with what the scripts need, set up once.
fn python() -> PathBuf {
    let _lock = SETTING_UP.lock();
    let wanted = std::fs::read_to_string(scripts().join("requirements.txt")).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("proxmox-python");
    let python = folder.join("bin/python");
    let stamp = folder.join("requirements.txt");
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return python;
    }
    let run = |command: &mut Command| {
        let out = command
            .output()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        assert!(
            out.status.success(),
            "{command:?}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    };
    run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
    run(Command::new(&python)
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
        ])
        .arg(scripts().join("requirements.txt")));
    std::fs::write(stamp, wanted).unwrap();
    python
}

struct Nowhere;

impl Rack for Nowhere {
    fn boot(&self, _: NodeSpec) {}
    fn kill(&self, _: &str) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxmoxer_drives_the_simulation() {
    let python = tokio::task::spawn_blocking(python).await.unwrap();
    let mut options = ProxmoxCloudOptions::of_hosts(2);
    for time in [
        &mut options.creates_within,
        &mut options.starts_within,
        &mut options.destroys_within,
        &mut options.lag,
    ] {
        *time = Duration::from_millis(300);
    }
    let cloud = ProxmoxCloud::new(options, Clock::wall(), Arc::new(Nowhere));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = cloud.router();
    let server = tokio::spawn(async move { axum::serve(listener, router).await });
    let out = tokio::task::spawn_blocking(move || {
        let script = scripts().join("proxmoxer_drives_simulation.py");
        Command::new(python)
            .arg(script)
            .arg(port.to_string())
            .output()
    });
    let out = out.await.unwrap().unwrap();
    server.abort();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(out.status.success() && text.contains("ok"), "{text}");
    assert!(cloud.machines().is_empty());
}

fn class(port: u16, secret: &str) -> ProxmoxOptions {
    let owner = Owner {
        cluster: "cluster-1".into(),
        family: "karpenter".into(),
    };
    let token = ApiToken {
        id: "joiner@pve!t".to_owned(),
        secret: secret.into(),
    };
    let address = format!("https://127.0.0.1:{port}/api2/json");
    let api = Endpoint::parse(&address, &["127.0.0.1".to_owned()]).unwrap();
    let ids = IdRange {
        first: 1250,
        last: 1300,
    };
    let mut options = ProxmoxOptions::new(owner, api, Arc::new(token), ids, "joiner");
    // It has a host of its own beside those that are added.
    options.hosts = vec!["n1".to_owned(), "n2".to_owned()];
    options.interfaces.push(Interface {
        name: "net0".to_owned(),
        model: "virtio".to_owned(),
        bridge: "vmbr0".to_owned(),
        vlan: Some(20),
        mac_prefix: Some("02:00:00".to_owned()),
    });
    options
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn the_provider_drives_fakepve() {
    let python = tokio::task::spawn_blocking(python).await.unwrap();
    let mut server = Command::new(python)
        .arg(scripts().join("fakepve_server.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let (port, fingerprint) = line
        .trim()
        .split_once(' ')
        .unwrap_or_else(|| panic!("{line:?}"));
    let port: u16 = port.parse().unwrap();
    let reach = |fingerprint: &str| Reach {
        allowed_hosts: vec!["127.0.0.1".to_owned()],
        fingerprint: Some(fingerprint.to_owned()),
        ..Reach::default()
    };
    let open = |secret: &str, fingerprint: &str| {
        let http = Http::production(&reach(fingerprint)).unwrap();
        Proxmox::new(http, class(port, secret), Arc::new(Timestamp::now)).unwrap()
    };
    let elsewhere = open("third-party-secret", &["00"; 32].join(":"));
    let error = elsewhere.catalog().await.unwrap_err().to_string();
    assert!(error.contains("fingerprint"), "{error}");
    let refused = open("wrong", fingerprint).catalog().await.unwrap_err();
    assert_eq!(refused.kind(), "unauthorised", "{refused}");

    let provider = open("third-party-secret", fingerprint);
    let catalog = provider.catalog().await.unwrap();
    let range = &catalog.ranges[0];
    assert_eq!(
        (range.hosts.len(), range.max.get(CPU)),
        (2, 4000),
        "{range:?}"
    );
    let request = LaunchRequest {
        uid: Uid("0b5cbbe1-0000-4000-8000-000000000001".into()),
        name: "pool-a-x7k2p".into(),
        purchase: Purchase {
            catalog: catalog.name.clone(),
            instance_type: range.name.clone(),
            zone: range.hosts[0].zone.clone(),
            capacity_type: range.capacity_type,
            reservation: None,
            host: Some(range.hosts[0].name.clone()),
            price: Money::ZERO,
        },
        capacity: Resources::new().with(CPU, 2000).with(MEMORY, 2 << 30),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        max_price: None,
    };
    let machine = provider.launch(&request).await.unwrap();
    assert_eq!(
        provider.launch(&request).await.unwrap().id,
        machine.id,
        "asked twice, made once"
    );
    let mut state = machine.state.clone();
    for _ in 0..60 {
        state = provider.get(&machine.id).await.unwrap().state;
        if state == MachineState::Running {
            break;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(state, MachineState::Running);
    assert_eq!(provider.drift(&machine).await.unwrap(), None);
    let listed = provider.list().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].capacity.get(MEMORY), 2 << 30);
    let mut gone = false;
    for _ in 0..60 {
        match provider.terminate(&machine.id).await {
            Err(ProviderError::NotFound(_)) => {
                gone = true;
                break;
            }
            Ok(()) | Err(ProviderError::Transient(_)) => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(gone);
    assert!(provider.list().await.unwrap().is_empty());
    drop(server.stdin.take());
    let _ = server.wait();
}
