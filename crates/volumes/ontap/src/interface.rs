//! One request and its answer, without a network.

use plumb_volumes::state::State;

use crate::answer::RestResponse;
use crate::asked::{Asked, Method, Request, ServedReport};
use crate::fault::{self, RestError};
use crate::query::Query;
use crate::resources::{jobs, policies, svms, volumes};

/// Answers requests from the state.
#[derive(Debug)]
pub struct Interface {
    state: State,
    served: ServedReport,
}

impl Interface {
    /// An interface to a state, with what is being served.
    #[must_use]
    pub fn new(state: State, served: ServedReport) -> Self {
        Self { state, served }
    }

    /// The state.
    #[must_use]
    pub fn state(&self) -> &State {
        &self.state
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
            Method::Get => self.state.at_one_moment(|| Self::route(&asked, resource, method, uuid)),
            _ => Self::route(&asked, resource, method, uuid),
        }
    }

    fn route(
        asked: &Asked<'_>,
        resource: Resource,
        method: Method,
        uuid: Option<&str>,
    ) -> Result<RestResponse, RestError> {
        match (resource, method, uuid) {
            (Resource::Policies, Method::Get, None) => policies::list(asked),
            (Resource::Policies, Method::Post, None) => policies::create(asked),
            (Resource::Policies, Method::Patch, None) => policies::change_found(asked),
            (Resource::Policies, Method::Delete, None) => policies::delete_found(asked),
            (Resource::Policies, Method::Get, Some(uuid)) => policies::show(asked, uuid),
            (Resource::Policies, Method::Patch, Some(uuid)) => policies::change(asked, uuid),
            (Resource::Policies, Method::Delete, Some(uuid)) => policies::delete(asked, uuid),
            (Resource::Volumes, Method::Get, None) => volumes::list(asked),
            (Resource::Volumes, Method::Post, None) => volumes::create(asked),
            (Resource::Volumes, Method::Patch, None) => volumes::change_found(asked),
            (Resource::Volumes, Method::Delete, None) => volumes::delete_found(asked),
            (Resource::Volumes, Method::Get, Some(uuid)) => volumes::show(asked, uuid),
            (Resource::Volumes, Method::Patch, Some(uuid)) => volumes::change(asked, uuid),
            (Resource::Volumes, Method::Delete, Some(uuid)) => volumes::delete(asked, uuid),
            (Resource::Svms, Method::Get, uuid) => svms::get(asked, uuid),
            (Resource::Jobs, Method::Get, uuid) => jobs::get(asked, uuid),
            _ => Err(not_allowed()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Policies,
    Volumes,
    Svms,
    Jobs,
}

fn not_allowed() -> RestError {
    RestError::new(405, fault::UNSUPPORTED, "The operation is not supported on this resource")
}

/// A path as a resource and, where there is one, the UUID of one of its objects.
fn split(path: &str) -> Option<(Resource, Option<&str>)> {
    let known = [
        (policies::POLICIES.path, Resource::Policies),
        (volumes::VOLUMES.path, Resource::Volumes),
        (svms::SVMS.path, Resource::Svms),
        (jobs::JOBS.path, Resource::Jobs),
    ];
    known.into_iter().find_map(|(known, resource)| {
        let rest = path.strip_prefix(known)?;
        match rest.strip_prefix('/') {
            None => rest.is_empty().then_some((resource, None)),
            Some("") => Some((resource, None)),
            Some(uuid) => (!uuid.contains('/')).then_some((resource, Some(uuid))),
        }
    })
}

#[cfg(test)]
mod tests;
