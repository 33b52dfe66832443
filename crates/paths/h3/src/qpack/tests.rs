//! The example of RFC 9204, appendix B.1, and properties of both directions.

use plumb_h2::coding::CodingFault;
use plumb_h2::hpack::{Field, Indexing};
use proptest::prelude::*;

use super::static_table::{self, Found};
use super::{Decoder, encode};
use crate::error::PeerFault;

/// Names, values, and whether nobody may index them.
type List = Vec<(Vec<u8>, Vec<u8>, bool)>;

fn decoded(block: &[u8]) -> Result<List, PeerFault> {
    let mut list = List::new();
    Decoder::default().decode(block, 1 << 20, |field| {
        list.push((field.name.to_vec(), field.value.to_vec(), field.indexing == Indexing::Never));
    })?;
    Ok(list)
}

fn encoded(list: &List) -> Vec<u8> {
    let field = |(name, value, is_never): &(Vec<u8>, Vec<u8>, bool)| {
        (name.clone(), value.clone(), if *is_never { Indexing::Never } else { Indexing::Incremental })
    };
    let list: Vec<_> = list.iter().map(field).collect();
    let mut block = Vec::new();
    encode(list.iter().map(|(name, value, indexing)| Field { name, value, indexing: *indexing }), &mut block);
    block
}

fn one(name: &str, value: &str, is_never: bool) -> List {
    vec![(name.into(), value.into(), is_never)]
}

#[test]
fn a_literal_with_a_name_reference_of_appendix_b_1() {
    assert_eq!(decoded(b"\0\0\x51\x0b/index.html"), Ok(one(":path", "/index.html", false)));
}

#[test]
fn each_representation_is_that_of_section_4_5() {
    for (list, block) in [
        (one(":method", "GET", false), &[0xd1][..]),
        (one("x-frame-options", "sameorigin", false), &[0xff, 35]),
        (one(":path", "/a", false), b"\x51\x02/a"),
        (one(":method", "GET", true), b"\x7f\x02\x03GET"),
        (one("user-agent", "\u{1}", false), b"\x5f\x50\x01\x01"),
        (one("~", "^", false), b"\x21~\x01^"),
        (one("~", "^", true), b"\x31~\x01^"),
        (one("aaaa", "aaaaaaaa", false), &[0x2b, 0x18, 0xc6, 0x3f, 0x85, 0x18, 0xc6, 0x31, 0x8c, 0x63]),
    ] {
        let block = [&[0, 0], block].concat();
        assert_eq!(encoded(&list), block, "{list:?}");
        assert_eq!(decoded(&block), Ok(list));
    }
}

#[test]
fn entries_are_found_where_they_are() {
    for index in 0..99 {
        let (name, value) = static_table::get(index).unwrap();
        assert_eq!(static_table::find(name, value), Found::Field(index));
    }
    assert_eq!(static_table::get(99), None);
    assert_eq!(static_table::find(b":status", b"302"), Found::Field(66));
    assert_eq!(static_table::find(b":status", b"299"), Found::Name(24));
    assert_eq!(static_table::find(b"x-mine", b""), Found::Nothing);
}

#[test]
fn blocks_that_break_the_rules_are_refused() {
    let truncated = PeerFault::Coding(CodingFault::Truncated);
    for (block, fault) in [
        (&[][..], truncated),
        (&[0], truncated),
        (&[0, 0x7f], truncated),
        (&[1, 0], PeerFault::RequiredInsertCount),
        (&[0, 0x80], PeerFault::NegativeBase),
        (&[0, 0, 0x80], PeerFault::DynamicReference),
        (&[0, 0, 0x10], PeerFault::DynamicReference),
        (&[0, 0, 0x40, 1, b'a'], PeerFault::DynamicReference),
        (&[0, 0, 0x60, 1, b'a'], PeerFault::DynamicReference),
        (&[0, 0, 0x00, 1, b'a'], PeerFault::DynamicReference),
        (&[0, 0, 0xff, 36], PeerFault::NoSuchIndex),
        (&[0, 0, 0x5f, 84, 0], PeerFault::NoSuchIndex),
        (&[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], PeerFault::Coding(CodingFault::Integer)),
        (&[0, 0, 0x51], truncated),
        (&[0, 0, 0x51, 2, b'a'], truncated),
        (&[0, 0, 0x22, b'a'], truncated),
        (&[0, 0, 0x51, 0x81, 0xff], PeerFault::Coding(CodingFault::Huffman)),
        (&[0, 0, 0x29, 0xff, 0], PeerFault::Coding(CodingFault::Huffman)),
    ] {
        assert_eq!(decoded(block), Err(fault), "{block:x?}");
    }
    // A Base above 0 needs no entries.
    assert_eq!(decoded(&[0, 5, 0xd1]), Ok(one(":method", "GET", false)));
}

#[test]
fn a_list_above_its_bound_is_refused() {
    let mut block = Vec::new();
    encode([Field::new(b":method", b"GET"), Field::new(b"x", b"y")], &mut block);
    let mut count = 0;
    for (bytes_max, expected) in [(76, Ok(())), (75, Err(PeerFault::FieldsTooLong))] {
        assert_eq!(Decoder::default().decode(&block, bytes_max, |_| count += 1), expected);
    }
    assert_eq!(count, 3);
}

/// Fields that meet those of the table often.
fn list() -> impl Strategy<Value = List> {
    let name = prop_oneof![
        prop::sample::select(vec![b":status".to_vec(), b"date".to_vec(), b"x".to_vec()]),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    let value = prop_oneof![
        prop::sample::select(vec![b"200".to_vec(), b"".to_vec(), b"y".to_vec()]),
        prop::collection::vec(any::<u8>(), 0..60),
    ];
    prop::collection::vec((name, value, any::<bool>()), 0..8)
}

proptest! {
    #[test]
    fn lists_are_decoded_as_they_were_encoded(list in list()) {
        let without_indexed = |list: &List| list.iter().map(|(name, value, _)| (name.clone(), value.clone())).collect::<Vec<_>>();
        let again = decoded(&encoded(&list)).unwrap();
        prop_assert_eq!(without_indexed(&again), without_indexed(&list));
        let never = |list: &List| list.iter().map(|field| field.2).collect::<Vec<_>>();
        prop_assert_eq!(never(&again), never(&list));
    }

    #[test]
    fn random_blocks_do_no_harm(block in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = decoded(&[&[0, 0], &block[..]].concat());
    }
}
