//! Logs: short lines on a terminal, JSON everywhere else. `RUST_LOG` chooses what is said.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts logging to standard error.
pub(crate) fn start(default: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    // A second start in one process keeps the first.
    let _ = if std::io::stderr().is_terminal() {
        logs.compact().with_target(false).try_init()
    } else {
        logs.json().try_init()
    };
}
