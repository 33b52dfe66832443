//! Segments that were sent again, or came out of order, on the load's connections within the window.
//!
//! The kernel counts them for each connection. They are read when the window opens and closes, and when a connection ends in
//! between. So a request costs no system call, unless it has a connection to itself, and that takes ten others. The readings of many
//! connections are spread over the turns of the loop that follow, because all at once would delay requests.
//! So the count of a connection begins and ends up to some ms after the window does, and later where an open loop is busy with late answers.

use std::array;
use std::os::fd::AsFd;

use plumb_host::tcp_info::TcpInfo;
use plumb_model::{Merge, Segments};

/// Segments by kind, in the order of [`Segments::ALL`]; `None` where the kernel does not count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentCounts([Option<u64>; Segments::ALL.len()]);

impl SegmentCounts {
    /// The counts of a connection since it began.
    #[must_use]
    pub fn of_connection(socket: impl AsFd) -> Self {
        let info = TcpInfo::of_socket(socket).ok();
        let count = |kind| match kind {
            Segments::Retransmitted => info.as_ref()?.retransmits(),
            Segments::OutOfOrder => info.as_ref()?.out_of_order(),
        };
        Self(Segments::ALL.map(|kind| count(kind).map(u64::from)))
    }

    /// The segments counted since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self(array::from_fn(|kind| Some(self.0[kind]?.saturating_sub(before.0[kind]?))))
    }

    /// The counts of a connection that the kernel does not know.
    #[must_use]
    pub fn unknown() -> Self {
        Self([None; Segments::ALL.len()])
    }

    /// The kinds that the kernel counts on every connection, with their numbers.
    pub fn known(self) -> impl Iterator<Item = (Segments, u64)> {
        Segments::ALL.into_iter().zip(self.0).filter_map(|(kind, count)| Some((kind, count?)))
    }
}

/// None of either kind, as on a connection that begins.
impl Default for SegmentCounts {
    fn default() -> Self {
        Self([Some(0); Segments::ALL.len()])
    }
}

/// A sum with a connection whose segments are not counted is not known.
impl Merge for SegmentCounts {
    fn add(&mut self, other: &Self) {
        for (sum, one) in self.0.iter_mut().zip(other.0) {
            *sum = sum.zip(one).map(|(sum, one)| sum + one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_connection_does_not_count_is_not_known_of_all() {
        let mut sum = SegmentCounts::default();
        sum.add(&SegmentCounts([Some(9), Some(4)]).since(SegmentCounts([Some(7), Some(4)])));
        sum.add(&SegmentCounts([Some(5), Some(1)]).since(SegmentCounts::default()));
        let known: Vec<(Segments, u64)> = sum.known().collect();
        assert_eq!(known, [(Segments::Retransmitted, 7), (Segments::OutOfOrder, 1)]);
        sum.add(&SegmentCounts([Some(1), None]).since(SegmentCounts::default()));
        sum.add(&SegmentCounts([Some(1), Some(1)]));
        assert_eq!(sum.known().collect::<Vec<_>>(), [(Segments::Retransmitted, 9)]);
    }
}
