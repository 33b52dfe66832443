//! A connection to an API server: requests with JSON, one at a time, each with a deadline.
//!
//! Objects go to the server as JSON, with strict validation. The server knows every field of its version, so
//! it rejects a misspelt one in a pod's specification instead of dropping it.

use std::ffi::OsStr;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use k8s_openapi::ByteString;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use plumb_host::named_file;
use plumb_model::ClusterPlace;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::error::{Error, Unfound};

/// How long the API server may take for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Query parameters of every write: the server rejects fields that it does not know.
const STRICT: &str = "fieldValidation=Strict&fieldManager=plumb";

/// A cluster, reached by one account and in one namespace.
#[derive(Clone)]
pub struct Cluster {
    runtime: Arc<Runtime>,
    client: Client,
    server: String,
    namespace: String,
    image: String,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Cluster").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Connects with the kubeconfig's account, or in a pod with the pod's.
    ///
    /// # Errors
    /// When there is no account, or the API server does not answer.
    pub fn connect(place: &ClusterPlace) -> Result<Self, Error> {
        let lost = |error: &dyn std::fmt::Display| Error::NoCluster(error.to_string());
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("kubernetes")
            .enable_all()
            .build()
            .map_err(|error| lost(&error))?;
        check_files(&std::env::var_os("KUBECONFIG").unwrap_or_default()).map_err(|error| lost(&error))?;
        let config = runtime.block_on(config(place, Kubeconfig::read()))?;
        Self::over(runtime, config, place)
    }

    fn over(runtime: Runtime, config: Config, place: &ClusterPlace) -> Result<Self, Error> {
        let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let namespace = place.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        // Requests are sent by the runtime, which the client looks up when it is created.
        let client = {
            let _guard = runtime.enter();
            Client::try_from(config).map_err(|error| Error::NoCluster(error.to_string()))?
        };
        let cluster = Self {
            runtime: Arc::new(runtime),
            client,
            server,
            namespace,
            image: place.image.clone().unwrap_or_default(),
        };
        cluster.get("/version")?;
        Ok(cluster)
    }

    /// The API server's address.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The namespace of every object that a run creates.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The image of pods.
    #[must_use]
    pub fn image(&self) -> &str {
        &self.image
    }

    /// The client, for work beyond single requests.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// The runtime on which connections live.
    pub(crate) fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Blocks until a future completes.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// The path of a kind of objects in the namespace, such as `/api/v1/namespaces/plumb/pods`.
    pub(crate) fn path(&self, group: &str, plural: &str) -> String {
        format!("{group}/namespaces/{}/{plural}", self.namespace)
    }

    /// The account in a Secret of the namespace: its keys `username` and `password`.
    ///
    /// # Errors
    /// When no such Secret exists, or it has no such keys.
    pub fn account_in(&self, secret: &str) -> Result<(String, String), Error> {
        let found = self.get(&format!("{}/{secret}", self.path("/api/v1", "secrets")))?;
        let key = |key: &str| {
            let bytes: Option<ByteString> = serde_json::from_value(found["data"][key].clone()).ok();
            bytes.and_then(|bytes| String::from_utf8(bytes.0).ok()).ok_or_else(|| Error::NoEndpoint {
                object: format!("an account in Secret {secret}"),
                cause: Unfound::NoKey { key: key.to_owned() },
            })
        };
        Ok((key("username")?, key("password")?))
    }

    /// Reads an object, or a list.
    pub(crate) fn get(&self, path: &str) -> Result<Value, Error> {
        self.send(Method::GET, path, None, "application/json", &format!("read {path}"))
    }

    /// Creates an object. `what` says in errors which one.
    pub(crate) fn create(&self, path: &str, object: &Value, what: &str) -> Result<Value, Error> {
        let path = format!("{path}?{STRICT}");
        self.send(Method::POST, &path, Some(object), "application/json", &format!("create {what}"))
    }

    /// Applies a JSON merge patch to an object.
    pub(crate) fn merge(&self, path: &str, patch: &Value, what: &str) -> Result<Value, Error> {
        let path = format!("{path}?{STRICT}");
        let kind = "application/merge-patch+json";
        self.send(Method::PATCH, &path, Some(patch), kind, &format!("change {what}"))
    }

    /// Applies a strategic merge patch to an object of a built-in kind: list items are merged by name.
    pub(crate) fn strategic(&self, path: &str, patch: &Value, what: &str) -> Result<Value, Error> {
        let path = format!("{path}?{STRICT}");
        let kind = "application/strategic-merge-patch+json";
        self.send(Method::PATCH, &path, Some(patch), kind, &format!("change {what}"))
    }

    /// Replaces an object. The server refuses if the object's version has changed since it was read.
    pub(crate) fn replace(&self, path: &str, object: &Value, what: &str) -> Result<Value, Error> {
        let path = format!("{path}?{STRICT}");
        self.send(Method::PUT, &path, Some(object), "application/json", &format!("put {what} back"))
    }

    /// Deletes an object and then, in the background, the objects that it owns. An absent object is not an error.
    pub(crate) fn delete(&self, path: &str, what: &str) -> Result<(), Error> {
        let options = serde_json::json!({ "propagationPolicy": "Background" });
        let what = format!("delete {what}");
        match self.send(Method::DELETE, path, Some(&options), "application/json", &what) {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        kind: &str,
        what: &str,
    ) -> Result<Value, Error> {
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body);
        let refused = |reason: String| Error::Refused { what: what.to_owned(), reason, code: 0 };
        let request = request.map_err(|error| refused(error.to_string()))?;
        let answer =
            self.wait(async { timeout(ANSWER_TIMEOUT, self.client.request::<Value>(request)).await });
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(kube::Error::Api(status))) => Err(Error::Refused {
                what: what.to_owned(),
                reason: brief(&status.message),
                code: status.code,
            }),
            Ok(Err(error)) => {
                Err(Error::Unreachable { server: self.server.clone(), reason: innermost(&error) })
            }
            Err(_) => Err(Error::Unreachable {
                server: self.server.clone(),
                reason: format!("no answer within {ANSWER_TIMEOUT:?}"),
            }),
        }
    }
}

/// The part of a server's message that says what is wrong. Some messages quote the whole object before it.
fn brief(message: &str) -> String {
    let parts = message.rsplit_once("strict decoding error: ");
    parts.map_or(message, |(_, part)| part).trim().to_owned()
}

/// Checks the files that `KUBECONFIG` names, because the library reads them without a limit.
fn check_files(named: &OsStr) -> Result<(), plumb_host::Error> {
    let mut files = std::env::split_paths(named).filter(|path| path.exists());
    files.try_for_each(|path| named_file::read_file(&path).map(drop))
}

/// The API server and account of a place, given what the reading of the kubeconfig led to.
async fn config(place: &ClusterPlace, read: Result<Kubeconfig, KubeconfigError>) -> Result<Config, Error> {
    let lost = |error: &dyn std::error::Error| Error::NoCluster(innermost(error));
    let in_cluster = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    let kubeconfig = match read {
        Ok(kubeconfig) => kubeconfig,
        Err(_) if in_cluster && place.context.is_none() => {
            return Config::incluster().map_err(|error| lost(&error));
        }
        Err(error) => return Err(lost(&error)),
    };
    let options = KubeConfigOptions { context: place.context.clone(), ..KubeConfigOptions::default() };
    Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| lost(&error))
}

/// The innermost cause of an error, which says most: the outer ones repeat it.
pub(crate) fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_cannot_be_reached_is_one_sentence() {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        // Nothing listens at this port.
        let config = Config::new("http://127.0.0.1:1".parse().unwrap());
        let error = Cluster::over(runtime, config, &ClusterPlace::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "reach the cluster at http://127.0.0.1:1: Connection refused (os error 111)"
        );
    }

    #[test]
    fn a_kubeconfig_that_is_a_device_is_not_read() {
        let message = check_files(OsStr::new("/there/is/no/such/file:/dev/zero")).unwrap_err().to_string();
        assert_eq!(message, "read /dev/zero: it is a character device, not a file");
        check_files(OsStr::new("")).unwrap();
    }

    #[test]
    fn without_a_kubeconfig_there_is_no_cluster() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let read = Kubeconfig::read_from("/there/is/no/such/file");
        let error = runtime.block_on(config(&ClusterPlace::default(), read)).unwrap_err();
        assert!(error.to_string().starts_with("find a cluster: "), "{error}");
    }
}
