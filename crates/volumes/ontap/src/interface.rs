//! One request and its answer, without a network.

use plumb_volumes::state::State;

use crate::answer::RestResponse;
use crate::asked::{Asked, Method, Request, ServedReport};
use crate::fault::{self, RestError};
use crate::query::Query;
use crate::resources::resource::{Resource, not_allowed};
use crate::resources::{jobs, policies, svms, volumes};

/// Answers requests from the state.
#[derive(Debug)]
pub struct Interface {
    state: State,
    served: ServedReport,
}

impl Interface {
    /// An interface to a state, with the report of its server.
    #[must_use]
    pub fn new(state: State, served: ServedReport) -> Self {
        Self { state, served }
    }

    /// Does what a request asks for, or nothing of it.
    #[must_use]
    pub fn answer(&self, request: &Request<'_>) -> RestResponse {
        self.dispatch(request).unwrap_or_else(RestResponse::from)
    }

    fn dispatch(&self, request: &Request<'_>) -> Result<RestResponse, RestError> {
        let unknown = || RestError::new(404, fault::UNSUPPORTED, "API not found");
        let (resource, uuid) = split(request.path).ok_or_else(unknown)?;
        let query = Query::parse(request.query)?;
        let asked = Asked { state: &self.state, served: &self.served, request, query: &query };
        let method = request.method.ok_or_else(not_allowed)?;
        if matches!(method, Method::Get | Method::Delete) && !request.body.is_empty() {
            return Err(RestError::bad(
                fault::BODY,
                "A request body is not allowed on GET, HEAD, and DELETE",
            ));
        }
        let is_of_several = uuid.is_none() && matches!(method, Method::Patch | Method::Delete);
        if method != Method::Get && !is_of_several {
            query.options(method == Method::Post)?;
        }
        // A change is one transaction, and a listing shows one moment.
        match method {
            Method::Get => self.state.at_one_moment(|| resource.answer(&asked, method, uuid)),
            _ => resource.answer(&asked, method, uuid),
        }
    }
}

/// Splits a path into a resource and the UUID of one of its objects, if it has one.
fn split(path: &str) -> Option<(&'static Resource, Option<&str>)> {
    let known = [&policies::POLICIES, &volumes::VOLUMES, &svms::SVMS, &jobs::JOBS];
    known.into_iter().find_map(|resource| {
        let rest = path.strip_prefix(resource.collection.path)?;
        match rest.strip_prefix('/') {
            None => rest.is_empty().then_some((resource, None)),
            Some("") => Some((resource, None)),
            Some(uuid) => (!uuid.contains('/')).then_some((resource, Some(uuid))),
        }
    })
}

#[cfg(test)]
mod tests;
