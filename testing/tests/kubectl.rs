//! Every case of `kubectl/*.yaml`, typed into kubectl on the real and on the embedded API server.
//!
//! `JOINER_DIFFERENTIAL` chooses the servers as it does for the differential suite.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};

use anyhow::{Context as _, Result, bail};
use joiner_embedded::{
    api::{ApiServer, Options},
    clock::Clock,
};
use joiner_testing::kubectl::{Case, Kubectl, Printed, load};
use joiner_testing::{ControlPlane, Program};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::json;
use tokio::runtime::Runtime;

/// One runtime for all cases, because the embedded server lives in it.
#[allow(
    clippy::expect_used,
    reason = "without a runtime there is nothing to test"
)]
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// The servers, started when the first case needs them.
static SERVERS: OnceLock<Result<Servers, String>> = OnceLock::new();

/// kubectl for each server, by the server's name.
type Servers = Vec<(&'static str, Kubectl)>;

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let trials = load(&folder("kubectl"))?
        .into_iter()
        .map(|(subject, case)| {
            let case = Arc::new(case);
            Trial::test(case.name.clone(), move || run(&case)).with_kind(subject)
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit()
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn run(case: &Case) -> Result<(), Failed> {
    let servers = SERVERS.get_or_init(|| RUNTIME.block_on(start()).map_err(|e| format!("{e:#}")));
    let servers = servers.as_ref()?;
    RUNTIME
        .block_on(judge(servers, case))
        .map_err(|error| format!("{error:#}").into())
}

async fn start() -> Result<Servers> {
    // The real server lends its kubectl and its directory, which goes when this process ends.
    let cluster = ControlPlane::shared()
        .await
        .context("starting the real control plane")?;
    let kubectl = |name: &str, kubeconfig: PathBuf| Kubectl {
        program: cluster.program(Program::Kubectl),
        kubeconfig,
        cache: cluster.directory().join(format!("cache-{name}")),
    };
    let real = || ("real", kubectl("real", cluster.kubeconfig()));
    let embedded = embedded(&cluster.directory().join("embedded.kubeconfig")).await?;
    let embedded = || ("embedded", kubectl("embedded", embedded.clone()));
    match std::env::var("JOINER_DIFFERENTIAL").as_deref() {
        Err(_) | Ok("both") => Ok(vec![real(), embedded()]),
        Ok("real") => Ok(vec![real()]),
        Ok("embedded") => Ok(vec![embedded()]),
        Ok(other) => bail!("JOINER_DIFFERENTIAL is both, real or embedded here, not {other:?}"),
    }
}

/// Serves a fresh embedded cluster until the process ends, and writes its kubeconfig.
async fn embedded(kubeconfig: &Path) -> Result<PathBuf> {
    let server = ApiServer::new(Clock::wall(), &Options::default());
    let port = server.listen(([127, 0, 0, 1], 0).into()).await?;
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "sim",
        "clusters": [{"name": "sim", "cluster": {"server": format!("http://{}", port.address())}}],
        "users": [{"name": "admin", "user": {}}],
        "contexts": [{"name": "sim", "context": {"cluster": "sim", "user": "admin"}}],
    });
    std::mem::forget(port);
    std::fs::write(kubeconfig, config.to_string())?;
    Ok(kubeconfig.to_owned())
}

async fn judge(servers: &Servers, case: &Case) -> Result<()> {
    let mut played: Vec<(&str, Vec<Printed>)> = Vec::new();
    for (name, kubectl) in servers {
        let printed = kubectl.play(case, &folder("differential/crds")).await;
        played.push((
            name,
            printed.with_context(|| format!("on the {name} server ({})", case.id))?,
        ));
    }
    let [(_, real), (_, embedded)] = &played[..] else {
        return Ok(());
    };
    let differences: Vec<String> = real
        .iter()
        .zip(embedded)
        .filter(|(real, embedded)| real != embedded)
        .map(|(real, embedded)| {
            format!(
                "kubectl {}\n--- real\n{}--- embedded\n{}",
                real.command, real.output, embedded.output
            )
        })
        .collect();
    if !differences.is_empty() {
        bail!("{} ({})\n{}", case.name, case.id, differences.join("\n"));
    }
    Ok(())
}
