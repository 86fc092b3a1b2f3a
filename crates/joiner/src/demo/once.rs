//! The story in virtual time: thirteen hours within seconds, the same for the same seed.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use joiner_controllers::edge::tasks::Tasks;
use joiner_controllers::{Settings, SolveOn};
use joiner_sim::audit::{self, AuditOptions, Auditor, Class, Invariant, Violation};
use prometheus_client::registry::Registry;

use super::narrator::{Audience, Narrator};
use super::stage::Stage;
use super::story::{CHAPTERS, Pace};
use super::summary::Summary;
use crate::api::Watched;
use crate::api::history::{self, Every};
use crate::args::{DemoArgs, ReportFormat};
use crate::board::Board;
use crate::classes::sim::SIM;
use crate::failure::Failure;
use crate::page;
use crate::simulate::panics;
use crate::wiring::EMBEDDED;

/// The terminal, or nothing.
struct Terminal(ReportFormat);

impl Audience for Terminal {
    fn hear(&mut self, line: &str) -> io::Result<()> {
        match self.0 {
            ReportFormat::Text => super::Terminal.hear(line),
            ReportFormat::Json => Ok(()),
        }
    }
}

/// Tells the story once.
pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let (summary, faults) = told(
        args.seed,
        &mut Terminal(args.output),
        args.report.as_deref(),
    )?;
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

/// Tells the story in virtual time: how it went, and everything that must never happen and did.
fn told(
    seed: u64,
    audience: &mut dyn Audience,
    report: Option<&Path>,
) -> Result<(Summary, Vec<String>), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| Failure::Demo(error.to_string()))?;
    // Tasks that panic are started again, and the story goes on.
    panics::listen();
    let played = runtime.block_on(play(seed, audience, report));
    let panics = panics::heard();
    let (summary, violations) = played?;
    let violated = |one: &Violation| format!("{} {}: {}", one.at, one.invariant, one.message);
    let mut faults: Vec<String> = violations.iter().map(violated).collect();
    faults.extend(
        panics
            .iter()
            .map(|said| format!("{}: {said}", Invariant::NoPanic)),
    );
    Ok((summary, faults))
}

/// What is told, before it begins.
fn opening(seed: u64) -> String {
    format!(
        "A shop on a simulated cloud, 13 hours in virtual time: seven chapters of 45 minutes and a night of eight hours. \
         Seed {seed}.\nNothing is real but Joiner. A running spot machine is billed at the price of the moment."
    )
}

/// Plays every chapter and the night, under the eyes of the auditor.
async fn play(
    seed: u64,
    audience: &mut dyn Audience,
    report: Option<&Path>,
) -> Result<(Summary, Vec<Violation>), Failure> {
    let refused = |status: joiner_embedded::api::Status| Failure::Demo(status.to_string());
    let settings = Settings {
        solve_on: SolveOn::Caller,
        // A day is long: what is looked at less often costs a little more and takes seconds instead of minutes.
        disruption_pause: Duration::from_secs(10),
        catalog_period: Duration::from_mins(2),
        ..Settings::default()
    };
    let class = Class {
        group: SIM.group.to_owned(),
        name: "default".to_owned(),
    };
    let classes = [(class, joiner_sim::clouds::sim::built_in())];
    let options = AuditOptions::new(EMBEDDED, vec![&audit::KARPENTER], classes.into());
    let auditor = Auditor::new(options);
    let pace = Pace::DAY;
    let mut stage = Stage::set(seed, None, &pace, settings, Some(&auditor)).map_err(refused)?;
    let Some(thoughts) = stage.thoughts.take() else {
        return Err(Failure::Demo("there is no planner to listen to".to_owned()));
    };
    let measured = report.map(|file| Measured::start(&stage, file));
    let mut narrator =
        Narrator::new(stage.api(), thoughts, pace.chapter / 3).with(stage.books.clone());
    audience.hear(&opening(seed)).map_err(Failure::stdout)?;
    for chapter in &CHAPTERS {
        narrator
            .say(audience, &format!("== {}", chapter.title))
            .map_err(Failure::stdout)?;
        chapter.happen(&stage).map_err(refused)?;
        let end = tokio::time::sleep(pace.chapter);
        narrator
            .tell(audience, end)
            .await
            .map_err(Failure::stdout)?;
    }
    let night = tokio::time::sleep(pace.night);
    narrator
        .tell(audience, night)
        .await
        .map_err(Failure::stdout)?;
    let summary = Summary {
        seed,
        hours: stage.api().clock().elapsed().as_secs_f64() / 3600.0,
        counts: narrator.counts().clone(),
        sum: stage.books.sum(),
        hash: stage.cluster.server().event_log_hash(),
    };
    if let Some(measured) = measured {
        measured.write(&stage, &summary).await?;
    }
    stage.clear().await;
    Ok((summary, auditor.violations()))
}

/// What was measured on the way, and where the report goes.
struct Measured {
    watched: Watched,
    tasks: Tasks,
    file: PathBuf,
}

impl Measured {
    /// Measures from now on, in the story's own time.
    fn start(stage: &Stage, file: &Path) -> Self {
        let every = Every {
            sample: Duration::from_mins(1),
            bound: Duration::from_mins(30),
        };
        let board = Board::default();
        board.show(stage.context(), Registry::default());
        let (watched, tasks) = (Watched::default(), Tasks::new());
        tasks.spawn("measurements", history::run(board, watched.clone(), every));
        Measured {
            watched,
            tasks,
            file: file.to_owned(),
        }
    }

    /// Writes the report.
    async fn write(self, stage: &Stage, summary: &Summary) -> Result<(), Failure> {
        self.tasks.stop().await;
        let mut told = Vec::new();
        summary.tell(&mut told).map_err(Failure::stdout)?;
        // A fact that is longer than a line goes on below its own words.
        let told = String::from_utf8_lossy(&told).replace("\n          ", " ");
        let lines = told.lines().map(str::trim).filter(|line| !line.is_empty());
        let facts = lines.skip(1).map(str::to_owned).collect();
        let title = format!(
            "{:.0} hours of Joiner: seed {}",
            summary.hours, summary.seed
        );
        let page = page::report(&stage.context(), &self.watched, title, facts);
        let page = page.map_err(|error| Failure::Demo(error.to_string()))?;
        std::fs::write(&self.file, page).map_err(|source| Failure::Write {
            path: self.file,
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    /// Hears everything.
    #[derive(Default)]
    struct Ear(Vec<String>);

    impl Audience for Ear {
        fn hear(&mut self, line: &str) -> io::Result<()> {
            self.0.push(line.to_owned());
            Ok(())
        }
    }

    fn heard(seed: u64) -> (Summary, Vec<String>) {
        let mut ear = Ear::default();
        let (summary, faults) = told(seed, &mut ear, None).unwrap();
        assert!(faults.is_empty(), "{faults:#?}");
        (summary, ear.0)
    }

    /// The story of seed 1, told once for all tests.
    fn first() -> &'static (Summary, Vec<String>) {
        static FIRST: OnceLock<(Summary, Vec<String>)> = OnceLock::new();
        FIRST.get_or_init(|| heard(1))
    }

    #[test]
    fn the_story_has_everything_and_is_the_same_for_the_same_seed() {
        let (summary, lines) = first();
        let says = |what: &str| lines.iter().any(|line| line.contains(what));
        assert!(says("cheapest of"), "a reason for a purchase: {lines:#?}");
        for what in ["notice", "replace", "remove", "gone", "Interrupted"] {
            assert!(says(what), "{what}: {lines:#?}");
        }
        assert!(summary.counts.most_pods >= 40, "{summary:?}");
        assert!(summary.counts.pods_moved > 0, "{summary:?}");
        let sum = &summary.sum;
        assert!(sum.dollars_lower_bound > 0.0, "{summary:?}");
        assert!(sum.dollars_lower_bound <= sum.dollars_spent, "{summary:?}");
        assert!(
            sum.dollars_spent * 1.5 < sum.dollars_never_scaling_down,
            "{summary:?}"
        );
        let (again, same) = heard(1);
        assert_eq!((summary, lines), (&again, &same));
        assert_ne!(summary.hash, heard(2).0.hash);
    }

    /// What `joiner demo --once --seed 1` prints. After a change that is meant: `joiner demo --once --seed 1 > FILE`.
    #[test]
    fn the_story_of_seed_1_reads_as_it_is_documented() {
        let (summary, lines) = first();
        let mut told = Vec::new();
        for line in lines {
            super::super::write(&mut told, line).unwrap();
        }
        summary.tell(&mut told).unwrap();
        let told = String::from_utf8(told).unwrap();
        assert_eq!(told, include_str!("once/seed-1.txt"));
    }

    #[test]
    fn spot_that_triples_is_left_for_something_cheaper() {
        let (_, lines) = first();
        let chapter = lines
            .iter()
            .skip_while(|line| !line.contains("three times as much"));
        let chapter: Vec<&String> = chapter
            .skip(1)
            .take_while(|line| !line.contains(" == "))
            .collect();
        let replaced = chapter
            .iter()
            .any(|line| line.contains(" replace ") && line.contains(" an hour instead of $"));
        assert!(replaced, "{chapter:#?}");
    }
}
