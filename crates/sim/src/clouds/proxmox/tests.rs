//! The wire, as a client without mercy would use it.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use serde_json::json;
use tower::ServiceExt as _;

use super::*;

struct Nowhere;

impl Rack for Nowhere {
    fn boot(&self, _: joiner_embedded::cluster::kubelet::NodeSpec) {}
    fn kill(&self, _: &str) {}
}

fn cloud() -> ProxmoxCloud {
    ProxmoxCloud::new(
        ProxmoxCloudOptions::of_hosts(2),
        Clock::virtual_time(),
        Arc::new(Nowhere),
    )
}

async fn call(cloud: &ProxmoxCloud, method: &str, path: &str, body: &str) -> (u16, String, Value) {
    let request = Request::builder()
        .method(method)
        .uri(format!("/api2/json{path}"))
        .header(
            "authorization",
            "PVEAPIToken=joiner@pve!sim=sim-token-secret",
        )
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(body.to_owned()))
        .unwrap();
    let answer = cloud.router().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let reason = answer.extensions().get::<hyper::ext::ReasonPhrase>();
    let reason = reason.map(|phrase| String::from_utf8_lossy(phrase.as_bytes()).into_owned());
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    (status, reason.unwrap_or_default(), body)
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_made_listed_late_started_and_destroyed() {
    let cloud = cloud();
    let (status, _, body) = call(
        &cloud,
        "POST",
        "/nodes/pve1/qemu",
        "vmid=1250&name=a&memory=2048&cores=2&tags=B%3Ba",
    )
    .await;
    assert_eq!(status, 200);
    let upid = body["data"].as_str().unwrap().to_owned();
    let path = format!("/nodes/pve1/tasks/{upid}/status");
    assert_eq!(
        call(&cloud, "GET", &path, "").await.2["data"]["status"],
        "running"
    );
    let (status, reason, _) = call(&cloud, "POST", "/nodes/pve2/qemu", "vmid=1250").await;
    assert_eq!(
        (status, reason.as_str()),
        (
            500,
            "unable to create VM 1250 - VM 1250 already exists on node 'pve1'"
        )
    );
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(
        call(&cloud, "GET", &path, "").await.2["data"]["exitstatus"],
        "OK"
    );
    let row = call(&cloud, "GET", "/cluster/resources?type=vm", "")
        .await
        .2["data"][0]
        .clone();
    assert_eq!(
        (&row["status"], &row["tags"], row.get("name")),
        (&json!("unknown"), &json!("a;b"), None)
    );
    tokio::time::sleep(Duration::from_secs(10)).await;
    let row = call(&cloud, "GET", "/cluster/resources?type=vm", "")
        .await
        .2["data"][0]
        .clone();
    assert_eq!(
        (&row["status"], &row["name"]),
        (&json!("stopped"), &json!("a"))
    );
    call(&cloud, "POST", "/nodes/pve1/qemu/1250/status/start", "").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let (status, reason, _) = call(&cloud, "DELETE", "/nodes/pve1/qemu/1250", "").await;
    assert_eq!(
        (status, reason.as_str()),
        (500, "VM 1250 is running - destroy failed")
    );
    call(&cloud, "POST", "/nodes/pve1/qemu/1250/status/stop", "").await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(
        call(&cloud, "DELETE", "/nodes/pve1/qemu/1250?purge=1", "")
            .await
            .0,
        200
    );
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(cloud.machines().is_empty());
    let (status, reason, _) = call(&cloud, "GET", "/nodes/pve1/qemu/1250/config", "").await;
    assert_eq!(status, 500);
    assert_eq!(
        reason,
        "Configuration file 'nodes/pve1/qemu-server/1250.conf' does not exist"
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_are_in_the_reason_phrase() {
    let cloud = cloud();
    for (method, path, body, status, text) in [
        (
            "POST",
            "/nodes/pve1/qemu",
            "vmid=1250&nonsense=1",
            400,
            "Parameter verification failed.",
        ),
        (
            "POST",
            "/nodes/pve1/qemu",
            "vmid=1250&scsi0=nowhere%3A8",
            500,
            "storage 'nowhere' does not exist",
        ),
        (
            "GET",
            "/nodes/pve1/nothing",
            "",
            501,
            "Method 'GET /nodes/pve1/nothing' not implemented",
        ),
        (
            "GET",
            "/nodes/pve1/qemu",
            "body",
            501,
            "Unexpected content for method 'GET'",
        ),
    ] {
        let (found, reason, _) = call(&cloud, method, path, body).await;
        assert_eq!((found, reason.as_str()), (status, text), "{method} {path}");
    }
    cloud.set_online("pve2", false);
    assert_eq!(call(&cloud, "GET", "/nodes/pve2/qemu", "").await.0, 595);
    cloud.set_quorum(false);
    let (status, reason, _) = call(&cloud, "POST", "/nodes/pve1/qemu", "vmid=1250").await;
    assert_eq!(
        (status, reason.as_str()),
        (500, "cluster not ready - no quorum?")
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_encoded_is_cut_as_the_real_server_cuts_it() {
    let cloud = cloud();
    call(
        &cloud,
        "POST",
        "/nodes/pve1/qemu",
        "vmid=1250&boot=order=net0",
    )
    .await;
    assert_eq!(cloud.machines()[&1250].config["boot"], "order");
}
