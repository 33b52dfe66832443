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
        /// The request, such as `create pod plumb-x`.
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
    #[error("find {object}: {cause}")]
    NoEndpoint {
        /// The object.
        object: String,
        /// Why.
        cause: Unfound,
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

/// Why an object does not exist, or leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfound {
    /// The namespace does not have it.
    #[error("namespace {namespace} has none of that name")]
    NotThere {
        /// The namespace.
        namespace: String,
    },
    /// The cluster does not know the kind.
    #[error("the cluster has no {plural} ({group})")]
    NoKind {
        /// The kind.
        plural: &'static str,
        /// The group and version.
        group: &'static str,
    },
    /// A port has no number.
    #[error("its port has no number")]
    NoNumber,
    /// An object lists no port.
    #[error("it lists no port")]
    NoPort,
    /// There are several ports, and none is named.
    #[error("it has several ports, so one has to be named as `NAME:PORT`: {}", ports.join(", "))]
    SeveralPorts {
        /// The ports.
        ports: Vec<String>,
    },
    /// None of the ports is the one that is named.
    #[error("it has no port `{wanted}`, but {}", ports.join(", "))]
    OtherPorts {
        /// The name.
        wanted: String,
        /// The ports.
        ports: Vec<String>,
    },
    /// A Service has endpoints alone.
    #[error("the Service is headless, so it has no address")]
    Headless,
    /// A Service has no address.
    #[error("it has no address yet")]
    NoAddress,
    /// An Ingress has no address.
    #[error("no controller has given it an address: its status names no load balancer")]
    NoBalancer,
    /// A Gateway has no address.
    #[error("no controller has given it an address: its status has none")]
    NoStatus,
    /// A Gateway's listener has no port.
    #[error("its listener has no port")]
    NoListenerPort,
    /// No router serves a Route.
    #[error("no router has admitted it")]
    NotAdmitted,
    /// A Route has no host.
    #[error("its router names no host")]
    NoHost,
    /// A volume's array is unknown.
    #[error(
        "its `volumeAttributes` name no `internalName`, or no SVM is known: give `svm` to the places' `array`"
    )]
    NoArrayVolume,
    /// A Secret lacks a key.
    #[error("it has no key `{key}` with a text")]
    NoKey {
        /// The key.
        key: String,
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
