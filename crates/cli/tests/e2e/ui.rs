//! `plumb ui` over plain HTTP: who is let in, what a hostile site or a hostile run directory can do, and the events of a run.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};

use crate::common::{
    null_experiment, plumb, run, signal, slots_on_disk, slow_experiment, wait, wait_until, write,
};
use crate::history::recorded;

/// A page that is served, and ended with the test.
pub struct Page {
    process: Child,
    pub authority: String,
    pub token: String,
}

impl Page {
    /// Serves a folder.
    pub fn of(folder: &Path) -> Self {
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
        let (authority, token) =
            url.trim().strip_prefix("http://").and_then(|rest| rest.split_once("/?token=")).unwrap();
        Self { authority: authority.to_owned(), token: token.to_owned(), process }
    }

    /// Asks for a page as its user.
    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[("Authorization", &format!("Bearer {}", self.token))], "")
    }

    /// Sends a form as a page of the server's does.
    pub fn post(&self, path: &str, form: &str) -> Answer {
        let own = format!("http://{}", self.authority);
        self.ask(
            "POST",
            path,
            &[("Authorization", &format!("Bearer {}", self.token)), ("Origin", &own)],
            form,
        )
    }

    /// The form token of a page.
    pub fn form_token(&self, path: &str) -> String {
        let page = self.get(path).body;
        let (_, rest) =
            page.split_once("name=\"form\" value=\"").unwrap_or_else(|| panic!("no form: {page}"));
        rest.split('"').next().unwrap().to_owned()
    }

    /// Sends a request with exactly these headers, `Host` but where they have one.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream.write_all(self.request(method, path, headers, body).as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        Answer::parse(&String::from_utf8_lossy(&bytes))
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut text =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            text.push_str(&format!("Host: {}\r\n", self.authority));
        }
        if method == "POST" && !headers.iter().any(|(name, _)| *name == "Content-Type") {
            text.push_str("Content-Type: application/x-www-form-urlencoded\r\n");
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        format!("{text}\r\n{body}")
    }

    /// Reads a run's events until one of that name, after having seen a number of slots.
    fn events_until(
        &self,
        id: &str,
        last: Option<usize>,
        until: &str,
    ) -> Vec<(Option<usize>, String, String)> {
        let bearer = format!("Bearer {}", self.token);
        let last = last.map(|last| last.to_string());
        let mut headers = vec![("Authorization", bearer.as_str())];
        headers.extend(last.as_deref().map(|last| ("Last-Event-ID", last)));
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream
            .write_all(self.request("GET", &format!("/runs/{id}/events"), &headers, "").as_bytes())
            .unwrap();
        let (mut events, mut id, mut name) = (Vec::new(), None, String::new());
        for line in BufReader::new(stream).lines() {
            let line = line.unwrap();
            if let Some(value) = line.strip_prefix("id: ") {
                id = value.parse().ok();
            } else if let Some(value) = line.strip_prefix("event: ") {
                value.clone_into(&mut name);
            } else if let Some(data) = line.strip_prefix("data: ") {
                events.push((id.take(), name.clone(), data.to_owned()));
                if name == until {
                    break;
                }
            }
        }
        events
    }

    /// The id of the only run, or of the one whose row has that text.
    pub fn id_of(&self, name: &str) -> String {
        let path = format!("/?q={name}");
        let mut id = None;
        wait_until("the run to be listed", || {
            let list = self.get(&path).body;
            id = list.split_once("href=\"/runs/").map(|(_, rest)| rest.split('"').next().unwrap().to_owned());
            id.is_some()
        });
        id.unwrap()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        signal(self.process.id(), "TERM");
        assert!(self.process.wait().unwrap().success(), "it ends as it is asked to");
    }
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
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

/// Starts a run whose slots take as long as they say.
pub fn slow_run(folder: &Path, name: &str) -> Child {
    let file = write(
        folder,
        &format!("{name}.yaml"),
        slow_experiment().replace("name: test", &format!("name: {name}")),
    );
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
fn every_answer_has_the_headers_and_only_users_get_pages() {
    let folder = tempfile::tempdir().unwrap();
    quick_run(folder.path(), "one");
    let page = Page::of(folder.path());
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
    quick_run(folder.path(), "ended");
    let mut running = slow_run(folder.path(), "running");
    wait_until("a slot", || slots_on_disk(&folder.path().join("running")) >= 2);
    let page = Page::of(folder.path());
    assert_eq!(page.ask("GET", "/metrics", &[], "").status, 403);
    let mut text = String::new();
    wait_until("both runs", || {
        let answer = page.get("/metrics");
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        text = answer.body;
        ["ended", "running"].iter().all(|name| text.contains(&format!("experiment=\"{name}\"")))
    });
    running.kill().unwrap();
    running.wait().unwrap();
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
    assert_eq!(slots("ended"), slots_on_disk(&folder.path().join("ended")));
    assert!(slots("running") >= 2, "{text}");
}

#[test]
fn the_token_is_taken_once_and_becomes_a_cookie() {
    let folder = tempfile::tempdir().unwrap();
    let page = Page::of(folder.path());
    let welcome = page.ask("GET", &format!("/hosts?token={}&a=1", page.token), &[], "");
    assert_eq!((welcome.status, welcome.header("location")), (303, Some("/hosts?a=1")));
    let cookie = welcome.header("set-cookie").unwrap();
    assert!(cookie.contains("; httponly; samesite=strict"), "{cookie}");
    let pair = cookie.split(';').next().unwrap();
    assert_eq!(page.ask("GET", "/hosts", &[("Cookie", pair)], "").status, 200);
    assert_eq!(page.ask("GET", "/hosts", &[("Cookie", &pair.replace('a', "b"))], "").status, 403);
    // Nobody is led away by a path that looks like a host.
    let led = page.ask("GET", &format!("//evil.example/?token={}", page.token), &[], "");
    assert_eq!(led.header("location"), Some("/"), "{led:?}");
}

#[test]
fn a_hostile_site_gets_nothing_and_does_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = slow_run(folder.path(), "live");
    let page = Page::of(folder.path());
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
    assert!(child.try_wait().unwrap().is_none(), "the run goes on");
    let answer = page.post(&stop, &form);
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some(&*format!("/runs/{id}"))),
        "{answer:?}"
    );
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(page.get(&format!("/runs/{id}")).body.contains("--resume"), "it can be continued");
    assert_eq!(page.post(&stop, &form).status, 400, "nothing writes it any more");
}

#[test]
fn a_resumed_connection_gets_each_slot_once() {
    let folder = tempfile::tempdir().unwrap();
    let child = slow_run(folder.path(), "live");
    let page = Page::of(folder.path());
    let id = page.id_of("live");
    let directory = folder.path().join("live");
    wait_until("some slots", || slots_on_disk(&directory) >= 3);
    let first = page.events_until(&id, None, "view");
    let seen = first.iter().filter_map(|(id, ..)| *id).max().unwrap();
    assert_eq!(numbers(&first), (1..=seen).collect::<Vec<_>>());
    let rest = page.events_until(&id, Some(seen), "end");
    let all = slots_on_disk(&directory);
    assert_eq!(
        numbers(&rest),
        (seen + 1..=all).collect::<Vec<_>>(),
        "exactly those after the last one that was seen"
    );
    let (_, _, end) = rest.last().unwrap();
    let end: serde_json::Value = serde_json::from_str(end).unwrap();
    assert_eq!(end["title"], "1 of 1 decided, complete: live");
    assert!(end["parts"]["part-claims"].as_str().unwrap().contains("<svg"));
    wait(child);
    assert!(!directory.join("now.json").exists(), "a run that is over does nothing now");
    let again = page.events_until(&id, Some(all), "end");
    assert_eq!(numbers(&again), Vec::<usize>::new(), "a browser that has seen all gets the end");
}

fn numbers(events: &[(Option<usize>, String, String)]) -> Vec<usize> {
    events.iter().filter(|(_, name, _)| name == "slot").filter_map(|(id, ..)| *id).collect()
}

#[test]
fn a_killed_run_says_so_and_how_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = slow_run(folder.path(), "killed");
    let directory = folder.path().join("killed");
    wait_until("a slot", || slots_on_disk(&directory) >= 1);
    let page = Page::of(folder.path());
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
fn nothing_of_a_hostile_directory_is_markup() {
    const EVIL: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("x\"><script>alert(2)<");
    quick_run(folder.path(), "one");
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
    let page = Page::of(folder.path());
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

#[test]
fn a_run_is_started_and_repeated() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "mine.yaml", null_experiment(SMALL));
    write(folder.path(), "wrong.yaml", null_experiment("nonsense: 1"));
    let page = Page::of(folder.path());
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
    let again = page.post(&format!("{run_page}/repeat"), &form);
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

#[test]
fn runs_are_searched_sorted_and_paged_on_the_server() {
    let folder = tempfile::tempdir().unwrap();
    quick_run(folder.path(), "model");
    for number in 0..60 {
        let copy = folder.path().join(format!("copy-{number:02}"));
        fs::create_dir(&copy).unwrap();
        for name in ["run.json", "slots.jsonl", "end.json", "experiment.yaml"] {
            fs::copy(folder.path().join("model").join(name), copy.join(name)).unwrap();
        }
        let header = fs::read_to_string(copy.join("run.json")).unwrap();
        fs::write(
            copy.join("run.json"),
            header.replace("\"name\": \"model\"", &format!("\"name\": \"copy-{number:02}\"")),
        )
        .unwrap();
    }
    let page = Page::of(folder.path());
    let rows = |path: &str| {
        let body = page.get(path).body;
        let table = body.split_once("<tbody>").map_or("", |(_, rest)| rest);
        table
            .split("href=\"/runs/")
            .skip(1)
            .map(|row| row.split_once('>').unwrap().1.split('<').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    wait_until("all runs to be read", || page.get("/").body.contains(">61 runs<"));
    assert_eq!(rows("/").len(), 50);
    assert_eq!(rows("/?page=2").len(), 11);
    assert_eq!(rows("/?q=copy-07"), ["copy-07"]);
    assert_eq!(rows("/?sort=name")[..2], ["copy-00", "copy-01"]);
    assert_eq!(rows("/?sort=-name")[0], "model");
    assert_eq!(rows("/?q=nothing-like-it"), Vec::<String>::new());
    assert_eq!(page.get("/?page=9").status, 404);
    assert_eq!(page.get("/?state=sleeping").status, 400);
}

#[test]
fn an_address_that_others_reach_is_refused() {
    let output = run(&["ui", "--listen", "0.0.0.0:0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(crate::common::stderr(&output).contains("--allow-remote"), "{output:?}");
    let output = run(&["ui", "/nowhere"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_shift_of_a_series_stands_on_its_page_until_it_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let database = recorded(folder.path());
    let page = Page::with(&["--database", database.to_str().unwrap(), folder.path().to_str().unwrap()]);
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

/// The addresses of the series that a page links to.
pub fn series_of(page: &str) -> Vec<String> {
    page.split("href=\"/series/")
        .skip(1)
        .map(|rest| format!("/series/{}", rest.split('"').next().unwrap()))
        .collect()
}
