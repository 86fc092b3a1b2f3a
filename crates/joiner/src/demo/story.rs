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
}

impl Pace {
    /// For somebody who watches.
    pub(crate) const LIVE: Pace = Pace {
        chapter: Duration::from_secs(45),
        night: Duration::from_secs(90),
    };
    /// A whole day.
    pub(crate) const DAY: Pace = Pace {
        chapter: Duration::from_mins(45),
        night: Duration::from_hours(8),
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
        title: "Morning: the shop opens. A pool, a service with a disruption budget, an agent on every node.",
        act: |_| Ok(()),
    },
    Chapter {
        title: "Rush hour: 40 replicas instead of 6.",
        act: |stage| scale(&stage.api(), 40),
    },
    Chapter {
        title: "A batch of reports, 12 at a time.",
        act: |stage| {
            let report = objects::report("reports", 36, 12);
            stage.api().create("jobs.batch", "shop", report).map(drop)
        },
    },
    Chapter {
        title: "Prices change: spot triples where the nodes stand.",
        act: |stage| {
            triple(stage);
            Ok(())
        },
    },
    Chapter {
        title: "The cloud wants a machine back, at a minute's notice.",
        act: |stage| {
            interrupt(stage);
            Ok(())
        },
    },
    Chapter {
        title: "Version 2 is rolled out, a pod at a time.",
        act: |stage| {
            change(&stage.api(), |web| {
                web["spec"]["template"]["spec"]["containers"][0]["image"] =
                    json!("example.com/web:2");
            })
        },
    },
    Chapter {
        title: "Evening: 3 replicas are enough. A quiet night.",
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

/// The dearest spot machine is asked back.
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
