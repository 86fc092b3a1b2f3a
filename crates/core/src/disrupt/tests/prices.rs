//! Nodes that go for their price, how they are paid for, or where they are.

use super::*;

/// One node of four cores whose machine now costs three times as much as another of its size.
fn overpriced() -> Problem {
    let mut problem = problem();
    for kind in &mut problem.catalogs[0].types {
        kind.offerings.remove(0);
    }
    let mut twin = problem.catalogs[0].types[1].clone();
    twin.name = "d4".into();
    problem.catalogs[0].types.push(twin);
    problem.catalogs[0].types[1].offerings[0].price = Money::from_dollars(0.24);
    node(&mut problem, "dear", 4, &[3500]);
    let node = problem.nodes.last_mut().unwrap();
    node.capacity_type = CapacityType::Spot;
    node.labels
        .insert(labels::CAPACITY_TYPE.into(), "spot".into());
    node.price = Some(Money::from_dollars(0.24));
    let terms = &mut problem.pools[0].disruption;
    terms.policy = ConsolidationPolicy::WhenEmpty;
    terms.consolidate_after = None;
    terms.spot_to_spot = true;
    terms.min_savings = 20;
    problem
}

/// Gives every offering of a type another price.
fn ask(problem: &mut Problem, kind: &str, price: f64) {
    let mut types = problem.catalogs[0].types.iter_mut();
    let kind = types.find(|one| &*one.name == kind).unwrap();
    for offering in &mut kind.offerings {
        offering.price = Money::from_dollars(price);
    }
}

#[test]
fn a_node_goes_for_its_price_alone_where_its_pool_says_so() {
    let mut problem = overpriced();
    assert!(decide(&problem).removals.is_empty());
    problem.pools[0].disruption.price_replacement = true;
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("dear", Underutilized)]);
    assert_eq!(&*plan.launches[0].purchase.instance_type, "d4");
}

#[test]
fn a_price_that_is_a_little_lower_is_no_reason_to_move() {
    let mut problem = overpriced();
    problem.pools[0].disruption.price_replacement = true;
    ask(&mut problem, "c2", 0.2);
    ask(&mut problem, "c8", 0.5);
    for price in [0.24, 0.2, 0.1921] {
        ask(&mut problem, "d4", price);
        assert!(decide(&problem).removals.is_empty(), "{price}");
    }
    ask(&mut problem, "d4", 0.192);
    assert_eq!(gone(&decide(&problem)), [("dear", Underutilized)]);
}

#[test]
fn a_smaller_machine_is_another_matter_than_a_cheaper_one() {
    let mut problem = overpriced();
    problem.pools[0].disruption.price_replacement = true;
    problem.catalogs[0].types.truncate(2);
    problem.nodes[0].pods = vec![pod("small", 500)];
    ask(&mut problem, "c2", 0.1);
    assert!(
        decide(&problem).removals.is_empty(),
        "two of them cost nearly as much: that would be consolidation, which the pool does not want"
    );
}

#[test]
fn a_node_goes_for_several_smaller_machines_that_are_as_large_together_and_cost_less() {
    let mut problem = overpriced();
    problem.pools[0].disruption.price_replacement = true;
    problem.catalogs[0].types.truncate(2);
    problem.nodes[0].pods = vec![pod("one", 1500), pod("other", 1500)];
    let plan = decide(&problem);
    assert_eq!(gone(&plan), [("dear", Underutilized)]);
    let bought = plan.launches.iter();
    let bought: Vec<&str> = bought.map(|one| &*one.purchase.instance_type).collect();
    assert_eq!(bought, ["c2", "c2"]);
}

#[test]
fn nodes_go_together_for_a_larger_machine_of_which_each_needs_a_part() {
    let mut problem = overpriced();
    problem.pools[0].disruption.price_replacement = true;
    problem.pools[0].disruption.budgets.clear();
    for (name, price) in [("c2", 0.2), ("d4", 0.24), ("c8", 0.3)] {
        ask(&mut problem, name, price);
    }
    assert!(decide(&problem).removals.is_empty(), "one alone is cheaper");
    let mut twin = problem.nodes[0].clone();
    twin.name = "twin".into();
    problem.nodes.push(twin);
    let plan = decide(&problem);
    assert_eq!(
        gone(&plan),
        [("dear", Underutilized), ("twin", Underutilized)]
    );
    assert_eq!(&*plan.launches[0].purchase.instance_type, "c8");
}

#[test]
fn a_label_that_the_pool_gives_its_machines_itself_keeps_no_price_from_counting() {
    let mut problem = overpriced();
    problem.pools[0].disruption.price_replacement = true;
    let teams = Expression::new("team", Operator::In, &["red", "blue"]);
    problem.pools[0].requirements.push(teams);
    assert_eq!(gone(&decide(&problem)), [("dear", Underutilized)]);
}

#[test]
fn what_the_pool_may_not_buy_makes_no_node_overpriced() {
    let mut problem = overpriced();
    problem.pools[0].disruption.price_replacement = true;
    problem.pools[0].requirements = vec![Expression::new(
        labels::INSTANCE_TYPE,
        Operator::In,
        &["c4"],
    )];
    assert!(decide(&problem).removals.is_empty());
}

fn detail(plan: &Plan) -> &str {
    match &plan.removals[0].reason {
        Reason::Disrupted { detail, .. } => detail,
        other => panic!("{other:?}"),
    }
}

#[test]
fn on_demand_makes_way_for_spot_where_the_pool_allows_it() {
    let mut problem = problem();
    node(&mut problem, "full", 4, &[3900]);
    let decided = decide(&problem);
    assert_eq!(
        decided.launches[0].purchase.capacity_type,
        CapacityType::Spot
    );
    assert_eq!(
        detail(&decided),
        "on-demand is replaced by spot; its pod moves"
    );
    problem.pools[0].requirements = vec![Expression::new(
        labels::CAPACITY_TYPE,
        Operator::In,
        &["on-demand"],
    )];
    assert!(decide(&problem).removals.is_empty());
}

/// A full node in zone a, and the same types in zone b at another price.
fn two_zones(dollars_b: f64, sold_in_a: bool) -> Problem {
    let mut problem = problem();
    on_demand_only(&mut problem);
    node(&mut problem, "full", 4, &[3900]);
    for kind in &mut problem.catalogs[0].types {
        let own = kind.offerings[0].clone();
        kind.offerings[0].available = sold_in_a;
        kind.offerings.push(Offering {
            zone: "b".into(),
            price: Money::from_dollars(own.price.dollars() * dollars_b),
            ..own
        });
    }
    problem
}

#[test]
fn a_zone_that_became_dear_or_sells_no_more_is_left_for_a_cheaper_one() {
    let decided = decide(&two_zones(0.8, true));
    assert_eq!(&*decided.launches[0].purchase.zone, "b");
    assert_eq!(
        detail(&decided),
        "zone b is cheaper than zone a; its pod moves"
    );
    let decided = decide(&two_zones(0.8, false));
    assert_eq!(
        detail(&decided),
        "c4 is no longer sold in zone a, but in zone b; its pod moves"
    );
    assert!(decide(&two_zones(1.2, false)).removals.is_empty());
}

#[test]
fn a_machine_that_leaves_too_little_choice_at_the_lower_price_replaces_nothing() {
    let mut problem = problem();
    node(&mut problem, "wide", 8, &[1500]);
    on_demand_only(&mut problem);
    let mut wanted = Expression::new(labels::INSTANCE_TYPE, Operator::Exists, &[]);
    wanted.min_values = Some(2);
    problem.pools[0].requirements = vec![wanted.clone()];
    // Two smaller types are cheaper than the node.
    assert_eq!(decide(&problem).launches.len(), 1);
    wanted.min_values = Some(3);
    problem.pools[0].requirements = vec![wanted];
    assert!(decide(&problem).removals.is_empty());
}

#[test]
fn a_surcharge_for_every_node_counts_for_what_is_bought_as_for_what_goes() {
    let mut problem = problem();
    on_demand_only(&mut problem);
    problem.settings.node_surcharge = Money::from_dollars(1.0);
    node(&mut problem, "a", 4, &[4000]);
    let plan = decide(&problem);
    assert_eq!(
        why_kept(&plan, "a"),
        "its pods would cost as much elsewhere"
    );
    problem.nodes.clear();
    node(&mut problem, "waste", 8, &[1900]);
    let plan = decide(&problem);
    let Reason::Disrupted { before, after, .. } = &plan.removals[0].reason else {
        panic!("{plan:?}");
    };
    let dollars = Money::from_dollars;
    assert_eq!((*before, *after), (dollars(1.4), dollars(1.1)));
}
