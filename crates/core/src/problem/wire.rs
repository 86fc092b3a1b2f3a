//! Problems and solutions as files.
//!
//! Two forms of a problem are read: the native one, which is [`Problem`] itself, and the smaller one that solvers are
//! compared on ("instanceTypes", quantities in milli-cores and MiB). A plan is written in the solution form that goes
//! with the latter.

mod error;
mod locate;
mod native;
mod pods;
mod referee;
mod solution;
mod validate;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

pub use error::ReadError;
pub use solution::{Claim, ExistingUse, Measurements, Solution, Unscheduled};

use super::{Catalog, Problem};
use crate::money::Money;

/// The one field by which the two forms are told apart.
#[derive(Deserialize)]
struct Probe {
    #[serde(rename = "instanceTypes")]
    instance_types: Option<IgnoredAny>,
}

impl Problem {
    /// Reads a problem in either form.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        if !text.trim_start().starts_with('{') {
            let what = "this is no problem";
            let remedy =
                "a problem is an object with catalogs, pools and pods, or with instanceTypes";
            return Err(error::Fault::new(what, remedy).at(text));
        }
        let comparison = match serde_json::from_str::<Probe>(text) {
            Ok(probe) => probe.instance_types.is_some(),
            Err(error) => return Err(ReadError::from_serde("", &error)),
        };
        if comparison {
            let wire: referee::Problem = read(text)?;
            return wire.lower().map_err(|fault| fault.at(text));
        }
        let mut problem: Problem = read(text)?;
        problem.normalize();
        native::problem(&problem).map_err(|fault| fault.at(text))?;
        Ok(problem)
    }

    /// A group whose file does not say how many pods it has stands for one.
    fn normalize(&mut self) {
        let on_nodes = self.nodes.iter_mut().flat_map(|node| &mut node.pods);
        for pod in self.pods.iter_mut().chain(on_nodes) {
            pod.count = pod.count.max(1);
        }
    }
}

impl Catalog {
    /// Reads a catalogue by itself.
    pub fn from_json(text: &str) -> Result<Self, ReadError> {
        let catalog: Catalog = read(text)?;
        native::catalog(&catalog).map_err(|fault| fault.at(text))?;
        Ok(catalog)
    }
}

/// Dollars an hour, if a catalogue may ask for so much; otherwise what is wrong and what to write instead.
pub fn price(dollars: f64) -> Result<Money, String> {
    match validate::price(dollars) {
        Ok(()) => Ok(Money::from_dollars(dollars)),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Reads any of our file forms, with the place and the field in the error.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    let mut input = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut input)
        .map_err(|error| ReadError::from_serde(&error.path().to_string(), error.inner()))?;
    input
        .end()
        .map_err(|error| ReadError::from_serde("", &error))?;
    Ok(value)
}

#[cfg(test)]
mod tests;
