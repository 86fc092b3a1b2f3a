use super::world::{broken, labels_of, launch, node, pend, plan, problem, put, spec, valid};
use crate::labels;
use crate::plan::{Plan, PodRef, Rule};
use crate::problem::{AffinityTerm, Pod, PodSpec, Policy, Problem, Spread, WhenUnsatisfiable};
use crate::requirement::{Expression, Operator};
use crate::selector::LabelSelector;

fn term(key: &str, app: &str) -> AffinityTerm {
    AffinityTerm {
        topology_key: key.into(),
        selector: Some(LabelSelector::label("app", app)),
        namespaces: Vec::new(),
        namespace_selector: None,
    }
}

fn spread(key: &str, skew: i32) -> Spread {
    Spread {
        topology_key: key.into(),
        max_skew: skew,
        selector: Some(LabelSelector::label("app", "web")),
        match_label_keys: Vec::new(),
        min_domains: None,
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
        node_affinity_policy: Policy::Honor,
        node_taints_policy: Policy::Ignore,
    }
}

/// One launch for each zone given, each with the next pod.
fn in_zones(problem: &Problem, pods: &[PodRef], zones: &[&str]) -> Plan {
    let pairs = pods.iter().zip(zones);
    plan(
        pairs
            .map(|(pod, zone)| launch(problem, "small", zone, &[*pod]))
            .collect(),
    )
}

#[test]
fn pods_that_must_not_meet_do_not() {
    let mut problem = problem();
    let apart = PodSpec {
        anti_affinity: vec![term(labels::HOSTNAME, "web")],
        ..spec(100)
    };
    let pods = pend(&mut problem, "web", 2, apart);
    valid(&problem, &in_zones(&problem, &pods, &["a", "a"]));
    let together = plan(vec![launch(&problem, "small", "a", &pods)]);
    broken(
        &problem,
        &together,
        Rule::AntiAffinity,
        "pod web-0 must not share kubernetes.io/hostname",
    );
}

#[test]
fn anti_affinity_of_a_bound_pod_keeps_others_away() {
    let mut problem = problem();
    let hermit = PodSpec {
        anti_affinity: vec![term(labels::ZONE, "web")],
        labels: labels_of(&[("app", "hermit")]),
        ..spec(100)
    };
    node(&mut problem, "n", "a", vec![Pod::new("hermit", hermit)]);
    let pods = pend(&mut problem, "web", 1, spec(100));
    valid(&problem, &in_zones(&problem, &pods, &["b"]));
    let near = in_zones(&problem, &pods, &["a"]);
    broken(
        &problem,
        &near,
        Rule::AntiAffinity,
        "pod hermit must not share topology.kubernetes.io/zone a with pod web",
    );
}

#[test]
fn anti_affinity_stays_within_its_namespaces() {
    let mut problem = problem();
    let apart = PodSpec {
        anti_affinity: vec![term(labels::HOSTNAME, "web")],
        ..spec(100)
    };
    let mut pods = pend(&mut problem, "web", 1, apart.clone());
    let elsewhere = PodSpec {
        namespace: "other".into(),
        ..spec(100)
    };
    pods.extend(pend(&mut problem, "far", 1, elsewhere));
    valid(&problem, &plan(vec![launch(&problem, "small", "a", &pods)]));
    let mut wide = apart;
    wide.anti_affinity[0].namespace_selector = Some(LabelSelector::default());
    problem.pods[0].spec = std::sync::Arc::new(wide);
    let together = plan(vec![launch(&problem, "small", "a", &pods)]);
    broken(&problem, &together, Rule::AntiAffinity, "with pod far");
}

#[test]
fn pods_that_met_before_the_plan_are_not_its_doing() {
    let mut problem = problem();
    let apart = PodSpec {
        anti_affinity: vec![term(labels::HOSTNAME, "web")],
        ..spec(100)
    };
    node(
        &mut problem,
        "n",
        "a",
        vec![Pod::new("one", apart.clone()), Pod::new("two", apart)],
    );
    valid(&problem, &plan(Vec::new()));
}

#[test]
fn zones_are_level_up_to_the_skew() {
    let mut problem = problem();
    let even = PodSpec {
        spread: vec![spread(labels::ZONE, 1)],
        ..spec(100)
    };
    let pods = pend(&mut problem, "web", 3, even);
    valid(&problem, &in_zones(&problem, &pods, &["a", "b", "a"]));
    let bad = in_zones(&problem, &pods, &["a", "a", "a"]);
    broken(
        &problem,
        &bad,
        Rule::Spread,
        "no order of binding was found for 2 pods, among them web-1",
    );
}

#[test]
fn an_order_may_let_others_go_first() {
    let mut problem = problem();
    // Two pods that count but do not care; one that cares and can only go to the fuller zone early.
    let even = PodSpec {
        spread: vec![spread(labels::ZONE, 1)],
        ..spec(100)
    };
    let careful = pend(&mut problem, "careful", 1, even);
    let careless = pend(&mut problem, "careless", 2, spec(100));
    let all: Vec<PodRef> = careless.iter().chain(&careful).copied().collect();
    let mut plan = in_zones(&problem, &all, &["a", "a", "a"]);
    plan.order = vec![careful[0], careless[0], careless[1]];
    valid(&problem, &plan);
    plan.order = Vec::new();
    valid(&problem, &plan);
}

#[test]
fn bound_pods_count_for_spread_and_removed_ones_do_not() {
    let mut problem = problem();
    node(&mut problem, "n", "a", vec![Pod::new("old", spec(100))]);
    let even = PodSpec {
        spread: vec![spread(labels::ZONE, 1)],
        ..spec(100)
    };
    let pods = pend(&mut problem, "web", 1, even);
    broken(
        &problem,
        &put("n", &pods),
        Rule::Spread,
        "among them web on node n",
    );
    valid(&problem, &in_zones(&problem, &pods, &["b"]));
}

#[test]
fn only_domains_that_the_pod_may_use_are_compared() {
    let mut problem = problem();
    let mut even = PodSpec {
        spread: vec![spread(labels::ZONE, 1)],
        ..spec(100)
    };
    even.required_affinity = vec![vec![Expression::new(labels::ZONE, Operator::In, &["a"])]];
    let pods = pend(&mut problem, "web", 3, even);
    valid(&problem, &in_zones(&problem, &pods, &["a", "a", "a"]));
}

#[test]
fn fewer_domains_than_asked_for_count_as_an_empty_one() {
    let mut problem = problem();
    let mut rule = spread(labels::ZONE, 1);
    rule.min_domains = Some(3);
    let even = PodSpec {
        spread: vec![rule],
        ..spec(100)
    };
    let pods = pend(&mut problem, "web", 3, even);
    let level = in_zones(&problem, &pods, &["a", "b", "a"]);
    broken(
        &problem,
        &level,
        Rule::Spread,
        "for 1 pods, among them web-2",
    );
}

#[test]
fn a_wish_to_spread_is_not_a_rule() {
    let mut problem = problem();
    let mut rule = spread(labels::ZONE, 1);
    rule.when_unsatisfiable = WhenUnsatisfiable::ScheduleAnyway;
    let pods = pend(
        &mut problem,
        "web",
        3,
        PodSpec {
            spread: vec![rule],
            ..spec(100)
        },
    );
    valid(&problem, &plan(vec![launch(&problem, "small", "a", &pods)]));
}

#[test]
fn match_label_keys_narrow_what_is_counted() {
    let mut problem = problem();
    let mut rule = spread(labels::HOSTNAME, 1);
    rule.match_label_keys = vec!["version".into()];
    let versioned = |version: &str| PodSpec {
        labels: labels_of(&[("app", "web"), ("version", version)]),
        spread: vec![rule.clone()],
        ..spec(100)
    };
    let mut pods = pend(&mut problem, "one", 1, versioned("1"));
    pods.extend(pend(&mut problem, "two", 1, versioned("2")));
    valid(&problem, &plan(vec![launch(&problem, "small", "a", &pods)]));
    problem.pods[1].spec = std::sync::Arc::new(versioned("1"));
    let same = plan(vec![launch(&problem, "small", "a", &pods)]);
    broken(&problem, &same, Rule::Spread, "no order of binding");
}

#[test]
fn affinity_follows_a_pod_that_is_there_or_starts_a_group() {
    let mut problem = problem();
    let near = PodSpec {
        affinity: vec![term(labels::ZONE, "web")],
        ..spec(100)
    };
    let pods = pend(&mut problem, "web", 2, near.clone());
    valid(&problem, &in_zones(&problem, &pods, &["a", "a"]));
    broken(
        &problem,
        &in_zones(&problem, &pods, &["a", "b"]),
        Rule::Spread,
        "for 1 pods",
    );
    let mut lonely = super::world::problem();
    let follower = PodSpec {
        affinity: vec![term(labels::ZONE, "database")],
        ..spec(100)
    };
    let pods = pend(&mut lonely, "web", 1, follower);
    broken(
        &lonely,
        &in_zones(&lonely, &pods, &["a"]),
        Rule::Spread,
        "among them web",
    );
}

#[test]
fn affinity_of_several_terms_is_to_pods_that_match_all() {
    let mut problem = problem();
    let tier = AffinityTerm {
        selector: Some(LabelSelector::label("tier", "front")),
        ..term(labels::ZONE, "web")
    };
    let near = PodSpec {
        affinity: vec![term(labels::ZONE, "web"), tier],
        labels: labels_of(&[("app", "other")]),
        ..spec(100)
    };
    let labelled = |pairs: &[(&str, &str)]| PodSpec {
        labels: labels_of(pairs),
        ..spec(100)
    };
    let bound = vec![
        Pod::new("web", labelled(&[("app", "web")])),
        Pod::new("front", labelled(&[("tier", "front")])),
    ];
    node(&mut problem, "n", "a", bound);
    let pods = pend(&mut problem, "near", 1, near.clone());
    broken(&problem, &put("n", &pods), Rule::Spread, "among them near");
    // The first that matches all of its own terms needs no other pod, whichever pods match one of them.
    let both = [("app", "web"), ("tier", "front")];
    let first = PodSpec {
        labels: labels_of(&both),
        ..near
    };
    problem.pods[0].spec = std::sync::Arc::new(first);
    valid(&problem, &in_zones(&problem, &pods, &["b"]));
    problem.nodes[0].pods[0] = Pod::new("both", labelled(&both));
    valid(&problem, &put("n", &pods));
    let away = in_zones(&problem, &pods, &["b"]);
    broken(&problem, &away, Rule::Spread, "among them near");
}
