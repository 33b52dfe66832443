//! The account's rights, checked with the API server before anything is created.

use std::fmt;

use serde_json::{Value, json};

use crate::api::Cluster;
use crate::error::Error;

/// A right of an account in the namespace, or in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Right {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
}

impl Right {
    const fn new(verb: &'static str, group: &'static str, resource: &'static str) -> Self {
        Self { verb, group, resource, subresource: "" }
    }

    const fn sub(self, subresource: &'static str) -> Self {
        Self { subresource, ..self }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.verb, self.resource)?;
        if self.subresource.is_empty() { Ok(()) } else { write!(formatter, "/{}", self.subresource) }
    }
}

/// The rights that every run in pods needs. A WebSocket begins with a GET, and API servers from 1.35 on ask
/// for both (<https://github.com/kubernetes/kubernetes/pull/134577>).
const OF_PODS: [Right; 8] = [
    Right::new("create", "batch", "jobs"),
    Right::new("patch", "batch", "jobs"),
    Right::new("delete", "batch", "jobs"),
    Right::new("create", "", "pods"),
    Right::new("get", "", "pods"),
    Right::new("delete", "", "pods"),
    Right::new("create", "", "pods").sub("exec"),
    Right::new("get", "", "pods").sub("exec"),
];
/// The rights that Services need in addition.
const OF_SERVICES: [Right; 3] = [
    Right::new("create", "", "services"),
    Right::new("get", "", "services"),
    Right::new("patch", "", "services"),
];

/// The rights that pods with their own volumes need in addition.
const OF_VOLUMES: [Right; 1] = [Right::new("get", "", "persistentvolumeclaims")];

impl Cluster {
    /// Checks that the account has the rights that runs in pods need.
    ///
    /// # Errors
    /// Names every right that the account lacks.
    pub fn demand_pods(&self) -> Result<(), Error> {
        self.demand(&OF_PODS)
    }

    /// Checks that the account has the rights that a Service needs.
    ///
    /// # Errors
    /// Names every right that the account lacks.
    pub fn demand_services(&self) -> Result<(), Error> {
        self.demand(&OF_SERVICES)
    }

    /// Checks that the account has the rights that pods with volumes need.
    ///
    /// # Errors
    /// Names every right that the account lacks.
    pub fn demand_volumes(&self) -> Result<(), Error> {
        self.demand(&OF_VOLUMES)
    }

    fn demand(&self, rights: &[Right]) -> Result<(), Error> {
        let mut missing = Vec::new();
        for right in rights {
            if !self.may(*right)? {
                missing.push(right.to_string());
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        Err(Error::Forbidden { namespace: self.namespace().to_owned(), rights: missing })
    }

    fn may(&self, right: Right) -> Result<bool, Error> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": { "resourceAttributes": {
                "namespace": self.namespace(), "verb": right.verb, "group": right.group,
                "resource": right.resource, "subresource": right.subresource,
            } },
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let answer = self.create(path, &review, "an access review")?;
        Ok(answer.pointer("/status/allowed").and_then(Value::as_bool).unwrap_or(false))
    }
}
