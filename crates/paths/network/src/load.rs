//! The network load: qperf's tests, one after the other, a thread for each flow.
//!
//! The loops in `flow` and `sender` do nothing but messages. The thread that measures looks at them from outside: at the
//! opening and the close of the window and once a second it notes what both ends have counted, each on its own clock.

mod connections;
mod control;
mod datagrams;
mod error;
mod flow;
mod overdue;
mod prepare;
mod report;
mod run;
mod sender;
mod shared_pages;
mod tally;
#[cfg(test)]
mod tests;
mod under_way;
mod worker;

use plumb_host::signals::was_asked_to_stop;
use plumb_model::{Measurement, Rate};
use plumb_pace::Schedule;
use plumb_path::{CapacitySettings, Load, Mark, PathError, SettingsFault, Window, rate_per_s};

use self::control::Control;
pub(crate) use self::error::Error;
pub(crate) use self::shared_pages::{COPIED, SHARED};
use crate::options::{Receive, ZeroCopy};
use crate::settings::{Driver, LoadSettings, NetworkTarget, Test};
use crate::tool;
use crate::wire::bounds::{check_flows, check_size};

const BATCH_MAX: u32 = 1024;
/// A batch of a stream is one piece of memory.
const BATCH_BYTES_MAX: u64 = 16 << 20;

/// Checks what a load asks for, without a server.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(spec: &LoadSettings) -> Result<(), SettingsFault> {
    let fault = |key: &str, message: &str| Err(SettingsFault::new(format!("load.{key}"), message));
    if spec.tests.is_empty() {
        return fault("tests", "must name at least one test, such as `tcp_lat`");
    }
    if spec.tests.iter().enumerate().any(|(at, test)| spec.tests[..at].contains(test)) {
        return fault("tests", "each test runs once; remove the duplicate");
    }
    for test in &spec.tests {
        check_size(*test, spec.size_of(*test).0)
            .map_err(|error| SettingsFault::new("load.msg_size", error))?;
    }
    check_flows(spec.flows).map_err(|error| SettingsFault::new("load.flows", error))?;
    if spec.batch == 0 || spec.batch > BATCH_MAX {
        return fault("batch", "a batch has 1 to 1024 messages");
    }
    let mut bandwidth = spec.tests.iter().filter(|test| test.is_bandwidth());
    if bandwidth.any(|test| u64::from(spec.batch) * spec.size_of(*test).0 > BATCH_BYTES_MAX) {
        return fault("batch", "a batch has at most 16 MiB: its messages times their size (`msg_size`)");
    }
    if spec.zero_copy != ZeroCopy::Off && !spec.tests.contains(&Test::TcpBw) {
        return fault("zero_copy", "it is for `tcp_bw`, which is not among the tests");
    }
    if spec.receive != Receive::Block && !spec.tests.iter().any(|test| test.is_bandwidth()) {
        return fault("receive", "it is for `tcp_bw` and `udp_bw`, and neither is among the tests");
    }
    if spec.duration.0 == 0 {
        return fault("duration", "the window must be longer than 0");
    }
    if spec.rate.is_some_and(|rate| Schedule::constant(rate.0).is_none()) {
        return fault("rate", "a rate must be above 0; leave `rate` out for a closed loop");
    }
    if spec.capacity.is_some() {
        if !matches!(spec.tests[..], [test] if test.latency().is_some()) {
            return fault(
                "tests",
                "a search for the capacity is of one test: `tcp_lat`, `udp_lat` or `tcp_crr`",
            );
        }
        let others = [("rate", spec.rate.is_some())];
        CapacitySettings::check_alone(spec.driver == Driver::Native, &others)?;
        spec.searches()?;
    }
    if spec.busy_poll.0 != 0 && !(1_000..=1_000_000_000).contains(&spec.busy_poll.0) {
        return fault("busy_poll", "a thread polls for 1 us to 1 s before it sleeps");
    }
    for (key, bytes) in [("send_buffer", spec.send_buffer), ("receive_buffer", spec.receive_buffer)] {
        if bytes.is_some_and(|bytes| bytes.0 == 0 || bytes.0 > 1 << 30) {
            return fault(key, "a socket's buffer has 1 B to 1 GiB");
        }
    }
    Ok(())
}

/// A load against a server, by Plumbline itself or by a tool.
///
/// # Errors
/// When the tool is not there, or Plumbline's server does not answer.
pub(crate) fn any_load(spec: &LoadSettings, target: &NetworkTarget) -> Result<Box<dyn Load>, PathError> {
    match tool::driven_load(spec, target)? {
        Some(load) => Ok(load),
        None => Ok(Box::new(network_load(spec, target)?)),
    }
}

/// Makes sure that a server answers.
///
/// # Errors
/// When a setting is wrong, or the server does not answer as one.
pub(crate) fn network_load(spec: &LoadSettings, target: &NetworkTarget) -> Result<NetworkLoad, Error> {
    check(spec)?;
    Control::connect(target)?;
    Ok(NetworkLoad { spec: spec.clone(), target: target.clone() })
}

/// A load that is ready to measure.
#[derive(Debug)]
pub struct NetworkLoad {
    spec: LoadSettings,
    target: NetworkTarget,
}

impl Load for NetworkLoad {
    /// Once this process is asked to stop, the window closes, and the measurement is of the time until then. Without a window it is empty.
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        let rate = rate_per_s(window.rate_per_s, self.spec.rate).map(Rate);
        let spec = LoadSettings { rate, ..self.spec.clone() };
        let count = spec.tests.len();
        let moments = run::Moments::new(window, count);
        let mut series = run::Series::new(mark, moments);
        let mut outcomes = Vec::with_capacity(count);
        for (at, test) in spec.tests.iter().enumerate() {
            if was_asked_to_stop() {
                break;
            }
            let prepared = prepare::prepare(&spec, &self.target, *test)?;
            outcomes.extend(run::run(prepared, moments.part(at), at + 1 == count, &mut series)?);
        }
        if outcomes.is_empty() {
            return Ok(Measurement::default());
        }
        if outcomes.len() < count {
            series.cut_short();
        }
        let mut measurement = report::measurement(&spec, &outcomes, series.work());
        if spec.zero_copy == ZeroCopy::Sendfile {
            let (changed, unchanged) = shared_pages::probe(&self.target)?;
            let seen = [(SHARED.to_owned(), changed), (COPIED.to_owned(), unchanged)];
            measurement.observed.insert("sendfile".to_owned(), seen.into_iter().collect());
        }
        Ok(measurement)
    }
}
