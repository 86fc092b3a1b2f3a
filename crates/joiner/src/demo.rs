//! `joiner demo`: a whole cluster in this process, with a simulated cloud that Joiner buys from, a story that happens in
//! it, and an API for kubectl to play with.

mod books;
mod kubeconfig;
mod narrator;
mod news;
mod objects;
mod once;
mod paint;
mod racks;
mod stage;
mod story;
mod summary;
mod thoughts;

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use joiner_controllers::Settings;
use joiner_controllers::context::Context;
use joiner_controllers::edge::tasks::Tasks;
use prometheus_client::registry::Registry;

use self::narrator::{Audience, Narrator};
use self::stage::Stage;
use self::story::{CHAPTERS, Pace};
use self::summary::Summary;
use crate::api::history::Every;
use crate::args::{DemoArgs, LogFormat, StoryArg, USUAL_PAGE};
use crate::board::Board;
use crate::failure::Failure;
use crate::page;
use crate::telemetry;

pub(crate) use self::paint::wanted as colours_wanted;

/// How often the cluster is summed up, if something changed.
const SUM_EVERY: Duration = Duration::from_secs(5);

/// Runs the command: the story once, or until it is interrupted.
pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    if args.story == StoryArg::Racks {
        return racks::run(args);
    }
    if args.once {
        telemetry::start("off", LogFormat::default());
        return once::run(args);
    }
    telemetry::start("warn", LogFormat::default());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Demo(error.to_string()))?;
    runtime.block_on(play(args))
}

/// Standard output, in colour where it is a terminal.
struct Terminal;

impl Audience for Terminal {
    fn hear(&mut self, line: &str) -> io::Result<()> {
        if paint::wanted() {
            return writeln!(io::stdout().lock(), "{}", paint::painted(line));
        }
        write(&mut io::stdout().lock(), line)
    }
}

/// A line as it is, a blank one before every chapter.
fn write(out: &mut impl io::Write, line: &str) -> io::Result<()> {
    let gap = if line.contains(" == ") { "\n" } else { "" };
    writeln!(out, "{gap}{line}")
}

async fn play(args: &DemoArgs) -> Result<(), Failure> {
    let refused = |status: joiner_embedded::api::Status| Failure::Demo(status.to_string());
    let mut stage = Stage::set(
        args.seed,
        Some(Timestamp::now()),
        &Pace::LIVE,
        Settings::default(),
        None,
    )
    .map_err(refused)?;
    let port = stage
        .cluster
        .server()
        .listen(args.listen)
        .await
        .map_err(|source| Failure::Listen {
            flag: "--listen",
            address: args.listen,
            source,
        })?;
    kubeconfig::write(&args.kubeconfig, port.address())?;
    let (page, serving) = show(args, stage.context()).await?;
    welcome(&args.kubeconfig, port.address(), page).map_err(Failure::stdout)?;
    let Some(thoughts) = stage.thoughts.take() else {
        return Err(Failure::Demo("there is no planner to listen to".to_owned()));
    };
    let mut narrator = Narrator::new(stage.api(), thoughts, SUM_EVERY).with(stage.books.clone());
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Failure::stdout)?,
        told = tell(args.seed, &stage, &mut narrator) => told?,
    }
    let summary = summary(args.seed, &stage, &narrator);
    serving.stop().await;
    stage.clear().await;
    summary
        .tell(&mut io::stdout().lock())
        .map_err(Failure::stdout)
}

/// How often the demo is measured: its story is quick.
const MEASURED: Every = Every {
    sample: Duration::from_secs(1),
    bound: Duration::from_secs(15),
};

/// Serves the page. One of its usual port that is taken is no reason not to tell the story.
async fn show(args: &DemoArgs, context: Arc<Context>) -> Result<(SocketAddr, Tasks), Failure> {
    let board = Board::default();
    board.show(context, Registry::default());
    let tasks = Tasks::new();
    let taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
    let served = match page::serve(&board, args.page, MEASURED, &tasks).await {
        Err(error) if taken(&error) && args.page == USUAL_PAGE => {
            let any = SocketAddr::new(args.page.ip(), 0);
            page::serve(&board, any, MEASURED, &tasks).await
        }
        served => served,
    };
    let address = served.map_err(|source| Failure::Listen {
        flag: "--page",
        address: args.page,
        source,
    })?;
    Ok((address, tasks))
}

/// Tells the story, sums it up, and goes on telling what happens on the cluster.
async fn tell(seed: u64, stage: &Stage, narrator: &mut Narrator) -> Result<(), Failure> {
    let mut out = Terminal;
    let pace = Pace::LIVE;
    for chapter in &CHAPTERS {
        narrator
            .say(&mut out, &format!("== {}", chapter.title))
            .map_err(Failure::stdout)?;
        if let Err(refused) = chapter.happen(stage) {
            // A user may have deleted what the story is about.
            narrator
                .say(
                    &mut out,
                    &format!("   this part of the story cannot be told: {refused}"),
                )
                .map_err(Failure::stdout)?;
        }
        let end = tokio::time::sleep(pace.chapter);
        narrator
            .tell(&mut out, end)
            .await
            .map_err(Failure::stdout)?;
    }
    let night = tokio::time::sleep(pace.night);
    narrator
        .tell(&mut out, night)
        .await
        .map_err(Failure::stdout)?;
    summary(seed, stage, narrator)
        .tell(&mut io::stdout().lock())
        .map_err(Failure::stdout)?;
    out.hear("\nThe story is over; the cluster is yours until Ctrl-C.\n")
        .map_err(Failure::stdout)?;
    narrator
        .tell(&mut out, std::future::pending())
        .await
        .map_err(Failure::stdout)
}

fn summary(seed: u64, stage: &Stage, narrator: &Narrator) -> Summary {
    Summary {
        seed,
        hours: stage.api().clock().elapsed().as_secs_f64() / 3600.0,
        counts: narrator.counts().clone(),
        sum: stage.books.sum(),
        hash: stage.cluster.server().event_log_hash(),
    }
}

/// Where the page is, for those who are welcomed.
fn page_line(page: SocketAddr) -> String {
    format!("The page is at http://{page} : open it in a browser to follow the story.")
}

fn welcome(kubeconfig: &Path, address: SocketAddr, page: SocketAddr) -> io::Result<()> {
    let file = kubeconfig.display();
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "An embedded Kubernetes cluster listens on http://{address}; Joiner looks after its nodes."
    )?;
    writeln!(out, "{}\n", page_line(page))?;
    writeln!(out, "In another terminal:\n\n  export KUBECONFIG={file}")?;
    for line in [
        "kubectl get nodes,nodeclaims,pods -A",
        "kubectl scale deployment/web -n shop --replicas 60   # more than the nodes hold",
        "kubectl scale deployment/web -n shop --replicas 2    # and less",
        "kubectl describe nodepool default",
        "kubectl explain nodepools.spec.disruption",
    ] {
        writeln!(out, "  {line}")?;
    }
    writeln!(
        out,
        "\nMeanwhile a story is told: a day of a shop, in about seven minutes. Ctrl-C ends it; only that file is left \
         behind.\n"
    )
}
