//! Plans as `plumb check` shows them, and the files that it refuses.

use crate::in_process::{Said, experiment, null_experiment, plumb, write};

/// Checks an experiment in a file that is called `x.yaml`.
fn checked(text: impl AsRef<[u8]>) -> Said {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "x.yaml", text);
    let said = plumb(&["check", &file, "--seed", "1"]);
    Said { err: said.err.replace(&file, "x.yaml"), ..said }
}

#[test]
fn a_plan_has_its_cells_its_variants_its_claims_and_its_duration() {
    let said = checked(null_experiment(
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 3000 /s } }\nmatrix: { system.latency: [5 ms, 8 ms] }\n\
         blocks: { min: 6, max: 20 }\nclaims: [b.throughput >= 2 * a.throughput]",
    ));
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    insta::assert_snapshot!(said.out, @r"
    test
    data path null, seed 1, 6 to 20 blocks, window 1.00 s after 0.00 s of warm-up

    cell 1: system.latency=5 ms
      + a  the baseline
      + b  throughput: 3000 /s

    cell 2: system.latency=8 ms
      + a  the baseline
      + b  throughput: 3000 /s

      ? b.throughput >= 2 * a.throughput

    It would take 48 s to 3 min.
    ");
}

#[test]
fn a_plan_says_a_duration_once_and_a_title_beside_its_name() {
    let titled = |title: &str, blocks: &str| {
        let text =
            null_experiment(&format!("baseline: a\nvariants: {{ a: {{}}, b: {{}} }}\nblocks: {blocks}"));
        checked(text.replace("{ name: test }", &format!("{{ name: test{title} }}"))).out
    };
    let fixed = titled(", title: Is b faster?", "6");
    assert!(fixed.starts_with("test — Is b faster?\n"), "{fixed}");
    assert!(fixed.ends_with("\nIt would take 24 s.\n"), "{fixed}");
    let alike = titled("", "{ min: 60, max: 61 }");
    assert!(alike.starts_with("test\n") && alike.ends_with("\nIt would take 4 min.\n"), "{alike}");
}

#[test]
fn trials_that_are_short_for_a_limit_are_named() {
    let of = |limit: &str| {
        let load = format!("load: {{ capacity: {{ objective: [p99 < {limit}] }} }}\nbaseline: a\n");
        checked(null_experiment(&format!("{load}variants: {{ a: {{}}, b: {{}} }}"))).out
    };
    assert!(!of("10 ms").contains("short"), "{}", of("10 ms"));
    let long = of("500 ms");
    assert!(long.contains("\n! trials of 1.00 s are short for a limit of 500 ms"), "{long}");
    let quick = "\n! with --quick, each trial takes 1 s because of the long limit, and the run may not end within 90 s\n";
    assert!(!of("10 ms").contains("--quick") && long.contains(quick), "{long}");
}

#[test]
fn a_number_alone_is_shown_with_its_unit() {
    let said = checked(null_experiment(
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 3000, latency: 0.5 } }\nmatrix: { load.duration: [2] }\n\
         claims: [b.throughput >= 2 * a.throughput]",
    ));
    assert!(said.out.contains("cell 1: load.duration=2 s\n"), "{said:?}");
    assert!(said.out.contains("  + b  throughput: 3000 /s, latency: 500 ms\n"), "{said:?}");
}

/// Every one ends with exit code 2 and one message that names file, line and column.
#[test]
fn malformed_files_are_refused_with_their_place() {
    let valid =
        null_experiment("baseline: a\nvariants: { a: {}, b: {} }\nclaims: [b.throughput > a.throughput]");
    let with = |from: &str, to: &str| valid.replacen(from, to, 1);
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("unknown key", with("baseline: a", "baseline: a\n  basline: b").into(), "basline"),
        ("unknown setting", with("a: {}", "a: { system: { noize: 5% } }").into(), "did you mean `noise`?"),
        ("wrong unit", with("a: {}", "a: { system: { latency: 5 MB } }").into(), "a duration such as"),
        ("no unit", with("a: {}", "a: { system: { noise: 5 } }").into(), "has no unit"),
        ("no such unit", with("a: {}", "a: { system: { latency: 5 sec } }").into(), "did you mean `s`?"),
        ("claim on an unknown variant", with("[b.", "[c.").into(), "no variant is named `c`"),
        (
            "claim on an unknown metric",
            with("[b.throughput", "[b.thruput").into(),
            "did you mean `throughput`?",
        ),
        (
            "claim on a bare trend",
            with("[b.throughput > a.throughput", "[b.latency > a.latency").into(),
            "statistic",
        ),
        ("claim without a relation", with(" > a.throughput", "").into(), "needs a relation"),
        ("tab", with("  baseline", "\tbaseline").into(), "tab"),
        ("duplicate key", with("baseline: a", "baseline: a\n  baseline: b").into(), "baseline"),
        ("empty", Vec::new(), "empty"),
        ("only a comment", b"# nothing\n".to_vec(), "empty"),
        ("2 MiB of anything", vec![b'x'; 2 << 20], "1 MiB"),
        ("binary", (0..=255).cycle().take(4096).collect(), ""),
        ("wrong version", with("v1alpha1", "v9").into(), "plumbline.dev/v1alpha1"),
        ("wrong kind", with("kind: Experiment", "kind: Deployment").into(), "Experiment"),
        ("unknown path", with("path: \"null\"", "path: htttp").into(), "did you mean `http`?"),
        ("missing baseline", with("  baseline: a\n", "").into(), "baseline"),
        ("baseline that is not a variant", with("baseline: a", "baseline: z").into(), "z"),
        ("list for a map", with("{ a: {}, b: {} }", "[a, b]").into(), ""),
        ("unterminated quote", with("path: \"null\"", "path: \"null").into(), ""),
        (
            "blocks below two",
            with("baseline: a", "baseline: a\n  blocks: { min: 1, max: 5 }").into(),
            "blocks",
        ),
        ("enum value", with("a: {}", "a: { system: { fail: sometimes } }").into(), "sometimes"),
    ];
    for (what, bytes, part) in cases {
        let said = checked(bytes);
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{what}: {said:?}");
        let (_, place) = said.err.split_once("x.yaml:").unwrap_or_else(|| panic!("{what}: {said:?}"));
        let mut numbers = place.split(':').map(|number| number.parse::<u32>().unwrap_or(0));
        assert!(numbers.next() >= Some(1) && numbers.next() >= Some(1), "{what}: {said:?}");
        assert!(said.err.contains(part), "{what}: {said:?}");
    }
}

#[test]
fn a_claim_on_a_time_without_the_handshake_is_noted_where_every_request_has_one() {
    let said = |reuse: &str| {
        let spec = format!(
            "load: {{ reuse: {reuse} }}\nbaseline: a\nvariants:\n  a: {{}}\n  b: {{ system: {{ ingress: {{ threads: 2 }} }} }}\n\
             claims: [b.http_req_duration.p95 < a.http_req_duration.p95]"
        );
        let said = checked(experiment("http", &spec));
        assert_eq!(said.code, 0, "{said:?}");
        said.out
    };
    let noted = said("none");
    let lines: Vec<&str> = noted.lines().skip_while(|line| !line.contains(" ? ")).take(2).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    ? b.http_req_duration.p95 < a.http_req_duration.p95
      http_req_duration excludes connecting and TLS, which `reuse: none` needs for every request. A wait that moves into the handshake looks like a gain. iteration_duration includes all of it
    ");
    assert!(!said("keep-alive").contains("excludes"));
}
