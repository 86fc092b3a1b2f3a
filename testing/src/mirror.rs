//! An up-to-date copy of objects, for tests that wait until something is so, or prove that something always was.
//!
//! ```no_run
//! # async fn example(cluster: joiner_testing::ControlPlane) -> anyhow::Result<()> {
//! use joiner_testing::Mirror;
//! use std::time::Duration;
//!
//! let mirror = Mirror::start(&cluster.client()?, ["/api/v1/nodes"]);
//! let always = mirror.always("there is one node at most", |seen| seen.list("/api/v1/nodes").count() <= 1);
//! mirror.until(Duration::from_secs(10), |seen| seen.list("/api/v1/nodes").count() == 1).await;
//! always.check();
//! # Ok(()) }
//! ```

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use reqwest::Method;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::client::Client;

/// How long to wait before a broken watch is taken up again.
const AGAIN: Duration = Duration::from_millis(200);

type Kind = BTreeMap<String, Arc<Value>>;

/// Objects by the path of their kind, and by `namespace/name`. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    kinds: BTreeMap<Arc<str>, Arc<Kind>>,
}

impl Seen {
    /// All objects of a kind, by its path (`/api/v1/pods`), in the order of their names.
    pub fn list(&self, path: &str) -> impl Iterator<Item = &Arc<Value>> {
        self.kinds
            .get(path)
            .into_iter()
            .flat_map(|kind| kind.values())
    }

    /// One object; `namespace` is empty for kinds that have none.
    pub fn get(&self, path: &str, namespace: &str, name: &str) -> Option<&Arc<Value>> {
        self.kinds.get(path)?.get(&format!("{namespace}/{name}"))
    }
}

fn key(object: &Value) -> String {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    format!("{}/{}", text("namespace"), text("name"))
}

type Rule = Box<dyn Fn(&Seen) -> bool + Send>;

struct Guard {
    rule: Rule,
    what: String,
    broken: Arc<Mutex<Option<Seen>>>,
}

#[derive(Default)]
struct Inner {
    seen: Seen,
    guards: Vec<Guard>,
}

/// The copy. It follows the API server until it is dropped.
pub struct Mirror {
    inner: Arc<Mutex<Inner>>,
    changed: watch::Sender<u64>,
    tasks: Vec<AbortHandle>,
}

impl Mirror {
    /// Follows all objects under these paths (`/api/v1/pods`), also if some of them are not served yet.
    pub fn start<'a>(client: &Client, paths: impl IntoIterator<Item = &'a str>) -> Self {
        let inner = Arc::new(Mutex::new(Inner::default()));
        let changed = watch::Sender::new(0);
        let tasks = paths
            .into_iter()
            .map(|path| {
                let follower = Follower {
                    client: client.clone(),
                    path: path.into(),
                    inner: Arc::clone(&inner),
                    changed: changed.clone(),
                };
                tokio::spawn(follower.run()).abort_handle()
            })
            .collect();
        Self {
            inner,
            changed,
            tasks,
        }
    }

    /// What is there now.
    pub fn seen(&self) -> Seen {
        lock(&self.inner).seen.clone()
    }

    /// Waits until `holds`; looks again after every change. `false` if it did not within `limit`.
    pub async fn until(&self, limit: Duration, mut holds: impl FnMut(&Seen) -> bool) -> bool {
        let mut changed = self.changed.subscribe();
        let wait = async {
            loop {
                changed.mark_unchanged();
                if holds(&lock(&self.inner).seen) {
                    return;
                }
                if changed.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(limit, wait).await.is_ok()
    }

    /// Checks a rule after every single change from now on.
    pub fn always(&self, what: &str, rule: impl Fn(&Seen) -> bool + Send + 'static) -> Always {
        let broken = Arc::default();
        let guard = Guard {
            rule: Box::new(rule),
            what: what.to_owned(),
            broken: Arc::clone(&broken),
        };
        lock(&self.inner).guards.push(guard);
        Always {
            what: what.to_owned(),
            broken,
        }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// A rule that is being checked.
pub struct Always {
    what: String,
    broken: Arc<Mutex<Option<Seen>>>,
}

impl Always {
    /// What was there when the rule was first broken, if it ever was.
    pub fn broken(&self) -> Option<Seen> {
        self.broken
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Panics if the rule was ever broken.
    ///
    /// # Panics
    /// That is what it is for.
    #[track_caller]
    pub fn check(&self) {
        assert!(
            self.broken().is_none(),
            "for a moment it was not so: {}",
            self.what
        );
    }
}

struct Follower {
    client: Client,
    path: Arc<str>,
    inner: Arc<Mutex<Inner>>,
    changed: watch::Sender<u64>,
}

impl Follower {
    async fn run(self) {
        loop {
            // Whatever happened to the connection, a new list puts it right.
            let _: Result<()> = self.follow().await;
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn follow(&self) -> Result<()> {
        let list = self.client.get(&self.path).await?;
        let items = list["items"].as_array().context("a list has items")?;
        let fresh: Kind = items
            .iter()
            .map(|item| (key(item), Arc::new(item.clone())))
            .collect();
        self.change(|kind| *kind = fresh);
        let version = list["metadata"]["resourceVersion"]
            .as_str()
            .context("a list has a version")?;
        let path = format!("{}?watch=1&resourceVersion={version}", self.path);
        let answer = self.client.request(Method::GET, &path).send().await?;
        let mut chunks = answer.error_for_status()?.bytes_stream();
        let mut rest = Vec::new();
        while let Some(chunk) = chunks.next().await {
            rest.extend_from_slice(&chunk?);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                self.apply(&serde_json::from_slice(&line)?)?;
            }
        }
        Ok(())
    }

    fn apply(&self, event: &Value) -> Result<()> {
        let object = &event["object"];
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => self.change(|kind| {
                kind.insert(key(object), Arc::new(object.clone()));
            }),
            Some("DELETED") => self.change(|kind| {
                kind.remove(&key(object));
            }),
            _ => bail!("the watch ended with {event}"),
        }
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Kind)) {
        let mut inner = lock(&self.inner);
        let kind = inner.seen.kinds.entry(Arc::clone(&self.path)).or_default();
        change(Arc::make_mut(kind));
        let Inner { seen, guards } = &mut *inner;
        guards.retain(|guard| {
            // Nobody asks any more, or it is broken and that is all there is to know.
            if Arc::strong_count(&guard.broken) == 1 {
                return false;
            }
            let holds = (guard.rule)(seen);
            if !holds {
                eprintln!("for a moment it was not so: {}", guard.what);
                *guard.broken.lock().unwrap_or_else(PoisonError::into_inner) = Some(seen.clone());
            }
            holds
        });
        drop(inner);
        self.changed.send_modify(|version| *version += 1);
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}
