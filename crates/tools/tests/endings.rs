//! Texts that end in the middle of a line, and forms of figures that decide what a line means.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::path::Path;

use plumb_model::{Statistic, Unit};
use plumb_tools::{ReadError, ToolRun, read};

fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    std::fs::read_to_string(path).unwrap().replace("\r\n", "\n")
}

fn value(run: &ToolRun, name: &str, statistic: Option<Statistic>) -> Option<f64> {
    run.measurement.readings.get(name)?.number(statistic, run.metric(name)?.unit)
}

fn warns(run: &ToolRun, words: &str) -> bool {
    run.measurement.warnings.iter().any(|warning| warning.contains(words))
}

fn reason(read: Result<Vec<ToolRun>, ReadError>) -> String {
    match read {
        Err(error) => error.to_string(),
        Ok(runs) => {
            runs.iter().find_map(|run| run.failure.clone()).map(|it| it.to_string()).unwrap_or_default()
        }
    }
}

fn k6(lines: &str) -> String {
    format!(
        "     iterations.................: 100    10/s\n{lines}\n     vus_max....................: 10     min=10       max=10\n"
    )
}

#[test]
fn k6_sizes_are_told_by_their_units() {
    let sizes = "     browser_data_received......: 357 kB 58 kB/s\n     sent.......................: 4.9 kB 798 B/s\n     \
                 other......................: 1.8 MB 829 kB/s";
    let run = &read(&k6(sizes)).unwrap()[0];
    let found = ["browser_data_received", "sent", "other"].map(|name| value(run, name, None));
    assert_eq!(found, [Some(357e3), Some(4.9e3), Some(1.8e6)]);
    let run = &read(&k6("     my_gauge...................: 12.5ms min=10ms max=20ms")).unwrap()[0];
    assert_eq!(
        (value(run, "my_gauge", None), run.metric("my_gauge").unwrap().unit),
        (Some(12.5), Unit::Milliseconds)
    );
    for wrong in ["mine.......: 357 apples 58/s", "mine.......: avg=1.5ms min=1 med=2ms"] {
        assert!(reason(read(&k6(wrong))).contains("line 2, column "), "{wrong}");
    }
}

#[test]
fn k6_lines_may_be_missing_unless_the_number_of_iterations_follows() {
    let text = k6("");
    assert!(read(&text).unwrap()[0].open_end.is_some());
    let end = "\nrunning (0m10.0s), 00/10 VUs, 100 complete and 0 interrupted iterations\n";
    assert!(read(&(text.clone() + end)).unwrap()[0].open_end.is_none());
    assert!(read(&(end.to_owned() + &text)).unwrap()[0].open_end.is_some());
}

#[test]
fn a_bad_block_is_a_failed_run_at_its_line() {
    let times = fixture("ab/times.tsv");
    let head = times.lines().next().unwrap();
    let bad = format!("{head}\nThu Nov 26 18:00:00 2026\t1764180000\t1\tx\t3\t2\n");
    let found = read(&format!("One:\n\n```\n{times}```\n\nTwo:\n\n```\n{bad}```\n")).unwrap();
    assert_eq!(found.iter().map(|run| run.failure.is_some()).collect::<Vec<_>>(), [false, true]);
    let line = 4 + times.lines().count() + 4 + 2;
    let failure = found[1].failure.as_ref().unwrap().to_string();
    assert!(failure.contains(&format!("line {line}, column ")), "{failure} {line}");
    let alone = reason(read(&format!("Two:\n\n```\n{bad}```\n")));
    assert!(alone.contains("line 5, column "), "{alone}");
}
