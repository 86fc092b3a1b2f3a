//! Manifests sent to a real API server.

use std::io::Write as _;
use std::process::{Command, Stdio};

use super::cases::{accepted, refused};

/// Runs kubectl with a manifest on its standard input.
fn kubectl(arguments: &[&str], input: &str) -> Result<String, String> {
    let program = std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let mut child = Command::new(program)
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

fn install_crds() {
    let crds = joiner_api::to_yaml_stream(&joiner_api::crds(None)).unwrap();
    kubectl(
        &["apply", "--server-side", "--force-conflicts", "-f", "-"],
        &crds,
    )
    .unwrap();
    kubectl(
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
#[ignore = "needs a real API server: set KUBECONFIG and KUBECTL"]
fn a_real_server_accepts_the_crds_and_every_accepted_manifest() {
    install_crds();
    // Already there when the tests run twice.
    let _ = kubectl(&["create", "namespace", "kubenodesmith"], "");
    for (file, manifest) in accepted() {
        if manifest["kind"] == "Kustomization" {
            continue;
        }
        let arguments = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        if let Err(error) = kubectl(&arguments, &manifest.to_string()) {
            panic!("{file}: {error}");
        }
    }
}

#[test]
#[ignore = "needs a real API server: set KUBECONFIG and KUBECTL"]
fn a_real_server_refuses_every_refused_manifest_with_the_field_named() {
    install_crds();
    let mut problems = Vec::new();
    for case in refused() {
        if let Some(before) = &case.before {
            kubectl(&["apply", "-f", "-"], &before.to_string()).unwrap();
        }
        let arguments = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        match kubectl(&arguments, &case.manifest.to_string()) {
            Ok(_) => problems.push(format!("{}: accepted", case.what)),
            Err(error) if error.contains(&case.field) && error.contains(&case.says) => {}
            Err(error) => problems.push(format!(
                "{}: {} / {} expected: {error}",
                case.what, case.field, case.says
            )),
        }
        if let Some(before) = &case.before {
            kubectl(&["delete", "-f", "-"], &before.to_string()).unwrap();
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
