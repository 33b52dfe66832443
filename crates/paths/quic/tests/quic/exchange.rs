//! Exchanges that have to succeed, whether or not a datagram is lost, and the faults that end one.

use quinn_proto::{Dir, Side, StreamId};
use rustls::HandshakeKind;

use crate::changes::{Changes, written};
use crate::host::BODY_BYTES;
use crate::offers::Offers;
use crate::pair::{DATAGRAM_BYTES, Pair};
use crate::script::{DatagramChange, Script};
use crate::tampering::Tamper;

/// Far more datagrams than either side sends in an exchange without losses.
const PLACES: u8 = 24;
/// FRAME_ENCODING_ERROR (RFC 9000, section 20.1).
const FRAME_ENCODING: u64 = 0x07;

fn ran(offers: &Offers, victim: Side, input: &[u8]) -> Pair {
    let mut pair = Pair::new(offers, victim, Script::parse(input));
    pair.run();
    pair
}

#[test]
fn an_exchange_completes_with_a_retry_and_without() {
    let offers = Offers::honest();
    for retries in [0, 1] {
        let pair = ran(&offers, Side::Server, &[retries, 0]);
        pair.check_complete();
        let (server, client) = (&pair.victim.record, &pair.peer.record);
        assert_eq!(client.handshakes, [Some(HandshakeKind::Full)]);
        assert_eq!(server.handshakes, client.handshakes);
        assert_eq!((server.accepted, server.retries), (1, u64::from(retries)));
        assert!(client.lost.is_empty() && server.lost.len() == 1, "{:?}, {:?}", client.lost, server.lost);
        for index in 0..2 {
            let id = StreamId::new(Side::Client, Dir::Bi, index);
            let end = client.departed.iter().filter(|part| part.id == id).map(|part| part.end).max();
            assert_eq!(end, Some(BODY_BYTES as u64));
        }
        assert!(server.departed.is_empty(), "only clients note them");
    }
}

#[test]
fn an_exchange_survives_any_one_datagram() {
    let offers = Offers::honest();
    let kinds = [DatagramChange::Lose, DatagramChange::Repeat, DatagramChange::Hold, DatagramChange::Flip];
    for victim in [Side::Client, Side::Server] {
        for kind in kinds {
            for place in 0..PLACES {
                let change = written(place, kind as u8, 601, &[0xff]);
                let pair = ran(&offers, victim, &[&[0_u8, 0][..], &change].concat());
                pair.check_bodies();
                let client = if victim == Side::Client { &pair.victim } else { &pair.peer };
                let lost = &client.record.lost;
                assert_eq!(client.record.bodies.len(), 2, "{victim:?}, {kind:?} at {place}: {lost:?}");
            }
        }
    }
}

#[test]
fn a_server_waits_for_a_sign_of_the_client_after_three_times_its_bytes() {
    let mut pair = Pair::new(&Offers::honest(), Side::Server, Script::parse(&[0, u8::MAX]));
    // The client begins, and the server answers.
    assert!(pair.step() && pair.step());
    let counts = pair.counts;
    assert!(counts.received_bytes >= DATAGRAM_BYTES, "{counts:?}");
    // That it sends more than twice as much shows that it had more to send.
    assert!(counts.sent_bytes > 2 * counts.received_bytes, "{counts:?}");
    // Each further step checks the limit, up to the end of the client's patience.
    pair.run();
    assert!(pair.victim.record.handshakes.is_empty() && pair.peer.record.bodies.is_empty());
}

/// A frame of an unknown kind ends the connection, so the changes of a peer that tampers get past the authentication.
#[test]
fn a_peer_that_tampers_reaches_the_frames() {
    for victim in [Side::Client, Side::Server] {
        let tamper = Tamper::default();
        let offers = Offers::with_tampering_peer(victim, &tamper);
        let is_found = |place: u8| {
            tamper.begin(Changes::parse(&written(place, 1, 0, &[0x21])));
            let pair = ran(&offers, victim, &[0, 0]);
            pair.victim.record.lost.iter().any(|(_, code)| *code == FRAME_ENCODING)
        };
        let found = (0..PLACES).filter(|place| is_found(*place)).count();
        assert!(found > 2, "{victim:?}: {found} of {PLACES}");
        tamper.begin(Changes::default());
        ran(&offers, victim, &[0, 0]).check_complete();
    }
}
