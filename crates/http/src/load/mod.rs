//! The HTTP load generator: one event loop per thread, a closed loop by connections or an open loop by rate.
//!
//! No async runtime, no allocation per request: a request on a connection that stands is one `send`, one `recv` and
//! a share of an `epoll_wait`. Pacing, transport and stop rule are values that the one loop in `worker` works with.

mod checks;

mod connection;
mod core;
mod epoll;
mod errors;
mod names;
mod report;
mod request;
mod sessions;
mod socket;
mod tally;
mod tls;
mod tls_openssl;
mod tls_rustls;
mod transport;
mod url;
mod verify;
mod wire;
mod worker;

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use plumb_host::cpu::CpuSupply;
use plumb_host::time::monotonic_ns;
use plumb_model::{Measurement, SplitMix};
use plumb_pace::{Budget, Closing, End, Frame, Proportion, Schedule};
use plumb_path::{Fault, Load, Mark, PathError, Window};

use self::checks::{Check, Checks};
use self::core::{Core, Plan};
use self::epoll::Epoll;
pub(crate) use self::names::{is_same_cipher, is_same_group};
use self::report::Watched;
pub(crate) use self::report::{MISSING, OFFERED};
use self::request::Request;
use self::tally::Tally;
use self::tls::Offer;
use self::transport::Security;
use self::url::Url;
use self::worker::{Pacing, ThreadResult, Worker};
use crate::settings::{LoadSettings, TlsVersion};
use crate::target::Target;

/// From the moment the threads are started to the moment they all begin.
const LEAD_NS: u64 = 2_000_000;
/// How often progress is reported.
const PROGRESS_NS: u64 = 1_000_000_000;
/// How often the watching thread checks whether the user ended the measurement.
const LOOK_NS: u64 = 50_000_000;
/// The first of several addresses that accepts a connection within this time is used.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks what a load asks for, without a target.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn validate(spec: &LoadSettings) -> Result<(), Fault> {
    let fault = |key: &str, message: &str| Err(Fault::new(key, message));
    if spec.connections == 0 {
        return fault("load.connections", "a load has at least 1 connection");
    }
    if spec.threads == 0 || spec.threads > spec.connections {
        let message = format!("a load of {} connections has 1 to {0} threads", spec.connections);
        return Err(Fault::new("load.threads", message));
    }
    if spec.duration.0 == 0 {
        return fault("load.duration", "a window of no length measures nothing");
    }
    if spec.timeout.0 == 0 {
        return fault("load.timeout", "every request would fail at once; set a timeout such as `30 s`");
    }
    if spec.requests == Some(0) {
        return fault("load.requests", "a load makes at least 1 request; leave `requests` out for no limit");
    }
    if spec.rate.is_some_and(|rate| Schedule::constant(rate.0).is_none()) {
        return fault("load.rate", "a rate is above 0; leave `rate` out for a closed loop");
    }
    if !(0.0..=1.0).contains(&spec.resumption.0) {
        return fault("load.resumption", "a share is 0% to 100%");
    }
    request::check(spec)?;
    tls::check(spec)?;
    parse_checks(spec).map(drop)
}

fn parse_checks(spec: &LoadSettings) -> Result<Vec<Check>, Fault> {
    let parse = |(index, text): (usize, &String)| {
        Check::parse(text).map_err(|message| Fault::new(format!("load.checks[{index}]"), message))
    };
    spec.checks.iter().enumerate().map(parse).collect()
}

/// Builds the load against a target. The target's name is resolved here, once.
///
/// # Errors
/// When the URL, a name or a file cannot be used.
pub(crate) fn http_load(spec: &LoadSettings, target: &Target) -> Result<Box<dyn Load>, PathError> {
    interruptible(spec, target, Arc::default())
}

/// As [`http_load`]. Once `interrupted` is set, the window closes, and the measurement is of the time until then.
///
/// # Errors
/// As [`http_load`].
pub fn interruptible(
    spec: &LoadSettings,
    target: &Target,
    interrupted: Arc<AtomicBool>,
) -> Result<Box<dyn Load>, PathError> {
    let from_fault =
        |fault: Fault| PathError::new(format!("build the load: {}: {}", fault.key, fault.message));
    validate(spec).map_err(from_fault)?;
    let url = Url::parse(&target.url).map_err(PathError::new)?;
    let offer = offer(spec, target, &url)?;
    let plan = Plan {
        address: choose_address(&url.resolve().map_err(PathError::new)?),
        request: Request::new(spec, &url),
        checks: Checks::new(parse_checks(spec).map_err(from_fault)?),
        reuse: spec.reuse,
        timeout_ns: spec.timeout.0,
    };
    plumb_host::limits::raise_open_files_limit();
    Ok(Box::new(HttpLoad { spec: spec.clone(), offer, plan: Arc::new(plan), interrupted }))
}

fn offer(spec: &LoadSettings, target: &Target, url: &Url) -> Result<Option<Offer>, PathError> {
    match (url.is_tls, spec.tls) {
        (true, Some(TlsVersion::None)) => {
            Err(PathError::new(format!("send plain HTTP to {}: its scheme is https", target.url)))
        }
        (false, Some(TlsVersion::V12 | TlsVersion::V13)) => {
            Err(PathError::new(format!("offer TLS to {}: its scheme is http", target.url)))
        }
        (false, _) => Ok(None),
        (true, _) => {
            let offer = Offer::new(spec, target, url)?;
            // What cannot be used is better known now than when the load is to begin.
            Security::new(Some(&offer), 1)?;
            Ok(Some(offer))
        }
    }
}

/// The first address that accepts a connection, or the first one. A single one is not tried.
fn choose_address(addresses: &[SocketAddr]) -> SocketAddr {
    let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, PROBE_TIMEOUT).is_ok();
    match addresses {
        [only] => *only,
        several => *several.iter().find(accepts).unwrap_or(&several[0]),
    }
}

/// A load that is ready to measure.
struct HttpLoad {
    spec: LoadSettings,
    offer: Option<Offer>,
    plan: Arc<Plan>,
    interrupted: Arc<AtomicBool>,
}

impl Load for HttpLoad {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        let threads = self.spec.threads;
        let securities = self.securities()?;
        let mut frame =
            Frame::new(monotonic_ns() + LEAD_NS * u64::from(threads), window.warmup_ns, window.window_ns);
        let schedule = self.spec.rate.and_then(|rate| Schedule::constant(rate.0));
        if let (Some(schedule), Some(requests)) = (schedule, self.spec.requests) {
            frame = shortened(frame, schedule, requests);
        }
        // In an open loop the schedule says when the last request is due.
        let budget =
            self.spec.requests.filter(|_| schedule.is_none()).map(|units| Arc::new(Budget::new(units)));
        let closing = Closing::new(frame, Arc::clone(&self.interrupted));
        let (sender, receiver) = channel();
        let progress: Vec<Arc<AtomicU64>> = securities.iter().map(|_| Arc::default()).collect();
        for (thread, (security, progress)) in (0_u32..).zip(securities.into_iter().zip(&progress)) {
            let seed = SplitMix::seed_of(window.seed, thread.into());
            let make = ThreadParts {
                plan: Arc::clone(&self.plan),
                security,
                resumption: Proportion::new(self.spec.resumption.0, seed),
                connections: share_of(self.spec.connections, thread, threads),
                due: schedule.map(|schedule| schedule.share(thread.into(), threads.into())),
                frame,
                budget: budget.clone(),
                end: closing.end(),
                progress: Arc::clone(progress),
            };
            let sender = sender.clone();
            thread::Builder::new()
                .name(format!("plumb-load-{thread}"))
                .spawn(move || {
                    // The receiver is gone only if the measurement was given up.
                    let _ = sender.send(make.worker().map(Worker::run));
                })
                .map_err(|cause| PathError::Load(format!("start a load thread: {cause}")))?;
        }
        drop(sender);
        let watched = watch(&receiver, &progress, closing, mark)?;
        let asked = report::Asked {
            rate_per_s: self.spec.rate.map(|rate| rate.0),
            connections: self.spec.connections,
        };
        Ok(report::measurement(&watched, frame, asked, &self.plan.checks))
    }
}

impl HttpLoad {
    /// One for each thread.
    fn securities(&self) -> Result<Vec<Security>, PathError> {
        let threads = self.spec.threads;
        let security =
            |thread| Security::new(self.offer.as_ref(), share_of(self.spec.connections, thread, threads));
        (0..threads).map(security).collect()
    }
}

/// The window of a schedule that ends after this many requests, if that is earlier.
fn shortened(frame: Frame, schedule: Schedule, requests: u64) -> Frame {
    let first = schedule.first_at_or_after(frame.open_ns - frame.start_ns);
    let end_ns = frame.start_ns.saturating_add(schedule.due_ns(first.saturating_add(requests)));
    Frame { close_ns: frame.close_ns.min(end_ns), ..frame }
}

fn share_of(connections: u32, thread: u32, threads: u32) -> usize {
    (connections / threads + u32::from(thread < connections % threads)) as usize
}

/// What a thread is made of; the worker itself is made in its thread, where it stays.
struct ThreadParts {
    plan: Arc<Plan>,
    security: Security,
    resumption: Proportion,
    connections: usize,
    due: Option<plumb_pace::Share>,
    frame: Frame,
    budget: Option<Arc<Budget>>,
    end: End,
    progress: Arc<AtomicU64>,
}

impl ThreadParts {
    fn worker(self) -> Result<Worker, PathError> {
        let epoll = Epoll::new().map_err(|error| PathError::Load(format!("make an event queue: {error}")))?;
        let tally = Tally::new(self.frame, self.due.is_some(), self.plan.checks.all().len());
        let core = Core::new(self.plan, epoll, self.security, self.resumption, tally);
        let pacing = match self.due {
            None => Pacing::Closed,
            Some(due) => Pacing::Open { due, free: VecDeque::new() },
        };
        Ok(Worker::new(core, self.connections, pacing, (self.frame, self.end), self.budget, self.progress))
    }
}

/// Marks the moments of the measurement as they pass, until all threads are done.
fn watch(
    threads: &Receiver<Result<ThreadResult, PathError>>,
    progress: &[Arc<AtomicU64>],
    mut closing: Closing,
    mark: &mut dyn FnMut(Mark),
) -> Result<Watched, PathError> {
    let (mut yields, frame) = (Vec::new(), closing.frame());
    let mut wait_until =
        |at_ns: u64, closing: &mut Closing| wait_until(threads, at_ns, closing, progress.len(), &mut yields);
    wait_until(frame.open_ns, &mut closing)?;
    mark(Mark::Opened);
    let opened = CpuSupply::now();
    let mut next_ns = frame.open_ns.saturating_add(PROGRESS_NS);
    while next_ns < closing.frame().close_ns && !wait_until(next_ns, &mut closing)? {
        let work = progress.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        mark(Mark::Progress { work, elapsed_ns: next_ns - frame.open_ns });
        next_ns = next_ns.saturating_add(PROGRESS_NS);
    }
    wait_until(frame.close_ns, &mut closing)?;
    mark(Mark::Closed);
    let closed = CpuSupply::now();
    wait_until(u64::MAX, &mut closing)?;
    Ok(Watched { yields, supply: (opened, closed) })
}

/// Collects the threads' results until `at_ns`, or until the end of a window that closes early. Returns whether all threads
/// are done.
fn wait_until(
    threads: &Receiver<Result<ThreadResult, PathError>>,
    at_ns: u64,
    closing: &mut Closing,
    all: usize,
    yields: &mut Vec<ThreadResult>,
) -> Result<bool, PathError> {
    while yields.len() < all {
        let now_ns = monotonic_ns();
        closing.look(now_ns);
        let left_ns = closing.limit(at_ns).saturating_sub(now_ns);
        match threads.recv_timeout(Duration::from_nanos(left_ns.min(LOOK_NS))) {
            Ok(one) => yields.push(one?),
            Err(RecvTimeoutError::Timeout) if left_ns > LOOK_NS => {}
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PathError::Load("finish the measurement: a load thread ended early".to_owned()));
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
