//! A system that an object of a cluster leads to, and where that is.

use std::fmt;

use serde::{Deserialize, Serialize};

crate::named! {
    /// The kinds of objects that lead to a system.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    pub enum ClusterObjectKind: name {
        /// A Service of Kubernetes.
        Service = "Service",
        /// An Ingress of Kubernetes.
        Ingress = "Ingress",
        /// A Route of OpenShift.
        Route = "Route",
        /// A Gateway of the Gateway API.
        Gateway = "Gateway",
    }
}

impl ClusterObjectKind {
    /// The key that names such an object.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Ingress => "ingress",
            Self::Route => "route",
            Self::Gateway => "gateway",
        }
    }
}

/// An object of a cluster, as settings name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClusterObject {
    /// The kind of object.
    pub kind: ClusterObjectKind,
    /// The name.
    pub name: String,
    /// One of its ports or listeners, by number or name.
    pub port: Option<String>,
    /// The namespace; that of the places if absent.
    pub namespace: Option<String>,
}

impl ClusterObject {
    /// An object that is written as `NAME` or `NAME:PORT`.
    #[must_use]
    pub fn written(kind: ClusterObjectKind, text: &str, namespace: Option<&str>) -> Self {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port.to_owned())),
            None => (text, None),
        };
        Self { kind, name: name.to_owned(), port, namespace: namespace.map(str::to_owned) }
    }

    /// Checks the name and the port.
    ///
    /// # Errors
    /// When no object can have that name or port, or the kind has no ports.
    pub fn check(&self) -> Result<(), ObjectFault> {
        let takes_port = matches!(self.kind, ClusterObjectKind::Service | ClusterObjectKind::Gateway);
        match &self.port {
            _ if !is_name(&self.name) => Err(ObjectFault::Name(self.name.clone())),
            Some(_) if !takes_port => Err(ObjectFault::NoPort(self.kind)),
            Some(port) if !is_name(port) => {
                Err(ObjectFault::Port { object: self.clone(), port: port.clone() })
            }
            _ => Ok(()),
        }
    }
}

/// A mistake in the text of a cluster's object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectFault {
    /// No object can have that name.
    #[error("`{_0}` is not the name of an object of a cluster")]
    Name(String),
    /// Objects of this kind have no port to choose.
    #[error("a {} has no port to choose; give its name alone", _0.name())]
    NoPort(ClusterObjectKind),
    /// No port can have that name.
    #[error("`{port}` is not a port; write `{}: {}:80`, or the port's name", object.kind.key(), object.name)]
    Port {
        /// The object.
        object: ClusterObject,
        /// The port.
        port: String,
    },
}

/// Whether a text can be a name in a cluster: it becomes a part of a request's path.
fn is_name(text: &str) -> bool {
    let is_inner =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-.".contains(letter);
    !text.is_empty() && !text.starts_with(['-', '.']) && text.chars().all(is_inner)
}

impl fmt::Display for ClusterObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind.name(), self.name)?;
        if let Some(port) = &self.port {
            write!(formatter, ":{port}")?;
        }
        match &self.namespace {
            Some(namespace) => write!(formatter, " of namespace {namespace}"),
            None => Ok(()),
        }
    }
}

/// Where an object of a cluster leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// Whether TLS is spoken there.
    pub is_tls: bool,
    /// The name or the address by which it is asked for.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The first path that leads to it, at least `/`.
    pub path: String,
    /// The name or the address to connect to, where it is another one.
    pub connect: Option<String>,
}

impl Endpoint {
    /// As a URL.
    #[must_use]
    pub fn url(&self) -> String {
        let (scheme, own_port) = if self.is_tls { ("https", 443) } else { ("http", 80) };
        let port = if self.port == own_port { String::new() } else { format!(":{}", self.port) };
        format!("{scheme}://{}{port}{}", bracketed(&self.host), self.path)
    }

    /// As `HOST:PORT`, of what is connected to.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}:{}", bracketed(self.connect.as_deref().unwrap_or(&self.host)), self.port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.url())?;
        match &self.connect {
            Some(connect) => write!(formatter, " at {connect}"),
            None => Ok(()),
        }
    }
}

/// An address of IPv6 has brackets where a port follows.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_named_with_a_port_where_they_have_several() {
        let object = |kind, text: &str| ClusterObject::written(kind, text, Some("lab"));
        let service = object(ClusterObjectKind::Service, "web:http");
        assert_eq!((service.name.as_str(), service.port.as_deref()), ("web", Some("http")));
        assert_eq!(
            (service.check(), service.to_string()),
            (Ok(()), "Service web:http of namespace lab".to_owned())
        );
        for (kind, text) in [
            (ClusterObjectKind::Service, ""),
            (ClusterObjectKind::Service, "web/../x"),
            (ClusterObjectKind::Service, "web:"),
            (ClusterObjectKind::Ingress, "web:80"),
            (ClusterObjectKind::Route, "Web"),
        ] {
            assert!(object(kind, text).check().is_err(), "{text}");
        }
    }

    #[test]
    fn an_endpoint_is_a_url_and_an_address() {
        let endpoint = |host: &str, port, connect: Option<&str>| Endpoint {
            is_tls: port == 443,
            host: host.to_owned(),
            port,
            path: "/".to_owned(),
            connect: connect.map(str::to_owned),
        };
        assert_eq!(endpoint("10.0.0.1", 8080, None).url(), "http://10.0.0.1:8080/");
        assert_eq!(endpoint("fd00::1", 443, None).url(), "https://[fd00::1]/");
        let behind = endpoint("shop.example", 443, Some("192.0.2.7"));
        assert_eq!(
            (behind.url().as_str(), behind.address().as_str()),
            ("https://shop.example/", "192.0.2.7:443")
        );
        assert_eq!(behind.to_string(), "https://shop.example/ at 192.0.2.7");
    }
}
