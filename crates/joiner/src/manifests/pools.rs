//! Node pools, and the catalogues of their classes.

use std::path::{Path, PathBuf};

use joiner_api::karpenter::{NodeClassRef, NodePool};
use joiner_controllers::dialects::karpenter;
use joiner_core::money::Money;
use joiner_core::problem::{Catalog, Pool, Problem};
use serde::Deserialize as _;
use serde_json::Value;

use super::Object;
use super::catalog;
use super::pods::as_text;
use crate::failure::Failure;

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
        let read = node_pool(object)?;
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
        problem.pools.push(pool(object, &read, &name)?);
    }
    price_nodes(problem);
    Ok(without_catalog)
}

/// The pool of an object, buying from the catalogue that a running Joiner calls like its node class.
pub(super) fn of_cluster(object: &Object) -> Result<Pool, Failure> {
    let read = node_pool(object)?;
    let class = &read.spec.template.spec.node_class_ref;
    let catalog = format!("{}.{}/{}", class.kind, class.group, class.name);
    pool(object, &read, &catalog)
}

fn no_catalog(class: &NodeClassRef) -> String {
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
    class: &NodeClassRef,
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

/// The pool of an object, as a running Joiner reads it.
fn pool(object: &Object, read: &NodePool, catalog: &str) -> Result<Pool, Failure> {
    let pool = karpenter::read_pool(read).map_err(|problem| object.fault(&problem))?;
    Ok(Pool {
        catalog: catalog.into(),
        ..pool
    })
}

/// Amounts may be written as numbers, and a file need not say that a pool requires nothing.
fn node_pool(object: &Object) -> Result<NodePool, Failure> {
    let mut value = object.value.clone();
    if let Some(Value::Object(template)) = value.pointer_mut("/spec/template/spec") {
        let requirements = template.entry("requirements");
        requirements.or_insert_with(|| Value::Array(Vec::new()));
    }
    as_text(object, value.pointer_mut("/spec/limits"))?;
    NodePool::deserialize(&value).map_err(|error| object.fault(&error.to_string()))
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
