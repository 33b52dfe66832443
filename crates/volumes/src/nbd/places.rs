//! Bounds on the number of connections, of all clients and of one address.
//!
//! A server that has used up its file descriptors can neither follow its state nor write its report, and one client could
//! do that to all others. So there are fewer places than descriptors, and an address may take a part of them only.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Descriptors for everything but connections: volumes, the database, the REST interface.
const KEPT_DESCRIPTORS: u64 = 640;
/// An idle connection costs little memory; this many cost a bounded amount.
const CONNECTIONS_MAX: usize = 32 << 10;
const ADDRESS_CONNECTIONS_MAX: usize = 1024;
/// qemu-nbd gives its clients as long to choose a volume.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// What clients may take.
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
    pub(super) fn of(open_files: u64) -> Self {
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
}

/// A connection's place, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    address: IpAddr,
}

impl Places {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, taken: Mutex::default() }
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Whether any place is left.
    pub(super) fn are_left(&self) -> bool {
        self.lock().all < self.bounds.connections
    }

    /// A place for a client at this address; `None` where it has its share already, or none is left.
    pub(super) fn take(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let address = address.to_canonical();
        let mut taken = self.lock();
        let of_address = taken.by_address.get(&address).copied().unwrap_or(0);
        if taken.all >= self.bounds.connections || of_address >= self.bounds.address_connections {
            return None;
        }
        taken.all += 1;
        taken.by_address.insert(address, of_address + 1);
        Some(Place { places: Arc::clone(self), address })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        if let Some(count) = taken.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_and_descriptors_are_left() {
        assert_eq!(Bounds::of(1 << 20).connections, 32 << 10);
        let few = Bounds::of(256);
        assert_eq!((few.connections, few.address_connections), (128, 64));
        let places = Arc::new(Places::new(Bounds { connections: 3, address_connections: 2, ..few }));
        let take = |address: &str| places.take(address.parse().unwrap());
        let first = [take("127.0.0.1"), take("::ffff:127.0.0.1")];
        assert!(first.iter().all(Option::is_some));
        assert!(take("127.0.0.1").is_none(), "it has its share, in either notation");
        let other = take("::1");
        assert!(other.is_some() && !places.are_left() && take("::2").is_none());
        drop(first);
        assert!(places.are_left() && take("127.0.0.1").is_some());
    }
}
