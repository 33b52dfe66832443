//! Server-sent events: an answer that is sent piece by piece until the run ends or the browser disconnects.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Response;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use plumb_host::time::monotonic_ns;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::headers::add_common;
use crate::asked::Asked;
use crate::fault::RequestError;
use crate::live::{Follower, Next};
use crate::site::{Site, Watching};

/// How many browsers may follow runs at a time.
const WATCHERS_MAX: usize = 32;
/// How many pieces may wait for a slow browser.
const PIECES_MAX: usize = 4;
/// How long a connection may be silent before a heartbeat, because proxies cut silent connections. While a
/// window is open, the heartbeat waits up to the second figure.
const HEARTBEAT_NS: u64 = 15_000_000_000;
const HEARTBEAT_NS_MAX: u64 = 45_000_000_000;
/// How soon a browser reconnects after its connection was cut, in ms.
const RETRY: &str = "retry: 2000\n\n";

/// The content of an answer: whole, or sent in pieces.
#[derive(Debug)]
pub enum Content {
    Whole(Option<Bytes>),
    Coming(Receiver<Bytes>),
}

impl Content {
    /// Wraps a whole text.
    pub fn whole(text: String) -> Self {
        Self::Whole(Some(Bytes::from(text)).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Coming(pieces) => pieces.poll_recv(context).map(|piece| Some(Ok(Frame::data(piece?)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Coming(_) => SizeHint::default(),
        }
    }
}

/// Starts to send a run's events.
///
/// # Errors
/// When no such run exists, or too many browsers follow runs.
pub async fn follow(site: &Arc<Site>, id: String, asked: &Asked) -> Result<Response<Content>, RequestError> {
    let Some(watching) = site.watch(WATCHERS_MAX) else {
        let words = format!("{WATCHERS_MAX} browsers follow runs already. Close one of them.");
        return Err(RequestError { status: 503, words });
    };
    let known = asked.query.get("after").and_then(|after| after.parse().ok());
    let (told, is_behind) = (asked.last_event.or(known).unwrap_or(0), asked.last_event.is_some());
    let shared = Arc::clone(site);
    let follower = spawn_blocking(move || Follower::new(&shared, &id, told, is_behind)).await;
    let follower =
        follower.unwrap_or_else(|_| Err(RequestError::broken("follow this run: it is a fault of plumb")))?;
    let (pieces, coming) = channel(PIECES_MAX);
    tokio::spawn(send(watching, follower, pieces));
    let mut response = Response::new(Content::Coming(coming));
    let headers = response.headers_mut();
    add_common(headers);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// Sends events until the run ends or the browser disconnects.
async fn send(watching: Watching, mut follower: Follower, pieces: Sender<Bytes>) {
    let mut sent_ns = monotonic_ns();
    if pieces.send(Bytes::from_static(RETRY.as_bytes())).await.is_err() {
        return;
    }
    loop {
        let step = spawn_blocking(move || {
            let (text, next) = follower.step();
            (follower, text, next)
        });
        let Ok((back, text, next)) = step.await else { return };
        follower = back;
        if !text.is_empty() {
            sent_ns = monotonic_ns();
            if pieces.send(Bytes::from(text)).await.is_err() {
                return;
            }
        }
        let Next::Look { after, in_window } = next else { break };
        let silence_ns = monotonic_ns().saturating_sub(sent_ns);
        if silence_ns > HEARTBEAT_NS_MAX || (silence_ns > HEARTBEAT_NS && !in_window) {
            sent_ns = monotonic_ns();
            if pieces.send(Bytes::from_static(b":\n\n")).await.is_err() {
                return;
            }
        }
        let pause = after.min(Duration::from_nanos(HEARTBEAT_NS));
        if timeout(pause, pieces.closed()).await.is_ok() {
            return;
        }
    }
    drop(watching);
}
