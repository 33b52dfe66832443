//! The way of datagrams to the side under test: an input says which are changed, and how.

use crate::changes::{Change, Changes};

/// The most datagrams that are kept to be sent again.
const PASSED_MAX: usize = 64;
/// Bytes of an input before its changes.
pub const HEAD_BYTES: usize = 2;

/// A kind of change of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatagramChange {
    /// Bits flip.
    Flip,
    /// The end is cut off.
    Cut,
    /// The datagram does not arrive.
    Lose,
    /// The datagram arrives twice.
    Repeat,
    /// An earlier datagram of either side arrives before it.
    Replay,
    /// The datagram arrives after later ones.
    Hold,
    /// Bytes are inserted.
    Insert,
    /// Bytes follow the datagram.
    Append,
    /// Other bytes arrive instead.
    Replace,
    /// The end is that of an earlier datagram.
    Splice,
    /// The datagram comes from another address.
    Stray,
}

impl DatagramChange {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Flip,
        Self::Cut,
        Self::Lose,
        Self::Repeat,
        Self::Replay,
        Self::Hold,
        Self::Insert,
        Self::Append,
        Self::Replace,
        Self::Splice,
        Self::Stray,
    ];

    fn from_number(number: u8) -> Self {
        Self::ALL[usize::from(number) % Self::ALL.len()]
    }
}

/// A datagram that reaches the side under test.
#[derive(Debug)]
pub struct Arrival {
    pub bytes: Vec<u8>,
    /// Whether it seems to come from an address that has sent nothing before.
    pub is_stray: bool,
}

impl Arrival {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, is_stray: false }
    }
}

/// An input: a byte of options, the number of answers that are lost, and [`Changes`].
#[derive(Debug)]
pub struct Script {
    /// Whether the server asks for a retry.
    pub asks_for_retry: bool,
    /// The number of the first answers that the peer does not get.
    pub unheard: u8,
    changes: Changes,
    /// Datagrams of both sides as they were sent.
    passed: Vec<Vec<u8>>,
    /// Datagrams that wait for this number of others.
    held: Vec<(u8, Vec<u8>)>,
}

impl Script {
    pub fn parse(input: &[u8]) -> Self {
        let (head, changes) = input.split_at(input.len().min(HEAD_BYTES));
        let byte = |at: usize| head.get(at).copied().unwrap_or(0);
        Self {
            asks_for_retry: byte(0) & 1 == 1,
            unheard: byte(1),
            changes: Changes::parse(changes),
            passed: Vec::new(),
            held: Vec::new(),
        }
    }

    /// Whether every datagram arrives once and as it was sent from now on.
    pub fn changes_nothing(&self) -> bool {
        self.unheard == 0 && self.changes.is_empty() && self.held.is_empty()
    }

    /// Keeps a datagram for changes that need an earlier one.
    pub fn keep(&mut self, datagram: &[u8]) {
        if self.passed.len() < PASSED_MAX {
            self.passed.push(datagram.to_vec());
        }
    }

    /// The datagrams that arrive where this one was sent.
    pub fn arrivals(&mut self, datagram: Vec<u8>) -> Vec<Arrival> {
        let released = self.release();
        self.keep(&datagram);
        let mut arrivals = match self.changes.take_next() {
            Some(change) => self.apply(&change, datagram),
            None => vec![Arrival::new(datagram)],
        };
        arrivals.extend(released.into_iter().map(Arrival::new));
        arrivals
    }

    /// The held datagrams that have waited long enough.
    fn release(&mut self) -> Vec<Vec<u8>> {
        for (others, _) in &mut self.held {
            *others = others.saturating_sub(1);
        }
        self.held.extract_if(.., |(others, _)| *others == 0).map(|(_, bytes)| bytes).collect()
    }

    fn apply(&mut self, change: &Change, mut datagram: Vec<u8>) -> Vec<Arrival> {
        let at = change.at % (datagram.len() + 1);
        match DatagramChange::from_number(change.kind) {
            DatagramChange::Flip => {
                datagram[at..].iter_mut().zip(&change.bytes).for_each(|(byte, mask)| *byte ^= mask);
            }
            DatagramChange::Cut => datagram.truncate(at),
            DatagramChange::Lose => return Vec::new(),
            DatagramChange::Repeat => return vec![Arrival::new(datagram.clone()), Arrival::new(datagram)],
            DatagramChange::Replay => {
                return vec![Arrival::new(self.earlier(change.at)), Arrival::new(datagram)];
            }
            DatagramChange::Hold => {
                // A change of this kind needs no place, so `at` says how many others it waits for.
                self.held.push((1 + (change.at % 8) as u8, datagram));
                return Vec::new();
            }
            DatagramChange::Insert => drop(datagram.splice(at..at, change.bytes.iter().copied())),
            DatagramChange::Append => datagram.extend_from_slice(&change.bytes),
            DatagramChange::Replace => datagram.clone_from(&change.bytes),
            DatagramChange::Splice => {
                let other = self.earlier(change.at);
                datagram.truncate(at);
                datagram.extend_from_slice(&other[at.min(other.len())..]);
            }
            DatagramChange::Stray => return vec![Arrival { bytes: datagram, is_stray: true }],
        }
        vec![Arrival::new(datagram)]
    }

    fn earlier(&self, at: usize) -> Vec<u8> {
        self.passed[at % self.passed.len()].clone()
    }
}

#[test]
fn a_held_datagram_arrives_after_the_others() {
    let input = [vec![0, 0], crate::changes::written(0, DatagramChange::Hold as u8, 1, &[])].concat();
    let mut script = Script::parse(&input);
    let mut arrived = Vec::new();
    for datagram in [b"a", b"b", b"c", b"d"] {
        arrived.extend(script.arrivals(datagram.to_vec()).into_iter().flat_map(|arrival| arrival.bytes));
    }
    assert_eq!(arrived, b"bcad");
}
