//! What a well-formed file may still get wrong.

use std::collections::BTreeSet;

use super::error::Fault;
use crate::name::Name;
use crate::problem::{Catalog, Pod, Problem};
use crate::requirement::{Expression, Requirement};

pub(super) fn twice(what: &str, name: &Name) -> Fault {
    Fault::new(
        format!("{what} {name:?} appears twice"),
        "give each a name of its own",
    )
}

/// Dollars an hour that no price exceeds.
const HIGHEST_PRICE: f64 = 1e9;

pub(super) fn price(dollars: f64) -> Result<(), Fault> {
    if (0.0..=HIGHEST_PRICE).contains(&dollars) {
        return Ok(());
    }
    let fault = format!("{dollars} is not a price");
    Err(Fault::new(
        fault,
        "write dollars per hour, from zero to a billion; mark what cannot be bought as unavailable",
    ))
}

fn prices(catalog: &Catalog) -> Result<(), Fault> {
    for (index, kind) in catalog.types.iter().enumerate() {
        for (turn, offering) in kind.offerings.iter().enumerate() {
            price(offering.price.dollars()).map_err(|fault| {
                let fault = fault.within("price").element(turn).within("offerings");
                fault.element(index).within("types")
            })?;
        }
    }
    for (index, range) in catalog.ranges.iter().enumerate() {
        for (field, one) in [
            ("machine", range.prices.machine),
            ("core", range.prices.core),
            ("memoryGib", range.prices.memory_gib),
        ] {
            price(one.dollars()).map_err(|fault| {
                let fault = fault.within(field).within("prices");
                fault.element(index).within("ranges")
            })?;
        }
    }
    Ok(())
}

pub(super) fn requirements(given: &[Expression]) -> Result<(), Fault> {
    for (index, expression) in given.iter().enumerate() {
        Requirement::parse(expression).map_err(|error| {
            Fault::new(
                error.to_string(),
                "write one whole number, as a string: [\"4\"]",
            )
            .within("values")
            .element(index)
        })?;
    }
    Ok(())
}

pub(super) fn skews(given: impl Iterator<Item = i32>) -> Result<(), Fault> {
    for (index, skew) in given.enumerate() {
        if skew < 1 {
            return Err(Fault::new(
                format!("{skew} is not a skew"),
                "write one or more: the fullest domain may be so many pods ahead",
            )
            .within("maxSkew")
            .element(index));
        }
    }
    Ok(())
}

/// The native form: names are unique and references resolve.
pub(super) fn problem(problem: &Problem) -> Result<(), Fault> {
    let catalogs = unique(
        "catalogs",
        "catalogue",
        problem.catalogs.iter().map(|one| &one.name),
    )?;
    for (index, catalog) in problem.catalogs.iter().enumerate() {
        unique(
            "types",
            "instance type",
            catalog.types.iter().map(|one| &one.name),
        )
        .and_then(|_| prices(catalog))
        .map_err(|fault| fault.element(index).within("catalogs"))?;
    }
    unique("pools", "pool", problem.pools.iter().map(|one| &one.name))?;
    for (index, pool) in problem.pools.iter().enumerate() {
        let within = |fault: Fault| fault.element(index).within("pools");
        if !catalogs.contains(&pool.catalog) {
            let fault = format!("unknown catalogue {:?}", pool.catalog);
            let remedy = "name one that catalogs lists";
            return Err(within(Fault::new(fault, remedy).within("catalog")));
        }
        requirements(&pool.requirements).map_err(|fault| within(fault.within("requirements")))?;
    }
    unique("nodes", "node", problem.nodes.iter().map(|one| &one.name))?;
    let mut names = BTreeSet::new();
    pods(&problem.pods, &mut names)?;
    for (index, node) in problem.nodes.iter().enumerate() {
        pods(&node.pods, &mut names).map_err(|fault| fault.element(index).within("nodes"))?;
    }
    Ok(())
}

fn unique<'a>(
    field: &'static str,
    what: &str,
    names: impl Iterator<Item = &'a Name>,
) -> Result<BTreeSet<&'a Name>, Fault> {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            return Err(twice(what, name)
                .within("name")
                .element(index)
                .within(field));
        }
    }
    Ok(seen)
}

fn pods<'a>(pods: &'a [Pod], seen: &mut BTreeSet<(&'a Name, &'a Name)>) -> Result<(), Fault> {
    for (index, pod) in pods.iter().enumerate() {
        let within = |fault: Fault| fault.element(index).within("pods");
        // Daemons are named after their set, once on every node.
        if !pod.daemon && !seen.insert((&pod.spec.namespace, &pod.name)) {
            return Err(within(twice("pod", &pod.name).within("name")));
        }
        for (term, expressions) in pod.spec.required_affinity.iter().enumerate() {
            requirements(expressions).map_err(|fault| {
                within(
                    fault
                        .element(term)
                        .within("requiredAffinity")
                        .within("spec"),
                )
            })?;
        }
        skews(pod.spec.spread.iter().map(|spread| spread.max_skew))
            .map_err(|fault| within(fault.within("spread").within("spec")))?;
    }
    Ok(())
}
