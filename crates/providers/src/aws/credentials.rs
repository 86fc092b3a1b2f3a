//! Credentials by AWS's own chain: environment, profile, web identity (IRSA), container (pod identity), instance role.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials as Keys;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use jiff::Timestamp;
use tokio::sync::{Mutex, OnceCell};

use super::error::{AwsError, AwsErrorKind};

/// How long before their end keys are replaced: longer than the longest paged call takes.
const MARGIN: Duration = Duration::from_mins(5);

/// Where keys come from. Cheap to clone; clones share what they have found.
#[derive(Clone)]
pub struct Credentials {
    source: Arc<Source>,
    known: Arc<Mutex<Option<Keys>>>,
}

enum Source {
    Fixed(SharedCredentialsProvider),
    Chain(String, OnceCell<Option<SharedCredentialsProvider>>),
}

impl Credentials {
    /// AWS's own chain. `region` says which STS to ask where the environment names none.
    pub fn chain(region: &str) -> Self {
        Self::from(Source::Chain(region.to_owned(), OnceCell::new()))
    }

    /// Keys that are given.
    pub fn fixed(id: &str, secret: &str, token: Option<&str>) -> Self {
        let keys = Keys::new(id, secret, token.map(str::to_owned), None, "fixed");
        Self::from(Source::Fixed(SharedCredentialsProvider::new(keys)))
    }

    fn from(source: Source) -> Self {
        Credentials {
            source: Arc::new(source),
            known: Arc::default(),
        }
    }

    /// Keys that are good for a while. Web identity tokens are read from their file at each renewal.
    pub(super) async fn keys(&self, now: Timestamp) -> Result<Keys, AwsError> {
        let mut known = self.known.lock().await;
        if let Some(keys) = known.as_ref().filter(|keys| is_good(keys, now)) {
            return Ok(keys.clone());
        }
        let denied = |message: String| {
            AwsError::new(
                "credentials",
                "NoCredentials",
                message,
                AwsErrorKind::Denied,
            )
        };
        let provider = match &*self.source {
            Source::Fixed(provider) => Some(provider.clone()),
            Source::Chain(region, found) => {
                let load = || async {
                    let region = Region::new(region.clone());
                    let loader = aws_config::defaults(BehaviorVersion::latest()).region(region);
                    loader.load().await.credentials_provider()
                };
                found.get_or_init(load).await.clone()
            }
        };
        let Some(provider) = provider else {
            return Err(denied("no source of AWS credentials is configured".into()));
        };
        let keys = provider.provide_credentials().await.map_err(|error| {
            denied(format!(
                "{}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or annotate the service account with an IAM role",
                causes(&error)
            ))
        })?;
        *known = Some(keys.clone());
        Ok(keys)
    }

    /// Forgets keys that AWS did not take: the next call asks for others.
    pub(super) async fn forget(&self) {
        *self.known.lock().await = None;
    }
}

fn is_good(keys: &Keys, now: Timestamp) -> bool {
    let Some(end) = keys.expiry() else {
        return true;
    };
    SystemTime::from(now) + MARGIN < end
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        below = cause.source();
    }
    text
}
