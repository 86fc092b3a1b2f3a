//! The line between one process of Joiner and the rest of the world: where it is cut, and where the process dies.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use jiff::Timestamp;
use joiner_core::name::Name;
use joiner_core::plan::Purchase;
use joiner_core::problem::Catalog;
use joiner_embedded::api::{ApiServer, Local, ResponseBody};
use joiner_providers::{
    LaunchRequest, Machine, MachineId, Notice, Provider, ProviderError, RepairPolicy, Timeouts, Uid,
};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::Service;

/// On which side of its last request a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The request was never sent.
    Before,
    /// It was answered, and nobody was left to hear the answer.
    After,
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It arrives, and so does its answer.
    Through,
    /// The process dies.
    Dies(Side),
    /// It does not arrive.
    Cut,
}

#[derive(Debug, Default)]
struct State {
    /// Requests until it dies, and on which side of the last.
    dies: Option<(u64, Side)>,
    dead: bool,
    cut_until: Option<Instant>,
    sent: u64,
}

/// The line of one process. Cheap to clone; clones are one line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    state: Arc<Mutex<State>>,
    died: Arc<Notify>,
}

impl Line {
    /// A line on which the process dies at the given request, if it is to.
    pub(crate) fn new(dies: Option<(u64, Side)>) -> Self {
        let line = Self::default();
        line.lock().dies = dies;
        line
    }

    /// Nothing goes through for a while.
    pub(crate) fn cut(&self, lasts: Duration) {
        self.lock().cut_until = Some(Instant::now() + lasts);
    }

    /// How many requests were sent.
    fn sent(&self) -> u64 {
        self.lock().sent
    }

    /// Nothing happens to this process any more.
    pub(crate) fn spare(&self) {
        let mut state = self.lock();
        state.dies = None;
        state.cut_until = None;
    }

    /// Waits until the process has died.
    pub(crate) async fn died(&self) {
        self.died.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cut(&self) -> bool {
        let state = self.lock();
        state.dead || state.cut_until.is_some_and(|until| Instant::now() < until)
    }

    /// What becomes of the next request.
    pub(crate) fn pass(&self) -> Passage {
        let mut state = self.lock();
        if state.dead {
            return Passage::Dies(Side::Before);
        }
        if state.cut_until.is_some_and(|until| Instant::now() < until) {
            return Passage::Cut;
        }
        state.sent += 1;
        match state.dies {
            Some((at, side)) if state.sent >= at => {
                state.dead = true;
                drop(state);
                self.died.notify_one();
                Passage::Dies(side)
            }
            _ => Passage::Through,
        }
    }
}

/// What is sent beside Joiner's requests, given the cluster and how many it has sent: for tests of the auditor.
pub(crate) type Stray = fn(&Local, u64) -> Option<Request<axum::body::Body>>;

/// The API server at the far end of a line.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// The server.
    pub(crate) server: ApiServer,
    /// The line.
    pub(crate) line: Line,
    /// What else is sent.
    pub(crate) stray: Option<Stray>,
}

impl<B> Service<Request<B>> for Wire
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Gated>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut server, line) = (self.server.clone(), self.line.clone());
        let stray = self.stray;
        Box::pin(async move {
            match line.pass() {
                Passage::Through => {
                    if let Some(stray) = stray.and_then(|of| of(&server.local(), line.sent())) {
                        let _ = server.call(stray).await;
                    }
                    let response = server.call(request).await?;
                    Ok(response.map(|inner| Gated { inner, line }))
                }
                Passage::Dies(side) => {
                    if side == Side::After {
                        let _ = server.call(request).await;
                    }
                    std::future::pending().await
                }
                Passage::Cut => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Err(broken())
                }
            }
        })
    }
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::HostUnreachable, "no route to host")
}

/// An answer that ends when its line is cut: watches are answers too.
pub(crate) struct Gated {
    inner: ResponseBody,
    line: Line,
}

impl Body for Gated {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut task::Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.line.is_cut() {
            return Poll::Ready(Some(Err(broken())));
        }
        Pin::new(&mut self.inner)
            .poll_frame(context)
            .map_err(io::Error::other)
    }
}

/// A cloud at the far end of a line.
pub(crate) struct Called {
    /// The cloud.
    pub(crate) cloud: Arc<dyn Provider>,
    /// The line.
    pub(crate) line: Line,
}

impl Called {
    async fn through<T>(
        &self,
        call: impl Future<Output = Result<T, ProviderError>> + Send,
    ) -> Result<T, ProviderError> {
        match self.line.pass() {
            Passage::Through => call.await,
            Passage::Dies(side) => {
                if side == Side::After {
                    let _ = call.await;
                }
                std::future::pending().await
            }
            Passage::Cut => Err(ProviderError::Transient("no route to host".to_owned())),
        }
    }
}

#[async_trait]
impl Provider for Called {
    fn name(&self) -> &'static str {
        self.cloud.name()
    }

    async fn catalog(&self) -> Result<Catalog, ProviderError> {
        self.through(self.cloud.catalog()).await
    }

    async fn launch(&self, request: &LaunchRequest) -> Result<Machine, ProviderError> {
        self.through(self.cloud.launch(request)).await
    }

    async fn launch_all(&self, requests: &[LaunchRequest]) -> Vec<Result<Machine, ProviderError>> {
        if self.launch_batch() == 1 {
            return futures::future::join_all(requests.iter().map(|one| self.launch(one))).await;
        }
        let done = self.through(async { Ok(self.cloud.launch_all(requests).await) });
        done.await
            .unwrap_or_else(|error| requests.iter().map(|_| Err(error.clone())).collect())
    }

    fn launch_batch(&self) -> usize {
        self.cloud.launch_batch()
    }

    async fn terminate(&self, id: &MachineId) -> Result<(), ProviderError> {
        self.through(self.cloud.terminate(id)).await
    }

    async fn get(&self, id: &MachineId) -> Result<Machine, ProviderError> {
        self.through(self.cloud.get(id)).await
    }

    async fn find(&self, uid: &Uid) -> Result<Machine, ProviderError> {
        self.through(self.cloud.find(uid)).await
    }

    async fn list(&self) -> Result<Vec<Machine>, ProviderError> {
        self.through(self.cloud.list()).await
    }

    async fn drift(&self, machine: &Machine) -> Result<Option<String>, ProviderError> {
        self.through(self.cloud.drift(machine)).await
    }

    async fn notices(&self) -> Result<Vec<Notice>, ProviderError> {
        self.through(self.cloud.notices()).await
    }

    async fn concern(&self) -> Option<String> {
        self.cloud.concern().await
    }

    async fn prices_as_of(&self) -> Option<Timestamp> {
        self.cloud.prices_as_of().await
    }

    fn timeouts(&self, purchase: &Purchase) -> Timeouts {
        self.cloud.timeouts(purchase)
    }

    fn credential(&self) -> Option<Name> {
        self.cloud.credential()
    }

    async fn clear(&self) -> Result<(), ProviderError> {
        self.through(self.cloud.clear()).await
    }

    async fn close(&self) {
        self.cloud.close().await;
    }

    fn repair_policies(&self) -> &[RepairPolicy] {
        self.cloud.repair_policies()
    }
}
