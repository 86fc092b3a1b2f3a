use super::*;
use jiff::Timestamp;
use proptest::prelude::*;

fn gpu(name: &str, devices: u32, list: f64) -> GpuType {
    GpuType {
        name: name.into(),
        arch: "amd64".into(),
        manufacturer: "NVIDIA".into(),
        devices,
        gpu_millis: u64::from(devices) * 1000,
        gpu_memory_mib: 24_576,
        bare_metal: false,
        spot: true,
        on_demand: true,
        list_price: Some(Money::from_dollars(list)),
    }
}

fn wanted() -> Wanted {
    Wanted {
        families: Vec::new(),
        min_gpus: 1,
        max_types: 3,
        max_zones: 2,
        min_score: 0,
        capacity: Capacity::Spot,
        fallback: true,
    }
}

fn market(types: &[GpuType], quotes: &[(&str, &str, f64)], scores: &[(&str, u8)]) -> Market {
    let key = |name: &str, zone: &str| (Name::from(name), Name::from(zone));
    Market {
        types: types
            .iter()
            .map(|one| (one.name.clone(), one.clone()))
            .collect(),
        offered: quotes
            .iter()
            .map(|(name, zone, _)| key(name, zone))
            .collect(),
        spot: quotes
            .iter()
            .map(|(name, zone, price)| (key(name, zone), Money::from_dollars(*price)))
            .collect(),
        scores: Some(
            scores
                .iter()
                .map(|(zone, score)| (Name::from(*zone), *score))
                .collect(),
        ),
        subnets: None,
    }
}

fn golden() -> Market {
    let types = [
        gpu("g6.xlarge", 1, 0.805),
        gpu("g5.xlarge", 1, 1.006),
        gpu("g6.12xlarge", 4, 4.6),
        gpu("g5.12xlarge", 4, 5.67),
        gpu("p5.48xlarge", 8, 55.0),
    ];
    let quotes = [
        ("g6.xlarge", "a", 0.40),
        ("g6.xlarge", "c", 0.38),
        ("g5.xlarge", "b", 0.35),
        ("g6.12xlarge", "a", 1.52),
        ("g5.12xlarge", "c", 2.00),
        ("p5.48xlarge", "a", 20.00),
    ];
    market(&types, &quotes, &[("a", 9), ("b", 3), ("c", 7)])
}

fn names(all: &[Name]) -> Vec<&str> {
    all.iter().map(|one| &**one).collect()
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + minute * 60).unwrap()
}

fn look(
    market: &Market,
    wanted: &Wanted,
    held: Option<&Held>,
    memory: Memory,
    minute: i64,
) -> Decision {
    decide(
        market,
        wanted,
        held,
        &InUse::default(),
        &Policy::default(),
        memory,
        at(minute),
    )
}

fn hold(decision: &Decision, minute: i64) -> Held {
    Held {
        choice: decision.chosen.clone(),
        since: at(minute),
    }
}

#[test]
fn price_per_gpu_then_score_then_price_is_the_order() {
    let ranking = rank(&golden(), &wanted(), Capacity::Spot);
    let order: Vec<String> = ranking
        .quotes
        .iter()
        .map(|one| format!("{} {}", one.type_name, one.zone))
        .collect();
    assert_eq!(
        order,
        [
            "g5.xlarge b",
            "g6.12xlarge a",
            "g6.xlarge c",
            "g6.xlarge a",
            "g5.12xlarge c",
            "p5.48xlarge a"
        ]
    );
}

#[test]
fn zones_below_the_score_are_passed_over_and_limits_hold() {
    let any = select(&rank(&golden(), &wanted(), Capacity::Spot), &wanted());
    assert_eq!(names(&any.types), ["g5.xlarge", "g6.12xlarge", "g6.xlarge"]);
    assert_eq!(names(&any.zones), ["b", "a"]);
    let five = Wanted {
        min_score: 5,
        ..wanted()
    };
    let better = select(&rank(&golden(), &five, Capacity::Spot), &five);
    assert_eq!(
        names(&better.types),
        ["g6.12xlarge", "g6.xlarge", "g5.12xlarge"]
    );
    assert_eq!(names(&better.zones), ["a", "c"]);
}

#[test]
fn without_viable_spot_the_fallback_opens_at_once_and_closes_after_two_good_looks() {
    let ten = Wanted {
        min_score: 10,
        ..wanted()
    };
    let first = look(&golden(), &ten, None, Memory::default(), 0);
    assert_eq!(first.change, Change::Nothing);
    let Fallback::Open(list) = &first.fallback else {
        panic!("{first:?}")
    };
    assert_eq!(list.types[0].as_ref(), "g6.xlarge");
    let five = Wanted {
        min_score: 5,
        ..wanted()
    };
    let second = look(&golden(), &five, None, first.memory, 7);
    assert!(matches!(second.fallback, Fallback::Open(_)));
    let third = look(&golden(), &five, Some(&hold(&second, 7)), second.memory, 14);
    assert_eq!(third.fallback, Fallback::Closed);
    // With a choice to hold on to, one bad look opens nothing.
    let bad = look(&golden(), &ten, Some(&hold(&second, 7)), third.memory, 21);
    assert_eq!(bad.fallback, Fallback::Closed);
    assert_eq!(bad.chosen, second.chosen);
    let worse = look(&golden(), &ten, Some(&hold(&second, 7)), bad.memory, 28);
    assert!(matches!(worse.fallback, Fallback::Open(_)));
}

#[test]
fn unknown_scores_are_viable_and_missing_zones_score_lowest() {
    let mut unknown = golden();
    unknown.scores = None;
    let five = Wanted {
        min_score: 5,
        ..wanted()
    };
    assert!(!select(&rank(&unknown, &five, Capacity::Spot), &five).is_empty());
    let mut partial = golden();
    partial.scores = Some([(Name::from("a"), 9)].into());
    let only = select(&rank(&partial, &five, Capacity::Spot), &five);
    assert_eq!(names(&only.zones), ["a"]);
}

#[test]
fn arm_amd_fractions_and_bare_metal_need_to_be_named() {
    let mut arm = gpu("g5g.xlarge", 1, 0.42);
    arm.arch = "arm64".into();
    let mut amd = gpu("g4ad.xlarge", 1, 0.379);
    amd.manufacturer = "AMD".into();
    let mut part = gpu("g6f.large", 1, 0.2);
    part.gpu_millis = 125;
    let mut metal = gpu("g4dn.metal", 8, 7.8);
    metal.bare_metal = true;
    let quotes = [
        ("g5g.xlarge", "a", 0.1),
        ("g4ad.xlarge", "a", 0.1),
        ("g6f.large", "a", 0.01),
        ("g4dn.metal", "a", 0.1),
        ("g5.xlarge", "a", 0.5),
        ("g6.xlarge", "a", 0.6),
    ];
    let types = [
        arm,
        amd,
        part,
        metal,
        gpu("g5.xlarge", 1, 1.0),
        gpu("g6.xlarge", 1, 1.0),
    ];
    let market = market(&types, &quotes, &[("a", 9)]);
    let of = |families: &[&str]| {
        let wanted = Wanted {
            families: families.iter().map(|one| Name::from(*one)).collect(),
            max_types: 9,
            ..wanted()
        };
        let ranking = rank(&market, &wanted, Capacity::Spot);
        let types = select(&ranking, &wanted).types;
        (types, ranking.refused)
    };
    let (types, refused) = of(&["g5", "g6"]);
    assert_eq!(names(&types), ["g5.xlarge", "g6.xlarge"]);
    assert!(refused["g5g.xlarge"].to_string().contains("arm64"));
    assert_eq!(refused["g6f.large"], Refusal::Fractional);
    assert_eq!(refused["g4ad.xlarge"], Refusal::Family);
    assert_eq!(names(&of(&[]).0), ["g5.xlarge", "g6.xlarge"]);
    assert_eq!(of(&[]).1["g4dn.metal"], Refusal::BareMetal);
    assert_eq!(names(&of(&["g5g"]).0), ["g5g.xlarge"]);
    // An eighth of a GPU for a cent is eight cents a GPU.
    assert_eq!(names(&of(&["g6f", "g6"]).0), ["g6f.large", "g6.xlarge"]);
}

#[test]
fn zero_prices_and_prices_above_the_list_are_not_bargains() {
    let types = [gpu("g5.xlarge", 1, 1.0), gpu("g6.xlarge", 1, 0.8)];
    let quotes = [
        ("g5.xlarge", "a", 0.0),
        ("g6.xlarge", "a", 0.3),
        ("g6.xlarge", "b", 0.9),
    ];
    let market = market(&types, &quotes, &[("a", 9), ("b", 9)]);
    let ranking = rank(&market, &wanted(), Capacity::Spot);
    assert_eq!(ranking.refused["g5.xlarge"], Refusal::NoPrice);
    let choice = select(&ranking, &wanted());
    assert_eq!(
        (names(&choice.types), names(&choice.zones)),
        (vec!["g6.xlarge"], vec!["a"])
    );
}

#[test]
fn small_moves_change_nothing_and_a_clear_saving_waits_for_its_time() {
    let first = look(&golden(), &wanted(), None, Memory::default(), 0);
    let held = hold(&first, 0);
    let mut cheaper = golden();
    cheaper
        .spot
        .insert(("p5.48xlarge".into(), "a".into()), Money::from_dollars(2.6));
    let kept = look(&cheaper, &wanted(), Some(&held), first.memory, 60);
    assert_eq!(
        kept.change,
        Change::Kept(hold::Kept::Good),
        "{:?}",
        kept.chosen
    );
    cheaper
        .spot
        .insert(("p5.48xlarge".into(), "a".into()), Money::from_dollars(2.0));
    let soon = look(&cheaper, &wanted(), Some(&held), first.memory, 29);
    assert_eq!(soon.change, Change::Kept(hold::Kept::TooSoon));
    let later = look(&cheaper, &wanted(), Some(&held), first.memory, 30);
    assert_eq!(later.change, Change::Cheaper(28));
    assert_eq!(later.chosen.types[0].as_ref(), "p5.48xlarge");
}

#[test]
fn types_of_running_nodes_stay_offered_until_the_pool_forbids_them() {
    let in_use = InUse {
        types: [Name::from("g5.12xlarge")].into(),
        zones: [Name::from("c")].into(),
    };
    let run = |wanted: &Wanted| {
        decide(
            &golden(),
            wanted,
            None,
            &in_use,
            &Policy::default(),
            Memory::default(),
            at(0),
        )
    };
    let decision = run(&wanted());
    assert!(!names(&decision.chosen.types).contains(&"g5.12xlarge"));
    assert!(names(&decision.offered.types).contains(&"g5.12xlarge"));
    assert!(names(&decision.offered.zones).contains(&"c"));
    let g6 = Wanted {
        families: vec!["g6".into()],
        ..wanted()
    };
    assert!(!names(&run(&g6).offered.types).contains(&"g5.12xlarge"));
}

#[test]
fn zones_without_a_subnet_are_not_offered() {
    let mut market = golden();
    market.subnets = Some([Name::from("c")].into());
    let ranking = rank(&market, &wanted(), Capacity::Spot);
    assert!(ranking.quotes.iter().all(|one| &*one.zone == "c"));
    assert_eq!(ranking.refused["p5.48xlarge"], Refusal::NoSubnet);
}

proptest! {
    /// Whatever the order of rows, the result is the same; limits hold; what is chosen is viable; and deciding again
    /// with the same market changes nothing.
    #[test]
    fn a_total_order_within_limits_that_stays(
        rows in proptest::collection::vec((0usize..6, 0usize..4, 1u32..40, 1u32..9, 0u8..11), 1..40),
        max_types in 1usize..5, max_zones in 1usize..4, min_score in 0u8..11,
    ) {
        let zones = ["a", "b", "c", "d"];
        let list = ["g4dn.xlarge", "g5.xlarge", "g5.12xlarge", "g6.xlarge", "g6.12xlarge", "p5.48xlarge"];
        let types: Vec<GpuType> = list.iter().zip([1, 1, 4, 1, 4, 8]).map(|(name, n)| gpu(name, n, 3.0)).collect();
        let quotes: Vec<(&str, &str, f64)> = rows
            .iter()
            .map(|(one, zone, price, _, _)| (list[*one], zones[*zone], f64::from(*price) / 10.0))
            .collect();
        let scores: Vec<(&str, u8)> = rows.iter().map(|(_, zone, _, _, score)| (zones[*zone], *score)).collect();
        let market = market(&types, &quotes, &scores);
        let wanted = Wanted { max_types, max_zones, min_score, ..wanted() };
        let first = look(&market, &wanted, None, Memory::default(), 0);
        let keys = first.ranking.quotes.windows(2).all(|pair| pair[0].per_gpu <= pair[1].per_gpu);
        prop_assert!(keys);
        prop_assert!(first.chosen.types.len() <= max_types && first.chosen.zones.len() <= max_zones);
        if !first.chosen.is_empty() {
            prop_assert!(first.chosen.best(&first.ranking).is_some());
            let again = look(&market, &wanted, Some(&hold(&first, 0)), first.memory, 600);
            prop_assert_eq!(again.chosen, first.chosen.clone());
            prop_assert!(!again.change.is_new());
        }
        for quote in &first.ranking.quotes {
            if quote.is_viable() {
                prop_assert!(quote.score.is_none_or(|score| score >= min_score));
            }
        }
    }
}

fn region(name: &str, price: f64, score: Option<u8>) -> RegionMarket {
    let zone = format!("{name}a");
    let types = [gpu("g6.xlarge", 1, 0.805)];
    let quotes = [("g6.xlarge", zone.as_str(), price)];
    RegionMarket {
        region: name.into(),
        market: Ok(Market {
            scores: None,
            ..market(&types, &quotes, &[])
        }),
        fresh: true,
        score,
    }
}

fn in_order(comparison: &Comparison) -> Vec<&str> {
    comparison.quotes.iter().map(|one| &*one.region).collect()
}

#[test]
fn regions_stand_in_the_order_of_price_per_gpu_and_score() {
    let regions = [
        region("eu-central-1", 0.40, Some(8)),
        region("eu-north-1", 0.30, Some(6)),
        region("eu-west-1", 0.30, Some(9)),
        region("us-east-1", 0.10, Some(2)),
        RegionMarket {
            market: Err("OptInRequired".to_owned()),
            ..region("me-south-1", 0.05, None)
        },
    ];
    let pool = Wanted {
        min_score: 5,
        ..wanted()
    };
    let policy = Policy::default();
    let seen = compare_regions(&regions, &pool, "eu-central-1", None, &policy, 0);
    assert_eq!(
        in_order(&seen)[..3],
        ["eu-west-1", "eu-north-1", "eu-central-1"]
    );
    assert_eq!(seen.recommended.as_deref(), Some("eu-west-1"));
    let why = |name: &str| {
        let found = seen.quotes.iter().find(|one| &*one.region == name);
        found.unwrap().verdict.to_string()
    };
    assert_eq!(
        why("us-east-1"),
        "placement score 2 is below spec.minSpotScore"
    );
    assert_eq!(why("me-south-1"), "cannot be read: OptInRequired");
}

#[test]
fn a_recommendation_is_kept_until_another_region_is_clearly_cheaper() {
    let policy = Policy::default();
    let look = |home: f64, other: f64, held: Option<&str>| {
        let regions = [
            region("eu-central-1", home, None),
            region("eu-west-1", other, None),
        ];
        let seen = compare_regions(&regions, &wanted(), "eu-central-1", held, &policy, 0);
        seen.recommended.unwrap().to_string()
    };
    assert_eq!(look(0.40, 0.39, None), "eu-west-1", "the cheapest at first");
    assert_eq!(look(0.40, 0.40, None), "eu-central-1", "home among equals");
    assert_eq!(look(0.37, 0.39, Some("eu-west-1")), "eu-west-1", "noise");
    assert_eq!(look(0.30, 0.39, Some("eu-west-1")), "eu-central-1");
}

#[test]
fn a_region_steps_back_after_two_looks_and_never_do_both_of_two() {
    let policy = Policy::default();
    let regions = [
        region("eu-central-1", 0.40, None),
        region("eu-west-1", 0.30, None),
    ];
    let first = compare_regions(&regions, &wanted(), "eu-central-1", None, &policy, 0);
    assert_eq!((first.behind, first.better), (1, None), "one look is noise");
    let second = compare_regions(&regions, &wanted(), "eu-central-1", None, &policy, 1);
    assert_eq!(second.better.as_deref(), Some("eu-west-1"));
    let other = compare_regions(&regions, &wanted(), "eu-west-1", None, &policy, 5);
    assert_eq!(
        (other.behind, other.better),
        (0, None),
        "the better one stays"
    );
    // What could not be read just now is no reason to turn pods away.
    let mut old = regions.clone();
    old[1].fresh = false;
    let stale = compare_regions(&old, &wanted(), "eu-central-1", None, &policy, 5);
    assert_eq!((stale.behind, stale.better), (0, None));
}

proptest! {
    #[test]
    fn of_regions_that_compare_each_other_one_always_stays_open(
        prices in proptest::collection::vec(0.05_f64..2.0, 2..6),
        scores in proptest::collection::vec(proptest::option::of(1_u8..=10), 6),
    ) {
        let names = ["a-1", "b-1", "c-1", "d-1", "e-1", "f-1"];
        let regions: Vec<RegionMarket> = prices
            .iter()
            .zip(names)
            .zip(&scores)
            .map(|((price, name), score)| region(name, *price, *score))
            .collect();
        let pool = Wanted { min_score: 5, ..wanted() };
        let policy = Policy::default();
        let seen: Vec<Comparison> = regions
            .iter()
            .map(|one| compare_regions(&regions, &pool, &one.region, None, &policy, 9))
            .collect();
        let viable = seen[0].quotes.iter().any(RegionQuote::is_viable);
        let open = seen.iter().filter(|one| one.better.is_none()).count();
        prop_assert!(open >= 1, "all step back");
        prop_assert_eq!(viable, seen[0].recommended.is_some());
        for one in &seen {
            prop_assert_eq!(&one.quotes, &seen[0].quotes, "clusters disagree");
        }
    }
}
