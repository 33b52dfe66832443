//! One request from the network: who asks, the body within its bounds, the answer.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, EXPECT, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use hyper::{HeaderMap, Response};
use plumb_background::Visitor;
use plumb_host::time::monotonic_ns;
use plumb_volumes::state::State;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::answer::RestResponse;
use crate::asked::{Method, Request};
use crate::fault::{self, RestError};
use crate::interface::Interface;
use crate::passwords::{PasswordError, Passwords};

use super::logins::{Login, Logins};

/// Larger bodies are refused.
const BODY_BYTES_MAX: usize = 1 << 20;
/// How much of a refused body is still read, because most clients see an answer only after they have sent all.
const READ_BYTES_MAX: usize = 64 << 20;
/// For a body and its answer.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// Who asks first whether to send a body (`Expect: 100-continue`) waits about a second for the answer, as curl does, and sends
/// it then; until half of that is over it can be refused unread.
const EXPECT_NS: u64 = 500_000_000;

/// The state that requests share.
#[derive(Debug)]
pub struct Shared {
    interface: Mutex<Interface>,
    /// A separate connection, so that other requests do not wait while a password is hashed.
    users: Mutex<State>,
    passwords: Passwords,
    logins: Arc<Logins>,
}

impl Shared {
    /// For an interface, with the state that knows its users.
    pub fn new(interface: Interface, users: State) -> Result<Self, PasswordError> {
        Ok(Self {
            interface: Mutex::new(interface),
            users: Mutex::new(users),
            passwords: Passwords::new()?,
            logins: Arc::default(),
        })
    }

    /// The hash of a user's password, and whether it was this password a moment ago; `None` where that cannot be known.
    fn recall(&self, user: &str, password: &str) -> Option<(Option<String>, bool)> {
        let kept = self.users.lock().unwrap_or_else(PoisonError::into_inner).password_hash(user).ok()?;
        let is_known = kept.as_ref().is_some_and(|kept| self.passwords.recall(kept, user, password));
        Some((kept, is_known))
    }

    fn answer(&self, request: &Request<'_>) -> RestResponse {
        self.interface.lock().unwrap_or_else(PoisonError::into_inner).answer(request)
    }
}

/// Answers a request, whatever it is.
pub async fn respond(
    shared: Arc<Shared>,
    visitor: Arc<Visitor>,
    request: hyper::Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let with_links = wants_links(request.headers());
    let answer = timeout(REQUEST_TIME, answer(shared, &visitor, request, with_links)).await;
    let late = || RestError::new(408, fault::TOO_MUCH, "The request took too long").into();
    Ok(response(&answer.unwrap_or_else(|_| late()), with_links))
}

async fn answer(
    shared: Arc<Shared>,
    visitor: &Visitor,
    request: hyper::Request<Incoming>,
    with_links: bool,
) -> RestResponse {
    let began_ns = monotonic_ns();
    let (head, mut body) = request.into_parts();
    let login = match credentials(&head.headers) {
        None => Login::Wrong,
        Some((user, password)) => log_in(&shared, visitor, user, password).await,
    };
    let expects = head.headers.contains_key(EXPECT);
    let waits = || expects && monotonic_ns() < began_ns + EXPECT_NS;
    if login != Login::Right {
        discard(&mut body, waits()).await;
        return match login {
            Login::TooMany => {
                let message = "Too many logins from this address wait for their turn, after failed ones";
                RestError::new(429, fault::TOO_MUCH, message).into()
            }
            _ => RestError::new(401, fault::UNAUTHORIZED, "User is not authorized.").into(),
        };
    }
    if !visitor.admit() {
        discard(&mut body, waits()).await;
        let message = "Too many clients are connected. Close a connection, or try again later";
        return RestError::new(503, fault::TOO_MUCH, message).into();
    }
    // One of unknown length is asked for to see how long it is, and its client sends all of it then.
    let is_unread = is_too_large(&body);
    let bytes = match whole(&mut body).await {
        Ok(bytes) => bytes,
        Err(fault) => {
            discard(&mut body, is_unread && waits()).await;
            return fault.into();
        }
    };
    let done = spawn_blocking(move || {
        shared.answer(&Request {
            method: method(&head.method),
            path: head.uri.path(),
            query: head.uri.query().unwrap_or(""),
            body: &bytes,
            with_links,
        })
    });
    done.await.unwrap_or_else(|_| RestError::new(500, fault::INTERNAL, "internal error").into())
}

/// Whether that is the password of that user. One that was right a moment ago waits for nobody's hash.
async fn log_in(shared: &Arc<Shared>, visitor: &Visitor, user: String, password: String) -> Login {
    let recalling = {
        let (shared, user, password) = (Arc::clone(shared), user.clone(), password.clone());
        spawn_blocking(move || shared.recall(&user, &password))
    };
    match recalling.await.ok().flatten() {
        None => Login::Wrong,
        Some((_, true)) => Login::Right,
        Some((kept, false)) => {
            let passwords = Arc::clone(shared);
            let check = move || passwords.passwords.check(kept, &user, &password);
            shared.logins.attempt(visitor.peer(), check).await
        }
    }
}

fn method(method: &hyper::Method) -> Option<Method> {
    match method.as_str() {
        "GET" => Some(Method::Get),
        "POST" => Some(Method::Post),
        "PATCH" => Some(Method::Patch),
        "DELETE" => Some(Method::Delete),
        _ => None,
    }
}

/// User and password of basic authentication (RFC 7617).
fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let (scheme, encoded) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    let decoded = STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let text = String::from_utf8(decoded).ok()?;
    text.split_once(':').map(|(user, password)| (user.to_owned(), password.to_owned()))
}

/// Whether a body says of itself that it is too large.
fn is_too_large(body: &Incoming) -> bool {
    body.size_hint().lower() > BODY_BYTES_MAX as u64
}

/// The body, when it is not too large.
async fn whole(body: &mut Incoming) -> Result<Vec<u8>, RestError> {
    let too_large = || {
        RestError::new(
            413,
            fault::TOO_MUCH,
            format!("The request's body is larger than {BODY_BYTES_MAX} bytes"),
        )
    };
    if is_too_large(body) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let broken = |_| RestError::bad(fault::JSON, "The request's body ended early");
        let frame = frame.map_err(broken)?;
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if bytes.len() > BODY_BYTES_MAX {
            return Err(too_large());
        }
    }
    Ok(bytes)
}

/// Reads what a client sends that will be refused, unless it waits to be asked for it.
async fn discard(body: &mut Incoming, waits: bool) {
    let mut left = READ_BYTES_MAX;
    while !waits && left > 0 {
        let Some(Ok(frame)) = body.frame().await else { return };
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
    }
}

/// Only who asks for plain JSON gets no links.
fn wants_links(headers: &HeaderMap) -> bool {
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
    !accepted.contains("application/json") || accepted.contains("hal+json")
}

fn response(answer: &RestResponse, with_links: bool) -> Response<Full<Bytes>> {
    let mut text = serde_json::to_string_pretty(&answer.body).unwrap_or_default();
    text.push('\n');
    let mut response = Response::new(Full::new(Bytes::from(text)));
    let status = hyper::StatusCode::from_u16(answer.status);
    *response.status_mut() = status.unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    let kind = if with_links { "application/hal+json" } else { "application/json" };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if answer.status == 401 {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"plumb volumes\""));
    }
    if let Some(location) = answer.location.as_deref().and_then(|to| HeaderValue::from_str(to).ok()) {
        headers.insert(LOCATION, location);
    }
    response
}
