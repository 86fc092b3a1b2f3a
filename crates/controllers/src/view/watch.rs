//! Watches that never end: errors are waited out, lists are announced, one bad object is one bad object.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use kube::Resource;
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::watcher;
use serde::de::DeserializeOwned;
use tracing::{debug, warn};

use crate::dialect::{Event, Malformed};

/// The first wait after an error, and the longest: an outage of the API server is noticed to be over within it.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// The first wait before asking again for a kind that the cluster does not have, and the longest: definitions are often
/// installed one after the other, and rarely much later.
const ABSENT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Whether a cluster must have a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing works without it.
    Required,
    /// A cluster without it simply has no such objects.
    Optional,
}

/// Watches a kind that users write: an object that does not fit its type is reported and skipped.
pub fn guarded<K, T>(
    api: Api<DeserializeGuard<K>>,
    need: Need,
    lower: impl Fn(K) -> Result<T, String> + Send + Sync + 'static,
) -> BoxStream<'static, Event<T>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    T: Send + 'static,
{
    let kind: &'static str = Box::leak(K::kind(&()).into_owned().into_boxed_str());
    events(api, kind, need, move |object: DeserializeGuard<K>| {
        let metadata = object.meta().clone();
        object
            .0
            .map_err(|invalid| invalid.error)
            .and_then(&lower)
            .map_err(|message| Malformed {
                kind,
                name: match metadata.namespace.as_deref() {
                    Some(namespace) => format!(
                        "{namespace}/{}",
                        metadata.name.as_deref().unwrap_or_default()
                    ),
                    None => metadata.name.clone().unwrap_or_default(),
                },
                uid: metadata.uid.as_deref().unwrap_or_default().into(),
                message,
            })
    })
}

/// Watches a kind that the API server has checked.
pub fn trusted<K, T>(
    api: Api<K>,
    need: Need,
    lower: impl Fn(K) -> T + Send + Sync + 'static,
) -> BoxStream<'static, Event<T>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    T: Send + 'static,
{
    let kind: &'static str = Box::leak(K::kind(&()).into_owned().into_boxed_str());
    events(api, kind, need, move |object| Ok(lower(object)))
}

/// Watches objects of any type.
pub fn events<K, T>(
    api: Api<K>,
    kind: &'static str,
    need: Need,
    lower: impl Fn(K) -> Result<T, Malformed> + Send + Sync + 'static,
) -> BoxStream<'static, Event<T>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Clone,
    T: Send + 'static,
{
    events_of(api, watcher::Config::default(), kind, need, lower)
}

/// Watches some objects of any type.
pub fn events_of<K, T>(
    api: Api<K>,
    which: watcher::Config,
    kind: &'static str,
    need: Need,
    lower: impl Fn(K) -> Result<T, Malformed> + Send + Sync + 'static,
) -> BoxStream<'static, Event<T>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Clone,
    T: Send + 'static,
{
    let source = Source {
        watch: watcher(api, which).boxed(),
        wait: RETRY.0,
        absent: None,
        queued: VecDeque::new(),
        kind,
        need,
        lower,
    };
    stream::unfold(source, |mut source| async move {
        let event = source.next().await?;
        Some((event, source))
    })
    .boxed()
}

/// A watch and where it stands.
struct Source<K, T, L> {
    watch: BoxStream<'static, watcher::Result<watcher::Event<K>>>,
    wait: Duration,
    /// How long to wait for a kind that is not there.
    absent: Option<Duration>,
    queued: VecDeque<Event<T>>,
    kind: &'static str,
    need: Need,
    lower: L,
}

impl<K, T, L> Source<K, T, L>
where
    L: Fn(K) -> Result<T, Malformed>,
{
    async fn next(&mut self) -> Option<Event<T>> {
        let mut started = false;
        loop {
            if let Some(event) = self.queued.pop_front() {
                return Some(event);
            }
            match self.watch.next().await? {
                // A list is announced once it has begun to answer: one that cannot be had does not make what is known
                // any older than it was.
                Ok(watcher::Event::Init) => started = true,
                Ok(event) => {
                    self.wait = RETRY.0;
                    self.absent = None;
                    let event = self.read(event);
                    if !started {
                        return Some(event);
                    }
                    self.queued.push_back(event);
                    return Some(Event::Started);
                }
                Err(error) if self.need == Need::Optional && is_absent(&error) => {
                    debug!(kind = self.kind, "kind is not served by the cluster");
                    if let Some(wait) = self.absent {
                        tokio::time::sleep(wait).await;
                        self.absent = Some((wait * 2).min(ABSENT.1));
                        continue;
                    }
                    self.absent = Some(ABSENT.0);
                    self.queued.push_back(Event::Complete);
                    return Some(Event::Started);
                }
                Err(error) => {
                    warn!(kind = self.kind, %error, "watch failed; it is tried again");
                    tokio::time::sleep(self.wait).await;
                    self.wait = (self.wait * 2).min(RETRY.1);
                }
            }
        }
    }

    // Lowering here lets go of the full object at once: a list of 50,000 pods never stands in memory.
    fn read(&self, event: watcher::Event<K>) -> Event<T> {
        let lower = |object| (self.lower)(object);
        match event {
            watcher::Event::Init => Event::Started,
            watcher::Event::InitDone => Event::Complete,
            watcher::Event::InitApply(object) => {
                lower(object).map_or_else(Event::Malformed, Event::Listed)
            }
            watcher::Event::Apply(object) => {
                lower(object).map_or_else(Event::Malformed, Event::Changed)
            }
            watcher::Event::Delete(object) => {
                lower(object).map_or_else(Event::Malformed, Event::Gone)
            }
        }
    }
}

fn is_absent(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    status.code == 404
}
