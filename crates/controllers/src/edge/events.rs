//! Kubernetes events: what was decided and why, where users look first. Short, news of the same kind about the same
//! object not more than once a minute, and the same again after five minutes, then ten, up to thirty: events live for an
//! hour, so what lasts can always be seen, and a pod that waits for days does not fill the cluster's memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use joiner_core::name::Name;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::sync::mpsc;
use tracing::debug;

use crate::dialect::ObjectRef;
use crate::edge::clients::Clients;
use crate::edge::clock::{self, SharedClock};
use crate::edge::names::digest;
use crate::edge::tasks::Tasks;

/// No object hears the same twice within this; each time it does, the time doubles up to the longest.
const DEDUPE: (Duration, Duration) = (Duration::from_mins(5), Duration::from_mins(30));
/// No object hears of the same reason in other words within this.
const NEWS: Duration = Duration::from_mins(1);
/// The longest message.
const LONGEST: usize = 1000;
/// How many events may wait to be written; more than that are dropped, never waited for.
const BACKLOG: usize = 1000;
/// How many are written a second: a cluster of events must not hurt the cluster.
const PER_SECOND: u32 = 20;

/// Whether something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
pub enum Severity {
    /// It is not.
    Normal,
    /// It is.
    Warning,
}

/// What becomes of something that is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// It is said.
    Said,
    /// It was said before and holds.
    Known,
    /// Something else was said a moment ago: it has to wait.
    TooSoon,
}

/// What was said last about an object for a reason.
#[derive(Debug)]
struct Word {
    at: Timestamp,
    words: String,
    /// How long the same is not said again.
    wait: Duration,
}

/// What was said last about each object for each reason.
#[derive(Debug, Default)]
struct Memory {
    said: BTreeMap<(Name, &'static str), Word>,
    /// When what is too old was last thrown away.
    cleared: Timestamp,
}

impl Memory {
    fn hear(&mut self, about: &Name, reason: &'static str, words: &str, now: Timestamp) -> News {
        if clock::since(now, self.cleared) >= NEWS {
            // What was not repeated when its time came is over: the next time it is news.
            self.said
                .retain(|_, one| clock::since(now, one.at) < one.wait + DEDUPE.1);
            self.cleared = now;
        }
        let key = (about.clone(), reason);
        let wait = match self.said.get(&key) {
            Some(known) if known.words == words => {
                if clock::since(now, known.at) < known.wait {
                    return News::Known;
                }
                (known.wait * 2).min(DEDUPE.1)
            }
            Some(known) if clock::since(now, known.at) < NEWS => return News::TooSoon,
            _ => DEDUPE.0,
        };
        let word = Word {
            at: now,
            words: words.to_owned(),
            wait,
        };
        self.said.insert(key, word);
        News::Said
    }

    fn forget(&mut self, about: &Name, reason: &'static str) {
        self.said.remove(&(about.clone(), reason));
    }
}

/// Writes events. Cheap to clone; never waits.
#[derive(Clone)]
pub struct Events {
    sender: mpsc::Sender<Event>,
    memory: Arc<Mutex<Memory>>,
    clock: SharedClock,
    source: &'static str,
}

impl Events {
    /// Starts writing.
    pub fn start(
        clients: &Clients,
        clock: SharedClock,
        source: &'static str,
        tasks: &Tasks,
    ) -> Self {
        let (sender, mut receiver) = mpsc::channel::<Event>(BACKLOG);
        let client = clients.writes.clone();
        tasks.vital("events", async move {
            while let Some(event) = receiver.recv().await {
                let namespace = event.metadata.namespace.clone().unwrap_or_default();
                let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
                if let Err(error) = api.create(&PostParams::default(), &event).await {
                    debug!(%error, "event could not be written");
                }
                tokio::time::sleep(Duration::from_secs(1) / PER_SECOND).await;
            }
        });
        Events {
            sender,
            memory: Arc::default(),
            clock,
            source,
        }
    }

    /// The same, in another's name.
    #[must_use]
    pub fn by(&self, source: &'static str) -> Self {
        Events {
            source,
            ..self.clone()
        }
    }

    /// Says something about an object, unless it was said a moment ago. Whoever gets `false` was not heard, because of
    /// what was said just before, and may say it again later.
    pub fn say(
        &self,
        about: &ObjectRef,
        severity: Severity,
        reason: &'static str,
        message: &str,
    ) -> bool {
        let now = self.clock.now();
        let news = self.memory().hear(&about.uid, reason, &cut(message), now);
        if news != News::Said {
            return news == News::Known;
        }
        let event = self.render(about, severity, reason, message, now);
        let sent = self.sender.try_send(event).is_ok();
        if !sent {
            debug!(reason, "too many events: one was dropped");
            self.memory().forget(&about.uid, reason);
        }
        sent
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn render(
        &self,
        about: &ObjectRef,
        severity: Severity,
        reason: &str,
        message: &str,
        now: Timestamp,
    ) -> Event {
        let suffix = digest(&format!("{}{reason}{now}", about.uid));
        let namespace = if about.namespace.is_empty() {
            "default".to_owned()
        } else {
            about.namespace.to_string()
        };
        let kind: &str = severity.into();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{suffix}", about.name)),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(about.api_version.clone()),
                kind: Some(about.kind.clone()),
                name: Some(about.name.to_string()),
                namespace: (!about.namespace.is_empty()).then(|| about.namespace.to_string()),
                uid: Some(about.uid.to_string()),
                ..ObjectReference::default()
            },
            reason: Some(reason.to_owned()),
            message: Some(cut(message)),
            type_: Some(kind.to_owned()),
            source: Some(EventSource {
                component: Some(self.source.to_owned()),
                host: None,
            }),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            count: Some(1),
            ..Event::default()
        }
    }
}

fn cut(message: &str) -> String {
    if message.len() <= LONGEST {
        return message.to_owned();
    }
    let mut end = LONGEST;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{} …", message.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_again_ever_more_seldom_and_other_words_wait_a_minute() {
        let mut memory = Memory::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut hear = |words, second| memory.hear(&"node".into(), "Kept", words, at(second));
        assert_eq!(hear("not in use yet", 0), News::Said);
        assert_eq!(hear("not in use yet", 59), News::Known);
        assert_eq!(hear("too young", 59), News::TooSoon);
        assert_eq!(hear("too young", 60), News::Said);
        assert_eq!(hear("too young", 359), News::Known);
        assert_eq!(hear("too young", 360), News::Said);
        let times: Vec<i64> = (400..10_000)
            .step_by(10)
            .filter(|second| hear("too young", *second) == News::Said)
            .collect();
        assert_eq!(times, [960, 2_160, 3_960, 5_760, 7_560, 9_360]);
        assert_eq!(hear("in use", 9_420), News::Said);
        assert_eq!(hear("in use", 9_720), News::Said);
    }

    #[test]
    fn messages_stay_below_a_kibibyte_and_are_cut_between_characters() {
        let long = "ä".repeat(2000);
        assert!(cut(&long).len() <= 1024);
        assert_eq!(cut("short"), "short");
    }
}
