//! Logs: short lines on a terminal, JSON everywhere else. `RUST_LOG` chooses what is said.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// The client warns of an unchecked certificate at every connection; we say it once ourselves.
const ONCE_IS_ENOUGH: &str = "kube_client::client::tls=error";

/// Starts logging to standard error.
pub(crate) fn start(default: &str, format: LogFormat) {
    let wanted = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let logs = tracing_subscriber::fmt()
        .with_env_filter(without_repeats(wanted))
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

fn without_repeats(filter: EnvFilter) -> EnvFilter {
    match ONCE_IS_ENOUGH.parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_unchecked_certificate_is_not_told_at_every_connection() {
        let written = Written::default();
        let writer = written.clone();
        let logs = tracing_subscriber::fmt()
            .with_env_filter(without_repeats(EnvFilter::new("info")))
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(logs, || {
            // As kube-client says it, in its module for rustls.
            tracing::warn!(target: "kube_client::client::tls::rustls_tls", "Server cert bypassed");
            tracing::error!(target: "kube_client::client::tls::rustls_tls", "handshake failed");
            tracing::warn!(target: "kube_client::client", "slow");
        });
        let said = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(!said.contains("bypassed"), "{said}");
        assert!(
            said.contains("handshake failed") && said.contains("slow"),
            "{said}"
        );
    }
}
