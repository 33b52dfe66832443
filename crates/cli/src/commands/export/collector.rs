//! A collector of OpenTelemetry, to which telemetry is sent by OTLP over HTTP.
//!
//! Source: opentelemetry.io/docs/specs/otlp, "OTLP/HTTP Response". A collector that is busy says so by its status (429, 502, 503,
//! 504) and is asked again, after the time that it names. One that takes only a part says how much it rejected.

use std::time::Duration;

use plumb_host::time::sleep;
use serde_json::Value;
use ureq::http::{Response, Uri};
use ureq::{Agent, Body};

use crate::args::HeaderArgument;
use crate::exit::Failure;

const REQUEST_TIME: Duration = Duration::from_secs(20);
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Longer answers are cut where a message quotes them.
const QUOTED_CHARS_MAX: usize = 300;
/// The pauses before a busy collector is asked again, where it names none.
const PAUSES_S: [u64; 4] = [1, 2, 4, 8];
/// A collector that wants more time than this is not waited for.
const PAUSE_S_MAX: u64 = 30;

/// See the module.
#[derive(Debug)]
pub struct Collector {
    agent: Agent,
    url: String,
    headers: Vec<HeaderArgument>,
}

/// The outcome of a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Sent {
    /// The collector took all of it.
    Whole,
    /// It took all of it, and says something.
    WithWarning(String),
}

impl Collector {
    /// A collector at a URL; it does not connect yet.
    pub fn new(url: &str, headers: Vec<HeaderArgument>) -> Result<Self, Failure> {
        let wrong = |why: &str| {
            Failure::usage(format!(
                "`{url}` is not the URL of a collector: {why}; write one such as `http://127.0.0.1:4318`"
            ))
        };
        let uri: Uri = url.parse().map_err(|_| wrong("it cannot be read as a URL"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err(wrong("it does not begin with `http://` or `https://` and a host"));
        }
        if uri.query().is_some() {
            return Err(wrong("a path such as `/v1/traces` is added to it, so it must not have a query"));
        }
        let agent = crate::client::client(uri.scheme_str() == Some("https"), false, REQUEST_TIME);
        Ok(Self { agent, url: url.trim_end_matches('/').to_owned(), headers })
    }

    /// Sends one body of a signal, `traces` or `metrics`, and asks again while the collector is busy.
    pub fn post(&self, signal: &str, body: &str) -> Result<Sent, Failure> {
        let url = format!("{}/v1/{signal}", self.url);
        let mut pauses_s = PAUSES_S.into_iter();
        loop {
            let mut answer = self.ask(&url, body)?;
            let status = answer.status();
            let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
            let text = text.map_err(|error| self.failed(&url, &error.to_string()))?;
            if status.is_success() {
                return self.taken(&url, signal, &text);
            }
            let refused = format!("it answered {status}{}", said(&text));
            if !matches!(status.as_u16(), 429 | 502 | 503 | 504) {
                return Err(self.failed(&url, &refused));
            }
            let named_s = retry_after_s(&answer);
            let pause_s = pauses_s.next().map(|pause_s| named_s.unwrap_or(pause_s));
            match pause_s.filter(|pause_s| *pause_s <= PAUSE_S_MAX) {
                Some(pause_s) => sleep(Duration::from_secs(pause_s)),
                None => return Err(self.failed(&url, &self.gave_up(&refused, named_s))),
            }
        }
    }

    fn ask(&self, url: &str, body: &str) -> Result<Response<Body>, Failure> {
        let mut request = self.agent.post(url).content_type("application/json");
        for header in &self.headers {
            request = request.header(&header.name, &header.value);
        }
        request.send(body).map_err(|error| self.failed(url, &error.to_string()))
    }

    /// Reads an answer of success. The collector may still have rejected some or all of it.
    fn taken(&self, url: &str, signal: &str, text: &str) -> Result<Sent, Failure> {
        // Some backends answer with no JSON at all, and success is all that is known then.
        let answer: Value = serde_json::from_str(text).unwrap_or_default();
        let partial = &answer["partialSuccess"];
        let rejected =
            if signal == "traces" { &partial["rejectedSpans"] } else { &partial["rejectedDataPoints"] };
        // JSON has 64-bit integers as texts, and some write numbers.
        let count = rejected.as_u64().or_else(|| rejected.as_str()?.parse().ok()).unwrap_or(0);
        let message = partial["errorMessage"].as_str().unwrap_or_default();
        match (count, message) {
            (0, "") => Ok(Sent::Whole),
            (0, message) => Ok(Sent::WithWarning(shortened(message))),
            (count, message) => {
                let what = if signal == "traces" { "span" } else { "point" };
                let rejected = plumb_report::plural(usize::try_from(count).unwrap_or(usize::MAX), what);
                Err(self.failed(url, &format!("it took a part and rejected {rejected}{}", said(message))))
            }
        }
    }

    fn gave_up(&self, refused: &str, named_s: Option<u64>) -> String {
        match named_s {
            Some(named_s) if named_s > PAUSE_S_MAX => {
                format!("{refused}, and asks for {named_s} s of patience; send the run again later")
            }
            _ => format!("{refused}, {} times in a row; send the run again later", PAUSES_S.len() + 1),
        }
    }

    fn failed(&self, url: &str, cause: &str) -> Failure {
        Failure::harness(format!("send to the collector at {}: {cause}", without_login(url)))
    }

    /// The URL without a password.
    pub fn shown(&self) -> String {
        without_login(&self.url)
    }
}

/// A URL may carry a name and a password, which no message shows.
fn without_login(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    path.map_or_else(|| format!("{scheme}://{host}"), |path| format!("{scheme}://{host}/{path}"))
}

fn retry_after_s(answer: &Response<Body>) -> Option<u64> {
    answer.headers().get("retry-after")?.to_str().ok()?.trim().parse().ok()
}

/// The collector's reason for a refusal: the message of its JSON, or its text.
fn said(text: &str) -> String {
    let json: Value = serde_json::from_str(text).unwrap_or_default();
    let message = json["message"].as_str().unwrap_or(text).trim();
    if message.is_empty() { String::new() } else { format!(": {}", shortened(message)) }
}

fn shortened(text: &str) -> String {
    let one_line = plumb_model::printable(text);
    match one_line.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((at, _)) => format!("{} …", &one_line[..at]),
        None => one_line.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_not_shown() {
        assert_eq!(
            without_login("https://u:secret@otlp.example:4318/x/v1/traces"),
            "https://otlp.example:4318/x/v1/traces"
        );
        assert_eq!(without_login("http://127.0.0.1:4318"), "http://127.0.0.1:4318");
    }

    #[test]
    fn what_is_not_the_url_of_a_collector_is_refused() {
        for wrong in ["collector:4318", "127.0.0.1:4318", "ftp://a", "http://", "http://a/?x=1", "x y"] {
            let failure = Collector::new(wrong, Vec::new()).unwrap_err();
            assert!(failure.code == 2 && failure.message.contains(&format!("`{wrong}`")), "{failure:?}");
        }
        assert!(Collector::new("http://collector:4318/otlp/", Vec::new()).is_ok());
    }

    #[test]
    fn an_answer_of_success_may_still_reject() {
        let collector = Collector::new("http://a", Vec::new()).unwrap();
        let taken = |signal, text| collector.taken("http://a/v1/x", signal, text);
        for all in
            ["", "{}", "not JSON", r#"{"partialSuccess":{}}"#, r#"{"partialSuccess":{"rejectedSpans":"0"}}"#]
        {
            assert_eq!(taken("traces", all).unwrap(), Sent::Whole, "{all}");
        }
        let warned = taken("traces", r#"{"partialSuccess":{"errorMessage":"use\ngzip"}}"#).unwrap();
        assert_eq!(warned, Sent::WithWarning("use gzip".to_owned()));
        for (signal, text) in [
            ("traces", r#"{"partialSuccess":{"rejectedSpans":"5","errorMessage":"too old"}}"#),
            ("metrics", r#"{"partialSuccess":{"rejectedDataPoints":5,"errorMessage":"too old"}}"#),
        ] {
            let failure = taken(signal, text).unwrap_err();
            assert!(failure.code == 5 && failure.message.contains("rejected 5 "), "{failure:?}");
            assert!(failure.message.ends_with(": too old"), "{failure:?}");
        }
    }
}
