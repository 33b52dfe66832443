//! The HTTP load generator: one event loop per thread, a closed loop by connections or an open loop by rate.
//!
//! No async runtime, no allocation per request: a request on a connection that stands is one `send`, one `recv` and
//! a share of an `epoll_wait`. Pacing, transport and stop rule are values that the one loop in `worker` works with.

mod beginnings;
mod checks;
mod choice;
mod connection;
mod content;
mod core;
mod due;
mod errors;
mod free;
mod http2_error;
mod http3_error;
mod link;
mod names;
mod parse_error;
mod protocol;
mod quic;
mod quic_error;
mod quic_link;
mod report;
mod request;
mod segments;
mod sessions;
mod socket;
mod stream;
mod tally;
mod tcp;
mod tls;
mod tls_openssl;
mod tls_rustls;
mod tool;
mod transport;
mod verify;
mod waits;
mod worker;

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use plumb_host::signals::unless_asked_to_stop;
use plumb_model::{Bytes, Measurement, NoticeKind, Objective, Percent};
use plumb_pace::Schedule;
use plumb_path::drive::{Drive, LOOK_NS, Marks, Part};
use plumb_path::{Capacity, CapacitySettings, Load, Mark, PathError, SettingsFault, Window, rate_per_s};
use plumb_quic::receive_buffer_given;

use self::beginnings::Beginnings;
use self::checks::{Check, Checks};
use self::core::{Core, RequestSettings};
pub(crate) use self::names::{is_same_cipher, is_same_group, is_same_protocol};
use self::protocol::Protocol;
use self::protocol::h1::H1;
use self::protocol::h2::H2;
use self::protocol::h3::H3;
pub(crate) use self::report::{
    ACCEPTED, CONGESTION, DATAGRAMS, DROPPED, MISSING, OFFERED, RECEIVE_BUFFER, REJECTED, STREAMS, ZERO_RTT,
};
use self::tally::Tally;
use self::tls::Offer;
pub(crate) use self::tls::is_spoken;
pub(crate) use self::tool::{driven_load, feasible, lacks};
use self::transport::Security;
use self::worker::HttpWorker;
use crate::metrics;
use crate::settings::{Announced, Driver, LoadProtocol, LoadSettings, Reuse, Sockets, Spoken, TlsVersion};
use crate::target::Target;
use crate::url::Url;

/// The first of several addresses that accepts a connection within this time is used.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks what a load asks for, without a target.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(spec: &LoadSettings) -> Result<(), SettingsFault> {
    let fault = |key: &str, message: &str| Err(SettingsFault::new(key, message));
    if spec.connections == 0 {
        return fault("load.connections", "a load needs at least 1 connection");
    }
    if spec.threads == 0 || spec.threads > spec.connections {
        let message = format!("a load of {} connections has 1 to {0} threads", spec.connections);
        return Err(SettingsFault::new("load.threads", message));
    }
    check_protocol(spec)?;
    check_announced(spec)?;
    check_quic(spec)?;
    if spec.duration.0 == 0 {
        return fault("load.duration", "the window must be longer than 0");
    }
    if spec.timeout.0 == 0 {
        return fault("load.timeout", "every request would fail at once; set a timeout such as `30 s`");
    }
    if spec.requests == Some(0) {
        return fault(
            "load.requests",
            "a load must make at least 1 request; leave `requests` out for no limit",
        );
    }
    if spec.rate.is_some_and(|rate| Schedule::constant(rate.0).is_none()) {
        return fault("load.rate", "a rate must be above 0; leave `rate` out for a closed loop");
    }
    if spec.capacity.is_some() {
        let others = [("rate", spec.rate.is_some()), ("requests", spec.requests.is_some())];
        CapacitySettings::check_alone(spec.driver == Driver::Native, &others)?;
        spec.searches()?;
    }
    if !(0.0..=1.0).contains(&spec.resumption.0) {
        return fault("load.resumption", "a share is 0% to 100%");
    }
    check_zero_rtt(spec)?;
    tool::check(spec)?;
    request::check(spec)?;
    tls::check(spec)?;
    parse_checks(spec).map(drop)
}

/// More streams than a load may have on a connection: above 2,047, their number is not counted exactly.
const STREAMS_MORE: u32 = 2001;

fn check_protocol(spec: &LoadSettings) -> Result<(), SettingsFault> {
    let only_native = match spec.protocol {
        LoadProtocol::Auto => {
            Some("only the load of plumb itself takes the protocol that the server chooses; set `h1` or `h2`")
        }
        LoadProtocol::H3 => Some("only the load of plumb itself speaks h3; set `h1` or `h2`"),
        LoadProtocol::H1 | LoadProtocol::H2 => None,
    };
    if let Some(why) = only_native.filter(|_| spec.driver != Driver::Native) {
        return Err(SettingsFault::new("load.protocol", why));
    }
    let why = match (spec.streams, spec.protocol, spec.reuse) {
        (0 | STREAMS_MORE.., ..) => "a connection carries 1 to 2000 requests at a time",
        (1, ..) | (_, LoadProtocol::H2 | LoadProtocol::H3 | LoadProtocol::Auto, Reuse::KeepAlive) => {
            return Ok(());
        }
        (_, LoadProtocol::H1, _) => "an HTTP/1.1 connection carries 1 request at a time; set `protocol: h2`",
        (_, _, Reuse::None) => "without `reuse` a connection carries 1 request; leave `streams` out",
    };
    Err(SettingsFault::new("load.streams", why))
}

/// Checks the limits that the client announces in HTTP/2 and HTTP/3.
fn check_announced(spec: &LoadSettings) -> Result<(), SettingsFault> {
    for Announced { key, name, bytes, range: [least, most], .. } in Announced::changed(spec) {
        let is_window = key.starts_with("load.windows.");
        match spec.protocol {
            LoadProtocol::H1 => {
                let why = format!("the {name} is a setting of HTTP/2; set `protocol: h2`");
                return Err(SettingsFault::new(key, why));
            }
            LoadProtocol::H3 if !is_window => {
                let why = format!("the {name} is a setting of HTTP/2, and HTTP/3 has none; leave it out");
                return Err(SettingsFault::new(key, why));
            }
            // QUIC itself has no smallest window.
            LoadProtocol::H3 if bytes < Bytes(1) || bytes > most => {
                let why = format!("the load allows 1 B to {most} for the {name}");
                return Err(SettingsFault::new(key, why));
            }
            LoadProtocol::H3 => continue,
            LoadProtocol::H2 | LoadProtocol::Auto => {}
        }
        if bytes < least || bytes > most {
            return Err(SettingsFault::new(key, format!("HTTP/2 allows {least} to {most} for the {name}")));
        }
    }
    Ok(())
}

/// More than a socket's buffer may have: the kernel counts twice its bytes in 31 bits.
const RECEIVE_BUFFER_MORE: u64 = 1 << 30;

/// Refuses settings of QUIC for TCP, which the kernel has for all programs.
fn check_quic(spec: &LoadSettings) -> Result<(), SettingsFault> {
    let is_quic = spec.protocol == LoadProtocol::H3;
    if spec.congestion.is_some() && !is_quic {
        return Err(SettingsFault::new(
            "load.congestion",
            "only HTTP/3 controls congestion in the load; set `protocol: h3`, or for TCP the host's `net.ipv4.tcp_congestion_control`",
        ));
    }
    if spec.sockets == Sockets::Shared && !is_quic {
        return Err(SettingsFault::new(
            "load.sockets",
            "only connections of HTTP/3 can share a socket; set `protocol: h3`",
        ));
    }
    match spec.receive_buffer {
        Some(_) if !is_quic => Err(SettingsFault::new(
            "load.receive_buffer",
            "only sockets of HTTP/3 have a fixed buffer; set `protocol: h3`, or for TCP the host's `net.ipv4.tcp_rmem`",
        )),
        Some(Bytes(0 | RECEIVE_BUFFER_MORE..)) => Err(SettingsFault::new(
            "load.receive_buffer",
            "a socket's buffer has at least 1 B and less than 1 GiB",
        )),
        _ => Ok(()),
    }
}

/// Refuses requests in 0-RTT where there can be none, and where a server that gets them twice would act twice.
fn check_zero_rtt(spec: &LoadSettings) -> Result<(), SettingsFault> {
    let Percent(share) = spec.zero_rtt;
    let message = match share {
        0.0 => return Ok(()),
        _ if !(0.0..=1.0).contains(&share) => "a share is 0% to 100%".to_owned(),
        _ if spec.protocol != LoadProtocol::H3 => {
            "only HTTP/3 sends requests in 0-RTT here; set `protocol: h3`".to_owned()
        }
        _ if share > spec.resumption.0 => {
            format!(
                "only connections that resume a session send requests in 0-RTT; set `resumption` to {} or more",
                spec.zero_rtt
            )
        }
        _ if !SAFE_METHODS.contains(&spec.method.as_str()) => {
            format!(
                "a request in 0-RTT may reach the server twice, and {} changes things there (RFC 8470, section 4)",
                spec.method
            )
        }
        _ => return Ok(()),
    };
    Err(SettingsFault::new("load.zero_rtt", message))
}

/// Methods that change nothing on the server (RFC 9110, section 9.2.1).
const SAFE_METHODS: [&str; 4] = ["GET", "HEAD", "OPTIONS", "TRACE"];

fn parse_checks(spec: &LoadSettings) -> Result<Vec<Check>, SettingsFault> {
    let parse = |(index, text): (usize, &String)| {
        Check::parse(text).map_err(|error| SettingsFault::new(format!("load.checks[{index}]"), error))
    };
    spec.checks.iter().enumerate().map(parse).collect()
}

/// Builds the load against a target. The target's name is resolved here, once.
///
/// # Errors
/// When the URL, a name or a file cannot be used.
pub(crate) fn http_load(spec: &LoadSettings, target: &Target) -> Result<Box<dyn Load>, PathError> {
    let from_fault = |fault: SettingsFault| PathError::usage(format!("build the load: {fault}"));
    check(spec).map_err(from_fault)?;
    let url = Url::parse(&target.url).map_err(PathError::usage)?;
    let offer = offer(spec, target, &url).map_err(PathError::usage)?;
    if spec.protocol == LoadProtocol::H3 && offer.is_none() {
        return Err(PathError::usage(format!(
            "speak HTTP/3 to {}: it is spoken over TLS only; use https",
            target.url
        )));
    }
    let request_settings = RequestSettings {
        address: target.addresses(&url).map_err(PathError::new).and_then(choose_address)?,
        checks: Checks::new(parse_checks(spec).map_err(from_fault)?),
        reuse: spec.reuse,
        timeout_ns: spec.timeout.0,
        is_auto: spec.protocol == LoadProtocol::Auto,
        netns: target.netns.clone(),
    };
    check_open_files(spec.connections, plumb_host::limits::raise_open_files_limit())?;
    check_receive_buffer(spec)?;
    Ok(match choice::protocol(spec, offer.as_ref(), &request_settings)? {
        Spoken::H1 => Box::new(HttpLoad::<H1>::new(spec, &url, offer, request_settings)),
        Spoken::H2 => Box::new(HttpLoad::<H2>::new(spec, &url, offer, request_settings)),
        Spoken::H3 => Box::new(HttpLoad::<H3>::new(spec, &url, offer, request_settings)),
    })
}

/// Refuses a buffer that the kernel would cut.
fn check_receive_buffer(spec: &LoadSettings) -> Result<(), PathError> {
    let Some(asked) = spec.receive_buffer else { return Ok(()) };
    let given =
        receive_buffer_given(asked).map_err(|cause| PathError::new(format!("make a UDP socket: {cause}")))?;
    if given >= asked {
        return Ok(());
    }
    Err(PathError::usage(format!(
        "set receive_buffer to {asked}: this process may have {given} at most; it needs CAP_NET_ADMIN or a higher net.core.rmem_max"
    )))
}

/// Files that the process opens besides its connections.
const FILES_KEPT: u64 = 64;

/// Refuses a load that would run out of open files, because the server would seem to fail.
fn check_open_files(connections: u32, files_max: u64) -> Result<(), PathError> {
    let needed = u64::from(connections) + FILES_KEPT;
    if needed <= files_max {
        return Ok(());
    }
    Err(PathError::usage(format!(
        "open {connections} connections: this process needs {needed} open files, and its limit is {files_max}; raise the limit with \
         `ulimit -n {needed}`, or in the settings of the service or container"
    )))
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

/// The first address that accepts a connection, or the first one. A single one is not tried: a system behind a link has only one.
fn choose_address(addresses: Vec<SocketAddr>) -> Result<SocketAddr, PathError> {
    let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, PROBE_TIMEOUT).is_ok();
    match addresses[..] {
        [only] => Ok(only),
        _ => unless_asked_to_stop(move || *addresses.iter().find(accepts).unwrap_or(&addresses[0]))
            .map_err(|cause| PathError::new(format!("connect to the server: {cause}"))),
    }
}

/// A load that is ready to measure.
struct HttpLoad<P: Protocol> {
    spec: LoadSettings,
    offer: Option<Offer>,
    request_settings: Arc<RequestSettings>,
    shared: P::Shared,
}

impl<P: Protocol> HttpLoad<P> {
    fn new(spec: &LoadSettings, url: &Url, offer: Option<Offer>, request_settings: RequestSettings) -> Self {
        Self {
            spec: spec.clone(),
            offer,
            request_settings: Arc::new(request_settings),
            shared: P::shared(spec, url),
        }
    }

    /// The requests that a connection has at a time.
    fn streams(&self) -> u32 {
        if P::IS_MULTIPLEXED { self.spec.streams } else { 1 }
    }

    /// Adds what depended on the server's choice of the protocol.
    fn note_choice(&self, measurement: &mut Measurement) {
        let streams = self.streams();
        if self.spec.is_closed_loop() && self.spec.in_flight().is_none() {
            measurement.in_flight = Some(self.spec.in_flight_of(streams));
        }
        if streams < self.spec.streams && measurement.work > 0 {
            measurement.notices.push(NoticeKind::StreamsUnused.with([f64::from(self.spec.streams)]));
        }
    }
}

impl<P: Protocol> Load for HttpLoad<P> {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        let rate_per_s = rate_per_s(window.rate_per_s, self.spec.rate);
        let drive = Drive {
            threads: self.spec.threads,
            window,
            rate_per_s,
            units: self.spec.requests,
            look_ns: LOOK_NS,
        };
        let driven = drive.run(&mut Marks(mark), |part| {
            let connections = part.share_of(self.spec.connections) as usize;
            // The TLS library is made ready before any thread begins.
            let security = P::security(&self.spec, self.offer.as_ref(), connections);
            let (request_settings, shared) = (Arc::clone(&self.request_settings), self.shared.clone());
            let beginnings = Beginnings::new(&self.spec, part.seed);
            move || worker::<P>(request_settings, shared, security?, beginnings, connections, part)
        })?;
        let (connections, is_judged) = (self.spec.connections, self.spec.capacity.is_some());
        let announced = Announced::changed(&self.spec).collect();
        let streams = self.streams();
        let asked = report::Asked { rate_per_s, connections, streams, spoken: P::KIND, is_judged, announced };
        let mut measurement = report::measurement(&driven, &asked, &self.request_settings);
        // Above the capacity all connections are busy, however many there are.
        if self
            .spec
            .searches()
            .ok()
            .flatten()
            .is_some_and(|sought| !waited_for_connections(&measurement, &sought))
        {
            measurement.notices.retain(|notice| notice.kind != NoticeKind::FewConnections);
        }
        self.note_choice(&mut measurement);
        Ok(measurement)
    }
}

/// Whether an objective failed only because requests waited for a free connection: with the time from when they were sent it is met.
fn waited_for_connections(measurement: &Measurement, sought: &Capacity) -> bool {
    let waits = [metrics::ITERATION_DURATION.name, metrics::HTTP_REQ_DURATION.name];
    sought.objectives.iter().filter(|objective| waits.contains(&objective.metric.as_str())).any(|objective| {
        let service = Objective { metric: metrics::HTTP_REQ_SERVICE.name.to_owned(), ..objective.clone() };
        !objective.is_met(measurement.value_of(objective)) && objective.is_met(measurement.value_of(&service))
    })
}

/// Makes a worker, in its own thread, where it stays.
fn worker<P: Protocol>(
    request_settings: Arc<RequestSettings>,
    shared: P::Shared,
    security: Security,
    beginnings: Beginnings,
    connections: usize,
    part: Part,
) -> Result<HttpWorker<P>, PathError> {
    if let Some(netns) = &request_settings.netns {
        plumb_host::namespace::enter(netns).map_err(PathError::load)?;
    }
    let tally = Tally::new(part.frame, part.due.is_some(), request_settings.checks.all().len());
    let core = Core::new(request_settings, shared, security, beginnings, tally)
        .map_err(|error| PathError::load(format!("make an event queue: {error}")))?;
    Ok(HttpWorker::new(core, connections, part))
}

#[cfg(test)]
pub(crate) mod tests;
