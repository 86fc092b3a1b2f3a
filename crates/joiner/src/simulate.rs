//! `joiner simulate`: whole worlds in virtual time, by seed, with an auditor that watches every change.

mod clouds;
mod line;
mod objects;
pub(crate) mod panics;
mod process;
mod report;
mod scenario;
pub(crate) mod seats;
#[cfg(test)]
mod tests;
mod user;
mod weather;
mod world;

use std::io::{self, Write as _};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use self::report::{Outcome, Summary};
use self::world::Run;
use crate::args::{LogFormat, ReportFormat, SimulateArgs};
use crate::failure::Failure;
use crate::telemetry;

/// Runs the command.
pub(crate) fn run(args: &SimulateArgs) -> Result<(), Failure> {
    telemetry::start("off", LogFormat::default());
    let started = Instant::now();
    let mut outcomes = Vec::new();
    let mut failed = None;
    for outcome in worlds(args) {
        match outcome {
            Ok(outcome) => {
                if args.output == ReportFormat::Text {
                    let command = report::replay(outcome.seed, args.hours, &args.faults.text);
                    let mut out = io::stdout().lock();
                    report::tell(&mut out, &outcome, &command).map_err(Failure::stdout)?;
                }
                outcomes.push(outcome);
            }
            Err(failure) => failed = Some(failure),
        }
    }
    if let Some(failure) = failed {
        return Err(failure);
    }
    let summary = Summary::new(outcomes);
    let mut out = io::stdout().lock();
    match args.output {
        ReportFormat::Text => summary.tell(&mut out, started.elapsed()),
        ReportFormat::Json => serde_json::to_writer_pretty(&mut out, &summary)
            .map_err(Into::into)
            .and_then(|()| writeln!(out)),
    }
    .map_err(Failure::stdout)?;
    match summary.violations {
        0 => Ok(()),
        count => Err(Failure::Violated(count)),
    }
}

/// Runs every seed, several at once, and gives out what became of each as it ends.
fn worlds(args: &SimulateArgs) -> mpsc::IntoIter<Result<Outcome, Failure>> {
    let jobs = args
        .jobs
        .or_else(|| thread::available_parallelism().ok().map(NonZero::get))
        .unwrap_or(1)
        .max(1);
    let (sender, receiver) = mpsc::channel();
    let next = std::sync::Arc::new(AtomicU64::new(args.seeds.first));
    for _ in 0..jobs {
        let (sender, next) = (sender.clone(), next.clone());
        let (end, hours, faults) = (args.seeds.end, args.hours, args.faults.kinds.clone());
        thread::spawn(move || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= end {
                    return;
                }
                let run = Run {
                    seed,
                    hours,
                    faults: faults.clone(),
                    ..Run::default()
                };
                let outcome = run
                    .play()
                    .map_err(|refused| Failure::Demo(format!("seed {seed}: {refused}")));
                // Whoever does not listen any more has seen enough.
                if sender.send(outcome).is_err() {
                    return;
                }
            }
        });
    }
    receiver.into_iter()
}
