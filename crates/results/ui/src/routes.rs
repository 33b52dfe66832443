//! The routes from addresses to pages. A new page needs only a row here.

use crate::asked::{Asked, Method};
use crate::fault::RequestError;
use crate::page_response::PageResponse;
use crate::pages::{assets, compare, history, hosts, metrics, run, runs, series, start, stop};
use crate::site::Site;

type Page = fn(&Site, &Asked) -> Result<PageResponse, RequestError>;

/// Method, address and page; `*` stands for one part of the address.
const ROUTES: &[(Method, &str, Page)] = &[
    (Method::Get, "/", runs::runs),
    (Method::Get, "/runs/*", run::run),
    (Method::Get, "/runs/*/stop", stop::confirm),
    (Method::Post, "/runs/*/stop", stop::stop),
    (Method::Get, "/runs/*/repeat", start::confirm_repeat),
    (Method::Post, "/runs/*/repeat", start::repeat),
    (Method::Get, "/compare", compare::compare),
    (Method::Get, "/history", history::history),
    (Method::Get, "/series/*", series::series),
    (Method::Post, "/series/*/accept", series::accept),
    (Method::Get, "/hosts", hosts::hosts),
    (Method::Get, "/start", start::form),
    (Method::Post, "/start", start::start),
    (Method::Get, "/metrics", metrics::metrics),
    (Method::Get, "/assets/*", assets::asset),
];

/// The id of the run if `path` is the address of its events, the only answer that does not end at once.
#[must_use]
pub fn events_of(path: &str) -> Option<&str> {
    let id = path.strip_prefix("/runs/")?.strip_suffix("/events")?;
    (!id.contains('/')).then_some(id)
}

/// Answers an admitted request.
///
/// # Errors
/// When no such page exists, or the page refuses the request.
pub fn answer(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let fitting = || ROUTES.iter().filter(|(_, address, _)| fits(address, &asked.path));
    match fitting().find(|(method, ..)| *method == asked.method) {
        Some((_, _, page)) => page(site, asked),
        None if fitting().next().is_some() => {
            Err(RequestError { status: 405, words: "The address takes another method.".to_owned() })
        }
        None => Err(RequestError::missing("No page has this address.")),
    }
}

fn fits(address: &str, path: &str) -> bool {
    let (mut wanted, mut parts) = (address.split('/'), path.split('/'));
    loop {
        match (wanted.next(), parts.next()) {
            (None, None) => return true,
            (Some("*"), Some(part)) if !part.is_empty() => {}
            (Some(wanted), Some(part)) if wanted == part => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_fit_as_a_whole() {
        assert!(fits("/", "/") && fits("/runs/*", "/runs/x") && fits("/runs/*/stop", "/runs/x/stop"));
        for path in ["/runs", "/runs/", "/runs/x/", "/runs/x/y", "//runs/x", "/runs/x/stop/"] {
            assert!(!fits("/runs/*", path), "{path}");
        }
        assert_eq!(events_of("/runs/x/events"), Some("x"));
        assert_eq!((events_of("/runs/x"), events_of("/runs/x/y/events")), (None, None));
    }
}
