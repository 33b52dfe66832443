//! Addresses that users name.
//!
//! An IPv6 address that is valid on one link only, such as `fe80::1`, needs the network interface behind it, by name or number:
//! `fe80::1%eth0` (RFC 4007, section 11). In a URL, `%25` may stand for the `%` (RFC 6874).

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};

use crate::Error;
use crate::signals::unless_asked_to_stop;

/// A network interface that this host does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this host has no network interface `{_0}`")]
pub struct NoInterface(String);

/// Why a text is not an address with a port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It has another form.
    #[error("`{text}` is not an IP address with a port, such as `127.0.0.1:8080` or `[::1]:8080`")]
    Form {
        /// The text.
        text: String,
    },
    /// The interface behind it is not here.
    #[error("`{text}`: {cause}")]
    Interface {
        /// The text.
        text: String,
        /// The interface.
        cause: NoInterface,
    },
}

/// Resolves the name or the IP address of a host to one or more addresses.
///
/// # Errors
/// When the name has no address, the name server does not answer, this host has no such interface, or this process is asked
/// to stop.
pub fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
    let failed = |cause: String| Error::Resolve { host: host.to_owned(), cause };
    if let Some((address, interface)) = zoned(host) {
        let scope = interface_number(interface).map_err(|cause| failed(cause.to_string()))?;
        return Ok(vec![SocketAddrV6::new(address, port, 0, scope).into()]);
    }
    let name = host.to_owned();
    let resolved =
        unless_asked_to_stop(move || (name.as_str(), port).to_socket_addrs().map(Vec::from_iter)).flatten();
    match resolved {
        Ok(addresses) if addresses.is_empty() => Err(failed("it has no address".to_owned())),
        Ok(addresses) => Ok(addresses),
        Err(cause) => Err(failed(cause.to_string())),
    }
}

/// Reads an IP address with a port, such as `127.0.0.1:8080` or `[fe80::1%eth0]:8080`.
///
/// # Errors
/// When it is none, or this host has no such interface.
pub fn parse(text: &str) -> Result<SocketAddr, AddressError> {
    let wrong = || AddressError::Form { text: text.to_owned() };
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.split_once("]:"));
    match bracketed.and_then(|(host, port)| Some((zoned(host)?, port))) {
        Some(((address, interface), port)) => {
            let port = port.parse().map_err(|_| wrong())?;
            let scope = interface_number(interface)
                .map_err(|cause| AddressError::Interface { text: text.to_owned(), cause })?;
            Ok(SocketAddrV6::new(address, port, 0, scope).into())
        }
        None => text.parse().map_err(|_| wrong()),
    }
}

/// Splits an IPv6 address from the interface behind it; `None` without an interface.
#[must_use]
pub fn zoned(host: &str) -> Option<(Ipv6Addr, &str)> {
    let (address, interface) = host.split_once('%')?;
    Some((address.parse().ok()?, interface))
}

/// Reads the host of a URL, where `%25` before an interface means `%`.
#[must_use]
pub fn from_url(host: &str) -> String {
    match zoned(host).and_then(|(address, interface)| Some((address, interface.strip_prefix("25")?))) {
        Some((address, interface)) if !interface.is_empty() => format!("{address}%{interface}"),
        _ => host.to_owned(),
    }
}

fn interface_number(interface: &str) -> Result<u32, NoInterface> {
    if let Ok(number) = interface.parse() {
        return Ok(number);
    }
    let found = socket(AddressFamily::INET6, SocketType::DGRAM, None)
        .and_then(|socket| name_to_index(socket, interface));
    found.map_err(|_| NoInterface(interface.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_its_interface() {
        let zone = |address: SocketAddr| match address {
            SocketAddr::V6(six) => six.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let link = parse("[fe80::1%lo]:8080").unwrap();
        assert_eq!((zone(link), link.port()), (1, 8080), "{link}");
        assert_eq!(parse("[fe80::1%7]:1").map(zone), Ok(7));
        assert_eq!(parse("[::1]:1").map(zone), Ok(0));
        assert_eq!(resolve("fe80::1%lo", 9).unwrap(), [parse("[fe80::1%1]:9").unwrap()]);
        let refused = ["[fe80::1%nowhere]:1", "[fe80::1%lo]", "[fe80::1%lo]:x", "localhost:1", "::1:80"];
        insta::assert_snapshot!(refused.map(|text| parse(text).unwrap_err().to_string()).join("\n"), @r"
        `[fe80::1%nowhere]:1`: this host has no network interface `nowhere`
        `[fe80::1%lo]` is not an IP address with a port, such as `127.0.0.1:8080` or `[::1]:8080`
        `[fe80::1%lo]:x` is not an IP address with a port, such as `127.0.0.1:8080` or `[::1]:8080`
        `localhost:1` is not an IP address with a port, such as `127.0.0.1:8080` or `[::1]:8080`
        `::1:80` is not an IP address with a port, such as `127.0.0.1:8080` or `[::1]:8080`
        ");
        insta::assert_snapshot!(resolve("fe80::1%nowhere", 1).unwrap_err(), @"resolve `fe80::1%nowhere`: this host has no network interface `nowhere`");
    }

    #[test]
    fn a_url_may_encode_the_percent_sign() {
        let hosts = ["fe80::1%25lo", "fe80::1%lo", "fe80::1%25", "fe80::1", "a%25b"];
        assert_eq!(hosts.map(from_url), ["fe80::1%lo", "fe80::1%lo", "fe80::1%25", "fe80::1", "a%25b"]);
    }

    #[test]
    fn a_name_is_resolved() {
        assert!(resolve("localhost", 80).unwrap().iter().all(|address| address.ip().is_loopback()));
        let error = resolve("no-such-host.invalid", 80).unwrap_err().to_string();
        assert!(error.starts_with("resolve `no-such-host.invalid`: "), "{error}");
    }
}
