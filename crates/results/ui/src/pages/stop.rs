//! Stopping a run: a page that asks for confirmation, and the request that stops the run.

use maud::html;
use plumb_store::now;

use super::layout::{Part, form_token, page};
use super::run::id;
use crate::asked::Asked;
use crate::fault::RequestError;
use crate::launch;
use crate::page_response::PageResponse;
use crate::site::Site;

/// The page that asks for confirmation.
///
/// # Errors
/// When no such run exists.
pub fn confirm(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let id = id(asked)?;
    let path = site.shelf.path(id).ok_or_else(|| RequestError::missing("There is no such run."))?;
    let pid = now(&path).map(|now| now.pid);
    let content = html! {
        h1 { "Stop this run?" }
        p.lead { code { (path.display()) } }
        p {
            "The slot that is measured now is dropped, and the slots before it are kept. The run puts back what it changed on its \
             hosts, writes its report, and can be continued later."
        }
        @if let Some(pid) = pid { p.note { "It is process " (pid) ", which is asked to stop as by Ctrl-C." } }
        form method="post" action={ "/runs/" (id) "/stop" } {
            (form_token(site))
            p.act { button.danger { "Stop the run" } " " a.button href={ "/runs/" (id) } { "Let it run" } }
        }
    };
    Ok(page(site, Part::Runs, "Stop this run?", &content))
}

/// Stops a run.
///
/// # Errors
/// When the run is not under way, or belongs to another user.
pub fn stop(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let id = id(asked)?;
    let path = site.shelf.path(id).ok_or_else(|| RequestError::missing("There is no such run."))?;
    launch::interrupt(&path)?;
    Ok(PageResponse::see(format!("/runs/{id}")))
}
