//! Three ways to look for a capacity, on servers whose capacity is known: plumb's search, a rate that is stepped up as people do
//! with wrk2, and a bisection. All have the same number of trials, of the same load and length.

pub mod collapse;
pub mod comparison;

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::Duration;

use plumb_host::process::{Command, output_of};
use plumb_host::time::monotonic_ns;
use plumb_stats::median;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::results::write_text;
use crate::tool::{built_plumb, split_arguments};
use crate::{Outcome, say};

/// The average time of a request on the servers on which all methods search.
const SERVICE: Duration = Duration::from_micros(500);
/// The objective, of p99.
const LIMIT: Duration = Duration::from_millis(5);
/// A trial is 100 times the limit.
const TRIAL: Duration = Duration::from_millis(500);
/// How often everything is searched for.
const ROUNDS: usize = 6;
/// After a trial of a method that does not drain the server, longer than the worst backlog.
const PAUSE: Duration = Duration::from_millis(600);

/// A server that collapses does so once its queue is this long.
const COLLAPSE: Duration = Duration::from_millis(60);

/// How a server spends its time.
#[derive(Clone, Copy, PartialEq)]
enum Service {
    Constant,
    Exponential,
    /// Constant, with a stop of ten limits about every seven trials.
    Stopping,
    /// Constant, and three times as long once the queue is as long as [`COLLAPSE`], until it is empty.
    Collapsing,
}

impl Service {
    const ALL: [(Self, &'static str); 3] = [
        (Self::Constant, "every request takes 0.5 ms"),
        (Self::Exponential, "exponential, 0.5 ms on average"),
        (Self::Stopping, "0.5 ms, and a stop of 50 ms about every 3.5 s"),
    ];

    /// The rate at which p99 is at the limit under even arrivals: of the D/D/1 queue, or of the D/M/1 queue, whose times in the
    /// system are exponential with the rate μ(1 − σ), σ = exp(−μ(1 − σ)/r).
    fn truth(self) -> f64 {
        let mu = SERVICE.as_secs_f64().recip();
        match self {
            Self::Constant | Self::Stopping | Self::Collapsing => mu,
            Self::Exponential => {
                let free = 100.0_f64.ln() / (mu * LIMIT.as_secs_f64());
                -mu * free / (1.0 - free).ln()
            }
        }
    }
}

/// The moment until which a server is busy, and its dice.
struct Queue {
    service: Service,
    took: Duration,
    until_ns: u64,
    has_collapsed: bool,
    dice: ChaCha8Rng,
}

impl Queue {
    /// When a request that arrives now is done, in ns. A thread that wakes late costs the server nothing.
    fn done_ns(&mut self) -> u64 {
        let uniform = 1.0 - self.dice.random::<f64>();
        let stop = Duration::from_millis(50);
        let now_ns = monotonic_ns();
        let queue_ns = self.until_ns.saturating_sub(now_ns);
        self.has_collapsed = queue_ns > if self.has_collapsed { 0 } else { COLLAPSE.as_nanos() as u64 };
        let took = match self.service {
            Service::Exponential => self.took.mul_f64(-uniform.ln()),
            Service::Stopping if uniform < self.took.as_secs_f64() / 3.5 => self.took + stop,
            Service::Collapsing if self.has_collapsed => self.took * 3,
            Service::Constant | Service::Stopping | Service::Collapsing => self.took,
        };
        self.until_ns = self.until_ns.max(now_ns) + took.as_nanos() as u64;
        self.until_ns
    }
}

/// Serves on a free port until the program ends, with a thread for each connection.
fn serve(service: Service, took: Duration) -> Outcome<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let queue =
        Queue { service, took, until_ns: 0, has_collapsed: false, dice: ChaCha8Rng::seed_from_u64(7) };
    let queue = Arc::new(Mutex::new(queue));
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let queue = Arc::clone(&queue);
            std::thread::spawn(move || answer(connection, &queue));
        }
    });
    Ok(port)
}

fn answer(mut connection: TcpStream, queue: &Mutex<Queue>) {
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    while let Ok(count) = connection.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..count]);
        if count == 0 {
            return;
        }
        if !seen.ends_with(b"\r\n\r\n") {
            continue;
        }
        seen.clear();
        let Ok(done_ns) = queue.lock().map(|mut queue| queue.done_ns()) else { return };
        sleep(Duration::from_nanos(done_ns.saturating_sub(monotonic_ns())));
        if connection.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

/// Where a search is made.
struct Site<'a> {
    plumb: &'a Path,
    url: String,
}

impl Site<'_> {
    fn measure(&self, arguments: &str) -> Outcome<Value> {
        let command = Command::new(self.plumb)
            .args(["http", &self.url, "-c", "100", "--json", "-q"])
            .args(split_arguments(arguments));
        let output = output_of(command, "plumb", Duration::from_secs(300))?;
        serde_json::from_str(&output.stdout)
            .map_err(|_| format!("plumb http {arguments}: {}", output.stderr).into())
    }

    /// The capacity that plumb finds, and the trials that it took, without its probes.
    fn search(&self) -> Outcome<(f64, usize)> {
        let found = self.measure(&format!(
            "--objective p99<{}ms --trial {}ms",
            LIMIT.as_millis(),
            TRIAL.as_millis()
        ))?;
        let trials = found["trials"]
            .as_array()
            .map_or(0, |trials| trials.iter().filter(|trial| trial["kind"] != "probe").count());
        let capacity = found["metrics"]["capacity"]["value"].as_f64();
        capacity.map(|capacity| (capacity, trials)).ok_or_else(|| "plumb found no capacity".into())
    }

    /// The throughput of a closed loop.
    fn closed_loop(&self) -> Outcome<f64> {
        let found = self.measure(&format!("-d {}ms", TRIAL.as_millis()))?;
        sleep(PAUSE);
        found["metrics"]["http_reqs"]["value"].as_f64().ok_or_else(|| "plumb http printed no rate".into())
    }

    /// Whether a rate meets the objective.
    fn is_met(&self, rate: f64) -> Outcome<bool> {
        let found = self.measure(&format!("--rate {rate}/s -d {}ms", TRIAL.as_millis()))?;
        sleep(PAUSE);
        let p99 = found["metrics"]["iteration_duration"]["p99"].as_f64();
        Ok(p99.is_some_and(|p99| p99 < LIMIT.as_secs_f64() * 1e3))
    }

    /// Goes up in even steps from half the throughput of a closed loop to one and a half times, and stops at the first rate that
    /// fails. The result is between that and the rate before.
    fn stepping(&self, trials: usize) -> Outcome<f64> {
        let guess = self.closed_loop()?;
        let step = guess / (trials - 2) as f64;
        for index in 0..trials - 1 {
            let rate = 0.5 * guess + step * index as f64;
            if !self.is_met(rate)? {
                return Ok(rate - step / 2.0);
            }
        }
        Ok(1.5 * guess)
    }

    /// Halves the range from nothing to twice the throughput of a closed loop.
    fn bisection(&self, trials: usize) -> Outcome<f64> {
        let (mut low, mut high) = (0.0, 2.0 * self.closed_loop()?);
        for _ in 0..trials - 1 {
            let rate = f64::midpoint(low, high);
            *(if self.is_met(rate)? { &mut low } else { &mut high }) = rate;
        }
        Ok(f64::midpoint(low, high))
    }
}

/// Searches on every server, in turn, and writes the section.
pub fn run() -> Outcome {
    let plumb = built_plumb()?;
    let mut text = format!(
        "The objective is p99 < {} ms, and arrivals are even. Every method has as many trials of {} ms, with the load of `plumb http` and \
         100 connections, as plumb's search took in that round (its probes for recovery apart). The two others begin with a closed loop, \
         too, and the server rests for {} ms after each of their trials. Stepping goes up from 0.5 to 1.5 times the closed loop's \
         throughput and takes the middle between the first rate that failed and the one before. The capacity of the server that stops is the one without stops, which six of seven trials do not see. \
         The errors are those of {ROUNDS} \
         interleaved rounds: the median, and the lowest and the highest.\n\n\
         | server | capacity | trials | plumb's search | stepping | bisection |\n|---|---|---|---|---|---|\n",
        LIMIT.as_millis(),
        TRIAL.as_millis(),
        PAUSE.as_millis(),
    );
    for (service, name) in Service::ALL {
        let line = row(&plumb, service, name)?;
        say(&line);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{line}");
    }
    write_text("capacity", "A capacity: plumb's search, stepping and bisection", &text)
}

fn row(plumb: &Path, service: Service, name: &str) -> Outcome<String> {
    let site = Site { plumb, url: format!("http://127.0.0.1:{}/", serve(service, SERVICE)?) };
    let truth = service.truth();
    let (mut errors, mut all_trials) = ([Vec::new(), Vec::new(), Vec::new()], Vec::new());
    for _ in 0..ROUNDS {
        let (found, trials) = site.search()?;
        let others = [site.stepping(trials)?, site.bisection(trials)?];
        say(&format!("{name}: {found:.0}/s in {trials} trials, {:.0}/s, {:.0}/s", others[0], others[1]));
        all_trials.push(trials as f64);
        for (errors, value) in errors.iter_mut().zip([found, others[0], others[1]]) {
            errors.push(100.0 * (value / truth - 1.0));
        }
    }
    let cell = |errors: &Vec<f64>| {
        let low = errors.iter().copied().fold(f64::INFINITY, f64::min);
        let high = errors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        format!("{:+.1}% ({low:+.1} to {high:+.1})", median(errors).unwrap_or(f64::NAN))
    };
    let trials = median(&all_trials).unwrap_or(f64::NAN);
    let [ours, stepping, bisection] = errors.each_ref().map(cell);
    Ok(format!("| {name} | {truth:.0}/s | {trials:.0} | {ours} | {stepping} | {bisection} |"))
}
