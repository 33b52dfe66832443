//! The network between the two ends, and the server's end of it.

mod apply;
mod check;
mod end;
mod evidence;
pub(crate) mod half;
mod kernel;
mod layout;
pub(crate) mod merged_halves;
mod observe;
mod ovs;
mod own_link;
mod rules;

use std::net::{IpAddr, Ipv4Addr};

use plumb_model::CpuCost;
use plumb_path::{Foreign, PathError, Place, Snapshot, System};

use self::end::End;
use crate::settings::{NetworkSettings, NetworkTarget, SystemKind, SystemSettings};

pub use check::{Unbuildable, check, feasible, feasible_half};
pub use evidence::evidence;
pub use half::{OneHostOnly, may_span_hosts};
pub use ovs::NoOpenVSwitch;
pub use own_link::{NotOnOwnLink, link_maker};

/// Builds the network and starts the server's end.
///
/// # Errors
/// When something cannot be made, or the server cannot listen.
pub fn start(settings: &NetworkSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
    let NetworkSettings { system: spec, load } = settings;
    match spec.kind {
        SystemKind::Loopback => {
            let end = End::start(load, IpAddr::V4(Ipv4Addr::LOCALHOST), None, place)?;
            Ok(Box::new(Loopback { end }))
        }
        SystemKind::External => {
            let target = external(spec, load.driver.port())?;
            Ok(Box::new(foreign(settings).at(&target)?))
        }
        SystemKind::Veth | SystemKind::Bridge | SystemKind::Vxlan | SystemKind::Ovs => match place.address {
            Some(host) => Ok(Box::new(kernel::start_near(settings, host, place)?)),
            None => Ok(Box::new(kernel::start(settings, place)?)),
        },
    }
}

/// A server on the loopback device.
#[derive(Debug)]
struct Loopback {
    end: End,
}

impl System for Loopback {
    fn target(&self) -> serde_json::Value {
        let address = self.end.address();
        let target = NetworkTarget {
            address: address.ip().to_string(),
            port: address.port(),
            ..NetworkTarget::default()
        };
        serde_json::json!(target)
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let cpu = self.end.cpu_time()?;
        let cpu = CpuCost { user_ns: cpu.user_ns, system_ns: cpu.system_ns, ..CpuCost::default() };
        Ok(Snapshot { cpu, ..Snapshot::default() })
    }

    fn stop(&mut self) -> Result<(), PathError> {
        self.end.stop();
        Ok(())
    }
}

/// Where the processes of an external system are found.
pub(crate) fn foreign(settings: &NetworkSettings) -> Foreign {
    let NetworkSettings { system: spec, load } = settings;
    let target = external(spec, load.driver.port()).ok();
    Foreign { run_by: spec.run_by(), address: target.map(|target| (target.address, target.port)) }
}

/// The address of a server that runs already.
fn external(spec: &SystemSettings, port: u16) -> Result<NetworkTarget, PathError> {
    let address =
        spec.address.as_deref().ok_or_else(|| PathError::new("find the server: it has no address"))?;
    parse_target(address, port).map_err(|error| PathError::new(format!("find the server: {error}")))
}

/// Why a text is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// A bracket is open.
    #[error("`{text}` has no closing bracket")]
    Open {
        /// The text.
        text: String,
    },
    /// Something other than a port follows the bracket.
    #[error("`{rest}` behind the bracket in `{text}` is not a port; write `:PORT`")]
    NoColon {
        /// The text after the bracket.
        rest: String,
        /// The text.
        text: String,
    },
    /// The host is missing.
    #[error("`{text}` names no host; write HOST or HOST:PORT")]
    NoHost {
        /// The text.
        text: String,
    },
    /// The port is not a port.
    #[error("`{port}` in `{text}` is not a port; it is a number from 1 to 65535")]
    Port {
        /// The port.
        port: String,
        /// The text.
        text: String,
    },
}

/// Reads `HOST`, `HOST:PORT`, `[ADDRESS]:PORT` or a bare IPv6 address; the port is `default` where the text has none.
///
/// # Errors
/// When it is not such an address.
pub fn parse_target(text: &str, default: u16) -> Result<NetworkTarget, AddressError> {
    let of_text = || text.to_owned();
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(|| AddressError::Open { text: of_text() })?;
            let port = rest.strip_prefix(':');
            if port.is_none() && !rest.is_empty() {
                return Err(AddressError::NoColon { rest: rest.to_owned(), text: of_text() });
            }
            (host, port)
        }
        None => match text.split_once(':') {
            // More than one colon without brackets is an address of IPv6.
            Some((_, rest)) if rest.contains(':') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(AddressError::NoHost { text: of_text() });
    }
    let port = match port {
        Some(port) => {
            let number = port.parse().ok().filter(|port| *port > 0);
            number.ok_or_else(|| AddressError::Port { port: port.to_owned(), text: of_text() })?
        }
        None => default,
    };
    Ok(NetworkTarget { address: host.to_owned(), port, ..NetworkTarget::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::DEFAULT_PORT;

    #[test]
    fn a_host_may_have_a_port() {
        for (text, host, port) in [
            ("node-2", "node-2", DEFAULT_PORT),
            ("node-2:5001", "node-2", 5001),
            ("10.0.0.1:7", "10.0.0.1", 7),
            ("::1", "::1", DEFAULT_PORT),
            ("[::1]", "::1", DEFAULT_PORT),
            ("[fe80::1]:9", "fe80::1", 9),
        ] {
            let target = parse_target(text, DEFAULT_PORT).unwrap();
            assert_eq!((target.address.as_str(), target.port), (host, port), "{text}");
        }
        for text in ["", ":5", "a:", "a:0", "a:65536", "a:b", "[::1", "[::1]5"] {
            assert!(parse_target(text, DEFAULT_PORT).is_err(), "{text}");
        }
    }
}
