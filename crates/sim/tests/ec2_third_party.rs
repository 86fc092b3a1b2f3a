//! The AWS client against moto's server, and botocore against the simulated EC2: neither side is ours alone.
//!
//! Both come from `PyPI` into a virtual environment that is kept in the cache (`testing/aws/requirements.txt`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "all of it is tests"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use joiner_embedded::clock::Clock;
use joiner_providers::aws::{AwsErrorKind, AwsOptions, Credentials, Ec2, ScoreRequest};
use joiner_providers::http::{Http, Reach};
use joiner_sim::clouds::ec2::{Ec2Cloud, Ec2CloudOptions};
use serde_json::{Value, json};

fn testing() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/aws")
}

/// The environment, made once.
fn programs() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let home = std::env::var("XDG_CACHE_HOME")
            .unwrap_or_else(|_| format!("{}/.cache", std::env::var("HOME").unwrap()));
        let venv = PathBuf::from(home).join("joiner/aws-venv");
        let bin = venv.join("bin");
        if !bin.join("moto_server").exists() {
            let made = Command::new("python3")
                .args(["-m", "venv"])
                .arg(&venv)
                .status()
                .unwrap();
            assert!(made.success(), "python3 -m venv");
            let pip = Command::new(bin.join("pip"))
                .args(["install", "--quiet", "--requirement"])
                .arg(testing().join("requirements.txt"))
                .status()
                .unwrap();
            assert!(pip.success(), "pip install");
        }
        bin
    })
}

struct Moto {
    process: Child,
    url: String,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Moto {
    async fn start() -> Moto {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let process = Command::new(programs().join("moto_server"))
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let moto = Moto {
            process,
            url: format!("http://127.0.0.1:{port}"),
        };
        for _ in 0..300 {
            if tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .is_ok()
            {
                return moto;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("moto does not listen");
    }

    fn ec2(&self, region: &str) -> Ec2 {
        let reach = Reach {
            allowed_hosts: vec!["127.0.0.1".to_owned()],
            ..Reach::default()
        };
        let options = AwsOptions {
            ec2_endpoint: Some(self.url.clone()),
            ..AwsOptions::default()
        };
        let http = Http::production(&reach).unwrap();
        let credentials = Credentials::fixed("testing", "testing", None);
        Ec2::new(
            http,
            region,
            &options,
            credentials,
            Arc::new(Timestamp::now),
        )
        .unwrap()
    }
}

#[tokio::test]
async fn moto_understands_the_client_and_the_client_understands_moto() {
    let moto = Moto::start().await;
    let ec2 = moto.ec2("eu-central-1");
    let patterns = ["g5*".to_owned(), "g6f*".to_owned()];
    let types = ec2.instance_types(&patterns).await.unwrap();
    let gpus: Vec<_> = types.iter().filter_map(|one| one.gpu(None)).collect();
    assert!(gpus.len() >= 10, "{}", gpus.len());
    let part = gpus.iter().find(|one| &*one.name == "g6f.large").unwrap();
    assert_eq!((part.devices, part.gpu_millis), (1, 125));
    let arm = gpus.iter().find(|one| &*one.name == "g5g.xlarge").unwrap();
    assert_eq!(&*arm.arch, "arm64");
    let offerings = ec2.offerings(&["g5.xlarge".to_owned()]).await.unwrap();
    assert!(
        offerings
            .iter()
            .all(|one| one.location.starts_with("eu-central-1")),
        "{offerings:?}"
    );
    let zones = ec2.zones().await.unwrap();
    assert!(
        zones.iter().any(|one| one.zone_id.starts_with("euc1-az")),
        "{zones:?}"
    );
    let names = BTreeSet::from(["g5.xlarge".to_owned()]);
    let prices = ec2.spot_prices(&names, Timestamp::now()).await.unwrap();
    assert!(
        prices
            .iter()
            .all(|one| one.spot_price == "0.00001" && one.instance_type == "g5.xlarge")
    );
    // A default VPC has a subnet in each zone, none of them tagged.
    let tags = [("team".to_owned(), "gpu".to_owned())];
    let tagged = ec2
        .subnets(tags.iter().map(|(key, value)| (key, value)))
        .await
        .unwrap();
    assert!(tagged.is_empty());
    let all = ec2.subnets(std::iter::empty()).await.unwrap();
    assert_eq!(all.len(), zones.len());
    assert!(
        !ec2.security_groups(std::iter::empty())
            .await
            .unwrap()
            .is_empty()
    );
    // What moto does not know is an outage, not an answer.
    let request = ScoreRequest {
        regions: BTreeSet::from(["eu-central-1".to_owned()]),
        by_zone: true,
        types: names,
        target: 2,
    };
    let error = ec2.placement_scores(&request).await.unwrap_err();
    assert_eq!(error.kind, AwsErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn botocore_understands_the_simulated_ec2() {
    let cloud = Ec2Cloud::new(Ec2CloudOptions::calm(1), Clock::wall());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = cloud.router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let script = testing().join("botocore_check.py");
    let ended = tokio::task::spawn_blocking(move || {
        Command::new(programs().join("python"))
            .arg(script)
            .arg(url)
            .output()
    })
    .await
    .unwrap()
    .unwrap();
    assert!(
        ended.status.success(),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
    let said: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert!(said["pages"].as_u64().unwrap() > 10, "{said}");
    assert!(said["types"].as_u64().unwrap() > 1300, "{said}");
    assert_eq!(said["g6f"], json!([0, 1, 0.125]));
    assert_eq!(said["refused"], "SignatureDoesNotMatch");
    let zones = said["zones"].as_object().unwrap();
    for id in said["scores"].as_array().unwrap() {
        assert!(zones.contains_key(id.as_str().unwrap()), "{said}");
    }
    for region in ["eu-central-1", "us-east-1"] {
        let score = said["regions"][region][0].as_u64();
        assert!(score.is_some_and(|one| (1..=10).contains(&one)), "{said}");
        assert_eq!(said["regions"][region][1], false, "no zone: {said}");
    }
    for part in [
        "gpus",
        "offerings",
        "prices",
        "subnets",
        "groups",
        "products",
    ] {
        assert!(said[part].as_u64().unwrap() > 0, "{part}: {said}");
    }
    assert!(said["price"].as_f64().unwrap() > 0.1, "{said}");
}
