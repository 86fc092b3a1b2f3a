//! The verdict on a case: whether answers keep the case's own promises, and whether two servers agree.

use std::fmt::Write as _;

use serde_json::Value;

use super::case::{Case, Step, Subject};
use super::compare::{differences, look};
use super::normalise::Normaliser;
use super::play::{Answer, Content};

/// The answers, ready to be compared, cut to what each step looks at.
pub fn normalised(case: &Case, answers: &[Answer]) -> Vec<Value> {
    let mut normaliser = Normaliser::new(case);
    let steps = case.steps.iter().zip(answers);
    steps
        .map(|(step, answer)| part(step, normaliser.answer(answer)))
        .collect()
}

fn part(step: &Step, mut answer: Value) -> Value {
    if let Some(path) = &step.look {
        answer["body"] = look(&answer["body"], path)
            .unwrap_or_else(|| Value::String(format!("(nothing at {path})")));
    }
    if step.causes_in_any_order_because.is_some() {
        sort_causes(&mut answer["body"]);
    }
    if step.words_differ_because.is_some() {
        hide_words(&mut answer["body"]);
    }
    answer
}

/// Hides the sentences of a refusal; its reason, code and fields stay.
fn hide_words(body: &mut Value) {
    let words = || Value::String("<words>".to_owned());
    if body.is_string() {
        *body = words();
    }
    if let Some(message) = body.get_mut("message") {
        *message = words();
    }
    let causes = body
        .pointer_mut("/details/causes")
        .and_then(Value::as_array_mut);
    for message in causes
        .into_iter()
        .flatten()
        .filter_map(|cause| cause.get_mut("message"))
    {
        *message = words();
    }
}

/// Sorts the causes, and the sentences of the message that lists the same causes in the same order.
fn sort_causes(status: &mut Value) {
    let Some(causes) = status.pointer("/details/causes").and_then(Value::as_array) else {
        return;
    };
    let mut causes = causes.clone();
    let sentence = |cause: &Value| {
        let part = |key: &str| cause[key].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", part("field"), part("message"))
    };
    let listed = |causes: &[Value]| causes.iter().map(sentence).collect::<Vec<_>>().join(", ");
    let before = listed(&causes);
    causes.sort_by_cached_key(sentence);
    if let Some(message) = status["message"].as_str() {
        status["message"] = Value::String(message.replace(&before, &listed(&causes)));
    }
    status["details"]["causes"] = Value::Array(causes);
}

/// Where answers differ from what the case itself says, one sentence each.
pub fn broken_promises(case: &Case, answers: &[Answer]) -> Vec<String> {
    let steps = case.steps.iter().zip(answers).enumerate();
    steps
        .filter_map(|(index, (step, answer))| {
            let broken = broken_promise(&case.id, step, answer)?;
            Some(format!("step {}: {}: {broken}", index + 1, answer.request))
        })
        .collect()
}

/// What `answer` lacks of what `step` promises.
pub(super) fn broken_promise(namespace: &str, step: &Step, answer: &Answer) -> Option<String> {
    let text = match &answer.content {
        Content::Json(body) => body.to_string(),
        Content::Events(events) => Value::Array(events.clone()).to_string(),
        Content::Text(text) => text.clone(),
    };
    let status = answer.status;
    match step.expect {
        Some(expected) if status != expected => {
            return Some(format!("status {status} instead of {expected}: {text}"));
        }
        None if !matches!(status, 0 | 200 | 201) => {
            return Some(format!("status {status} instead of success: {text}"));
        }
        _ => {}
    }
    let words = step.says.as_ref()?.replace("${ns}", namespace);
    // Quoted words stand in JSON with escapes; both spellings will do.
    let escaped = Value::String(words.clone()).to_string();
    let said = text.contains(&words) || text.contains(escaped.trim_matches('"'));
    (!said).then(|| format!("does not say {words:?}: {text}"))
}

/// A readable account of every step at which the two servers differ; empty if they agree.
pub fn unequal(case: &Case, real: &[Answer], embedded: &[Answer]) -> String {
    let mut account = String::new();
    let pairs = normalised(case, real)
        .into_iter()
        .zip(normalised(case, embedded));
    for (index, (real_value, embedded_value)) in pairs.enumerate() {
        let found = differences(&real_value, &embedded_value);
        if !found.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(account, "step {}: {}", index + 1, real[index].request);
        }
        for difference in found {
            let _ = writeln!(
                account,
                "  {}",
                difference.to_string().replace('\n', "\n  ")
            );
        }
    }
    account
}

/// How many cases there are of each subject.
pub fn report_of(subjects: &[Subject]) -> String {
    let mut report = String::new();
    for subject in subjects {
        let _ = writeln!(report, "{:>5}  {}", subject.cases.len(), subject.name);
    }
    let total: usize = subjects.iter().map(|subject| subject.cases.len()).sum();
    let _ = writeln!(report, "{total:>5}  cases in all");
    report
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn causes_are_sorted_in_the_list_and_in_the_message() {
        let status = |message: &str, causes: [&str; 2]| {
            let causes = causes.map(|field| json!({"field": field, "message": "Required value"}));
            json!({"message": message, "details": {"causes": causes}})
        };
        let mut unsorted = status(
            "x is invalid: [b: Required value, a: Required value]",
            ["b", "a"],
        );
        sort_causes(&mut unsorted);
        let sorted = status(
            "x is invalid: [a: Required value, b: Required value]",
            ["a", "b"],
        );
        assert_eq!(unsorted, sorted);
    }
}
