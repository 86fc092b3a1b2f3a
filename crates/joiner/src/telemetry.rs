//! Logs: short lines on a terminal, JSON everywhere else. `RUST_LOG` chooses what is said.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::SubscriberBuilder;
use tracing_subscriber::fmt::format::{DefaultFields, Format, Full, Json, JsonFields};

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
        as_json(logs).try_init()
    };
}

fn without_repeats(filter: EnvFilter) -> EnvFilter {
    match ONCE_IS_ENOUGH.parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    }
}

/// Lines as JSON: the fields of an event stand beside time, level and target, those of its span in `span`.
fn as_json<F, W>(
    logs: SubscriberBuilder<DefaultFields, Format<Full>, F, W>,
) -> SubscriberBuilder<JsonFields, Format<Json>, F, W> {
    logs.json().flatten_event(true).with_span_list(false)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
    use tracing::{error, error_span, info, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
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
            warn!(target: "kube_client::client::tls::rustls_tls", "Server cert bypassed");
            error!(target: "kube_client::client::tls::rustls_tls", "handshake failed");
            warn!(target: "kube_client::client", "slow");
        });
        let said = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert!(!said.contains("bypassed"), "{said}");
        assert!(
            said.contains("handshake failed") && said.contains("slow"),
            "{said}"
        );
    }

    /// A JSON object that names no key twice; values that are objects are looked into by their own.
    struct Distinct(BTreeSet<String>);

    impl<'de> Deserialize<'de> for Distinct {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Keys;
            impl<'de> Visitor<'de> for Keys {
                type Value = Distinct;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("an object")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Distinct, A::Error> {
                    let mut keys = BTreeSet::new();
                    while let Some(key) = map.next_key::<String>()? {
                        if key == "span" {
                            let Distinct(inner) = map.next_value()?;
                            assert!(inner.contains("name"), "{inner:?}");
                        } else {
                            map.next_value::<IgnoredAny>()?;
                        }
                        assert!(keys.insert(key.clone()), "{key} stands there twice");
                    }
                    Ok(Distinct(keys))
                }
            }
            deserializer.deserialize_map(Keys)
        }
    }

    #[test]
    fn no_line_of_json_repeats_a_key() {
        let written = Written::default();
        let writer = written.clone();
        let logs = tracing_subscriber::fmt().with_writer(move || writer.clone());
        tracing::subscriber::with_default(as_json(logs).finish(), || {
            // As tasks have it: a span may not have a field that is called as what every span has.
            let _outer = error_span!("session", task = "session").entered();
            let _inner = error_span!("task", task = "disruption").entered();
            info!(machine = "web-1", reason = "empty", "disrupting node");
            warn!(error = "refused", "launch failed");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        for line in text.lines() {
            let Distinct(keys) = serde_json::from_str(line).unwrap();
            let expected = ["level", "message", "span", "target", "timestamp"];
            assert!(expected.iter().all(|key| keys.contains(*key)), "{line}");
        }
    }

    #[test]
    fn no_span_has_a_field_that_is_called_as_what_every_line_has() {
        let tasks = include_str!("../../controllers/src/edge/tasks.rs");
        let spans: Vec<&str> = tasks.split("info_span!(").skip(1).collect();
        assert!(!spans.is_empty(), "the spans of tasks are made elsewhere");
        for span in spans {
            let (arguments, _) = span.split_once(')').unwrap();
            assert!(!arguments.contains("name ="), "{arguments}");
        }
    }
}
