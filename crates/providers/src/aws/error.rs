//! What AWS refuses, by what is to be done about it.

use std::time::Duration;

use quick_xml::de::from_str;
use serde::Deserialize;
use thiserror::Error;

use crate::ProviderError;
use crate::http::{HttpError, Reply, excerpt};

/// What is to be done about a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum AwsErrorKind {
    /// Too many calls: later.
    Throttled,
    /// Credentials are missing, wrong or expired, or lack a permission: a person must act.
    Denied,
    /// Too many different requests for placement scores within a day: those asked before may be asked again.
    ScoreLimit,
    /// The request can never work.
    Invalid,
    /// May work when tried again.
    Unavailable,
}

/// A call to AWS that failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{action}: {code}: {message}")]
pub struct AwsError {
    /// What was asked.
    pub action: String,
    /// AWS's own code, or a word of ours.
    pub code: String,
    /// What AWS said, without what differs from call to call.
    pub message: String,
    /// What is to be done.
    pub kind: AwsErrorKind,
    /// When to come back, if AWS said so.
    pub retry_after: Option<Duration>,
}

/// Codes of the AWS SDKs for "too many calls".
const THROTTLED: [&str; 14] = [
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottledException",
    "TooManyRequestsException",
    "ProvisionedThroughputExceededException",
    "TransactionInProgressException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "RequestThrottled",
    "SlowDown",
    "PriorRequestNotComplete",
    "EC2ThrottledException",
];

const DENIED: [&str; 13] = [
    "UnauthorizedOperation",
    "AuthFailure",
    "AccessDenied",
    "AccessDeniedException",
    "OptInRequired",
    "SignatureDoesNotMatch",
    "InvalidClientTokenId",
    "UnrecognizedClientException",
    "MissingAuthenticationToken",
    "IncompleteSignature",
    "ExpiredToken",
    "ExpiredTokenException",
    "RequestExpired",
];

#[derive(Default, Deserialize)]
struct Ec2Errors {
    #[serde(rename = "Errors", default)]
    errors: Errors,
    // The price list and STS have the error right below the root.
    #[serde(rename = "Error", default)]
    error: Option<Said>,
}

#[derive(Default, Deserialize)]
struct Errors {
    #[serde(rename = "Error", default)]
    error: Vec<Said>,
}

#[derive(Default, Deserialize)]
struct Said {
    #[serde(rename = "Code", default)]
    code: String,
    #[serde(rename = "Message", default)]
    message: String,
}

#[derive(Default, Deserialize)]
struct JsonError {
    #[serde(rename = "__type", default)]
    kind: String,
    #[serde(alias = "Message", default)]
    message: String,
}

impl AwsError {
    /// An error of ours.
    pub fn new(action: &str, code: &str, message: impl Into<String>, kind: AwsErrorKind) -> Self {
        AwsError {
            action: action.to_owned(),
            code: code.to_owned(),
            message: message.into(),
            kind,
            retry_after: None,
        }
    }

    /// Nothing came back: from where is what tells a region that does not exist.
    pub(super) fn transport(action: &str, host: &str, error: &HttpError) -> Self {
        let message = format!("{host}: {error}");
        AwsError::new(action, "NoAnswer", message, AwsErrorKind::Unavailable)
    }

    /// What came back cannot be read.
    pub(super) fn unreadable(action: &str, error: &str, body: &[u8]) -> Self {
        let said = excerpt(body);
        let message = format!("the answer cannot be read: {error}, in {said:?}");
        AwsError::new(
            action,
            "UnreadableAnswer",
            message,
            AwsErrorKind::Unavailable,
        )
    }

    /// A refusal.
    pub(super) fn refusal(action: &str, reply: &Reply) -> Self {
        let text = String::from_utf8_lossy(&reply.body);
        let said = if text.trim_start().starts_with('{') {
            let read: JsonError = serde_json::from_str(&text).unwrap_or_default();
            let code = read.kind.rsplit('#').next().unwrap_or_default().to_owned();
            Said {
                code,
                message: read.message,
            }
        } else {
            let read: Ec2Errors = from_str(&text).unwrap_or_default();
            read.errors
                .error
                .into_iter()
                .next()
                .or(read.error)
                .unwrap_or_default()
        };
        let status = reply.status.as_u16();
        let (code, message) = if said.code.is_empty() {
            (format!("Http{status}"), excerpt(&reply.body))
        } else {
            (said.code, excerpt(said.message.as_bytes()))
        };
        let kind = kind(&code, &message, status);
        AwsError {
            action: action.to_owned(),
            code,
            message: stable(&message),
            kind,
            retry_after: after(reply),
        }
    }
}

/// The SDKs' own header counts milliseconds.
fn after(reply: &Reply) -> Option<Duration> {
    let millis = reply.headers.get("x-amz-retry-after")?.to_str().ok()?;
    let millis: u64 = millis.trim().parse().ok()?;
    Some(Duration::from_millis(millis))
}

fn kind(code: &str, message: &str, status: u16) -> AwsErrorKind {
    if code == "MaxConfigLimitExceeded" {
        AwsErrorKind::ScoreLimit
    } else if THROTTLED.contains(&code) || status == 429 || message.contains("Rate exceeded") {
        AwsErrorKind::Throttled
    } else if DENIED.contains(&code) || matches!(status, 401 | 403) {
        AwsErrorKind::Denied
    } else if status >= 500 || code.starts_with("RequestTimeout") {
        AwsErrorKind::Unavailable
    } else {
        AwsErrorKind::Invalid
    }
}

/// A message without what differs from call to call, so that the same refusal is the same text.
fn stable(message: &str) -> String {
    let end = [
        "Encoded authorization failure message",
        "Request ID",
        "RequestId",
    ]
    .iter()
    .filter_map(|word| message.find(word))
    .min();
    let text = end.map_or(message, |end| message.get(..end).unwrap_or(message));
    text.trim_end_matches([' ', '(', ':', ';', ',']).to_owned()
}

impl From<AwsError> for ProviderError {
    fn from(error: AwsError) -> Self {
        let message = error.to_string();
        match error.kind {
            AwsErrorKind::Throttled => ProviderError::Throttled {
                message,
                retry_after: error.retry_after,
            },
            AwsErrorKind::Denied => ProviderError::Unauthorised(message),
            AwsErrorKind::ScoreLimit => ProviderError::Quota(message),
            AwsErrorKind::Invalid => ProviderError::Invalid(message),
            AwsErrorKind::Unavailable => ProviderError::Transient(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, StatusCode};

    use super::*;

    #[test]
    fn whoever_cannot_be_reached_is_named() {
        let error = HttpError::Transport("dns error".to_owned());
        let host = "ec2.eu-cental-1.amazonaws.com";
        let said = AwsError::transport("DescribeSubnets", host, &error).to_string();
        assert!(said.contains(host) && said.contains("dns error"), "{said}");
    }

    fn reply(status: u16, body: &str) -> Reply {
        Reply {
            status: StatusCode::from_u16(status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::from(body.to_owned()),
            reason: None,
        }
    }

    fn ec2(code: &str, message: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>{code}</Code><Message>{message}\
             </Message></Error></Errors><RequestID>6f</RequestID></Response>"
        )
    }

    #[test]
    fn codes_decide_what_is_to_be_done() {
        for (status, code, kind) in [
            (503, "RequestLimitExceeded", AwsErrorKind::Throttled),
            (403, "UnauthorizedOperation", AwsErrorKind::Denied),
            (400, "OptInRequired", AwsErrorKind::Denied),
            (400, "RequestExpired", AwsErrorKind::Denied),
            (400, "MaxConfigLimitExceeded", AwsErrorKind::ScoreLimit),
            (400, "InvalidInstanceType", AwsErrorKind::Invalid),
            (500, "InternalError", AwsErrorKind::Unavailable),
        ] {
            let error = AwsError::refusal("DescribeX", &reply(status, &ec2(code, "no")));
            assert_eq!((error.code.as_str(), error.kind), (code, kind));
        }
    }

    #[test]
    fn throttling_in_the_text_of_a_400_is_throttling() {
        let error = AwsError::refusal("X", &reply(400, &ec2("Client.Unknown", "Rate exceeded")));
        assert_eq!(error.kind, AwsErrorKind::Throttled);
    }

    #[test]
    fn errors_of_sts_and_the_price_list_are_read_too() {
        let sts = "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>m</Message></Error></ErrorResponse>";
        assert_eq!(
            AwsError::refusal("X", &reply(403, sts)).code,
            "AccessDenied"
        );
        let json = r#"{"__type":"com.amazonaws.pricing#ThrottlingException","message":"slow"}"#;
        assert_eq!(
            AwsError::refusal("X", &reply(400, json)).kind,
            AwsErrorKind::Throttled
        );
        let page = AwsError::refusal("X", &reply(500, "<!doctype html><p>oops"));
        assert_eq!(
            (page.code.as_str(), page.kind),
            ("Http500", AwsErrorKind::Unavailable)
        );
    }

    #[test]
    fn what_differs_from_call_to_call_is_cut_off() {
        let said = "You are not authorized to perform this operation. Encoded authorization failure message: AbC123";
        let error = AwsError::refusal("X", &reply(403, &ec2("UnauthorizedOperation", said)));
        assert_eq!(
            error.message,
            "You are not authorized to perform this operation."
        );
    }
}
