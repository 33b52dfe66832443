//! Experiment files that are nearly right: every mistake has a message that can be shown, and a plan survives the run directory.

use std::path::Path;

use plumb_fuzz::Target;

use super::*;

const WORDS: [&str; 24] = [
    "&a ",
    "*a",
    "<<: *a",
    "!!str ",
    "|\n",
    ">-\n",
    "? ",
    "- ",
    "{ ",
    " }",
    "[",
    "]",
    "'",
    "\"",
    ": ",
    "#",
    "---\n",
    "5 s",
    "20%",
    "  matrix: { load.connections: [1, 20] }\n",
    "  until: [threads.http_reqs / software.http_reqs within 5%]\n",
    "  control: true\n",
    "  blocks: 7\n",
    "\t",
];

/// The files that come with the program, besides the example of the tests.
fn files() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../experiments");
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let files = paths.iter().filter(|path| path.extension().is_some_and(|it| it == "yaml"));
    files.map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn fuzz_experiment_files() {
    // The example is what most changes leave valid, so it is there as often as all others.
    let files = files();
    let good = vec![GOOD; files.len()];
    let target = Target::new("fuzz_experiment_files").seeds(files).seeds(good).with_words(WORDS);
    target.run(|bytes| match read_experiment("x.yaml", bytes, &ReadOptions::default(), &paths()) {
        Ok(experiment) => {
            let plan = experiment.plan;
            let text = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan, "what is written is read back");
            let claims = plan.claims.len();
            format!("{} cells, {} variants, {claims} claims", plan.cells.len(), plan.variants.len())
        }
        Err(error) => {
            let plain = error.plain();
            assert!(!plain.is_empty());
            let mut shown = String::new();
            miette::GraphicalReportHandler::new().render_report(&mut shown, &error).unwrap();
            let bytes_max = 20_000 + 4 * bytes.len();
            assert!(shown.len() < bytes_max, "an error of {} bytes", shown.len());
            plain.chars().filter(char::is_ascii_lowercase).take(80).collect()
        }
    });
}
