//! What Joiner buys, in words, in the moment it decides; and the least that the same pods could have cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use jiff::SignedDuration;
use joiner_controllers::Decide;
use joiner_controllers::engine::Core;
use joiner_core::money::Money;
use joiner_core::name::Name;
use joiner_core::pack;
use joiner_core::plan::Plan;
use joiner_core::problem::{CapacityType, Problem};
use tokio::sync::mpsc;

use super::books::Books;
use crate::plan::report::counted;

/// How often the least cost is worked out anew.
const EVERY: SignedDuration = SignedDuration::from_mins(5);

/// An offering: catalogue, type, zone, how it is paid for.
type Offer = (Name, Name, Name, CapacityType);

/// Decides as the core does, and says so.
pub(crate) struct Thoughtful {
    core: Core,
    books: Option<Books>,
    words: mpsc::UnboundedSender<String>,
    lowest: Mutex<BTreeMap<Offer, Money>>,
    /// Why pods wait, as it was said last.
    waits: Mutex<BTreeSet<String>>,
}

impl Thoughtful {
    /// Says what it buys to `words`, and writes the least cost into the books, if there are any.
    pub(crate) fn new(books: Option<Books>, words: mpsc::UnboundedSender<String>) -> Self {
        Thoughtful {
            core: Core::default(),
            books,
            words,
            lowest: Mutex::default(),
            waits: Mutex::default(),
        }
    }

    fn say(&self, line: String) {
        // Nobody listens any more when the story is over.
        let _ = self.words.send(line);
    }

    /// Every offering at the lowest price that it ever had: prices move, and a bound must hold whenever one buys.
    fn at_best(&self, problem: &mut Problem) {
        let mut lowest = self.lowest.lock().unwrap_or_else(PoisonError::into_inner);
        for catalog in &mut problem.catalogs {
            for kind in &mut catalog.types {
                for offering in &mut kind.offerings {
                    let offer = (
                        catalog.name.clone(),
                        kind.name.clone(),
                        offering.zone.clone(),
                        offering.capacity_type,
                    );
                    let best = lowest.entry(offer).or_insert(offering.price);
                    *best = (*best).min(offering.price);
                    offering.price = *best;
                    offering.available = true;
                }
            }
        }
    }

    /// The least that the pods of this moment can cost an hour, on machines of any age.
    fn floor(&self, problem: &Problem) -> Money {
        let mut fresh = problem.clone();
        self.at_best(&mut fresh);
        let (ours, others): (Vec<_>, Vec<_>) =
            fresh.nodes.drain(..).partition(|node| node.pool.is_some());
        fresh.nodes = others;
        for node in ours {
            let work = node
                .pods
                .into_iter()
                .filter(|pod| !pod.daemon && !pod.stays_behind);
            fresh.pods.extend(work);
        }
        let quick = pack::Options {
            steps: 0,
            ..pack::Options::default()
        };
        pack::solve(&fresh, &quick).lower_bound
    }
}

impl Decide for Thoughtful {
    fn provision(&self, problem: &Problem) -> Plan {
        let plan = self.core.provision(problem);
        for line in bought(&plan) {
            self.say(line);
        }
        let waits = plan.unplaced.iter().map(|unplaced| {
            let pods = counted(unplaced.pods.len(), "pod");
            format!("wait {pods}: {}", unplaced.reason)
        });
        // The same is decided again every few seconds; it is told when it changes.
        let waits: BTreeSet<String> = waits.collect();
        let mut before = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        for line in waits.difference(&before) {
            self.say(line.clone());
        }
        *before = waits;
        drop(before);
        plan
    }

    fn disrupt(&self, problem: &Problem) -> Plan {
        if let (Some(now), Some(books)) = (problem.now, &self.books)
            && books.bound_is_older(now, EVERY)
        {
            books.bound(now, self.floor(problem));
        }
        self.core.disrupt(problem)
    }
}

/// What a plan buys: one line for machines that are alike and bought for the same reason.
fn bought(plan: &Plan) -> Vec<String> {
    let mut alike: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for launch in &plan.launches {
        let purchase = &launch.purchase;
        let line = format!(
            "{} as {} in zone {} for {} an hour ({})",
            purchase.instance_type,
            purchase.capacity_type,
            purchase.zone,
            purchase.price,
            launch.reason
        );
        let (machines, pods) = alike.entry(line).or_default();
        *machines += 1;
        *pods += launch.pods.len();
    }
    let line = |(said, (machines, pods)): (String, (usize, usize))| {
        let times = match machines {
            1 => String::new(),
            many => format!("{many} × "),
        };
        format!("buy {times}{said}, for {}", counted(pods, "pod"))
    };
    alike.into_iter().map(line).collect()
}
