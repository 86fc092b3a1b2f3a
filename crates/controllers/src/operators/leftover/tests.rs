use joiner_core::leftover::{Choice, Market};
use serde_json::{Value, json};

use super::*;

fn pool(spec: &Value) -> LeftoverNodePool {
    let object = json!({"apiVersion": "gpu.devplatforms.io/v1alpha1", "kind": "LeftoverNodePool",
        "metadata": {"name": "gpu-spot-euc1", "uid": "u-1"}, "spec": spec});
    serde_json::from_value(object).unwrap()
}

fn documented() -> LeftoverNodePool {
    pool(&json!({
        "region": "eu-central-1", "families": ["g5", "g6", "p5"], "capacityType": "spot", "targetCount": 2,
        "maxInstanceTypes": 5, "maxZones": 2, "budgetsNodes": "10%", "consolidateAfter": "2m",
        "labels": {"workload": "gpu", "nvidia.com/gpu.present": "true"},
        "taints": ["nvidia.com/gpu=true:NoSchedule"],
        "subnetSelectorTags": {"kubernetes.io/role/internal-elb": "1", "kubernetes.io/cluster/your-cluster": "owned"},
        "securityGroupSelectorTags": {"kubernetes.io/cluster/your-cluster": "owned"},
    }))
}

fn choice() -> Choice {
    Choice {
        types: vec!["g6.xlarge".into(), "g5.xlarge".into()],
        zones: vec!["eu-central-1b".into(), "eu-central-1a".into()],
    }
}

#[test]
fn every_field_of_the_document_lands_in_the_node_pool() {
    let rendered = node_pool(
        &documented(),
        &choice(),
        &Market::default(),
        "leftover-gpu-spot-euc1-class",
    );
    assert_eq!(
        rendered,
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool",
            "metadata": {"name": "leftover-gpu-spot-euc1", "labels": {"managed-by": "leftover"},
                "ownerReferences": [{"apiVersion": "gpu.devplatforms.io/v1alpha1", "kind": "LeftoverNodePool",
                    "name": "gpu-spot-euc1", "uid": "u-1", "controller": true, "blockOwnerDeletion": true}]},
            "spec": {
                "weight": 50,
                "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "2m",
                    "budgets": [{"nodes": "10%"}]},
                "template": {
                    "metadata": {"labels": {"workload": "gpu", "nvidia.com/gpu.present": "true"}},
                    "spec": {
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass",
                            "name": "leftover-gpu-spot-euc1-class"},
                        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}],
                        "requirements": [
                            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g5.xlarge", "g6.xlarge"]},
                            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["eu-central-1a", "eu-central-1b"]},
                        ],
                    },
                },
            },
        })
    );
}

#[test]
fn a_class_needs_a_role_from_somewhere_and_says_so() {
    let none = ClassDefaults::default();
    let refused = node_class(&documented(), &none, ClassVersion::V1).unwrap_err();
    assert!(refused.contains("--aws-node-role"), "{refused}");
    let defaults = ClassDefaults {
        role: Some("KarpenterNodeRole".into()),
        ..none
    };
    let class = node_class(&documented(), &defaults, ClassVersion::V1).unwrap();
    assert_eq!(class["metadata"]["name"], "leftover-gpu-spot-euc1-class");
    assert_eq!(class["spec"]["role"], "KarpenterNodeRole");
    assert_eq!(
        class["spec"]["amiSelectorTerms"],
        json!([{"alias": "al2023@latest"}])
    );
    assert_eq!(
        class["spec"]["subnetSelectorTerms"][0]["tags"]["kubernetes.io/role/internal-elb"],
        "1"
    );
    let older = node_class(&documented(), &defaults, ClassVersion::V1beta1).unwrap();
    assert_eq!(older["apiVersion"], "karpenter.k8s.aws/v1beta1");
    assert_eq!(older["spec"]["amiFamily"], "AL2023");
}

#[test]
fn empty_tags_cannot_be_rendered() {
    let pool = pool(&json!({"region": "eu-central-1", "role": "r"}));
    let refused = node_class(&pool, &ClassDefaults::default(), ClassVersion::V1).unwrap_err();
    assert!(refused.contains("spec.subnetSelectorTags"), "{refused}");
}

#[test]
fn durations_become_what_karpenter_reads() {
    let after = |text: &str| {
        let pool = pool(&json!({"region": "eu-central-1", "consolidateAfter": text}));
        let rendered = node_pool(&pool, &choice(), &Market::default(), "c");
        rendered["spec"]["disruption"]["consolidateAfter"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(after("2m"), "2m");
    assert_eq!(after("1h30m"), "1h30m");
    assert_eq!(after("1.5h"), "5400s");
    assert_eq!(after("100ms"), "1s");
    assert_eq!(after("Never"), "Never");
}

#[test]
fn a_closed_fallback_takes_no_more_nodes_and_an_open_one_goes_first() {
    let open = fallback_pool(&documented(), &choice(), &Market::default(), "c", true);
    assert_eq!(open["spec"]["weight"], 60);
    assert_eq!(open["spec"]["limits"], Value::Null);
    assert_eq!(
        open["spec"]["template"]["spec"]["requirements"][1]["values"],
        json!(["on-demand"])
    );
    let closed = fallback_pool(&documented(), &choice(), &Market::default(), "c", false);
    assert_eq!(closed["spec"]["limits"], json!({"cpu": "0"}));
    assert_eq!(
        closed["metadata"]["name"],
        "leftover-gpu-spot-euc1-on-demand"
    );
}

#[test]
fn a_closed_pool_takes_no_more_nodes_and_allows_those_that_run() {
    let open = node_pool(&documented(), &choice(), &Market::default(), "c");
    assert_eq!(
        open["spec"]["limits"],
        Value::Null,
        "limits are the user's to set"
    );
    let shut = closed(open.clone());
    assert_eq!(shut["spec"]["limits"], json!({"cpu": "0"}));
    assert_eq!(shut["spec"]["template"], open["spec"]["template"]);
}

/// Names of labels by name of metric, as Prometheus reads them.
fn exposed() -> BTreeMap<String, BTreeSet<String>> {
    let mut registry = Registry::default();
    let metrics = LeftoverMetrics::register(&mut registry);
    let pool = || "p".to_owned();
    let of = metrics::Pool { pool: pool() };
    let what = metrics::PoolWhat {
        pool: pool(),
        what: "w".to_owned(),
    };
    let region = metrics::PoolRegion {
        pool: pool(),
        region: "r".to_owned(),
    };
    for family in [&metrics.per_gpu, &metrics.price] {
        family.get_or_create(&of).set(1.0);
    }
    for family in [&metrics.types, &metrics.zones, &metrics.fallback] {
        family.get_or_create(&of).set(1);
    }
    for family in [&metrics.changes, &metrics.applied] {
        family.get_or_create(&what).inc();
    }
    metrics.scores.get_or_create(&what).set(1);
    metrics.age.get_or_create(&what).set(1.0);
    metrics.region_per_gpu.get_or_create(&region).set(1.0);
    metrics.region_recommended.get_or_create(&region).set(1);
    metrics.configurations.set(1);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let labels = labels.trim_end_matches('}').split(',');
        let labels = labels.filter_map(|one| Some(one.split_once('=')?.0.to_owned()));
        all.insert(name.to_owned(), labels.collect());
    }
    all
}

/// Every text under a key, wherever it stands.
fn texts<'a>(key: &str, value: &'a Value, into: &mut Vec<&'a str>) {
    match value {
        Value::Object(all) => {
            for (name, value) in all {
                match value.as_str() {
                    Some(text) if name == key => into.push(text),
                    _ => texts(key, value, into),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|value| texts(key, value, into)),
        _ => {}
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(move |c| !part(c))
        .filter(|word| !word.is_empty())
}

#[test]
fn the_dashboard_asks_for_metrics_and_labels_that_there_are() {
    let text = include_str!("../../../../../charts/leftover/files/dashboards/leftover.json");
    let dashboard: Value = serde_json::from_str(text).unwrap();
    let exposed = exposed();
    let mut shown = BTreeSet::new();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 10);
    for panel in panels {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            let metric = words(query)
                .find(|word| word.starts_with("leftover_"))
                .unwrap();
            let labels = exposed
                .get(metric)
                .unwrap_or_else(|| panic!("{query}: there is no {metric}"));
            shown.insert(metric.to_owned());
            // Labels that it selects by, sums by and writes beside the line.
            let within = |open: char, close: char| {
                let inside = query
                    .split_once(open)
                    .and_then(|(_, rest)| rest.split_once(close));
                inside.map_or("", |(inside, _)| inside)
            };
            let selected = within('{', '}')
                .split(',')
                .filter_map(|one| one.split('=').next());
            let by = query
                .split_once("by (")
                .map_or("", |(_, rest)| rest.split(')').next().unwrap());
            let legend = target["legendFormat"].as_str().unwrap().split("{{").skip(1);
            let legend = legend.filter_map(|rest| rest.split("}}").next());
            for label in selected
                .chain(words(by))
                .chain(legend)
                .filter(|one| !one.is_empty())
            {
                assert!(
                    labels.contains(label),
                    "{query}: {metric} has no label {label}"
                );
            }
        }
    }
    let mut queries = Vec::new();
    texts("query", &dashboard["templating"], &mut queries);
    assert!(queries.iter().any(|query| {
        words(query).any(|word| {
            exposed
                .get(word)
                .is_some_and(|labels| labels.contains("pool"))
        })
    }));
    let all: BTreeSet<String> = exposed.into_keys().collect();
    assert_eq!(shown, all, "every metric is on the dashboard");
}
