//! The differential suite: every case of `differential/*.yaml` on the real and on the embedded API server.
//!
//! `JOINER_DIFFERENTIAL=real` or `embedded` plays the cases on one server only and checks what the cases say of
//! themselves; `twins` compares two real servers, which proves that a difference is a difference. `JOINER_DIFFERENTIAL_ANSWERS=DIRECTORY` keeps every answer there, to be read.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, OnceLock};

use anyhow::{Context as _, Result, bail};
use joiner_embedded::{
    api::{ApiServer, Options},
    clock::Clock,
};
use joiner_testing::differential::{
    Answer, Case, Player, broken_promises, load, normalised, report_of, unequal,
};
use joiner_testing::{Client, ControlPlane};
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;

/// One runtime for all cases, because connections live in it.
#[allow(
    clippy::expect_used,
    reason = "without a runtime there is nothing to test"
)]
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a runtime"));

/// The servers, started when the first case needs them.
static SERVERS: OnceLock<Result<Servers, String>> = OnceLock::new();

struct Servers {
    real: Option<Player>,
    embedded: Option<Player>,
}

fn main() -> Result<()> {
    let arguments = Arguments::from_args();
    let subjects = load(&directory())?;
    if !arguments.list {
        eprint!("{}", report_of(&subjects));
    }
    let trials = subjects
        .into_iter()
        .flat_map(|subject| {
            subject
                .cases
                .into_iter()
                .map(move |case| (subject.name.clone(), case))
        })
        .map(|(subject, case)| {
            let name = case.name.clone();
            let case = Arc::new(case);
            Trial::test(name, move || run(&case)).with_kind(subject)
        })
        .collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    conclusion.exit()
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("differential")
}

fn run(case: &Case) -> Result<(), Failed> {
    let servers = SERVERS.get_or_init(|| RUNTIME.block_on(start()).map_err(|e| format!("{e:#}")));
    let servers = servers.as_ref()?;
    RUNTIME
        .block_on(judge(servers, case))
        .map_err(|error| format!("{error:#}").into())
}

async fn start() -> Result<Servers> {
    let mode = std::env::var("JOINER_DIFFERENTIAL").unwrap_or_else(|_| "both".to_owned());
    let (real, embedded) = match mode.as_str() {
        "both" => (Some(real().await?), Some(embedded().await?)),
        "real" => (Some(real().await?), None),
        "embedded" => (None, Some(embedded().await?)),
        "twins" => (Some(real().await?), Some(real().await?)),
        other => bail!("JOINER_DIFFERENTIAL is both, real, embedded or twins, not {other:?}"),
    };
    let player = |client: Client| Player::new(client, &directory());
    Ok(Servers {
        real: real.map(player),
        embedded: embedded.map(player),
    })
}

/// A fresh real server.
async fn real() -> Result<Client> {
    let cluster = ControlPlane::start()
        .await
        .context("starting the real control plane")?;
    let client = cluster.client();
    // Serves until the process ends, and its end ends the server: see the harness.
    std::mem::forget(cluster);
    client
}

/// A fresh embedded server on a port of this process, on real time.
async fn embedded() -> Result<Client> {
    let server = ApiServer::new(Clock::wall(), &Options::default());
    let port = server.listen(([127, 0, 0, 1], 0).into()).await?;
    let client = Client::plain(format!("http://{}", port.address()));
    // Serves until the process ends.
    std::mem::forget(port);
    client
}

async fn judge(servers: &Servers, case: &Case) -> Result<()> {
    let real = play(servers.real.as_ref(), "real", case).await;
    let embedded = play(servers.embedded.as_ref(), "embedded", case).await;
    let (real, embedded) = match (real, embedded) {
        (Ok(real), Ok(embedded)) => (real, embedded),
        (Err(real), Ok(_)) => bail!("on the real server: {real:#}"),
        (Ok(_), Err(embedded)) => bail!("on the embedded server: {embedded:#}"),
        (Err(real), Err(embedded)) => bail!("real: {real:#}\nembedded: {embedded:#}"),
    };
    let mut complaints = Vec::new();
    for (server, answers) in [("real", &real), ("embedded", &embedded)] {
        let broken = answers
            .as_ref()
            .map(|answers| broken_promises(case, answers));
        complaints.extend(
            broken
                .into_iter()
                .flatten()
                .map(|text| format!("{server}: {text}")),
        );
    }
    if let (Some(real), Some(embedded)) = (&real, &embedded) {
        let account = unequal(case, real, embedded);
        complaints.extend((!account.is_empty()).then_some(account));
    }
    if !complaints.is_empty() {
        bail!("{} ({})\n{}", case.name, case.id, complaints.join("\n"));
    }
    Ok(())
}

async fn play(player: Option<&Player>, server: &str, case: &Case) -> Result<Option<Vec<Answer>>> {
    let Some(player) = player else {
        return Ok(None);
    };
    let answers = player
        .play(case)
        .await
        .with_context(|| format!("{} ({})", case.name, case.id))?;
    if let Some(directory) = std::env::var_os("JOINER_DIFFERENTIAL_ANSWERS") {
        keep(Path::new(&directory), server, case, &answers)?;
    }
    Ok(Some(answers))
}

/// Writes what a server answered, for a person to read.
fn keep(directory: &Path, server: &str, case: &Case, answers: &[Answer]) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut text = format!("# {}\n", case.name);
    for (answer, value) in answers.iter().zip(normalised(case, answers)) {
        let value = serde_json::to_string_pretty(&value)?;
        writeln!(text, "\n{}\n{value}", answer.request)?;
    }
    Ok(std::fs::write(
        directory.join(format!("{}.{server}.txt", case.id)),
        text,
    )?)
}
