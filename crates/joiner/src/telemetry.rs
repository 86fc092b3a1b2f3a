//! Logs: short lines on a terminal, JSON everywhere else. `RUST_LOG` chooses what is said.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// The client warns of an unchecked certificate at every connection; we say it once ourselves.
const ONCE_IS_ENOUGH: &str = "kube_client::client::tls=error";

/// Starts logging to standard error.
pub(crate) fn start(default: &str, format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let filter = match ONCE_IS_ENOUGH.parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let terminal = std::io::stderr().is_terminal();
    let text = match format {
        LogFormat::Auto => terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    // A second start in one process keeps the first.
    let _ = if text {
        logs.with_ansi(terminal)
            .compact()
            .with_target(false)
            .try_init()
    } else {
        logs.json()
            .flatten_event(true)
            .with_span_list(false)
            .try_init()
    };
}
