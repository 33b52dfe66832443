//! The bare cost of requests in HTTP/3: an epoll loop that exchanges with an echo datagrams of the sizes and in the calls that `plumb`
//! has on average.
//!
//! The client is a separate process, measured as the other tools are. Its CPU time is the kernel's share of a request. It has the
//! sockets of `plumb`, and neither TLS nor QUIC.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use plumb_host::cpu::{CpuSet, pin_current_thread};
use plumb_host::epoll::{Epoll, Ready};
use plumb_host::process::Output;
use plumb_host::time::monotonic_ns;
use plumb_model::Bytes;
use plumb_quic::Datagrams;
use quinn_proto::Transmit;
use serde_json::Value;

use crate::tool::{Tool, split_arguments};
use crate::{Outcome, say};

/// The name in the table.
pub const NAME: &str = "echo";
/// An echo that is silent for this long will not answer.
const SILENCE: Duration = Duration::from_secs(5);
/// The receive buffer of a connection, as in the other loads.
const BUFFER: Bytes = Bytes(8 << 20);
/// The most bytes of a call.
const CALL_BYTES: usize = 65_000;

/// The datagrams that `plumb` exchanges for each call that sends some.
#[derive(Debug, Clone, Copy)]
struct Shape {
    requests: f64,
    sent: f64,
    sent_bytes: usize,
    received: f64,
    received_bytes: usize,
}

impl Shape {
    /// From a result of `plumb http --json`.
    fn from_result(result: &Value) -> Option<Self> {
        let seen = |name: &str, which: &str| result["observed"][name][which].as_f64();
        let count = |name: &str| result["metrics"][name]["count"].as_f64();
        let calls = seen("calls for datagrams", "sent")?;
        let [sent, received] = [seen("datagrams", "sent")?, seen("datagrams", "received")?];
        Some(Self {
            requests: count("http_reqs")? / calls,
            sent: sent / calls,
            sent_bytes: (count("data_sent")? / sent) as usize,
            received: received / calls,
            received_bytes: (count("data_received")? / received) as usize,
        })
    }
}

/// The loop as a tool, after a run of `plumb` that shows what to exchange. Its echo runs on `cpus` until the program ends.
pub fn tool(
    plumb: &Tool,
    connections: u32,
    seconds: u32,
    (load, system): (&CpuSet, &CpuSet),
) -> Outcome<Tool> {
    let result = serde_json::from_str(&plumb.output(load)?.stdout)?;
    let shape = Shape::from_result(&result).ok_or("plumb printed no counts of datagrams")?;
    let port = serve(system.clone())?;
    let Shape { requests, sent, sent_bytes, received, received_bytes } = shape;
    let arguments = format!(
        "echo {connections} {seconds} {port} {requests:.4} {sent:.4} {sent_bytes} {received:.4} {received_bytes}"
    );
    Ok(Tool {
        name: NAME,
        program: std::env::current_exe()?,
        arguments: split_arguments(&arguments),
        read: requests_and_seconds,
    })
}

/// `151207.5 requests in 3.001 s`
fn requests_and_seconds(output: &Output) -> Option<(f64, f64)> {
    let (requests, seconds) = output.stderr.trim().split_once(" requests in ")?;
    Some((requests.parse().ok()?, seconds.strip_suffix(" s")?.parse().ok()?))
}

/// Answers each call with as many datagrams of that size as its first bytes ask for.
fn serve(cpus: CpuSet) -> Outcome<u16> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = socket.local_addr()?.port();
    let (socket, epoll) = (Datagrams::on(socket)?, Epoll::new()?);
    epoll.watch_reads(&socket, 0)?;
    std::thread::spawn(move || {
        let (mut events, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        if pin_current_thread(&cpus).is_err() {
            return;
        }
        while epoll.wait(None, &mut events).is_ok() {
            while let Ok(Some(received)) = socket.receive(&mut buffer) {
                let [count, bytes] =
                    [0, 2].map(|at| usize::from(u16::from_be_bytes([buffer[at], buffer[at + 1]])));
                // A datagram that was not sent ends the client with an error.
                let _ = send(&socket, received.from, count, bytes, &buffer);
            }
        }
    });
    Ok(port)
}

/// Sends datagrams of one size, in as few calls as the kernel allows.
fn send(socket: &Datagrams, destination: SocketAddr, count: usize, bytes: usize, contents: &[u8]) -> Outcome {
    let (mut left, at_once) = (count, socket.segments_max().min(CALL_BYTES / bytes.max(1)));
    while left > 0 {
        let now = left.min(at_once);
        let transmit =
            Transmit { destination, ecn: None, size: now * bytes, segment_size: Some(bytes), src_ip: None };
        if socket.send(&transmit, &contents[..now * bytes])? != Some(now * bytes) {
            return Err("the kernel took no datagrams".into());
        }
        left -= now;
    }
    Ok(())
}

/// Runs the loop, and prints what it did.
pub fn run(arguments: &[String]) -> Outcome {
    let [connections, seconds, port, requests, sent, sent_bytes, received, received_bytes] = arguments else {
        return Err("the echo takes CONNECTIONS SECONDS PORT and the counts and sizes of datagrams".into());
    };
    let shape = Shape {
        requests: requests.parse()?,
        sent: sent.parse()?,
        sent_bytes: sent_bytes.parse()?,
        received: received.parse()?,
        received_bytes: received_bytes.parse()?,
    };
    let (epoll, to, begun_ns) = (Epoll::new()?, (Ipv4Addr::LOCALHOST, port.parse()?).into(), monotonic_ns());
    let end_ns = begun_ns + seconds.parse::<u64>()? * 1_000_000_000;
    let (mut exchanges, mut contents) = (Vec::new(), vec![0; 64 << 10]);
    for token in 0..connections.parse()? {
        let socket = Datagrams::connect(to, Some(BUFFER))?;
        epoll.watch_reads(&socket, token)?;
        let mut exchange = Exchange { socket, to, calls: 0, awaited: 0 };
        exchange.begin(shape, &mut contents)?;
        exchanges.push(exchange);
    }
    let (mut events, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    while exchanges.iter().any(|exchange| exchange.awaited > 0) {
        epoll.wait(Some(SILENCE), &mut events)?;
        if events.is_empty() {
            return Err(format!("an echo is missing after {SILENCE:?}").into());
        }
        let goes_on = monotonic_ns() < end_ns;
        for event in &events {
            let exchange = &mut exchanges[Ready::from(*event).token as usize];
            if exchange.receive(&mut buffer)? && goes_on {
                exchange.begin(shape, &mut contents)?;
            }
        }
    }
    let seconds = (monotonic_ns() - begun_ns) as f64 / 1e9;
    let calls: u64 = exchanges.iter().map(|exchange| exchange.calls).sum();
    say(&format!("{:.1} requests in {seconds:.3} s", calls as f64 * shape.requests));
    Ok(())
}

/// A connection.
struct Exchange {
    socket: Datagrams,
    to: SocketAddr,
    /// Calls that sent.
    calls: u64,
    /// Datagrams that have not come.
    awaited: usize,
}

impl Exchange {
    /// Sends the datagrams of one call, or of several if the first bring no answer.
    fn begin(&mut self, shape: Shape, contents: &mut [u8]) -> Outcome {
        while self.awaited == 0 {
            // As many in all as the mean says.
            let share =
                |mean: f64| ((self.calls + 1) as f64 * mean) as usize - (self.calls as f64 * mean) as usize;
            let (count, awaited) = (share(shape.sent).max(1), share(shape.received));
            contents[..2].copy_from_slice(&(awaited as u16).to_be_bytes());
            contents[2..4].copy_from_slice(&(shape.received_bytes as u16).to_be_bytes());
            send(&self.socket, self.to, count, shape.sent_bytes, contents)?;
            self.calls += 1;
            self.awaited = awaited;
        }
        Ok(())
    }

    /// Receives what has come. Returns whether it was all.
    fn receive(&mut self, buffer: &mut [u8]) -> Outcome<bool> {
        while let Some(received) = self.socket.receive(buffer)? {
            let count = received.bytes.div_ceil(received.segment_bytes.max(1));
            self.awaited = self.awaited.checked_sub(count).ok_or("the echo sent too many datagrams")?;
        }
        Ok(self.awaited == 0)
    }
}
