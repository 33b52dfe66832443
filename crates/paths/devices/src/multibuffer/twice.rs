//! Every lane's work done twice, in two lanes, so that a wrong result is noticed where nothing else can tell.
//!
//! A signature can be checked by the public key. A shared secret cannot: anyone who could tell a right one from a wrong one
//! without deriving it would have broken the exchange. As all lanes of a pass cost the same whether they have work or not,
//! up to half a pass is checked for nothing; a fuller one is run again with its lanes in the reverse order, so that a
//! fault of one lane meets two different operations.

use zeroize::{Zeroize, Zeroizing};

use crate::device_kind::LANES;

use crate::library::{LaneStatus, Status};

/// Why a lane has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    /// The library says so.
    Status(LaneStatus),
    /// The two results differ.
    Differs,
}

/// The results of a pass, each with what is wrong with it.
pub(super) struct Twice<T: Zeroize> {
    results: Zeroizing<Vec<T>>,
    flaws: Vec<Option<Flaw>>,
}

impl<T: Zeroize> Twice<T> {
    /// The result of one lane.
    pub(super) fn lane(&self, lane: usize) -> Result<&T, Flaw> {
        match self.flaws[lane] {
            None => Ok(&self.results[lane]),
            Some(flaw) => Err(flaw),
        }
    }
}

/// Has `pass` work on up to eight inputs, twice each. `spoil` may change results before they are compared.
pub(super) fn twice<I: Copy, T: Copy + Default + PartialEq + Zeroize>(
    inputs: &[I],
    mut pass: impl FnMut(&[I], &mut [T]) -> Status,
    spoil: impl FnOnce(&mut [T]),
) -> Twice<T> {
    let count = inputs.len();
    let backwards = inputs.iter().rev().copied();
    let mut results = Zeroizing::new(vec![T::default(); 2 * count]);
    let statuses = if 2 * count <= LANES {
        let doubled: Vec<I> = inputs.iter().copied().chain(backwards).collect();
        let status = pass(&doubled, &mut results);
        (0..2 * count).map(|lane| status.lane(lane)).collect::<Vec<_>>()
    } else {
        let (first, second) = results.split_at_mut(count);
        let statuses = [pass(inputs, first), pass(&backwards.collect::<Vec<I>>(), second)];
        statuses.iter().flat_map(|status| (0..count).map(|lane| status.lane(lane))).collect()
    };
    spoil(&mut results);
    let flaw = |lane: usize| {
        let again = 2 * count - 1 - lane;
        match (statuses[lane], statuses[again]) {
            (Ok(()), Ok(())) if results[lane] == results[again] => None,
            (Err(status), Err(_)) => Some(Flaw::Status(status)),
            _ => Some(Flaw::Differs),
        }
    };
    Twice { flaws: (0..count).map(flaw).collect(), results }
}
