//! A Joiner that does what it must not, once for each invariant: the auditor sees it.

mod on_record;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::body::Body;
use http::Request;
use joiner_controllers::Decide;
use joiner_core::plan::Plan;
use joiner_core::problem::{Catalog, Problem};
use joiner_embedded::api::Local;
use joiner_providers::{
    LaunchRequest, Machine, MachineId, Notice, Provider, ProviderError, RepairPolicy,
};
use joiner_sim::audit::Invariant;
use serde_json::{Value, json};

use super::super::world::Run;
use super::{found, remove_all, tampered};
use crate::args::FaultKind;

const CLAIMS: &str = "nodeclaims.karpenter.sh";
const CLAIMS_PATH: &str = "/apis/karpenter.sh/v1/nodeclaims";
/// A process sends so much before it has begun to work.
const START: u64 = 100;

fn request(method: &str, path: &str, body: &Value) -> Option<Request<Body>> {
    let kind = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", kind);
    request.body(Body::from(body.to_string())).ok()
}

fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    object
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn ready(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    all.any(|one| one["type"] == kind && one["status"] == "True")
}

/// A claim of Joiner's that is in use and not to go.
fn claim_in_use(api: &Local) -> Option<Arc<Value>> {
    let all = api.list(CLAIMS);
    all.into_iter()
        .find(|one| ready(one, "Initialized") && one["metadata"]["deletionTimestamp"].is_null())
}

/// A pod that runs on the node of such a claim.
fn pod_in_use(api: &Local) -> Option<String> {
    let claim = claim_in_use(api)?;
    let node = text(&claim, "/status/nodeName").to_owned();
    let all = api.list("pods");
    let pod = all.iter().find(|pod| {
        text(pod, "/spec/nodeName") == node
            && pod["metadata"]["deletionTimestamp"].is_null()
            && text(pod, "/metadata/ownerReferences/0/kind") == "ReplicaSet"
    })?;
    Some(text(pod, "/metadata/name").to_owned())
}

fn touches_another_s_node(_: &Local, sent: u64) -> Option<Request<Body>> {
    let label = json!({"metadata": {"labels": {"a": sent.to_string()}}});
    (sent > START).then(|| request("PATCH", "/api/v1/nodes/theirs-2", &label))?
}

fn changes_a_pool(_: &Local, sent: u64) -> Option<Request<Body>> {
    let path = "/apis/karpenter.sh/v1/nodepools/pool-0";
    (sent > START).then(|| request("PATCH", path, &json!({"spec": {"weight": 7}})))?
}

fn marks_wrongly(api: &Local, _: u64) -> Option<Request<Body>> {
    let claim = claim_in_use(api)?;
    let path = format!("/api/v1/nodes/{}", text(&claim, "/status/nodeName"));
    let mark = json!({"metadata": {"annotations": {"joiner.dev/machine-uid": "another"}}});
    request("PATCH", &path, &mark)
}

fn deletes_a_pod(api: &Local, _: u64) -> Option<Request<Body>> {
    let path = format!("/api/v1/namespaces/default/pods/{}", pod_in_use(api)?);
    request("DELETE", &path, &json!({}))
}

fn evicts_from_a_node_that_stays(api: &Local, _: u64) -> Option<Request<Body>> {
    let name = pod_in_use(api)?;
    let path = format!("/api/v1/namespaces/default/pods/{name}/eviction");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"}});
    request("POST", &path, &eviction)
}

fn does_not_wait_for_replacements(api: &Local, _: u64) -> Option<Request<Body>> {
    let all = api.list(CLAIMS);
    let is_ready = |name: &Value| {
        let mut claims = all.iter();
        claims.any(|one| one["metadata"]["name"] == *name && ready(one, "Initialized"))
    };
    let waits = |one: &&Arc<Value>| {
        let intent = text(one, "/metadata/annotations/joiner.dev~1disruption");
        let intent: Value = serde_json::from_str(intent).unwrap_or_default();
        let replacements = intent["replacements"].as_array();
        replacements.is_some_and(|names| names.iter().any(|name| !is_ready(name)))
            && one["metadata"]["deletionTimestamp"].is_null()
    };
    let name = text(all.iter().find(waits)?, "/metadata/name");
    request("DELETE", &format!("{CLAIMS_PATH}/{name}"), &json!({}))
}

fn asks_for_more_than_the_limit(api: &Local, sent: u64) -> Option<Request<Body>> {
    let more = api.list(CLAIMS).into_iter();
    let more = more.filter(|one| text(one, "/metadata/name").starts_with("more-"));
    // No world's limit is higher, and every one of them makes Joiner send more.
    if more.count() > 30 {
        return None;
    }
    let pool = api.get("nodepools.karpenter.sh", "", "pool-0").ok()?;
    let class = pool["spec"]["template"]["spec"]["nodeClassRef"].clone();
    let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": format!("more-{sent}"), "labels": {"karpenter.sh/nodepool": "pool-0"},
            "annotations": {"joiner.dev/managed-by": "embedded.karpenter"}},
        "spec": {"nodeClassRef": class, "requirements": []}});
    request("POST", CLAIMS_PATH, &claim)
}

/// Once a second: more often, and no time would pass at all.
fn writes_for_ever(api: &Local, _: u64) -> Option<Request<Body>> {
    let claim = claim_in_use(api)?;
    let path = format!("{CLAIMS_PATH}/{}", text(&claim, "/metadata/name"));
    let second = api.clock().now().as_second().to_string();
    let written = text(&claim, "/metadata/annotations/a") == second;
    let note = json!({"metadata": {"annotations": {"a": second}}});
    (!written).then(|| request("PATCH", &path, &note))?
}

fn works_in_circles(api: &Local, sent: u64) -> Option<Request<Body>> {
    if sent == START {
        let leases = "leases.coordination.k8s.io";
        let lease = json!({"metadata": {"name": "round"}, "spec": {}});
        let mut lease = Value::clone(&*api.create(leases, "default", lease).ok()?);
        for turn in 0..20_000 {
            lease["spec"]["leaseTransitions"] = json!(turn + 1);
            lease = Value::clone(&*api.update(leases, lease).ok()?);
        }
    }
    None
}

fn leaves_a_mark(api: &Local, _: u64) -> Option<Request<Body>> {
    let claim = claim_in_use(api)?;
    let path = format!("{CLAIMS_PATH}/{}", text(&claim, "/metadata/name"));
    // It cannot be read, so it is not taken off.
    let mark = json!({"metadata": {"annotations": {"joiner.dev/disruption": "?"}}});
    let marked = !text(&claim, "/metadata/annotations/joiner.dev~1disruption").is_empty();
    (!marked).then(|| request("PATCH", &path, &mark))?
}

/// A pod that no node has, and of which this holds.
fn waiting(api: &Local, wanted: impl Fn(&Value) -> bool) -> Option<Arc<Value>> {
    let mut all = api.list("pods").into_iter();
    all.find(|pod| text(pod, "/spec/nodeName").is_empty() && wanted(pod))
}

fn binds_where_it_must_not(api: &Local, _: u64) -> Option<Request<Body>> {
    let pod = waiting(api, |pod| !pod["spec"]["nodeSelector"].is_null())?;
    let name = text(&pod, "/metadata/name");
    let path = format!("/api/v1/namespaces/default/pods/{name}/binding");
    let binding = json!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "namespace": "default"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "foreign-0"}});
    request("POST", &path, &binding)
}

fn promises_what_does_not_come(api: &Local, _: u64) -> Option<Request<Body>> {
    let promised = |pod: &Value| !text(pod, "/status/nominatedNodeName").is_empty();
    let pod = waiting(api, |pod| !promised(pod))?;
    let name = text(&pod, "/metadata/name");
    let path = format!("/api/v1/namespaces/default/pods/{name}/status");
    let promise = json!({"status": {"nominatedNodeName": "foreign-0"}});
    request("PATCH", &path, &promise)
}

/// How a provider fails Joiner, or Joiner its machines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// Machines are said to be gone that are not.
    SaysGone,
    /// Machines are said to go that do not.
    DoesNothing,
    /// Machines go, and it cannot be found out.
    SaysNothing,
    /// A machine is stopped whatever runs on it.
    StopsOne,
}

struct Doubled {
    provider: Arc<dyn Provider>,
    fault: Fault,
    asked: Mutex<BTreeSet<MachineId>>,
    done: AtomicBool,
}

fn doubled(provider: Arc<dyn Provider>, fault: Fault) -> Arc<dyn Provider> {
    Arc::new(Doubled {
        provider,
        fault,
        asked: Mutex::default(),
        done: AtomicBool::new(false),
    })
}

impl Doubled {
    fn silence(&self, id: &MachineId) -> Result<(), ProviderError> {
        if self.fault == Fault::SaysNothing && self.asked.lock().unwrap().contains(id) {
            return Err(ProviderError::Transient("no answer".to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl Provider for Doubled {
    fn name(&self) -> &'static str {
        self.provider.name()
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        self.provider.catalog().await
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        self.provider.launch(request).await
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        self.silence(id)?;
        match self.fault {
            Fault::SaysGone => Err(ProviderError::NotFound(id.to_string())),
            Fault::DoesNothing => Ok(()),
            Fault::SaysNothing => {
                self.provider.terminate(id).await?;
                self.asked.lock().unwrap().insert(id.clone());
                self.silence(id)
            }
            Fault::StopsOne => self.provider.terminate(id).await,
        }
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        self.silence(id)?;
        self.provider.get(id).await
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        let all = self.provider.list().await?;
        if self.fault == Fault::StopsOne
            && let Some(one) = all.iter().find(|one| one.uid.is_some())
            && !self.done.swap(true, Ordering::Relaxed)
        {
            self.provider.terminate(&one.id).await?;
        }
        Ok(all)
    }

    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError> {
        self.provider.drift(machine).await
    }

    async fn notices(&self) -> Result<Vec<Notice>, ProviderError> {
        self.provider.notices().await
    }

    async fn clear(&self) -> Result<(), ProviderError> {
        self.provider.clear().await
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.provider.repair_policies()
    }
}

/// Panics at the first plan.
struct Panics;

impl Decide for Panics {
    fn provision(&self, _: &Problem) -> Plan {
        panic!("as it should in this test")
    }

    fn disrupt(&self, _: &Problem) -> Plan {
        Plan::default()
    }
}

/// A world of an hour in which Joiner does what it must not.
fn sabotaged(invariant: Invariant) -> Run {
    let calm = Run {
        hours: 1,
        ..Run::default()
    };
    let stray = |stray| Run {
        stray: Some(stray),
        ..calm.clone()
    };
    let double = |double| Run {
        double: Some(double),
        ..calm.clone()
    };
    match invariant {
        Invariant::OneMachine => Run {
            faults: vec![FaultKind::Cloud, FaultKind::Crash],
            tamper: Some(|options| options.forgets_orders = true),
            hours: 2,
            ..calm
        },
        Invariant::Foreign => stray(touches_another_s_node),
        Invariant::MachineFirst => double(|provider| doubled(provider, Fault::SaysGone)),
        Invariant::Limits => stray(asks_for_more_than_the_limit),
        Invariant::Budgets => tampered(|_, plan| plan, remove_all),
        Invariant::Evictions => stray(deletes_a_pod),
        Invariant::Protected => stray(evicts_from_a_node_that_stays),
        Invariant::ReplacementsFirst => Run {
            hours: 4,
            ..stray(does_not_wait_for_replacements)
        },
        Invariant::Drained => double(|provider| doubled(provider, Fault::StopsOne)),
        Invariant::NoPanic => Run {
            decide: Some(Arc::new(Panics)),
            ..calm
        },
        Invariant::TimePasses => stray(works_in_circles),
        Invariant::OwnFields => stray(changes_a_pool),
        Invariant::Marked => stray(marks_wrongly),
        Invariant::Rest => stray(writes_for_ever),
        Invariant::Placed => stray(binds_where_it_must_not),
        Invariant::Promised => stray(promises_what_does_not_come),
        Invariant::PodsRun => tampered(|_, _| Plan::default(), |_, plan| plan),
        Invariant::NothingLeaked => Run {
            hours: 3,
            ..double(|provider| doubled(provider, Fault::SaysNothing))
        },
        Invariant::DeletionsEnd => double(|provider| doubled(provider, Fault::DoesNothing)),
        Invariant::MarksRemoved => stray(leaves_a_mark),
    }
}

/// In some world the first thing that goes wrong is this: a world ends with it, and one fault may break several promises.
fn caught(invariant: Invariant) {
    caught_in(&sabotaged(invariant), invariant);
}

fn caught_in(run: &Run, invariant: Invariant) {
    let mut others = Vec::new();
    for seed in 0..20 {
        let run = Run {
            seed,
            ..run.clone()
        };
        let outcome = run.play().unwrap();
        if found(&outcome).contains(&invariant) {
            return;
        }
        let told = outcome.violations.into_iter();
        others.extend(told.map(|one| format!("seed {seed}: {}", one.message)));
    }
    panic!("not {invariant:?}: {others:#?}");
}

/// A test for each invariant, so that they run side by side.
macro_rules! sabotages {
    ($($(#[$attribute:meta])* $test:ident: $invariant:ident,)*) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $test() {
                caught(Invariant::$invariant);
            }
        )*

        #[test]
        fn every_invariant_has_its_sabotage() {
            let all = [$(Invariant::$invariant),*];
            assert!(Invariant::ALL.iter().all(|one| all.contains(one)));
        }
    };
}

sabotages! {
    two_machines_for_one_object_are_caught: OneMachine,
    a_write_to_what_another_owns_is_caught: Foreign,
    an_object_that_goes_before_its_machine_is_caught: MachineFirst,
    a_pool_beyond_its_limit_is_caught: Limits,
    too_many_nodes_disrupted_at_once_are_caught: Budgets,
    a_pod_deleted_without_an_eviction_is_caught: Evictions,
    an_eviction_from_a_node_that_stays_is_caught: Protected,
    a_node_gone_before_its_replacement_is_in_use_is_caught: ReplacementsFirst,
    a_machine_stopped_under_pods_is_caught: Drained,
    a_panic_is_caught: NoPanic,
    work_in_circles_is_caught: TimePasses,
    a_write_to_a_users_pool_is_caught: OwnFields,
    a_wrong_mark_is_caught: Marked,
    a_writer_that_never_rests_is_caught: Rest,
    a_pod_bound_against_its_rules_is_caught: Placed,
    a_promise_that_is_not_kept_is_caught: Promised,
    pods_left_waiting_are_caught: PodsRun,
    a_machine_that_cannot_be_found_out_about_is_caught: NothingLeaked,
    a_deletion_that_never_ends_is_caught: DeletionsEnd,
    a_mark_left_behind_is_caught: MarksRemoved,
}
