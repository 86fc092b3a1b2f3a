//! The command line, as typed.

mod consolidate;
mod crds;
mod demo;
mod plan;
mod prices;
mod run;
mod simulate;

use clap::{Parser, Subcommand};

pub(crate) use consolidate::ConsolidateArgs;
pub(crate) use crds::CrdsArgs;
pub(crate) use demo::DemoArgs;
pub(crate) use plan::{Format, PlanArgs, SolverArgs};
pub(crate) use prices::{PriceFormat, PriceSource, PricesArgs};
pub(crate) use run::{
    BehaviourArgs, ClusterArgs, ElectionArgs, LogFormat, LogLevel, RunArgs, ServingArgs,
};
pub(crate) use simulate::{FaultKind, ReportFormat, SimulateArgs};

/// Joiner keeps a Kubernetes cluster in the cheapest shape that holds its pods.
#[derive(Parser)]
#[command(name = "joiner", version, propagate_version = true)]
pub(crate) struct Args {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a whole cluster in this process, with nothing installed.
    Demo(DemoArgs),
    /// Look after the nodes of a cluster.
    Run(Box<RunArgs>),
    /// Plan the cheapest machines for pods that wait, offline.
    Plan(PlanArgs),
    /// Plan which nodes to take away, round after round, offline.
    Consolidate(ConsolidateArgs),
    /// Print the custom resource definitions.
    Crds(CrdsArgs),
    /// Show what servers cost right now.
    Prices(PricesArgs),
    /// Run whole worlds in virtual time, with faults, and check that nothing goes wrong that must not.
    Simulate(SimulateArgs),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }
}
