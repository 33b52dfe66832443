//! One request and its answer, without a network.

use plumb_volumes::state::State;

use crate::answer::Answer;
use crate::asked::{Asked, Method, Request, ServedReport};
use crate::fault::{self, Fault};
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
    pub fn answer(&self, request: &Request<'_>) -> Answer {
        self.dispatch(request).unwrap_or_else(Answer::from)
    }

    fn dispatch(&self, request: &Request<'_>) -> Result<Answer, Fault> {
        let unknown = || Fault::new(404, fault::UNSUPPORTED, "API not found");
        let (resource, uuid) = split(request.path).ok_or_else(unknown)?;
        let query = Query::parse(request.query)?;
        let asked = Asked { state: &self.state, served: &self.served, request, query: &query };
        let method = request.method.ok_or_else(not_allowed)?;
        if matches!(method, Method::Get | Method::Delete) && !request.body.is_empty() {
            return Err(Fault::bad(fault::BODY, "A request body is not allowed on GET, HEAD, and DELETE"));
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
    ) -> Result<Answer, Fault> {
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

fn not_allowed() -> Fault {
    Fault::new(405, fault::UNSUPPORTED, "The operation is not supported on this resource")
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
mod tests {
    use std::sync::Arc;

    use plumb_volumes::limiter::{Account, Limits};
    use plumb_volumes::policy::{Fixed, Policy};
    use plumb_volumes::{Report, VolumeReport};
    use serde_json::Value;

    use super::*;

    fn interface(served: ServedReport) -> (tempfile::TempDir, Interface) {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        (directory, Interface::new(state, served))
    }

    /// The answer to a request without a body.
    fn ask(interface: &Interface, method: Method, path: &str, query: &str) -> (u16, Value) {
        let request = Request { method: Some(method), path, query, body: &[], with_links: false };
        let answer = interface.answer(&request);
        (answer.status, answer.body)
    }

    #[test]
    fn a_policy_is_deleted_with_what_it_does_to_volumes() {
        let (_directory, interface) = interface(ServedReport::default());
        let state = &interface.state;
        for name in ["gold", "silver"] {
            let fixed = Fixed { max_iops: Some(500), ..Fixed::default() };
            state.create_policy(name, &Policy::Fixed(fixed)).unwrap();
            state.create_volume(&format!("of_{name}"), 4096, Some(name)).unwrap();
        }
        let path = format!("{}/{}", policies::POLICIES.path, state.policies().unwrap()[0].uuid);
        assert_eq!(ask(&interface, Method::Delete, &path, "").0, 202);
        let under = || {
            let volumes = state.volumes().unwrap();
            volumes.into_iter().map(|row| row.policy.unwrap_or_default()).collect::<Vec<_>>()
        };
        assert_eq!(under(), ["", "silver"]);
        assert_eq!(ask(&interface, Method::Delete, policies::POLICIES.path, "name=*").0, 200);
        assert_eq!((under(), state.policies().unwrap()), (vec![String::new(); 2], vec![]));
    }

    #[test]
    fn what_is_shown_is_of_one_moment() {
        const NAMES: [&str; 2] = ["gold", "silver"];
        let (directory, interface) = interface(ServedReport::default());
        let fixed = Fixed { max_iops: Some(500), ..Fixed::default() };
        interface.state.create_policy(NAMES[0], &Policy::Fixed(fixed)).unwrap();
        interface.state.create_volume("vol1", 4096, Some(NAMES[0])).unwrap();
        let other = State::open(directory.path()).unwrap();
        std::thread::scope(|scope| {
            let renaming = scope.spawn(move || {
                for round in 0..500 {
                    other.rename_policy(NAMES[round % 2], NAMES[(round + 1) % 2]).unwrap();
                }
            });
            while !renaming.is_finished() {
                let (_, body) = ask(&interface, Method::Get, volumes::VOLUMES.path, "fields=qos");
                assert!(body["records"][0]["qos"]["policy"]["name"].is_string(), "{body}");
            }
        });
    }

    #[test]
    fn what_a_server_said_of_a_volume_is_not_said_of_another_that_has_its_name_now() {
        let served = ServedReport::default();
        let (_directory, interface) = interface(Arc::clone(&served));
        interface.state.create_volume("vol1", 4096, None).unwrap();
        let report = VolumeReport {
            uuid: interface.state.volumes().unwrap()[0].uuid.clone(),
            name: "vol1".to_owned(),
            size_bytes: 4096,
            used_bytes: 0,
            policy: None,
            is_in_use: false,
            limits: Limits { iops: std::num::NonZeroU64::new(500), ..Limits::NONE },
            account: Account::default(),
        };
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 10_809)).into();
        *served.write().unwrap() = Some(Report { followed_ns: 0, address, volumes: vec![report] });
        interface.state.rename_volume("vol1", "vol2").unwrap();
        interface.state.create_volume("vol1", 4096, None).unwrap();
        let limit = |name: &str| {
            let query = format!("name={name}&fields=plumbline");
            let (_, body) = ask(&interface, Method::Get, volumes::VOLUMES.path, &query);
            body["records"][0]["plumbline"]["limits"]["iops"].as_u64()
        };
        assert_eq!((limit("vol1"), limit("vol2")), (None, Some(500)));
    }
}
