//! What a pod takes of a node, read from Kubernetes objects.

use std::collections::BTreeMap;

use joiner_core::name::Name;
use joiner_core::requests::{self, Container, InitContainer, PodResources, Resize};
use joiner_core::resources::{self, Resources};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Amounts in Kubernetes notation as integers. An amount that cannot be read counts as more than any machine has: the
/// pod then finds no place, and its name is in the reason, instead of being put where it does not fit.
pub fn lower_resources(amounts: Option<&BTreeMap<String, Quantity>>) -> Resources {
    amounts
        .into_iter()
        .flatten()
        .map(|(name, quantity)| {
            let amount = Resources::parse_amount(name, &quantity.0).unwrap_or(i64::MAX);
            (Name::from(name.as_str()), amount)
        })
        .collect()
}

/// Integers in Kubernetes notation.
pub fn quantity_map(amounts: &Resources) -> BTreeMap<String, String> {
    const GI: i64 = 1 << 30;
    const MI: i64 = 1 << 20;
    const KI: i64 = 1 << 10;
    amounts
        .iter()
        .map(|(name, amount)| {
            let bytes = &**name == resources::MEMORY
                || &**name == resources::EPHEMERAL_STORAGE
                || name.starts_with("hugepages-");
            let text = match amount {
                amount if &**name == resources::CPU && amount % 1000 == 0 => {
                    (amount / 1000).to_string()
                }
                amount if &**name == resources::CPU => format!("{amount}m"),
                amount if bytes && amount != 0 && amount % GI == 0 => format!("{}Gi", amount / GI),
                amount if bytes && amount != 0 && amount % MI == 0 => format!("{}Mi", amount / MI),
                amount if bytes && amount != 0 && amount % KI == 0 => format!("{}Ki", amount / KI),
                amount => amount.to_string(),
            };
            (name.to_string(), text)
        })
        .collect()
}

/// What the pod takes, one pod slot included. With a status, what its containers were really given counts too.
pub fn pod_requests(spec: &core::PodSpec, status: Option<&core::PodStatus>) -> Resources {
    let statuses = status.and_then(|status| status.container_statuses.as_deref());
    let init_statuses = status.and_then(|status| status.init_container_statuses.as_deref());
    let infeasible = status.is_some_and(|status| {
        status.conditions.iter().flatten().any(|one| {
            one.type_ == "PodResizePending" && one.reason.as_deref() == Some("Infeasible")
        })
    });
    let init = spec.init_containers.iter().flatten();
    requests::pod_requests(&PodResources {
        containers: spec
            .containers
            .iter()
            .map(|container| lower_container(container, statuses))
            .collect(),
        init_containers: init
            .map(|container| InitContainer {
                container: lower_container(container, init_statuses),
                sidecar: container.restart_policy.as_deref() == Some("Always"),
            })
            .collect(),
        pod_level: spec
            .resources
            .as_ref()
            .and_then(|one| one.requests.as_ref())
            .map(|amounts| lower_resources(Some(amounts))),
        overhead: lower_resources(spec.overhead.as_ref()),
        resize: if infeasible {
            Resize::Infeasible
        } else {
            Resize::Feasible
        },
    })
}

fn lower_container(
    container: &core::Container,
    statuses: Option<&[core::ContainerStatus]>,
) -> Container {
    let requests = |given: Option<&core::ResourceRequirements>| {
        lower_resources(given.and_then(|one| one.requests.as_ref()))
    };
    let status = statuses
        .into_iter()
        .flatten()
        .find(|status| status.name == container.name);
    Container {
        requests: requests(container.resources.as_ref()),
        actual: status
            .and_then(|status| status.resources.as_ref())
            .map(|given| requests(Some(given))),
        allocated: status
            .and_then(|status| status.allocated_resources.as_ref())
            .map(|amounts| lower_resources(Some(amounts))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> core::PodSpec {
        serde_json::from_value(value).unwrap()
    }

    fn cpu(value: serde_json::Value) -> i64 {
        pod_requests(&read(value), None).get("cpu")
    }

    #[test]
    fn init_containers_count_only_where_they_need_more() {
        let container =
            |name: &str, cpu: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu}}});
        let mut sidecar = container("s", "200m");
        sidecar["restartPolicy"] = json!("Always");
        assert_eq!(
            cpu(json!({"containers": [container("a", "500m"), container("b", "1")]})),
            1500
        );
        assert_eq!(
            cpu(
                json!({"containers": [container("a", "500m")], "initContainers": [container("i", "2")]})
            ),
            2000
        );
        assert_eq!(
            cpu(
                json!({"containers": [container("a", "500m")], "initContainers": [sidecar.clone()]})
            ),
            700
        );
        assert_eq!(
            cpu(
                json!({"containers": [container("a", "500m")], "initContainers": [sidecar, container("i", "600m")]})
            ),
            800
        );
    }

    #[test]
    fn pod_level_requests_and_overhead_are_heard() {
        assert_eq!(
            cpu(json!({
                "containers": [{"name": "a", "resources": {"requests": {"cpu": "500m"}}}],
                "resources": {"requests": {"cpu": "2"}},
                "overhead": {"cpu": "100m"}
            })),
            2100
        );
    }

    #[test]
    fn every_pod_takes_one_slot() {
        let requests = pod_requests(&read(json!({"containers": [{"name": "a"}]})), None);
        assert_eq!(requests, Resources::new().with("pods", 1));
    }

    #[test]
    fn amounts_are_written_as_people_write_them() {
        let amounts = Resources::new()
            .with("cpu", 3150)
            .with("memory", 5 << 30)
            .with("ephemeral-storage", 0)
            .with("pods", 110);
        let written: Vec<String> = quantity_map(&amounts).into_values().collect();
        assert_eq!(written, ["3150m", "0", "5Gi", "110"]);
    }
}
