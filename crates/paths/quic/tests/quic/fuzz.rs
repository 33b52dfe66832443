//! Datagrams that were changed on their way, and frames that a peer changed, in each direction.
//!
//! Keys, nonces and ids are new in each call. An input repeats its changes, which is all that an outcome depends on.

use plumb_fuzz::Target;
use quinn_proto::Side;

use crate::changes::{Changes, written};
use crate::offers::Offers;
use crate::pair::Pair;
use crate::script::{DatagramChange, HEAD_BYTES, Script};
use crate::tampering::Tamper;

/// Inputs without changes: an exchange, one with a retry, and some whose first answers are lost.
const HEADS: [[u8; HEAD_BYTES]; 5] = [[0, 0], [1, 0], [0, 1], [0, 4], [1, 2]];
/// Overwrites the frames of a packet, and fills the rest with padding.
const OVERWRITE: u8 = 2;

/// Frames of every kind (RFC 9000, section 19; RFC 9221; the extension for the frequency of acknowledgements), with fields at limits.
const FRAMES: [&[u8]; 34] = [
    &[0x01],
    &[0x02, 0x00, 0x00, 0x00, 0x00],
    &[0x02, 0xbf, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00],
    &[0x03, 0x05, 0x00, 0x01, 0x00, 0x01, 0x02, 0x05, 0x01, 0x01],
    &[0x04, 0x00, 0x07, 0x4b, 0xb8],
    &[0x04, 0x03, 0x07, 0x00],
    &[0x05, 0x00, 0x07],
    &[0x05, 0x02, 0x07],
    &[0x06, 0x00, 0x04, 0x01, 0x00, 0x00, 0x00],
    &[0x06, 0x7f, 0xff, 0x02, 0x08, 0x08],
    &[0x07, 0x03, 0x01, 0x02, 0x03],
    &[0x0e, 0x00, 0x7f, 0xff, 0x01, 0x08],
    &[0x0f, 0x02, 0x00, 0x02, 0x00, 0x04],
    &[0x0f, 0x03, 0x00, 0x02, 0x00, 0x04],
    &[0x0e, 0x06, 0x00, 0x03, 0x02, 0x20, 0x20],
    &[0x0e, 0x07, 0x00, 0x03, 0x02, 0x20, 0x20],
    &[0x0a, 0x04, 0x01, 0x08],
    &[0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x11, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x12, 0xd0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00],
    &[0x13, 0x40, 0x80],
    &[0x14, 0x08],
    &[0x15, 0x00, 0x08],
    &[0x16, 0x08],
    &[0x18, 0x01, 0x01, 0x08, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
    &[0x18, 0x40, 0x80, 0x40, 0x7f, 0x01, 1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9],
    &[0x19, 0x00],
    &[0x1a, 1, 2, 3, 4, 5, 6, 7, 8],
    &[0x1b, 1, 2, 3, 4, 5, 6, 7, 8],
    &[0x1c, 0x07, 0x00, 0x01, 0x61],
    &[0x1d, 0x41, 0x00, 0x01, 0x61],
    &[0x1e],
    &[0x31, 0x02, 0x08, 0x08],
    &[0x40, 0xaf, 0x00, 0x01, 0x40, 0x64, 0x01],
];

/// One change of each kind, at several datagrams.
fn datagram_changes() -> Vec<Vec<u8>> {
    let mut changes = Vec::new();
    for kind in DatagramChange::ALL {
        for (place, at) in [(0, 0), (0, 5), (1, 30), (2, 1), (4, 1100), (7, 2), (10, 9)] {
            changes.push(written(place, kind as u8, at, &[0xc0, 0x01, 0xff]));
        }
    }
    changes
}

/// A packet with each frame, at several places.
fn frame_changes() -> Vec<Vec<u8>> {
    let places = |frame: &'static [u8]| [0, 2, 5, 9].map(|place| written(place, OVERWRITE, 0, frame));
    FRAMES.into_iter().flat_map(places).collect()
}

/// Inputs with one change each, behind those without.
fn seeds(changes: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let changed = changes.iter().map(|change| [&HEADS[0][..], change].concat());
    HEADS.iter().map(|head| head.to_vec()).chain(changed).collect()
}

/// A third party on the path can drop, repeat and make up datagrams, but cannot change a body.
fn fuzz_datagrams(name: &'static str, victim: Side) {
    let (offers, changes) = (Offers::honest(), datagram_changes());
    Target::new(name).seeds(seeds(&changes)).with_words(changes).run(|input| {
        let script = Script::parse(input);
        let has_to_complete = script.changes_nothing();
        let mut pair = Pair::new(&offers, victim, script);
        pair.run();
        pair.check_bodies();
        if has_to_complete {
            pair.check_complete();
        }
        pair.outcome()
    });
}

/// A server bears the datagrams that clients send, or others in their name.
#[test]
fn fuzz_quic_datagrams_of_clients() {
    fuzz_datagrams("fuzz_quic_datagrams_of_clients", Side::Server);
}

/// A client bears the datagrams that servers send, or others in their name.
#[test]
fn fuzz_quic_datagrams_of_servers() {
    fuzz_datagrams("fuzz_quic_datagrams_of_servers", Side::Client);
}

/// A peer may send anything in its packets.
fn fuzz_frames(name: &'static str, victim: Side) {
    let (tamper, changes) = (Tamper::default(), frame_changes());
    let offers = Offers::with_tampering_peer(victim, &tamper);
    let frames = FRAMES.map(<[u8]>::to_vec);
    Target::new(name).seeds(seeds(&changes)).with_words(changes).with_words(frames).run(|input| {
        let (head, changes) = input.split_at(input.len().min(HEAD_BYTES));
        let (script, changes) = (Script::parse(head), Changes::parse(changes));
        let has_to_complete = script.changes_nothing() && changes.is_empty();
        tamper.begin(changes);
        let mut pair = Pair::new(&offers, victim, script);
        pair.run();
        if has_to_complete {
            pair.check_complete();
        }
        pair.outcome()
    });
}

/// A server bears the packets of any client.
#[test]
fn fuzz_quic_frames_of_clients() {
    fuzz_frames("fuzz_quic_frames_of_clients", Side::Server);
}

/// A client bears the packets of any server.
#[test]
fn fuzz_quic_frames_of_servers() {
    fuzz_frames("fuzz_quic_frames_of_servers", Side::Client);
}
