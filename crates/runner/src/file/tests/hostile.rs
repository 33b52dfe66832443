//! Files that mean harm, or that no person wrote: none may panic, hang or grow.

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
fn a_long_name_is_not_compared_with_all_others() {
    let long = "x".repeat(900_000);
    let text = with("connections: 20", &format!("? {long}\n  : 20")).replace("load: {", "load: {\n  ");
    assert!(message(&text).len() < 2_000);
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read("x", &bytes, &ReadOptions::default(), &families());
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
        let root = crate::file::parse::parse(&text).unwrap();
        for (at, word) in words.iter().enumerate() {
            let scalar = root.get(&format!("k{at}")).unwrap().scalar().unwrap();
            let Some(inset) = scalar.inset else { continue };
            prop_assert_eq!(&text[scalar.span.offset + inset..][..scalar.text.len()], word.as_str());
            prop_assert_eq!(scalar.span.line, at + 1);
        }
    }
}

#[test]
fn tmp_times() {
    let mb = 1 << 20;
    let mut cases: Vec<(String, Vec<u8>)> = Vec::new();
    for piece in [
        "x", "\"", "'", "[", "{", ":", "- ", "? ", "#", "\t", "a: b\n", "&a ", "*a ", "!", "|\n", "%",
        "---\n", "é", "a: \"", ",", "\r", "\0", "}", "\n", " ", "a: 1, ", "\n- a", "'' ", "? a\n", "é: 1\n",
    ] {
        cases.push((format!("{piece:?}"), piece.repeat(mb / piece.len()).into_bytes()));
    }
    cases.push(("10MB".into(), vec![0x80; 10_000_000]));
    cases.push((
        "rand".into(),
        (0..mb as u64).map(|i| (i.wrapping_mul(6364136223846793005) >> 33) as u8).collect(),
    ));
    cases.push((
        "unit".into(),
        with("duration: 5 s", &format!("duration: 5 {}", "x".repeat(900_000))).into_bytes(),
    ));
    cases.push((
        "kind".into(),
        with("kind: embedded", &format!("kind: {}", "x".repeat(900_000))).into_bytes(),
    ));
    cases.push(("path".into(), with("path: http", &format!("path: {}", "x".repeat(900_000))).into_bytes()));
    cases.push(("good".into(), GOOD.as_bytes().to_vec()));
    let keys: String = (0..20_000).map(|i| format!("x{i}: 1, ")).collect();
    cases.push((
        "manykeys".into(),
        with("connections: 20", &format!("connections: 20, headers: {{ {keys} }}")).into_bytes(),
    ));
    cases.push(("unknownkeys".into(), with("connections: 20", &keys).into_bytes()));
    let vs: String = (0..60).map(|i| format!("    v{i}: {{}}\n")).collect();
    let many: Vec<String> = (0..256).map(|value| value.to_string()).collect();
    cases.push((
        "cells".into(),
        with("    software: {}\n", &format!("    software: {{}}\n{vs}"))
            .replace("[20]", &format!("[{}]", many.join(",")))
            .into_bytes(),
    ));
    cases.push((
        "values".into(),
        with(
            "load.connections: [20]",
            &format!(
                "load.connections: [{}]",
                (0..100000).map(|i| i.to_string()).collect::<Vec<_>>().join(",")
            ),
        )
        .into_bytes(),
    ));
    cases.push((
        "manyé".into(),
        with("connections: 20", &format!("connections: 20, headers: {{ é: é, {keys} }}")).into_bytes(),
    ));
    for (name, bytes) in cases {
        let t = std::time::Instant::now();
        let r = read("x", &bytes, &ReadOptions::default(), &families());
        let took = t.elapsed();
        let text = r.as_ref().err().map(|e| {
            let mut s = String::new();
            miette::GraphicalReportHandler::new().render_report(&mut s, e).unwrap();
            (s.len(), e.plain().chars().take(150).collect::<String>())
        });
        println!(
            "{:>8.1} ms, report {:>6.1} ms: {name} {text:?}",
            took.as_secs_f64() * 1e3,
            (t.elapsed() - took).as_secs_f64() * 1e3
        );
    }
}
