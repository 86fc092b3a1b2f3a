//! `joiner run`: looks after the nodes of a cluster until it is told to end.
//!
//! ```text
//!   site      which cluster, as whom           serving   health, metrics and the page, from the first moment on
//!   detect    which families are installed     session   clients, kubelets, clouds and the engine, ended together
//! ```

mod detect;
mod observer;
mod serving;
mod session;
mod site;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;

use crate::args::{LogLevel, RunArgs};
use crate::board::Board;
use crate::failure::Failure;
use crate::telemetry;
use detect::Wanted;
pub(crate) use observer::Observer;
use session::{Session, Will};
use site::Site;

/// Enough for watches, writes and a decision at a time; a machine with many cores is not ours alone.
const WORKERS: usize = 4;

/// Runs the command until it is told to end.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    telemetry::start(
        match args.serving.log_level {
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        },
        args.serving.log_format,
    );
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.min(WORKERS))
        .enable_all()
        .build()
        .map_err(Failure::System)?;
    runtime.block_on(watch_over(args))
}

async fn watch_over(args: &RunArgs) -> Result<(), Failure> {
    let mut end = End::listen().map_err(Failure::System)?;
    let board = Board::default();
    let serving = serving::start(&board, &args.serving).await?;
    let wanted = Wanted::new(&args.cluster.dialects, credentials(args))?;
    let site = Site::open(&args.cluster, &args.election).await?;
    loop {
        let families = tokio::select! {
            biased;
            () = end.came() => break,
            families = wanted.installed(&site.client) => families,
        };
        let names: Vec<&str> = families.iter().map(|one| one.family.name()).collect();
        info!(families = names.join(", "), server = %site.server, "starting");
        let session = Session::start(&site, &families, args, &board, Will::Act)?;
        let ended = tokio::select! {
            biased;
            () = end.came() => Ended::Asked,
            said = session.failed() => Ended::Failed(said),
            () = wanted.more_than(&families, &site.client) => Ended::More,
        };
        // A failed session stays on the board: /healthz tells until the process ends.
        if !matches!(ended, Ended::Failed(_)) {
            board.clear();
        }
        session.stop().await;
        match ended {
            Ended::Asked => break,
            Ended::Failed(said) => return Err(Failure::Broken(said)),
            Ended::More => {}
        }
        info!("another family of custom resources was installed");
    }
    serving.stop().await;
    info!("ended");
    Ok(())
}

/// Why a session is over.
enum Ended {
    /// We were told to end.
    Asked,
    /// It cannot go on.
    Failed(String),
    /// There is more to serve.
    More,
}

/// Why SpotNodePools cannot be served, if so: what they need is in no object.
fn credentials(args: &RunArgs) -> Result<(), String> {
    let (rackspace, mock) = (&args.rackspace, args.behaviour.mock_mode);
    let missing = |what: &str, flag: &str, variable: &str| {
        Err(format!(
            "Rackspace Spot {what} is required: set {variable} or {flag}, or start with --mock-mode"
        ))
    };
    if !mock && rackspace.token().is_none() {
        return missing(
            "refresh token",
            "--refresh-token",
            "RACKSPACE_SPOT_REFRESH_TOKEN",
        );
    }
    if !mock && rackspace.cloudspace().is_none() {
        return missing(
            "cloudspace ID",
            "--cloudspace-id",
            "RACKSPACE_SPOT_CLOUDSPACE_ID",
        );
    }
    Ok(())
}

/// Whoever started us wants us to end.
struct End {
    terminate: Signal,
    interrupt: Signal,
}

impl End {
    fn listen() -> std::io::Result<Self> {
        Ok(End {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn came(&mut self) {
        let which = tokio::select! {
            biased;
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        info!(signal = which, "ending");
    }
}
