//! The story: a shop opens, is overrun, meets a price change, an interruption and a new version, and sleeps.

use std::time::Duration;

use joiner_core::problem::CapacityType;
use joiner_embedded::api::{Local, Status};
use serde_json::{Value, json};

use super::objects;
use super::stage::Stage;

/// How fast the story is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// From one chapter to the next.
    pub(crate) chapter: Duration,
    /// The quiet night.
    pub(crate) night: Duration,
    /// How far spot prices stray, and how often they change.
    pub(crate) swing: &'static str,
    pub(crate) prices: &'static str,
}

impl Pace {
    /// For a person who watches.
    pub(crate) const LIVE: Pace = Pace {
        chapter: Duration::from_secs(45),
        night: Duration::from_secs(90),
        swing: "25%",
        prices: "2m",
    };
    /// Thirteen hours: chapters of 45 minutes and a night of eight hours.
    pub(crate) const DAY: Pace = Pace {
        chapter: Duration::from_mins(45),
        night: Duration::from_hours(8),
        swing: "15%",
        prices: "1h",
    };
}

/// A chapter: its title and what happens in it.
pub(crate) struct Chapter {
    /// Its title.
    pub(crate) title: &'static str,
    act: fn(&Stage) -> Result<(), Status>,
}

/// All chapters, in order. After the last comes the night.
pub(crate) const CHAPTERS: [Chapter; 7] = [
    Chapter {
        title: "Morning: the shop opens with 6 replicas. A disruption budget guards them, an agent runs on every node.",
        act: |_| Ok(()),
    },
    Chapter {
        title: "Rush hour: 40 replicas.",
        act: |stage| scale(&stage.api(), 40),
    },
    Chapter {
        title: "A batch job: 36 reports, 12 at a time.",
        act: |stage| {
            let report = objects::report("reports", 36, 12);
            stage.api().create("jobs.batch", "shop", report).map(drop)
        },
    },
    Chapter {
        title: "The market moves: what the cluster runs on now costs three times as much. Joiner leaves for cheaper machines.",
        act: |stage| {
            triple(stage);
            Ok(())
        },
    },
    Chapter {
        title: "The cloud takes a spot machine back, at a minute's notice.",
        act: |stage| {
            interrupt(stage);
            Ok(())
        },
    },
    Chapter {
        title: "Version 2 is rolled out, a quarter of the pods at a time.",
        act: |stage| {
            change(&stage.api(), |web| {
                web["spec"]["template"]["spec"]["containers"][0]["image"] =
                    json!("example.com/web:2");
            })
        },
    },
    Chapter {
        title: "Evening and night: 3 replicas are enough.",
        act: |stage| scale(&stage.api(), 3),
    },
];

impl Chapter {
    /// Lets it happen.
    pub(crate) fn happen(&self, stage: &Stage) -> Result<(), Status> {
        (self.act)(stage)
    }
}

fn change(api: &Local, change: impl FnOnce(&mut Value)) -> Result<(), Status> {
    let mut web = Value::clone(&*api.get("deployments.apps", "shop", "web")?);
    change(&mut web);
    api.update("deployments.apps", web).map(drop)
}

fn scale(api: &Local, replicas: u32) -> Result<(), Status> {
    change(api, |web| web["spec"]["replicas"] = json!(replicas))
}

/// Spot offerings of which the cluster has machines cost three times as much from now on.
fn triple(stage: &Stage) {
    let Some(cloud) = stage.cloud() else { return };
    let held = cloud.machines();
    cloud.change(|options| {
        for kind in &mut options.catalog.types {
            for offering in &mut kind.offerings {
                let stands = held.iter().any(|machine| {
                    machine.instance_type == kind.name && machine.zone == offering.zone
                });
                if stands && offering.capacity_type == CapacityType::Spot {
                    offering.price = offering.price * 3;
                }
            }
        }
    });
}

/// The dearest spot machine is interrupted.
fn interrupt(stage: &Stage) {
    let Some(cloud) = stage.cloud() else { return };
    let spot = cloud
        .machines()
        .into_iter()
        .filter(|machine| machine.capacity_type == CapacityType::Spot)
        .max_by_key(|machine| machine.price);
    if let Some(machine) = spot {
        cloud.interrupt(&machine.id);
    }
}
