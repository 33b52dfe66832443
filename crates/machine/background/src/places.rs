//! Limits a server's connections. Anyone can connect, but only a request with valid credentials secures a place.
//!
//! A connection is *silent* until its client sends something. Then it is a *stranger* until a request on it carries valid
//! credentials, and *known* from then on. If there are too many silent connections, the server closes one: the oldest of the
//! address that has the most. It does the same with strangers. So silent connections can push out only each other, however many
//! connect, and a known connection is never closed to make room.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::sleep;

/// The limits of a server's connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most connections that have sent nothing yet.
    pub silent: usize,
    /// The most connections that have sent something, but no valid credentials.
    pub strangers: usize,
    /// The most connections that have sent valid credentials.
    pub known: usize,
    /// The most connections of one address that have sent valid credentials.
    pub known_of_one: usize,
    /// The time from the beginning of a connection until its first request with valid credentials.
    pub until_known: Duration,
}

/// Accepts connections for ever, and has `serve` serve each from its first byte on. A connection ends when `serve` returns, when
/// another connection needs its place, or when no request with valid credentials came in time.
pub async fn accept<S, F>(listener: TcpListener, limits: Limits, serve: S)
where
    S: Fn(TcpStream, Arc<Visitor>) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (places, serve) = (Places::new(limits), Arc::new(serve));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // The process is out of descriptors, or the client has disconnected already. Neither lasts.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (visitor, serve) = (places.enter(peer.ip()), Arc::clone(&serve));
        tokio::spawn(async move {
            tokio::select! {
                () = attend(stream, Arc::clone(&visitor), &*serve) => {}
                () = visitor.leave.notified() => {}
                () = visitor.stays_unknown(limits.until_known) => {}
            }
        });
        // Lets this connection notice bytes that have already arrived before later connections can push it out.
        yield_now().await;
    }
}

/// Serves a connection once its client has sent something.
async fn attend<F: Future<Output = ()>>(
    stream: TcpStream,
    visitor: Arc<Visitor>,
    serve: impl Fn(TcpStream, Arc<Visitor>) -> F,
) {
    if stream.peek(&mut [0]).await.is_ok_and(|bytes| bytes > 0) {
        visitor.speaks();
        serve(stream, visitor).await;
    }
}

/// The places of a server.
#[derive(Debug)]
struct Places {
    limits: Limits,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    /// The number of connections so far, which numbers them in order.
    count: u64,
    connections: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    standing: Standing,
    leave: Arc<Notify>,
}

/// How far a connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Silent,
    Stranger,
    Known,
}

impl Places {
    fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, held: Mutex::default() })
    }

    /// Gives a new connection a place. If none is free, another silent connection has to leave.
    fn enter(self: &Arc<Self>, peer: IpAddr) -> Arc<Visitor> {
        let mut held = self.held();
        held.make_room(Standing::Silent, self.limits.silent);
        held.count += 1;
        let (number, peer, leave) = (held.count, party(peer), Arc::new(Notify::new()));
        let connection = Connection { peer, standing: Standing::Silent, leave: Arc::clone(&leave) };
        held.connections.insert(number, connection);
        Arc::new(Visitor { places: Arc::clone(self), number, peer, leave })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// The numbers and peers of the connections of a standing, the oldest first.
    fn connections_of(&self, standing: Standing) -> impl Iterator<Item = (u64, IpAddr)> {
        let of_standing = self.connections.iter().filter(move |(_, one)| one.standing == standing);
        of_standing.map(|(number, one)| (*number, one.peer))
    }

    /// Asks one connection of this standing to leave if there are `limit`: the oldest of the peer that has the most.
    fn make_room(&mut self, standing: Standing, limit: usize) {
        if self.connections_of(standing).count() < limit {
            return;
        }
        let mut peers: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
        for (number, peer) in self.connections_of(standing) {
            peers.entry(peer).or_insert((0, number)).0 += 1;
        }
        let busiest = peers.into_values().max_by_key(|(count, _)| *count);
        if let Some(connection) = busiest.and_then(|(_, oldest)| self.connections.remove(&oldest)) {
            connection.leave.notify_one();
        }
    }
}

/// A connection with its place, which it gives up when it is dropped.
#[derive(Debug)]
pub struct Visitor {
    places: Arc<Places>,
    number: u64,
    peer: IpAddr,
    leave: Arc<Notify>,
}

impl Visitor {
    /// The client's address. All addresses of one IPv6 network of 64 bits are one.
    #[must_use]
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Notes that a request carried valid credentials. Returns whether the connection has a place among the known ones.
    #[must_use]
    pub fn admit(&self) -> bool {
        let (limits, mut held) = (self.places.limits, self.places.held());
        let (all, of_one) = (held.connections_of(Standing::Known).count(), self.known_of_peer(&held));
        let Some(connection) = held.connections.get_mut(&self.number) else { return false };
        if all < limits.known && of_one < limits.known_of_one {
            connection.standing = Standing::Known;
        }
        connection.standing == Standing::Known
    }

    /// Whether the connection has a place among the known ones.
    #[must_use]
    pub fn is_known(&self) -> bool {
        let held = self.places.held();
        held.connections.get(&self.number).is_some_and(|one| one.standing == Standing::Known)
    }

    fn known_of_peer(&self, held: &Held) -> usize {
        held.connections_of(Standing::Known).filter(|(_, peer)| *peer == self.peer).count()
    }

    /// Notes that the client has sent something. If no place among the strangers is free, another stranger has to leave.
    fn speaks(&self) {
        let mut held = self.places.held();
        held.make_room(Standing::Stranger, self.places.limits.strangers);
        if let Some(connection) = held.connections.get_mut(&self.number) {
            connection.standing = Standing::Stranger;
        }
    }

    /// Returns if the connection is not known after this time.
    async fn stays_unknown(&self, patience: Duration) {
        sleep(patience).await;
        if self.is_known() {
            pending::<()>().await;
        }
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.places.held().connections.remove(&self.number);
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

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));

    fn places(silent: usize, strangers: usize, known: usize) -> Arc<Places> {
        let until_known = Duration::from_secs(3600);
        Places::new(Limits { silent, strangers, known, known_of_one: 2, until_known })
    }

    fn numbers(places: &Places, standing: Standing) -> Vec<u64> {
        places.held().connections_of(standing).map(|(number, _)| number).collect()
    }

    #[test]
    fn the_oldest_silent_connection_of_the_busiest_peer_yields() {
        let places = places(4, 2, 2);
        let visitors = [OTHER, ONE, ONE, ONE].map(|peer| places.enter(peer));
        assert_eq!(numbers(&places, Standing::Silent), [1, 2, 3, 4]);
        let _next = places.enter(ONE);
        assert_eq!(numbers(&places, Standing::Silent), [1, 3, 4, 5], "the other peer has fewer, so it stays");
        // A connection that ends frees its place.
        drop(visitors);
        assert_eq!(numbers(&places, Standing::Silent), [5]);
    }

    #[test]
    fn each_standing_pushes_out_only_its_like() {
        let places = places(2, 2, 2);
        let asking = [places.enter(ONE), places.enter(ONE)];
        asking.iter().for_each(|visitor| visitor.speaks());
        let flood: Vec<_> = (0..100).map(|_| places.enter(ONE)).collect();
        assert_eq!(
            numbers(&places, Standing::Stranger),
            [1, 2],
            "silent connections do not push out a request"
        );
        assert_eq!(numbers(&places, Standing::Silent), [101, 102]);
        assert!(asking.iter().all(|visitor| visitor.admit() && visitor.admit() && visitor.is_known()));
        flood.iter().for_each(|visitor| visitor.speaks());
        assert_eq!(numbers(&places, Standing::Known), [1, 2]);
        assert_eq!(numbers(&places, Standing::Stranger), [101, 102]);
        assert!(!flood[0].admit(), "it was asked to leave");
        let last = flood.last().unwrap();
        assert!(!last.admit() && !last.is_known(), "the known places are taken");
        drop(asking);
        assert!(last.admit());
        drop(flood);
        assert!(places.held().connections.is_empty());
    }

    #[test]
    fn one_peer_does_not_take_all_known_places() {
        let places = places(8, 8, 3);
        let [first, second, third, other] = [ONE, ONE, ONE, OTHER].map(|peer| places.enter(peer));
        assert!(first.admit() && second.admit() && !third.admit() && other.admit());
    }

    #[test]
    fn a_host_is_one_party_with_all_its_addresses() {
        let party = |text: &str| party(text.parse().unwrap()).to_string();
        assert_eq!(party("2001:db8:1:2:aaaa::1"), "2001:db8:1:2::");
        assert_eq!(party("::ffff:192.0.2.7"), "192.0.2.7");
    }
}
