//! The examples of RFC 7541, appendix C, and properties of both directions.

use proptest::prelude::*;

use super::{Decoder, Encoder, Field, Indexing, Repeated, replayable};
use crate::coding::CodingFault;
use crate::error::PeerFault;

/// Names, values and what they leave in the tables.
type List = Vec<(Vec<u8>, Vec<u8>, Indexing)>;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<List, PeerFault> {
    let mut list = List::new();
    decoder.decode(block, 1 << 20, |field| {
        list.push((field.name.to_vec(), field.value.to_vec(), field.indexing));
    })?;
    Ok(list)
}

fn text(list: &List) -> String {
    let line = |(name, value, _): &(Vec<u8>, Vec<u8>, Indexing)| {
        format!("{}: {}\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
    };
    list.iter().map(line).collect()
}

fn fields(list: &List) -> Vec<Field<'_>> {
    list.iter().map(|(name, value, indexing)| Field { name, value, indexing: *indexing }).collect()
}

/// A block, its fields, and the size and the number of the entries after it.
type Example = (&'static str, &'static str, (usize, usize));

/// Decodes the blocks of one connection one after the other.
fn check(table_bytes_max: u32, examples: &[Example]) -> Vec<(Vec<u8>, List)> {
    let mut decoder = Decoder::new();
    decoder.table.resize(table_bytes_max as usize);
    let mut decoded = Vec::new();
    for (hex, expected, measures) in examples {
        let block = bytes(hex);
        let list = decode(&mut decoder, &block).unwrap();
        assert_eq!(text(&list), *expected, "{hex}");
        assert_eq!(decoder.table.measures(), *measures, "{hex}");
        decoded.push((block, list));
    }
    decoded
}

/// As [`check`], and the encoder writes the same blocks.
fn check_both(table_bytes_max: u32, examples: &[Example]) {
    let mut encoder = Encoder::new();
    encoder.set_table_size(table_bytes_max);
    // The examples take the size of the table as agreed before.
    encoder.begin_block(&mut Vec::new());
    for (block, list) in check(table_bytes_max, examples) {
        let mut out = Vec::new();
        encoder.encode(fields(&list), &mut out);
        // The RFC prefers Huffman also where it saves nothing, as in "307", and this encoder does not.
        if !block.windows(3).any(|bytes| bytes == [0x64, 0x0e, 0xff]) {
            assert_eq!(out, block, "{}", text(&list));
        }
    }
}

#[test]
fn single_fields_of_appendix_c_2() {
    check(
        4096,
        &[(
            "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572",
            "custom-key: custom-header\n",
            (55, 1),
        )],
    );
    let without = check(4096, &[("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n", (0, 0))]);
    assert_eq!(without[0].1[0].2, Indexing::Without);
    let never = check(4096, &[("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n", (0, 0))]);
    assert_eq!(never[0].1[0].2, Indexing::Never);
    check(4096, &[("82", ":method: GET\n", (0, 0))]);
}

const REQUESTS: [&str; 3] = [
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n",
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n",
    ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n",
];

#[test]
fn requests_of_appendix_c_3_and_c_4() {
    check(
        4096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", REQUESTS[0], (57, 1)),
            ("8286 84be 5808 6e6f 2d63 6163 6865", REQUESTS[1], (110, 2)),
            (
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
                REQUESTS[2],
                (164, 3),
            ),
        ],
    );
    check_both(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", REQUESTS[0], (57, 1)),
            ("8286 84be 5886 a8eb 1064 9cbf", REQUESTS[1], (110, 2)),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", REQUESTS[2], (164, 3)),
        ],
    );
}

const RESPONSES: [&str; 3] = [
    ":status: 302\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n",
    ":status: 307\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n",
    ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\nlocation: https://www.example.com\n\
     content-encoding: gzip\nset-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n",
];

#[test]
fn responses_of_appendix_c_5_and_c_6() {
    check(
        256,
        &[
            (
                "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 \
                 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                RESPONSES[0],
                (222, 4),
            ),
            ("4803 3330 37c1 c0bf", RESPONSES[1], (222, 4)),
            (
                "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a \
                 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d \
                 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31",
                RESPONSES[2],
                (215, 3),
            ),
        ],
    );
    check_both(
        256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
                 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                RESPONSES[0],
                (222, 4),
            ),
            ("4883 640e ffc1 c0bf", RESPONSES[1], (222, 4)),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d \
                 d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 \
                 3d50 07",
                RESPONSES[2],
                (215, 3),
            ),
        ],
    );
}

#[test]
fn blocks_that_break_the_rules_are_refused() {
    for (hex, fault) in [
        ("80", PeerFault::NoSuchIndex),
        ("be", PeerFault::NoSuchIndex),
        ("7f8080 8080 8000", CodingFault::Integer.into()),
        ("82 41", CodingFault::Truncated.into()),
        ("41 05 61", CodingFault::Truncated.into()),
        ("41 82 1f ff", CodingFault::Huffman.into()),
        ("3f e2 1f", PeerFault::TableSizeTooLarge),
        ("82 20", PeerFault::TableSizeLate),
    ] {
        assert_eq!(decode(&mut Decoder::new(), &bytes(hex)), Err(fault), "{hex}");
    }
}

#[test]
fn a_lower_limit_is_acknowledged_by_the_next_block() {
    let mut decoder = Decoder::new();
    decoder.set_table_size(100);
    assert_eq!(decode(&mut decoder, &bytes("82")), Err(PeerFault::TableSizeMissing));
    let mut encoder = Encoder::new();
    encoder.set_table_size(20);
    encoder.set_table_size(100);
    let mut block = Vec::new();
    encoder.encode([Field::new(b":method", b"GET")], &mut block);
    assert_eq!(block, bytes("34 3f45 82"));
    decode(&mut decoder, &block).unwrap();
    // Only once, and a higher limit needs no acknowledgement.
    decoder.set_table_size(4096);
    decode(&mut decoder, &bytes("82")).unwrap();
    block.clear();
    encoder.begin_block(&mut block);
    assert_eq!(block, []);
}

#[test]
fn a_list_above_its_bound_leaves_a_usable_decoder() {
    let mut decoder = Decoder::new();
    let mut seen = 0;
    let block = bytes("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d");
    assert_eq!(decoder.decode(&block, 120, |_| seen += 1), Err(PeerFault::FieldsTooLong));
    assert_eq!((seen, decoder.table.measures()), (2, (57, 1)));
    assert_eq!(text(&decode(&mut decoder, &[0xbe]).unwrap()), ":authority: www.example.com\n");
}

#[test]
fn a_replayable_block_leaves_nothing_behind() {
    let request = [
        Field::new(b":method", b"GET"),
        Field::new(b":path", b"/a"),
        Field::new(b"user-agent", b"plumbline"),
        Field { indexing: Indexing::Never, ..Field::new(b"authorization", b"Basic x") },
    ];
    let block = replayable(request);
    let mut decoder = Decoder::new();
    for _ in 0..3 {
        let list = decode(&mut decoder, &block).unwrap();
        assert_eq!(text(&list), ":method: GET\n:path: /a\nuser-agent: plumbline\nauthorization: Basic x\n");
        assert_eq!(list[3].2, Indexing::Never);
    }
    assert_eq!(decoder.table.measures(), (0, 0));
}

#[test]
fn a_repeated_block_is_a_byte_for_each_field_where_the_table_holds_them() {
    let request = [
        Field::new(b":method", b"GET"),
        Field::new(b":path", b"/a"),
        Field::new(b"user-agent", b"plumbline"),
        Field::new(b"x", b"a header of the user"),
    ];
    let block = Repeated::new(request);
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    let mut lengths = Vec::new();
    // The entries have 39 + 51 + 53 bytes.
    for size in [4096, 4096, 4096, 143, 142, 142, 4096, 4096, 0, 4096] {
        encoder.set_table_size(size);
        decoder.set_table_size(size);
        let mut sent = Vec::new();
        let again = encoder.repeat(&block, &mut sent);
        lengths.push(again.len());
        sent.extend_from_slice(again);
        let list = decode(&mut decoder, &sent).unwrap();
        assert_eq!(text(&list), ":method: GET\n:path: /a\nuser-agent: plumbline\nx: a header of the user\n");
    }
    let (literal, first) = (lengths[4], lengths[0]);
    assert_eq!(lengths, [first, 4, 4, 4, literal, literal, first, 4, literal, first]);
}

/// SETTINGS may change the size twice before a request.
#[test]
fn a_table_that_was_small_for_a_moment_has_lost_the_entries_of_a_repeated_block() {
    let block = Repeated::new([Field::new(b"x", b"y")]);
    let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
    for sizes in [[4096, 4096], [0, 4096]] {
        sizes.iter().for_each(|size| encoder.set_table_size(*size));
        sizes.iter().for_each(|size| decoder.set_table_size(*size));
        let mut sent = Vec::new();
        let again = encoder.repeat(&block, &mut sent);
        sent.extend_from_slice(again);
        assert_eq!(text(&decode(&mut decoder, &sent).unwrap()), "x: y\n");
    }
}

fn indexing() -> impl Strategy<Value = Indexing> {
    prop::sample::select(vec![Indexing::Incremental, Indexing::Without, Indexing::Never])
}

/// Fields that meet those of the tables often.
fn list() -> impl Strategy<Value = List> {
    let name = prop_oneof![
        prop::sample::select(vec![b":status".to_vec(), b"date".to_vec(), b"x".to_vec()]),
        prop::collection::vec(any::<u8>(), 0..20),
    ];
    let value = prop_oneof![
        prop::sample::select(vec![b"200".to_vec(), b"".to_vec(), b"y".to_vec()]),
        prop::collection::vec(any::<u8>(), 0..60),
    ];
    prop::collection::vec((name, value, indexing()), 0..8)
}

proptest! {
    #[test]
    fn lists_are_decoded_as_they_were_encoded(blocks in prop::collection::vec((list(), prop::option::of(0..5000_u32)), 0..12)) {
        let (mut encoder, mut decoder) = (Encoder::new(), Decoder::new());
        for (list, size) in blocks {
            if let Some(size) = size {
                encoder.set_table_size(size);
                decoder.set_table_size(size);
            }
            let mut block = Vec::new();
            encoder.encode(fields(&list), &mut block);
            let decoded = decode(&mut decoder, &block).unwrap();
            let plain = |list: &List| list.iter().map(|(name, value, _)| (name.clone(), value.clone())).collect::<Vec<_>>();
            prop_assert_eq!(plain(&decoded), plain(&list));
            let never = |list: &List| list.iter().filter(|field| field.2 == Indexing::Never).count();
            prop_assert_eq!(never(&decoded), never(&list));
            prop_assert_eq!(encoder.table.measures(), decoder.table.measures());
        }
    }

    #[test]
    fn random_blocks_do_no_harm(blocks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..5)) {
        let mut decoder = Decoder::new();
        for block in blocks {
            let _ = decode(&mut decoder, &block);
            prop_assert!(decoder.table.measures().0 <= 4096);
        }
    }
}
