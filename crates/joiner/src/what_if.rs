//! What would become of a cluster if something in it were different. Nothing is changed: the core is asked about a copy.

mod command;

use std::collections::BTreeMap;

use joiner_controllers::decisions::Verdict;
use joiner_core::money::Money;
use joiner_core::pack::{self, Options};
use joiner_core::plan::{Home, Plan, apply};
use joiner_core::problem::{Node, Pod, Pool, Problem};
use joiner_core::{disrupt, problem::wire};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) use command::{rebalanced, run, savings};

use crate::api::model::SCHEMA;

/// What would be different.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Change {
    /// Pods that come.
    pub(crate) add: Vec<Pod>,
    /// Nodes of ours that go, whatever budgets say.
    pub(crate) remove: Vec<String>,
    /// Dollars an hour by instance type.
    pub(crate) prices: BTreeMap<String, f64>,
    /// Pools that are new, or take the place of those of the same name.
    pub(crate) pools: Vec<Pool>,
    /// Whether nodes are then removed and replaced to save money, as far as budgets allow.
    pub(crate) rebalance: bool,
}

/// Machines that would be bought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Bought {
    /// How many alike.
    pub(crate) count: u32,
    /// Pool.
    pub(crate) pool: String,
    /// Instance type.
    pub(crate) instance_type: String,
    /// Zone.
    pub(crate) zone: String,
    /// How they are paid for.
    pub(crate) capacity_type: String,
    /// Dollars an hour for each.
    pub(crate) price: f64,
    /// Pods that they are for.
    pub(crate) pods: usize,
}

/// A node that would go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Gone {
    /// Its name.
    pub(crate) node: String,
    /// Why.
    pub(crate) sentence: String,
}

/// Pods that would have no place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Stranded {
    /// How many.
    pub(crate) pods: usize,
    /// One of them.
    pub(crate) example: String,
    /// Why, and what would help.
    pub(crate) verdict: Verdict,
}

/// What would become of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome {
    /// Version of these shapes.
    pub(crate) schema_version: u32,
    /// Dollars an hour now.
    pub(crate) before: f64,
    /// Dollars an hour after.
    pub(crate) after: f64,
    /// Machines that would be bought.
    pub(crate) bought: Vec<Bought>,
    /// Nodes that would go.
    pub(crate) gone: Vec<Gone>,
    /// Pods that would be moved from one node to another.
    pub(crate) moved: usize,
    /// Pods that would find a place on nodes that are there.
    pub(crate) placed: usize,
    /// Pods that would have no place.
    pub(crate) stranded: Vec<Stranded>,
}

/// Solves on a thread of its own.
pub(crate) async fn on_a_thread(problem: Problem, change: Change) -> Result<Outcome, String> {
    let solved = tokio::task::spawn_blocking(move || solve(problem, &change)).await;
    solved.unwrap_or_else(|error| Err(format!("it could not be worked out: {error}")))
}

/// What would become of the problem.
pub(crate) fn solve(mut problem: Problem, change: &Change) -> Result<Outcome, String> {
    let mut outcome = Outcome {
        schema_version: SCHEMA,
        before: cost(&problem),
        ..Outcome::default()
    };
    make(&mut problem, change, &mut outcome)?;
    let options = Options::default();
    let plan = pack::solve(&problem, &options);
    let mut after = apply(&problem, &plan, "what-if-");
    let stays = |node: &Node| !change.remove.iter().any(|name| **name == *node.name);
    after.nodes.retain(stays);
    note(&problem, &plan, &mut outcome);
    if change.rebalance || !change.prices.is_empty() || !change.pools.is_empty() {
        let plan = disrupt::plan(&after, &options);
        let next = apply(&after, &plan, "what-if-more-");
        note(&after, &plan, &mut outcome);
        after = next;
    }
    outcome.after = cost(&after);
    Ok(outcome)
}

/// Dollars an hour for the nodes of pools.
pub(crate) fn cost(problem: &Problem) -> f64 {
    let ours = problem.nodes.iter().filter(|node| node.pool.is_some());
    ours.filter_map(|node| node.price).sum::<Money>().dollars()
}

/// Makes the change in the problem.
fn make(problem: &mut Problem, change: &Change, outcome: &mut Outcome) -> Result<(), String> {
    for name in &change.remove {
        let node = problem.nodes.iter_mut().find(|node| *node.name == **name);
        let node = node.ok_or_else(|| {
            format!("there is no node {name}: joiner top lists those that are there")
        })?;
        if node.pool.is_none() {
            return Err(format!(
                "node {name} belongs to no pool of Joiner's, which never removes it"
            ));
        }
        node.deleting = true;
        outcome.gone.push(Gone {
            node: name.clone(),
            sentence: "as asked".to_owned(),
        });
    }
    for (kind, dollars) in &change.prices {
        let price = wire::price(*dollars).map_err(|error| format!("price of {kind}: {error}"))?;
        let mut known = false;
        for one in problem.catalogs.iter_mut().flat_map(|one| &mut one.types) {
            if *one.name == **kind {
                known = true;
                one.offerings
                    .iter_mut()
                    .for_each(|offering| offering.price = price);
            }
        }
        if !known {
            return Err(format!("no catalogue sells the instance type {kind}"));
        }
        let own = problem
            .nodes
            .iter_mut()
            .filter(|node| *node.instance_type == **kind);
        own.for_each(|node| node.price = Some(price));
    }
    for pool in &change.pools {
        let mut pool = pool.clone();
        let old = problem.pools.iter().position(|one| one.name == pool.name);
        if problem.catalog(&pool.catalog).is_none() {
            let known = old.map(|at| problem.pools[at].catalog.clone());
            pool.catalog = known.ok_or_else(|| {
                format!(
                    "pool {}: nothing sells from {}, its node class is not known here",
                    pool.name, pool.catalog
                )
            })?;
        }
        match old {
            Some(at) => problem.pools[at] = pool,
            None => problem.pools.push(pool),
        }
    }
    let mut added = change.add.clone();
    for pod in &mut added {
        pod.count = pod.count.max(1);
    }
    problem.pods.extend(added);
    Ok(())
}

/// Writes down what a plan does.
fn note(problem: &Problem, plan: &Plan, outcome: &mut Outcome) {
    for launch in &plan.launches {
        let purchase = &launch.purchase;
        let one = Bought {
            count: 1,
            pool: problem.title_of(&launch.pool).to_string(),
            instance_type: purchase.instance_type.to_string(),
            zone: purchase.zone.to_string(),
            capacity_type: purchase.capacity_type.to_string(),
            price: purchase.price.dollars(),
            pods: launch.pods.len(),
        };
        let alike = |known: &&mut Bought| {
            (
                &known.pool,
                &known.instance_type,
                &known.zone,
                &known.capacity_type,
            ) == (&one.pool, &one.instance_type, &one.zone, &one.capacity_type)
        };
        match outcome.bought.iter_mut().find(alike) {
            Some(known) => {
                known.count += 1;
                known.pods += one.pods;
            }
            None => outcome.bought.push(one),
        }
    }
    for removal in &plan.removals {
        outcome.gone.push(Gone {
            node: removal.node.to_string(),
            sentence: removal.reason.to_string(),
        });
    }
    let moved = plan.placed().filter(|pod| pod.home != Home::Pending);
    outcome.moved += moved.count();
    outcome.placed += plan
        .placements
        .iter()
        .map(|one| one.pods.len())
        .sum::<usize>();
    for unplaced in &plan.unplaced {
        let example = unplaced.pods.first().and_then(|pod| problem.pod_name(*pod));
        outcome.stranded.push(Stranded {
            pods: unplaced.pods.len(),
            example: example.map(|name| name.to_string()).unwrap_or_default(),
            verdict: Verdict::unplaced(&unplaced.reason, problem),
        });
    }
}

#[cfg(test)]
mod tests {
    use joiner_core::problem::{CapacityType, Catalog, InstanceType, Offering, PodSpec};
    use joiner_core::resources::{CPU, MEMORY, PODS, Resources};

    use super::*;

    fn pod(name: &str, cpu: i64) -> Pod {
        let requests = Resources::new()
            .with(CPU, cpu)
            .with(MEMORY, 1 << 28)
            .with(PODS, 1);
        Pod::new(
            name,
            PodSpec {
                requests,
                ..PodSpec::default()
            },
        )
    }

    /// Two nodes of four cores, one of them with a pod of two cores, in a pool that sells them for forty cents.
    fn cluster() -> Problem {
        let capacity = Resources::new()
            .with(CPU, 4000)
            .with(MEMORY, 1 << 34)
            .with(PODS, 110);
        let node = |name: &str, pods| Node {
            name: name.into(),
            pool: Some("default".into()),
            capacity: capacity.clone(),
            allocatable: capacity.clone(),
            instance_type: "m-4".into(),
            price: Some(Money::from_dollars(0.4)),
            pods,
            ..Node::default()
        };
        Problem {
            catalogs: vec![Catalog {
                name: "cloud".into(),
                types: vec![InstanceType {
                    name: "m-4".into(),
                    capacity: capacity.clone(),
                    offerings: vec![Offering {
                        zone: "a".into(),
                        region: "".into(),
                        capacity_type: CapacityType::OnDemand,
                        price: Money::from_dollars(0.4),
                        available: true,
                        left: None,
                        reservation: None,
                        stock: None,
                    }],
                    ..InstanceType::default()
                }],
                ..Catalog::default()
            }],
            pools: vec![Pool {
                name: "default".into(),
                catalog: "cloud".into(),
                ..Pool::default()
            }],
            nodes: vec![
                node("one", vec![pod("web", 2000)]),
                node("two", vec![pod("api", 3000)]),
            ],
            ..Problem::default()
        }
    }

    #[test]
    fn pods_that_come_fill_what_is_there_before_anything_is_bought() {
        let change = Change {
            add: vec![pod("small", 1500), pod("large", 3500)],
            ..Change::default()
        };
        let outcome = solve(cluster(), &change).unwrap();
        assert_eq!((outcome.placed, outcome.moved), (1, 0), "{outcome:?}");
        assert_eq!(outcome.bought[0].count, 1);
        assert!(
            (outcome.before - 0.8).abs() < 1e-9 && (outcome.after - 1.2).abs() < 1e-9,
            "{outcome:?}"
        );
        let too_large = Change {
            add: vec![pod("huge", 9000)],
            ..Change::default()
        };
        let outcome = solve(cluster(), &too_large).unwrap();
        assert_eq!(outcome.stranded[0].example, "huge");
        assert_eq!(&*outcome.stranded[0].verdict.code, "TooLarge");
    }

    #[test]
    fn a_node_that_goes_has_its_pods_moved_and_its_price_saved_or_spent_again() {
        let change = Change {
            remove: vec!["one".to_owned()],
            ..Change::default()
        };
        let outcome = solve(cluster(), &change).unwrap();
        assert_eq!((outcome.moved, outcome.bought.len()), (1, 1), "{outcome:?}");
        assert!((outcome.after - 0.8).abs() < 1e-9, "{outcome:?}");
        let unknown = Change {
            remove: vec!["three".to_owned()],
            ..Change::default()
        };
        assert!(solve(cluster(), &unknown).unwrap_err().contains("three"));
    }

    #[test]
    fn another_price_is_the_price_of_nodes_that_are_there_too() {
        let change = Change {
            prices: [("m-4".to_owned(), 0.1)].into(),
            ..Change::default()
        };
        let outcome = solve(cluster(), &change).unwrap();
        assert!(outcome.after <= 0.2 + 1e-9, "{outcome:?}");
        let unknown = Change {
            prices: [("m-5".to_owned(), 0.1)].into(),
            ..Change::default()
        };
        assert!(solve(cluster(), &unknown).unwrap_err().contains("m-5"));
    }
}
