//! A system that exists already: nothing is built, and its CPU time is known where its processes are found on this host.

use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use plumb_host::service::Service;
use plumb_path::{Existing, PathError, RunBy};

use crate::target::Target;

/// How long it may take to take a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes sure that something takes connections at a URL.
pub(super) fn find(url: &str, run_by: RunBy<'_>) -> Result<Existing, PathError> {
    let failed = |reason: String| PathError::new(format!("reach {url}: {reason}"));
    let (host, port) = host_and_port(url).map_err(failed)?;
    let addresses = (host.as_str(), port).to_socket_addrs().map_err(|error| failed(error.to_string()))?;
    let mut result = Err(failed("it has no address".to_owned()));
    for address in addresses {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => {
                let service = run_by.find(Some((&host, port)))?;
                return Ok(Existing::at(&Target { url: url.to_owned(), ca_pem: None }).run_by(service));
            }
            Err(error) => result = Err(failed(format!("connect to {address}: {error}"))),
        }
    }
    result
}

/// The processes of this host that answer at a URL; `None` where they cannot be found, as on another host.
#[must_use]
pub fn service_at(url: &str) -> Option<Service> {
    let (host, port) = host_and_port(url).ok()?;
    RunBy::default().find(Some((&host, port))).ok()?
}

/// Where a URL leads to.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn host_and_port(url: &str) -> Result<(String, u16), String> {
    let wrong = |why: &str| format!("{url:?} is not a URL such as \"https://example.org/\": {why}");
    let (rest, default_port) = match url.split_once("://") {
        Some(("http", rest)) => (rest, 80),
        Some(("https", rest)) => (rest, 443),
        _ => return Err(wrong("it begins with neither http:// nor https://")),
    };
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    let host_end =
        authority.rfind(']').map_or_else(|| authority.find(':').unwrap_or(authority.len()), |end| end + 1);
    let (host, port) = authority.split_at(host_end);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || host.contains(|character: char| character.is_whitespace() || character == '@') {
        return Err(wrong("it has no host"));
    }
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => default_port,
        digits => digits
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| wrong("its port is not a number up to 65535"))?,
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use plumb_path::System;

    use super::*;

    #[test]
    fn a_url_leads_to_a_host_and_a_port() {
        for (url, host, port) in [
            ("http://a", "a", 80),
            ("https://a.example/x:1", "a.example", 443),
            ("http://127.0.0.1:8080?x", "127.0.0.1", 8080),
            ("https://[::1]:8443/", "::1", 8443),
            ("https://[::1]", "::1", 443),
        ] {
            assert_eq!(host_and_port(url), Ok((host.to_owned(), port)));
        }
    }

    #[test]
    fn a_port_where_nobody_listens_is_an_error_that_names_the_url() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let find = |url: &str| find(url, RunBy::default());
        let mut found = find(&url).unwrap();
        assert_eq!(found.target()["url"], url.as_str());
        assert!(found.snapshot().unwrap().cpu.total_ns() > 0, "this process listens here");
        drop(listener);
        assert!(find(&url).unwrap_err().to_string().starts_with(&format!("reach {url}: connect to ")));
    }
}
