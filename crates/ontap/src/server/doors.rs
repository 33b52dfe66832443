//! The open connections, whose number is bounded in all and for each address. Those without a valid password make room first.
//!
//! With a limit alone, one client that opens that many silent connections would keep all others out.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 128;
/// Connections of one address at a time.
const CONNECTIONS_OF_ONE_MAX: usize = 32;

/// The connections that are open.
#[derive(Debug, Default)]
pub struct Doors {
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    number: u64,
    connections: Vec<Connection>,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    address: IpAddr,
    /// Whether a right password came over it.
    is_known: bool,
    end: Option<AbortHandle>,
}

/// A connection's place, until it is dropped.
#[derive(Debug)]
pub struct Place {
    doors: Arc<Doors>,
    number: u64,
    address: IpAddr,
}

impl Doors {
    /// Lets a connection in, at the cost of the oldest unknown one where there is no room; `None` where all are known.
    pub fn let_in(self: &Arc<Self>, address: IpAddr) -> Option<Arc<Place>> {
        let address = party(address);
        let mut inside = self.lock();
        let of_one = inside.connections.iter().filter(|connection| connection.address == address).count();
        if of_one >= CONNECTIONS_OF_ONE_MAX {
            inside.make_room(|connection| connection.address == address)?;
        } else if inside.connections.len() >= CONNECTIONS_MAX {
            inside.make_room(|_| true)?;
        }
        inside.number += 1;
        let number = inside.number;
        inside.connections.push(Connection { number, address, is_known: false, end: None });
        Some(Arc::new(Place { doors: Arc::clone(self), number, address }))
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn make_room(&mut self, may_go: impl Fn(&Connection) -> bool) -> Option<()> {
        let oldest =
            self.connections.iter().position(|connection| !connection.is_known && may_go(connection))?;
        if let Some(end) = self.connections.remove(oldest).end {
            end.abort();
        }
        Some(())
    }

    fn with(&mut self, number: u64, change: impl FnOnce(&mut Connection)) {
        self.connections.iter_mut().find(|connection| connection.number == number).map(change);
    }
}

impl Place {
    /// Sets the handle that ends the connection when another one needs the room.
    pub fn ends_by(&self, end: AbortHandle) {
        self.doors.lock().with(self.number, |connection| connection.end = Some(end));
    }

    /// A right password came over it: it makes no room for others.
    pub fn is_known(&self) {
        self.doors.lock().with(self.number, |connection| connection.is_known = true);
    }

    /// The address of its client.
    pub fn address(&self) -> IpAddr {
        self.address
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.doors.lock().connections.retain(|connection| connection.number != self.number);
    }
}

/// The client that an address stands for: one host has a whole /64 of IPv6 (RFC 4291, section 2.5.1), and an IPv4 address may come
/// as one of IPv6.
fn party(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX))),
        four => four,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn other(number: u8) -> IpAddr {
        IpAddr::from([198, 51, 100, number])
    }

    #[test]
    fn silent_connections_of_one_address_make_room_for_each_other_alone() {
        let doors = Arc::new(Doors::default());
        let good = doors.let_in(other(1)).unwrap();
        let silent: Vec<_> = (0..500).map(|_| doors.let_in(HOSTILE).unwrap()).collect();
        let numbers = |doors: &Doors| {
            doors.lock().connections.iter().map(|connection| connection.number).collect::<Vec<_>>()
        };
        let left = numbers(&doors);
        assert_eq!(left.len(), 1 + CONNECTIONS_OF_ONE_MAX);
        assert!(left.contains(&good.number) && left.contains(&silent[499].number));
        drop(silent);
        assert_eq!(numbers(&doors), [good.number]);
    }

    #[test]
    fn clients_that_showed_a_password_stay_and_newcomers_are_refused_only_where_all_did() {
        let doors = Arc::new(Doors::default());
        let known: Vec<_> = (0..CONNECTIONS_OF_ONE_MAX).map(|_| doors.let_in(HOSTILE).unwrap()).collect();
        known.iter().for_each(|place| place.is_known());
        assert!(doors.let_in(HOSTILE).is_none());
        let many: Vec<_> = (0..=255).map(|number| doors.let_in(other(number)).unwrap()).collect();
        assert_eq!(doors.lock().connections.len(), CONNECTIONS_MAX);
        assert_eq!(doors.lock().connections.iter().filter(|it| it.is_known).count(), known.len());
        drop(many);
    }

    #[test]
    fn a_host_is_one_party_with_all_its_addresses() {
        let party = |text: &str| party(text.parse().unwrap()).to_string();
        assert_eq!(party("2001:db8:1:2:aaaa::1"), "2001:db8:1:2::");
        assert_eq!(party("::ffff:192.0.2.7"), "192.0.2.7");
    }
}
