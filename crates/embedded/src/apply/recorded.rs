//! Runs of random applies, updates, patches and status writes by several managers, recorded from kube-apiserver
//! v1.34.4 on a custom resource and on Deployments: each step must end with the same owners, or the same refusal.

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::Value;

use super::{Writer, apply, track};
use crate::patch;
use crate::schema::{Builtins, Schema, decode, decode_metadata, default, prune, validate};

fn recording() -> Value {
    let bytes: &[u8] = include_bytes!("../../assets/testdata/ownership.json.gz");
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Owners without their times, in any order: the recording's steps share seconds by chance.
fn owners(object: &Value) -> Vec<String> {
    let list = object["metadata"]["managedFields"].as_array();
    let mut owners: Vec<String> = list
        .into_iter()
        .flatten()
        .map(|entry| {
            let mut entry = entry.clone();
            entry.as_object_mut().unwrap().remove("time");
            entry.to_string()
        })
        .collect();
    owners.sort();
    owners
}

/// The first place where something of `ours` is missing from or different in `theirs`.
fn missing(ours: &Value, theirs: &Value, path: &str) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => ours.iter().find_map(|(name, value)| {
            let path = format!("{path}.{name}");
            match theirs.get(name) {
                Some(other) => missing(value, other, &path),
                None => Some(path),
            }
        }),
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => ours
            .iter()
            .zip(theirs)
            .find_map(|(value, other)| missing(value, other, &format!("{path}[]"))),
        (ours, theirs) => (ours != theirs).then(|| format!("{path}: {ours} is not {theirs}")),
    }
}

struct Run<'a> {
    schema: &'a Schema,
    api_version: &'a str,
    /// Brings an object into the form that the server stores, as far as this crate knows it.
    settle: fn(&mut Value, &Schema),
}

impl Run<'_> {
    fn play(&self, steps: &[Value]) -> usize {
        let mut live: Option<Value> = None;
        let mut applies = 0;
        for (index, step) in steps.iter().enumerate() {
            if step["fresh"] == true {
                live = None;
            }
            let text = |key: &str| step[key].as_str().unwrap_or_default();
            let main = text("subresource").is_empty();
            let writer = Writer {
                manager: text("manager"),
                subresource: text("subresource"),
                api_version: self.api_version,
                now: "2030-01-01T00:00:00Z",
                ignored: if main {
                    &[&["status"]]
                } else {
                    &[&["spec"], &["metadata", "labels"]]
                },
            };
            let operation = text("operation");
            if matches!(operation, "apply" | "force") {
                self.apply(live.as_ref(), step, &writer, index);
                applies += 1;
            } else if step["code"].as_i64() < Some(300) {
                self.track(live.as_ref(), step, &writer, index);
            }
            if !step["result"].is_null() {
                live = Some(step["result"].clone());
            }
        }
        applies
    }

    fn apply(&self, live: Option<&Value>, step: &Value, writer: &Writer<'_>, index: usize) {
        let force = step["operation"] == "force";
        let result = apply(live, &step["body"], writer, force, self.schema);
        match (step["code"].as_i64().unwrap(), result) {
            (200 | 201, Ok(mut object)) => {
                (self.settle)(&mut object, self.schema);
                assert_eq!(owners(&object), owners(&step["result"]), "step {index}");
                let found = missing(&object["spec"], &step["result"]["spec"], "spec");
                assert_eq!(found, None, "step {index}");
            }
            (409, Err(error)) => assert_eq!(error.to_string(), step["message"], "step {index}"),
            // The server merged and then found the result invalid.
            (422, Ok(_)) => {}
            (code, result) => panic!("step {index}: {code}, but {result:?}"),
        }
    }

    fn track(&self, live: Option<&Value>, step: &Value, writer: &Writer<'_>, index: usize) {
        if step["operation"] == "patch" && self.api_version == "apps/v1" {
            let mut patched = patch::strategic(live.unwrap(), &step["body"], self.schema).unwrap();
            (self.settle)(&mut patched, self.schema);
            let found = missing(&patched["spec"], &step["result"]["spec"], "spec");
            assert_eq!(found, None, "step {index}");
        }
        let mut new = step["result"].clone();
        let metadata = new["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        track(live, &mut new, writer, self.schema);
        assert_eq!(owners(&new), owners(&step["result"]), "step {index}");
    }
}

#[test]
fn owners_of_a_custom_resource_are_those_of_the_real_server() {
    let recording = recording();
    let schema = Schema::structural(&recording["schema"], "S").unwrap();
    let run = Run {
        schema: &schema,
        api_version: "t.io/v1",
        settle: |object, schema| {
            prune(object, schema);
            default(object, schema);
            decode_metadata(object).unwrap();
        },
    };
    assert!(run.play(recording["custom"].as_array().unwrap()) > 50);
}

#[test]
fn owners_of_a_deployment_are_those_of_the_real_server() {
    let recording = recording();
    let schema = Builtins::load().unwrap().kind("apps", "v1", "Deployment");
    let run = Run {
        schema: schema.unwrap(),
        api_version: "apps/v1",
        settle: |object, schema| {
            decode(object, schema).unwrap();
        },
    };
    assert!(run.play(recording["deployments"].as_array().unwrap()) > 50);
}

#[test]
fn a_merge_that_empties_a_list_is_invalid_as_on_the_real_server() {
    let recording = recording();
    let schema = Schema::structural(&recording["schema"], "S").unwrap();
    let steps = recording["custom"].as_array().unwrap();
    let mut seen = 0;
    for (before, step) in steps.iter().zip(&steps[1..]) {
        let refused = step["code"] == 422 && step["operation"] != "patch";
        if !refused || before["result"].is_null() {
            continue;
        }
        let writer = Writer {
            manager: step["manager"].as_str().unwrap(),
            subresource: "",
            api_version: "t.io/v1",
            now: "2030-01-01T00:00:00Z",
            ignored: &[&["status"]],
        };
        let live = Some(&before["result"]).filter(|_| step["fresh"] == false);
        let object = apply(live, &step["body"], &writer, true, &schema).unwrap();
        assert!(
            !validate(&object, &schema).is_empty(),
            "{}",
            step["message"]
        );
        seen += 1;
    }
    assert!(seen > 0);
}
