//! The refusals of `plumb report`, and characters that no command prints whatever a run has in it.

use crate::in_process::{made, null_experiment, on_disk, plumb, write};

#[test]
fn a_report_of_nothing_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let nothing = plumb(&["report", path]);
    assert_eq!(nothing.code, 2);
    insta::assert_snapshot!(nothing.err.replace(path, "DIR"), @"error: failed to read a run from DIR: there is no run.json in it");
    write(directory.path(), "run.json", "{");
    let broken = plumb(&["report", path]);
    assert_eq!(broken.code, 5);
    insta::assert_snapshot!(broken.err.replace(path, "DIR"), @"error: failed to read DIR/run.json line 1: EOF while parsing an object at line 1 column 1");
}

#[test]
fn nothing_that_a_terminal_would_obey_is_printed() {
    const HOSTILE: &str = "a\u{1b}[2Jb\u{9b}1mz\u{202e}";
    let directory = tempfile::tempdir().unwrap();
    let text = null_experiment("baseline: a\nvariants: { a: {}, b: {} }")
        .replace("{ name: test }", "{ name: test, title: \"a\\e[2Jb\\0c\\u009b1mz\\u202e\" }");
    let file = write(directory.path(), &format!("{HOSTILE}.yaml"), text);
    let mut run = made::run("x", 1, 1.0);
    HOSTILE.clone_into(&mut run.header.plan.title);
    run.header.plan.variants[1].treatment = HOSTILE.to_owned();
    run.header.host[0].1 = HOSTILE.to_owned();
    run.directory = format!("run{HOSTILE}");
    let path = on_disk(directory.path(), &run);
    let path = path.to_str().unwrap();
    let mut all = vec![plumb(&["check", &file]), plumb(&["check", &file, "--json"])];
    all.push(plumb(&["run", &format!("no{HOSTILE}such")]));
    all.push(plumb(&["run", &file, "--output", path]));
    for format in ["text", "markdown", "html", "json", "junit"] {
        all.push(plumb(&["report", path, "--full", "--format", format]));
    }
    for said in all {
        let obeyed = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
        let text = said.out + &said.err;
        assert!(!text.is_empty() && !text.contains(obeyed), "{text:?}");
    }
}
