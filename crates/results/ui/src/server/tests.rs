//! The server over plain HTTP: who is let in, what a hostile site or a hostile run directory can do, and the events of a run.

#[path = "../../tests/client/mod.rs"]
mod client;
#[path = "../../../history/tests/made/mod.rs"]
mod made;

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_history::{Database, Location, Record};
use plumb_host::time::{monotonic_ns, sleep};
use plumb_judge::judge;
use plumb_model::{Ending, FailureCause, SlotOutcome};
use plumb_store::RunDirectory;

use super::{LIMITS, Limits, Server};
use crate::site::Settings;
use client::Client;

/// A time limit that no test reaches.
const PATIENT: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(100);

/// The time that tells a hang from a slow machine.
const LIMIT_NS: u64 = 180_000_000_000;

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun_ns = monotonic_ns();
    while !condition() {
        assert!(monotonic_ns() - begun_ns < LIMIT_NS, "waited too long for {what}");
        sleep(Duration::from_millis(10));
    }
}

/// A folder that is served, and its user.
struct Page {
    client: Client,
    _server: Server,
}

impl Deref for Page {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Page {
    /// Serves a folder, and the history in its `h.db`.
    fn serving(folder: &Path) -> Self {
        Self::with(PATIENT, PATIENT, folder)
    }

    fn with(until_known: Duration, write: Duration, folder: &Path) -> Self {
        let settings = Settings {
            roots: vec![folder.to_owned()],
            history: Some(Location::File(folder.join("h.db"))),
            program: PathBuf::from("/nowhere/plumb"),
            version: "0",
            experiments: &[("tls-cost", "kind: Experiment")],
        };
        let (limits, address) = (Limits { until_known, ..LIMITS }, ([127, 0, 0, 1], 0).into());
        let server = Server::start_with(limits, write, settings, address, false).unwrap();
        Self { client: Client::for_url(&server.url()), _server: server }
    }

    fn id_of(&self, name: &str) -> String {
        wait_until("the run to be listed", || self.find(name).is_some());
        self.find(name).unwrap()
    }

    /// The events of a run, after having seen a number of slots.
    fn follow(&self, id: &str, seen: usize) -> impl Iterator<Item = Event> + use<> {
        let (bearer, seen) = (format!("Bearer {}", self.token), seen.to_string());
        let headers = [("Authorization", bearer.as_str()), ("Last-Event-ID", &seen)];
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        let request = self.request("GET", &format!("/runs/{id}/events"), &headers, "");
        stream.write_all(request.as_bytes()).unwrap();
        let (mut number, mut name) = (None, String::new());
        BufReader::new(stream).lines().filter_map(move |line| {
            let line = line.unwrap();
            if let Some(value) = line.strip_prefix("id: ") {
                number = value.parse().ok();
            } else if let Some(value) = line.strip_prefix("event: ") {
                value.clone_into(&mut name);
            }
            let data = line.strip_prefix("data: ")?.to_owned();
            Some(Event { number: number.take(), name: name.clone(), data })
        })
    }
}

/// The numbers of the slots up to an event of that name, and what that event says.
fn slots_until(name: &str, events: &mut impl Iterator<Item = Event>) -> (Vec<usize>, String) {
    let mut numbers = Vec::new();
    for event in events {
        if event.name == name {
            return (numbers, event.data);
        }
        numbers.extend(event.number.filter(|_| event.name == "slot"));
    }
    panic!("no {name}");
}

struct Event {
    number: Option<usize>,
    name: String,
    data: String,
}

/// Writes the first slots of a run of this name, and gives the directory with those to come.
fn begun(folder: &Path, name: &str, slots: usize) -> (RunDirectory, Vec<plumb_model::Slot>) {
    let mut run = made::run(name, 1, 1.0);
    let path = folder.join(name);
    let mut directory = RunDirectory::create(&path, &run.header, &run.experiment_text).unwrap();
    let rest = run.slots.split_off(slots);
    run.slots.iter().for_each(|slot| directory.append(slot).unwrap());
    (directory, rest)
}

/// Writes a whole run.
fn ended(folder: &Path, name: &str) {
    let (directory, rest) = begun(folder, name, 24);
    assert!(rest.is_empty());
    directory.finish(Ending::Complete, 12.5).unwrap();
}

#[test]
fn every_answer_has_the_headers_and_only_users_get_pages() {
    let folder = tempfile::tempdir().unwrap();
    ended(folder.path(), "one");
    let page = Page::serving(folder.path());
    let list = page.get("/");
    assert_eq!(list.status, 200, "{list:?}");
    assert!(list.body.contains(">one</a>") && list.body.contains("complete"), "{}", list.body);
    for answer in [&list, &page.get("/nothing"), &page.get("/assets/page.js"), &page.ask("GET", "/", &[], "")]
    {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    for path in ["/", "/hosts", "/start", "/compare", "/assets/page.css", "/runs/x", "/?token=wrong"] {
        let refused = page.ask("GET", path, &[], "");
        assert_eq!(refused.status, 403, "{path}");
        assert!(refused.body.contains("<h1>This request is not allowed</h1>"), "{path}: {}", refused.body);
        assert!(!refused.body.contains(">one</a>"));
    }
    assert_eq!(page.get("/assets/page.css").header("content-type"), Some("text/css; charset=utf-8"));
}

#[test]
fn prometheus_reads_the_run_that_goes_on_and_the_latest_results() {
    let folder = tempfile::tempdir().unwrap();
    ended(folder.path(), "ended");
    let _running = begun(folder.path(), "running", 2);
    let page = Page::serving(folder.path());
    assert_eq!(page.ask("GET", "/metrics", &[], "").status, 403);
    let mut text = String::new();
    wait_until("both runs", || {
        let answer = page.get("/metrics");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        text = answer.body;
        ["ended", "running"].iter().all(|name| text.contains(&format!("experiment=\"{name}\"")))
    });
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("plumb_") && value.parse::<f64>().is_ok(), "{line}");
        let family = name.split('{').next().unwrap();
        assert!(text.contains(&format!("# TYPE {family} gauge")), "{line}");
    }
    let slots = |name: &str| {
        let start = format!("plumb_run_slots{{experiment=\"{name}\"");
        let line =
            text.lines().find(|line| line.starts_with(&start) && line.contains("\"measured\"")).unwrap();
        line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()
    };
    assert_eq!((slots("ended"), slots("running")), (24, 2), "{text}");
}

#[test]
fn the_token_is_taken_once_and_becomes_a_cookie() {
    let folder = tempfile::tempdir().unwrap();
    let page = Page::serving(folder.path());
    let welcome = page.ask("GET", &format!("/hosts?token={}&a=1", page.token), &[], "");
    assert_eq!((welcome.status, welcome.header("location")), (303, Some("/hosts?a=1")));
    let cookie = welcome.header("set-cookie").unwrap();
    assert!(cookie.contains("; httponly; samesite=strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(page.ask("GET", "/hosts", &[("Cookie", pair)], "").status, 200);
    let guess = format!("{pair}0");
    assert_eq!(page.ask("GET", "/hosts", &[("Cookie", &guess)], "").status, 403);
    // Nobody is led away by a path that looks like a host.
    let led = page.ask("GET", &format!("//evil.example/?token={}", page.token), &[], "");
    assert_eq!(led.header("location"), Some("/"), "{led:?}");
}

#[test]
fn a_hostile_site_gets_nothing_and_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let _writing = begun(folder.path(), "live", 2);
    let page = Page::serving(folder.path());
    let id = page.id_of("live");
    let (stop, bearer) = (format!("/runs/{id}/stop"), format!("Bearer {}", page.token));
    let form = format!("form={}", page.form_token(&stop));
    let own = format!("http://{}", page.authority);
    let port = page.authority.rsplit(':').next().unwrap().to_owned();
    // DNS rebinding: the right address under a wrong name.
    for host in [format!("evil.example:{port}"), "127.0.0.1:1".to_owned(), "127.0.0.1".to_owned()] {
        let answer = page.ask("GET", "/", &[("Host", &host), ("Authorization", &bearer)], "");
        assert_eq!(answer.status, 403, "{host}");
    }
    let send = |headers: &[(&str, &str)], form: &str| {
        let mut all = vec![("Authorization", bearer.as_str())];
        all.extend(headers);
        page.ask("POST", &stop, &all, form).status
    };
    assert_eq!(send(&[("Origin", "http://evil.example")], &form), 403);
    assert_eq!(send(&[("Origin", "null")], &form), 403);
    assert_eq!(send(&[("Sec-Fetch-Site", "cross-site")], &form), 403);
    assert_eq!(send(&[], &form), 403, "a form that does not say where it comes from");
    assert_eq!(send(&[("Origin", &own)], "form=guessed"), 403);
    assert_eq!(send(&[("Origin", &own)], ""), 403);
    assert_eq!(send(&[("Origin", &own), ("Content-Type", "text/plain")], &form), 400);
    assert_eq!(page.ask("POST", &stop, &[("Origin", &own)], &form).status, 403, "without the token");
    assert_eq!(page.get(&stop).status, 200, "asking whether it is meant stops nothing");
    // The run's file does not say which process writes it, so a form of the page's own stops nothing either.
    assert!(page.get(&format!("/runs/{id}")).body.contains("running"));
    let answer = page.post(&stop, &form);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.body.contains("does not say which process"), "{answer:?}");
}

#[test]
fn only_the_experiment_that_was_shown_is_repeated() {
    let folder = tempfile::tempdir().unwrap();
    ended(folder.path(), "one");
    let page = Page::serving(folder.path());
    let path = format!("/runs/{}/repeat", page.id_of("one"));
    let shown = page.get(&path);
    assert_eq!(shown.status, 200, "{shown:?}");
    let (digest, token) = (client::hidden(&shown.body, "digest"), client::hidden(&shown.body, "form"));
    let digest = digest.as_str();
    let repeat = |digest: &str| page.post(&path, &format!("form={token}&digest={digest}"));
    let file = folder.path().join("one/experiment.yaml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, "kind: Experiment # another one").unwrap();
    let refused = repeat(digest);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body.contains("has changed since the page showed it"), "{refused:?}");
    let digests = |body: &str| {
        let is_one = |word: &&str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        body.split(|letter: char| !letter.is_ascii_alphanumeric())
            .filter(is_one)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let [before, now] = &digests(&refused.body)[..] else { panic!("not two digests: {refused:?}") };
    assert_eq!(before, digest, "{refused:?}");
    let unshown = page.get(&path);
    assert_eq!(unshown.status, 400, "{unshown:?}");
    assert!(unshown.body.contains("was edited after the run had begun"), "{unshown:?}");
    assert_eq!(digests(&unshown.body), [before.as_str(), now.as_str()], "{unshown:?}");
    assert_ne!(before, now);
    // The page neither waits for the file nor reads one that is too long.
    let hostile: [&dyn Fn(); 3] = [
        &|| std::os::unix::fs::symlink("/dev/zero", &file).unwrap(),
        &|| {
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &file, fifo, 0o600.into(), 0).unwrap();
        },
        &|| fs::File::create(&file).unwrap().set_len(4 << 30).unwrap(),
    ];
    for make in hostile {
        fs::remove_file(&file).unwrap();
        make();
        let refused = repeat(digest);
        assert_eq!(refused.status, 400, "{refused:?}");
        assert!(refused.body.contains("cannot be repeated: the page failed to read"), "{refused:?}");
    }
    fs::remove_file(&file).unwrap();
    fs::write(&file, text).unwrap();
    assert_eq!(page.post(&path, &format!("form={token}")).status, 400, "without a digest");
    // The program of this page does not exist, which shows that the page tried to start it.
    let begun = repeat(digest);
    assert_eq!(begun.status, 500, "{begun:?}");
}

#[test]
fn a_resumed_connection_gets_each_slot_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut directory, rest) = begun(folder.path(), "live", 3);
    let page = Page::serving(folder.path());
    let id = page.id_of("live");
    let mut events = page.follow(&id, 1);
    assert_eq!(slots_until("view", &mut events).0, [2, 3], "those after the last one that was seen");
    let all = 3 + rest.len();
    rest.iter().for_each(|slot| directory.append(slot).unwrap());
    directory.finish(Ending::Complete, 12.5).unwrap();
    let (numbers, end) = slots_until("end", &mut events);
    assert_eq!(numbers, (4..=all).collect::<Vec<_>>());
    let end: serde_json::Value = serde_json::from_str(&end).unwrap();
    assert_eq!(end["title"], "1 of 1 decided, complete: live");
    assert!(end["parts"]["part-claims"].as_str().unwrap().contains("<svg"));
    assert_eq!(slots_until("end", &mut page.follow(&id, 10)).0, (11..=all).collect::<Vec<_>>());
    let (numbers, _) = slots_until("end", &mut page.follow(&id, all));
    assert_eq!(numbers, Vec::<usize>::new(), "a browser that has seen all gets the end");
}

#[test]
fn nothing_of_a_hostile_directory_is_markup() {
    const EVIL: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("x\"><script>alert(2)<");
    ended(folder.path(), "one");
    fs::rename(folder.path().join("one"), &directory).unwrap();
    for name in ["run.json", "slots.jsonl"] {
        let file = directory.join(name);
        let mut text = fs::read_to_string(&file).unwrap();
        let evil = serde_json::to_string(EVIL).unwrap();
        for field in
            ["title", "about", "what", "expected", "observed", "treatment", "started_at", "program_version"]
        {
            text = replaced(&text, field, &evil);
        }
        text = text
            .replace("\"b\"", &evil)
            .replace("\"b.throughput", &format!("{}b.throughput", evil.trim_end_matches('"')));
        fs::write(&file, text).unwrap();
    }
    // And one that is broken in a way that its error shows.
    let broken = folder.path().join("broken");
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("run.json"), format!("{{\"format\": {}}}", serde_json::to_string(EVIL).unwrap()))
        .unwrap();
    let page = Page::serving(folder.path());
    wait_until("both to be read", || page.get("/").body.contains(">2 runs<"));
    let list = page.get("/").body;
    let ids: Vec<&str> =
        list.split("href=\"/runs/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(ids.len(), 2, "{list}");
    let mut pages =
        vec![list.clone(), page.get("/hosts").body, page.get("/compare").body, page.get("/start").body];
    for id in &ids {
        for path in [
            format!("/runs/{id}"),
            format!("/runs/{id}/repeat"),
            format!("/runs/{id}/stop"),
            format!("/compare?run={id}"),
        ] {
            pages.push(page.get(&path).body);
        }
    }
    pages.push(page.get(&format!("/compare?run={}&run={}", ids[0], ids[1])).body);
    let evil = ["%3Cscript%3Ealert(1)", "%22%3E%3Cimg%20onerror=x%3E"];
    for value in evil {
        for path in [
            format!("/?q={value}"),
            format!("/?state={value}"),
            format!("/?host={value}&sort={value}"),
            format!("/{value}"),
        ] {
            pages.push(page.get(&path).body);
        }
    }
    for body in &pages {
        assert!(body.contains("</html>"), "{body}");
        for markup in ["<script>", "<img"] {
            assert!(!body.contains(markup), "{markup}: {body}");
        }
    }
    assert!(pages.iter().any(|body| body.contains("&lt;script&gt;alert(1)")), "the texts are shown as texts");
}

#[test]
fn runs_are_searched_sorted_and_paged_on_the_server() {
    let folder = tempfile::tempdir().unwrap();
    ended(folder.path(), "model");
    for number in 0..60 {
        ended(folder.path(), &format!("copy-{number:02}"));
    }
    let page = Page::serving(folder.path());
    let rows = |path: &str| {
        let body = page.get(path).body;
        let table = body.split_once("<tbody>").map_or("", |(_, rest)| rest);
        table
            .split("href=\"/runs/")
            .skip(1)
            .map(|row| row.split_once('>').unwrap().1.split('<').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    wait_until("all runs to be read", || {
        let body = page.get("/").body;
        assert_eq!(body.contains("data-unread"), body.contains("being read"), "{body}");
        body.contains(">61 runs<")
    });
    assert_eq!(rows("/").len(), 50);
    assert_eq!(rows("/?page=2").len(), 11);
    assert_eq!(rows("/?q=copy-07"), ["copy-07"]);
    assert_eq!(rows("/?sort=name")[..2], ["copy-00", "copy-01"]);
    assert_eq!(rows("/?sort=-name")[0], "model");
    assert_eq!(rows("/?q=nothing-like-it"), Vec::<String>::new());
    assert_eq!(page.get("/?page=9").status, 404);
    assert_eq!(page.get("/?state=sleeping").status, 400);
}

/// A run that ended well may have no usable result, and its sentence must not read as one.
#[test]
fn the_state_of_a_run_is_no_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = made::run("model", 1, 1.0);
    let mut directory =
        RunDirectory::create(&folder.path().join("model"), &run.header, &run.experiment_text).unwrap();
    for slot in &mut run.slots {
        if slot.variant == "b" {
            slot.outcome =
                SlotOutcome::Failed { reason: "no answer".to_owned(), cause: FailureCause::System };
        }
        directory.append(slot).unwrap();
    }
    directory.finish(Ending::Complete, 12.5).unwrap();
    let page = Page::serving(folder.path());
    wait_until("the run to be read", || page.get("/").body.contains(">1 run<"));
    let body = page.get("/").body;
    assert!(body.contains(r#"<span class="state quiet">complete</span>"#), "{body}");
    assert!(body.contains("Not all of it can be trusted: no proof or no data for b"), "{body}");
    assert!(!body.contains("Against a"), "{body}");
}

#[test]
fn a_shift_of_a_series_stands_on_its_page_until_it_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let mut history = Database::open(&Location::File(folder.path().join("h.db"))).unwrap();
    for number in 0..40 {
        let run = made::run("x", number, if number < 25 { 1.0 } else { 0.67 });
        history.add(&Record::of_run(&run, &judge(&run.header.plan, &run.slots), 0).unwrap()).unwrap();
    }
    let page = Page::serving(folder.path());
    assert!(page.get("/history").body.contains("href=\"/history?experiment=x\""));
    let runs = page.get("/history?experiment=x&all=yes").body;
    assert!(runs.contains("40 runs"), "{runs}");
    let series = series_of(&runs);
    assert!(series.len() > 10, "{series:?}");
    let is_confirmed = |path: &&String| page.get(path).body.contains("class=\"grade confirmed\"");
    let path = series.iter().find(is_confirmed).unwrap().clone();
    let shown = page.get(&path).body;
    assert!(
        shown.contains("role=\"img\"") && shown.contains("worse, from") && shown.contains("40 runs"),
        "{shown}"
    );

    assert!(shown.contains("<code>plumb history bisect x --metric "), "{shown}");
    assert!(shown.contains("er is better."), "{shown}");
    assert!(shown.contains(" over 40 runs\""), "{shown}");
    assert!(page.get(&format!("{path}?last=10")).body.contains(" over 10 runs\""));
    assert_eq!(page.get(&format!("{path}?last=x")).status, 400);

    let (_, rest) = shown.split_once("name=\"run\" value=\"").unwrap();
    let form = format!("run={}&note=%3Cb%3Emeant", rest.split('"').next().unwrap());
    let accept = format!("{path}/accept");
    assert_eq!(page.post(&accept, &form).status, 403, "without the form's token");
    let form = format!("{form}&form={}", page.form_token(&path));
    assert_eq!(page.post(&accept, &form).status, 303);
    let accepted = page.get(&path).body;
    assert!(
        !accepted.contains("class=\"grade confirmed\"") && accepted.contains("&lt;b&gt;meant"),
        "{accepted}"
    );
    for missing in ["/series/0", "/series/x", "/history?experiment=x&page=9"] {
        assert_eq!(page.get(missing).status, 404, "{missing}");
    }
}

/// A nonblocking connection to a page.
fn connection(page: &Page) -> TcpStream {
    let stream = TcpStream::connect(&page.authority).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// Whether the server has closed a connection. Skips what it sent before.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Repeats a request until the connection takes no more, and reads no answer.
fn pipeline(stream: &mut TcpStream, request: &str) {
    let many = request.replace("Connection: close", "Connection: keep-alive").repeat(100);
    for _ in 0..1000 {
        if stream.write(many.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn strangers_who_do_not_read_lock_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let page = Page::serving(folder.path());
    let request = page.request("GET", "/", &[], "");
    let mut strangers: Vec<TcpStream> = (0..96).map(|_| connection(&page)).collect();
    strangers.iter_mut().for_each(|stream| pipeline(stream, &request));
    assert_eq!(page.get("/").status, 200);
    // The deadlines are hours away: each connection ends after its first answer.
    wait_until("the strangers to be closed", || strangers.iter_mut().all(is_closed));
}

#[test]
fn silent_strangers_lock_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let page = Page::serving(folder.path());
    let bearer = format!("Bearer {}", page.token);
    let kept =
        page.request("HEAD", "/", &[("Authorization", &bearer)], "").replace(": close", ": keep-alive");
    let mut user = BufReader::new(TcpStream::connect(&page.authority).unwrap());
    let mut ask = || {
        user.get_mut().write_all(kept.as_bytes()).unwrap();
        let head: Vec<String> =
            user.by_ref().lines().map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
        assert_eq!(head[0], "HTTP/1.1 200 OK", "{head:?}");
    };
    ask();
    let mut silent: Vec<TcpStream> = (0..LIMITS.silent + 100).map(|_| connection(&page)).collect();
    assert_eq!(page.get("/").status, 200, "a new connection of the user");
    ask();
    wait_until("the oldest to be closed", || silent[..100].iter_mut().all(is_closed));
    assert!(!silent[110..].iter_mut().any(is_closed), "the latest are within their time");
}

#[test]
fn a_connection_without_a_request_ends_in_time() {
    let folder = tempfile::tempdir().unwrap();
    let page = Page::with(SOON, PATIENT, folder.path());
    let mut silent = connection(&page);
    wait_until("the silent connection to be closed", || is_closed(&mut silent));
}

#[test]
fn a_user_who_does_not_read_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let page = Page::with(PATIENT, SOON, folder.path());
    let request =
        page.request("GET", "/assets/page.css", &[("Authorization", &format!("Bearer {}", page.token))], "");
    let mut user = connection(&page);
    pipeline(&mut user, &request);
    // Writing fails once the server has closed the connection.
    wait_until("the user to be cut off", || {
        let written = user.write(request.as_bytes());
        written.is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
    });
}

/// The text with the value of each such field replaced.
fn replaced(text: &str, field: &str, value: &str) -> String {
    let name = format!("\"{field}\":");
    let mut pieces = text.split(name.as_str());
    let mut out = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let trimmed = piece.trim_start();
        let rest = trimmed.strip_prefix('"').and_then(|rest| rest.split_once('"')).map(|(_, rest)| rest);
        match rest {
            Some(rest) => out.push_str(&format!("\"{field}\":{value}{rest}")),
            None => out.push_str(&format!("\"{field}\":{piece}")),
        }
    }
    out
}

/// The addresses of the series that a page links to.
fn series_of(page: &str) -> Vec<String> {
    let links = page.split("href=\"/series/").skip(1);
    links.map(|rest| format!("/series/{}", rest.split('"').next().unwrap())).collect()
}
