//! What can go wrong at a cloud, by what is to be done about it.

use std::time::Duration;

use thiserror::Error;

/// A call to a cloud that did not do what it should.
///
/// The variant decides what happens next; the text is what the cloud said, for people.
#[derive(Clone, Debug, Error, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ProviderError {
    /// Not to be had right now: try the next offering and leave this one alone for a while.
    #[error("out of capacity: {0}")]
    OutOfCapacity(String),
    /// The account may not have more: nothing larger will work either.
    #[error("quota exhausted: {0}")]
    Quota(String),
    /// Credentials are wrong, expired or lack a permission: a person must act.
    #[error("not authorised: {0}")]
    Unauthorised(String),
    /// Too many calls: come back later.
    #[error("throttled: {message}")]
    Throttled {
        /// What the cloud said.
        message: String,
        /// When it wants to hear from us again, if it said so.
        retry_after: Option<Duration>,
    },
    /// There is no such machine. Only an authoritative read may say so.
    #[error("not found: {0}")]
    NotFound(String),
    /// The request can never work: its settings are wrong, and a person must change them.
    #[error("invalid: {0}")]
    Invalid(String),
    /// May work when tried again. Whether it took effect is unknown.
    #[error("{0}")]
    Transient(String),
}

impl ProviderError {
    /// Name of the kind, for metrics.
    pub fn kind(&self) -> &'static str {
        self.into()
    }

    /// Whether the same call may succeed without anybody changing anything.
    pub fn passes(&self) -> bool {
        !matches!(
            self,
            ProviderError::Unauthorised(_) | ProviderError::Invalid(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_a_closed_set_of_words() {
        let throttled = ProviderError::Throttled {
            message: "slow down".into(),
            retry_after: None,
        };
        assert_eq!(throttled.kind(), "throttled");
        assert_eq!(
            ProviderError::OutOfCapacity(String::new()).kind(),
            "out_of_capacity"
        );
    }

    #[test]
    fn what_only_a_person_can_mend_does_not_pass() {
        assert!(!ProviderError::Unauthorised("token expired".into()).passes());
        assert!(!ProviderError::Invalid("no such bridge".into()).passes());
        assert!(ProviderError::Transient("reset by peer".into()).passes());
    }
}
