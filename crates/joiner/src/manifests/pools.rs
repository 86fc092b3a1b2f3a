//! Node pools, and the catalogues of their classes.

use std::path::{Path, PathBuf};

use jiff::SignedDuration;
use joiner_core::money::Money;
use joiner_core::name::Labels;
use joiner_core::problem::{
    Budget, BudgetAmount, Catalog, ConsolidationPolicy, Disruption, DisruptionReason, Limits, Pool,
    Problem,
};
use joiner_core::requirement::Expression;
use joiner_core::resources::Resources;
use serde::Deserialize;

use super::Object;
use super::catalog;
use super::nodes::taints;
use super::objects::{Amounts, Meta, Taint};
use super::pods::amounts;
use crate::failure::Failure;

#[derive(Deserialize)]
struct NodePool {
    spec: NodePoolSpec,
}

#[derive(Deserialize)]
struct NodePoolSpec {
    template: NodeTemplate,
    #[serde(default)]
    disruption: DisruptionSpec,
    #[serde(default)]
    limits: Amounts,
    #[serde(default)]
    weight: i32,
    replicas: Option<u32>,
}

#[derive(Deserialize)]
struct NodeTemplate {
    #[serde(default)]
    metadata: Meta,
    spec: NodeTemplateSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NodeTemplateSpec {
    #[serde(default)]
    requirements: Vec<Expression>,
    #[serde(default)]
    taints: Vec<Taint>,
    #[serde(default)]
    startup_taints: Vec<Taint>,
    node_class_ref: ClassRef,
    expire_after: Option<String>,
}

#[derive(Deserialize)]
struct ClassRef {
    #[serde(default)]
    group: String,
    #[serde(default)]
    kind: String,
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct DisruptionSpec {
    consolidation_policy: Option<ConsolidationPolicy>,
    consolidate_after: Option<String>,
    budgets: Option<Vec<BudgetSpec>>,
}

#[derive(Deserialize)]
struct BudgetSpec {
    nodes: String,
    reasons: Option<Vec<DisruptionReason>>,
    schedule: Option<String>,
    duration: Option<String>,
}

/// The class whose cloud is part of Joiner, and what its catalogue is called here.
const SIMULATED: &str = "SimNodeClass";
const BUILT_IN: &str = "the simulated cloud";

pub(super) fn add(
    objects: &[Object],
    default_catalog: Option<&Path>,
    problem: &mut Problem,
) -> Result<Vec<Failure>, Failure> {
    let mut without_catalog = Vec::new();
    for object in objects.iter().filter(|object| object.kind == "NodePool") {
        let read: NodePool = object.read()?;
        let class = &read.spec.template.spec.node_class_ref;
        let file = catalog_file(objects, object, default_catalog, class);
        let name = match &file {
            Some(file) => file.display().to_string(),
            None if class.kind == SIMULATED => BUILT_IN.to_owned(),
            None => {
                without_catalog.push(object.fault(&no_catalog(class)));
                continue;
            }
        };
        if problem.catalog(&name).is_none() {
            problem.catalogs.push(match &file {
                Some(file) => catalog::read(file, &name)?,
                None => Catalog {
                    name: name.as_str().into(),
                    ..joiner_sim::clouds::sim::built_in()
                },
            });
        }
        problem.pools.push(pool(object, read.spec, &name)?);
    }
    price_nodes(problem);
    Ok(without_catalog)
}

/// The pool of an object, buying from the catalogue that a running Joiner calls like its node class.
pub(super) fn of_cluster(object: &Object) -> Result<Pool, Failure> {
    let read: NodePool = object.read()?;
    let class = &read.spec.template.spec.node_class_ref;
    let catalog = format!("{}.{}/{}", class.kind, class.group, class.name);
    pool(object, read.spec, &catalog)
}

fn no_catalog(class: &ClassRef) -> String {
    format!(
        "nothing says what {} {} sells; give --catalog FILE (config/samples/catalog.json is one to start from), put \
         {}.json beside it, or add the class with spec.catalog: FILE",
        class.kind, class.name, class.name
    )
}

fn catalog_file(
    objects: &[Object],
    pool: &Object,
    default_catalog: Option<&Path>,
    class: &ClassRef,
) -> Option<PathBuf> {
    let folder = pool.path.parent().unwrap_or_else(|| Path::new(""));
    let named = objects
        .iter()
        .filter(|object| object.kind == class.kind && *object.meta.name == *class.name)
        .find_map(|object| {
            let catalog = &object.value["spec"]["catalog"];
            let file = catalog.as_str().or_else(|| catalog["file"].as_str())?;
            Some(object.path.parent().unwrap_or(folder).join(file))
        });
    let beside = Some(folder.join(format!("{}.json", class.name))).filter(|path| path.is_file());
    named
        .or(beside)
        .or_else(|| default_catalog.map(Path::to_owned))
}

fn pool(object: &Object, spec: NodePoolSpec, catalog: &str) -> Result<Pool, Failure> {
    let duration = |text: &Option<String>| -> Result<Option<SignedDuration>, Failure> {
        match text.as_deref() {
            None | Some("Never") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|error| object.fault(&format!("{text:?} is not a duration: {error}"))),
        }
    };
    let mut limits = amounts(object, &spec.limits)?;
    let nodes = limits
        .contains("nodes")
        .then(|| u32::try_from(limits.get("nodes")).unwrap_or(0));
    limits = limits
        .iter()
        .filter(|(name, _)| &***name != "nodes")
        .map(|(name, amount)| (name.clone(), amount))
        .collect::<Resources>();
    let budgets = match spec.disruption.budgets {
        None => Disruption::default().budgets,
        Some(budgets) => budgets
            .into_iter()
            .map(|budget| {
                Ok(Budget {
                    amount: amount(object, &budget.nodes)?,
                    reasons: budget.reasons.unwrap_or_default(),
                    schedule: budget.schedule,
                    duration: duration(&budget.duration)?,
                })
            })
            .collect::<Result<_, Failure>>()?,
    };
    let after = match &spec.disruption.consolidate_after {
        None => Some(SignedDuration::ZERO),
        given => duration(given)?,
    };
    let template = spec.template;
    let labels: Labels = template.metadata.labels;
    Ok(Pool {
        name: object.meta.name.clone(),
        nodepool: None,
        catalog: catalog.into(),
        weight: spec.weight,
        labels,
        requirements: template.spec.requirements,
        taints: taints(&template.spec.taints),
        startup_taints: taints(&template.spec.startup_taints),
        limits: Limits {
            resources: limits,
            nodes,
            cost: None,
        },
        disruption: Disruption {
            policy: spec.disruption.consolidation_policy.unwrap_or_default(),
            consolidate_after: after,
            budgets,
            ..Disruption::default()
        },
        expire_after: duration(&template.spec.expire_after)?,
        replicas: spec.replicas,
        closed: None,
    })
}

fn amount(object: &Object, text: &str) -> Result<BudgetAmount, Failure> {
    let read = match text.strip_suffix('%') {
        Some(percent) => percent
            .parse()
            .ok()
            .filter(|percent| *percent <= 100)
            .map(BudgetAmount::Percent),
        None => text.parse().ok().map(BudgetAmount::Nodes),
    };
    read.ok_or_else(|| {
        object.fault(&format!(
            "budget {text:?}: write a number or a share: \"5\" or \"10%\""
        ))
    })
}

/// What nodes cost, where the catalogue of their pool knows it.
fn price_nodes(problem: &mut Problem) {
    let mut prices: Vec<Option<Money>> = Vec::new();
    for node in &problem.nodes {
        let pool = problem
            .pools
            .iter()
            .find(|pool| Some(&pool.name) == node.pool.as_ref());
        let catalog = pool.and_then(|pool| problem.catalog(&pool.catalog));
        let zone = node.labels.get(joiner_core::labels::ZONE);
        prices.push(catalog.and_then(|catalog| {
            let kind = catalog
                .types
                .iter()
                .find(|kind| kind.name == node.instance_type)?;
            let offering = kind.offerings.iter().find(|offering| {
                Some(&offering.zone) == zone && offering.capacity_type == node.capacity_type
            })?;
            Some(offering.price)
        }));
    }
    for (node, price) in problem.nodes.iter_mut().zip(prices) {
        node.price = price;
    }
}
