//! OVHcloud's own Python client against the simulated API: what it signs is accepted, and what is not signed right is not.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use joiner_embedded::clock::Clock;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_sim::clouds::ovhcloud::{OvhCloud, OvhCloudOptions};
use joiner_sim::clouds::sim::Rack;

struct Nowhere;

impl Rack for Nowhere {
    fn boot(&self, _: NodeSpec) {}
    fn kill(&self, _: &str) {}
}

/// A Python with the client in it, made once; or why there is none.
fn python() -> Result<PathBuf, String> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-ovh");
    let python = place.join("bin/python");
    let run = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(error.to_string()),
    };
    if run(Command::new(&python).args(["-c", "import ovh"])).is_ok() {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&place))
        .map_err(|error| format!("python3 with venv is missing: {error}"))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "ovh==1.2.0"]))
        .map_err(|error| format!("ovh cannot be installed from PyPI: {error}"))?;
    Ok(python)
}

#[tokio::test(flavor = "multi_thread")]
async fn ovhclouds_own_client_is_understood() {
    let python = tokio::task::spawn_blocking(python).await.unwrap().unwrap();
    let mut options = OvhCloudOptions::calm(1).quick();
    options.clock_skew = 1234;
    let cloud = OvhCloud::new(options.clone(), Clock::wall(), Arc::new(Nowhere));
    let runner = cloud.clone();
    tokio::spawn(async move { runner.run().await });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/1.0", listener.local_addr().unwrap());
    let router = cloud.router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testing/python-ovh/check.py"
    );
    let output = tokio::task::spawn_blocking(move || {
        Command::new(python)
            .arg(script)
            .arg(url)
            .args([
                options.application_key,
                options.application_secret,
                options.consumer_key,
            ])
            .args([options.service_name, options.kube_id])
            .output()
    });
    let output = output.await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let trouble = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.trim(), "ok", "{trouble}");
}
