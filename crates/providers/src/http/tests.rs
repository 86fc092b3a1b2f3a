//! The seam does what its users rely on, and nothing behind their back.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Mutex;

use tower::service_fn;

use super::*;

type Script = Arc<Mutex<VecDeque<Response<Full<Bytes>>>>>;

fn scripted(answers: Vec<Response<Full<Bytes>>>) -> (Http, Script) {
    let script: Script = Arc::new(Mutex::new(answers.into()));
    let left = Arc::clone(&script);
    let http = Http::new(service_fn(move |_: Request<Full<Bytes>>| {
        let next = left.lock().unwrap().pop_front();
        async move { next.ok_or_else(|| std::io::Error::other("connection reset by peer")) }
    }));
    (http, script)
}

fn answer(status: u16, headers: &[(&str, &str)]) -> Response<Full<Bytes>> {
    let mut builder = Response::builder().status(status);
    for (key, value) in headers {
        builder = builder.header(*key, *value);
    }
    builder.body(Full::default()).unwrap()
}

fn get() -> Request<Bytes> {
    Request::get("https://cloud.example.com/")
        .body(Bytes::new())
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_ask_for_it_is_never_repeated() {
    let (http, script) = scripted(vec![answer(503, &[]), answer(200, &[])]);
    assert_eq!(http.send(get(), Retry::Never).await.unwrap().status, 503);
    assert_eq!(script.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn reads_outlive_a_bad_moment() {
    let (http, _) = scripted(vec![answer(502, &[]), answer(504, &[]), answer(200, &[])]);
    assert_eq!(http.send(get(), Retry::READ).await.unwrap().status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_long_wait_is_the_callers_to_wait() {
    let (http, _) = scripted(vec![
        answer(429, &[("retry-after", "90")]),
        answer(200, &[]),
    ]);
    let reply = http.send(get(), Retry::READ).await.unwrap();
    assert_eq!(
        reply.refusal("slow down".into()),
        ProviderError::Throttled {
            message: "slow down".into(),
            retry_after: Some(Duration::from_secs(90)),
        }
    );
}

#[tokio::test(start_paused = true)]
async fn silence_ends_at_the_time_limit() {
    let http = Http::new(service_fn(|_: Request<Full<Bytes>>| async {
        std::future::pending::<()>().await;
        Ok::<_, Infallible>(Response::new(Full::<Bytes>::default()))
    }));
    let error = http.send(get(), Retry::Never).await.unwrap_err();
    assert!(matches!(error, HttpError::Timeout(_)), "{error}");
    assert_eq!(ProviderError::from(error).kind(), "transient");
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let big = Bytes::from(vec![b' '; BODY_LIMIT + 1]);
    let (http, _) = scripted(vec![Response::new(Full::new(big))]);
    let error = http.send(get(), Retry::READ).await.unwrap_err();
    assert!(matches!(error, HttpError::TooLarge), "{error}");
}

#[test]
fn each_status_means_one_kind() {
    let kind = |status: u16| {
        let reply = Reply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            reason: None,
        };
        reply.refusal(String::new()).kind()
    };
    for (status, expected) in [
        (400, "invalid"),
        (401, "unauthorised"),
        (403, "unauthorised"),
        (404, "not_found"),
        (409, "transient"),
        (422, "invalid"),
        (429, "throttled"),
        (500, "transient"),
        (503, "transient"),
        (302, "transient"),
    ] {
        assert_eq!(kind(status), expected, "{status}");
    }
}

#[test]
fn what_a_server_says_is_cut_short_and_cleaned() {
    assert_eq!(
        excerpt(b"<html>\r\n\t\x1b[31mNo\0</html>"),
        "<html> [31mNo </html>"
    );
    let long = excerpt("ü".repeat(100_000).as_bytes());
    assert_eq!(long.chars().count(), EXCERPT_LIMIT);
    assert!(long.ends_with('…'));
    assert_eq!(excerpt(&[0xff, 0xfe]), "");
}

#[test]
fn a_secret_across_the_cut_is_taken_out_whole() {
    let secret = SecretString::from("abcdefghijklmnopqrstuvwxyz0123456789\n");
    let said = format!("{}{}", "x ".repeat(120), secret.expose_secret());
    assert!(
        excerpt(said.as_bytes()).contains("abcdefghij"),
        "cut in two"
    );
    let clean = excerpt_without(said.as_bytes(), [&secret]);
    assert!(!clean.contains("abc"), "{clean}");
    assert!(clean.ends_with("[redacted]"), "{clean}");
}

#[tokio::test]
async fn no_request_is_sent_to_an_address_of_this_machine() {
    let http = Http::production(&Reach::default()).unwrap();
    for url in [
        "https://2130706433/",
        "https://127.1/",
        "https://localhost/",
    ] {
        let request = Request::get(url).body(Bytes::new()).unwrap();
        let error = http
            .send(request, Retry::Never)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("only this machine"), "{url}: {error}");
    }
}

#[test]
fn secrets_lose_their_line_break_and_hide() {
    let value = sensitive("Bearer ", &SecretString::from("abc\n")).unwrap();
    assert_eq!(value.to_str().unwrap(), "Bearer abc");
    assert_eq!(format!("{value:?}"), "Sensitive");
    assert!(sensitive("", &SecretString::from("a\nb")).is_err());
}
