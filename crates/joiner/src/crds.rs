//! `joiner crds`: the custom resource definitions, as YAML.

use std::io::{self, Write as _};

use crate::args::CrdsArgs;
use crate::failure::Failure;

/// Runs the command.
pub(crate) fn run(args: &CrdsArgs) -> Result<(), Failure> {
    let text = joiner_api::to_yaml_stream(&joiner_api::crds(args.dialect))
        .map_err(|error| Failure::stdout(io::Error::other(error)))?;
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(Failure::stdout)
}
