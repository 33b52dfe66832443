//! Bounds on the number of connections, of all clients and of one address.
//!
//! A server that has used up its file descriptors can neither follow its state nor write its report, and one client could
//! do that to all others. So there are fewer places than descriptors, and an address may take a part of them only. Connections that
//! have not chosen a volume make room for new ones, so that silent clients keep nobody out.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::waiter::Waiter;

/// Descriptors for everything but connections: volumes, the database, the REST interface.
const KEPT_DESCRIPTORS: u64 = 640;
/// An idle connection costs little memory; this many cost a bounded amount.
const CONNECTIONS_MAX: usize = 32 << 10;
const ADDRESS_CONNECTIONS_MAX: usize = 1024;
/// qemu-nbd gives its clients as long to choose a volume.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// The limits of clients.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Connections of all clients.
    pub connections: usize,
    /// Connections from one address.
    pub address_connections: usize,
    /// How long a client may take to choose a volume.
    pub handshake: Duration,
}

impl Bounds {
    /// For a process that may have `open_files` files open.
    pub(super) fn for_open_files(open_files: u64) -> Self {
        let spare = open_files.saturating_sub(KEPT_DESCRIPTORS).max(open_files / 2);
        let connections = usize::try_from(spare).unwrap_or(usize::MAX).clamp(2, CONNECTIONS_MAX);
        let address_connections = (connections / 2).min(ADDRESS_CONNECTIONS_MAX);
        Self { connections, address_connections, handshake: HANDSHAKE_TIME }
    }
}

/// The places of a server.
#[derive(Debug)]
pub(super) struct Places {
    bounds: Bounds,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
    /// The number of places so far, which numbers them.
    count: u64,
    /// The places of connections that have not chosen a volume, the oldest first.
    choosing: BTreeMap<u64, (IpAddr, Waiter)>,
}

impl Taken {
    fn free(&mut self, address: IpAddr) {
        self.all -= 1;
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

/// A connection's place, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    address: IpAddr,
    has_chosen: bool,
}

impl Places {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, taken: Mutex::default() }
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Whether a client can get a place.
    pub(super) fn are_left(&self) -> bool {
        let taken = self.lock();
        taken.all < self.bounds.connections || !taken.choosing.is_empty()
    }

    /// A place for a connection of a client at this address, and the connection that has to leave for it. `None` if the address has
    /// its share already or all places are taken, and all of these connections have chosen a volume.
    pub(super) fn take(
        self: &Arc<Self>,
        address: IpAddr,
        connection: Waiter,
    ) -> Option<(Place, Option<Waiter>)> {
        let address = address.to_canonical();
        let mut taken = self.lock();
        let of_address = taken.by_address.get(&address).copied().unwrap_or(0);
        let has_share = of_address >= self.bounds.address_connections;
        let leaving = if has_share || taken.all >= self.bounds.connections {
            let mut choosing = taken.choosing.iter();
            let (&oldest, _) = choosing.find(|(_, (of, _))| !has_share || *of == address)?;
            let (of, leaving) = taken.choosing.remove(&oldest)?;
            taken.free(of);
            Some(leaving)
        } else {
            None
        };
        taken.all += 1;
        *taken.by_address.entry(address).or_default() += 1;
        taken.count += 1;
        let number = taken.count;
        taken.choosing.insert(number, (address, connection));
        Some((Place { places: Arc::clone(self), number, address, has_chosen: false }, leaving))
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Notes that the client has chosen a volume. Its connection keeps the place, unless another one has it already.
    pub(super) fn choose(&mut self) {
        self.has_chosen = self.places.lock().choosing.remove(&self.number).is_some();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        // Otherwise another connection has this place.
        if self.has_chosen || taken.choosing.remove(&self.number).is_some() {
            taken.free(self.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_and_descriptors_are_left() {
        assert_eq!(Bounds::for_open_files(1 << 20).connections, 32 << 10);
        let few = Bounds::for_open_files(256);
        assert_eq!((few.connections, few.address_connections), (128, 64));
        let places = Arc::new(Places::new(Bounds { connections: 3, address_connections: 2, ..few }));
        let take = |address: &str| {
            let (mut place, leaving) =
                places.take(address.parse().unwrap(), Waiter { thread: 0, connection: 7 })?;
            assert!(leaving.is_none());
            place.choose();
            Some(place)
        };
        let first = [take("127.0.0.1"), take("::ffff:127.0.0.1")];
        assert!(first.iter().all(Option::is_some));
        assert!(take("127.0.0.1").is_none(), "it has its share, in either notation");
        let other = take("::1");
        assert!(other.is_some() && !places.are_left() && take("::2").is_none());
        drop(first);
        assert!(places.are_left() && take("127.0.0.1").is_some());
    }

    #[test]
    fn a_connection_that_has_not_chosen_makes_room() {
        let places = Arc::new(Places::new(Bounds {
            connections: 3,
            address_connections: 2,
            ..Bounds::for_open_files(64)
        }));
        let take = |address: &str, connection| {
            let taken = places.take(address.parse().unwrap(), Waiter { thread: 0, connection });
            taken.map(|(place, leaving)| (place, leaving.map(|waiter| waiter.connection)))
        };
        let (mut one, _) = take("127.0.0.1", 1).unwrap();
        let (other, _) = take("::1", 2).unwrap();
        let (two, _) = take("127.0.0.1", 3).unwrap();
        one.choose();
        let (mut three, leaving) = take("127.0.0.1", 4).unwrap();
        assert_eq!(leaving, Some(3), "the oldest of its address that has not chosen");
        let (mut four, leaving) = take("::2", 5).unwrap();
        assert_eq!(leaving, Some(2), "all places are taken, so the oldest of all");
        [&mut three, &mut four].into_iter().for_each(Place::choose);
        assert!(!places.are_left() && take("::3", 6).is_none());
        drop((one, two, other, three, four));
        let taken = places.lock();
        assert!(taken.all == 0 && taken.by_address.is_empty() && taken.choosing.is_empty(), "{taken:?}");
    }
}
