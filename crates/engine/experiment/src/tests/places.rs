//! The places of a file's parts, as a reader of an error expects them.

use crate::parse::parse;

#[test]
fn a_part_of_a_text_has_its_own_place_unless_the_file_spells_it_differently() {
    let root = parse("é: 'ä.b'\nc: \"\\u0064.e\"\n").unwrap();
    let plain = root.get("é").unwrap().scalar().unwrap().part(3, 1);
    assert_eq!((plain.offset, plain.length, plain.line, plain.column), (8, 1, 1, 7));
    let escaped = root.get("c").unwrap();
    assert_eq!(escaped.scalar().unwrap().part(2, 1), escaped.span);
}

#[test]
fn a_dotted_key_leads_to_its_place_or_to_the_nearest_one() {
    let root = parse("load:\n  checks: [a, b]\n  rate: 5 /s\n").unwrap();
    let place = |key: &str| {
        let (parts, span) = root.nearest(key);
        span.map(|span| (parts, span.line, span.column, span.length))
    };
    assert_eq!(place("load.rate"), Some((2, 3, 3, 10)));
    assert_eq!(place("load.checks.1"), Some((3, 2, 15, 1)));
    assert_eq!(place("load.checks[0]"), Some((3, 2, 12, 1)));
    assert_eq!(place("load.checks.7"), Some((2, 2, 3, 6)));
    assert_eq!(place("load.tls.version"), Some((1, 1, 1, 4)));
    assert_eq!(place("system"), None);
}

#[test]
fn a_list_or_mapping_is_where_its_first_line_is() {
    let root = parse("a:\n  b: 1\n  c: 2\nd: [1,\n  2]\n").unwrap();
    let span = |key: &str| root.get(key).map(|node| (node.span.line, node.span.column, node.span.length));
    assert_eq!(span("a"), Some((2, 3, 4)));
    assert_eq!(span("d"), Some((4, 4, 3)));
}
