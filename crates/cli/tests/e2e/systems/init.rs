//! What `plumb init` writes, run on systems of this machine.

use std::path::Path;

use super::ingresses::small_server;
use super::network::Server;
use crate::common::{code, measured_slots, run, slots_on_disk, stderr, write};

/// Each file runs as it was written; how it is judged depends on the host.
#[test]
fn what_init_writes_runs_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let targets = ["a", "b"].map(|name| write(directory.path(), name, vec![1; 16 << 20]));
    let [first, second] = targets.each_ref().map(|target| target.to_str().unwrap());
    let url = |port: u16| format!("http://127.0.0.1:{port}/");
    let urls = [url(small_server()), url(small_server())];
    let servers = [Server::start(), Server::start()];
    let forms: [&[&str]; 5] = [
        &["--external", &urls[0], &urls[1]],
        &["--storage", first, second],
        &["--network", &servers[0].address, &servers[1].address],
        &["--migration"],
        &["--crypto"],
    ];
    // Nothing here depends on how fast it is, so they run at the same time.
    std::thread::scope(|scope| {
        for (at, form) in forms.into_iter().enumerate() {
            let directory = directory.path();
            scope.spawn(move || runs_unchanged(form, &directory.join(at.to_string())));
        }
    });
}

fn runs_unchanged(form: &[&str], output: &Path) {
    let file = output.with_extension("yaml");
    let file = file.to_str().unwrap();
    let written = run(&[&["init"][..], form, &["--file", file]].concat());
    assert_eq!(code(&written), 0, "{}", stderr(&written));
    let short = ["--quick", "--blocks", "2", "--output", output.to_str().unwrap()];
    let ran = run(&[&["run", file][..], &short].concat());
    assert!([0, 1, 3, 4].contains(&code(&ran)), "{form:?}: {}: {}", code(&ran), stderr(&ran));
    assert_eq!(slots_on_disk(output), 8, "{form:?}");
    assert!(!measured_slots(output).is_empty(), "{form:?}: {}", stderr(&ran));
}
