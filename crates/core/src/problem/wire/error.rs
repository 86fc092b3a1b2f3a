//! What is wrong with a file: where, what, and what to write instead.

use std::fmt;

use thiserror::Error;

use super::locate::{Step, locate};

/// Why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {field}: {fault}{}", remedy_clause(.remedy))]
pub struct ReadError {
    /// Line, from one.
    pub line: usize,
    /// Column, from one.
    pub column: usize,
    /// Path of the field, such as `pods[3].cpuMilli`.
    pub field: String,
    /// What is wrong with it, the value included.
    pub fault: String,
    /// What to write instead; empty if the fault says it.
    pub remedy: String,
}

fn remedy_clause(remedy: &str) -> String {
    if remedy.is_empty() {
        String::new()
    } else {
        format!(" ({remedy})")
    }
}

impl ReadError {
    pub(super) fn from_serde(path: &str, error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let fault = text.strip_suffix(&place).unwrap_or(&text).to_owned();
        let field = if matches!(path, "" | "." | "?") {
            "the file".to_owned()
        } else {
            path.to_owned()
        };
        let remedy = if error.is_data() && !fault.starts_with("unknown field") {
            hint(path)
        } else {
            String::new()
        };
        ReadError {
            line: error.line(),
            column: error.column(),
            field,
            fault,
            remedy,
        }
    }
}

/// What to write in a field that people get wrong.
fn hint(path: &str) -> String {
    let field = path.rsplit('.').next().unwrap_or(path);
    let field = field.split('[').next().unwrap_or(field);
    match field {
        "cpuMilli" | "overheadCpuMilli" => "write thousandths of a core as a whole number: 500",
        "memoryMiB" | "overheadMemoryMiB" => "write MiB as a whole number: 512",
        "price" => "write dollars per hour as a number: 0.096",
        "count" | "gpus" | "pods" | "weight" | "maxSkew" | "seed" => "write a whole number",
        "capacity" | "overhead" | "requests" | "allocatable" | "free" => {
            "write whole numbers: cpu in thousandths of a core, everything else in units or bytes"
        }
        "consolidateAfter" | "minAge" | "expireAfter" | "duration" => {
            "write a duration: \"PT5M\" or \"5m\""
        }
        "now" | "created" | "lastPodEvent" => "write a time: \"2026-01-31T09:00:00Z\"",
        _ => "",
    }
    .to_owned()
}

/// A fault of meaning rather than of form: the file is well-formed, what it says is not possible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    steps: Vec<Step>,
    what: String,
    remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.what, remedy_clause(&self.remedy))
    }
}

impl Fault {
    pub(super) fn new(what: impl Into<String>, remedy: &str) -> Self {
        Fault {
            steps: Vec::new(),
            what: what.into(),
            remedy: remedy.to_owned(),
        }
    }

    /// Says that the fault lies within this field; called from the inside out.
    pub(super) fn within(mut self, field: &'static str) -> Self {
        self.steps.insert(0, Step::Field(field));
        self
    }

    /// Says that the fault lies within this element.
    pub(super) fn element(mut self, index: usize) -> Self {
        self.steps.insert(0, Step::Element(index));
        self
    }

    pub(super) fn at(self, text: &str) -> ReadError {
        let (line, column) = locate(text, &self.steps);
        let mut field = String::new();
        for step in &self.steps {
            match step {
                Step::Field(name) if field.is_empty() => field.push_str(name),
                Step::Field(name) => {
                    field.push('.');
                    field.push_str(name);
                }
                Step::Element(index) => field = format!("{field}[{index}]"),
            }
        }
        if field.is_empty() {
            field.push_str("the file");
        }
        ReadError {
            line,
            column,
            field,
            fault: self.what,
            remedy: self.remedy,
        }
    }
}
