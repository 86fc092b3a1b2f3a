use std::sync::Arc;

use super::world::{
    GIB, amounts, broken, labels_of, launch, node, pend, plan, problem, purchase, spec, unplaced,
    valid,
};
use crate::labels;
use crate::money::Money;
use crate::plan::{Launch, Plan, PodRef, Rule};
use crate::problem::{
    CapacityType, Host, MinValuesPolicy, PodSpec, Policy, Problem, Quota, Range, Spread,
    UnitPrices, WhenUnsatisfiable,
};
use crate::requirement::{Expression, Operator};
use crate::resources::{CPU, MEMORY, NODES, PODS, Resources};
use crate::selector::LabelSelector;

fn one_pod() -> (Problem, Vec<PodRef>) {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 1, spec(500));
    (problem, pods)
}

/// A plan with one small machine, changed.
fn changed(problem: &Problem, pods: &[PodRef], change: impl Fn(&mut Launch)) -> Plan {
    let mut launch = launch(problem, "small", "a", pods);
    change(&mut launch);
    plan(vec![launch])
}

#[test]
fn the_offering_is_for_sale_at_that_price() {
    let (mut problem, pods) = one_pod();
    let wrong = changed(&problem, &pods, |launch| {
        launch.purchase.price = Money::from_dollars(0.2);
    });
    broken(
        &problem,
        &wrong,
        Rule::Purchase,
        "it costs $0.1000, not $0.2000",
    );
    let nowhere = changed(&problem, &pods, |launch| launch.purchase.zone = "c".into());
    broken(
        &problem,
        &nowhere,
        Rule::Purchase,
        "small is not offered in c as on-demand",
    );
    problem.catalogs[0].types[0].offerings[0].available = false;
    let sold_out = changed(&problem, &pods, |_| {});
    broken(
        &problem,
        &sold_out,
        Rule::Purchase,
        "the offering is sold out",
    );
}

#[test]
fn the_pool_exists_is_open_and_allows_it() {
    let (mut problem, pods) = one_pod();
    let other = changed(&problem, &pods, |launch| launch.pool = "other".into());
    broken(
        &problem,
        &other,
        Rule::Purchase,
        "pool other, which there is not",
    );
    let good = changed(&problem, &pods, |_| {});
    problem.pools[0].closed = Some("its class is not ready".to_owned());
    broken(
        &problem,
        &good,
        Rule::Purchase,
        "closed: its class is not ready",
    );
    problem.pools[0].closed = None;
    problem.pools[0].requirements = vec![Expression::new(labels::ZONE, Operator::In, &["b"])];
    broken(
        &problem,
        &good,
        Rule::Purchase,
        "pool main wants topology.kubernetes.io/zone In [b]",
    );
    problem.pools[0].requirements.clear();
    problem.pools[0].replicas = Some(3);
    broken(&problem, &good, Rule::Purchase, "keeps a fixed number");
}

#[test]
fn labels_are_those_that_type_offering_and_pool_give() {
    let (mut problem, pods) = one_pod();
    problem.pools[0].labels = labels_of(&[("team", "x")]);
    problem.pools[0].requirements = vec![Expression::new("tier", Operator::In, &["gold", "iron"])];
    let tier = |launch: &mut Launch, value: &str| {
        launch.labels.insert("tier".into(), value.into());
    };
    valid(
        &problem,
        &changed(&problem, &pods, |launch| tier(launch, "iron")),
    );
    broken(
        &problem,
        &changed(&problem, &pods, |launch| tier(launch, "wood")),
        Rule::Purchase,
        "pool main wants tier In [gold, iron]",
    );
    broken(
        &problem,
        &changed(&problem, &pods, |launch| {
            tier(launch, "gold");
            launch.labels.remove("team");
        }),
        Rule::Purchase,
        "the node will have the label team=x",
    );
    broken(
        &problem,
        &changed(&problem, &pods, |launch| {
            tier(launch, "gold");
            launch.labels.insert("moon".into(), "full".into());
        }),
        Rule::Purchase,
        "nothing gives the node the label moon",
    );
}

#[test]
fn well_known_labels_that_the_catalogue_leaves_open_may_be_asked_for() {
    let (mut problem, pods) = one_pod();
    for key in [labels::OS, labels::REGION] {
        let wanted = [(labels::OS, "linux"), (labels::REGION, "eu")];
        let value = wanted.iter().find(|(own, _)| *own == key).unwrap().1;
        let asked = |problem: &Problem| {
            changed(problem, &pods, |launch| {
                launch.labels.insert(key.into(), value.into());
            })
        };
        for kind in &mut problem.catalogs[0].types {
            kind.labels.remove(labels::OS);
        }
        valid(&problem, &asked(&problem));
        let other = &mut problem.catalogs[0].types[1];
        other.labels.insert(labels::OS.into(), "linux".into());
        other.offerings[0].region = "eu".into();
        let words = format!("nothing gives the node the label {key}");
        broken(&problem, &asked(&problem), Rule::Purchase, &words);
        problem.catalogs[0].types[1].offerings[0].region = "".into();
    }
}

#[test]
fn a_key_that_other_types_carry_is_absent_on_those_that_do_not() {
    let (mut problem, pods) = one_pod();
    problem.catalogs[0].types[1]
        .labels
        .insert("gpu".into(), "t4".into());
    problem.pools[0].requirements = vec![Expression::new("gpu", Operator::Exists, &[])];
    let made_up = changed(&problem, &pods, |launch| {
        launch.labels.insert("gpu".into(), "t4".into());
    });
    broken(
        &problem,
        &made_up,
        Rule::Purchase,
        "nothing gives the node the label gpu",
    );
    valid(&problem, &plan(vec![launch(&problem, "large", "a", &pods)]));
}

#[test]
fn no_more_is_bought_than_is_left() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 2, spec(500));
    let two = |problem: &Problem| {
        plan(vec![
            launch(problem, "small", "a", &pods[..1]),
            launch(problem, "small", "a", &pods[1..]),
        ])
    };
    problem.catalogs[0].types[0].offerings[0].left = Some(2);
    valid(&problem, &two(&problem));
    problem.catalogs[0].types[0].offerings[0].left = Some(1);
    broken(
        &problem,
        &two(&problem),
        Rule::Purchase,
        "2 machines of small a on-demand are bought, 1 are left",
    );
}

#[test]
fn offerings_of_one_reservation_share_what_is_left() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 2, spec(500));
    for kind in &mut problem.catalogs[0].types {
        let offering = &mut kind.offerings[0];
        offering.capacity_type = CapacityType::Reserved;
        offering.reservation = Some("r-1".into());
        offering.left = Some(1);
    }
    let reserved = |problem: &Problem, kind: &str, pods: &[PodRef]| {
        let mut launch = launch(problem, kind, "a", pods);
        launch.purchase.capacity_type = CapacityType::Reserved;
        launch.purchase.reservation = Some("r-1".into());
        launch
            .labels
            .insert(labels::CAPACITY_TYPE.into(), "reserved".into());
        launch
            .labels
            .insert(labels::RESERVATION_ID.into(), "r-1".into());
        launch
    };
    valid(&problem, &plan(vec![reserved(&problem, "large", &pods)]));
    let both = plan(vec![
        reserved(&problem, "small", &pods[..1]),
        reserved(&problem, "large", &pods[1..]),
    ]);
    broken(
        &problem,
        &both,
        Rule::Purchase,
        "2 machines of reservation r-1 are bought, 1 are left",
    );
}

#[test]
fn offerings_of_one_stock_share_what_is_left() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 2, spec(500));
    for kind in &mut problem.catalogs[0].types {
        kind.offerings[0].stock = Some("shelf".into());
        kind.offerings[0].left = Some(2);
    }
    let both = plan(vec![
        launch(&problem, "small", "a", &pods[..1]),
        launch(&problem, "large", "a", &pods[1..]),
    ]);
    valid(&problem, &both);
    // The lower figure holds, even where nothing is bought.
    problem.catalogs[0].types[1].offerings[1].stock = Some("shelf".into());
    problem.catalogs[0].types[1].offerings[1].left = Some(1);
    broken(
        &problem,
        &both,
        Rule::Purchase,
        "2 machines of stock shelf are bought, 1 are left",
    );
}

#[test]
fn types_of_one_quota_share_what_is_left_of_it() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 2, spec(500));
    for kind in &mut problem.catalogs[0].types {
        kind.quotas = vec!["cores".into()];
    }
    let both = plan(vec![
        launch(&problem, "small", "a", &pods[..1]),
        launch(&problem, "large", "a", &pods[1..]),
    ]);
    let mut having = |left: Resources| {
        problem.catalogs[0].quotas = vec![Quota {
            name: "cores".into(),
            left,
        }];
        problem.clone()
    };
    valid(&having(Resources::new().with(CPU, 10_000)), &both);
    broken(
        &having(Resources::new().with(CPU, 9000)),
        &both,
        Rule::Purchase,
        "quota cores is asked for 1000 more cpu than it has",
    );
    valid(&having(Resources::new().with(NODES, 2)), &both);
    broken(
        &having(Resources::new().with(NODES, 1)),
        &both,
        Rule::Purchase,
        "quota cores is asked for 1 more nodes than it has",
    );
}

#[test]
fn alternatives_hold_the_same_pods() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 1, spec(3000));
    let with = |problem: &Problem, kind: &str, zone: &str| {
        let mut launch = launch(problem, "large", "a", &pods);
        launch.alternatives = [purchase(problem, kind, zone)].into();
        plan(vec![launch])
    };
    valid(&problem, &with(&problem, "large", "b"));
    broken(
        &problem,
        &with(&problem, "small", "a"),
        Rule::Purchase,
        "alternative 0: it does not hold the pods",
    );
    let tied = PodSpec {
        spread: vec![Spread {
            topology_key: labels::ZONE.into(),
            max_skew: 1,
            selector: Some(LabelSelector::label("app", "web")),
            match_label_keys: Vec::new(),
            min_domains: None,
            when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
            node_affinity_policy: Policy::Honor,
            node_taints_policy: Policy::Ignore,
        }],
        ..spec(3000)
    };
    problem.pods[0].spec = std::sync::Arc::new(tied);
    broken(
        &problem,
        &with(&problem, "large", "b"),
        Rule::Purchase,
        "take pod web to another topology",
    );
    let picky = PodSpec {
        node_selector: labels_of(&[(labels::ZONE, "a")]),
        ..spec(3000)
    };
    problem.pods[0].spec = std::sync::Arc::new(picky);
    broken(
        &problem,
        &with(&problem, "large", "b"),
        Rule::Purchase,
        "pod web does not select its labels",
    );
}

#[test]
fn min_values_counts_what_is_left_to_choose_from() {
    let (mut problem, pods) = one_pod();
    let mut wants = Expression::new(labels::INSTANCE_TYPE, Operator::Exists, &[]);
    wants.min_values = Some(2);
    problem.pools[0].requirements = vec![wants];
    let alone = changed(&problem, &pods, |_| {});
    broken(
        &problem,
        &alone,
        Rule::Purchase,
        "leaves 1 values of node.kubernetes.io/instance-type",
    );
    let choice = changed(&problem, &pods, |launch| {
        launch.alternatives = [purchase(&problem, "large", "a")].into();
    });
    valid(&problem, &choice);
    problem.settings.min_values = MinValuesPolicy::BestEffort;
    valid(&problem, &alone);
}

/// From 1 to 4 cores on host `h`, which has 3 left.
fn range(name: &str) -> Range {
    Range {
        name: name.into(),
        labels: labels_of(&[(labels::ARCH, "amd64")]),
        region: "".into(),
        capacity_type: CapacityType::OnDemand,
        min: amounts(1000, 1, 0),
        max: amounts(4000, 8, 20),
        step: Resources::new().with(CPU, 1000).with(MEMORY, GIB),
        overhead: Resources::new(),
        prices: UnitPrices {
            machine: Money::from_dollars(0.01),
            core: Money::from_dollars(0.02),
            memory_gib: Money::from_dollars(0.005),
        },
        hosts: vec![Host {
            name: "h".into(),
            zone: "rack".into(),
            free: Resources::new().with(CPU, 3000),
            stock: "".into(),
        }],
        left: None,
    }
}

/// A machine of range `vm` with 2 GiB.
fn made(pods: &[PodRef], cpu: i64, dollars: f64) -> Launch {
    Launch {
        pool: "main".into(),
        purchase: crate::plan::Purchase {
            catalog: "shop".into(),
            instance_type: "vm".into(),
            zone: "rack".into(),
            capacity_type: CapacityType::OnDemand,
            reservation: None,
            host: Some("h".into()),
            price: Money::from_dollars(dollars),
        },
        alternatives: Arc::default(),
        capacity: amounts(cpu, 2, 20),
        requests: amounts(1500, 0, 1),
        labels: labels_of(&[
            (labels::ARCH, "amd64"),
            (labels::ZONE, "rack"),
            (labels::CAPACITY_TYPE, "on-demand"),
            (labels::NODEPOOL, "main"),
            (labels::INSTANCE_TYPE, "vm"),
        ]),
        pods: pods.to_vec(),
        reason: crate::plan::Reason::NoPool,
    }
}

#[test]
fn machines_made_to_measure_fit_their_range_and_their_host() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 1, spec(1500));
    problem.catalogs[0].types.clear();
    problem.catalogs[0].ranges = vec![range("vm")];
    let made = |cpu: i64, dollars: f64| plan(vec![made(&pods, cpu, dollars)]);
    valid(&problem, &made(2000, 0.06));
    broken(
        &problem,
        &made(2000, 0.05),
        Rule::Purchase,
        "it costs $0.0600, not $0.0500",
    );
    broken(
        &problem,
        &made(1500, 0.05),
        Rule::Purchase,
        "comes from 1000 to 4000 in steps of 1000",
    );
    broken(
        &problem,
        &made(4000, 0.10),
        Rule::Purchase,
        "host h is asked for 1000 more cpu",
    );
    assert_eq!(made(2000, 0.06).launches[0].capacity.get(PODS), 20);
}

#[test]
fn a_host_is_one_for_all_ranges_of_its_catalogue_and_another_in_every_catalogue() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 2, spec(1500));
    problem.catalogs[0].types.clear();
    problem.catalogs[0].ranges = vec![range("vm"), range("vm-other")];
    let first = made(&pods[..1], 2000, 0.06);
    let mut second = made(&pods[1..], 2000, 0.06);
    second.purchase.instance_type = "vm-other".into();
    let kind: crate::name::Name = labels::INSTANCE_TYPE.into();
    second.labels.insert(kind.clone(), "vm-other".into());
    broken(
        &problem,
        &plan(vec![first.clone(), second.clone()]),
        Rule::Purchase,
        "host h is asked for 1000 more cpu",
    );
    let mut other = problem.catalogs[0].clone();
    other.name = "annex".into();
    problem.catalogs.push(other);
    let mut pool = problem.pools[0].clone();
    (pool.name, pool.catalog) = ("annex".into(), "annex".into());
    problem.pools.push(pool);
    second.pool = "annex".into();
    second.purchase.catalog = "annex".into();
    second.purchase.instance_type = "vm".into();
    second.labels.insert(kind, "vm".into());
    second
        .labels
        .insert(labels::NODEPOOL.into(), "annex".into());
    valid(&problem, &plan(vec![first, second]));
}

#[test]
fn zones_of_one_name_in_two_regions_are_told_apart() {
    let (mut problem, pods) = one_pod();
    let offerings = &mut problem.catalogs[0].types[0].offerings;
    offerings[1].zone = "a".into();
    offerings[0].region = "eu".into();
    offerings[1].region = "us".into();
    offerings[1].price = Money::from_dollars(0.05);
    let bought = |region: &str, dollars: f64| {
        changed(&problem, &pods, |launch| {
            launch.purchase.price = Money::from_dollars(dollars);
            launch.labels.insert(labels::REGION.into(), region.into());
        })
    };
    valid(&problem, &bought("eu", 0.1));
    valid(&problem, &bought("us", 0.05));
    broken(
        &problem,
        &bought("us", 0.1),
        Rule::Purchase,
        "it costs $0.0500, not $0.1000",
    );
}

#[test]
fn limits_hold_to_the_unit_with_present_nodes_counted() {
    let mut problem = problem();
    node(&mut problem, "n", "a", Vec::new());
    let pods = pend(&mut problem, "web", 1, spec(500));
    let good = plan(vec![launch(&problem, "small", "a", &pods)]);
    problem.pools[0].limits.resources = Resources::new().with(CPU, 4000);
    problem.pools[0].limits.nodes = Some(2);
    problem.pools[0].limits.cost = Some(Money::from_dollars(0.2));
    valid(&problem, &good);
    problem.pools[0].limits.resources = Resources::new().with(CPU, 3999);
    broken(
        &problem,
        &good,
        Rule::Limits,
        "would have 4000 cpu, its limit is 3999",
    );
    problem.pools[0].limits.resources = Resources::new();
    problem.pools[0].limits.nodes = Some(1);
    broken(
        &problem,
        &good,
        Rule::Limits,
        "would have 2 nodes, its limit is 1",
    );
    problem.pools[0].limits.nodes = None;
    problem.pools[0].limits.cost = Some(Money::from_dollars(0.19));
    broken(
        &problem,
        &good,
        Rule::Limits,
        "would have $0.2000 an hour to pay, its limit is $0.1900",
    );
    // Growth is forbidden; what is there may stay.
    let mut nothing = plan(Vec::new());
    nothing.unplaced = vec![unplaced(&pods)];
    valid(&problem, &nothing);
}

#[test]
fn the_plan_as_a_whole_is_bounded() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 2, spec(500));
    let two = plan(vec![
        launch(&problem, "small", "a", &pods[..1]),
        launch(&problem, "small", "b", &pods[1..]),
    ]);
    problem.settings.max_new_nodes = Some(1);
    broken(
        &problem,
        &two,
        Rule::Limits,
        "2 machines are bought, at most 1 may be",
    );
}

#[test]
fn one_spot_offering_has_only_its_share() {
    let mut problem = problem();
    let pods = pend(&mut problem, "web", 4, spec(500));
    let spot = |problem: &Problem, pod: &PodRef| {
        let mut launch = launch(problem, "small", "a", &[*pod]);
        launch.purchase.capacity_type = CapacityType::Spot;
        launch.purchase.price = Money::from_dollars(0.05);
        launch
            .labels
            .insert(labels::CAPACITY_TYPE.into(), "spot".into());
        launch
    };
    problem.settings.spot_share = Some(50);
    let half = |problem: &Problem, spots: usize| {
        plan(
            pods.iter()
                .enumerate()
                .map(|(at, pod)| {
                    if at < spots {
                        spot(problem, pod)
                    } else {
                        launch(problem, "small", "a", &[*pod])
                    }
                })
                .collect(),
        )
    };
    valid(&problem, &half(&problem, 2));
    broken(
        &problem,
        &half(&problem, 3),
        Rule::Limits,
        "3 of 4 machines are spot small in a, at most 50%",
    );
    let three = |spots: usize| {
        let mut plan = half(&problem, spots);
        let gone = plan.launches.pop().unwrap();
        plan.cost -= gone.purchase.price;
        plan.unplaced = vec![unplaced(&gone.pods)];
        plan
    };
    valid(&problem, &three(1));
    broken(
        &problem,
        &three(2),
        Rule::Limits,
        "2 of 3 machines are spot small in a, at most 50%",
    );
}
