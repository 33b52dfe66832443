//! The places of connections. Any user of the host can connect, but only a request with the token keeps a place.
//!
//! A connection is a *stranger* until a request on it carries the token; then it is *known*. Strangers never wait for a
//! place: if there are too many, the server closes the oldest one of the peer with the most. So a stranger can push out
//! only strangers, and a user's connection keeps its place from its first request on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The places of a server.
#[derive(Debug)]
pub struct Places {
    strangers_max: usize,
    known_max: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// The number of connections so far, which numbers them in order.
    count: u64,
    strangers: BTreeMap<u64, Stranger>,
    known: BTreeSet<u64>,
}

#[derive(Debug)]
struct Stranger {
    peer: IpAddr,
    leave: Arc<Notify>,
}

impl Places {
    /// Places for this many strangers and known connections.
    pub fn new(strangers_max: usize, known_max: usize) -> Arc<Self> {
        Arc::new(Self { strangers_max, known_max, held: Mutex::default() })
    }

    /// Gives a new connection a place. If none is free, another stranger has to leave.
    pub fn enter(self: &Arc<Self>, peer: IpAddr) -> Arc<Visitor> {
        let mut held = self.held();
        if held.strangers.len() >= self.strangers_max
            && let Some(number) = first_to_yield(&held.strangers)
            && let Some(stranger) = held.strangers.remove(&number)
        {
            stranger.leave.notify_one();
        }
        held.count += 1;
        let (number, leave) = (held.count, Arc::new(Notify::new()));
        held.strangers.insert(number, Stranger { peer, leave: Arc::clone(&leave) });
        Arc::new(Visitor { places: Arc::clone(self), number, leave })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The oldest stranger of the peer that has the most.
fn first_to_yield(strangers: &BTreeMap<u64, Stranger>) -> Option<u64> {
    let mut peers: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
    for (number, stranger) in strangers {
        peers.entry(stranger.peer).or_insert((0, *number)).0 += 1;
    }
    peers.into_values().max_by_key(|(count, _)| *count).map(|(_, oldest)| oldest)
}

/// A connection with its place, which it gives up when it is dropped.
#[derive(Debug)]
pub struct Visitor {
    places: Arc<Places>,
    number: u64,
    leave: Arc<Notify>,
}

impl Visitor {
    /// Notes that a request carried the token. Returns whether the connection has a place among the known ones.
    pub fn admit(&self) -> bool {
        let mut held = self.places.held();
        if held.known.len() < self.places.known_max {
            held.strangers.remove(&self.number);
            held.known.insert(self.number);
        }
        held.known.contains(&self.number)
    }

    /// Whether a request on this connection has carried the token.
    pub fn is_known(&self) -> bool {
        self.places.held().known.contains(&self.number)
    }

    /// Waits until the place is needed for another stranger.
    pub async fn asked_to_leave(&self) {
        self.leave.notified().await;
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        let mut held = self.places.held();
        held.strangers.remove(&self.number);
        held.known.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strangers(places: &Places) -> Vec<u64> {
        places.held().strangers.keys().copied().collect()
    }

    #[test]
    fn the_oldest_stranger_of_the_busiest_peer_yields() {
        let places = Places::new(4, 2);
        let (one, other) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([192, 0, 2, 1]));
        let visitors = [other, one, one, one].map(|peer| places.enter(peer));
        assert_eq!(strangers(&places), [1, 2, 3, 4]);
        let _next = places.enter(one);
        assert_eq!(strangers(&places), [1, 3, 4, 5], "the other peer has fewer, so it stays");
        // A connection that ends frees its place.
        drop(visitors);
        assert_eq!(strangers(&places), [5]);
    }

    #[test]
    fn known_connections_are_not_closed_for_strangers() {
        let places = Places::new(2, 2);
        let peer = IpAddr::from([127, 0, 0, 1]);
        let known = [places.enter(peer), places.enter(peer)];
        assert!(known.iter().all(|visitor| visitor.admit() && visitor.admit() && visitor.is_known()));
        let flood: Vec<_> = (0..100).map(|_| places.enter(peer)).collect();
        assert_eq!(strangers(&places), [101, 102]);
        let last = flood.last().unwrap();
        assert!(!last.admit() && !last.is_known(), "the known places are taken");
        drop(known);
        assert!(last.admit());
        drop(flood);
        assert_eq!((strangers(&places).len(), places.held().known.len()), (0, 0));
    }
}
