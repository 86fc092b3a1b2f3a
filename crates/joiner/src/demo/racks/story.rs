//! The chapters, and how they are told in virtual time.

use std::time::Duration;

use joiner_controllers::{Settings, SolveOn};
use serde::Serialize;

use super::bill::{self, Held, Sum};
use super::objects;
use super::stage::{Stage, Timing};
use super::{Pools, refused};
use crate::demo::narrator::{Audience, Narrator};
use crate::demo::summary::Counts;
use crate::failure::Failure;
use crate::simulate::panics;

/// How fast the story is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    chapter: Duration,
}

impl Pace {
    /// For people who watch.
    pub(super) const LIVE: Pace = Pace {
        chapter: Duration::from_secs(90),
    };
    /// A working day.
    pub(super) const DAY: Pace = Pace {
        chapter: Duration::from_mins(90),
    };

    /// How often the cluster is summed up.
    pub(super) fn sum_every(self) -> Duration {
        (self.chapter / 4).min(Duration::from_mins(20))
    }

    /// How long the whole story takes.
    pub(super) fn minutes(self) -> u64 {
        (self.chapter * u32::try_from(CHAPTERS.len()).unwrap_or(1))
            .as_secs()
            .div_ceil(60)
    }
}

/// A chapter: its title and how many pods the service has from then on.
pub(super) struct Chapter {
    pub(super) title: &'static str,
    pub(super) pods: usize,
}

/// All chapters, in order.
pub(super) const CHAPTERS: [Chapter; 4] = [
    Chapter {
        title: "An ordinary day: 60 pods. The own racks have room for them.",
        pods: 60,
    },
    Chapter {
        title: "The burst: 300 pods, more than the own racks hold. The rest goes to the cheapest spot servers.",
        pods: 300,
    },
    Chapter {
        title: "The burst is over: 60 pods come home to the own racks.",
        pods: 60,
    },
    Chapter {
        title: "Night: 10 pods.",
        pods: 10,
    },
];

/// What a chapter ended with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct End {
    /// Pods that the service should have.
    pub(super) pods: usize,
    /// Pods that run.
    pub(super) running: usize,
    /// Machines on own hardware.
    pub(super) own: usize,
    /// Pods on them, agents included.
    pub(super) pods_on_own: usize,
    /// Classes of the cloud's servers.
    pub(super) servers: Vec<String>,
}

/// How the story went.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) hours: f64,
    pub(super) counts: Counts,
    pub(super) sum: Sum,
    pub(super) ends: Vec<End>,
    pub(super) hash: String,
    /// Everything that must never happen and did.
    pub(super) faults: Vec<String>,
}

/// Lets a chapter happen and tells what follows.
pub(super) async fn chapter(
    stage: &Stage,
    narrator: &mut Narrator,
    chapter: &Chapter,
    pace: Pace,
    audience: &mut dyn Audience,
) -> Result<End, Failure> {
    narrator
        .say(audience, &format!("== {}", chapter.title))
        .map_err(Failure::stdout)?;
    objects::scale(&stage.api(), chapter.pods).map_err(refused)?;
    let end = tokio::time::sleep(pace.chapter);
    narrator
        .tell(audience, end)
        .await
        .map_err(Failure::stdout)?;
    let end = seen(stage, chapter.pods);
    let line = format!(
        "   {} of {} pods run; {} machines on own racks, {} spot servers",
        end.running,
        end.pods,
        end.own,
        end.servers.len()
    );
    narrator.say(audience, &line).map_err(Failure::stdout)?;
    Ok(end)
}

fn seen(stage: &Stage, pods: usize) -> End {
    let api = stage.api();
    let Held { servers, own, .. } = bill::held(&api, &stage.hardware.cloud);
    let nodes = api.list("nodes");
    let on_own = |name: &str| {
        let node = nodes.iter().find(|node| node["metadata"]["name"] == name);
        node.is_some_and(|node| {
            node["metadata"]["labels"][joiner_core::labels::NODEPOOL] != bill::CLOUD
        })
    };
    let all = api.list("pods");
    let running = all.iter().filter(|pod| pod["status"]["phase"] == "Running");
    let (mut web, mut at_home) = (0, 0);
    for pod in running {
        web += usize::from(pod["metadata"]["labels"]["app"] == "web");
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        at_home += usize::from(on_own(node));
    }
    End {
        pods,
        running: web,
        own,
        pods_on_own: at_home,
        servers: servers.into_iter().map(|(_, class)| class).collect(),
    }
}

/// How it went so far.
pub(super) fn outcome(stage: &Stage, narrator: &Narrator) -> Told {
    Told {
        hours: stage.api().clock().elapsed().as_secs_f64() / 3600.0,
        counts: narrator.counts().clone(),
        sum: stage.bill.sum(),
        ends: Vec::new(),
        hash: stage.cluster.server().event_log_hash(),
        faults: stage.broken(),
    }
}

/// Tells the story in virtual time.
pub(super) fn told(
    seed: u64,
    pace: Pace,
    timing: Timing,
    pools: Pools,
    audience: &mut dyn Audience,
) -> Result<Told, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .map_err(|error| Failure::Demo(error.to_string()))?;
    // Tasks that panic are started again, and the story goes on.
    panics::listen();
    let played = runtime.block_on(play(seed, pace, timing, pools, audience));
    let panics = panics::heard();
    let mut told = played?;
    told.faults.extend(panics);
    Ok(told)
}

/// How Joiner behaves in this story: spot servers may make way for something cheaper, here for own racks.
pub(super) fn settings() -> Settings {
    Settings {
        spot_to_spot: true,
        ..Settings::default()
    }
}

async fn play(
    seed: u64,
    pace: Pace,
    timing: Timing,
    pools: Pools,
    audience: &mut dyn Audience,
) -> Result<Told, Failure> {
    let settings = Settings {
        solve_on: SolveOn::Caller,
        // What is looked at less often costs a little more and takes seconds instead of minutes.
        disruption_pause: Duration::from_secs(10),
        catalog_period: Duration::from_mins(1),
        ..settings()
    };
    let mut stage = Stage::set(seed, None, settings, timing, pools)?;
    let Some(thoughts) = stage.thoughts.take() else {
        return Err(Failure::Demo("there is no planner to listen to".to_owned()));
    };
    let mut narrator = Narrator::new(stage.api(), thoughts, pace.sum_every());
    let mut ends = Vec::new();
    for one in &CHAPTERS {
        ends.push(chapter(&stage, &mut narrator, one, pace, audience).await?);
    }
    let told = Told {
        ends,
        ..outcome(&stage, &narrator)
    };
    stage.clear().await;
    Ok(told)
}

#[cfg(test)]
mod tests;
