//! Two days of a moving market: what the optimiser saves, beside other rules and beside perfect hindsight.
//!
//! Every price walks by itself, as far from its middle as the percentiles of the public feed say that it does. The
//! same pods come and go under each rule, and every server is paid for from the moment that its bid is won, as Rackspace
//! bills it. The figures are printed as the table of `docs/guides/rackspace.md`:
//!
//! ```text
//! cargo test -p joiner-controllers --test price_story -- --nocapture --ignored
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do, and this one tells a story"
)]

mod spot;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use joiner_controllers::dialects::karpetrack::KarpetrackOptions;
use joiner_controllers::{Decide, Settings};
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::pack;
use joiner_core::plan::{Home, Launch, Plan, PodRef, Purchase, Reason, Removal};
use joiner_core::problem::{
    DisruptionReason, Node, NodeId, NodePhase, Pod, PodSpec, Pool, Problem,
};
use joiner_core::requirement::{Expression, Operator};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use joiner_sim::clouds::rackspace::{Class, RackspaceCloudOptions, built_in};
use spot::World;

const HOURS: u64 = 48;
/// Markets that the rules are compared on: one may suit anybody.
const MARKETS: u64 = 8;
/// The one of them that shows what the optimiser is for, in a minute or two.
const ONE: u64 = 2;
/// How long a server may take that new pods wait for: the auction, the slowest build, and a little.
const BUILD: Duration = Duration::from_mins(40);
/// What is left of the bill at most, or nobody would need an optimiser.
const WORTH_IT: f64 = 0.8;
/// How long a pod that has to move may be without a node: it is evicted when its place is ready.
const MOVE: u32 = 2;

/// A number between -1 and 1 that depends on nothing but its arguments.
fn wobble(seed: u64, class: &str, step: u64) -> f64 {
    let mut state = (step ^ (seed << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for byte in class.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    state ^= state >> 31;
    state = state.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    state ^= state >> 29;
    f64::from(u32::try_from(state >> 32).unwrap()) / f64::from(u32::MAX) * 2.0 - 1.0
}

/// A month of the public feed: what classes cost at most a fifth, half and four fifths of the time, in thousandths of a
/// dollar.
const MONTH: [(&str, [f64; 3]); 7] = [
    ("gp.vs1.medium-ord", [4.0, 12.0, 24.0]),
    ("gp.vs1.large-ord", [9.0, 13.0, 37.0]),
    ("gp.vs1.xlarge-ord", [19.0, 33.0, 94.0]),
    ("gp.vs1.2xlarge-ord", [38.0, 47.0, 98.0]),
    ("ch.vs1.medium-ord", [55.0, 57.0, 58.0]),
    ("ch.vs1.large-ord", [8.0, 12.0, 22.0]),
    ("mh.vs1.large-ord", [7.0, 7.0, 18.0]),
];

/// How far from the middle a fifth and four fifths are, in standard deviations.
const FIFTH: f64 = 0.8416;

/// What is left of a price's distance from its middle after five minutes: half of it is gone after six hours.
const STAYS: f64 = 0.99;

/// The percentiles of a class. One that the feed does not show strays as the classes around it do.
fn month(class: &Class) -> [f64; 3] {
    let told = MONTH.iter().find(|(name, _)| *name == class.name);
    let middle = f64::from(class.base);
    told.map_or([middle * 0.6, middle, middle * 2.0], |(_, prices)| *prices)
}

/// How a price moves: a walk that is drawn back to where it belongs.
struct Market {
    classes: Vec<Class>,
    walks: BTreeMap<String, f64>,
    seed: u64,
    step: u64,
}

impl Market {
    fn new(seed: u64) -> Self {
        let classes: Vec<Class> = built_in()
            .into_iter()
            .filter(|class| class.reserve.is_some())
            .collect();
        let walks = classes
            .iter()
            .map(|class| (class.name.clone(), 0.0))
            .collect();
        let mut market = Market {
            classes,
            walks,
            seed,
            step: 0,
        };
        // The first hour is nobody's: prices start apart.
        (0..200).for_each(|_| market.walk());
        market
    }

    fn walk(&mut self) {
        self.step += 1;
        for (class, at) in &mut self.walks {
            // Of standard deviation one in the long run; a draw between -1 and 1 has a variance of a third.
            let stray = (3.0 * (1.0 - STAYS * STAYS)).sqrt();
            *at = *at * STAYS + stray * wobble(self.seed, class, self.step);
        }
    }

    /// Thousandths of a dollar per hour.
    fn price(&self, class: &Class) -> u32 {
        let [low, middle, high] = month(class);
        let at = self.walks[&class.name];
        let spread = if at < 0.0 {
            middle / low
        } else {
            high / middle
        };
        let price = middle * spread.powf(at / FIFTH);
        // Certainty costs ten times as much: nobody bids so high.
        let most = f64::from(class.on_demand.unwrap_or(u32::MAX)) * 0.8;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small price"
        )]
        let mills = price.min(most).round() as u32;
        mills.max(1)
    }

    /// What a winner pays.
    fn cost(&self, class: &str) -> Money {
        let class = self.classes.iter().find(|one| one.name == class).unwrap();
        let mills = self.price(class).max(class.reserve.unwrap_or(0));
        Money::from_nanos(i64::from(mills) * 1_000_000)
    }

    fn open(&self, world: &World) {
        for class in &self.classes {
            let price = self.price(class);
            world.reprice(&class.name, price);
        }
    }
}

/// How many pods there are at an hour: offices by day, batches by night.
fn wanted(hour: u64) -> [(&'static str, u32, &'static str, i64); 2] {
    let day = (8..20).contains(&(hour % 24));
    [
        ("web", if day { 30 } else { 10 }, "500m", 500),
        ("batch", if day { 2 } else { 6 }, "1900m", 1900),
    ]
}

/// What came of two days.
#[derive(Debug)]
struct Bill {
    total: Money,
    servers: usize,
    longest_wait: u32,
}

/// Perfect hindsight: at every step the cheapest servers for the pods of that step, at once and without a move.
fn hindsight(problem: &Problem) -> Money {
    pack::solve(problem, &pack::Options::default()).cost
}

fn pods_of(hour: u64) -> Vec<Pod> {
    let pod = |(name, count, _, cpu): (&str, u32, &str, i64)| {
        let requests = Resources::new()
            .with(CPU, cpu)
            .with(MEMORY, 512 << 20)
            .with(PODS, 1);
        Pod {
            count,
            ..Pod::new(
                name,
                PodSpec {
                    requests,
                    ..PodSpec::default()
                },
            )
        }
    };
    wanted(hour).map(pod).to_vec()
}

struct Telling {
    bill: Bill,
    best: Money,
}

/// Whether the cheapest that could have been is looked for too: it is the same under every rule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Best {
    Wanted,
    Known,
}

/// Plays two days of one market under one rule.
async fn play(
    seed: u64,
    options: KarpetrackOptions,
    decide: Option<Arc<dyn Decide>>,
    best: Best,
) -> Telling {
    let settings = Settings {
        // Prices move every five minutes; looking more often finds nothing new.
        disruption_period: Duration::from_mins(1),
        notice_period: Duration::from_mins(1),
        garbage_period: Duration::from_mins(10),
        drift_period: Duration::from_hours(1),
        ..Settings::default()
    };
    let world = World::deciding(
        RackspaceCloudOptions::calm(3 + seed),
        options,
        settings,
        decide,
    );
    let mut market = Market::new(seed);
    market.open(&world);
    world.pool("default", serde_json::json!({}));
    for (name, count, cpu, _) in wanted(0) {
        world.deployment(name, count, cpu, |_| ());
    }
    let mut telling = Telling {
        bill: Bill {
            total: Money::ZERO,
            servers: 0,
            longest_wait: 0,
        },
        best: Money::ZERO,
    };
    let mut seen = std::collections::BTreeSet::new();
    let (mut grew, mut waiting) = (Duration::ZERO, 0);
    let minutes = HOURS * 60;
    for minute in 0..minutes {
        let now = Duration::from_mins(minute);
        let hour = minute / 60;
        if minute % 60 == 0 && hour > 0 && wanted(hour) != wanted(hour - 1) {
            for (name, count, _, _) in wanted(hour) {
                world.scale(name, count);
            }
            grew = now;
        }
        if minute % 5 == 0 {
            market.walk();
            market.open(&world);
        }
        spot::minutes(1).await;
        let mut rate = Money::ZERO;
        for pool in world.cloud.pools() {
            seen.insert(pool["metadata"]["name"].to_string());
            if pool["status"]["wonCount"] == 1 {
                rate += market.cost(pool["spec"]["serverClass"].as_str().unwrap());
            }
        }
        telling.bill.total += Money::from_nanos(rate.nanos() / 60);
        if minute % 5 == 0 && best == Best::Wanted {
            telling.best += Money::from_nanos(hindsight(&of_today(&world, hour)).nanos() / 12);
        }
        let missing: usize = wanted(hour)
            .iter()
            .map(|(name, count, _, _)| (*count as usize).saturating_sub(world.running(name)))
            .sum();
        // Pods that are new may wait for a server to be built; none that had a place may wait for another.
        waiting = if missing > 0 && now > grew + BUILD {
            waiting + 1
        } else {
            0
        };
        telling.bill.longest_wait = telling.bill.longest_wait.max(waiting);
    }
    telling.bill.servers = seen.len();
    world.stop().await;
    telling
}

/// The pods of an hour and what is for sale now.
fn of_today(world: &World, hour: u64) -> Problem {
    let slots = world
        .engine
        .as_ref()
        .unwrap()
        .context()
        .market
        .classes
        .slots();
    let catalog = slots.first().and_then(|slot| slot.catalog());
    let Some(catalog) = catalog else {
        return Problem::default();
    };
    let spot = Expression::new(joiner_core::labels::CAPACITY_TYPE, Operator::In, &["spot"]);
    Problem {
        pools: vec![Pool {
            name: "default".into(),
            catalog: catalog.name.clone(),
            requirements: vec![spot],
            ..Pool::default()
        }],
        catalogs: vec![(*catalog).clone()],
        pods: pods_of(hour),
        ..Problem::default()
    }
}

/// Karpetrack's own rule: every node for which a server at least as large saves a fifth is replaced, each by one, all
/// of them at once, as often as prices say so. (Its drains without a replacement in place are not imitated.)
struct Original;

impl Decide for Original {
    fn provision(&self, problem: &Problem) -> Plan {
        pack::solve(problem, &pack::Options::default())
    }

    fn disrupt(&self, problem: &Problem) -> Plan {
        let mut calm = problem.clone();
        for pool in &mut calm.pools {
            pool.disruption.price_replacement = false;
        }
        let mut plan = joiner_core::disrupt::plan(&calm, &pack::Options::default());
        if !plan.removals.is_empty() {
            return plan;
        }
        for (index, node) in problem.nodes.iter().enumerate() {
            if let Some((launch, removal)) = swap(problem, index, node) {
                plan.launches.push(launch);
                plan.removals.push(removal);
            }
        }
        plan
    }
}

fn swap(problem: &Problem, index: usize, node: &Node) -> Option<(Launch, Removal)> {
    let price = node.price?;
    let movable = node.phase == NodePhase::Ready && !node.deleting && !node.pods.is_empty();
    let pool = problem
        .pools
        .iter()
        .find(|pool| Some(&pool.name) == node.pool.as_ref())?;
    let catalog = problem.catalog(&pool.catalog).filter(|_| movable)?;
    let own = catalog
        .types
        .iter()
        .find(|kind| kind.name == node.instance_type)?;
    let large = |kind: &&joiner_core::problem::InstanceType| {
        [CPU, MEMORY]
            .iter()
            .all(|name| kind.capacity.get(name) >= own.capacity.get(name))
    };
    let (kind, offering) = catalog
        .types
        .iter()
        .filter(large)
        .flat_map(|kind| kind.offerings.iter().map(move |one| (kind, one)))
        .filter(|(_, one)| one.available && one.capacity_type == node.capacity_type)
        .min_by_key(|(_, one)| one.price)?;
    if offering.price > price - price.percent(20) {
        return None;
    }
    let reason = Reason::Disrupted {
        cause: DisruptionReason::Underutilized,
        before: price,
        after: offering.price,
        detail: String::new(),
    };
    let pods = node.pods.iter().enumerate().map(|(group, _)| PodRef {
        home: Home::Node(NodeId::at(index)),
        group: u32::try_from(group).unwrap(),
        position: 0,
    });
    let launch = Launch {
        pool: pool.name.clone(),
        purchase: Purchase {
            catalog: catalog.name.clone(),
            instance_type: kind.name.clone(),
            zone: offering.zone.clone(),
            capacity_type: offering.capacity_type,
            reservation: None,
            host: None,
            price: offering.price,
        },
        alternatives: Arc::default(),
        capacity: kind.capacity.clone(),
        requests: Resources::new(),
        labels: Labels::new(),
        pods: pods.collect(),
        reason: reason.clone(),
    };
    let removal = Removal {
        node: node.name.clone(),
        cause: DisruptionReason::Underutilized,
        reason,
    };
    Some((launch, removal))
}

/// The same two days under every rule.
struct Comparison {
    none: Telling,
    original: Telling,
    joiner: Telling,
}

/// Plays one market, in a time of its own.
fn compare(seed: u64) -> Comparison {
    let own = || KarpetrackOptions::new("demo");
    let without = KarpetrackOptions {
        min_savings: 100,
        ..own()
    };
    let restless = KarpetrackOptions {
        min_age: Duration::ZERO,
        ..own()
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        Comparison {
            joiner: play(seed, own(), None, Best::Wanted).await,
            none: play(seed, without, None, Best::Known).await,
            original: play(seed, restless, Some(Arc::new(Original)), Best::Known).await,
        }
    })
}

/// Markets, as many at a time as there are cores.
fn markets(seeds: std::ops::Range<u64>) -> Vec<Comparison> {
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let work = || {
        let mut done = Vec::new();
        loop {
            let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if seed >= seeds.end {
                return done;
            }
            done.push((seed, compare(seed)));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut all: Vec<(u64, Comparison)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let done = threads.into_iter().flat_map(|one| one.join().unwrap());
        done.collect()
    });
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, market)| market).collect()
}

/// The mean of a figure over all markets.
fn mean(markets: &[Comparison], figure: impl Fn(&Comparison) -> f64) -> f64 {
    let sum: f64 = markets.iter().map(figure).sum();
    sum / f64::from(u32::try_from(markets.len()).unwrap())
}

#[test]
fn two_days_of_a_moving_market_cost_less_with_the_optimiser_and_no_pod_is_left_without_a_node() {
    judge(&markets(ONE..ONE + 1));
}

#[test]
#[ignore = "eight markets take five minutes"]
fn in_the_mean_of_many_markets_the_optimiser_costs_less_than_none_and_than_the_originals() {
    judge(&markets(0..MARKETS));
}

/// Prints what every rule came to, which only means something side by side, and holds Joiner to it.
fn judge(markets: &[Comparison]) {
    for (seed, one) in markets.iter().enumerate() {
        println!(
            "market {seed}: none ${:.2}, original ${:.2}, Joiner ${:.2}, hindsight ${:.2}; \
             longest wait of pods that had a place: {}, {}, {} min",
            one.none.bill.total.dollars(),
            one.original.bill.total.dollars(),
            one.joiner.bill.total.dollars(),
            one.joiner.best.dollars(),
            one.none.bill.longest_wait,
            one.original.bill.longest_wait,
            one.joiner.bill.longest_wait,
        );
    }
    #[expect(clippy::cast_precision_loss, reason = "a few servers")]
    let servers = |bill: &Bill| bill.servers as f64;
    let bill = |figure: fn(&Comparison) -> Money| mean(markets, |one| figure(one).dollars());
    let none = bill(|one| one.none.bill.total);
    let original = bill(|one| one.original.bill.total);
    let joiner = bill(|one| one.joiner.bill.total);
    let best = bill(|one| one.joiner.best);
    for (name, total, bought) in [
        (
            "no optimiser",
            none,
            mean(markets, |one| servers(&one.none.bill)),
        ),
        (
            "the original's rule",
            original,
            mean(markets, |one| servers(&one.original.bill)),
        ),
        (
            "Joiner",
            joiner,
            mean(markets, |one| servers(&one.joiner.bill)),
        ),
        ("perfect hindsight", best, 0.0),
    ] {
        let share = total / none * 100.0;
        println!("| {name} | ${total:.2} | {share:.0} % | {bought:.0} |");
    }
    for one in markets {
        assert!(
            one.joiner.bill.longest_wait <= MOVE,
            "{:?}",
            one.joiner.bill
        );
        assert!(one.joiner.best < one.joiner.bill.total);
    }
    assert!(joiner < none * WORTH_IT, "{joiner} {none}");
    assert!(joiner < original, "{joiner} {original}");
}
