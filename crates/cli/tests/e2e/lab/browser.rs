//! The page in a real browser, Debian's chromium, by its WebDriver: every view, in light and dark and on a narrow screen, by keyboard
//! alone, and a run that is followed to its end, through a cut connection, and to its death.
//!
//! axe-core looks for what keeps people out (WCAG 2.2 AA). `PLUMB_SCREENSHOTS=DIR` keeps a picture of every view.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{signal, skip, slots_on_disk, wait, wait_until};
use crate::history::recorded;
use crate::ui::{ENDLESS, Page, quick_run, series_of, slow_run};

/// The name of an element in WebDriver's answers (W3C WebDriver, section 11).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
const FLAGS: [&str; 11] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    // What the test puts between the browser and the page.
    "--host-resolver-rules=MAP localhost 127.0.0.2",
];

/// A browser with a fresh profile.
struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one; `None`, after saying so, where there is none.
    fn start() -> Option<Self> {
        let Ok(mut driver) =
            Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
        else {
            skip("there is no chromedriver");
            return None;
        };
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines().map(Result::unwrap);
        let port = lines.filter_map(|line| {
            let (_, rest) = line.split_once("started successfully on port ")?;
            rest.trim_end_matches('.').parse::<u16>().ok()
        });
        let port = port.take(1).next().expect("chromedriver says its port");
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(120)))
            .build();
        let profile = tempfile::tempdir().unwrap();
        let flags: Vec<String> = FLAGS
            .iter()
            .map(|flag| (*flag).to_owned())
            .chain([format!("--user-data-dir={}", profile.path().display())])
            .collect();
        let mut browser = Self {
            driver,
            agent: config.into(),
            session: format!("http://127.0.0.1:{port}/session"),
            _profile: profile,
        };
        let options = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": { "args": flags }, "goog:loggingPrefs": { "browser": "ALL" },
        } } });
        let id = browser.ask("", options)["sessionId"].as_str().expect("a session begins").to_owned();
        browser.session = format!("{}/{id}", browser.session);
        browser.width(1280);
        Some(browser)
    }

    fn ask(&self, path: &str, body: Value) -> Value {
        let answer = self.agent.post(format!("{}{path}", self.session)).send(body.to_string());
        let text = answer.unwrap().body_mut().read_to_string().unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(value["value"]["error"].is_null(), "{path}: {text:.2000}");
        value["value"].clone()
    }

    fn cdp(&self, command: &str, parameters: Value) {
        self.ask("/goog/cdp/execute", json!({ "cmd": command, "params": parameters }));
    }

    fn go(&self, url: &str) {
        self.ask("/url", json!({ "url": url }));
    }

    fn script(&self, script: &str) -> Value {
        self.ask("/execute/sync", json!({ "script": script, "args": [] }))
    }

    fn text(&self, script: &str) -> String {
        self.script(script).as_str().unwrap_or_default().to_owned()
    }

    /// Presses keys wherever the focus is.
    fn press(&self, keys: &str) {
        let actions: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key.to_string() }))
            })
            .collect();
        self.ask("/actions", json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": actions }] }));
    }

    fn width(&self, width: u32) {
        let size = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        self.cdp("Emulation.setDeviceMetricsOverride", size);
    }

    fn scheme(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.cdp("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Keeps a picture of the whole page, where somebody wants one.
    fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("PLUMB_SCREENSHOTS").map(PathBuf::from) else { return };
        fs::create_dir_all(&folder).unwrap();
        let shot = json!({ "cmd": "Page.captureScreenshot", "params": { "captureBeyondViewport": true } });
        let data = self.ask("/goog/cdp/execute", shot)["data"].as_str().unwrap().to_owned();
        let mut decoder = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(fs::File::create(folder.join(format!("{name}.png"))).unwrap())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut decoder.stdin.take().unwrap(), data.as_bytes()).unwrap();
        decoder.wait().unwrap();
    }

    /// What the browser complains of: what the policy forbade, what could not be loaded, what a script threw.
    fn complaints(&self) -> Vec<String> {
        let log = self.ask("/se/log", json!({ "type": "browser" }));
        let entries = log.as_array().unwrap().iter();
        entries.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// What axe-core finds, in lines.
    fn barriers(&self, axe: &str) -> Vec<String> {
        self.ask("/execute/sync", json!({ "script": axe, "args": [] }));
        let found = self.ask("/execute/async", json!({ "args": [], "script":
            "const done = arguments[arguments.length - 1];
             const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
             axe.run(document, { runOnly: tags, resultTypes: ['violations'] }).then(
               (found) => done(found.violations.map((it) => it.id + ': ' + it.nodes.slice(0, 3).map((node) => node.html.slice(0, 200) + ' ' + node.failureSummary).join(' | '))),
               (error) => done(['axe failed: ' + error]));" }));
        found.as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The session's browser ends with its driver, once it was asked to.
        let _ = self.agent.delete(&self.session).call();
        signal(self.driver.id(), "TERM");
        let _ = self.driver.wait();
    }
}

fn axe() -> Option<String> {
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    let file = home.join(".cache/plumb-tests/node_modules/axe-core/axe.min.js");
    match fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(_) => {
            skip("there is no axe-core in ~/.cache/plumb-tests");
            None
        }
    }
}

fn welcome(browser: &Browser, page: &Page) {
    browser.go(&format!("http://{}/?token={}", page.authority, page.token));
    assert_eq!(
        browser.text("return location.href"),
        format!("http://{}/", page.authority),
        "the token is gone from the address"
    );
}

/// What a view is called in pictures, and its address.
fn views(page: &Page, folder: &Path) -> Vec<(&'static str, String)> {
    let (one, two) = (page.id_of("one"), page.id_of("two"));
    let mut killed = slow_run(folder, "killed", ENDLESS);
    wait_until("a slot", || slots_on_disk(&folder.join("killed")) >= 2);
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until("the page to see it", || page.get("/").body.contains("</span>killed<"));
    let killed = page.id_of("killed");
    vec![
        ("runs", "/".to_owned()),
        ("runs-none", "/?q=nothing-like-it".to_owned()),
        ("finished", format!("/runs/{one}")),
        ("killed", format!("/runs/{killed}")),
        ("choose", "/compare".to_owned()),
        ("compare", format!("/compare?run={one}&run={two}")),
        ("hosts", "/hosts".to_owned()),
        ("start", "/start".to_owned()),
        ("repeat", format!("/runs/{one}/repeat")),
        ("stop", format!("/runs/{one}/stop")),
        ("history", "/history".to_owned()),
        ("recorded", "/history?experiment=x".to_owned()),
        ("series", series_of(&page.get("/history?experiment=x").body).remove(0)),
        ("error", "/nowhere".to_owned()),
    ]
}

#[test]
fn every_view_is_for_everybody_in_light_and_dark_and_on_a_narrow_screen() {
    let (Some(axe), Some(browser)) = (axe(), Browser::start()) else { return };
    let folder = tempfile::tempdir().unwrap();
    quick_run(folder.path(), "one");
    quick_run(folder.path(), "two");
    let kept = tempfile::tempdir().unwrap();
    let database = recorded(kept.path());
    let page = Page::with(&["--database", database.to_str().unwrap(), folder.path().to_str().unwrap()]);
    welcome(&browser, &page);
    let mut found = Vec::new();
    for (name, path) in views(&page, folder.path()) {
        for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 360)] {
            browser.width(width);
            browser.scheme(scheme);
            browser.go(&format!("http://{}{path}", page.authority));
            found.extend(
                browser.barriers(&axe).into_iter().map(|line| format!("{name} {scheme} {width}: {line}")),
            );
            let across = browser.script("return document.documentElement.scrollWidth").as_u64().unwrap();
            if across > u64::from(width) {
                found.push(format!("{name} {width}: the page is {across} pixels wide"));
            }
            browser.picture(&format!("{name}-{scheme}-{width}"));
        }
        let light_or_dark = "return getComputedStyle(document.body).backgroundColor";
        let light = browser.text(light_or_dark);
        browser.scheme("dark");
        assert_ne!(light, browser.text(light_or_dark), "{name} has a dark form");
    }
    let complaints: Vec<String> = browser
        .complaints()
        .into_iter()
        .filter(|line| !line.contains("/nowhere - Failed to load resource"))
        .collect();
    assert!(found.is_empty() && complaints.is_empty(), "{}\n{}", found.join("\n"), complaints.join("\n"));
}

#[test]
fn the_page_is_used_by_keyboard_alone() {
    const TAB: &str = "\u{e004}";
    const ENTER: &str = "\u{e007}";
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    quick_run(folder.path(), "one");
    quick_run(folder.path(), "two");
    let page = Page::serving(folder.path());
    let first = format!("/runs/{}", page.id_of("one"));
    welcome(&browser, &page);
    let focus = || {
        browser.text("return document.activeElement.textContent + '|' + (document.activeElement.id || '')")
    };
    browser.press(TAB);
    assert_eq!(focus(), "Skip to the content|");
    browser.press(ENTER);
    assert_eq!(browser.text("return document.activeElement.id"), "main");
    let reach = |wanted: &str| {
        for _ in 0..40 {
            browser.press(TAB);
            assert_ne!(
                browser.text("return getComputedStyle(document.activeElement).outlineStyle"),
                "none",
                "{}",
                focus()
            );
            if focus().contains(wanted) {
                return;
            }
        }
        panic!("{wanted} is not reached");
    };
    reach("|q");
    browser.press("one");
    browser.press(ENTER);
    wait_until("the search", || browser.text("return location.search").contains("q=one"));
    reach("one|");
    browser.press(ENTER);
    wait_until("the report", || browser.text("return document.title").contains("(complete)"));
    reach("Repeat…");
    browser.press(ENTER);
    wait_until("the question", || browser.text("return document.title").contains("Repeat this run?"));
    reach("Start it");
    browser.press(ENTER);
    let path = "return location.pathname";
    wait_until("the new run", || {
        let path = browser.text(path);
        path.starts_with("/runs/") && !path.starts_with(&first)
    });
    wait_until("its end", || browser.text("return document.title").contains("complete"));
    let mut slow = slow_run(folder.path(), "slow", ENDLESS);
    browser.go(&format!("http://{}/runs/{}", page.authority, page.id_of("slow")));
    reach("Stop this run…");
    browser.press(ENTER);
    reach("Stop the run");
    browser.press(ENTER);
    wait_until("the run to be stopped", || slow.try_wait().unwrap().is_some());
}

#[test]
fn a_run_is_followed_to_its_end_through_a_cut_connection() {
    let (Some(axe), Some(browser)) = (axe(), Browser::start()) else { return };
    let folder = tempfile::tempdir().unwrap();
    // Long enough to be watched and cut off.
    let run = slow_run(folder.path(), "live", ("500 ms", 6));
    let directory = folder.path().join("live");
    let page = Page::serving(folder.path());
    let id = page.id_of("live");
    let between = Between::at(&page.authority);
    let port = page.authority.rsplit(':').next().unwrap();
    browser.go(&format!("http://localhost:{port}/?token={}", page.token));
    browser.go(&format!("http://localhost:{port}/runs/{id}"));
    let slots =
        || browser.text("return document.querySelector('article').dataset.slots || ''").parse().unwrap_or(0);
    wait_until("a slot to be told", || slots() >= 1);
    assert!(browser.text("return document.title").contains("running: live"));
    // A table that its reader opened stays open, and the focus where it is.
    browser.script("const table = document.querySelector('#part-slots details'); table.open = true; table.querySelector('summary').focus()");
    let before: usize = slots();
    between.cut();
    wait_until("the browser to come back", || slots() > before && between.connections() > 0);
    assert_eq!(browser.barriers(&axe), Vec::<String>::new());
    browser.picture("live-light-1280");
    let is_open =
        "return String(document.querySelector('#part-slots details').open) + document.activeElement.tagName";
    assert_eq!(browser.text(is_open), "trueSUMMARY");
    wait_until("the end", || {
        browser.text("return document.title").starts_with("1 of 1 decided, complete: live")
    });
    assert_eq!(slots(), slots_on_disk(&directory), "no slot is missing");
    assert!(browser.text("return document.getElementById('said').textContent").contains("The run has ended"));
    assert!(
        browser.text("return document.getElementById('part-now').textContent").contains("Open the report")
    );
    assert_eq!(browser.barriers(&axe), Vec::<String>::new());
    browser.picture("ended-light-1280");
    wait(run);
}

#[test]
fn a_run_that_is_killed_is_seen_to_die() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut run = slow_run(folder.path(), "live", ENDLESS);
    let page = Page::serving(folder.path());
    welcome(&browser, &page);
    browser.go(&format!("http://{}/runs/{}", page.authority, page.id_of("live")));
    wait_until("a slot", || slots_on_disk(&folder.path().join("live")) >= 1);
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("the page to say so", || browser.text("return document.title").contains("killed: live"));
    browser.go(&browser.text("return document.querySelector('#part-now a').href"));
    assert!(browser.text("return document.body.textContent").contains("plumb run --resume"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_finished_run_needs_no_script() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    quick_run(folder.path(), "one");
    let page = Page::serving(folder.path());
    welcome(&browser, &page);
    browser.cdp("Emulation.setScriptExecutionDisabled", json!({ "value": true }));
    browser.go(&format!("http://{}/runs/{}", page.authority, page.id_of("one")));
    let source = browser
        .agent
        .get(format!("{}/source", browser.session))
        .call()
        .unwrap()
        .body_mut()
        .read_to_string()
        .unwrap();
    assert!(source.contains("Slots over time") && source.contains("Block by block"));
    let heading = browser.ask("/element", json!({ "using": "css selector", "value": "h1" }));
    assert!(heading[ELEMENT].is_string(), "{heading}");
}

/// A stretch of the way between the browser and the page, which can be cut.
struct Between(Arc<Mutex<Vec<TcpStream>>>);

impl Between {
    /// Listens on another address of loopback with the page's port, so that the page is asked for by a host of its own.
    fn at(authority: &str) -> Self {
        let port = authority.rsplit(':').next().unwrap();
        let listener = TcpListener::bind(format!("127.0.0.2:{port}")).unwrap();
        let streams: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let (open, to) = (Arc::clone(&streams), authority.to_owned());
        std::thread::spawn(move || {
            for ours in listener.incoming().map_while(Result::ok) {
                let Ok(theirs) = TcpStream::connect(&to) else { return };
                for (mut from, mut to) in [
                    (ours.try_clone().unwrap(), theirs.try_clone().unwrap()),
                    (theirs.try_clone().unwrap(), ours.try_clone().unwrap()),
                ] {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                open.lock().unwrap().extend([ours, theirs]);
            }
        });
        Self(streams)
    }

    fn cut(&self) {
        for stream in self.0.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn connections(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}
