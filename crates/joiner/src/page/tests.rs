use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use tower::ServiceExt as _;

use super::*;

fn page(gate: Gate) -> Router {
    router(Page {
        board: Board::default(),
        watched: Watched::default(),
        gate,
    })
}

async fn answer(
    page: Router,
    path: &str,
    host: &str,
) -> (StatusCode, axum::http::HeaderMap, String) {
    let request = Request::get(path)
        .header("host", host)
        .header("accept", "text/html");
    let response = page
        .oneshot(request.body(Body::empty()).unwrap())
        .await
        .unwrap();
    let (parts, body) = response.into_parts();
    let text = to_bytes(body, usize::MAX).await.unwrap();
    (
        parts.status,
        parts.headers,
        String::from_utf8(text.to_vec()).unwrap(),
    )
}

#[tokio::test]
async fn every_answer_forbids_foreign_scripts_and_frames() {
    for path in ["/", "/assets/page.js", "/api/v1/", "/nowhere"] {
        let (_, headers, _) = answer(page(Gate::Loopback), path, "localhost").await;
        let policy = headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(headers[header::X_FRAME_OPTIONS], "DENY");
    }
}

#[tokio::test]
async fn before_the_engine_has_started_the_page_says_so_instead_of_showing_nothing() {
    let (status, _, text) = answer(page(Gate::Loopback), "/", "127.0.0.1:8082").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.contains("No engine runs yet"), "{text}");
    let (status, _, text) = answer(page(Gate::Loopback), "/api/v1/overview", "localhost").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.contains("\"error\""), "{text}");
}

#[tokio::test]
async fn another_name_for_this_address_is_not_answered() {
    for path in ["/", "/api/v1/overview", "/api/v1/stream"] {
        let (status, _, _) = answer(page(Gate::Loopback), path, "evil.example").await;
        assert_eq!(status, StatusCode::MISDIRECTED_REQUEST, "{path}");
    }
}

#[tokio::test]
async fn without_a_token_nothing_is_seen_but_where_to_give_one() {
    let gate = Gate::at([0, 0, 0, 0].into());
    for path in [
        "/",
        "/nodes",
        "/why/pod/a/b",
        "/api/v1/nodes",
        "/api/v1/problem",
        "/api/v1/stream",
    ] {
        let (status, _, text) = answer(page(gate.clone()), path, "joiner.example").await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{path}");
        assert!(text.contains("name=\"token\""), "{path}: {text}");
    }
}

#[tokio::test]
async fn the_schema_names_every_panel() {
    let (status, _, text) = answer(page(Gate::Loopback), "/api/v1/schema", "localhost").await;
    assert_eq!(status, StatusCode::OK);
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    for panel in [
        "overview", "demand", "nodes", "activity", "market", "why", "what-if",
    ] {
        let properties = schema[panel]["properties"].as_object().unwrap();
        assert!(properties.contains_key("schemaVersion"), "{panel}");
    }
}
