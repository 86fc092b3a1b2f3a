//! `joiner demo --story racks`: own racks first, spot for the burst. One cluster whose `NodePools` are on Proxmox VE, on
//! bare metal and on Rackspace Spot, all of them simulated behind their real APIs.

mod bill;
mod objects;
mod stage;
mod story;
mod summary;

use std::io::{self, Write as _};
use std::net::SocketAddr;

use jiff::Timestamp;
use joiner_embedded::api::Status;

use self::stage::{Stage, Timing};
use self::story::{CHAPTERS, Pace};
use self::summary::Summary;
use super::narrator::{Audience, Narrator};
use super::{Terminal, kubeconfig, page_line, show};
use crate::args::{DemoArgs, LogFormat, ReportFormat};
use crate::failure::Failure;
use crate::telemetry;

/// What the cluster may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pools {
    /// Own racks and the cloud.
    OwnFirst,
    /// The cloud alone, to compare with.
    CloudOnly,
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err has it")]
fn refused(status: Status) -> Failure {
    Failure::Demo(status.to_string())
}

/// Runs the story once, or until it is interrupted.
pub(super) fn run(args: &DemoArgs) -> Result<(), Failure> {
    if args.report.is_some() {
        return Err(Failure::Usage(
            "--report is written for --story shop only: leave out --report, or --story racks"
                .to_owned(),
        ));
    }
    if args.once {
        telemetry::start("off", LogFormat::default());
        return once(args);
    }
    telemetry::start("warn", LogFormat::default());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Demo(error.to_string()))?;
    runtime.block_on(live(args))
}

/// Hears nothing.
struct Quiet;

impl Audience for Quiet {
    fn hear(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

fn once(args: &DemoArgs) -> Result<(), Failure> {
    let told = match args.output {
        ReportFormat::Text => story::told(
            args.seed,
            Pace::DAY,
            Timing::Real,
            Pools::OwnFirst,
            &mut Terminal,
        ),
        ReportFormat::Json => story::told(
            args.seed,
            Pace::DAY,
            Timing::Real,
            Pools::OwnFirst,
            &mut Quiet,
        ),
    }?;
    let compared = story::told(
        args.seed,
        Pace::DAY,
        Timing::Real,
        Pools::CloudOnly,
        &mut Quiet,
    )?;
    let faults: Vec<String> = told
        .faults
        .iter()
        .chain(&compared.faults)
        .cloned()
        .collect();
    let summary = Summary::new(args.seed, told, &compared);
    let mut out = io::stdout().lock();
    match args.output {
        ReportFormat::Text => summary.tell(&mut out),
        ReportFormat::Json => serde_json::to_writer_pretty(&mut out, &summary)
            .map_err(Into::into)
            .and_then(|()| writeln!(out)),
    }
    .map_err(Failure::stdout)?;
    drop(out);
    for fault in &faults {
        // Standard error may be closed; the exit status says it too.
        let _ = writeln!(io::stderr(), "joiner: {fault}");
    }
    match faults.len() {
        0 => Ok(()),
        count => Err(Failure::Violated(count)),
    }
}

async fn live(args: &DemoArgs) -> Result<(), Failure> {
    let mut stage = Stage::set(
        args.seed,
        Some(Timestamp::now()),
        story::settings(),
        Timing::Quick,
        Pools::OwnFirst,
    )?;
    let port = stage.cluster.server().listen(args.listen).await;
    let port = port.map_err(|source| Failure::Listen {
        flag: "--listen",
        address: args.listen,
        source,
    })?;
    kubeconfig::write(&args.kubeconfig, port.address())?;
    let (page, serving) = show(args, stage.context()).await?;
    welcome(args, port.address(), page).map_err(Failure::stdout)?;
    let Some(thoughts) = stage.thoughts.take() else {
        return Err(Failure::Demo("there is no planner to listen to".to_owned()));
    };
    let mut narrator = Narrator::new(stage.api(), thoughts, Pace::LIVE.sum_every());
    tokio::select! {
        biased;
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(Failure::stdout)?,
        told = tell(args.seed, &stage, &mut narrator) => told?,
    }
    serving.stop().await;
    stage.clear().await;
    Ok(())
}

/// Tells the story, sums it up beside the cloud alone, and goes on telling what happens on the cluster.
async fn tell(seed: u64, stage: &Stage, narrator: &mut Narrator) -> Result<(), Failure> {
    let mut out = Terminal;
    for chapter in &CHAPTERS {
        story::chapter(stage, narrator, chapter, Pace::LIVE, &mut out).await?;
    }
    let told = story::outcome(stage, narrator);
    // The same chapters without own racks, in virtual time: that takes seconds.
    let compared = tokio::task::spawn_blocking(move || {
        story::told(
            seed,
            Pace::LIVE,
            Timing::Quick,
            Pools::CloudOnly,
            &mut Quiet,
        )
    });
    let compared = compared.await;
    let compared = compared.map_err(|error| Failure::Demo(error.to_string()))??;
    Summary::new(seed, told, &compared)
        .tell(&mut io::stdout().lock())
        .map_err(Failure::stdout)?;
    out.hear("\nThe story is over; the cluster is yours until Ctrl-C.\n")
        .map_err(Failure::stdout)?;
    narrator
        .tell(&mut out, std::future::pending())
        .await
        .map_err(Failure::stdout)
}

fn welcome(args: &DemoArgs, address: SocketAddr, page: SocketAddr) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "An embedded Kubernetes cluster listens on http://{address}. Its NodePools: virtual ({} Proxmox hosts), metal \
         ({} servers with BMCs) and spot (Rackspace Spot), all simulated.",
        objects::HOSTS,
        objects::SERVERS
    )?;
    writeln!(out, "{}\n", page_line(page))?;
    writeln!(
        out,
        "In another terminal:\n\n  export KUBECONFIG={}",
        args.kubeconfig.display()
    )?;
    for line in [
        "kubectl get nodepools,nodeclaims",
        "kubectl get proxmoxnodeclasses,redfishnodeclasses,rackspacenodeclasses",
        "kubectl scale deployment/web -n shop --replicas 300   # more than the racks hold",
        "kubectl scale deployment/web -n shop --replicas 40    # and less",
    ] {
        writeln!(out, "  {line}")?;
    }
    writeln!(
        out,
        "\nThe story takes about {} minutes. Ctrl-C ends it.\n",
        Pace::LIVE.minutes()
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Args, Command};

    #[test]
    fn a_report_of_the_racks_is_refused_before_anything_starts() {
        let typed = "joiner demo --once --story racks --report racks.html";
        let Command::Demo(args) = Args::parse_from(typed.split(' ')).command else {
            panic!("{typed}")
        };
        let refused = run(&args).unwrap_err();
        assert!(matches!(refused, Failure::Usage(_)), "{refused}");
    }
}
