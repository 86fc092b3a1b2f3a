//! Bad inputs: refused at admission with a sentence that names the field and the way out, or turned into conditions of that
//! object while the others go on.

use reqwest::Method;
use serde_json::{Value, json};

use super::LEFTOVERS;
use super::region::{Classes, POOLS, Region, condition, documented};
use crate::harness::text;

fn minimal() -> Value {
    json!({"apiVersion": "gpu.devplatforms.io/v1alpha1", "kind": "LeftoverNodePool",
        "metadata": {"name": "a"}, "spec": {"region": "eu-central-1"}})
}

pub(super) async fn lo_01_every_field_has_its_default_and_nonsense_is_refused_at_admission() {
    let region = Region::start(Classes::V1).await;
    let minimal = minimal();
    let path = format!("{LEFTOVERS}?dryRun=All&fieldValidation=Strict");
    let admitted = region
        .client
        .send(Method::POST, &path, Some(&minimal))
        .await
        .unwrap();
    let spec = &admitted["spec"];
    for (field, default) in [
        ("minGPUs", json!(1)),
        ("targetCount", json!(2)),
        ("minSpotScore", json!(5)),
        ("maxInstanceTypes", json!(5)),
        ("maxZones", json!(2)),
        ("capacityType", json!("spot")),
        ("budgetsNodes", json!("10%")),
        ("consolidateAfter", json!("2m")),
        ("requeueMinutes", json!(7)),
        ("onDemandFallback", json!(true)),
        ("regionPolicy", json!("Recommend")),
    ] {
        assert_eq!(spec[field], default, "{field}");
    }
    for (field, value, says) in refused() {
        let mut bad = minimal.clone();
        bad["spec"][field] = value.clone();
        let answer = region.client.send(Method::POST, &path, Some(&bad)).await;
        let Err(refused) = answer else {
            panic!("{field}: {value} was accepted");
        };
        // The answer is JSON, in which quotes are escaped.
        let said = format!("{refused:#}").replace("\\\"", "\"");
        assert!(said.contains(says), "{field}: {value}: {said}");
    }
    for (field, value) in accepted() {
        let mut good = minimal.clone();
        good["spec"][field] = value.clone();
        let answer = region.client.send(Method::POST, &path, Some(&good)).await;
        answer.unwrap_or_else(|error| panic!("{field}: {value}: {error:#}"));
    }
    let mut none = minimal.clone();
    none["spec"] = json!({});
    let refused = region.client.send(Method::POST, &path, Some(&none)).await;
    assert!(format!("{:#}", refused.unwrap_err()).contains("spec.region"));
    let mut both = minimal;
    both["spec"]["nodeClassName"] = "a".into();
    both["spec"]["nodeClassSelector"] = json!({"a": "b"});
    let refused = region.client.send(Method::POST, &path, Some(&both)).await;
    let said = format!("{:#}", refused.unwrap_err());
    assert!(
        said.contains("only one of nodeClassName or nodeClassSelector"),
        "{said}"
    );
}

/// What admission refuses, and which words its sentence has.
fn refused() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("region", json!(""), "region"),
        ("region", json!("nowhere"), "expected like eu-central-1"),
        (
            "region",
            json!("EU-Central-1"),
            "expected like eu-central-1",
        ),
        (
            "region",
            json!("eu-central-1 "),
            "expected like eu-central-1",
        ),
        (
            "region",
            json!("eu-céntral-1"),
            "expected like eu-central-1",
        ),
        ("region", json!(1), "spec.region"),
        ("region", Value::Null, "spec.region"),
        ("regions", json!(["there"]), "expected like eu-central-1"),
        ("regions", json!(vec!["eu-west-1"; 10]), "spec.regions"),
        ("regionPolicy", json!("Best"), "regionPolicy"),
        (
            "families",
            json!(["G5"]),
            "spec.families contains invalid value \"G5\"",
        ),
        (
            "families",
            json!([""]),
            "spec.families contains invalid value",
        ),
        (
            "families",
            json!(["g5*"]),
            "spec.families contains invalid value",
        ),
        ("families", json!("g5"), "spec.families"),
        ("families", json!(vec!["g5"; 101]), "spec.families"),
        ("minGPUs", json!(0), "minGPUs"),
        ("minGPUs", json!("1"), "minGPUs"),
        ("minGPUs", json!(1.5), "minGPUs"),
        ("maxZones", json!(0), "maxZones"),
        ("maxInstanceTypes", json!(-1), "maxInstanceTypes"),
        ("requeueMinutes", json!(0), "requeueMinutes"),
        ("targetCount", json!("2"), "targetCount"),
        ("capacityType", json!("reserved"), "capacityType"),
        ("onDemandFallback", json!("true"), "onDemandFallback"),
        ("budgetsNodes", json!("150%"), "spec.budgetsNodes"),
        ("budgetsNodes", json!("101%"), "not \"101%\""),
        ("budgetsNodes", json!("010%"), "spec.budgetsNodes"),
        ("budgetsNodes", json!("5.5%"), "spec.budgetsNodes"),
        ("budgetsNodes", json!("-1"), "spec.budgetsNodes"),
        ("budgetsNodes", json!(10), "budgetsNodes"),
        ("consolidateAfter", json!("30"), "spec.consolidateAfter"),
        ("consolidateAfter", json!("1d"), "not \"1d\""),
        ("consolidateAfter", json!("-5m"), "spec.consolidateAfter"),
        ("consolidateAfter", json!("1h30"), "spec.consolidateAfter"),
        ("consolidateAfter", json!("never"), "spec.consolidateAfter"),
        ("taints", json!(["a"]), "spec.taints"),
        ("taints", json!(["a=b"]), "spec.taints"),
        ("taints", json!(["a=b:X"]), "\"a=b:X\" is not a taint"),
        ("taints", json!(["=:NoSchedule"]), "spec.taints"),
        ("labels", json!(["a"]), "spec.labels"),
        ("labels", json!({"a": 1}), "spec.labels"),
        ("minSpotScore", json!(11), "minSpotScore"),
        ("role", json!(""), "role"),
        ("amiAlias", json!("al2023"), "amiAlias"),
        ("nonsense", json!(1), "nonsense"),
    ]
}

/// What looks odd and is allowed.
fn accepted() -> Vec<(&'static str, Value)> {
    vec![
        ("budgetsNodes", json!("10")),
        ("budgetsNodes", json!("0%")),
        ("budgetsNodes", json!("100%")),
        ("consolidateAfter", json!("Never")),
        ("consolidateAfter", json!("0s")),
        ("consolidateAfter", json!("1h30m")),
        ("families", json!(["g5", "g5"])),
        ("families", json!([])),
        ("capacityType", json!("on-demand")),
        ("maxZones", json!(1000)),
        ("taints", json!(["a:NoExecute", "a=:NoSchedule"])),
        ("minSpotScore", json!(0)),
        ("onDemandFallback", json!(false)),
        (
            "regions",
            json!(["eu-central-1", "us-gov-west-1", "cn-north-1"]),
        ),
    ]
}

struct Case {
    name: String,
    change: Value,
    reason: &'static str,
    says: &'static str,
}

/// What only the controller can see: objects that get past admission, and the sentence of each.
#[expect(clippy::too_many_lines, reason = "a table")]
fn cases() -> Vec<Case> {
    let case = |name: &str, change: Value, reason, says| Case {
        name: name.to_owned(),
        change,
        reason,
        says,
    };
    vec![
        case(
            "typo",
            json!({"region": "eu-cental-1"}),
            "AWS",
            "eu-cental-1",
        ),
        case("no-role", json!({"role": null}), "InvalidSpec", "spec.role"),
        case(
            "no-tags",
            json!({"subnetSelectorTags": null}),
            "InvalidSpec",
            "spec.subnetSelectorTags",
        ),
        case(
            "no-groups",
            json!({"securityGroupSelectorTags": {}}),
            "InvalidSpec",
            "spec.securityGroupSelectorTags",
        ),
        case(
            "empty-tag",
            json!({"subnetSelectorTags": {"a": ""}}),
            "InvalidSpec",
            "empty key or value",
        ),
        case(
            "many-gpus",
            json!({"minGPUs": 1000}),
            "NoQuotes",
            "spec.minGPUs",
        ),
        case(
            "no-family",
            json!({"families": ["zz9"]}),
            "NoQuotes",
            "spec.families",
        ),
        case(
            "class",
            json!({"nodeClassName": "missing"}),
            "InvalidSpec",
            "there is no EC2NodeClass \"missing\"",
        ),
        case(
            "empty-class",
            json!({"nodeClassName": ""}),
            "InvalidSpec",
            "spec.nodeClassName is empty",
        ),
        case(
            "no-class",
            json!({"nodeClassSelector": {"team": "gpu"}}),
            "InvalidSpec",
            "no EC2NodeClass has the labels team=gpu",
        ),
        case(
            "long-label",
            json!({"labels": {"a": "x".repeat(64)}}),
            "InvalidSpec",
            "spec.labels",
        ),
        case(
            "odd-label",
            json!({"labels": {"a": "grün"}}),
            "InvalidSpec",
            "spec.labels",
        ),
        case(
            "own-label",
            json!({"labels": {"kubernetes.io/hostname": "x"}}),
            "InvalidSpec",
            "kubernetes.io/hostname",
        ),
        case(
            "forever",
            json!({"consolidateAfter": "9999999999999999999h"}),
            "InvalidSpec",
            "spec.consolidateAfter",
        ),
        case(
            "no-image",
            json!({"amiAlias": "nosuch@latest"}),
            "ApplyNodeClassError",
            "amiSelectorTerms",
        ),
        case(&"x".repeat(60), json!({}), "InvalidSpec", "metadata.name"),
        case(
            "taken",
            json!({}),
            "ApplyNodePoolError",
            "belongs to something else",
        ),
        case(
            "twin-on-demand",
            json!({}),
            "ApplyNodePoolError",
            "belongs to something else",
        ),
    ]
}

pub(super) async fn lo_bad_input_becomes_a_condition_with_a_sentence() {
    let mut region = Region::start(Classes::V1).await;
    region.join(&["--aws-node-role="]);
    // A NodePool of a name that one of the objects would render.
    let taken = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "leftover-taken"},
        "spec": {"template": {"spec": {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"},
            "requirements": []}}}});
    let taken = region.client.send(Method::POST, POOLS, Some(&taken)).await;
    let taken = taken.unwrap();
    // And one whose on-demand NodePool has the name of another object's: no score is that good.
    let mut twin = documented();
    twin["metadata"]["name"] = "twin".into();
    twin["spec"]["role"] = "r".into();
    twin["spec"]["minSpotScore"] = 10.into();
    region.create(&twin).await;
    region.ready("twin").await;
    for Case {
        name,
        change,
        reason,
        says,
    } in cases()
    {
        let mut pool = documented();
        pool["metadata"]["name"] = name.as_str().into();
        pool["spec"]["role"] = "r".into();
        for (key, value) in change.as_object().unwrap() {
            let spec = pool["spec"].as_object_mut().unwrap();
            if value.is_null() {
                spec.remove(key);
            } else {
                spec.insert(key.clone(), value.clone());
            }
        }
        region.create(&pool).await;
        let seen = region
            .until_of(&name, reason, |pool| {
                text(condition(pool, "Degraded"), "/reason").starts_with(reason)
            })
            .await;
        let said = text(condition(&seen, "Degraded"), "/message").to_owned();
        assert!(said.contains(says), "{name}: {said}");
        assert_eq!(condition(&seen, "Ready")["status"], "False", "{name}");
    }
    let path = format!("{POOLS}/leftover-taken");
    assert_eq!(region.client.get(&path).await.unwrap(), taken);
    // More zones than there are, a family twice and on-demand with the default fallback are no mistakes; others go on.
    for (name, field, value) in [
        ("zones", "maxZones", json!(99)),
        ("twice", "families", json!(["g5", "g5"])),
        ("listed", "capacityType", json!("on-demand")),
        ("never", "consolidateAfter", json!("Never")),
        ("nodes", "budgetsNodes", json!("10")),
    ] {
        let mut pool = documented();
        pool["metadata"]["name"] = name.into();
        pool["spec"]["role"] = "r".into();
        pool["spec"][field] = value;
        region.create(&pool).await;
        let seen = region.ready(name).await;
        assert_eq!(condition(&seen, "Degraded")["status"], "False", "{name}");
    }
}

pub(super) async fn lo_an_object_that_is_on_its_way_out_at_first_sight_renders_nothing() {
    let mut region = Region::start(Classes::V1).await;
    let mut pool = documented();
    pool["metadata"]["finalizers"] = json!(["example.com/hold"]);
    region.create(&pool).await;
    let path = format!("{LEFTOVERS}/gpu-spot-euc1");
    region
        .client
        .send(Method::DELETE, &path, None)
        .await
        .unwrap();
    region.join(&[]);
    let mut other = documented();
    other["metadata"]["name"] = "other".into();
    region.create(&other).await;
    region.ready("other").await;
    let pool = format!("{POOLS}/leftover-gpu-spot-euc1");
    assert!(region.client.get(&pool).await.is_err());
}
