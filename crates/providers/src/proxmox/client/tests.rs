//! What is sent, and what is read out of answers.

use std::sync::Mutex as StdMutex;

use http::Response;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use tower::service_fn;

use super::*;

fn token(secret: &str) -> ApiToken {
    ApiToken {
        id: "joiner@pve!t".to_owned(),
        secret: secret.into(),
    }
}

type Seen = Arc<StdMutex<Vec<String>>>;

/// A server that gives one answer to everything, and writes down what it heard.
fn answering(status: u16, reason: Option<&'static str>, body: &'static str) -> (Client, Seen) {
    let seen: Seen = Arc::default();
    let log = Arc::clone(&seen);
    let http = Http::new(service_fn(move |request: Request<Full<Bytes>>| {
        let log = Arc::clone(&log);
        async move {
            let (parts, sent) = request.into_parts();
            let sent = sent.collect().await.unwrap().to_bytes();
            let line = format!(
                "{} {} {}",
                parts.method,
                parts.uri,
                String::from_utf8_lossy(&sent)
            );
            log.lock().unwrap().push(line);
            let mut answer = Response::builder().status(status);
            if let Some(reason) = reason {
                let phrase = hyper::ext::ReasonPhrase::try_from(reason.as_bytes()).unwrap();
                answer = answer.extension(phrase);
            }
            Ok::<_, std::convert::Infallible>(answer.body(Full::from(body)).unwrap())
        }
    }));
    let api = Endpoint::parse("https://pve.example.com:8006/api2/json", &[]).unwrap();
    (
        Client::new(http, api, Arc::new(token("s3cr3t-value"))),
        seen,
    )
}

#[tokio::test]
async fn a_secret_that_the_server_repeats_is_shown_nowhere() {
    // Where the text is cut is in the middle of it.
    let long = format!("{}s3cr3t-value", "x".repeat(248));
    let body = json!({"data": null, "message": long, "errors": {"net0": long}}).to_string();
    let body: &'static str = body.leak();
    for (status, body) in [(500, body), (502, body), (200, long.leak())] {
        let (client, _) = answering(status, None, body);
        let error = client.create("a", &Fields::new()).await.unwrap_err();
        let said = error.to_string();
        assert!(!said.contains("s3cr3t"), "{status}: {said}");
    }
}

#[tokio::test]
async fn the_reason_phrase_is_the_error() {
    let (client, _) = answering(
        500,
        Some("unable to create VM 1250 - VM 1250 already exists on node 'a'"),
        r#"{"data":null}"#,
    );
    let error = client.create("a", &Fields::new()).await.unwrap_err();
    assert_eq!(error.trouble(), Trouble::Exists);
    assert!(
        error.to_string().contains("already exists on node 'a'"),
        "{error}"
    );
}

#[tokio::test]
async fn the_message_comes_before_the_reason_phrase_and_fields_are_named() {
    let (client, _) = answering(
        400,
        Some("Parameter verification failed."),
        r#"{"data":null,"message":"Parameter verification failed.\n","errors":{"net0":"invalid format - no such model"}}"#,
    );
    let error = client.create("a", &Fields::new()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "Parameter verification failed. net0: invalid format - no such model;"
    );
    assert_eq!(ProviderError::from(error).kind(), "invalid");
}

#[tokio::test]
async fn what_is_not_proxmox_is_told_apart() {
    for (status, body) in [(200, "<html>welcome</html>"), (404, "not found"), (301, "")] {
        let (client, _) = answering(status, None, body);
        let error = ProviderError::from(client.version().await.unwrap_err());
        assert_eq!(error.kind(), "invalid", "{status}");
        assert!(
            error
                .to_string()
                .contains("does not answer as Proxmox VE does"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_refused_token_is_named_and_its_secret_is_not() {
    let (client, seen) = answering(401, Some("no such token s3cr3t-value"), "");
    let error = ProviderError::from(client.version().await.unwrap_err());
    assert_eq!(error.kind(), "unauthorised");
    let text = error.to_string();
    assert!(
        text.contains("joiner@pve!t") && !text.contains("s3cr3t"),
        "{text}"
    );
    assert_eq!(
        seen.lock().unwrap().len(),
        1,
        "the same token is not tried twice"
    );
}

#[tokio::test]
async fn separators_in_values_are_encoded_and_queries_carry_no_body() {
    let (client, seen) = answering(
        200,
        None,
        r#"{"data":"UPID:a:00000001:00000002:69000000:qmcreate:1250:j@pve!t:"}"#,
    );
    let fields = Fields::from([
        ("boot".to_owned(), "order=net0;scsi0".to_owned()),
        ("tags".to_owned(), "a+b;c".to_owned()),
    ]);
    client.create("a", &fields).await.unwrap();
    client.destroy("a", 1250).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(
        seen[0],
        "POST https://pve.example.com:8006/api2/json/nodes/a/qemu boot=order%3Dnet0%3Bscsi0&tags=a%2Bb%3Bc"
    );
    assert_eq!(
        seen[1],
        "DELETE https://pve.example.com:8006/api2/json/nodes/a/qemu/1250?purge=1 "
    );
}

#[test]
fn a_task_knows_its_host_and_kind() {
    let task =
        Task::parse("UPID:n1:0000C0DE:0000000A:69000000:qmclone:9000:joiner@pve!t:").unwrap();
    assert_eq!((task.host(), task.kind()), ("n1", "qmclone"));
    for wrong in ["", "OK", "UPID:n1", "UPID:../x:1:2:3:4:5:6:"] {
        assert_eq!(Task::parse(wrong), None, "{wrong}");
    }
}

#[tokio::test]
async fn a_task_is_done_failed_or_not_known_yet() {
    let task =
        Task::parse("UPID:n1:0000C0DE:0000000A:69000000:qmstart:1250:joiner@pve!t:").unwrap();
    let done = r#"{"data":{"status":"stopped","exitstatus":"WARNINGS: 1"}}"#;
    let (client, _) = answering(200, None, done);
    assert_eq!(client.progress(&task).await, Ok(Progress::Done));
    let failed = r#"{"data":{"status":"stopped","exitstatus":"VM is locked (backup)"}}"#;
    let (client, _) = answering(200, None, failed);
    let Ok(Progress::Failed(error)) = client.progress(&task).await else {
        panic!("it has failed");
    };
    assert_eq!(error.trouble(), Trouble::Locked);
    assert_eq!(
        error.to_string(),
        "task qmstart on n1: VM is locked (backup)"
    );
    let (client, _) = answering(400, Some("no such task"), r#"{"data":null}"#);
    assert_eq!(client.progress(&task).await, Ok(Progress::Running));
}

#[tokio::test]
async fn a_token_that_was_replaced_is_read_again() {
    struct Rotating(StdMutex<Vec<&'static str>>);
    #[async_trait]
    impl Credentials for Rotating {
        async fn token(&self) -> Result<ApiToken, ProviderError> {
            let mut left = self.0.lock().unwrap();
            Ok(token(if left.len() > 1 {
                left.remove(0)
            } else {
                left[0]
            }))
        }
    }
    let http = Http::new(service_fn(|request: Request<Full<Bytes>>| async move {
        let header = request.headers()[AUTHORIZATION]
            .to_str()
            .unwrap()
            .to_owned();
        let good = header == "PVEAPIToken=joiner@pve!t=new-secret";
        let status = if good { 200 } else { 401 };
        let body = json!({"data": {"version": "9.1.1"}}).to_string();
        Ok::<_, std::convert::Infallible>(
            Response::builder()
                .status(status)
                .body(Full::from(body))
                .unwrap(),
        )
    }));
    let api = Endpoint::parse("https://pve.example.com:8006/api2/json", &[]).unwrap();
    let rotating = Rotating(StdMutex::new(vec!["old-secret", "new-secret"]));
    let client = Client::new(http, api, Arc::new(rotating));
    assert_eq!(client.version().await.as_deref(), Ok("9.1.1"));
}
