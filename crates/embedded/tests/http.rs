//! The server over HTTP, through its tower service and without sockets.

#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use joiner_embedded::{
    api::{ApiServer, Options, ResponseBody, Verb},
    clock::Clock,
    faults::{Chances, Fault, Rule},
};
use serde_json::{Value, json};
use tower::ServiceExt;

fn server() -> ApiServer {
    ApiServer::new(Clock::virtual_time(), &Options::default())
}

fn request(method: Method, path: &str, content_type: &str, body: &[u8]) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, content_type)
        .header(header::USER_AGENT, "tests/1.0")
        .body(Full::new(Bytes::copy_from_slice(body)))
        .unwrap()
}

async fn send(server: &ApiServer, request: Request<Full<Bytes>>) -> Response<ResponseBody> {
    server.clone().oneshot(request).await.unwrap()
}

async fn read(response: Response<ResponseBody>) -> (u16, Value) {
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (
        code,
        serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))),
    )
}

async fn call(server: &ApiServer, method: Method, path: &str, body: Value) -> (u16, Value) {
    let bytes = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    read(send(server, request(method, path, "application/json", &bytes)).await).await
}

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.io"},
        "spec": {
            "group": "example.io",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {
                            "type": "object",
                            "properties": {
                                "size": {"type": "integer", "minimum": 1},
                                "colour": {"type": "string", "default": "red"},
                            },
                            "x-kubernetes-validations": [
                                {"rule": "self.size != 13", "message": "thirteen is unlucky"},
                            ],
                        },
                        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
            }],
        },
    })
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_read_changed_and_deleted() {
    let server = server();
    let (code, created) = call(&server, Method::POST, CONFIG_MAPS, config_map("a")).await;
    assert_eq!((code, &created["data"]["k"]), (201, &json!("v")));
    assert_eq!(created["metadata"]["managedFields"][0]["manager"], "tests");
    let path = format!("{CONFIG_MAPS}/a");
    let patch = request(
        Method::PATCH,
        &path,
        "application/merge-patch+json",
        json!({"data": {"k": null, "l": "w"}})
            .to_string()
            .as_bytes(),
    );
    let (code, patched) = read(send(&server, patch).await).await;
    assert_eq!((code, &patched["data"]), (200, &json!({"l": "w"})));
    let (code, status) = call(&server, Method::DELETE, &path, Value::Null).await;
    assert_eq!((code, &status["status"]), (200, &json!("Success")));
    let (code, missing) = call(&server, Method::GET, &path, Value::Null).await;
    assert_eq!(
        (code, &missing["message"]),
        (404, &json!("configmaps \"a\" not found"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_streams_changes_and_ends_at_its_timeout() {
    let server = server();
    call(&server, Method::POST, CONFIG_MAPS, config_map("a")).await;
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=120&allowWatchBookmarks=true");
    let response = send(&server, request(Method::GET, &path, "", b"")).await;
    call(&server, Method::POST, CONFIG_MAPS, config_map("b")).await;
    call(
        &server,
        Method::DELETE,
        &format!("{CONFIG_MAPS}/a"),
        Value::Null,
    )
    .await;
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let events: Vec<Value> = String::from_utf8(bytes.to_vec())
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let seen: Vec<&str> = events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    // One bookmark after a minute, two before the end.
    assert_eq!(
        seen,
        [
            "ADDED", "ADDED", "DELETED", "BOOKMARK", "BOOKMARK", "BOOKMARK"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_forgotten_version_is_told_to_list_again() {
    let server = server();
    call(&server, Method::POST, CONFIG_MAPS, config_map("a")).await;
    server.compact();
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion=2");
    let (code, event) = call(&server, Method::GET, &path, Value::Null).await;
    assert_eq!((code, &event["type"]), (200, &json!("ERROR")));
    assert_eq!(event["object"]["code"], 410);
}

#[tokio::test(start_paused = true)]
async fn pages_show_one_moment() {
    let server = server();
    for name in ["a", "b", "c"] {
        call(&server, Method::POST, CONFIG_MAPS, config_map(name)).await;
    }
    let (_, first) = call(
        &server,
        Method::GET,
        &format!("{CONFIG_MAPS}?limit=2"),
        Value::Null,
    )
    .await;
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    call(
        &server,
        Method::DELETE,
        &format!("{CONFIG_MAPS}/c"),
        Value::Null,
    )
    .await;
    let token = first["metadata"]["continue"].as_str().unwrap();
    let next = format!("{CONFIG_MAPS}?limit=2&continue={token}");
    let (_, second) = call(&server, Method::GET, &next, Value::Null).await;
    assert_eq!(second["items"][0]["metadata"]["name"], "c");
    server.compact();
    let (code, expired) = call(&server, Method::GET, &next, Value::Null).await;
    assert_eq!((code, &expired["reason"]), (410, &json!("Expired")));
    assert!(expired["metadata"]["continue"].is_string());
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_served_validated_and_taken_away() {
    let server = server();
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, _) = call(&server, Method::POST, crds, widgets()).await;
    assert_eq!(code, 201);
    let list = "/apis/example.io/v1/namespaces/default/widgets";
    let widget = |name: &str, size: i64| {
        json!({"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": name},
               "spec": {"size": size, "unknown": 1}, "status": {"x": 1}})
    };
    let (code, created) = call(&server, Method::POST, list, widget("a", 3)).await;
    assert_eq!(
        (code, &created["spec"]),
        (201, &json!({"size": 3, "colour": "red"}))
    );
    assert_eq!(created.get("status"), None);
    let (code, refused) = call(&server, Method::POST, list, widget("b", 0)).await;
    assert_eq!((code, &refused["reason"]), (422, &json!("Invalid")));
    let (code, unlucky) = call(&server, Method::POST, list, widget("c", 13)).await;
    assert_eq!(code, 422);
    assert!(
        unlucky["message"]
            .as_str()
            .unwrap()
            .contains("thirteen is unlucky")
    );
    let strict = format!("{list}?fieldValidation=Strict");
    let (code, strict) = call(&server, Method::POST, &strict, widget("d", 3)).await;
    assert_eq!(code, 400);
    assert!(
        strict["message"]
            .as_str()
            .unwrap()
            .contains("unknown field \"spec.unknown\"")
    );
    let (code, _) = call(
        &server,
        Method::DELETE,
        &format!("{crds}/widgets.example.io"),
        Value::Null,
    )
    .await;
    assert_eq!(code, 200);
    assert_eq!(call(&server, Method::GET, list, Value::Null).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn tables_carry_printer_columns() {
    let server = server();
    call(
        &server,
        Method::POST,
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        widgets(),
    )
    .await;
    let list = "/apis/example.io/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "example.io/v1", "kind": "Widget",
                        "metadata": {"name": "a"}, "spec": {"size": 3}});
    call(&server, Method::POST, list, widget).await;
    let mut get = request(Method::GET, list, "", b"");
    get.headers_mut().insert(
        header::ACCEPT,
        "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
            .parse()
            .unwrap(),
    );
    let (_, table) = read(send(&server, get).await).await;
    assert_eq!(table["kind"], "Table");
    assert_eq!(table["columnDefinitions"][1]["name"], "Size");
    assert_eq!(table["rows"][0]["cells"], json!(["a", 3]));
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_and_never_panics() {
    let server = server();
    let post = |content_type: &'static str, body: Vec<u8>| {
        let server = server.clone();
        async move {
            read(
                send(
                    &server,
                    request(Method::POST, CONFIG_MAPS, content_type, &body),
                )
                .await,
            )
            .await
        }
    };
    let oversized = vec![b' '; 3 * 1024 * 1024 + 1];
    for (content_type, body, code) in [
        ("application/json", b"{".to_vec(), 400),
        ("application/json", b"[]".to_vec(), 400),
        ("application/json", b"null".to_vec(), 400),
        ("application/json", b"\xff\xfe".to_vec(), 400),
        ("application/json", Vec::new(), 400),
        ("application/json", oversized, 413),
        ("text/plain", b"{}".to_vec(), 415),
        (
            "application/vnd.kubernetes.protobuf",
            b"k8s\0\x0a\xff".to_vec(),
            400,
        ),
        ("application/json", br#"{"metadata": []}"#.to_vec(), 400),
        (
            "application/json",
            br#"{"metadata": {"name": 1}}"#.to_vec(),
            400,
        ),
        (
            "application/json",
            br#"{"metadata": {"name": "A"}}"#.to_vec(),
            422,
        ),
        (
            "application/json",
            br#"{"kind": "Pod", "apiVersion": "v1"}"#.to_vec(),
            400,
        ),
    ] {
        let shown = String::from_utf8_lossy(&body[..body.len().min(40)]).into_owned();
        let (found, status) = post(content_type, body).await;
        assert_eq!(found, code, "{content_type} {shown}: {status}");
        assert_eq!(status["kind"], "Status", "{shown}");
    }
    assert_eq!(
        call(&server, Method::GET, "/nowhere", Value::Null).await.0,
        404
    );
    assert_eq!(
        call(&server, Method::PUT, CONFIG_MAPS, config_map("a"))
            .await
            .0,
        405
    );
    assert_eq!(
        call(&server, Method::GET, "/api/v1/nothings", Value::Null)
            .await
            .0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn server_side_apply_tells_conflicts_by_field() {
    let server = server();
    let path = |manager: &str| format!("{CONFIG_MAPS}/a?fieldManager={manager}");
    let apply = |manager: &str, value: &str| {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
                          "data": {"k": value}});
        request(
            Method::PATCH,
            &path(manager),
            "application/apply-patch+yaml",
            body.to_string().as_bytes(),
        )
    };
    assert_eq!(read(send(&server, apply("one", "v")).await).await.0, 201);
    let (code, conflict) = read(send(&server, apply("two", "w")).await).await;
    assert_eq!((code, &conflict["reason"]), (409, &json!("Conflict")));
    assert_eq!(conflict["details"]["causes"][0]["field"], ".data.k");
}

#[tokio::test(start_paused = true)]
async fn faults_hit_the_wire_and_not_the_store() {
    let server = server();
    let rule = |fault| Rule {
        verb: Some(Verb::Create),
        times: Some(1),
        fault,
        ..Rule::default()
    };
    server.faults().rule(rule(Fault::ErrorBefore(503)));
    assert_eq!(
        call(&server, Method::POST, CONFIG_MAPS, config_map("before"))
            .await
            .0,
        503
    );
    assert_eq!(server.local().count("configmaps"), 0);

    server.faults().rule(rule(Fault::ErrorAfter(500)));
    assert_eq!(
        call(&server, Method::POST, CONFIG_MAPS, config_map("after"))
            .await
            .0,
        500
    );
    assert!(server.local().get("configmaps", "default", "after").is_ok());

    server.faults().rule(rule(Fault::DropRequest));
    let create = request(
        Method::POST,
        CONFIG_MAPS,
        "application/json",
        config_map("x").to_string().as_bytes(),
    );
    assert!(server.clone().oneshot(create).await.is_err());

    server.faults().rule(rule(Fault::Duplicate));
    let (code, second) = call(&server, Method::POST, CONFIG_MAPS, config_map("twice")).await;
    assert_eq!((code, &second["reason"]), (409, &json!("AlreadyExists")));

    let before = tokio::time::Instant::now();
    server
        .faults()
        .rule(rule(Fault::Delay(Duration::from_secs(5))));
    assert_eq!(
        call(&server, Method::POST, CONFIG_MAPS, config_map("late"))
            .await
            .0,
        201
    );
    assert_eq!(before.elapsed(), Duration::from_secs(5));
    assert_eq!(server.faults().met(), 5);
}

#[tokio::test(start_paused = true)]
async fn stale_reads_show_the_past_and_cut_watches_break() {
    let server = server();
    call(&server, Method::POST, CONFIG_MAPS, config_map("a")).await;
    server.faults().rule(Rule {
        verb: Some(Verb::Get),
        times: Some(1),
        fault: Fault::StaleRead(1),
        ..Rule::default()
    });
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(call(&server, Method::GET, &path, Value::Null).await.0, 404);
    assert_eq!(call(&server, Method::GET, &path, Value::Null).await.0, 200);
    server.faults().rule(Rule {
        verb: Some(Verb::Watch),
        fault: Fault::CutWatch(Duration::from_secs(3)),
        ..Rule::default()
    });
    let watch = send(
        &server,
        request(Method::GET, &format!("{CONFIG_MAPS}?watch=true"), "", b""),
    )
    .await;
    assert!(watch.into_body().collect().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_log_under_faults() {
    async fn run(seed: u64) -> (String, u64) {
        let server = ApiServer::new(
            Clock::virtual_time(),
            &Options {
                seed,
                ..Options::default()
            },
        );
        server.faults().chances(Chances::rough());
        for index in 0..200 {
            let mut object = config_map("");
            object["metadata"] = json!({"generateName": format!("n{}-", index % 7)});
            let body = object.to_string().into_bytes();
            let create = request(Method::POST, CONFIG_MAPS, "application/json", &body);
            // Errors are the point.
            let _ = server.clone().oneshot(create).await;
        }
        (server.event_log_hash(), server.faults().met())
    }
    let (one, two, other) = (run(1).await, run(1).await, run(2).await);
    assert_eq!(one, two);
    assert_ne!(one, other);
    assert!(one.1 > 10, "only {} faults", one.1);
}

#[tokio::test]
async fn the_same_server_answers_on_a_port() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = server();
    let port = server.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let mut stream = tokio::net::TcpStream::connect(port.address())
        .await
        .unwrap();
    stream
        .write_all(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("\"minor\":\"34\""), "{text}");
}
