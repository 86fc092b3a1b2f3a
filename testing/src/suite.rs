//! Karpenter's own end-to-end suite on Joiner.
//!
//! ```text
//! list ──► queue of specs ──► bench 1: control plane, kwok, Joiner ──► suite --ginkgo.focus=SPEC ──► verdict
//!                        └──► bench 2: …
//! ```
//!
//! A bench runs one spec after the other; after one that failed it is torn down and built again, so that no spec pays
//! for what another left behind. What the suite asks of KWOK's machine sizes is given by the node pool that is passed
//! in; its expectations are never touched.

mod bench;
mod cannot;
mod files;
mod queue;
mod spec;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};

pub use bench::Verdict;
pub use cannot::cannot_pass;
pub use spec::Spec;

use queue::Queue;

use crate::Program;

/// How the suite is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The binary of Joiner.
    pub joiner: PathBuf,
    /// How many clusters work side by side.
    pub benches: usize,
    /// What one spec may take.
    pub limit: Duration,
    /// Where the logs of specs that fail are kept.
    pub logs: Option<PathBuf>,
}

/// Every spec of the suite, in the order in which the suite has them. Builds it, unless that was done.
pub async fn list() -> Result<Vec<Spec>> {
    let program = suite().await?;
    tokio::task::spawn_blocking(move || spec::list(&program)).await?
}

/// Runs specs and tells each verdict as soon as it is known.
pub async fn run(
    settings: &Settings,
    specs: Vec<Spec>,
    told: impl Fn(&Verdict) + Sync,
) -> Result<Vec<Verdict>> {
    let program = suite().await?;
    let mut queue = specs;
    // The longest first: what begins last decides when all is over.
    queue.sort_by_key(|spec| std::cmp::Reverse(spec.usual()));
    let benches = settings.benches.clamp(1, queue.len().max(1));
    let queue = Queue::new(queue);
    let work = (0..benches).map(|_| bench::work(settings, &program, &queue, &told));
    let done = futures::future::try_join_all(work).await?;
    let mut verdicts: Vec<Verdict> = done.into_iter().flatten().collect();
    verdicts.sort_by_key(|verdict| verdict.spec.index);
    Ok(verdicts)
}

async fn suite() -> Result<PathBuf> {
    let ensure = || crate::ensure(&[Program::KarpenterSuite]);
    let programs = tokio::task::spawn_blocking(ensure)
        .await?
        .context("building Karpenter's suite")?;
    Ok(programs.join(Program::KarpenterSuite.file_name()))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
