//! Changes of datagrams or packets, as the bytes of an input describe them.

use std::collections::VecDeque;

/// The most changes of an input. With thousands, a third party could lose the same datagram again and again, and no exchange would end.
const CHANGES_MAX: usize = 200;

/// A change. The code that applies it gives the kind and the place their meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The number of those that pass unchanged before it.
    pub after: u8,
    /// The kind.
    pub kind: u8,
    /// A place.
    pub at: usize,
    /// Bytes to put there.
    pub bytes: Vec<u8>,
}

/// Changes in their order.
#[derive(Debug, Default)]
pub struct Changes(VecDeque<Change>);

impl Changes {
    /// Reads a list of [`written`] changes up to [`CHANGES_MAX`]. The bytes of the last one may be cut off.
    pub fn parse(mut input: &[u8]) -> Self {
        let mut changes = VecDeque::new();
        while changes.len() < CHANGES_MAX
            && let [after, kind, high, low, count, rest @ ..] = input
        {
            let (bytes, rest) = rest.split_at(rest.len().min(usize::from(*count)));
            let at = usize::from(u16::from_be_bytes([*high, *low]));
            changes.push_back(Change { after: *after, kind: *kind, at, bytes: bytes.to_vec() });
            input = rest;
        }
        Self(changes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The change of the datagram or packet that comes now; `None` if it passes unchanged.
    pub fn take_next(&mut self) -> Option<Change> {
        let first = self.0.front_mut()?;
        match first.after.checked_sub(1) {
            Some(after) => {
                first.after = after;
                None
            }
            None => self.0.pop_front(),
        }
    }
}

/// A change in an input.
pub fn written(after: u8, kind: u8, at: u16, bytes: &[u8]) -> Vec<u8> {
    let [high, low] = at.to_be_bytes();
    let count = u8::try_from(bytes.len()).unwrap();
    [&[after, kind, high, low, count][..], bytes].concat()
}

#[test]
fn changes_are_read_as_they_were_written() {
    let input = [written(1, 2, 0x304, b"abc"), written(0, 5, 6, b"")].concat();
    let mut changes = Changes::parse(&input);
    assert_eq!(changes.take_next(), None);
    let first = Change { after: 0, kind: 2, at: 0x304, bytes: b"abc".to_vec() };
    assert_eq!(changes.take_next(), Some(first));
    assert!(!changes.is_empty());
    assert_eq!(changes.take_next(), Some(Change { after: 0, kind: 5, at: 6, bytes: Vec::new() }));
    assert!(changes.is_empty() && changes.take_next().is_none());
}
