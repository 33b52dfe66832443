//! One request from the network: its access checks, its form within bounds, and its page.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue, LOCATION, ORIGIN,
    SET_COOKIE,
};
use hyper::{HeaderMap, Request, Response, StatusCode};
use plumb_background::Visitor;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::events::{self, Content};
use super::headers::add_common;
use crate::access::AccessHeaders;
use crate::asked::{Asked, Fields, Method, decoded};
use crate::fault::RequestError;
use crate::page_response::PageResponse;
use crate::pages::layout;
use crate::routes;
use crate::site::Site;

/// The largest form that is accepted, in bytes.
const FORM_BYTES_MAX: usize = 64 << 10;
/// The time limit for receiving a form.
const FORM_TIME: Duration = Duration::from_secs(10);

/// The kind of an admitted request.
enum Entry {
    /// The address has the token. The answer sets the cookie, and redirects to the address without the token.
    Welcome(String),
    Page(Asked),
    Events(String, Asked),
}

/// Answers a request. A refusal is a page, too. A connection without the token is closed after its answer.
pub async fn respond(
    site: Arc<Site>,
    visitor: Arc<Visitor>,
    request: Request<Incoming>,
) -> Result<Response<Content>, Infallible> {
    site.touch();
    let answer = match enter(&site, &visitor, request).await {
        Ok(Entry::Welcome(location)) => {
            Ok(PageResponse { cookie: Some(site.door.cookie()), ..PageResponse::see(location) })
        }
        Ok(Entry::Events(id, asked)) => match events::follow(&site, id, &asked).await {
            Ok(response) => return Ok(response),
            Err(fault) => Err(fault),
        },
        Ok(Entry::Page(asked)) => page(&site, asked).await,
        Err(fault) => Err(fault),
    };
    let mut response = response(answer.unwrap_or_else(|fault| layout::fault(&site, &fault)));
    if !visitor.is_known() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// Makes a page on a thread that may block. A panic becomes a page, too.
async fn page(site: &Arc<Site>, asked: Asked) -> Result<PageResponse, RequestError> {
    let shared = Arc::clone(site);
    let made = spawn_blocking(move || routes::answer(&shared, &asked)).await;
    let rest = Arc::clone(site);
    // Reads the runs that this request had no time for, in the background, so that the next request has them.
    spawn_blocking(move || rest.shelf.read_rest());
    made.unwrap_or_else(|_| Err(RequestError::broken("make this page: it is a fault of plumb")))
}

/// Admits or refuses a request.
async fn enter(site: &Site, visitor: &Visitor, request: Request<Incoming>) -> Result<Entry, RequestError> {
    let (head, body) = request.into_parts();
    let headers = AccessHeaders {
        host: text(&head.headers, HOST),
        cookie: text(&head.headers, COOKIE),
        authorization: text(&head.headers, AUTHORIZATION),
        origin: text(&head.headers, ORIGIN),
        fetch_site: text(&head.headers, HeaderName::from_static("sec-fetch-site")),
    };
    site.door.check_host(&headers)?;
    let query = Fields::parse(head.uri.query().unwrap_or_default())?;
    let method = match head.method {
        hyper::Method::GET | hyper::Method::HEAD => Method::Get,
        hyper::Method::POST => Method::Post,
        _ => return Err(RequestError { status: 405, words: "This server knows GET and POST.".to_owned() }),
    };
    let path = decoded(head.uri.path(), false)
        .ok_or_else(|| RequestError::bad("The address is not encoded as UTF-8."))?;
    if method == Method::Get && query.get("token").is_some_and(|said| site.door.is_token(said)) {
        admit(visitor)?;
        let rest = query.with("token", "");
        return Ok(Entry::Welcome(format!(
            "{}{}",
            local(head.uri.path()),
            if rest == "?" { "" } else { &rest }
        )));
    }
    site.door.check_token(&headers)?;
    admit(visitor)?;
    let mut form = Fields::default();
    if method == Method::Post {
        site.door.check_origin(&headers)?;
        form = self::form(&head.headers, body).await?;
        site.door.check_form(form.get("form"))?;
    }
    let last = text(&head.headers, HeaderName::from_static("last-event-id"));
    let last_event = last.and_then(|last| last.trim().parse().ok());
    let asked = Asked { method, path, query, form, last_event };
    Ok(match routes::events_of(&asked.path).filter(|_| method == Method::Get).map(str::to_owned) {
        Some(id) => Entry::Events(id, asked),
        None => Entry::Page(asked),
    })
}

/// Gives the connection a place among those with the token.
fn admit(visitor: &Visitor) -> Result<(), RequestError> {
    if visitor.admit() {
        return Ok(());
    }
    let words = "Too many browsers are connected to this server. Close one of them.".to_owned();
    Err(RequestError { status: 503, words })
}

/// A path that stays on this server: two leading slashes would name another host.
fn local(path: &str) -> &str {
    if path.starts_with("//") || path.contains('\\') { "/" } else { path }
}

async fn form(headers: &HeaderMap, mut body: Incoming) -> Result<Fields, RequestError> {
    let kind = text(headers, CONTENT_TYPE).unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/x-www-form-urlencoded") {
        return Err(RequestError::bad("The form is not sent as a browser sends it."));
    }
    let too_large =
        || RequestError { status: 413, words: format!("A form has at most {} KiB.", FORM_BYTES_MAX >> 10) };
    if body.size_hint().lower() > FORM_BYTES_MAX as u64 {
        return Err(too_large());
    }
    let whole = async {
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| RequestError::bad("The form ended early."))?;
            bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            if bytes.len() > FORM_BYTES_MAX {
                return Err(too_large());
            }
        }
        Ok(bytes)
    };
    let bytes = timeout(FORM_TIME, whole)
        .await
        .map_err(|_| RequestError::bad("The form did not come in time."))??;
    let text =
        String::from_utf8(bytes).map_err(|_| RequestError::bad("The form is not encoded as UTF-8."))?;
    Fields::parse(&text)
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

fn response(answer: PageResponse) -> Response<Content> {
    let mut response = Response::new(Content::whole(answer.body));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    add_common(headers);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(answer.kind));
    for (name, value) in [(LOCATION, answer.location), (SET_COOKIE, answer.cookie)] {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
            headers.insert(name, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_another_host() {
        assert_eq!(
            ["/", "/runs/x", "//evil.example", "/\\evil.example"].map(local),
            ["/", "/runs/x", "/", "/"]
        );
    }
}
