//! Packets that are nearly right: a header, the table of runs, and whatever follows.
//!
//! Nearly every change breaks the header's check, so each input is also read with the check that it should have.

use plumb_fuzz::Target;

use super::*;

/// The number of pages of the destination's memory.
const PAGES: u64 = 1000;

fn packet(kind: PacketKind, encoding: Encoding, runs: &[(u64, u64, bool)], payload_bytes: u32) -> Vec<u8> {
    let run =
        |&(first, count, is_zero): &(u64, u64, bool)| PageRun { range: PageRange { first, count }, is_zero };
    let runs: Vec<PageRun> = runs.iter().map(run).collect();
    let pages: u64 = runs.iter().filter(|run| !run.is_zero).map(|run| run.range.count).sum();
    let mut table = Vec::new();
    encode_table(&runs, &mut table);
    let header = Header {
        kind,
        encoding,
        channel: 1,
        packet: 17,
        round: 2,
        runs: u16::try_from(runs.len()).unwrap(),
        payload_bytes,
        content_bytes: u32::try_from(pages * PAGE_BYTES as u64).unwrap(),
        first: runs.first().copied(),
        check: Check::of_table(&table).value(),
    };
    [&header.encode()[..], &table].concat()
}

fn packets() -> [Vec<u8>; 5] {
    let page = u32::try_from(PAGE_BYTES).unwrap();
    let many: Vec<(u64, u64, bool)> = (0..64).map(|run| (run * 3, 1 + run % 3, run % 2 == 1)).collect();
    let content: u64 = many.iter().filter(|run| !run.2).map(|run| run.1).sum();
    [
        packet(PacketKind::Pages, Encoding::Raw, &[(0, 128, false)], 128 * page),
        packet(
            PacketKind::Pages,
            Encoding::Compressed,
            &[(5, 2, false), (100, 7, true), (990, 10, false)],
            99,
        ),
        packet(PacketKind::Pages, Encoding::Raw, &many, u32::try_from(content).unwrap() * page),
        packet(PacketKind::Sync, Encoding::Raw, &[], 0),
        packet(PacketKind::End, Encoding::Raw, &[], 0),
    ]
}

/// Reads a header and its table. Returns what is said of them.
fn check(bytes: &[u8; HEADER_BYTES], rest: &[u8]) -> String {
    let header = match Header::decode(bytes) {
        Ok(header) => header,
        Err(error) => return error.to_string(),
    };
    assert_eq!(Header::decode(&header.encode()), Ok(header), "what is written is read back");
    let content_bytes = header.content_bytes as usize;
    assert!(content_bytes <= UNIT_BYTES && header.payload_bytes as usize <= PAYLOAD_BYTES_MAX);
    let Some(table) = rest.get(..header.table_bytes()) else { return "a table that is cut".to_owned() };
    let runs = match header.runs(table, PAGES) {
        Ok(runs) => runs,
        Err(error) => return error.to_string().replace(|letter: char| letter.is_ascii_digit(), ""),
    };
    assert_eq!(runs.len(), usize::from(header.runs));
    let mut written = Vec::new();
    encode_table(&runs, &mut written);
    assert_eq!(header.runs(&written, PAGES).as_ref(), Ok(&runs), "what is written is read back");
    let memory_bytes = usize::try_from(PAGES).unwrap() * PAGE_BYTES;
    let filled = runs.iter().filter(|run| !run.is_zero).map(|run| run.bytes().len()).sum::<usize>();
    assert_eq!(filled, content_bytes, "the payload fills the pages that have content");
    assert!(runs.iter().all(|run| run.bytes().end <= memory_bytes), "every page lies in memory");
    assert!(!header.corrupt(&runs).to_string().is_empty());
    format!("{:?} {:?} {} runs", header.kind, header.encoding, runs.len().min(3))
}

#[test]
fn fuzz_migration_packets() {
    Target::new("fuzz_migration_packets").seeds(packets()).run(|bytes| {
        let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return [String::new(), String::new()];
        };
        let mut mended = *header;
        let sum = XxHash3_64::oneshot_with_seed(HEADER_SEED, &mended[..56]);
        mended[56..].copy_from_slice(&sum.to_le_bytes());
        [check(header, rest), check(&mended, rest)]
    });
}
