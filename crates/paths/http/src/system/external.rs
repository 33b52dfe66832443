//! A system that exists already: nothing is built, and its CPU time is known where its processes are found on this host.

use std::net::{IpAddr, TcpStream};
use std::time::Duration;

use plumb_path::{Existing, Foreign, PathError};

use crate::settings::IngressSettings;
use crate::target::Target;
use crate::url::Url;

/// How long it may take to take a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes sure that something takes connections at the URL of the settings. `reached_at` is this host's address for loads on other
/// hosts, where there are any: to these the URL has to mean the same.
pub(super) fn find(ingress: &IngressSettings, reached_at: Option<IpAddr>) -> Result<Existing, PathError> {
    let url = ingress.url.as_deref().ok_or_else(|| PathError::new("find the system: it has no url"))?;
    let failed = |reason: String| PathError::new(format!("reach {url}: {reason}"));
    let parsed = Url::parse(url).map_err(PathError::new)?;
    let target = Target { url: url.to_owned(), connect: ingress.connect.clone(), ..Target::default() };
    let mut result = Err(failed("it has no address".to_owned()));
    for address in target.addresses(&parsed).map_err(|error| failed(error.to_string()))? {
        if let Some(reached_at) = reached_at.filter(|_| address.ip().is_loopback()) {
            return Err(PathError::new(format!(
                "reach {url} from another host: {} is a different host to each. In `system.ingress.url`, give an address that \
                 the loads' hosts reach, such as {reached_at}",
                address.ip()
            )));
        }
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => return foreign(ingress).at(&target),
            Err(error) => result = Err(failed(format!("connect to {address}: {error}"))),
        }
    }
    result
}

/// Where the processes of an external system are found.
pub(crate) fn foreign(ingress: &IngressSettings) -> Foreign {
    let url = ingress.url.as_deref().and_then(|url| Url::parse(url).ok());
    let address = url.map(|Url { host, port, .. }| (ingress.connect.clone().unwrap_or(host), port));
    Foreign { run_by: ingress.run_by(), address }
}

#[cfg(test)]
mod tests {
    use plumb_path::System;

    use super::*;
    use crate::load::tests::server::Nobody;

    #[test]
    fn a_port_where_nobody_listens_is_an_error_that_names_the_url() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let at = |url: &str| IngressSettings { url: Some(url.to_owned()), ..IngressSettings::default() };
        let elsewhere = find(&at(&url), Some([192, 0, 2, 1].into())).unwrap_err().to_string();
        assert!(elsewhere.contains("127.0.0.1 is a different host to each"), "{elsewhere}");
        let find = |url: &str| find(&at(url), None);
        let mut found = find(&url).unwrap();
        assert_eq!(found.target()["url"], url.as_str());
        assert!(found.snapshot().unwrap().cpu.total_ns() > 0, "this process listens here");
        let port = Url::parse(&url).unwrap().port;
        let named = format!("http://no-such-host.invalid:{port}/");
        let behind = IngressSettings { connect: Some("127.0.0.1".to_owned()), ..at(&named) };
        assert_eq!(super::find(&behind, None).unwrap().target()["connect"], "127.0.0.1");
        let nobody = Nobody::new();
        let url = &nobody.url;
        assert!(find(url).unwrap_err().to_string().starts_with(&format!("reach {url}: connect to ")));
    }
}
