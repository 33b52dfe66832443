//! A client of ONTAP's REST interface: JSON by HTTPS with basic authentication, and jobs waited for.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plumb_host::named_file;
use plumb_host::time::{monotonic_ns, sleep};
use plumb_path::PathError;
use plumb_path::family::ArrayAccess;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde_json::Value;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body};

use crate::settings::ontap::OntapSettings;

const REQUEST_TIME: Duration = Duration::from_secs(20);
/// How long a job may take, and how often it is asked about.
const JOB_TIME_NS: u64 = 60_000_000_000;
const JOB_EVERY: Duration = Duration::from_millis(100);
/// Seconds that the array may take before it answers with a job.
const RETURN_TIMEOUT: &str = "return_timeout=15";
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// See the module.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    url: String,
    authorization: String,
}

impl Client {
    /// A client for the array of a specification; it does not connect yet.
    pub fn new(spec: &OntapSettings) -> Result<Self, PathError> {
        let (user, password) = spec.credentials().map_err(PathError::new)?;
        let (url, certificate) = (spec.url.clone(), spec.certificate.clone());
        Self::for_array(&ArrayAccess { url, certificate, insecure: spec.insecure, user, password })
    }

    /// A client for an array; it does not connect yet.
    pub fn for_array(array: &ArrayAccess) -> Result<Self, PathError> {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .root_certs(roots(array)?)
            .disable_verification(array.insecure)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(true)
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(REQUEST_TIME))
            .build();
        let authorization =
            format!("Basic {}", STANDARD.encode(format!("{}:{}", array.user, array.password)));
        Ok(Self { agent: config.into(), url: array.url.trim_end_matches('/').to_owned(), authorization })
    }

    /// Reads.
    pub fn get(&self, path: &str) -> Result<Value, PathError> {
        let request = self.agent.get(format!("{}{path}", self.url));
        let answer = request.header("Authorization", &self.authorization).call();
        self.understood("GET", path, answer)
    }

    /// Makes, and waits until it is made.
    pub fn post(&self, path: &str, body: &Value) -> Result<(), PathError> {
        let request = self.agent.post(format!("{}{path}?{RETURN_TIMEOUT}", self.url));
        let request = request.header("Authorization", &self.authorization).content_type("application/json");
        self.done("POST", path, request.send(body.to_string()))
    }

    /// Changes, and waits until it is changed.
    pub fn patch(&self, path: &str, body: &Value) -> Result<(), PathError> {
        let request = self.agent.patch(format!("{}{path}?{RETURN_TIMEOUT}", self.url));
        let request = request.header("Authorization", &self.authorization).content_type("application/json");
        self.done("PATCH", path, request.send(body.to_string()))
    }

    /// Deletes, and waits until it is gone.
    pub fn delete(&self, path: &str) -> Result<(), PathError> {
        let request = self.agent.delete(format!("{}{path}?{RETURN_TIMEOUT}", self.url));
        self.done("DELETE", path, request.header("Authorization", &self.authorization).call())
    }

    fn done(
        &self,
        method: &str,
        path: &str,
        answer: Result<ureq::http::Response<Body>, ureq::Error>,
    ) -> Result<(), PathError> {
        let body = self.understood(method, path, answer)?;
        body["job"]["uuid"].as_str().map_or(Ok(()), |job| self.wait_for(method, path, job))
    }

    /// Waits for a job's end.
    fn wait_for(&self, method: &str, path: &str, job: &str) -> Result<(), PathError> {
        let until_ns = monotonic_ns() + JOB_TIME_NS;
        loop {
            let job = self.get(&format!("/api/cluster/jobs/{job}?fields=state,message,code"))?;
            match job["state"].as_str() {
                Some("success") => return Ok(()),
                Some("queued" | "running" | "paused" | "pausing") if monotonic_ns() < until_ns => {
                    sleep(JOB_EVERY)
                }
                state => {
                    let (state, message) = (state.unwrap_or("unknown"), &job["message"]);
                    return Err(self.failed(method, path, &format!("its job is {state}: {message}")));
                }
            }
        }
    }

    fn understood(
        &self,
        method: &str,
        path: &str,
        answer: Result<ureq::http::Response<Body>, ureq::Error>,
    ) -> Result<Value, PathError> {
        let mut answer = answer.map_err(|error| self.failed(method, path, &error.to_string()))?;
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let text = text.map_err(|error| self.failed(method, path, &error.to_string()))?;
        let status = answer.status();
        let body: Value = match serde_json::from_str(&text) {
            Ok(body) => body,
            Err(_) if text.trim().is_empty() => Value::Null,
            Err(_) => {
                return Err(self.failed(method, path, &format!("{status}, and its answer is not JSON")));
            }
        };
        if status.is_success() {
            return Ok(body);
        }
        let (message, code) = (body["error"]["message"].as_str(), body["error"]["code"].as_str());
        let (message, code) = (message.unwrap_or("no message"), code.unwrap_or("none"));
        Err(self.failed(method, path, &format!("{status}: {message} (ONTAP's error {code})")))
    }

    fn failed(&self, method: &str, path: &str, cause: &str) -> PathError {
        PathError::new(format!("{method} {}{path}: {cause}", self.url))
    }
}

/// The certificates that the array's must be signed by.
fn roots(array: &ArrayAccess) -> Result<RootCerts, PathError> {
    let trusted: Vec<CertificateDer<'static>> = match &array.certificate {
        Some(path) => {
            let pem = named_file::read_file(path)?;
            let read: Result<_, _> = CertificateDer::pem_slice_iter(&pem).collect();
            read.map_err(|error| PathError::new(format!("read {}: {error}", path.display())))?
        }
        None if array.insecure => Vec::new(),
        None => rustls_native_certs::load_native_certs().certs,
    };
    let trusted: Vec<_> = trusted.iter().map(|one| Certificate::from_der(one.as_ref()).to_owned()).collect();
    Ok(RootCerts::new_with_certs(&trusted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_refused_as_a_certificate() {
        let array = ArrayAccess {
            url: "https://127.0.0.1:1/".to_owned(),
            certificate: Some("/dev/null".into()),
            insecure: false,
            user: "admin".to_owned(),
            password: "secret-word".to_owned(),
        };
        let error = roots(&array).unwrap_err();
        assert_eq!(error.to_string(), "read /dev/null: it is a character device, not a file");
    }

    #[test]
    fn an_array_that_does_not_answer_is_named_without_the_password() {
        let array = ArrayAccess {
            url: "https://127.0.0.1:1/".to_owned(),
            certificate: None,
            insecure: true,
            user: "admin".to_owned(),
            password: "secret-word".to_owned(),
        };
        let error = Client::for_array(&array).unwrap().get("/api/storage/volumes").unwrap_err().to_string();
        assert!(error.starts_with("GET https://127.0.0.1:1/api/storage/volumes: "), "{error}");
        assert!(!error.contains("secret-word"), "{error}");
    }
}
