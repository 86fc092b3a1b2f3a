//! Manifests sent to a real API server.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use joiner_testing::{ControlPlane, Program};
use tokio::runtime::Runtime;

use super::cases::{accepted, refused};

/// An API server with our definitions; it ends with this process.
static SERVER: LazyLock<ControlPlane> = LazyLock::new(|| {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(ControlPlane::start()).unwrap();
    install_crds(&server);
    server
});

/// Runs kubectl with a manifest on its standard input.
fn kubectl(server: &ControlPlane, arguments: &[&str], input: &str) -> Result<String, String> {
    let mut child = Command::new(server.program(Program::Kubectl))
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .arg("--cache-dir")
        .arg(server.directory().join("kubectl-cache"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}

fn install_crds(server: &ControlPlane) {
    let crds = joiner_api::to_yaml_stream(&joiner_api::crds(None)).unwrap();
    kubectl(
        server,
        &["apply", "--server-side", "--force-conflicts", "-f", "-"],
        &crds,
    )
    .unwrap();
    kubectl(
        server,
        &[
            "wait",
            "--for=condition=Established",
            "crd",
            "--all",
            "--timeout=60s",
        ],
        "",
    )
    .unwrap();
}

#[test]
fn a_real_server_accepts_the_crds_and_every_accepted_manifest() {
    kubectl(&SERVER, &["create", "namespace", "kubenodesmith"], "").unwrap();
    for (file, manifest) in accepted() {
        if manifest["kind"] == "Kustomization" {
            continue;
        }
        let arguments = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        if let Err(error) = kubectl(&SERVER, &arguments, &manifest.to_string()) {
            panic!("{file}: {error}");
        }
    }
}

#[test]
fn a_real_server_refuses_every_refused_manifest_with_the_field_named() {
    let mut problems = Vec::new();
    for case in refused() {
        if let Some(before) = &case.before {
            kubectl(&SERVER, &["apply", "-f", "-"], &before.to_string()).unwrap();
        }
        let arguments = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        match kubectl(&SERVER, &arguments, &case.manifest.to_string()) {
            Ok(_) => problems.push(format!("{}: accepted", case.what)),
            Err(error) if error.contains(&case.field) && error.contains(&case.says) => {}
            Err(error) => problems.push(format!(
                "{}: {} / {} expected: {error}",
                case.what, case.field, case.says
            )),
        }
        if let Some(before) = &case.before {
            kubectl(&SERVER, &["delete", "-f", "-"], &before.to_string()).unwrap();
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
