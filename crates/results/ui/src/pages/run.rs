//! One run: the live view while it is under way, its report afterwards.

use std::path::Path;
use std::sync::PoisonError;

use maud::{Markup, html};
use plumb_store::now;

use super::compare::opened;
use super::layout::{Part, made, page, state};
use super::live;
use crate::asked::Asked;
use crate::fault::RequestError;
use crate::page_response::PageResponse;
use crate::shelf::State;
use crate::site::Site;

/// The page.
///
/// # Errors
/// When no such run exists, or it cannot be read.
pub fn run(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let id = id(asked)?;
    let run = opened(site, id)?;
    let mut run = run.lock().unwrap_or_else(PoisonError::into_inner);
    let path = site.shelf.path(id).unwrap_or_default();
    let state = run.state();
    if state == State::Running {
        let (title, content) = live::content(id, &mut run, now(&path).as_ref());
        return Ok(page(site, Part::Runs, &title, &content));
    }
    let title = format!("{} ({})", run.run().header.plan.title, state.word());
    let content = html! {
        (bar(id, &path, state))
        article.report { (made(run.report())) }
    };
    Ok(page(site, Part::Runs, &title, &content))
}

/// The id in the address `/runs/ID`, or in an address below it.
///
/// # Errors
/// When there is none.
pub fn id(asked: &Asked) -> Result<&str, RequestError> {
    asked.path.split('/').nth(2).ok_or_else(|| RequestError::missing("There is no such run."))
}

/// The actions on a run that is over.
fn bar(id: &str, path: &Path, state_now: State) -> Markup {
    let may_go_on = matches!(state_now, State::Killed | State::Interrupted);
    html! {
        div.bar {
            p { (state(state_now)) " " @match state_now {
                State::Killed => "No process writes this run any more, and it does not say how it ended. All of its slots are kept.",
                State::Interrupted => "Somebody stopped this run. All of its slots are kept.",
                State::Failed => "The harness failed. What was measured before is below.",
                _ => "",
            } }
            @if may_go_on { p { "Continue it with " code { (live::resume_command(path)) } } }
            p.act {
                a.button href={ "/runs/" (id) "/repeat" } { "Repeat…" } " "
                a.button href={ "/compare?run=" (id) } { "Compare…" }
            }
        }
    }
}
