//! The corpus that is built in: eight kinds of data in the proportions of the Silesia corpus, written by machines that are
//! made from a seed.
//!
//! Silesia is the corpus of the published figures: prose (dickens, reymont, webster), programs (mozilla, ooffice), a
//! chemical table (nci), source code (samba), images (mr, x-ray), a database (osdb), a star catalogue (sao) and markup
//! (xml), 211.9 MB together. Its published ratios as one file (zstd's README of version 1.5.7, lzbench on one core) are
//! 2.896 for zstd -1, 2.743 for zlib -1 and 2.101 for lz4. This corpus has 3.01, 2.71 and 2.02 as a whole, and 2.99,
//! 2.71 and 2.02 in the units of a migration, for which there are no published figures; tests hold it to both.
//!
//! A region of 1 MiB holds one kind, as a file would, and each 64 MiB hold every kind in its proportion. Regions of one
//! kind take turns in using several machines, whose words differ, so that compressors with long windows find no more
//! than in files of one language.

mod automaton;
mod binary;
pub(super) mod random;
mod text;

use self::automaton::Automaton;
use self::random::Random;
use crate::PAGE_BYTES;

/// A kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DataKind {
    Prose,
    MachineCode,
    Table,
    Source,
    Samples,
    Rows,
    Catalogue,
    Markup,
}

/// How many regions of 64 each kind has: Silesia's proportions by size.
const PROPORTIONS: [(DataKind, usize); 8] = [
    (DataKind::Prose, 18),
    (DataKind::MachineCode, 17),
    (DataKind::Table, 10),
    (DataKind::Source, 7),
    (DataKind::Samples, 5),
    (DataKind::Rows, 3),
    (DataKind::Catalogue, 2),
    (DataKind::Markup, 2),
];

/// The pages of a region, which is of one kind.
const REGION_PAGES: u64 = 256;
/// The regions that hold every kind in its proportion.
const DECK: u64 = 64;
/// How many machines of a kind take turns.
const MACHINES: u64 = 4;

impl DataKind {
    fn machine(self, seed: u64) -> Automaton {
        let random = &mut Random::new(seed ^ ((self as u64 + 1) << 56));
        match self {
            Self::Prose => text::prose(random),
            Self::MachineCode => binary::machine_code(random),
            Self::Table => text::table(random),
            Self::Source => text::source(random),
            Self::Samples => binary::samples(),
            Self::Rows => binary::rows(random),
            Self::Catalogue => binary::catalogue(),
            Self::Markup => text::markup(random),
        }
    }
}

/// The corpus of a seed.
#[derive(Debug)]
pub(super) struct Builtin {
    seed: u64,
    /// `MACHINES` of each kind, kind by kind in the order of `PROPORTIONS`.
    machines: Vec<Automaton>,
    /// The kind of each region of a deck, as an index into `PROPORTIONS`.
    deck: Vec<usize>,
}

impl Builtin {
    pub(super) fn new(seed: u64) -> Self {
        let machine =
            |kind: DataKind, turn: u64| kind.machine(seed.wrapping_add(turn.wrapping_mul(0x9e37_79b9)));
        let machines =
            PROPORTIONS.iter().flat_map(|(kind, _)| (0..MACHINES).map(|turn| machine(*kind, turn))).collect();
        let mut deck: Vec<usize> =
            PROPORTIONS.iter().enumerate().flat_map(|(at, (_, regions))| vec![at; *regions]).collect();
        let mut random = Random::new(seed);
        for at in (1..deck.len()).rev() {
            deck.swap(at, random.below(at + 1));
        }
        Self { seed, machines, deck }
    }

    /// Writes the corpus' page of that number, from 0 on without an end.
    pub(super) fn fill(&self, number: u64, page: &mut [u8]) {
        let region = number / REGION_PAGES;
        let kind = self.deck[(region % DECK) as usize];
        let machine = kind * MACHINES as usize + (region % MACHINES) as usize;
        // An odd factor, so that no two pages have the same seed.
        let seed = self.seed ^ (number + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.machines[machine].fill(seed, page);
    }
}

/// The bytes after which the proportions come again.
pub(super) const DECK_BYTES: usize = (DECK * REGION_PAGES) as usize * PAGE_BYTES;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deck_has_every_kind_in_its_proportion() {
        let corpus = Builtin::new(3);
        for (at, (kind, regions)) in PROPORTIONS.iter().enumerate() {
            assert_eq!(corpus.deck.iter().filter(|kind| **kind == at).count(), *regions, "{kind:?}");
        }
        assert_eq!(corpus.deck.len() as u64, DECK);
        assert_ne!(corpus.deck, Builtin::new(4).deck);
    }
}
