//! Carrying out faults on requests and streams.

use std::{io, time::Duration};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use tokio::time::Instant;

use crate::{api::Status, faults::Fault};

/// The error of a connection that broke.
pub(crate) fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer")
}

/// The answer of a server that fails.
pub(crate) fn injected(code: u16) -> Status {
    match code {
        429 => Status::too_many_requests("the server has received too many requests", 1),
        503 => Status::new(
            503,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => Status::new(
            504,
            "Timeout",
            "Timeout: request did not complete within the allotted time",
        ),
        _ => Status::new(
            code,
            "InternalError",
            "Internal error occurred: injected fault",
        ),
    }
}

/// How long a watch may live.
pub(crate) fn cut(fault: Fault) -> Option<Duration> {
    if let Fault::CutWatch(after) = fault {
        Some(after)
    } else {
        None
    }
}

/// Ends a stream with a broken connection after a while, if asked.
pub(crate) fn cut_after(
    after: Option<Duration>,
    lines: impl Stream<Item = Bytes> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let deadline = after.map(|after| Instant::now() + after);
    stream::unfold(Some(Box::pin(lines)), move |lines| async move {
        let mut lines = lines?;
        let Some(deadline) = deadline else {
            let line = lines.next().await?;
            return Some((Ok(line), Some(lines)));
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(deadline) => Some((Err(broken()), None)),
            line = lines.next() => line.map(|line| (Ok(line), Some(lines))),
        }
    })
}
