//! The tool at the load's end: its options, and its output as the path's readings.

use plumb_host::cpu::CpuTime;
use plumb_model::{Measurement, Metric, Rate, Reading};
use plumb_path::tool::{DrivenLoad, Invocation, Program, Tool, whole_seconds};
use plumb_path::{AnyError, Load, PathError};
use plumb_readers::ToolRun;

use super::program;
use super::series::Series;
use crate::metrics::METRICS;
use crate::options::ZeroCopy;
use crate::own_share::own_share_max;
use crate::settings::{Driver, LoadSettings, NetworkTarget, Test};

/// Significant digits that qperf prints; it prints three unless it is asked for more.
const QPERF_DIGITS: &str = "6";
/// The figures that netperf prints of a test.
const NETPERF_KEYS: &str = "PROTOCOL,DIRECTION,ELAPSED_TIME,TRANSACTION_RATE,MIN_LATENCY,MEAN_LATENCY,P50_LATENCY,P90_LATENCY,\
                            P99_LATENCY,MAX_LATENCY,LOCAL_SEND_CALLS,REMOTE_RECV_CALLS,LOCAL_BYTES_SENT,REMOTE_BYTES_RECVD,\
                            LOCAL_SEND_THROUGHPUT,REMOTE_RECV_THROUGHPUT";

/// A load that a tool drives against its server; `None` for Plumbline's own.
///
/// # Errors
/// When this host does not have the tool.
pub(crate) fn driven_load(
    settings: &LoadSettings,
    target: &NetworkTarget,
) -> Result<Option<Box<dyn Load>>, PathError> {
    let Some(program) = program(settings.driver) else { return Ok(None) };
    let of_test = |test: &Test| {
        let tool = NetworkTool { program, test: *test, settings: settings.clone(), target: target.clone() };
        DrivenLoad::new(tool)
    };
    let tests: Result<Vec<_>, _> = settings.tests.iter().map(of_test).collect();
    Ok(Some(Box::new(Series { settings: settings.clone(), tests: tests? })))
}

/// A tool that runs one test.
struct NetworkTool {
    program: Program,
    test: Test,
    settings: LoadSettings,
    target: NetworkTarget,
}

/// An output without the number of messages.
#[derive(Debug, thiserror::Error)]
#[error("it does not say how many messages it sent")]
struct NoMessages;

impl Tool for NetworkTool {
    fn program(&self) -> Program {
        self.program
    }

    fn invocation(&self, window_ns: u64) -> Result<Invocation, AnyError> {
        let Self { settings, target, .. } = self;
        let seconds = whole_seconds(window_ns);
        let mut arguments = match settings.driver {
            Driver::Native => Vec::new(),
            Driver::Qperf => self.qperf(seconds),
            Driver::Iperf3 => self.iperf3(seconds),
            Driver::Sockperf => self.sockperf(seconds),
            Driver::Netperf => self.netperf(seconds),
        };
        arguments.extend(settings.options.iter().cloned());
        if settings.driver == Driver::Qperf {
            // The test stands last.
            arguments.push(self.test.name().to_owned());
        }
        let passing = vec![target.port.to_string(), target.address.clone()];
        Ok(Invocation { arguments, netns: target.netns.clone(), passing, ..Invocation::default() })
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn threads(&self) -> u32 {
        1
    }

    fn own_share(&self, cpu: CpuTime) -> f64 {
        let cpu_ns = cpu.total_ns() as f64;
        let user_share = cpu.user_ns as f64 / cpu_ns.max(1.0);
        if user_share > own_share_max(cpu_ns) { 1.0 } else { user_share }
    }

    fn read_run(&self, said: &str) -> Result<ToolRun, AnyError> {
        let mut run = plumb_readers::read_one(said)?;
        let messages = self.messages(&run, said).ok_or(NoMessages)?;
        run.measurement.work = messages;
        Ok(run)
    }

    fn complete(&self, measurement: &mut Measurement) {
        if !self.test.is_bandwidth() {
            let there_and_back = [(self.test.name().to_owned(), measurement.work)].into();
            measurement.observed.insert("there_and_back".to_owned(), there_and_back);
        }
    }
}

impl NetworkTool {
    /// How many messages the process sent, or got there and back, from its first to its last: its CPU time is that of all of them.
    fn messages(&self, run: &ToolRun, said: &str) -> Option<u64> {
        let name = self.test.name();
        match self.settings.driver {
            Driver::Native | Driver::Netperf => Some(run.measurement.work),
            Driver::Iperf3 => match run.measurement.readings.get(name)? {
                Reading::Rate { count, .. } => Some(count / self.size()),
                _ => None,
            },
            // It leaves out the time in which it warms up.
            Driver::Sockperf => {
                let total = said.lines().find(|line| line.contains("[Total Run]"))?;
                let (_, count) = total.split_once("ReceivedMessages=")?;
                count.trim().parse().ok()
            }
            // It counts those of both directions.
            Driver::Qperf => {
                let Some(Reading::Gauge(rate)) = run.measurement.readings.get(&format!("{name}_msg_rate"))
                else {
                    return None;
                };
                let seconds = run.measurement.window_ns as f64 / 1e9;
                let directions = if self.test.is_round_trip() { 2.0 } else { 1.0 };
                Some((rate * seconds / directions) as u64)
            }
        }
    }

    fn size(&self) -> u64 {
        self.settings.size_of(self.test).0
    }

    fn qperf(&self, seconds: u64) -> Vec<String> {
        let (size, port) = (self.size().to_string(), self.target.port.to_string());
        owned(&[
            &self.target.address,
            "-lp",
            &port,
            "-t",
            &seconds.to_string(),
            "-m",
            &size,
            "-e",
            QPERF_DIGITS,
            // The number of messages, and the time.
            "-vs",
            "-vu",
        ])
    }

    fn iperf3(&self, seconds: u64) -> Vec<String> {
        let settings = &self.settings;
        let mut arguments = self.connected("-c");
        arguments.extend(owned(&["-J", "-t", &seconds.to_string(), "-l", &self.size().to_string()]));
        arguments.extend(owned(&["-P", &settings.flows.to_string()]));
        if self.test.is_udp() {
            arguments.push("-u".to_owned());
        }
        // Without a number it would send datagrams at 1 Mbit/s.
        let bits = settings.rate.map_or(0, |Rate(rate)| {
            (rate * 8.0 * self.size() as f64 / f64::from(settings.flows.max(1))).round() as u64
        });
        arguments.extend(owned(&["-b", &bits.to_string()]));
        if settings.zero_copy == ZeroCopy::Sendfile && self.test == Test::TcpBw {
            arguments.push("-Z".to_owned());
        }
        if settings.nodelay == Some(true) {
            arguments.push("-N".to_owned());
        }
        arguments
    }

    fn sockperf(&self, seconds: u64) -> Vec<String> {
        let mut arguments = owned(&["pp"]);
        arguments.extend(self.connected("-i"));
        arguments.extend(owned(&["-t", &seconds.to_string(), "-m", &self.size().to_string()]));
        if !self.test.is_udp() {
            arguments.push("--tcp".to_owned());
        }
        if self.settings.nodelay == Some(false) && !self.test.is_udp() {
            arguments.push("--tcp-avoid-nodelay".to_owned());
        }
        arguments
    }

    fn netperf(&self, seconds: u64) -> Vec<String> {
        let size = self.size().to_string();
        let both = format!("{size},{size}");
        let (test, of_size) = match self.test {
            Test::TcpLat => ("TCP_RR", ["-r", &both]),
            Test::UdpLat => ("UDP_RR", ["-r", &both]),
            Test::TcpCrr => ("TCP_CRR", ["-r", &both]),
            Test::TcpBw => ("TCP_STREAM", ["-m", &size]),
            Test::UdpBw => ("UDP_STREAM", ["-m", &size]),
        };
        let mut arguments = self.connected("-H");
        arguments.extend(owned(&["-l", &seconds.to_string(), "-t", test, "--"]));
        arguments.extend(owned(&of_size));
        arguments.extend(owned(&["-k", NETPERF_KEYS]));
        if self.settings.nodelay == Some(true) {
            arguments.push("-D".to_owned());
        }
        arguments
    }

    /// The server's address behind the option that a tool has for it, and its port.
    fn connected(&self, option: &str) -> Vec<String> {
        owned(&[option, &self.target.address, "-p", &self.target.port.to_string()])
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
