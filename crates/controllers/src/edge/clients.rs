//! Three ways to talk to the API server, and the fence around two of them.
//!
//! kube's client retries 429, 503 and 504 for every method by default. That is right for reads. A blocked eviction
//! answers 429 and must be seen, a create that timed out must not be sent again blindly, and a lease renewal must not
//! outlive its deadline: those clients do not retry, and no call of theirs is endless.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Either};
use http::header::USER_AGENT;
use http::{HeaderValue, Method, Request, Response};
use joiner_providers::ProviderError;
use kube::Client;
use kube::client::{Body, ClientBuilder};
use thiserror::Error;
use tokio::time::Instant;
use tower::{BoxError, Layer, Service};
use tracing::{debug, warn};

use crate::record::Key;

/// How requests say whose they are. What stands before the version is the name in `managedFields` of all that is written,
/// so that it can be told apart from what other controllers write.
const AGENT: &str = concat!("joiner/", env!("CARGO_PKG_VERSION"));

/// The longest that a write may take. The API server gives up on its own requests after a minute at most; a quarter of
/// that keeps a machine's next step within the bounds that reliability promises.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest that a read may take until its answer begins, further tries included.
const READ_TIMEOUT: Duration = Duration::from_mins(1);

/// How long a connection for reads may be silent.
const SILENCE: Duration = Duration::from_mins(2);

/// How soon calls under way see that the fence was closed.
const CLOSING_SEEN: Duration = Duration::from_secs(1);

/// The longest that a lease renewal may take: a third of the lease.
const LEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// A write that was not done, by what is to be done about it.
#[derive(Clone, Debug, Error, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum WriteError {
    /// The object has changed meanwhile: look again.
    #[error("the object has changed meanwhile: {0}")]
    Conflict(String),
    /// There is one of this name already.
    #[error("it exists already: {0}")]
    Exists(String),
    /// There is no such object.
    #[error("it is gone: {0}")]
    Gone(String),
    /// A disruption budget forbids it now, or the server is busy.
    #[error("held back: {message}")]
    HeldBack {
        /// What the server said.
        message: String,
        /// When to come back, if it said so.
        retry_after: Option<Duration>,
    },
    /// The server will never accept it.
    #[error("refused: {0}")]
    Refused(String),
    /// We may not write: the lease is not ours.
    #[error("not the leader")]
    NotLeader,
    /// Whether it took effect is unknown.
    #[error("{0}")]
    Unknown(String),
}

impl WriteError {
    /// Somebody else was faster, or we may not write any more: nothing is wrong, and looking again is all there is to do.
    pub fn outpaced(&self) -> bool {
        matches!(
            self,
            WriteError::Conflict(_) | WriteError::Gone(_) | WriteError::NotLeader
        )
    }

    /// Says in the log what of an object was not written.
    pub fn log(&self, object: &Key, what: &'static str) {
        if self.outpaced() {
            debug!(%object, what, error = %self, "object has changed; it is read again");
        } else {
            warn!(%object, what, error = %self, "object could not be written");
        }
    }

    /// Name of the kind, for metrics.
    pub fn kind(&self) -> &'static str {
        self.into()
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                let message = status.message.clone();
                let retry_after = status
                    .details
                    .as_ref()
                    .map(|details| details.retry_after_seconds)
                    .filter(|seconds| *seconds > 0)
                    .map(|seconds| Duration::from_secs(u64::from(seconds)));
                match (status.code, status.reason.as_str()) {
                    (409, "AlreadyExists") => WriteError::Exists(message),
                    (409, _) => WriteError::Conflict(message),
                    (404 | 410, _) => WriteError::Gone(message),
                    (429, _) => WriteError::HeldBack {
                        message,
                        retry_after,
                    },
                    (400 | 401 | 403 | 405 | 413 | 415 | 422, _) => WriteError::Refused(message),
                    _ => WriteError::Unknown(message),
                }
            }
            kube::Error::Service(inner) if inner.is::<NotLeader>() => WriteError::NotLeader,
            other => WriteError::Unknown(other.to_string()),
        }
    }
}

#[derive(Debug, Error)]
#[error("the lease is not held")]
struct NotLeader;

/// Whether this process may change anything. Cheap to clone; all clones are one.
///
/// The time comes from the runtime's own monotonic clock, never from the wall. On Linux that clock stands still while
/// the machine is suspended, so a second clock that does not is asked too ([`Fence::minding_suspension`]).
#[derive(Clone, Debug)]
pub struct Fence(Arc<Mutex<Gate>>);

/// Time since the machine was started, suspension included; `None` if it cannot be told.
pub type BootClock = Arc<dyn Fn() -> Option<Duration> + Send + Sync>;

struct Gate {
    open: Open,
    /// How often it was opened.
    term: u64,
    boot: Option<BootClock>,
    /// When it falls by the clock that counts suspension.
    boot_until: Option<Duration>,
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("open", &self.open)
            .field("term", &self.term)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Open {
    Always,
    Until(Instant),
    Never,
}

impl Gate {
    fn holds(&self) -> bool {
        match self.open {
            Open::Always => true,
            Open::Until(until) => Instant::now() < until && !self.overslept(),
            Open::Never => false,
        }
    }

    fn overslept(&self) -> bool {
        let now = self.boot.as_ref().and_then(|boot| boot());
        now.zip(self.boot_until)
            .is_some_and(|(now, until)| now >= until)
    }
}

impl Fence {
    /// Always open: for those who run alone.
    pub fn open() -> Self {
        Self::new(Open::Always)
    }

    /// Closed until [`Fence::extend`].
    pub fn closed() -> Self {
        Self::new(Open::Never)
    }

    /// Lets writes through until `until`.
    pub fn extend(&self, until: Instant) {
        let mut gate = self.gate();
        if !gate.holds() {
            gate.term += 1;
        }
        let left = until.saturating_duration_since(Instant::now());
        let boot = gate.boot.as_ref().and_then(|boot| boot());
        gate.boot_until = boot.map(|now| now + left);
        gate.open = Open::Until(until);
    }

    /// The same, but it also falls by a clock that counts the time for which the machine was suspended.
    #[must_use]
    pub fn minding_suspension(self, boot: BootClock) -> Self {
        self.gate().boot = Some(boot);
        self
    }

    /// Waits until writes may no longer go on. A renewal of the lease meanwhile is seen.
    pub async fn lapsed(&self) {
        loop {
            let until = match self.gate() {
                gate if !gate.holds() => return,
                gate => match gate.open {
                    Open::Until(until) => until,
                    _ => Instant::now() + CLOSING_SEEN,
                },
            };
            // Closing is seen no later than this; running out, when it happens.
            tokio::time::sleep_until(until.min(Instant::now() + CLOSING_SEEN)).await;
        }
    }

    /// Lets nothing through from now on.
    pub fn close(&self) {
        self.gate().open = Open::Never;
    }

    /// Whether writes may begin now.
    pub fn holds(&self) -> bool {
        self.gate().holds()
    }

    /// The number of the present term; `None` while writes may not begin. Between two terms another process may have
    /// changed anything.
    pub fn term(&self) -> Option<u64> {
        let gate = self.gate();
        gate.holds().then_some(gate.term)
    }

    fn new(open: Open) -> Self {
        Fence(Arc::new(Mutex::new(Gate {
            open,
            term: 0,
            boot: None,
            boot_until: None,
        })))
    }

    fn gate(&self) -> std::sync::MutexGuard<'_, Gate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call to a cloud that changes something, made only while the lease is ours. Callers wait their turn before it, so
/// the fence is looked at when the call begins and not when it was decided on. A call that is under way when the lease
/// ends is broken off: nothing more is sent, and what became of it is for the next leader to ask.
pub async fn while_leading<T>(
    fence: &Fence,
    call: impl Future<Output = Result<T, ProviderError>>,
) -> Result<T, ProviderError> {
    if !fence.holds() {
        return Err(ProviderError::Transient("not the leader".into()));
    }
    let call = pin!(call);
    let lapsed = pin!(fence.lapsed());
    match futures::future::select(call, lapsed).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => Err(ProviderError::Transient(
            "the lease ended while the cloud was asked: whether it took effect is not known".into(),
        )),
    }
}

/// Puts a fence and a deadline around a client's service.
#[derive(Clone, Debug)]
pub struct FenceLayer {
    fence: Fence,
    timeout: Duration,
}

impl<S> Layer<S> for FenceLayer {
    type Service = Fenced<S>;
    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced {
            inner,
            fence: self.fence.clone(),
            timeout: self.timeout,
        }
    }
}

/// A service behind a fence.
#[derive(Clone, Debug)]
pub struct Fenced<S> {
    inner: S,
    fence: Fence,
    timeout: Duration,
}

impl<S, B> Service<Request<Body>> for Fenced<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let agent = HeaderValue::from_static(AGENT);
        request.headers_mut().entry(USER_AGENT).or_insert(agent);
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if !reads && !self.fence.holds() {
            return async { Err(BoxError::from(NotLeader)) }.boxed();
        }
        let answer = self.inner.call(request);
        let timeout = self.timeout;
        let fence = self.fence.clone();
        async move {
            let answer = pin!(tokio::time::timeout(timeout, answer));
            let answer = if reads {
                answer.await
            } else {
                // A write that is under way when the lease ends is broken off, so that none outlives the margin.
                let lapsed = pin!(fence.lapsed());
                match futures::future::select(answer, lapsed).await {
                    Either::Left((answer, _)) => answer,
                    Either::Right(_) => {
                        return Err("the lease ended while a write was under way".into());
                    }
                }
            };
            match answer {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(format!("no answer within {}s", timeout.as_secs()).into()),
            }
        }
        .boxed()
    }
}

/// The clients.
#[derive(Clone)]
pub struct Clients {
    /// For lists, watches and gets: retries by itself.
    pub reads: Client,
    /// For everything that changes something: never retries, always ends, and only while the lease is ours.
    pub writes: Client,
    /// For the lease: never retries, ends soon.
    pub lease: Client,
    /// The fence around writes.
    pub fence: Fence,
}

impl Clients {
    /// From a kubeconfig or an in-cluster account.
    pub fn from_config(config: &kube::Config, fence: Fence) -> Result<Self, kube::Error> {
        let mut patient = config.clone();
        patient.default_retry = true;
        let mut single = config.clone();
        single.default_retry = false;
        let build = |layer: FenceLayer| -> Result<Client, kube::Error> {
            Ok(ClientBuilder::try_from(single.clone())?
                .with_layer(&layer)
                .build())
        };
        // A connection on which nothing comes for so long is dead; watches hear a bookmark every minute or so.
        patient.read_timeout = Some(SILENCE);
        let reads = FenceLayer {
            fence: Fence::open(),
            timeout: READ_TIMEOUT,
        };
        Ok(Clients {
            reads: ClientBuilder::try_from(patient)?.with_layer(&reads).build(),
            writes: build(FenceLayer {
                fence: fence.clone(),
                timeout: WRITE_TIMEOUT,
            })?,
            lease: build(FenceLayer {
                fence: Fence::open(),
                timeout: LEASE_TIMEOUT,
            })?,
            fence,
        })
    }

    /// Over any service that answers as an API server does.
    pub fn over<S, B>(service: &S, fence: Fence) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let fenced = |fence: Fence, timeout: Duration| {
            let layer = FenceLayer { fence, timeout };
            Client::new(layer.layer(service.clone()), "default")
        };
        Clients {
            reads: fenced(Fence::open(), READ_TIMEOUT),
            writes: fenced(fence.clone(), WRITE_TIMEOUT),
            lease: fenced(Fence::open(), LEASE_TIMEOUT),
            fence,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    async fn answer(_: Request<Body>) -> Result<Response<Body>, Infallible> {
        Ok(Response::new(Body::from(
            br#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x"}}"#.to_vec(),
        )))
    }

    async fn never(_: Request<Body>) -> Result<Response<Body>, Infallible> {
        std::future::pending().await
    }

    fn namespaces(client: Client) -> kube::Api<k8s_openapi::api::core::v1::Namespace> {
        kube::Api::all(client)
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_says_whose_it_is() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let agents = Arc::clone(&seen);
        let server = tower::service_fn(move |request: Request<Body>| {
            let agent = request.headers().get(USER_AGENT).cloned();
            agents.lock().unwrap().push(agent);
            answer(request)
        });
        let clients = Clients::over(&server, Fence::open());
        for client in [clients.reads, clients.writes, clients.lease] {
            namespaces(client).get("x").await.unwrap();
        }
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 3);
        let named = |one: &Option<HeaderValue>| {
            let text = one.as_ref().and_then(|one| one.to_str().ok());
            text.is_some_and(|text| text.starts_with("joiner/"))
        };
        assert!(seen.iter().all(named), "{seen:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_written_after_the_lease_has_ended() {
        let fence = Fence::closed();
        let clients = Clients::over(&tower::service_fn(answer), fence.clone());
        let delete = || async {
            namespaces(clients.writes.clone())
                .delete("x", &kube::api::DeleteParams::default())
                .await
                .map(drop)
                .map_err(WriteError::from)
        };
        assert_eq!(delete().await, Err(WriteError::NotLeader));
        fence.extend(Instant::now() + Duration::from_secs(10));
        assert_eq!(delete().await, Ok(()));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(delete().await, Err(WriteError::NotLeader));
        assert!(namespaces(clients.writes.clone()).get("x").await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn every_break_begins_another_term() {
        let fence = Fence::closed();
        assert_eq!(fence.term(), None);
        let soon = || Instant::now() + Duration::from_secs(1);
        fence.extend(soon());
        let first = fence.term();
        fence.extend(soon());
        assert!(first.is_some() && fence.term() == first);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(fence.term(), None);
        fence.extend(soon());
        assert!(fence.term() > first);
    }

    #[tokio::test(start_paused = true)]
    async fn no_cloud_is_called_after_the_lease_has_ended() {
        let fence = Fence::closed();
        fence.extend(Instant::now() + Duration::from_secs(1));
        assert_eq!(while_leading(&fence, async { Ok(1) }).await, Ok(1));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let refused = while_leading(&fence, async { Ok(1) }).await;
        assert!(matches!(refused, Err(ProviderError::Transient(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_is_under_way_when_the_lease_ends_is_broken_off() {
        let fence = Fence::closed();
        let clients = Clients::over(&tower::service_fn(never), fence.clone());
        let started = Instant::now();
        fence.extend(started + Duration::from_secs(4));
        let api = namespaces(clients.writes);
        let parameters = kube::api::DeleteParams::default();
        let deleted = api.delete("x", &parameters).await.map(drop);
        let error = deleted.map_err(WriteError::from).unwrap_err();
        assert!(matches!(error, WriteError::Unknown(_)), "{error}");
        assert_eq!(started.elapsed(), Duration::from_secs(4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_to_a_cloud_is_broken_off_when_the_lease_ends_and_not_when_it_is_renewed() {
        let fence = Fence::closed();
        let started = Instant::now();
        fence.extend(started + Duration::from_secs(10));
        let renewing = fence.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            renewing.extend(started + Duration::from_secs(20));
        });
        let call = std::future::pending::<Result<(), ProviderError>>();
        let error = while_leading(&fence, call).await.unwrap_err();
        assert!(error.to_string().contains("the lease ended"), "{error}");
        assert_eq!(started.elapsed(), Duration::from_secs(20));
    }

    #[tokio::test(start_paused = true)]
    async fn a_suspended_machine_finds_its_lease_ended() {
        let boot = Arc::new(Mutex::new(Duration::from_secs(1000)));
        let shown = boot.clone();
        let clock: BootClock = Arc::new(move || Some(*shown.lock().unwrap()));
        let fence = Fence::closed().minding_suspension(clock);
        fence.extend(Instant::now() + Duration::from_secs(12));
        assert!(fence.holds());
        // Suspended for a minute: the monotonic clock has not moved.
        *boot.lock().unwrap() += Duration::from_mins(1);
        assert!(!fence.holds() && fence.term().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_is_never_answered_ends() {
        let clients = Clients::over(&tower::service_fn(never), Fence::open());
        let started = Instant::now();
        assert!(namespaces(clients.reads).get("x").await.is_err());
        assert_eq!(started.elapsed(), READ_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_does_not_hang_a_write() {
        let clients = Clients::over(&tower::service_fn(never), Fence::open());
        let started = Instant::now();
        let result = namespaces(clients.writes).get("x").await;
        assert!(result.is_err());
        assert_eq!(started.elapsed(), WRITE_TIMEOUT);
    }
}
