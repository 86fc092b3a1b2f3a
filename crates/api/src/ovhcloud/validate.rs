//! Checks of OVHNodeClass.

use super::OVHNodeClass;
use crate::validate::{Check, Validate, Violation};

impl Validate for OVHNodeClass {
    fn validate(&self) -> Vec<Violation> {
        let mut check = Check::default();
        let id = &self.spec.service_name;
        let is_id = id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        check.that(is_id, "spec.serviceName", || {
            format!(
                "{id:?} is not the id of a Public Cloud project: write its 32 hexadecimal digits"
            )
        });
        if let Some(secret) = &self.spec.credentials_secret_ref {
            for (name, value) in [("name", &secret.name), ("namespace", &secret.namespace)] {
                check.that(
                    !value.is_empty(),
                    &format!("spec.credentialsSecretRef.{name}"),
                    || {
                        "may not be empty: name the Secret, or leave out the whole reference"
                            .to_owned()
                    },
                );
            }
        }
        check.labels("spec.tags", &self.spec.tags);
        check.done()
    }
}
