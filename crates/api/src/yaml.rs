//! CRDs as YAML, for kubectl, kustomize and charts.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;
use thiserror::Error;

use crate::crd::whole;

/// Why a CRD could not be written as YAML.
#[derive(Debug, Error)]
pub enum PrintError {
    /// It has no JSON form.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It has no YAML form.
    #[error(transparent)]
    Yaml(#[from] serde_saphyr::ser::Error),
}

/// A CRD as one YAML document, without a separator; the same bytes for the same CRD on every machine.
pub fn to_yaml(crd: &CustomResourceDefinition) -> Result<String, PrintError> {
    let value = sorted(serde_json::to_value(crd)?);
    Ok(serde_saphyr::to_string(&value)?)
}

/// Several CRDs as one stream of YAML documents.
pub fn to_yaml_stream(crds: &[CustomResourceDefinition]) -> Result<String, PrintError> {
    let mut stream = String::new();
    for crd in crds {
        stream.push_str("---\n");
        stream.push_str(&to_yaml(crd)?);
    }
    Ok(stream)
}

/// Keys in order, whichever map the JSON library was built with.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut fields: Vec<_> = object.into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            fields
                .into_iter()
                .map(|(key, value)| (key, sorted(value)))
                .collect()
        }
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        number @ Value::Number(_) => whole(&number),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crds;

    #[test]
    fn what_is_printed_is_what_is_read_back() {
        for crd in crds(None) {
            let yaml = to_yaml(&crd).unwrap();
            let back: CustomResourceDefinition = serde_saphyr::from_str(&yaml).unwrap();
            assert_eq!(back, crd);
        }
    }

    #[test]
    fn a_stream_holds_every_crd() {
        let crds = crds(None);
        let stream = to_yaml_stream(&crds).unwrap();
        assert_eq!(stream.matches("\n  name: ").count(), crds.len());
        assert!(stream.starts_with("---\napiVersion: apiextensions.k8s.io/v1\n"));
    }
}
