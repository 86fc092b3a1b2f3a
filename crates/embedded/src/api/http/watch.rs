//! Watching: a stream of events as lines of JSON.
//!
//! A watch starts from what is there (no version or `0`), from a version, or, as a streaming list,
//! from what is there followed by a bookmark that says so. It ends at its timeout, or when the
//! server cuts it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use super::{
    Context,
    list::{Selection, options_result, parse_number, parse_version},
    response::{ResponseBody, Shape},
};
use crate::api::{
    Status, field::Errors, local::ChangeKind, registry::Resource, state::State, store::Event,
    table, view,
};

/// How often a quiet watch is told the newest version.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// How long before its end a watch is told the newest version in any case.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How long a watch lasts that asks for no limit. The real server draws from 30 to 60 minutes.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Where a watch begins.
enum Start {
    /// With everything there is; then, if asked, a bookmark.
    Initial { bookmark: bool },
    /// After a version.
    After(u64),
    /// With what comes next.
    Now,
}

/// What a stream needs to turn events into lines.
struct Watcher {
    resource: Arc<Resource>,
    selection: Selection,
    shape: Shape,
    table: table::Options,
    headers: table::Headers,
    bookmarks: bool,
    /// The newest version that the client has been told.
    version: u64,
    /// Events up to this version are not shown.
    from: u64,
}

/// Answers a watch request.
pub(crate) fn watch(
    state: &mut State,
    context: &Context,
) -> Result<Response<ResponseBody>, Status> {
    let start = read_start(context)?;
    let timeout = timeout(context)?;
    let mut selection = Selection::from_context(context)?;
    if !context.name.is_empty() {
        selection.fields = crate::api::selector::FieldSelector::name(&context.name);
    }
    let mut watcher = Watcher {
        resource: context.resource.clone(),
        selection,
        shape: context.accepted.shape,
        table: context.table(),
        headers: table::Headers::Shown,
        bookmarks: context.query.flag("allowWatchBookmarks"),
        version: state.store.version(),
        from: 0,
    };
    let table = context.resource.table.clone();
    let mut lines = Vec::new();
    let events = match start {
        Start::Initial { bookmark } => {
            let objects: Vec<Arc<Value>> = state
                .store
                .iter(&table, &context.namespace)
                .map(|(_, object)| object.clone())
                .collect();
            for object in &objects {
                if watcher.matches(object) {
                    lines.push(watcher.line("ADDED", object));
                }
            }
            if bookmark && watcher.bookmarks {
                lines.push(watcher.bookmark(true));
            }
            state.store.subscribe(&table)
        }
        Start::Now => state.store.subscribe(&table),
        Start::After(version) => {
            let current = state.store.version();
            // A version of the future is waited for in silence.
            watcher.from = version;
            if let Ok((missed, events)) = state.store.subscribe_after(&table, version) {
                for event in missed {
                    lines.extend(watcher.event(&event));
                }
                events
            } else {
                let status =
                    Status::expired(format!("too old resource version: {version} ({current})"));
                let line = line_of("ERROR", &status.to_value());
                return Ok(streaming(context, stream::iter([line])));
            }
        }
    };
    let deadline = Instant::now() + timeout;
    Ok(streaming(
        context,
        stream::iter(lines).chain(follow(watcher, events, deadline)),
    ))
}

fn timeout(context: &Context) -> Result<Duration, Status> {
    let seconds = parse_number(context.query.get("timeoutSeconds"))?;
    Ok(match u64::try_from(seconds) {
        Ok(seconds @ 1..) => Duration::from_secs(seconds),
        _ => DEFAULT_TIMEOUT,
    })
}

fn read_start(context: &Context) -> Result<Start, Status> {
    let query = &context.query;
    let matching = query.get("resourceVersionMatch");
    let streaming_list = query.has("sendInitialEvents");
    let mut errors = Errors::default();
    if streaming_list && matching != "NotOlderThan" {
        errors.forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        );
    }
    if !matching.is_empty() {
        if !streaming_list {
            errors.forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        if matching != "NotOlderThan" {
            errors.unsupported("resourceVersionMatch", &json!(matching), &["NotOlderThan"]);
        }
        if !query.get("continue").is_empty() {
            errors.forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden when continue is provided",
            );
        }
    }
    options_result(errors)?;
    let version =
        parse_version(query.get("resourceVersion")).map_err(|why| Status::new(500, "", why))?;
    Ok(match version {
        _ if query.flag("sendInitialEvents") => Start::Initial { bookmark: true },
        None | Some(0) if streaming_list => Start::Now,
        None | Some(0) => Start::Initial { bookmark: false },
        Some(version) => Start::After(version),
    })
}

/// When the next bookmark is due: after a while, but before the end in any case, and from then on
/// every second.
fn next_bookmark_after(now: Instant, deadline: Instant) -> Instant {
    let last_words = deadline.checked_sub(LAST_WORDS).unwrap_or(now);
    if now >= last_words {
        now + Duration::from_secs(1)
    } else {
        (now + BOOKMARK_PERIOD).min(last_words)
    }
}

/// The lines of a watch that is under way.
fn follow(
    watcher: Watcher,
    events: mpsc::UnboundedReceiver<Arc<Event>>,
    deadline: Instant,
) -> impl Stream<Item = Bytes> {
    let bookmark_at = next_bookmark_after(Instant::now(), deadline);
    stream::unfold(
        (watcher, events, bookmark_at),
        move |(mut watcher, mut events, mut bookmark_at)| {
            async move {
                loop {
                    let next_bookmark = if watcher.bookmarks {
                        bookmark_at.min(deadline)
                    } else {
                        deadline
                    };
                    tokio::select! {
                        biased;
                        event = events.recv() => {
                            // A closed channel is a cut watch: the stream just ends.
                            let line = watcher.event(&*event?);
                            if let Some(line) = line {
                                return Some((line, (watcher, events, bookmark_at)));
                            }
                        }
                        () = tokio::time::sleep_until(next_bookmark) => {
                            if next_bookmark == deadline {
                                return None;
                            }
                            bookmark_at = next_bookmark_after(next_bookmark, deadline);
                            let line = watcher.bookmark(false);
                            return Some((line, (watcher, events, bookmark_at)));
                        }
                    }
                }
            }
        },
    )
}

impl Watcher {
    fn matches(&self, object: &Value) -> bool {
        self.selection.matches(&self.resource, object)
    }

    /// The line for an event, if the client should see it: an object that begins to match is
    /// added, one that ceases to is deleted.
    fn event(&mut self, event: &Event) -> Option<Bytes> {
        if event.version <= self.from {
            return None;
        }
        self.version = self.version.max(event.version);
        let before = event
            .previous
            .as_ref()
            .is_some_and(|previous| self.matches(previous));
        let after = event.kind != ChangeKind::Deleted && self.matches(&event.object);
        match (before, after) {
            (false, true) => Some(self.line("ADDED", &event.object)),
            (true, true) => Some(self.line("MODIFIED", &event.object)),
            (true, false) if event.kind == ChangeKind::Deleted => {
                Some(self.line("DELETED", &event.object))
            }
            (true, false) => {
                // It only ceased to match: the client is shown the state it knew, at the new version.
                let mut last = event.previous.as_deref().cloned().unwrap_or_default();
                crate::api::meta::set(&mut last, "resourceVersion", event.version.to_string());
                Some(self.line("DELETED", &Arc::new(last)))
            }
            (false, false) => None,
        }
    }

    fn line(&mut self, kind: &str, object: &Arc<Value>) -> Bytes {
        match self.shape {
            Shape::Object => line_of(kind, &view::to_served(&self.resource, object)),
            Shape::Metadata => line_of(
                kind,
                &view::metadata_only(&view::to_served(&self.resource, object)),
            ),
            Shape::Table => {
                let table = table::table(&self.table, std::slice::from_ref(object), self.headers);
                self.headers = table::Headers::Hidden;
                line_of(kind, &table)
            }
        }
    }

    fn bookmark(&mut self, initial_events_end: bool) -> Bytes {
        let mut object = json!({
            "kind": self.resource.kind,
            "apiVersion": self.resource.api_version(),
            "metadata": {"resourceVersion": self.version.to_string()},
        });
        if initial_events_end {
            object["metadata"]["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        match self.shape {
            Shape::Object => line_of("BOOKMARK", &object),
            Shape::Metadata => line_of("BOOKMARK", &view::metadata_only(&object)),
            Shape::Table => {
                let table = table::bookmark(&self.table, &object);
                line_of("BOOKMARK", &table)
            }
        }
    }
}

fn line_of(kind: &str, object: &Value) -> Bytes {
    #[derive(serde::Serialize)]
    struct Line<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        object: &'a Value,
    }
    let mut line = serde_json::to_vec(&Line { kind, object }).unwrap_or_default();
    line.push(b'\n');
    line.into()
}

fn streaming(
    context: &Context,
    lines: impl Stream<Item = Bytes> + Send + 'static,
) -> Response<ResponseBody> {
    let lines = super::faults::cut_after(context.cut_after, lines);
    let frames = lines.map(|line| line.map(Frame::data));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    response
}
