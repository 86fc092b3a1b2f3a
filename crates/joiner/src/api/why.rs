//! Why a pod, node, pool or machine is as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use joiner_controllers::context::Context;
use joiner_controllers::decisions::{Kind, Outcome, Said, Subject};
use joiner_controllers::record::{MachineRecord, Truth};
use joiner_controllers::view::World;
use joiner_controllers::view::pods::PodRecord;
use joiner_core::name::Name;
use joiner_core::resources::{CPU, EPHEMERAL_STORAGE, MEMORY};

use super::bought::bought;
use super::fleet::Joining;
use super::model::{Explanation, SCHEMA, Step};
use crate::page::{cores, gib};

/// The explanation; `Err` with what there is instead when there is nothing of this name.
pub(crate) fn explain(context: &Context, kind: Kind, name: &str) -> Result<Explanation, String> {
    let found = match kind {
        Kind::Pod => pod(context, name),
        Kind::Node => node(context, name),
        Kind::Pool => pool(context, name),
        Kind::Machine => machine(context, name),
    };
    let Found {
        name,
        standing,
        settled,
        subjects,
        bought,
        steps,
        facts,
    } = found.ok_or_else(|| format!("there is no {kind} {name}"))?;
    let mut verdicts: Vec<Said> = Vec::new();
    for subject in &subjects {
        verdicts.extend(context.decisions.verdicts(subject));
    }
    if settled {
        // What would have helped it onto a node is past.
        for said in &mut verdicts {
            Arc::make_mut(&mut said.verdict).remedies.clear();
        }
    }
    if !verdicts
        .iter()
        .any(|one| one.verdict.outcome == Outcome::Bought)
    {
        verdicts.extend(bought);
    }
    verdicts.sort_by_key(|said| std::cmp::Reverse(said.last));
    Ok(Explanation {
        schema_version: SCHEMA,
        at: context.now(),
        kind: kind.to_string(),
        name,
        standing,
        leading: context.edge.clients.fence.holds(),
        verdicts,
        steps,
        facts,
    })
}

struct Found {
    name: String,
    standing: String,
    /// Whether it is a pod that runs, or has run.
    settled: bool,
    subjects: Vec<Subject>,
    /// Why its machine was bought.
    bought: Option<Said>,
    steps: Vec<Step>,
    facts: Vec<String>,
}

/// How long something has lasted, such as `4m12s`.
pub(crate) fn lasted(seconds: i64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m{rest:02}s"),
        (1..48, _) => format!("{hours}h{minutes:02}m"),
        _ => format!("{}d{:02}h", hours / 24, hours % 24),
    }
}

fn pod(context: &Context, name: &str) -> Option<Found> {
    let now = context.now();
    let world = context.view.read();
    let (namespace, own) = name.split_once('/').unwrap_or(("default", name));
    let named: Vec<_> = world
        .pods
        .iter()
        .filter(|pod| &*pod.key.name == own)
        .collect();
    let exact = named.iter().find(|pod| &*pod.key.namespace == namespace);
    let found = match (exact, named.as_slice()) {
        (Some(found), _) => *found,
        // Without a namespace, the only pod of that name is meant.
        (None, [only]) if !name.contains('/') => *only,
        _ => return None,
    };
    let age = lasted(now.duration_since(found.created).as_secs().max(0));
    let standing = match &found.node {
        _ if found.terminal => "It has ended.".to_owned(),
        Some(node) => format!("It runs on node {node}."),
        None if found.waits() => format!("It has been pending for {age}."),
        None if found.untried => "The scheduler has not looked at it yet.".to_owned(),
        None => format!("It is pending for {age}, and waits for something other than a node."),
    };
    let subject = Subject::new(Kind::Pod, found.key.to_string());
    let facts = budgets_of(&world, found);
    Some(Found {
        name: found.key.to_string(),
        standing,
        settled: found.node.is_some(),
        subjects: vec![subject],
        bought: None,
        steps: Vec::new(),
        facts,
    })
}

/// Disruption budgets of a pod, and what they allow.
fn budgets_of(world: &World, pod: &PodRecord) -> Vec<String> {
    let holds = |budget: &joiner_core::problem::PodDisruptionBudget| {
        let selector = budget
            .selector
            .as_ref()
            .and_then(|one| one.requirements().ok());
        budget.namespace == pod.key.namespace
            && selector.is_some_and(|wanted| wanted.satisfied_by(&pod.spec.labels))
    };
    let all = world
        .budgets
        .iter()
        .map(|one| &one.value)
        .filter(|one| holds(one));
    all.map(|one| {
        format!(
            "PodDisruptionBudget {}/{} allows {} of its pods to be evicted now.",
            one.namespace, one.name, one.disruptions_allowed
        )
    })
    .collect()
}

fn node(context: &Context, name: &str) -> Option<Found> {
    let world = context.view.read();
    let name: Name = name.into();
    let node = world.nodes.get(&name)?;
    let machine = world
        .machine_of(&name)
        .or_else(|| Joining::of(&world).of_node(node));
    let pods: Vec<_> = world.pods_on(&name).filter(|pod| !pod.terminal).collect();
    let mut facts: Vec<String> = Vec::new();
    for pod in &pods {
        if pod.do_not_disrupt.active(context.now()) {
            facts.push(format!(
                "Pod {} carries karpenter.sh/do-not-disrupt.",
                pod.key
            ));
        }
        for said in budgets_of(&world, pod) {
            if said.contains("allows 0") && !facts.contains(&said) {
                facts.push(said);
            }
        }
    }
    let mut subjects = vec![Subject::new(Kind::Node, name.clone())];
    let standing = match machine {
        None => "It is not one of ours: its room is used, and it is never changed or removed."
            .to_owned(),
        Some(machine) => {
            subjects.push(Subject::new(Kind::Machine, machine.key.name.clone()));
            let pool = match &machine.pool {
                Some(_) => world.title_of(machine),
                None => "(none)".into(),
            };
            let ready = if node.ready() {
                "is ready"
            } else {
                "does not answer"
            };
            format!(
                "It {ready}, belongs to pool {pool} and holds {} pods.",
                pods.len()
            )
        }
    };
    Some(Found {
        name: name.to_string(),
        standing,
        settled: false,
        subjects,
        bought: machine.map(|one| bought(context, one)),
        steps: machine.map(|one| steps(one)).unwrap_or_default(),
        facts,
    })
}

fn pool(context: &Context, name: &str) -> Option<Found> {
    let market = context.costs();
    let world = context.view.read();
    let pool = world.pool_called(name)?.clone();
    let own = world
        .machines
        .iter()
        .filter(|one| one.pool.as_ref() == Some(pool.id()))
        .count();
    let standing = match market.terms.closed.get(pool.id()) {
        Some(closed) => format!("It must not buy now: {closed}."),
        None => format!("It is open and has {own} machines."),
    };
    let mut facts = Vec::new();
    let used = joiner_controllers::guards::limits::usage(&world, pool.id(), None);
    for (resource, limit) in pool.pool.limits.resources.iter() {
        let used = used.resources.get(resource);
        facts.push(match &**resource {
            CPU => format!(
                "Limit of cpu: {} of {} cores used.",
                cores(used),
                cores(limit)
            ),
            MEMORY | EPHEMERAL_STORAGE => {
                format!("Limit of {resource}: {} of {} used.", gib(used), gib(limit))
            }
            _ => format!("Limit of {resource}: {used} of {limit} used."),
        });
    }
    drop(world);
    if let Some(last) = context
        .decisions
        .last(joiner_controllers::decisions::Loop::Disrupt)
    {
        let mut away: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for (of, reason, allowed) in joiner_core::disrupt::allowed(&last.problem) {
            if of == *pool.id() {
                away.entry(allowed).or_default().push(reason.to_string());
            }
        }
        for (allowed, reasons) in away {
            let s = if allowed == 1 { "" } else { "s" };
            let reasons = reasons.join(", ");
            facts.push(format!(
                "Its budgets let {allowed} node{s} be away at a time for each of: {reasons}."
            ));
        }
    }
    let notes = context
        .market
        .backoffs
        .notes(pool.id(), &pool.class.catalog(), context.now());
    for note in notes {
        let until = super::history::clock(note.next_try);
        let what = note.offering.map_or_else(
            || "The pool".to_owned(),
            |one| {
                format!(
                    "{} as {} in {}",
                    one.instance_type, one.capacity_type, one.zone
                )
            },
        );
        facts.push(format!(
            "{what} is tried again at {until}: {}.",
            note.because
        ));
    }
    Some(Found {
        name: name.to_owned(),
        standing,
        settled: false,
        subjects: vec![Subject::new(Kind::Pool, pool.id().clone())],
        bought: None,
        steps: Vec::new(),
        facts,
    })
}

fn machine(context: &Context, name: &str) -> Option<Found> {
    let world = context.view.read();
    let machine = world
        .machines
        .iter()
        .find(|one| *one.key.name == *name || one.key.to_string() == name)?;
    let standing = if machine.deleting.is_some() {
        "It is being removed."
    } else if machine.initialized() {
        "It is in use."
    } else if machine.registered() {
        "Its node has joined and is not in use yet."
    } else if machine.launched() {
        "It was bought, and its node has not joined yet."
    } else {
        "It was asked for, and is not bought yet."
    };
    let mut subjects = vec![Subject::new(Kind::Machine, machine.key.name.clone())];
    if let Some(node) = &machine.status.node {
        subjects.push(Subject::new(Kind::Node, node.clone()));
    }
    Some(Found {
        name: machine.key.to_string(),
        standing: standing.to_owned(),
        settled: false,
        subjects,
        bought: Some(bought(context, machine)),
        steps: steps(machine),
        facts: Vec::new(),
    })
}

fn steps(machine: &MachineRecord) -> Vec<Step> {
    let mut all: Vec<Step> = machine
        .status
        .conditions
        .sorted()
        .into_iter()
        .map(|one| Step {
            condition: one.kind.to_string(),
            status: match one.status {
                Truth::True => "True",
                Truth::False => "False",
                Truth::Unknown => "Unknown",
            }
            .to_owned(),
            since: one.since,
            sentence: if one.message.is_empty() {
                one.reason.to_string()
            } else {
                format!("{}: {}", one.reason, one.message)
            },
        })
        .collect();
    all.sort_by_key(|step| step.since);
    all
}

#[cfg(test)]
mod tests {
    use super::lasted;

    #[test]
    fn times_are_told_in_two_units() {
        for (seconds, said) in [
            (7, "7s"),
            (252, "4m12s"),
            (3700, "1h01m"),
            (200_000, "2d07h"),
        ] {
            assert_eq!(lasted(seconds), said);
        }
    }
}
