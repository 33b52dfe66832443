//! Errors of a cluster. Messages complete "failed to …".

/// Why a cluster could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no usable kubeconfig, or no account in this pod.
    #[error("find a cluster: {0}")]
    NoCluster(String),
    /// The API server does not answer, or the answer is not one of an API server.
    #[error("reach the cluster at {server}: {reason}")]
    Unreachable {
        /// The API server's address.
        server: String,
        /// Why.
        reason: String,
    },
    /// The account may not do what a run needs.
    #[error("use namespace `{namespace}`: this account may not {}", missing(.rights))]
    Forbidden {
        /// The namespace.
        namespace: String,
        /// The rights that it lacks.
        rights: Vec<String>,
    },
    /// The API server refused a request.
    #[error("{what}: {reason}")]
    Refused {
        /// What was asked for, such as `create pod plumb-x`.
        what: String,
        /// The server's words.
        reason: String,
        /// The HTTP status.
        code: u16,
    },
    /// A claim names a storage class that does not exist.
    #[error("make a volume: the cluster has no storage class `{0}`")]
    NoClass(String),
    /// An object does not lead anywhere, or does not exist.
    #[error("find {object}: {reason}")]
    NoEndpoint {
        /// The object.
        object: String,
        /// Why.
        reason: String,
    },
    /// A pod does not run, or has stopped running.
    #[error("use pod {pod}: {reason}")]
    Pod {
        /// The pod's name.
        pod: String,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// Whether the object that was asked for does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }
}

fn missing(rights: &[String]) -> String {
    format!("{}; a cluster administrator can grant that with deploy/rbac.yaml", rights.join(", nor "))
}
