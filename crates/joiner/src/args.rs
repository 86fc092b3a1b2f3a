//! The command line, as typed.

mod aws;
mod consolidate;
mod crds;
mod demo;
mod look;
mod ovhcloud;
mod plan;
mod prices;
mod rackspace;
mod render;
mod run;
mod settings;
mod simulate;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::{Parser, Subcommand};

pub(crate) use aws::AwsArgs;
pub(crate) use consolidate::ConsolidateArgs;
pub(crate) use crds::CrdsArgs;
pub(crate) use demo::{DemoArgs, StoryArg};
pub(crate) use look::{AskArgs, BaseArgs, SavingsArgs, TopArgs, What, WhatIfArgs, WhyArgs};
pub(crate) use ovhcloud::OvhArgs;
pub(crate) use plan::{Format, PlanArgs, SolverArgs};
pub(crate) use prices::{PriceFormat, PriceSource, PricesArgs};
pub(crate) use rackspace::RackspaceArgs;
pub(crate) use render::{ClassVersionArg, RenderArgs, RenderFrom, RenderLeftoverArgs};
pub(crate) use run::{
    BehaviourArgs, ClusterArgs, ElectionArgs, LogFormat, LogLevel, RunArgs, ServingArgs, USUAL_PAGE,
};
pub(crate) use settings::SettingsArgs;
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
    /// Show what would be rendered from an object, without a cluster.
    Render(RenderArgs),
    /// Simulate whole clusters in virtual time, with faults, and audit every change.
    Simulate(SimulateArgs),
    /// Say why a pod, node, pool or machine is as it is, and what would change it.
    Why(WhyArgs),
    /// Work out what would become of the cluster if something were different; nothing is changed.
    WhatIf(WhatIfArgs),
    /// Say what the cluster costs, what it could cost, and where the difference is.
    Savings(SavingsArgs),
    /// Show the nodes: how full, at what price, and why they stay.
    Top(TopArgs),
}

/// What was typed, whatever the binary is called. As `controller` it is Karpetrack's: `controller --mock-mode` is
/// `joiner run --dialect karpetrack --mock-mode`, and one dash is as good as two, as Go has it.
pub(crate) fn under_either_name(typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut typed = typed.into_iter();
    let name = typed.next().unwrap_or_else(|| "joiner".into());
    let is_controller = Path::new(&name).file_stem() == Some(OsStr::new("controller"));
    let mut all = vec![name];
    if !is_controller {
        all.extend(typed);
        return all;
    }
    all.push("run".into());
    let rest: Vec<OsString> = typed.map(two_dashes).collect();
    let said = |flag: &OsString| flag.to_string_lossy().starts_with("--dialect");
    if !rest.iter().any(said) && std::env::var_os("DIALECTS").is_none() {
        all.push("--dialect=karpetrack".into());
    }
    all.extend(rest);
    all
}

fn two_dashes(typed: OsString) -> OsString {
    match typed.to_str() {
        Some(text) if text.len() > 2 && text.starts_with('-') && !text.starts_with("--") => {
            format!("-{text}").into()
        }
        _ => typed,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        super::Args::command().debug_assert();
    }

    #[test]
    fn a_controller_is_a_joiner_that_runs_karpetrack() {
        let typed = |all: &[&str]| -> Vec<String> {
            let all = all.iter().map(|one| (*one).into());
            let read = super::under_either_name(all).into_iter();
            read.map(|one| one.into_string().unwrap_or_default())
                .collect()
        };
        assert_eq!(
            typed(&["./bin/controller", "-mock-mode", "--leader-elect=false"]),
            [
                "./bin/controller",
                "run",
                "--dialect=karpetrack",
                "--mock-mode",
                "--leader-elect=false"
            ]
        );
        assert_eq!(typed(&["joiner", "-h"]), ["joiner", "-h"]);
        assert_eq!(typed(&["controller", "-h"])[3], "-h");
    }
}
