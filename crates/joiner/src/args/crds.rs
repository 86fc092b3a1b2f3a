//! `joiner crds`, as typed.

use clap::Args;
use joiner_api::Dialect;

/// Arguments of `joiner crds`.
#[derive(Args)]
pub(crate) struct CrdsArgs {
    /// Only the custom resources of this family.
    #[arg(long, value_name = "NAME")]
    pub(crate) dialect: Option<Dialect>,
}
