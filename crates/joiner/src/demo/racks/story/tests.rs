#![allow(clippy::print_stdout, reason = "the bill is worth reading")]

use joiner_sim::clouds::rackspace::built_in;

use super::*;
use crate::demo::racks::summary::Summary;

/// Hears everything.
#[derive(Default)]
struct Ear(Vec<String>);

impl Audience for Ear {
    fn hear(&mut self, line: &str) -> std::io::Result<()> {
        self.0.push(line.to_owned());
        Ok(())
    }
}

fn days(pools: Pools) -> (Told, Vec<String>) {
    let mut ear = Ear::default();
    let told = told(1, Pace::DAY, Timing::Real, pools, &mut ear).unwrap();
    assert!(told.faults.is_empty(), "{:#?}", told.faults);
    (told, ear.0)
}

/// The least that a place for one pod of the service costs on any server, in dollars an hour. The system keeps half a
/// core of each, and an agent 50m.
fn cheapest_place() -> f64 {
    let place = |class: &joiner_sim::clouds::rackspace::Class| {
        let by_cpu = (class.cpu * 1000).saturating_sub(550) / 500;
        let by_memory = (class.memory * 967 / 1000).saturating_sub(118) / 100;
        let pods = by_cpu.min(by_memory).min(109);
        (pods > 0 && class.reserve.is_some() && class.region.starts_with("us-central"))
            .then(|| bill::price(&built_in(), &class.name).dollars() / f64::from(pods))
    };
    let all = built_in();
    all.iter().filter_map(place).fold(f64::MAX, f64::min)
}

/// What people see who watch: shorter times, and the same story.
#[test]
fn the_story_for_people_who_watch_ends_every_chapter_as_its_title_says() {
    let mut ear = Ear::default();
    let told = told(1, Pace::LIVE, Timing::Quick, Pools::OwnFirst, &mut ear).unwrap();
    assert!(told.faults.is_empty(), "{:#?}", told.faults);
    for end in &told.ends {
        // A tenth may be on the move at any moment, as their disruption budget says.
        let least = end.pods - end.pods / 10;
        assert!(end.running >= least, "{end:?}\n{:#?}", ear.0);
        let burst = end.pods == 300;
        assert_eq!(end.servers.is_empty(), !burst, "{end:?}\n{:#?}", ear.0);
    }
    assert!(told.sum.dollars_cloud > 0.0 && told.sum.dollars_own > 0.0);
}

#[test]
fn own_racks_fill_first_the_burst_goes_to_the_cheapest_spot_and_comes_home() {
    let (told, lines) = days(Pools::OwnFirst);
    let [ordinary, burst, over, night] = &told.ends[..] else {
        panic!("{:#?}", told.ends)
    };
    for end in &told.ends {
        assert_eq!(end.running, end.pods, "{end:?}\n{lines:#?}");
    }
    assert!(ordinary.servers.is_empty(), "{ordinary:?}");
    // What own hardware has: 24 vCPUs on each Proxmox host, 16 cores on each server.
    let room = 500 * burst.pods_on_own;
    let cores = objects::HOSTS * 24 + objects::SERVERS * 16;
    assert!(
        room * 100 >= cores * 1000 * 90,
        "own racks are full: {burst:?}"
    );
    assert!(!burst.servers.is_empty(), "{burst:?}");
    let classes = built_in();
    let paid: f64 = burst
        .servers
        .iter()
        .map(|class| bill::price(&classes, class).dollars())
        .sum();
    let agents = burst.own;
    let away = u32::try_from(burst.running + agents - burst.pods_on_own).unwrap();
    let least = cheapest_place() * f64::from(away);
    assert!(
        paid <= least * 1.15,
        "{paid} for {away} pods, {least} is the least: {burst:?}"
    );
    for end in [over, night] {
        assert!(end.servers.is_empty(), "all are home: {end:?}\n{lines:#?}");
    }

    let (alone, _) = days(Pools::CloudOnly);
    for end in &alone.ends {
        assert_eq!((end.running, end.own), (end.pods, 0), "{end:?}");
    }
    assert!(told.sum.dollars_cloud > 0.0);
    assert!(
        told.sum.dollars_cloud * 3.0 < alone.sum.dollars_cloud,
        "{:?} {:?}",
        told.sum,
        alone.sum
    );
    assert!(
        told.sum.dollars() < alone.sum.dollars_cloud,
        "{:?} {:?}",
        told.sum,
        alone.sum
    );
    let mut text = Vec::new();
    let summary = Summary::new(1, told, &alone);
    summary.tell(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("own first") && text.contains("cloud only"),
        "{text}"
    );
    println!("{text}");
}
