//! Each illegal stream ends in its fault, however it is cut.

use std::collections::HashSet;

use crate::illegal::{self, Case, Sent};
use plumb_h3::peer::{Peer, Stream};
use plumb_h3::{Decoder, Exchange, PeerFault, Side};

/// The fault of a stream that arrives in pieces of at most this many bytes.
fn receive(peer: &mut Peer, side: Side, sent: &Sent, piece_bytes: usize) -> Result<(), PeerFault> {
    let (mut exchange, mut stream) = (Exchange::new(side, false), Stream::default());
    let mut decoder = Decoder::default();
    for mut piece in sent.bytes.chunks(piece_bytes) {
        if sent.is_request {
            while exchange.receive(&mut piece, &mut decoder)?.is_some() {}
        } else {
            while peer.receive(&mut stream, &mut piece)?.is_some() {}
        }
        assert_eq!(piece, b"");
    }
    match (sent.ends, sent.is_request) {
        (true, true) => exchange.end(),
        (true, false) => peer.end(&stream),
        (false, _) => Ok(()),
    }
}

/// The fault of a case, whose other streams and legal bytes have none.
fn fault_of(case: &Case, piece_bytes: usize) -> Result<(), PeerFault> {
    let (last, others) = case.streams.split_last().unwrap();
    let legal = Sent { bytes: last.bytes[..case.legal_bytes].to_vec(), ends: false, ..last.clone() };
    let mut peer = Peer::new(case.side);
    for sent in others.iter().chain([&legal]) {
        receive(&mut peer, case.side, sent, piece_bytes).unwrap();
    }
    let mut peer = Peer::new(case.side);
    for sent in others {
        receive(&mut peer, case.side, sent, piece_bytes).unwrap();
    }
    receive(&mut peer, case.side, last, piece_bytes)
}

#[test]
fn what_is_illegal_gives_the_fault_that_it_must_give() {
    let cases = illegal::all();
    assert!(cases.len() >= 200, "{}", cases.len());
    for case in &cases {
        for piece_bytes in [usize::MAX, 7, 1] {
            let name = format!("{:?} {:?} in pieces of {piece_bytes}", case.section, case.side);
            assert_eq!(fault_of(case, piece_bytes), Err(case.fault), "{name}");
            assert_eq!(case.fault.code(), case.code, "{name}");
        }
    }
    let faults: HashSet<_> = cases.iter().map(|case| std::mem::discriminant(&case.fault)).collect();
    assert_eq!(faults.len(), 35, "all faults of the crate have a case");
}
