//! Where the view comes from: watches of the cluster's own kinds.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use joiner_core::problem::{PodDisruptionBudget, UnhealthyPodEvictionPolicy};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1 as policy;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass, VolumeAttachment};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::Api;

use super::nodes::lower_node;
use super::pods::{LeanPod, daemon_set, lower_selector};
use super::volumes::{
    Named, lower_attachment, lower_claim, lower_class, lower_csi_node, lower_volume, named,
};
use super::watch::{Need, trusted};
use super::{Observation, View};
use crate::dialect::{Dialect, Watch};
use crate::edge::clients::Clients;
use crate::edge::tasks::Tasks;

/// Starts every watch. The view is ready when all of them have listed.
pub fn start(view: &Arc<View>, clients: &Clients, dialects: &[Arc<dyn Dialect>], tasks: &Tasks) {
    for dialect in dialects {
        for Watch { source, stream } in dialect.watch(clients) {
            view.expect(&source);
            let (view, name) = (view.clone(), source.clone());
            follow(tasks, &name, stream, move |sighting| {
                view.sight(&source, sighting);
            });
        }
    }
    for (source, stream) in observations(clients) {
        view.expect(source);
        let view = view.clone();
        follow(tasks, source, stream, move |seen| {
            view.observe(source, seen);
        });
    }
}

/// Hands on what a watch sees. A watch that has ended leaves a view that is out of date and looks as if it were not, so
/// that ends the process.
fn follow<T: Send + 'static>(
    tasks: &Tasks,
    source: &str,
    mut stream: BoxStream<'static, T>,
    see: impl Fn(T) + Send + 'static,
) {
    tasks.vital(format!("watch {source}"), async move {
        while let Some(seen) = stream.next().await {
            see(seen);
        }
    });
}

fn observations(clients: &Clients) -> Vec<(&'static str, BoxStream<'static, Observation>)> {
    let client = || clients.reads.clone();
    let pods = Api::<LeanPod>::all(client());
    let pods = trusted(pods, Need::Required, |pod| Box::new(pod.0));
    let nodes = trusted(Api::<Node>::all(client()), Need::Required, lower_node);
    let sets = trusted(
        Api::<DaemonSet>::all(client()),
        Need::Required,
        |set: DaemonSet| {
            let lowered = daemon_set(&set);
            named(&set, lowered)
        },
    );
    let budgets = trusted(
        Api::<policy::PodDisruptionBudget>::all(client()),
        Need::Required,
        |one: policy::PodDisruptionBudget| lower_budget(&one),
    );
    let namespaces = trusted(
        Api::<Namespace>::all(client()),
        Need::Required,
        |one: Namespace| {
            let labels = super::labels(one.metadata.labels.clone());
            named(&one, labels)
        },
    );
    let claims = trusted(
        Api::<PersistentVolumeClaim>::all(client()),
        Need::Required,
        |one: PersistentVolumeClaim| lower_claim(&one),
    );
    let volumes = trusted(
        Api::<PersistentVolume>::all(client()),
        Need::Required,
        |one: PersistentVolume| lower_volume(&one),
    );
    let classes = trusted(
        Api::<StorageClass>::all(client()),
        Need::Required,
        |one: StorageClass| lower_class(&one),
    );
    let drivers = trusted(
        Api::<CSINode>::all(client()),
        Need::Required,
        |one: CSINode| lower_csi_node(&one),
    );
    let attached = trusted(
        Api::<VolumeAttachment>::all(client()),
        Need::Required,
        |one: VolumeAttachment| lower_attachment(&one),
    );
    vec![
        ("pods", pods.map(Observation::Pod).boxed()),
        ("nodes", nodes.map(Observation::Node).boxed()),
        ("daemonsets", sets.map(Observation::DaemonSet).boxed()),
        (
            "poddisruptionbudgets",
            budgets.map(Observation::Budget).boxed(),
        ),
        ("namespaces", namespaces.map(Observation::Namespace).boxed()),
        (
            "persistentvolumeclaims",
            claims.map(Observation::Claim).boxed(),
        ),
        (
            "persistentvolumes",
            volumes.map(Observation::Volume).boxed(),
        ),
        (
            "storageclasses",
            classes.map(Observation::StorageClass).boxed(),
        ),
        ("csinodes", drivers.map(Observation::CsiNode).boxed()),
        (
            "volumeattachments",
            attached.map(Observation::Attachment).boxed(),
        ),
    ]
}

fn lower_budget(budget: &policy::PodDisruptionBudget) -> Named<PodDisruptionBudget> {
    let spec = budget.spec.clone().unwrap_or_default();
    let status = budget.status.clone().unwrap_or_default();
    // A status about older settings says nothing about these.
    let current =
        status.observed_generation.unwrap_or(0) >= budget.metadata.generation.unwrap_or(0);
    let nothing_may_go = |amount: &IntOrString| match amount {
        IntOrString::Int(count) => *count == 0,
        IntOrString::String(text) => text == "0%",
    };
    let all_must_stay = |amount: &IntOrString| match amount {
        // Karpenter overlooks this one and buys room for pods that will never leave.
        IntOrString::Int(count) => {
            current && status.expected_pods > 0 && *count >= status.expected_pods
        }
        IntOrString::String(text) => text == "100%",
    };
    let value = PodDisruptionBudget {
        namespace: budget.metadata.namespace.clone().unwrap_or_default().into(),
        name: budget.metadata.name.clone().unwrap_or_default().into(),
        selector: spec.selector.as_ref().map(lower_selector),
        disruptions_allowed: if current {
            u32::try_from(status.disruptions_allowed).unwrap_or(0)
        } else {
            0
        },
        never: spec.max_unavailable.as_ref().is_some_and(nothing_may_go)
            || spec.min_available.as_ref().is_some_and(all_must_stay),
        unhealthy_pod_eviction_policy: match spec.unhealthy_pod_eviction_policy.as_deref() {
            Some("AlwaysAllow") => UnhealthyPodEvictionPolicy::AlwaysAllow,
            _ => UnhealthyPodEvictionPolicy::IfHealthyBudget,
        },
    };
    named(budget, value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn budget(spec: &serde_json::Value, status: &serde_json::Value) -> PodDisruptionBudget {
        let object =
            json!({"metadata": {"name": "a", "generation": 2}, "spec": spec, "status": status});
        lower_budget(&serde_json::from_value(object).unwrap()).value
    }

    fn status(generation: i64) -> serde_json::Value {
        json!({
            "observedGeneration": generation, "disruptionsAllowed": 1,
            "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_ends_or_panics_ends_the_process() {
        let tasks = Tasks::new();
        let endless = futures::stream::pending::<u32>().boxed();
        follow(&tasks, "nodes", endless, |_| ());
        tokio::time::sleep(std::time::Duration::from_hours(1)).await;
        assert_eq!(tasks.failure(), None);
        follow(&tasks, "pods", futures::stream::iter([1]).boxed(), |_| ());
        tasks.failed().await;
        assert_eq!(tasks.failure(), Some("task watch pods ended"));
        let tasks = Tasks::new();
        let odd = futures::stream::iter([1]).boxed();
        follow(&tasks, "pods", odd, |_| panic!("cannot be read"));
        tasks.failed().await;
        let said = "task watch pods panicked: cannot be read";
        assert_eq!(tasks.failure(), Some(said));
    }

    #[test]
    fn a_budget_whose_status_is_out_of_date_allows_nothing() {
        assert_eq!(
            budget(&json!({"maxUnavailable": 1}), &status(1)).disruptions_allowed,
            0
        );
        assert_eq!(
            budget(&json!({"maxUnavailable": 1}), &status(2)).disruptions_allowed,
            1
        );
    }

    #[test]
    fn budgets_that_can_never_allow_anything_are_known() {
        for never in [
            json!({"maxUnavailable": 0}),
            json!({"maxUnavailable": "0%"}),
            json!({"minAvailable": "100%"}),
            json!({"minAvailable": 3}),
        ] {
            assert!(budget(&never, &status(2)).never, "{never}");
        }
        assert!(!budget(&json!({"minAvailable": 2}), &status(2)).never);
    }
}
