//! Seven days of moving GPU spot prices in one region: how often the choice changes, how many running nodes would drift,
//! and what a GPU costs, against a rule that always takes the cheapest and against hindsight.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "all of it is tests"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use joiner_core::leftover::{
    Capacity, Choice, Held, InUse, Memory, Policy, Ranking, Wanted, compare_regions, decide, rank,
    select,
};
use joiner_core::name::Name;
use joiner_embedded::clock::Clock;
use joiner_providers::aws::{Aws, AwsOptions, Credentials};
use joiner_providers::http::Http;
use joiner_sim::clouds::ec2::{Ec2Cloud, Ec2CloudOptions};

const NODES: usize = 8;
const LOOKS: usize = 7 * 24 * 60 / 7;

/// Nodes of a pool: each is of a type, in a zone; it lives for six hours and is bought again at the best that is offered.
struct Nodes {
    all: Vec<(Name, Name, usize)>,
    drifted: usize,
    paid: f64,
}

impl Nodes {
    fn new() -> Self {
        Nodes {
            all: Vec::new(),
            drifted: 0,
            paid: 0.0,
        }
    }

    fn in_use(&self) -> InUse {
        InUse {
            types: self.all.iter().map(|(name, _, _)| name.clone()).collect(),
            zones: self.all.iter().map(|(_, zone, _)| zone.clone()).collect(),
        }
    }

    fn step(&mut self, offered: &Choice, ranking: &Ranking, look: usize) {
        let before = self.all.len();
        self.all
            .retain(|(name, zone, _)| offered.types.contains(name) && offered.zones.contains(zone));
        self.drifted += before - self.all.len();
        self.all.retain(|(_, _, born)| look - born < 6 * 60 / 7);
        while self.all.len() < NODES {
            let Some(best) = offered.best(ranking) else {
                break;
            };
            // Not all at once, so that nodes are of different ages.
            let born = look.saturating_sub(if look == 0 { self.all.len() * 6 } else { 0 });
            self.all
                .push((best.type_name.clone(), best.zone.clone(), born));
        }
        for (name, zone, _) in &self.all {
            let quote = ranking
                .quotes
                .iter()
                .find(|one| one.type_name == *name && one.zone == *zone);
            self.paid += quote.map_or(0.0, |one| one.per_gpu.money().dollars());
        }
    }
}

fn market() -> (Ec2Cloud, Aws, Clock) {
    let options = Ec2CloudOptions {
        moving: true,
        ..Ec2CloudOptions::calm(7)
    };
    let cloud = Ec2Cloud::new(options, Clock::virtual_time());
    let clock = Clock::virtual_time();
    let wire = AwsOptions {
        ec2_endpoint: Some("http://ec2.sim".to_owned()),
        ..AwsOptions::default()
    };
    let credentials = Credentials::fixed("AKIASIMULATED", "simulated-secret", None);
    let now = clock.clone();
    let aws = Aws::new(
        Http::new(cloud.in_process("ec2.sim")),
        wire,
        credentials,
        Arc::new(move || now.now()),
    );
    (cloud, aws, clock)
}

fn wanted() -> Wanted {
    Wanted {
        families: ["g5", "g6", "p5"].map(Name::from).to_vec(),
        min_gpus: 1,
        max_types: 5,
        max_zones: 2,
        min_score: 5,
        capacity: Capacity::Spot,
        fallback: true,
    }
}

#[tokio::test(start_paused = true)]
async fn a_week_of_prices_changes_little_and_costs_little_more_than_hindsight() {
    let (cloud, aws, clock) = market();
    let wanted = wanted();
    let (mut ours, mut naive) = (Nodes::new(), Nodes::new());
    let (mut held, mut memory): (Option<Held>, Memory) = (None, Memory::default());
    let (mut our_changes, mut naive_changes) = (0, 0);
    let (mut our_last, mut naive_last) = (BTreeSet::new(), BTreeSet::new());
    let mut hindsight = 0.0;
    for look in 0..LOOKS {
        let reading = aws.read("us-east-1", &wanted, 2, None).await.unwrap();
        let ranking = rank(&reading.market, &wanted, Capacity::Spot);
        let decision = decide(
            &reading.market,
            &wanted,
            held.as_ref(),
            &ours.in_use(),
            &Policy::default(),
            memory,
            clock.now(),
        );
        memory = decision.memory;
        if decision.change.is_new() {
            held = Some(Held {
                choice: decision.chosen.clone(),
                since: clock.now(),
            });
        }
        ours.step(&decision.offered, &ranking, look);
        let fresh = select(&ranking, &wanted);
        naive.step(&fresh, &ranking, look);
        let set = |choice: &Choice| -> BTreeSet<Name> {
            choice.types.iter().chain(&choice.zones).cloned().collect()
        };
        let (our_set, naive_set) = (set(&decision.offered), set(&fresh));
        our_changes += usize::from(our_set != our_last);
        naive_changes += usize::from(naive_set != naive_last);
        (our_last, naive_last) = (our_set, naive_set);
        let best = ranking
            .viable()
            .next()
            .map_or(0.0, |one| one.per_gpu.money().dollars());
        hindsight += best * NODES as f64;
        tokio::time::sleep(Duration::from_mins(7)).await;
    }
    let hours = (LOOKS * NODES) as f64;
    let (our_price, naive_price, least) =
        (ours.paid / hours, naive.paid / hours, hindsight / hours);
    let scores_per_day = cloud.count("GetSpotPlacementScores") as f64 / 7.0;
    println!(
        "7 days, {LOOKS} looks: rendered changes {our_changes} against {naive_changes}; drifted nodes {} against {}; \
         price per GPU-hour {our_price:.4} against {naive_price:.4}, hindsight {least:.4}; placement score requests per day \
         {scores_per_day:.0} in {} configuration(s)",
        ours.drifted,
        naive.drifted,
        aws.score_configurations()
    );
    assert_eq!(ours.drifted, 0);
    assert!(
        our_changes * 2 < naive_changes,
        "{our_changes} {naive_changes}"
    );
    assert!(our_price < least * 1.35, "{our_price} {least}");
    assert_eq!(aws.score_configurations(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_week_of_prices_in_three_regions_moves_the_recommendation_seldom() {
    let (cloud, aws, _) = market();
    let wanted = wanted();
    let policy = Policy::default();
    let regions: BTreeSet<String> = ["eu-central-1", "us-east-1", "us-west-2"]
        .map(str::to_owned)
        .into();
    let home = "us-east-1";
    let (mut held, mut behind): (Option<Name>, u32) = (None, 0);
    let (mut moves, mut naive_moves, mut closed) = (0, 0, 0);
    let mut naive_last = None;
    let (mut paid, mut least, mut at_home) = (0.0, 0.0, 0.0);
    for _ in 0..LOOKS {
        let markets = aws.compare(home, &regions, &wanted, 2).await;
        let seen = compare_regions(&markets, &wanted, home, held.as_deref(), &policy, behind);
        behind = seen.behind;
        closed += usize::from(seen.better.is_some());
        let price = |name: &str| {
            let quote = seen.quotes.iter().find(|one| &*one.region == name);
            let best = quote.and_then(|one| one.best.as_ref());
            best.map_or(0.0, |one| one.per_gpu.money().dollars())
        };
        moves += usize::from(held.is_some() && seen.recommended != held);
        held.clone_from(&seen.recommended);
        paid += held.as_deref().map_or(0.0, price);
        let best = seen.quotes.first().filter(|one| one.is_viable());
        let best = best.map(|one| one.region.clone());
        naive_moves += usize::from(naive_last.is_some() && best != naive_last);
        least += best.as_deref().map_or(0.0, price);
        at_home += price(home);
        naive_last = best;
        tokio::time::sleep(Duration::from_mins(7)).await;
    }
    let looks = LOOKS as f64;
    let requests = cloud.count("GetSpotPlacementScores") as f64 / 7.0;
    println!(
        "three regions: recommendation moved {moves} times against {naive_moves}; price per GPU-hour {:.4}, hindsight {:.4}, \
         without other regions {:.4}; closed in {home} for {closed} of {LOOKS} looks; placement score requests per day \
         {requests:.0} in {} configuration(s)",
        paid / looks,
        least / looks,
        at_home / looks,
        aws.score_configurations()
    );
    assert!(moves < naive_moves, "{moves} {naive_moves}");
    assert!(paid < least * 1.12, "{paid} {least}");
    assert!(paid < at_home, "{paid} {at_home}");
    assert_eq!(aws.score_configurations(), 1);
}
