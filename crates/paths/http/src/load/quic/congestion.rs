//! Congestion control, and whether it holds data back.
//!
//! The QUIC library does not tell why a connection sends nothing. But before each datagram with data it compares the bytes in flight with
//! the controller's window, and only if there is room for the datagram, it asks the pacer, which needs the window too. So the number of
//! times that it asked the controller for the window says how far it came. A test has both cases.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use plumb_model::Wait;
use quinn_proto::congestion::{
    Bbr, BbrConfig, Controller, ControllerFactory, ControllerMetrics, Cubic, CubicConfig, NewReno,
    NewRenoConfig,
};
use quinn_proto::{Connection, RttEstimator};

use crate::settings::CongestionControl;

/// The number of times that a connection asked for its window since the count was last reset. Only one thread uses it.
#[derive(Debug, Default)]
pub struct WindowReads(AtomicU32);

impl WindowReads {
    /// The count of a connection whose controllers a [`Watching`] made.
    pub fn by(connection: &Connection) -> Option<Arc<Self>> {
        watched(connection).map(|watched| watched.reads)
    }

    /// Begins to count anew.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The reason why the last `poll_transmit` sent nothing although data was queued; `None` if none was queued.
    ///
    /// A long client certificate may fill the first window. Then handshake packets and requests both wait for the window, which looks like
    /// pacing.
    pub fn kept_back(&self) -> Option<Wait> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            2 => Some(Wait::Pacing),
            _ => Some(Wait::CongestionWindow),
        }
    }

    fn count(&self) {
        self.0.store(self.0.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
    }
}

/// The algorithm of a connection's controller, told from its type.
pub fn control_of(connection: &Connection) -> Option<CongestionControl> {
    let controller = watched(connection)?.controller.into_any();
    let known = [
        (controller.is::<Cubic>(), CongestionControl::Cubic),
        (controller.is::<NewReno>(), CongestionControl::NewReno),
        (controller.is::<Bbr>(), CongestionControl::Bbr),
    ];
    known.into_iter().find_map(|(is_it, control)| is_it.then_some(control))
}

/// A copy of the controller of a connection. The library gives no other way to its type.
fn watched(connection: &Connection) -> Option<Box<Watched>> {
    connection.congestion_state().clone_box().into_any().downcast().ok()
}

/// Makes controllers that count how often they are asked for the window.
#[derive(Debug)]
pub struct Watching(pub CongestionControl);

impl ControllerFactory for Watching {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let controller = match self.0 {
            CongestionControl::Cubic => Arc::new(CubicConfig::default()).build(now, mtu),
            CongestionControl::NewReno => Arc::new(NewRenoConfig::default()).build(now, mtu),
            CongestionControl::Bbr => Arc::new(BbrConfig::default()).build(now, mtu),
        };
        Box::new(Watched { controller, reads: Arc::default() })
    }
}

/// A controller of the library, unchanged but for the count.
struct Watched {
    controller: Box<dyn Controller>,
    reads: Arc<WindowReads>,
}

impl Controller for Watched {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.controller.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.controller.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.controller.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        self.controller.on_congestion_event(now, sent, is_persistent, lost_bytes);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.controller.on_mtu_update(mtu);
    }

    fn window(&self) -> u64 {
        self.reads.count();
        self.controller.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.controller.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { controller: self.controller.clone_box(), reads: Arc::clone(&self.reads) })
    }

    fn initial_window(&self) -> u64 {
        self.controller.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use bytes::BytesMut;
    use quinn_proto::{
        ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, StreamId, TransportConfig, VarInt,
    };

    use super::*;
    use crate::load::quic::Client;
    use crate::load::tests::h3::peer::Engine;
    use crate::load::tls::Offer;
    use crate::settings::{LoadProtocol, LoadSettings};
    use crate::target::Target;
    use crate::url::Url;

    const ROUND_TRIP_NS: u64 = 20_000_000;
    const BODY_BYTES: usize = 300_000;

    /// A client and a server on a link that takes a round trip for the answer to what is sent. The clock moves only here.
    struct Pair {
        client: Client,
        endpoint: Endpoint,
        handle: ConnectionHandle,
        connection: Connection,
        server: Engine,
        reads: Arc<WindowReads>,
        now_ns: u64,
    }

    impl Pair {
        fn new() -> Self {
            let url = Url::parse("https://localhost/").unwrap();
            let spec = LoadSettings { protocol: LoadProtocol::H3, insecure: true, ..LoadSettings::default() };
            let target = Target { url: "https://localhost/".to_owned(), ..Target::default() };
            let client = Client::new(&Offer::new(&spec, &target, &url).unwrap(), &spec, 1).unwrap();
            let mut endpoint = Endpoint::new(Arc::clone(&client.endpoint), None, true, None);
            let now_ns = plumb_host::time::monotonic_ns();
            let (handle, connection) =
                endpoint.connect(client.instants.at(now_ns), client.full.clone(), address(), "").unwrap();
            let mut transport = TransportConfig::default();
            transport.receive_window(VarInt::MAX).stream_receive_window(VarInt::MAX);
            let (server, reads) = (Engine::new(transport), WindowReads::by(&connection).unwrap());
            Self { client, endpoint, handle, connection, server, reads, now_ns }
        }

        fn pass(&mut self, ns: u64) -> Instant {
            self.now_ns += ns;
            self.client.instants.at(self.now_ns)
        }

        /// Sends a datagram, if the client has one.
        fn send(&mut self) -> bool {
            let (mut datagram, now) = (Vec::new(), self.pass(0));
            self.reads.reset();
            let sent = self.connection.poll_transmit(now, 1, &mut datagram);
            if sent.is_some() {
                self.server.take(now, address(), &datagram);
            }
            sent.is_some()
        }

        /// Lets a round trip pass, after which the answers of the server arrive.
        fn hear(&mut self) {
            let now = self.pass(ROUND_TRIP_NS);
            for (_, datagram) in self.server.give(now) {
                let (bytes, mut reply) = (BytesMut::from(&datagram[..]), Vec::new());
                let event = self.endpoint.handle(now, address(), None, None, bytes, &mut reply);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.connection.handle_event(event);
                }
            }
            if self.connection.poll_timeout().is_some_and(|due| due <= now) {
                self.connection.handle_timeout(now);
            }
            while let Some(event) = self.connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                    self.connection.handle_event(event);
                }
            }
        }

        fn connect(&mut self) {
            while self.connection.is_handshaking() {
                while self.send() {}
                self.hear();
            }
            while let Some(event) = self.connection.poll() {
                assert!(!matches!(event, Event::ConnectionLost { .. }), "{event:?}");
            }
        }

        fn write(&mut self) -> StreamId {
            let id = self.connection.streams().open(Dir::Bi).unwrap();
            let mut stream = self.connection.send_stream(id);
            assert_eq!(stream.write(&vec![7; BODY_BYTES]), Ok(BODY_BYTES));
            stream.finish().unwrap();
            id
        }
    }

    fn address() -> SocketAddr {
        ([127, 0, 0, 1], 443).into()
    }

    /// The pacer lets more packets pass after some time, the window only after acknowledgements.
    #[test]
    fn the_window_and_the_pacer_are_told_apart_until_all_has_left() {
        let mut pair = Pair::new();
        pair.connect();
        let departures = plumb_quic::departures(pair.connection.crypto_session()).unwrap();
        let id = pair.write();
        let (mut paced, mut windows, mut departed) = (0, 0, Vec::new());
        loop {
            while pair.send() {}
            let kept_back = pair.reads.kept_back();
            departures.take(&mut departed);
            let end = departed.iter().filter(|part| part.id == id).map(|part| part.end).max();
            assert_eq!(
                end == Some(BODY_BYTES as u64),
                kept_back.is_none(),
                "{end:?} bytes left, {kept_back:?}"
            );
            match kept_back {
                None => break,
                Some(Wait::Pacing) => {
                    pair.pass(ROUND_TRIP_NS);
                    assert!(pair.send(), "time alone did not help");
                    paced += 1;
                }
                Some(_) => {
                    pair.pass(ROUND_TRIP_NS);
                    assert!(!pair.send(), "time alone helped");
                    pair.hear();
                    windows += 1;
                }
            }
        }
        assert!(paced > 0 && windows > 0, "{paced} waits for the pacer, {windows} for the window");
    }
}
