//! Chores of this repository: `cargo xtask help` lists them.

mod bench;
mod gotypes;
mod openapi;
mod protobuf;
mod rooms;

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use xtask::controlplane::Program;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Chores of this repository",
    disable_version_flag = true
)]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Solve generated problems and real traces side by side with Karpenter, and print one table
    Bench(Box<bench::BenchArgs>),
    /// Draw the figures in a folder again, those that `bench --plots` left there
    Plots {
        /// The folder with benchmarks.csv
        #[arg(default_value = "docs/images")]
        folder: PathBuf,
    },
    /// Fail when a crate depends on what its room must not hold, or a source file outgrew its subject
    CheckRooms,
    /// Build what is missing of the real control plane and print the directory that holds it
    Controlplane {
        /// Build these programs only (default: all)
        programs: Vec<Program>,
    },
    /// Write the CRDs to config/crd and their fields to docs/reference/crds.md
    Manifests {
        /// Write nothing and fail if something would change
        #[arg(long)]
        check: bool,
    },
    /// Collect the OpenAPI and discovery documents that the embedded API server serves
    Openapi {
        /// The Go module cache (`go env GOMODCACHE`)
        #[arg(long)]
        modules: PathBuf,
        /// The release of Kubernetes without its leading 1
        #[arg(long, default_value = "34.4")]
        release: String,
        /// A folder with the documents of a live server of that release: `/openapi/v3/apis/apps/v1` saved as
        /// `apis__apps__v1_openapi.json`, and so on
        #[arg(long)]
        live: PathBuf,
        /// Where the assets go
        #[arg(long, default_value = "crates/embedded/assets/openapi")]
        into: PathBuf,
    },
    /// Collect the field numbers of Kubernetes' protobuf messages for the embedded API server
    Protobuf {
        /// The folder of the Go modules: `$(go env GOMODCACHE)/k8s.io`
        #[arg(long)]
        from: PathBuf,
        /// The version of k8s.io/api and k8s.io/apimachinery
        #[arg(long, default_value = "v0.34.4")]
        version: String,
        /// Where the asset goes
        #[arg(long, default_value = "crates/embedded/assets/protobuf")]
        into: PathBuf,
    },
}

fn main() -> anyhow::Result<()> {
    match Args::parse().chore {
        Chore::Bench(args) => bench::run(&args),
        Chore::CheckRooms => rooms::check(),
        Chore::Controlplane { programs } => control_plane(programs),
        Chore::Manifests { check } => xtask::manifests::run(check),
        Chore::Plots { folder } => bench::plots::draw(&folder),
        Chore::Openapi {
            modules,
            release,
            live,
            into,
        } => openapi::collect(&modules, &release, &live, &into),
        Chore::Protobuf {
            from,
            version,
            into,
        } => protobuf::collect(&from, &version, &into),
    }
}

fn control_plane(programs: Vec<Program>) -> anyhow::Result<()> {
    let wanted = if programs.is_empty() {
        Program::ALL.to_vec()
    } else {
        programs
    };
    let directory = xtask::controlplane::ensure(&wanted)?;
    writeln!(std::io::stdout(), "{}", directory.display())?;
    Ok(())
}
