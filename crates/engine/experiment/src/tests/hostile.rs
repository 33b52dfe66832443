//! Malicious and random files: none may panic, hang, or use too much memory.

use proptest::prelude::*;

use super::*;

fn message(text: &str) -> String {
    plan_of(text, &ReadOptions::default()).unwrap_err().plain()
}

#[test]
fn nesting_has_an_end() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        for depth in [100, 1000, 100_000] {
            let text = format!("spec: {}{}", open.repeat(depth), close.repeat(depth));
            assert!(message(&text).contains("nest"), "{open} {depth}: {}", message(&text));
        }
    }
    let indented: String = (0..1000).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert!(message(&indented).contains("nest deeper"));
    assert!(message(&"- ".repeat(100_000)).contains("nest deeper"));
}

#[test]
fn aliases_cannot_multiply_without_end() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        text += &format!("a{level}: &a{level} [{}]\n", [alias.as_str(); 9].join(", "));
    }
    assert!(message(&text).contains("grows too large"));
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(500_000), ["*a"; 1000].join(", "));
    assert!(message(&long).contains("grows too large"));
    let mut deep = "a0: &a0 [[[[[[[[[[x]]]]]]]]]]\n".to_owned();
    for level in 1..10 {
        deep += &format!("a{level}: &a{level} [[[[[[[[[[*a{}]]]]]]]]]]\n", level - 1);
    }
    assert!(message(&deep).contains("nest deeper"));
}

#[test]
fn a_megabyte_of_anything_is_an_error() {
    for piece in [
        "x", "\"", "'", "[", "{", ":", "- ", "? ", "#", "\t", "a: b\n", "&a ", "*a ", "!", "|\n", "%",
        "---\n", "é", "a: \"", ",", "\r", "\0", "}",
    ] {
        let text = piece.repeat((1 << 20) / piece.len());
        let lines = plan_of(&text, &ReadOptions::default()).unwrap_err();
        let mut shown = String::new();
        miette::GraphicalReportHandler::new().render_report(&mut shown, &lines).unwrap();
        assert!(shown.len() < 10_000, "{piece:?}: {} bytes", shown.len());
    }
}

#[test]
fn many_keys_on_one_line_are_read() {
    let keys: String = (0..20_000).map(|key| format!("ä{key}: 1, ")).collect();
    let plan = plan(&with("connections: 20", &format!("connections: 20, headers: {{ {keys} }}")));
    assert_eq!(plan.cells[0].variants[0].settings.matches("ä").count(), 20_000);
}

#[test]
fn a_long_name_is_not_compared_with_all_others() {
    let long = "x".repeat(900_000);
    let text = with("connections: 20", &format!("? {long}\n  : 20")).replace("load: {", "load: {\n  ");
    assert!(message(&text).len() < 2_000);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_experiment("x", &bytes, &ReadOptions::default(), &paths());
    }

    #[test]
    fn no_yaml_like_text_panics(text in "([a-c]|: |- |\\n|  |\\[|\\]|\\{|\\}|\"|'|&a |\\*a |!|\\||>|#|\\?|,|~|\\t|é|---|%|\\\\){0,40}") {
        if let Err(error) = plan_of(&text, &ReadOptions::default()) {
            prop_assert!(!error.mistakes().is_empty());
            let mut shown = String::new();
            miette::GraphicalReportHandler::new().render_report(&mut shown, &error).unwrap();
        }
    }

    #[test]
    fn no_change_of_a_good_file_panics(at in 0..GOOD.len(), length in 0_usize..40, put in "\\PC{0,6}|\\n *|\\t") {
        let end = (at + length).min(GOOD.len());
        let text = format!("{}{put}{}", &GOOD[..at], &GOOD[end..]);
        if let Err(error) = plan_of(&text, &ReadOptions { quick: true, ..ReadOptions::default() }) {
            for mistake in error.mistakes() {
                prop_assert!(mistake.span.offset + mistake.span.length <= text.len());
                prop_assert!(mistake.span.line >= 1 && mistake.span.column >= 1, "{mistake:?}");
            }
        }
    }

    #[test]
    fn every_scalar_stands_where_the_tree_says(words in prop::collection::vec("[a-zß漢]{1,4}", 1..6)) {
        let text: String = words.iter().enumerate().map(|(at, word)| format!("k{at}: {word} # é\n")).collect();
        let root = crate::parse::parse(&text).unwrap();
        for (at, word) in words.iter().enumerate() {
            let scalar = root.get(&format!("k{at}")).unwrap().scalar().unwrap();
            let Some(inset) = scalar.inset else { continue };
            prop_assert_eq!(&text[scalar.span.offset + inset..][..scalar.text.len()], word.as_str());
            prop_assert_eq!(scalar.span.line, at + 1);
        }
    }
}
