//! The Joiner binary: command line, wiring, serving.

mod api;
mod args;
mod ask;
mod aws;
mod board;
mod classes;
mod consolidate;
mod crds;
mod demo;
mod failure;
mod input;
mod kubelets;
mod manifests;
mod page;
mod plan;
mod prices;
mod render;
mod run;
mod simulate;
mod telemetry;
mod top;
mod what_if;
mod why;
mod wiring;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let args = args::Args::parse_from(args::under_either_name(std::env::args_os()));
    let done = match args.command {
        args::Command::Demo(demo) => demo::run(&demo),
        args::Command::Run(run) => run::run(&run),
        args::Command::Plan(plan) => plan::run(&plan),
        args::Command::Consolidate(consolidate) => consolidate::run(&consolidate),
        args::Command::Crds(crds) => crds::run(&crds),
        args::Command::Prices(prices) => prices::run(&prices),
        args::Command::Render(render) => render::run(&render),
        args::Command::Simulate(simulate) => simulate::run(&simulate),
        args::Command::Why(why) => why::run(&why),
        args::Command::WhatIf(what_if) => what_if::run(&what_if),
        args::Command::Savings(savings) => what_if::savings(&savings),
        args::Command::Top(top) => top::run(&top),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // Who reads on no longer, as `head` does, knows enough.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error may be closed: the exit status says it too.
            let _ = writeln!(std::io::stderr(), "joiner: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
