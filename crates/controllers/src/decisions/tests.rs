use std::collections::BTreeMap;

use joiner_core::money::Money;
use joiner_core::pack::{self, Options};
use joiner_core::plan::{Code, Kept, Launch, Plan, Purchase, Reason, Removal, Shortfall, Unplaced};
use joiner_core::problem::{
    CapacityType, Catalog, DisruptionReason, InstanceType, Node, Offering, Pod, PodSpec, Pool,
    Problem,
};
use joiner_core::resources::{CPU, MEMORY, PODS, Resources};
use strum::IntoEnumIterator as _;

use super::*;
use crate::view::pods::PodKey;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(name: &str) -> Subject {
    Subject::new(Kind::Pod, format!("shop/{name}"))
}

fn key(name: &str) -> PodKey {
    PodKey {
        namespace: "shop".into(),
        name: name.into(),
    }
}

/// A problem with pods that nothing can hold, and the plan that says so.
fn refused(pods: &[&str], reason: Reason) -> (Arc<Problem>, Arc<Plan>, Vec<Option<PodKey>>) {
    let problem = Problem {
        pods: pods
            .iter()
            .map(|name| Pod::new(name, PodSpec::default()))
            .collect(),
        ..Problem::default()
    };
    let all = (0..pods.len()).map(|group| joiner_core::plan::PodRef {
        home: joiner_core::plan::Home::Pending,
        group: u32::try_from(group).unwrap(),
        position: 0,
    });
    let plan = Plan {
        unplaced: vec![Unplaced {
            pods: all.collect(),
            reason,
        }],
        ..Plan::default()
    };
    let pending = pods.iter().map(|name| Some(key(name))).collect();
    (Arc::new(problem), Arc::new(plan), pending)
}

fn learn(ledger: &Decisions, second: i64, pods: &[&str], reason: Reason) {
    let (problem, plan, pending) = refused(pods, reason);
    let one = Provisioned {
        problem: &problem,
        plan: &plan,
        pending: &pending,
        made: &BTreeMap::new(),
        ignored: &[],
    };
    ledger.provisioned(at(second), &one);
}

fn no_machine(code: Code, said: &str) -> Reason {
    Reason::NoMachine {
        pools: vec![Shortfall {
            pool: "gpu".into(),
            types: 9,
            allowed: 3,
            code,
            ended_by: said.to_owned(),
            ..Shortfall::default()
        }],
    }
}

/// Every reason that the core can give, with its code: a code without a row here fails the test.
fn every_reason() -> Vec<(Code, Reason)> {
    Code::iter()
        .map(|code| {
            let reason = match code {
                Code::Cheapest => Reason::Cheapest {
                    considered: 3,
                    runner_up: Some(("m-8".into(), Money::from_dollars(0.5))),
                },
                Code::Invalid
                | Code::Taint
                | Code::Requirement
                | Code::SoldOut
                | Code::TooLarge
                | Code::MinValues => no_machine(code, &format!("ended by {code}")),
                Code::PodRules => Reason::NoDomain {
                    rule: "spread over zones of app=web".to_owned(),
                },
                Code::Limit => Reason::Limit {
                    pool: "gpu".into(),
                    limit: "cpu (left: 0)".to_owned(),
                },
                Code::NoPool => Reason::NoPool,
                Code::Empty | Code::Drifted | Code::Underutilized | Code::Expired => {
                    let causes = <DisruptionReason as strum::IntoEnumIterator>::iter();
                    let cause = causes.into_iter().find(|cause| Code::from(*cause) == code);
                    Reason::Disrupted {
                        cause: cause.unwrap(),
                        before: Money::from_dollars(2.0),
                        after: Money::from_dollars(1.0),
                        detail: "its 3 pods run elsewhere".to_owned(),
                    }
                }
                _ => Reason::Kept {
                    because: format!("kept by {code}"),
                },
            };
            (code, reason)
        })
        .collect()
}

#[test]
fn every_reason_of_the_core_becomes_a_verdict_with_sentence_evidence_and_remedy() {
    for (code, reason) in every_reason() {
        let verdict = match &reason {
            Reason::Disrupted { cause, .. } => {
                let removal = Removal {
                    node: "n".into(),
                    cause: *cause,
                    reason: reason.clone(),
                };
                let verdict = Verdict::goes(&removal, Some(&"gpu".into()));
                assert_eq!(
                    (verdict.evidence.before, verdict.evidence.after),
                    (Some(2.0), Some(1.0))
                );
                verdict
            }
            Reason::Kept { .. } => {
                let kept = Kept {
                    node: "n".into(),
                    reason: reason.clone(),
                    code,
                    until: Some(at(60)),
                    eligible: None,
                };
                let verdict =
                    Verdict::stays(&kept, Some(&"gpu".into()), Some(Money::from_dollars(2.0)));
                assert_eq!(verdict.evidence.until, Some(at(60)));
                verdict
            }
            Reason::Cheapest { .. } => continue,
            _ => Verdict::unplaced(&reason, &Problem::default()),
        };
        assert_eq!(*verdict.code, *code.to_string());
        assert!(
            verdict.sentence.contains(&reason.to_string()),
            "{verdict:?}"
        );
        assert_eq!(verdict.remedies.len(), 1, "{verdict:?}");
        if let Reason::NoMachine { pools } = &reason {
            let [pool] = &verdict.evidence.pools[..] else {
                panic!("{verdict:?}")
            };
            assert_eq!((pool.types, pool.allowed), (9, 3));
            assert_eq!(pool.sentence, pools[0].ended_by);
            assert!(pool.remedy.len() > 20, "{pool:?}");
        }
    }
}

#[test]
fn pools_that_are_closed_are_evidence_and_how_to_open_them_is_a_remedy() {
    let problem = Problem {
        pools: vec![Pool {
            name: "gpu".into(),
            closed: Some("node class gpu does not exist".to_owned()),
            ..Pool::default()
        }],
        ..Problem::default()
    };
    let verdict = Verdict::unplaced(&Reason::NoPool, &problem);
    assert_eq!(verdict.evidence.pools[0].code, "Closed");
    assert!(
        verdict.evidence.pools[0]
            .sentence
            .contains("node class gpu does not exist")
    );
    assert!(
        verdict.remedies[1].contains("gpu"),
        "{:?}",
        verdict.remedies
    );
}

#[test]
fn the_same_verdict_again_is_counted_and_another_one_is_kept_beside_it() {
    let ledger = Decisions::default();
    learn(&ledger, 1, &["a", "b"], Reason::NoPool);
    learn(&ledger, 5, &["a"], Reason::NoPool);
    learn(&ledger, 9, &["a"], no_machine(Code::Taint, "taint"));
    let said = ledger.verdicts(&pod("a"));
    let [taint, none] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!((&*taint.verdict.code, taint.times), ("Taint", 1));
    assert_eq!((none.first, none.last, none.times), (at(1), at(5), 2));
    let other = ledger.verdicts(&pod("b"));
    assert_eq!((other[0].times, other[0].decision), (1, 1));
    assert_eq!(ledger.last(Loop::Provision).unwrap().number, 3);
    assert!(ledger.last(Loop::Disrupt).is_none());
}

#[test]
fn the_ledger_keeps_within_its_bounds_and_forgets_what_was_not_said_for_longest() {
    let bounds = Bounds {
        bytes: 32 << 10,
        verdicts: 2,
        activity: 3,
        activity_bytes: 2 << 10,
    };
    let ledger = Decisions::new(bounds);
    for second in 0..200 {
        learn(
            &ledger,
            second,
            &["stays", &format!("pod-{second}")],
            no_machine(Code::Taint, &format!("taint {second}")),
        );
        let said = format!("message {second}");
        let about = Subject::new(Kind::Pool, "gpu");
        ledger.told(about, Severity::Normal, "Told", &said, at(second));
        assert!(ledger.bytes() <= 34 << 10, "{}", ledger.bytes());
    }
    assert!(ledger.bytes() > 16 << 10, "{}", ledger.bytes());
    assert_eq!(ledger.verdicts(&pod("stays")).len(), 2);
    assert!(ledger.verdicts(&pod("pod-0")).is_empty());
    assert_eq!(ledger.verdicts(&pod("pod-199")).len(), 1);
    assert_eq!(ledger.verdicts(&Subject::new(Kind::Pool, "gpu")).len(), 2);
    let activity = ledger.activity(0, 10);
    assert_eq!(activity.len(), 3);
    assert_eq!(activity[0].sentence, "message 199");
    assert_eq!(ledger.activity(activity[0].number, 10), []);
    let long = "a ".repeat(800);
    let about = Subject::new(Kind::Pool, "gpu");
    ledger.told(about, Severity::Normal, "Told", &long, at(200));
    assert_eq!(ledger.activity(0, 10).len(), 1, "others made room for it");
}

#[test]
fn equal_verdicts_are_stored_once_and_all_memory_is_given_back() {
    let ledger = Decisions::default();
    let names: Vec<String> = (0..1000).map(|number| format!("pod-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    learn(&ledger, 1, &names, no_machine(Code::Taint, "the same"));
    // Another decision says the same of others.
    learn(&ledger, 2, &["late"], no_machine(Code::Taint, "the same"));
    let [a, b] = ["pod-7", "late"].map(|name| ledger.verdicts(&pod(name))[0].clone());
    assert!(Arc::ptr_eq(&a.verdict, &b.verdict));
    assert_eq!((a.decision, b.decision), (1, 2));
    let each = ledger.bytes() / 1000;
    assert!(each < 400, "{each} bytes a pod");
    let mut inner = ledger.lock();
    inner.shrink(0);
    assert_eq!((inner.verdicts.len(), inner.verdicts.bytes()), (0, 0));
}

/// A machine that is bought for a price.
fn launch(dollars: f64) -> Launch {
    let purchase = Purchase {
        catalog: "acme".into(),
        instance_type: "m-4".into(),
        zone: "z".into(),
        capacity_type: CapacityType::Spot,
        reservation: None,
        host: None,
        price: Money::from_dollars(dollars),
    };
    Launch {
        pool: "web".into(),
        purchase,
        alternatives: Arc::default(),
        capacity: Resources::new(),
        requests: Resources::new(),
        labels: BTreeMap::new(),
        pods: Vec::new(),
        reason: Reason::Cheapest {
            considered: 3,
            runner_up: None,
        },
    }
}

#[test]
fn what_is_said_of_a_machine_never_pushes_out_why_it_was_bought() {
    let ledger = Decisions::default();
    let machine: Name = "m-1".into();
    let why: Name = "cheap, and in place of node n-1".into();
    ledger.launched(at(1), &launch(1.0), &machine, Some(&why));
    for second in 2..40 {
        let about = Subject::new(Kind::Machine, "m-1");
        let said = format!("trouble {second}");
        ledger.told(about, Severity::Warning, "Trouble", &said, at(second));
    }
    let all = ledger.verdicts(&Subject::new(Kind::Machine, "m-1"));
    assert_eq!(all.len(), Bounds::default().verdicts);
    assert_eq!(all[0].verdict.sentence, "trouble 39");
    let known = ledger.purchase("m-1").unwrap();
    assert_eq!(known.first, at(1));
    assert_eq!(
        known.verdict.sentence,
        "machine m-1 is bought: cheap, and in place of node n-1"
    );
}

#[test]
fn when_there_is_no_room_only_machines_that_are_gone_lose_why_they_were_bought() {
    let ledger = Decisions::new(Bounds {
        bytes: 64 << 10,
        ..Bounds::default()
    });
    let name = |number: usize| -> Name { format!("m-{number}").into() };
    for number in 0..60 {
        ledger.launched(at(1), &launch(1.0), &name(number), None);
    }
    // One in three is still there when nodes are looked at.
    let lives = |number: &usize| number.is_multiple_of(3);
    let key = |number: usize| Key {
        dialect: "karpenter",
        namespace: "".into(),
        name: name(number),
    };
    let machines = (0..60).filter(lives).map(|one| (name(one), key(one)));
    ledger.disrupted(
        at(2),
        &Arc::default(),
        &Arc::default(),
        &Arc::new(machines.collect()),
    );
    ledger.launched(at(3), &launch(1.0), &"late".into(), None);
    for second in 3..300 {
        let taint = format!("taint {second}");
        learn(&ledger, second, &[&taint], no_machine(Code::Taint, &taint));
    }
    let kept = (0..60).filter(|one| ledger.purchase(&name(*one)).is_some());
    let kept: Vec<usize> = kept.collect();
    assert_eq!(kept, (0..60).filter(lives).collect::<Vec<_>>());
    assert!(ledger.purchase("late").is_some(), "bought since the look");
    let bytes = ledger.lock().verdicts.bytes();
    assert!(bytes <= 64 << 10, "{bytes}");
}

#[test]
fn a_node_that_goes_is_told_once_with_its_price_before_and_after() {
    let ledger = Decisions::default();
    let problem = Arc::new(Problem {
        nodes: vec![Node {
            name: "n-1".into(),
            pool: Some("web".into()),
            ..Node::default()
        }],
        ..Problem::default()
    });
    let plan = Arc::new(Plan {
        removals: vec![Removal {
            node: "n-1".into(),
            cause: DisruptionReason::Underutilized,
            reason: Reason::Disrupted {
                cause: DisruptionReason::Underutilized,
                before: Money::from_dollars(2.0),
                after: Money::from_dollars(0.5),
                detail: String::new(),
            },
        }],
        ..Plan::default()
    });
    let mut changes = ledger.changes();
    for second in 0..3 {
        ledger.disrupted(at(second), &problem, &plan, &Arc::default());
    }
    assert!(changes.has_changed().unwrap());
    assert_eq!(*changes.borrow_and_update(), 3);
    let activity = ledger.activity(0, 10);
    assert_eq!(activity.len(), 1, "{activity:?}");
    assert_eq!(
        (activity[0].before, activity[0].after),
        (Some(2.0), Some(0.5))
    );
    let said = ledger.verdicts(&Subject::new(Kind::Node, "n-1"));
    assert_eq!((said.len(), said[0].times), (1, 3));
}

#[test]
fn events_that_repeat_a_verdict_are_not_told_beside_it() {
    let ledger = Decisions::default();
    for reason in UNTOLD {
        let about = Subject::new(Kind::Machine, "m-1");
        ledger.told(about, Severity::Normal, reason, "because", at(1));
    }
    assert!(ledger.is_empty());
    assert_eq!(ledger.activity(0, 10), []);
}

/// Twelve pods of two kinds, a node, and a catalogue of three types.
fn shop() -> Problem {
    let spec = |app: &str, cpu| PodSpec {
        namespace: "secret-shop".into(),
        labels: [("team".into(), app.into())].into(),
        requests: Resources::new()
            .with(CPU, cpu)
            .with(MEMORY, 1 << 28)
            .with(PODS, 1),
        node_selector: [("tier".into(), "gold".into())].into(),
        ..PodSpec::default()
    };
    let (web, api) = (Arc::new(spec("web", 500)), Arc::new(spec("api", 900)));
    let pods = (0..12).map(|number| Pod {
        name: format!("customer-{number}").into(),
        count: 1,
        spec: if number % 2 == 0 {
            web.clone()
        } else {
            api.clone()
        },
        ..Pod::default()
    });
    let types = [2, 4, 8].map(|cores| InstanceType {
        name: format!("m-{cores}").into(),
        labels: [("tier".into(), "gold".into())].into(),
        capacity: Resources::new()
            .with(CPU, cores * 1000)
            .with(MEMORY, cores << 32)
            .with(PODS, 110),
        offerings: vec![Offering {
            zone: "z".into(),
            region: "".into(),
            capacity_type: CapacityType::OnDemand,
            price: Money::from_dollars(0.1) * cores,
            available: true,
            left: None,
            reservation: None,
            stock: None,
        }],
        ..InstanceType::default()
    });
    Problem {
        catalogs: vec![Catalog {
            name: "acme".into(),
            types: types.to_vec(),
            ..Catalog::default()
        }],
        pools: vec![Pool {
            name: "payments".into(),
            catalog: "acme".into(),
            closed: None,
            ..Pool::default()
        }],
        pods: pods.collect(),
        ..Problem::default()
    }
}

#[test]
fn an_anonymous_problem_has_no_names_of_its_owner_and_the_same_plan() {
    let problem = shop();
    let hidden = anonymous(&problem);
    let text = serde_json::to_string(&hidden).unwrap();
    for secret in [
        "secret", "customer", "gold", "tier", "team", "payments", "acme",
    ] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    let again = Problem::from_json(&text).unwrap();
    let (open, closed) = (
        pack::solve(&problem, &Options::default()),
        pack::solve(&again, &Options::default()),
    );
    assert!(!open.launches.is_empty());
    let essence = |plan: &Plan| -> Vec<_> {
        let launches = plan.launches.iter();
        let all = launches.map(|one| (one.purchase.instance_type.clone(), one.pods.clone()));
        all.collect()
    };
    assert_eq!(essence(&open), essence(&closed));
    assert_eq!(open.cost, closed.cost);
    assert!(
        Arc::ptr_eq(&hidden.pods[0].spec, &hidden.pods[2].spec),
        "specs stay shared"
    );
}
