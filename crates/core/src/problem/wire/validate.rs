//! What a well-formed file may still get wrong.

use super::error::Fault;
use crate::name::Name;
use crate::requirement::{Expression, Requirement};

pub(super) fn twice(what: &str, name: &Name) -> Fault {
    Fault::new(
        format!("{what} {name:?} appears twice"),
        "give each a name of its own",
    )
}

/// Dollars an hour. What costs more is a way of saying that it cannot be had, and sums of it could not be counted.
const DEAREST: f64 = 1e6;

pub(super) fn price(dollars: f64) -> Result<(), Fault> {
    if (0.0..=DEAREST).contains(&dollars) {
        return Ok(());
    }
    let fault = format!("{dollars} is not a price");
    Err(Fault::new(
        fault,
        "write dollars per hour, from zero to a million; mark what cannot be bought as unavailable",
    ))
}

pub(super) fn requirements(given: &[Expression]) -> Result<(), Fault> {
    for (index, expression) in given.iter().enumerate() {
        Requirement::parse(expression).map_err(|error| {
            Fault::new(
                error.to_string(),
                "write one whole number, as a string: [\"4\"]",
            )
            .within("values")
            .element(index)
        })?;
    }
    Ok(())
}

pub(super) fn skew(given: i32) -> Result<(), Fault> {
    if given >= 1 {
        return Ok(());
    }
    let remedy = "write one or more: the fullest domain may be so many pods ahead";
    Err(Fault::new(format!("{given} is not a skew"), remedy).within("maxSkew"))
}

/// The same of every element of a list.
pub(super) fn each<T>(
    field: &'static str,
    given: &[T],
    test: impl Fn(&T) -> Result<(), Fault>,
) -> Result<(), Fault> {
    for (index, one) in given.iter().enumerate() {
        test(one).map_err(|fault| fault.element(index).within(field))?;
    }
    Ok(())
}
