//! Files in and out.

use std::fs;
use std::path::Path;

use joiner_core::plan::{Plan, check};
use joiner_core::problem::Problem;
use serde::Serialize;

use crate::args::SolverArgs;
use crate::failure::Failure;

/// Reads a problem file in either form.
pub(crate) fn problem(path: &Path) -> Result<Problem, Failure> {
    let text = text(path)?;
    Problem::from_json(&text).map_err(|source| Failure::Malformed {
        path: path.to_owned(),
        source: Box::new(source),
    })
}

/// Reads a text file.
pub(crate) fn text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|source| Failure::Read {
        path: path.to_owned(),
        source,
    })
}

/// Writes a value as JSON.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Failure> {
    let failed = |source| Failure::Write {
        path: path.to_owned(),
        source,
    };
    let mut text = serde_json::to_vec(value).map_err(|error| failed(error.into()))?;
    text.push(b'\n');
    fs::write(path, text).map_err(failed)
}

/// Judges a plan where asked to, and always in debug builds.
pub(crate) fn judge(problem: &Problem, plan: &Plan, args: &SolverArgs) -> Result<(), Failure> {
    if !args.check && !cfg!(debug_assertions) {
        return Ok(());
    }
    let violations = check(problem, plan);
    if violations.is_empty() {
        Ok(())
    } else {
        Err(Failure::Invalid(violations))
    }
}
