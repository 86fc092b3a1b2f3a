//! What the simulated cloud insists on, asked without the provider.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use joiner_embedded::cluster::kubelet::NodeSpec;
use joiner_providers::ovhcloud::signature;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

struct Nowhere;

impl Rack for Nowhere {
    fn boot(&self, _: NodeSpec) {}
    fn kill(&self, _: &str) {}
}

fn cloud(change: impl FnOnce(&mut OvhCloudOptions)) -> OvhCloud {
    let mut options = OvhCloudOptions::calm(1);
    change(&mut options);
    OvhCloud::new(options, Clock::virtual_time(), Arc::new(Nowhere))
}

async fn ask(cloud: &OvhCloud, method: &str, path: &str, body: Value) -> (u16, Value) {
    let options = cloud.lock().options.clone();
    let url = format!(
        "http://api.test/1.0/cloud/project/{}{path}",
        options.service_name
    );
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let stamp = cloud.clock.now().as_second() + options.clock_skew;
    let signed = signature(
        &options.application_secret,
        &options.consumer_key,
        method,
        &url,
        body.as_bytes(),
        stamp,
    );
    let request = Request::builder()
        .method(method)
        .uri(&url)
        .header("x-ovh-application", &options.application_key)
        .header("x-ovh-consumer", &options.consumer_key)
        .header("x-ovh-timestamp", stamp)
        .header("x-ovh-signature", signed)
        .body(Body::from(body))
        .unwrap();
    let answer = cloud.router().oneshot(request).await.unwrap();
    let code = answer.status().as_u16();
    let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20)
        .await
        .unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

const KUBE: &str = "/kube/11111111-2222-3333-4444-555555555555";

fn pool(name: &str) -> Value {
    json!({"name": name, "flavorName": "b3-8", "desiredNodes": 1, "availabilityZones": ["eu-west-par-a"],
        "template": {"metadata": {"labels": {}, "annotations": {}, "finalizers": []},
            "spec": {"taints": [], "unschedulable": false}}})
}

async fn make(cloud: &OvhCloud, change: impl FnOnce(&mut Value)) -> (u16, String) {
    let mut body = pool("p");
    change(&mut body);
    let (code, said) = ask(cloud, "POST", &format!("{KUBE}/nodepool"), body).await;
    (
        code,
        said["message"].as_str().unwrap_or_default().to_owned(),
    )
}

#[tokio::test(start_paused = true)]
async fn pools_are_checked_as_the_service_does() {
    let cloud = cloud(|options| options.quota_cores = Some(4));
    assert_eq!(make(&cloud, |_| {}).await.0, 201);
    assert_eq!(make(&cloud, |_| {}).await.0, 409);
    let (code, said) = make(&cloud, |body| {
        body["name"] = json!("q");
        body["desiredNodes"] = json!(9);
    })
    .await;
    assert_eq!((code, said.contains("Quota")), (412, true), "{said}");
    for (field, value, part) in [
        ("availabilityZones", json!(null), "mandatory"),
        ("monthlyBilled", json!(true), "monthly"),
        ("flavorName", json!("b9-1"), "does not exist"),
        ("name", json!("9_x"), "name"),
        (
            "template",
            json!({"metadata": {"labels": {}}}),
            "every member",
        ),
    ] {
        let (code, said) = make(&cloud, |body| {
            body["name"] = json!("r");
            body[field] = value;
        })
        .await;
        assert_eq!(code, 400, "{field}: {said}");
        assert!(said.contains(part), "{field}: {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_single_zone_cluster_takes_no_zone() {
    let cloud = cloud(|options| *options = OvhCloudOptions::calm(1).single_zone());
    let (code, said) = make(&cloud, |_| {}).await;
    assert_eq!((code, said.contains("multi-zone")), (422, true));
}

#[tokio::test(start_paused = true)]
async fn only_what_a_rule_names_is_granted() {
    let cloud = cloud(|_| {});
    assert_eq!(ask(&cloud, "GET", KUBE, Value::Null).await.0, 200);
    for path in [
        format!("{KUBE}/node"),
        "/flavor?region=x".to_owned(),
        "/kube".to_owned(),
    ] {
        let (code, said) = ask(&cloud, "GET", &path, Value::Null).await;
        assert_eq!(
            (code, said["errorCode"].as_str()),
            (403, Some("NOT_GRANTED_CALL")),
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_sixty_first_call_of_a_minute_is_refused() {
    let cloud = cloud(|_| {});
    for _ in 0..60 {
        assert_eq!(ask(&cloud, "GET", KUBE, Value::Null).await.0, 200);
    }
    assert_eq!(ask(&cloud, "GET", KUBE, Value::Null).await.0, 429);
    tokio::time::sleep(Duration::from_secs(61)).await;
    assert_eq!(ask(&cloud, "GET", KUBE, Value::Null).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_signature_is_refused() {
    let cloud = cloud(|_| {});
    cloud.change(|options| options.clock_skew = 0);
    let url = "http://api.test/1.0/cloud/project/x/kube";
    let request = Request::builder()
        .uri(url)
        .header("x-ovh-application", "simAppKey0000001")
        .header("x-ovh-consumer", "simConsumerKey000000000000000001")
        .header("x-ovh-timestamp", cloud.clock.now().as_second())
        .header("x-ovh-signature", "$1$0000")
        .body(Body::empty())
        .unwrap();
    let answer = cloud.router().oneshot(request).await.unwrap();
    assert_eq!(answer.status().as_u16(), 400);
}
