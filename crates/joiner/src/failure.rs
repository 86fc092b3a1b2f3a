//! Ways to fail, each with an exit status of its own.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use joiner_core::plan::Violation;
use joiner_core::problem::wire::ReadError;
use thiserror::Error;

/// How errors call it.
const STDOUT: &str = "standard output";

/// Why a command ended without success.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file, or the terminal, cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file does not say what it should.
    #[error("{}: {source}", .path.display())]
    Malformed {
        /// Which.
        path: PathBuf,
        /// Where and why.
        source: Box<ReadError>,
    },
    /// A port cannot be had.
    #[error("cannot listen on {address}: {source}; choose another with {flag}, or port 0 for any")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The flag that says where.
        flag: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The embedded cluster refused something of the demo's: a fault of Joiner.
    #[error("the demo could not be set up: {0}")]
    Demo(String),
    /// The command line makes no sense in a way that only shows later.
    #[error("{0}")]
    Usage(String),
    /// The cluster cannot be reached, or does not let us in.
    #[error("{0}")]
    Cluster(String),
    /// The machine refuses what every program needs.
    #[error("{0}")]
    System(io::Error),
    /// A part of the process has ended that the rest cannot do without: it must be started again.
    #[error("cannot go on: {0}")]
    Broken(String),
    /// Prices cannot be had.
    #[error("{0}")]
    Prices(String),
    /// Whom to ask does not answer.
    #[error("{0}")]
    Ask(String),
    /// Manifests do not make a problem.
    #[error("{0}")]
    Manifest(String),
    /// Some pods have no place.
    #[error("{0} pods have no place")]
    Unplaced(usize),
    /// Something happened in a simulation that must not: a fault of Joiner.
    #[error("{0} times something happened that must not")]
    Violated(usize),
    /// The plan is not valid: a fault of Joiner, not of the input.
    #[error("the plan breaks {} rules; first: {}", .0.len(), .0.first().map(ToString::to_string).unwrap_or_default())]
    Invalid(Vec<Violation>),
}

impl Failure {
    /// As the command's help lists them.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Read { .. }
            | Failure::Write { .. }
            | Failure::Listen { .. }
            | Failure::System(_)
            | Failure::Broken(_)
            | Failure::Ask(_)
            | Failure::Prices(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Malformed { .. } | Failure::Manifest(_) => 3,
            Failure::Unplaced(_) => 4,
            Failure::Invalid(_) | Failure::Demo(_) => 5,
            Failure::Cluster(_) => 6,
            Failure::Violated(_) => 7,
        }
    }

    /// Whether standard output was closed by its reader.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        let Failure::Write { path, source } = self else {
            return false;
        };
        source.kind() == io::ErrorKind::BrokenPipe && path.as_os_str() == STDOUT
    }

    /// Standard output cannot be written.
    pub(crate) fn stdout(source: io::Error) -> Self {
        Failure::Write {
            path: STDOUT.into(),
            source,
        }
    }
}
