//! What users do to a cluster, and what the world does to machines.

use joiner_embedded::api::{DeleteOptions, Local, Status};
use joiner_embedded::cluster::Cluster;
use joiner_providers::MachineId;
use joiner_sim::clouds::watched::Watched;
use serde_json::{Value, json};

use super::scenario::Action;
use super::seats::{Seat, seats};
use crate::wiring::EMBEDDED;

const BUDGETS: &str = "poddisruptionbudgets.policy";
const PROTECTED: &str = "karpenter.sh/do-not-disrupt";

/// Carries an action out, and says what was done in a line. An action about something that is not there does nothing.
pub(crate) fn carry_out(action: &Action, cluster: &Cluster, clouds: &[&dyn Watched]) -> String {
    let api = cluster.api();
    let (what, done) = match action {
        Action::Create(resource, namespace, object) => (
            format!("create {resource} {}", object["metadata"]["name"]),
            api.create(resource, namespace, object.clone()).map(drop),
        ),
        Action::Scale(name, replicas) => (
            format!("scale {name} to {replicas}"),
            change(&api, "deployments.apps", "default", name, |object| {
                object["spec"]["replicas"] = json!(replicas);
            }),
        ),
        Action::Rollout(name, template) => (
            format!("roll {name} out"),
            change(&api, "deployments.apps", "default", name, |object| {
                object["spec"]["template"] = template.clone();
            }),
        ),
        Action::Unprotect(name, template) => (
            format!("give up the protection of {name}"),
            unprotect(&api, name, template),
        ),
        Action::EditPool(pools, name, edit) => (
            format!("edit {pools} {name}: {edit}"),
            change(&api, pools, namespace(name), plain(name), |object| {
                merge(object, edit);
            }),
        ),
        Action::Delete(resource, name) => (
            format!("delete {resource} {name}"),
            delete(&api, resource, name),
        ),
        Action::Interrupt(which) => return interrupt(*which, clouds),
        Action::Kill(which) => match pick(&own_nodes(&api), *which) {
            Some(node) => {
                cluster.kubelets().kill(&node);
                (format!("the machine of node {node} dies"), Ok(()))
            }
            None => return nothing(action),
        },
        Action::DeleteMachine(which) => match pick(&own_claims(&api), *which) {
            Some((resource, name)) => (
                format!("delete {resource} {name}"),
                delete(&api, resource, &name),
            ),
            None => return nothing(action),
        },
        Action::DeleteNode(which) => match pick(&own_nodes(&api), *which) {
            Some(name) => (
                format!("delete node {name}"),
                api.delete("nodes", "", &name, DeleteOptions::default()),
            ),
            None => return nothing(action),
        },
        Action::DeleteExpiring(pool) => (
            format!("delete machine objects of {pool} that would expire"),
            expiring(&api, pool).iter().try_for_each(|name| {
                api.delete(
                    "nodeclaims.karpenter.sh",
                    "",
                    name,
                    DeleteOptions::default(),
                )
            }),
        ),
    };
    match done {
        Ok(()) => what,
        Err(refused) => format!("{what}: {refused}"),
    }
}

fn nothing(action: &Action) -> String {
    format!("{action:?}: there is none")
}

fn interrupt(which: usize, clouds: &[&dyn Watched]) -> String {
    let machines: Vec<(&dyn Watched, MachineId)> = clouds
        .iter()
        .flat_map(|cloud| cloud.marked().into_iter().map(move |id| (*cloud, id)))
        .collect();
    let Some((cloud, id)) = pick(&machines, which) else {
        return "there is no machine to interrupt".to_owned();
    };
    cloud.interrupt(&id);
    format!("the cloud wants machine {id} back")
}

fn pick<T: Clone>(of: &[T], which: usize) -> Option<T> {
    of.get(which.checked_rem(of.len())?).cloned()
}

/// Whether an object bears the mark of a family of this cluster.
fn is_marked(object: &Value, family: &str) -> bool {
    object["metadata"]["annotations"]["joiner.dev/managed-by"] == format!("{EMBEDDED}.{family}")
}

/// Nodes that Joiner's machines became.
fn own_nodes(api: &Local) -> Vec<String> {
    names(api, "nodes", |node| {
        seats().any(|seat| is_marked(node, seat.rules.name))
    })
}

/// Machine objects of Joiner's, each with its resource; namespace and name where they have one.
fn own_claims(api: &Local) -> Vec<(&'static str, String)> {
    let of = |seat: &'static Seat| {
        let mut all = api.list(seat.rules.machines);
        all.retain(|claim| is_marked(claim, seat.rules.name));
        all.into_iter().filter_map(|claim| {
            let name = claim["metadata"]["name"].as_str()?;
            let key = match claim["metadata"]["namespace"].as_str() {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name.to_owned(),
            };
            Some((seat.rules.machines, key))
        })
    };
    seats().flat_map(of).collect()
}

/// Machine objects of a pool that expire one day.
fn expiring(api: &Local, pool: &str) -> Vec<String> {
    names(api, "nodeclaims.karpenter.sh", |claim| {
        let expires = claim["spec"]["expireAfter"].as_str();
        claim["metadata"]["labels"]["karpenter.sh/nodepool"] == pool
            && expires.is_some_and(|after| after != "Never")
    })
}

/// Gives up every disruption budget that lets nobody go, and says which these were.
pub(crate) fn lift_budgets(api: &Local) -> Vec<String> {
    let closed = names(api, BUDGETS, |budget| {
        budget["status"]["disruptionsAllowed"].as_i64() == Some(0)
    });
    closed
        .into_iter()
        .map(|name| {
            let done = api.delete(BUDGETS, "default", &name, DeleteOptions::default());
            match done {
                Ok(()) => format!("give up budget {name}"),
                Err(refused) => format!("give up budget {name}: {refused}"),
            }
        })
        .collect()
}

/// A rollout alone may wait for room that the protected pods take: they may go at once.
fn unprotect(api: &Local, name: &str, template: &Value) -> Result<(), Status> {
    change(api, "deployments.apps", "default", name, |object| {
        object["spec"]["template"] = template.clone();
    })?;
    let protected = names(api, "pods", |pod| {
        pod["metadata"]["labels"]["app"] == name
            && pod["metadata"]["annotations"][PROTECTED].is_string()
    });
    protected.iter().try_for_each(|pod| {
        change(api, "pods", "default", pod, |object| {
            if let Some(notes) = object["metadata"]["annotations"].as_object_mut() {
                notes.remove(PROTECTED);
            }
        })
    })
}

fn names(api: &Local, resource: &str, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
    let all = api.list(resource);
    all.iter()
        .filter(|object| wanted(object))
        .filter_map(|object| object["metadata"]["name"].as_str())
        .map(ToOwned::to_owned)
        .collect()
}

/// The namespace of a key; empty for what has none.
fn namespace(key: &str) -> &str {
    key.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// The name of a key.
fn plain(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, name)| name)
}

fn delete(api: &Local, resource: &str, key: &str) -> Result<(), Status> {
    api.delete(
        resource,
        namespace(key),
        plain(key),
        DeleteOptions::default(),
    )
}

fn change(
    api: &Local,
    resource: &str,
    namespace: &str,
    name: &str,
    change: impl FnOnce(&mut Value),
) -> Result<(), Status> {
    let mut object = Value::clone(&*api.get(resource, namespace, name)?);
    change(&mut object);
    api.update(resource, object).map(drop)
}

/// A JSON merge, without deletions.
fn merge(into: &mut Value, patch: &Value) {
    match patch.as_object() {
        Some(fields) => {
            for (key, value) in fields {
                merge(&mut into[key.as_str()], value);
            }
        }
        None => *into = patch.clone(),
    }
}
