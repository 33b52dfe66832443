//! `plumb ui` and the runs that it starts and stops, which are processes of their own.

#[path = "../../../results/ui/tests/client/mod.rs"]
mod client;

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::common::{
    null_experiment, plumb, run, signal, slots_on_disk, slow_experiment, wait, wait_until, write,
};
use client::{Client, hidden};

/// A page that is served, and ended with the test.
pub struct Page {
    process: Child,
    client: Client,
}

impl Deref for Page {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Page {
    /// Serves a folder.
    pub fn serving(folder: &Path) -> Self {
        Self::with(&[folder.to_str().unwrap()])
    }

    pub fn with(arguments: &[&str]) -> Self {
        let mut process = plumb()
            .arg("ui")
            .args(arguments)
            .env("XDG_DATA_HOME", "/nonexistent")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        Self { client: Client::for_url(&url), process }
    }

    /// The id of the only run, or of the one whose row has that text.
    pub fn id_of(&self, name: &str) -> String {
        wait_until("the run to be listed", || self.find(name).is_some());
        self.find(name).unwrap()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        signal(self.process.id(), "TERM");
        assert!(self.process.wait().unwrap().success(), "it ends as it is asked to");
    }
}

/// A run that is over in a second.
pub fn quick_run(folder: &Path, name: &str) {
    let file = write(
        folder,
        &format!("{name}.yaml"),
        null_experiment(SMALL).replace("name: test", &format!("name: {name}")),
    );
    let directory = folder.join(name);
    let output = run(&[
        "run",
        file.to_str().unwrap(),
        "--quiet",
        "--seed",
        "1",
        "--output",
        directory.to_str().unwrap(),
    ]);
    assert!(output.status.code().is_some_and(|code| code <= 4), "{output:?}");
}

const SMALL: &str = "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 3000 /s } }\nblocks: { min: 6, max: 6 }\n\
    claims: [b.throughput >= 2 * a.throughput]";

/// Slots, and more blocks than a run makes before its test ends it.
pub const ENDLESS: (&str, u32) = ("100 ms", 600);

/// Starts a run of this many blocks, whose slots take this long.
pub fn slow_run(folder: &Path, name: &str, (took, blocks): (&str, u32)) -> Child {
    let text = slow_experiment().replace("name: test", &format!("name: {name}"));
    let text = text
        .replace("100 ms", took)
        .replace("{ min: 6, max: 6 }", &format!("{{ min: {blocks}, max: {blocks} }}"));
    let file = write(folder, &format!("{name}.yaml"), text);
    let directory = folder.join(name);
    let child = plumb()
        .args([
            "run",
            file.to_str().unwrap(),
            "--quiet",
            "--seed",
            "1",
            "--output",
            directory.to_str().unwrap(),
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the run to begin", || directory.join("run.json").exists());
    child
}

#[test]
fn the_page_stops_a_run_when_its_own_form_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = slow_run(folder.path(), "live", ENDLESS);
    let page = Page::serving(folder.path());
    let id = page.id_of("live");
    let stop = format!("/runs/{id}/stop");
    let form = format!("form={}", page.form_token(&stop));
    assert_eq!(page.post(&stop, "form=guessed").status, 403);
    assert!(child.try_wait().unwrap().is_none(), "the run goes on");
    let answer = page.post(&stop, &form);
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some(&*format!("/runs/{id}"))),
        "{answer:?}"
    );
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(!folder.path().join("live/now.json").exists(), "a run that is over does nothing now");
    assert!(page.get(&format!("/runs/{id}")).body.contains("--resume"), "it can be continued");
    assert_eq!(page.post(&stop, &form).status, 400, "nothing writes it any more");
}

#[test]
fn a_killed_run_says_so_and_how_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = slow_run(folder.path(), "killed", ENDLESS);
    let directory = folder.path().join("killed");
    wait_until("a slot", || slots_on_disk(&directory) >= 1);
    let page = Page::serving(folder.path());
    let id = page.id_of("killed");
    assert!(page.get("/").body.contains("</span>running<"));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the page to see it", || page.get("/").body.contains("</span>killed<"));
    let shown = page.get(&format!("/runs/{id}"));
    assert!(shown.body.contains(&format!("plumb run --resume {}", directory.display())), "{}", shown.body);
    assert!(page.get("/?state=killed").body.contains(&id) && !page.get("/?state=running").body.contains(&id));
}

#[test]
fn a_run_is_started_and_repeated() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "mine.yaml", null_experiment(SMALL));
    write(folder.path(), "wrong.yaml", null_experiment("nonsense: 1"));
    let page = Page::serving(folder.path());
    let offered = page.get("/start").body;
    assert!(offered.contains("mine.yaml") && offered.contains("value=\"tls-cost\""), "{offered}");
    let form = format!("form={}", page.form_token("/start"));
    let file = |name: &str| folder.path().join(name).display().to_string().replace('/', "%2F");
    let begun = page.post("/start", &format!("{form}&experiment={}&blocks=6", file("mine.yaml")));
    assert_eq!(begun.status, 303, "{begun:?}");
    let run_page = begun.header("location").unwrap().to_owned();
    wait_until("the run to end", || page.get(&run_page).body.contains("Repeat…"));
    let asked = page.get(&format!("{run_page}/repeat"));
    assert!(
        asked.body.contains("b.throughput &gt;= 2 * a.throughput"),
        "it shows what would run: {}",
        asked.body
    );
    let shown = format!("{form}&digest={}", hidden(&asked.body, "digest"));
    let again = page.post(&format!("{run_page}/repeat"), &shown);
    assert_eq!(again.status, 303, "{again:?}");
    assert_ne!(again.header("location"), Some(&*run_page));
    let wrong = page.post("/start", &format!("{form}&experiment={}", file("wrong.yaml")));
    assert_eq!(wrong.status, 400);
    assert!(wrong.body.contains("nonsense"), "what plumb run said is shown: {}", wrong.body);
    for bad in
        ["experiment=%2Fetc%2Fpasswd", "experiment=nothing", "experiment=--help", "experiment=null&blocks=1"]
    {
        assert_eq!(page.post("/start", &format!("{form}&{bad}")).status, 400, "{bad}");
    }
    let left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().flatten().filter(|entry| entry.path().is_dir()).collect();
    wait_until("both runs to end", || left.iter().all(|entry| entry.path().join("junit.xml").exists()));
    assert_eq!(left.len(), 2, "a run that did not begin leaves nothing: {left:?}");
}

/// The addresses of the series that a page links to.
pub fn series_of(page: &str) -> Vec<String> {
    page.split("href=\"/series/")
        .skip(1)
        .map(|rest| format!("/series/{}", rest.split('"').next().unwrap()))
        .collect()
}
