//! The packets of a channel. Each has up to 128 pages, their places in memory, and checks that find corruption.
//!
//! A packet consists of a header of 64 bytes, a table of the runs of pages after the first one, which is in the header, and the payload:
//! the pages' content, compressed or not. All numbers are little-endian. The header has a separate check, because a corrupt length would
//! make the receiver wait for bytes that never arrive. A second check covers table and payload. Both are XXH3 with 64 bits.
//!
//! ```text
//! 0 magic 4 │ 4 version 1 │ 5 kind 1 │ 6 encoding 1 │ 7 channel 1 │ 8 packet 8 │ 16 round 4 │ 20 runs 2 │ 22 zero 2
//! 24 payload bytes 4 │ 28 content bytes 4 │ 32 first run 8 │ 40 payload check 8 │ 48 zero 8 │ 56 header check 8
//! ```

use twox_hash::XxHash3_64;

use super::bitmap::PageRange;
use plumb_codec::{PAGE_BYTES, UNIT_BYTES, UNIT_PAGES};

/// The size of a header.
pub const HEADER_BYTES: usize = 64;
/// The size of a run in the table.
pub const RUN_BYTES: usize = 8;
/// The largest payload. Pages that do not become smaller are not compressed.
pub const PAYLOAD_BYTES_MAX: usize = UNIT_BYTES;

/// The bytes of content that are checked at a time. They were just received, so they are still in the nearest caches.
pub const CHECK_PIECE_BYTES: usize = 128 << 10;

const MAGIC: [u8; 4] = *b"PLMG";
const VERSION: u8 = 1;
/// The seed, which sets a migration's checks apart from other uses of the same hash.
const HEADER_SEED: u64 = 0x706c_6d67_6865_6164;

/// The purpose of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketKind {
    /// The packet brings pages.
    Pages,
    /// The round is over on this channel.
    Sync,
    /// The migration is over on this channel.
    End,
}

/// The form of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// Uncompressed.
    Raw,
    /// Compressed by the migration's codec.
    Compressed,
}

/// Consecutive pages that all have content, or all have none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRun {
    /// The pages, at most 128.
    pub range: PageRange,
    /// Whether they are all zero and have no content in the payload.
    pub is_zero: bool,
}

impl PageRun {
    fn encode(self) -> u64 {
        self.range.first << 16 | u64::from(self.is_zero) << 8 | (self.range.count - 1) & 0xff
    }

    fn decode(word: u64) -> Self {
        let range = PageRange { first: word >> 16, count: (word & 0xff) + 1 };
        Self { range, is_zero: word >> 8 & 1 == 1 }
    }

    /// The range of the pages in memory, in bytes.
    #[must_use]
    pub fn bytes(self) -> std::ops::Range<usize> {
        let page = |page: u64| usize::try_from(page).unwrap_or(usize::MAX).saturating_mul(PAGE_BYTES);
        page(self.range.first)..page(self.range.first.saturating_add(self.range.count))
    }
}

/// The fields of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The purpose of the packet.
    pub kind: PacketKind,
    /// The form of the content.
    pub encoding: Encoding,
    /// The channel.
    pub channel: u8,
    /// The packet's number on its channel, from 0.
    pub packet: u64,
    /// The round, from 1.
    pub round: u32,
    /// The number of runs of pages; the first one is `first`.
    pub runs: u16,
    /// The size of the payload.
    pub payload_bytes: u32,
    /// The size of the content before compression: that of the pages that are not zero.
    pub content_bytes: u32,
    /// The first run.
    pub first: Option<PageRun>,
    /// The check of table and payload.
    pub check: u64,
}

/// A fault of bytes that are not a packet. The message completes "channel 1, packet 17: ".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The header differs from the one that was sent.
    #[error("the header is corrupt")]
    Header,
    /// The header is intact, and has an impossible value.
    #[error("the header is not valid: {0}")]
    Nonsense(&'static str),
    /// A run lies beyond the end of memory.
    #[error("it brings page {page}, and memory has {pages} pages")]
    Beyond {
        /// The last page of the run.
        page: u64,
        /// The number of pages in memory.
        pages: u64,
    },
    /// The table or the payload differs from the one that was sent.
    #[error("its content is corrupt: {}", region(*.first, *.pages))]
    Content {
        /// The first page that the packet brings.
        first: u64,
        /// The number of pages that the packet brings.
        pages: u64,
    },
}

/// A region in words: `pages 128 to 255, at 0x80000`.
fn region(first: u64, pages: u64) -> String {
    let last = first.saturating_add(pages.saturating_sub(1));
    format!("pages {first} to {last}, from {:#x} on", first.saturating_mul(PAGE_BYTES as u64))
}

impl Header {
    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = match self.kind {
            PacketKind::Pages => 0,
            PacketKind::Sync => 1,
            PacketKind::End => 2,
        };
        bytes[6] = match self.encoding {
            Encoding::Raw => 0,
            Encoding::Compressed => 1,
        };
        bytes[7] = self.channel;
        bytes[8..16].copy_from_slice(&self.packet.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.round.to_le_bytes());
        bytes[20..22].copy_from_slice(&self.runs.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.content_bytes.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.first.map_or(0, PageRun::encode).to_le_bytes());
        bytes[40..48].copy_from_slice(&self.check.to_le_bytes());
        let check = XxHash3_64::oneshot_with_seed(HEADER_SEED, &bytes[..56]);
        bytes[56..64].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Reads a header.
    ///
    /// # Errors
    /// When the bytes are not those of a header, or have an impossible value.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, PacketError> {
        let check = XxHash3_64::oneshot_with_seed(HEADER_SEED, &bytes[..56]);
        if u64_at(bytes, 56) != check || bytes[0..4] != MAGIC {
            return Err(PacketError::Header);
        }
        if bytes[4] != VERSION {
            return Err(PacketError::Nonsense("its version is another"));
        }
        let runs = u16::from_le_bytes([bytes[20], bytes[21]]);
        let header = Self {
            kind: match bytes[5] {
                0 => PacketKind::Pages,
                1 => PacketKind::Sync,
                2 => PacketKind::End,
                _ => return Err(PacketError::Nonsense("there is no such kind of packet")),
            },
            encoding: match bytes[6] {
                0 => Encoding::Raw,
                1 => Encoding::Compressed,
                _ => return Err(PacketError::Nonsense("there is no such encoding")),
            },
            channel: bytes[7],
            packet: u64_at(bytes, 8),
            round: u32_at(bytes, 16),
            runs,
            payload_bytes: u32_at(bytes, 24),
            content_bytes: u32_at(bytes, 28),
            first: (runs > 0).then(|| PageRun::decode(u64_at(bytes, 32))),
            check: u64_at(bytes, 40),
        };
        header.check_sizes()?;
        Ok(header)
    }

    fn check_sizes(&self) -> Result<(), PacketError> {
        let (payload, content) = (self.payload_bytes as usize, self.content_bytes as usize);
        let is_pages = self.kind == PacketKind::Pages;
        if is_pages != (self.runs > 0) || usize::from(self.runs) > UNIT_PAGES {
            return Err(PacketError::Nonsense("the number of runs does not fit its kind"));
        }
        if content > UNIT_BYTES || !content.is_multiple_of(PAGE_BYTES) || (content == 0) != (payload == 0) {
            return Err(PacketError::Nonsense("the size of its content"));
        }
        match self.encoding {
            Encoding::Raw if payload != content => Err(PacketError::Nonsense("the size of its payload")),
            Encoding::Compressed if payload > PAYLOAD_BYTES_MAX => {
                Err(PacketError::Nonsense("the size of its payload"))
            }
            _ if !is_pages && payload > 0 => Err(PacketError::Nonsense("it has a payload")),
            _ => Ok(()),
        }
    }

    /// The size of the table after the header.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        usize::from(self.runs).saturating_sub(1) * RUN_BYTES
    }

    /// All runs, from the header and the table.
    ///
    /// # Errors
    /// When a run lies beyond a memory of `pages`, or the runs do not add up to the content.
    pub fn runs(&self, table: &[u8], pages: u64) -> Result<Vec<PageRun>, PacketError> {
        let (words, _) = table.as_chunks::<RUN_BYTES>();
        let behind = words.iter().map(|word| PageRun::decode(u64::from_le_bytes(*word)));
        let runs: Vec<PageRun> = self.first.into_iter().chain(behind).collect();
        let (mut all, mut content) = (0, 0);
        for run in &runs {
            let end = run.range.first.saturating_add(run.range.count);
            if end > pages {
                return Err(PacketError::Beyond { page: end - 1, pages });
            }
            all += run.range.count;
            content += if run.is_zero { 0 } else { run.range.count };
        }
        if all > UNIT_PAGES as u64 || content * PAGE_BYTES as u64 != u64::from(self.content_bytes) {
            return Err(PacketError::Nonsense("its runs do not add up to its content"));
        }
        Ok(runs)
    }

    /// The error for content that does not match its check.
    #[must_use]
    pub fn corrupt(&self, runs: &[PageRun]) -> PacketError {
        let first = self.first.map_or(0, |run| run.range.first);
        PacketError::Content { first, pages: runs.iter().map(|run| run.range.count).sum() }
    }
}

/// The table of the runs after the first one.
pub fn encode_table(runs: &[PageRun], table: &mut Vec<u8>) {
    table.clear();
    for run in runs.iter().skip(1) {
        table.extend_from_slice(&run.encode().to_le_bytes());
    }
}

/// A check over the table and then over the payload.
#[derive(Debug, Clone, Copy)]
pub struct Check(u64);

impl Check {
    /// The check of a table.
    #[must_use]
    pub fn of_table(table: &[u8]) -> Self {
        Self(XxHash3_64::oneshot_with_seed(HEADER_SEED, table))
    }

    /// With the content of one more run, or with a whole payload that is compressed. Each is taken in pieces of
    /// [`CHECK_PIECE_BYTES`].
    #[must_use]
    pub fn and(self, content: &[u8]) -> Self {
        let pieces = content.chunks(CHECK_PIECE_BYTES);
        Self(pieces.fold(self.0, XxHash3_64::oneshot_with_seed))
    }

    /// The number for the header.
    #[must_use]
    pub fn value(self) -> u64 {
        self.0
    }
}

fn u64_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn u32_at(bytes: &[u8; HEADER_BYTES], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs() -> impl Strategy<Value = Vec<PageRun>> {
        prop::collection::vec((0_u64..1 << 40, 1_u64..5, any::<bool>()), 1..24).prop_map(|runs| {
            let run = |(first, count, is_zero)| PageRun { range: PageRange { first, count }, is_zero };
            runs.into_iter().map(run).collect()
        })
    }

    fn header(runs: &[PageRun], packet: u64) -> Header {
        let pages: u64 = runs.iter().filter(|run| !run.is_zero).map(|run| run.range.count).sum();
        let content_bytes = u32::try_from(pages).unwrap() * PAGE_BYTES as u32;
        Header {
            kind: PacketKind::Pages,
            encoding: Encoding::Raw,
            channel: 3,
            packet,
            round: 2,
            runs: u16::try_from(runs.len()).unwrap(),
            payload_bytes: content_bytes,
            content_bytes,
            first: runs.first().copied(),
            check: 7,
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(runs in runs(), packet: u64) {
            let header = header(&runs, packet);
            let mut table = Vec::new();
            encode_table(&runs, &mut table);
            let read = Header::decode(&header.encode()).unwrap();
            prop_assert_eq!(read, header);
            prop_assert_eq!(read.table_bytes(), table.len());
            prop_assert_eq!(read.runs(&table, 1 << 41).unwrap(), runs);
        }

        #[test]
        fn a_flipped_bit_of_a_header_is_noticed(runs in runs(), at in 0_usize..HEADER_BYTES, bit in 0_u32..8) {
            let mut bytes = header(&runs, 1).encode();
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(Header::decode(&bytes), Err(PacketError::Header));
        }

        #[test]
        fn no_bytes_panic_even_with_a_right_check(mut bytes in prop::array::uniform32(any::<u8>()), table: Vec<u8>) {
            let mut whole = [0; HEADER_BYTES];
            bytes[..5].copy_from_slice(b"PLMG\x01");
            bytes[5] %= 4;
            bytes[6] %= 3;
            whole[..32].copy_from_slice(&bytes);
            whole[32..40].copy_from_slice(&bytes[8..16]);
            let check = XxHash3_64::oneshot_with_seed(HEADER_SEED, &whole[..56]);
            whole[56..].copy_from_slice(&check.to_le_bytes());
            if let Ok(header) = Header::decode(&whole)
                && let Ok(runs) = header.runs(&table, 1000)
            {
                let pages: u64 = runs.iter().map(|run| run.range.count).sum();
                prop_assert!(pages <= UNIT_PAGES as u64);
                prop_assert!(runs.iter().all(|run| run.range.first + run.range.count <= 1000));
            }
        }

        #[test]
        fn no_foreign_bytes_are_a_header(bytes in prop::collection::vec(any::<u8>(), HEADER_BYTES)) {
            let bytes: [u8; HEADER_BYTES] = bytes.try_into().unwrap();
            prop_assert!(Header::decode(&bytes).is_err());
        }
    }

    #[test]
    fn pages_beyond_memory_are_refused_and_named() {
        let runs = [PageRun { range: PageRange { first: 999, count: 2 }, is_zero: false }];
        let error = header(&runs, 0).runs(&[], 1000).unwrap_err();
        assert_eq!(error.to_string(), "it brings page 1000, and memory has 1000 pages");
    }

    #[test]
    fn corrupt_content_names_its_region() {
        let runs = [PageRun { range: PageRange { first: 128, count: 128 }, is_zero: false }];
        let error = header(&runs, 0).corrupt(&runs);
        assert_eq!(error.to_string(), "its content is corrupt: pages 128 to 255, from 0x80000 on");
    }

    #[test]
    fn a_check_depends_on_every_piece_and_on_their_order() {
        let check = |pieces: [&[u8]; 2]| Check::of_table(b"t").and(pieces[0]).and(pieces[1]).value();
        assert_ne!(check([b"a", b"b"]), check([b"b", b"a"]));
        assert_ne!(check([b"a", b"b"]), Check::of_table(b"t").and(b"a").value());
    }
}
