//! What a well-formed file of the native form may still get wrong.

use std::collections::BTreeSet;

use super::error::Fault;
use super::validate::{each, price, requirements, skew, twice};
use crate::money::Money;
use crate::name::Name;
use crate::problem::{
    AffinityTerm, Catalog, DaemonSet, InstanceType, Node, Pod, PodSpec, Pool, Problem, Range,
    Settings, Spread, Weighted,
};
use crate::requirement::{Expression, Operator};
use crate::resources::Resources;
use crate::selector::LabelSelector;

/// No machine has more of anything, and sums of it can still be counted.
const MOST: i64 = 1 << 50;

/// Names are unique, references resolve, amounts can be counted, and conditions can be understood.
pub(super) fn problem(problem: &Problem) -> Result<(), Fault> {
    let names = problem.catalogs.iter().map(|one| &one.name);
    let catalogs = unique("catalogs", "catalogue", names)?;
    each("catalogs", &problem.catalogs, catalog)?;
    unique("pools", "pool", problem.pools.iter().map(|one| &one.name))?;
    each("pools", &problem.pools, |one| pool(one, &catalogs))?;
    let daemons = |one: &DaemonSet| spec(&one.spec).map_err(|fault| fault.within("spec"));
    each("daemonSets", &problem.daemon_sets, daemons)?;
    unique("nodes", "node", problem.nodes.iter().map(|one| &one.name))?;
    pods_have_names(problem)?;
    each("pods", &problem.pods, pod)?;
    each("nodes", &problem.nodes, node)?;
    each(
        "podDisruptionBudgets",
        &problem.pod_disruption_budgets,
        |budget| selector("selector", budget.selector.as_ref()),
    )?;
    settings(&problem.settings).map_err(|fault| fault.within("settings"))
}

fn unique<'a>(
    field: &'static str,
    what: &str,
    names: impl Iterator<Item = &'a Name>,
) -> Result<BTreeSet<&'a Name>, Fault> {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            let fault = twice(what, name).within("name");
            return Err(fault.element(index).within(field));
        }
    }
    Ok(seen)
}

/// Of pods that wait and of pods on nodes together.
fn pods_have_names(problem: &Problem) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    once(&problem.pods, &mut seen)?;
    for (index, node) in problem.nodes.iter().enumerate() {
        once(&node.pods, &mut seen).map_err(|fault| fault.element(index).within("nodes"))?;
    }
    Ok(())
}

fn once<'a>(pods: &'a [Pod], seen: &mut BTreeSet<(&'a Name, &'a Name)>) -> Result<(), Fault> {
    for (index, pod) in pods.iter().enumerate() {
        // Daemons are named after their set, once on every node.
        if !pod.daemon && !seen.insert((&pod.spec.namespace, &pod.name)) {
            let fault = twice("pod", &pod.name).within("name");
            return Err(fault.element(index).within("pods"));
        }
    }
    Ok(())
}

pub(super) fn catalog(catalog: &Catalog) -> Result<(), Fault> {
    let types = catalog.types.iter().map(|one| &one.name);
    unique("types", "instance type", types)?;
    let ranges = catalog.ranges.iter().map(|one| &one.name);
    unique("ranges", "range", ranges)?;
    each("types", &catalog.types, instance_type)?;
    each("ranges", &catalog.ranges, range)?;
    let names = catalog.quotas.iter().map(|one| &one.name);
    let quotas = unique("quotas", "quota", names)?;
    each("quotas", &catalog.quotas, |one| amounts("left", &one.left))?;
    each("types", &catalog.types, |kind| {
        each("quotas", &kind.quotas, |name| {
            if quotas.contains(name) {
                return Ok(());
            }
            let fault = format!("unknown quota {name:?}");
            Err(Fault::new(
                fault,
                "name one that quotas of the catalogue lists",
            ))
        })
    })
}

fn instance_type(kind: &InstanceType) -> Result<(), Fault> {
    amounts("capacity", &kind.capacity)?;
    amounts("overhead", &kind.overhead)?;
    each("offerings", &kind.offerings, |one| {
        money("price", one.price)
    })
}

fn range(range: &Range) -> Result<(), Fault> {
    for (field, given) in [
        ("min", &range.min),
        ("max", &range.max),
        ("step", &range.step),
        ("overhead", &range.overhead),
    ] {
        amounts(field, given)?;
    }
    for (name, least) in range.min.iter() {
        let most = range.max.get(name);
        if most < least {
            let fault = format!("{name} is {most}, and at least {least} by min");
            return Err(Fault::new(fault, "write as much as min has, or more").within("max"));
        }
    }
    if let Some((name, _)) = range.step.iter().find(|(_, step)| *step == 0) {
        let remedy = "write by how much sizes grow, or leave it out: it is then always as in max";
        return Err(Fault::new(format!("{name} is 0"), remedy).within("step"));
    }
    let prices = range.prices;
    for (field, given) in [
        ("machine", prices.machine),
        ("core", prices.core),
        ("memoryGib", prices.memory_gib),
    ] {
        money(field, given).map_err(|fault| fault.within("prices"))?;
    }
    unique("hosts", "host", range.hosts.iter().map(|one| &one.name))?;
    each("hosts", &range.hosts, |host| amounts("free", &host.free))
}

fn pool(pool: &Pool, catalogs: &BTreeSet<&Name>) -> Result<(), Fault> {
    if !catalogs.contains(&pool.catalog) {
        let fault = format!("unknown catalogue {:?}", pool.catalog);
        return Err(Fault::new(fault, "name one that catalogs lists").within("catalog"));
    }
    requirements(&pool.requirements).map_err(|fault| fault.within("requirements"))?;
    let limits = &pool.limits;
    amounts("resources", &limits.resources)
        .and_then(|()| money("cost", limits.cost.unwrap_or_default()))
        .map_err(|fault| fault.within("limits"))
}

fn node(node: &Node) -> Result<(), Fault> {
    amounts("capacity", &node.capacity)?;
    amounts("allocatable", &node.allocatable)?;
    money("price", node.price.unwrap_or_default())?;
    each("pods", &node.pods, pod)
}

fn pod(pod: &Pod) -> Result<(), Fault> {
    spec(&pod.spec).map_err(|fault| fault.within("spec"))
}

fn spec(spec: &PodSpec) -> Result<(), Fault> {
    amounts("requests", &spec.requests)?;
    let terms = |given: &Vec<Expression>| requirements(given);
    each("requiredAffinity", &spec.required_affinity, terms)?;
    each("preferredAffinity", &spec.preferred_affinity, |one| {
        weighted(one, terms)
    })?;
    each("spread", &spec.spread, spread)?;
    each("affinity", &spec.affinity, term)?;
    each("antiAffinity", &spec.anti_affinity, term)?;
    let near = &spec.preferred_pod_affinity;
    each("preferredPodAffinity", near, |one| weighted(one, term))?;
    let apart = &spec.preferred_pod_anti_affinity;
    each("preferredPodAntiAffinity", apart, |one| weighted(one, term))?;
    each("volumes", &spec.volumes, |volume| {
        each("topology", &volume.topology, terms)
    })
}

fn weighted<T>(given: &Weighted<T>, test: impl Fn(&T) -> Result<(), Fault>) -> Result<(), Fault> {
    if !(1..=100).contains(&given.weight) {
        let fault = format!("{} is not a weight", given.weight);
        return Err(Fault::new(fault, "write a whole number from 1 to 100").within("weight"));
    }
    test(&given.term).map_err(|fault| fault.within("term"))
}

fn spread(given: &Spread) -> Result<(), Fault> {
    skew(given.max_skew)?;
    selector("selector", given.selector.as_ref())
}

fn term(given: &AffinityTerm) -> Result<(), Fault> {
    selector("selector", given.selector.as_ref())?;
    selector("namespaceSelector", given.namespace_selector.as_ref())
}

/// Selectors of labels know fewer operators than those of nodes.
fn selector(field: &'static str, given: Option<&LabelSelector>) -> Result<(), Fault> {
    let Some(given) = given else { return Ok(()) };
    each("matchExpressions", &given.match_expressions, |one| {
        use Operator::{DoesNotExist, Exists, In, NotIn};
        if matches!(one.operator, In | NotIn | Exists | DoesNotExist) {
            return Ok(());
        }
        let fault = format!("label selectors do not know {}", one.operator);
        let remedy = "write In, NotIn, Exists or DoesNotExist";
        Err(Fault::new(fault, remedy).within("operator"))
    })
    .map_err(|fault| fault.within(field))
}

fn settings(settings: &Settings) -> Result<(), Fault> {
    money("nodeSurcharge", settings.node_surcharge)?;
    if let Some(share) = settings.spot_share.filter(|share| *share > 100) {
        let remedy = "write percent of the new machines: 0 to 100";
        return Err(Fault::new(format!("{share} is not a share"), remedy).within("spotShare"));
    }
    Ok(())
}

fn money(field: &'static str, given: Money) -> Result<(), Fault> {
    price(given.dollars()).map_err(|fault| fault.within(field))
}

fn amounts(field: &'static str, given: &Resources) -> Result<(), Fault> {
    let Some((name, amount)) = given
        .iter()
        .find(|(_, amount)| !(0..=MOST).contains(amount))
    else {
        return Ok(());
    };
    let remedy = "write whole numbers from 0 to 2^50: cpu in thousandths of a core, everything else in units or bytes";
    Err(Fault::new(format!("{name} is {amount}"), remedy).within(field))
}
