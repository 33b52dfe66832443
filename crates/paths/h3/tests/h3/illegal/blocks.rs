//! Field blocks that break the rules of QPACK, refer to a dynamic table, or are too large.

use plumb_h2::coding::CodingFault;

use super::*;
use plumb_h3::Limits;

/// Cases that both sides can receive.
pub fn either(side: Side) -> Vec<Case> {
    let limits = Limits::default();
    let block = |section, block: &[u8], fault: PeerFault| {
        let frames = [frame(FrameKind::Headers, block)];
        let case = request(section, side, &frames, fault, ErrorCode::QpackDecompression);
        Case { section: (9204, section), ..case }
    };
    let field = |section, field: &[u8], fault| block(section, &[&[0, 0], field].concat(), fault);
    let coding = |section, bytes: &[u8], fault: CodingFault| field(section, bytes, PeerFault::Coding(fault));
    let long = vec![0; limits.block_bytes_max + 1];
    // This entry has more than 100 bytes, and two on the wire.
    let many = [vec![0, 0], [0xff, 85 - 63].repeat(limits.fields_bytes_max / 100)].concat();
    let excessive = |section, block: &[u8], fault| {
        request(section, side, &[frame(FrameKind::Headers, block)], fault, ErrorCode::ExcessiveLoad)
    };
    vec![
        block("4.5.1", &[], CodingFault::Truncated.into()),
        block("4.5.1", &[0], CodingFault::Truncated.into()),
        block("4.5.1.1", &[1, 0, 0xd1], PeerFault::RequiredInsertCount),
        block("4.5.1.1", &[0xff, 0, 0, 0xd1], PeerFault::RequiredInsertCount),
        block("4.5.1.2", &[0, 0x80, 0xd1], PeerFault::NegativeBase),
        block("4.5.1.2", &[0, 0x81, 0xd1], PeerFault::NegativeBase),
        field("4.5.2", &[0x80], PeerFault::DynamicReference),
        field("4.5.3", &[0x10], PeerFault::DynamicReference),
        field("4.5.4", &[0x40, 1, b'a'], PeerFault::DynamicReference),
        field("4.5.4", &[0x60, 1, b'a'], PeerFault::DynamicReference),
        field("4.5.5", &[0x00, 1, b'a'], PeerFault::DynamicReference),
        field("4.5.5", &[0x08, 1, b'a'], PeerFault::DynamicReference),
        field("3.1", &[0xff, 99 - 63], PeerFault::NoSuchIndex),
        field("3.1", &[0x5f, 99 - 15, 0], PeerFault::NoSuchIndex),
        coding("4.1.1", &[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], CodingFault::Integer),
        coding("4.1.1", &[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0], CodingFault::Integer),
        coding("4.1.1", &[0xff], CodingFault::Truncated),
        coding("4.1.2", &[0x51, 5, b'a'], CodingFault::Truncated),
        coding("4.1.2", &[0x27, 0], CodingFault::Truncated),
        coding("4.1.2", &[0x51, 0x81, 0xff], CodingFault::Huffman),
        coding("4.1.2", &[0x29, 0xff, 0], CodingFault::Huffman),
        excessive("4.2.2", &many, PeerFault::FieldsTooLong),
        excessive("10.5.1", &long, PeerFault::BlockTooLong),
    ]
}
