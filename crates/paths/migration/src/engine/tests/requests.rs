//! Requests to a destination that no source of this program makes.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::super::destination::Destination;
use super::super::message::{DESTINATION_LINE_BYTES_MAX, FromDestination, Messages};
use super::super::wire::Hello;

struct Peer {
    stream: TcpStream,
    answers: Messages<TcpStream>,
}

impl Peer {
    fn connect_to(destination: &Destination) -> Self {
        let mut stream = TcpStream::connect(destination.target().address).unwrap();
        stream.write_all(&Hello::Control { is_encrypted: false }.encode()).unwrap();
        let answers = Messages::new(stream.try_clone().unwrap(), DESTINATION_LINE_BYTES_MAX);
        Self { stream, answers }
    }

    fn say(&mut self, line: &str) {
        self.stream.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn refusal(&mut self) -> String {
        match self.answers.next().unwrap() {
            Some(FromDestination::Failed { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }
}

fn destination(patience: Duration) -> Destination {
    Destination::with_patience(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), false, patience, None).unwrap()
}

fn setup(token: u64, memory_bytes: u64, channels: u8, codec: &str) -> String {
    format!(
        "{{\"say\":\"setup\",\"token\":{token},\"memory_bytes\":{memory_bytes},\"channels\":{channels},\"codec\":{codec},\
         \"carry\":\"packets\",\"prefault\":true}}"
    )
}

#[test]
fn what_this_host_cannot_give_is_refused_with_the_reason() {
    let destination = destination(Duration::from_secs(30));
    for (memory_bytes, channels, words) in [
        (1 << 50, 1, "take in the guest: it has 1024 TiB of memory, and this host can give "),
        (u64::MAX / 4096 * 4096, 1, "and this host can give "),
        (0, 1, "not a whole number of 4 KiB pages"),
        (4097, 1, "not a whole number of 4 KiB pages"),
        (4096, 0, "it asks for 0 channels"),
    ] {
        let mut peer = Peer::connect_to(&destination);
        peer.say(&setup(1, memory_bytes, channels, "\"none\""));
        let reason = peer.refusal();
        assert!(reason.contains(words), "{reason}");
    }
    assert_eq!(destination.totals().failures, 5);
}

/// A migration of two empty pages by hand: the end of round 1 and the end of the channel are not sent, so that only what
/// comes before them can be tried here.
fn moved(destination: &Destination, token: u64) -> (Peer, TcpStream) {
    let mut peer = Peer::connect_to(destination);
    peer.say(&setup(token, 1 << 20, 1, "\"none\""));
    assert!(matches!(peer.answers.next().unwrap(), Some(FromDestination::Ready { .. })));
    let mut channel = TcpStream::connect(destination.target().address).unwrap();
    channel.write_all(&Hello::Channel { token, channel: 0 }.encode()).unwrap();
    (peer, channel)
}

#[test]
fn a_peer_that_falls_silent_is_given_up() {
    let destination = destination(Duration::from_millis(2500));
    let (mut peer, _channel) = moved(&destination, 7);
    assert_eq!(peer.refusal(), "go on: nothing came from the source for 2.5 s");
    // A connection that asks for nothing is not a migration, and ends as well.
    let mut silent = Peer::connect_to(&destination);
    assert!(silent.answers.next::<FromDestination>().unwrap().is_none());
    assert_eq!(destination.totals().failures, 1);
}

#[test]
fn a_token_names_one_migration_and_a_line_has_an_end() {
    let destination = destination(Duration::from_secs(30));
    let mut first = Peer::connect_to(&destination);
    first.say(&setup(9, 4096, 1, "\"none\""));
    assert!(matches!(first.answers.next().unwrap(), Some(FromDestination::Ready { .. })));
    let mut second = Peer::connect_to(&destination);
    second.say(&setup(9, 4096, 1, "\"none\""));
    assert_eq!(second.refusal(), "take in the guest: another migration has the same token");
    let mut endless = Peer::connect_to(&destination);
    endless.say(&"x".repeat(8192));
    assert!(endless.answers.next::<FromDestination>().ok().flatten().is_none());
}
