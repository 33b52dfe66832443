//! Network load against qperf, sockperf and iperf3, on one veth pair between two namespaces that exist only for it.
//!
//! Each tool's server runs at one end on one CPU, its client at the other end on another; latency is measured with both on
//! one CPU too, where no CPU has to be woken. Latency is compared as each peer
//! reports it: qperf's mean with our mean, sockperf's median with our median. CPU time is that of client and server together.

use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;

use plumb_host::cpu::{CpuSet, available_cpus, process_cpu_time, split_sides, tree_cpu_time};
use plumb_host::namespace::Namespace;
use plumb_host::network::Link;
use plumb_host::process::{Child, Command, Output, Signal, output_of, which};
use serde_json::Value;

use crate::blocks::{Samples, interleave_by};
use crate::results::{cells, write_text};
use crate::tool::built_plumb;
use crate::{Outcome, say};

/// Blocks of every row, and of those of latency, where a difference of 2% is to be seen.
const BLOCKS: usize = 10;
const LATENCY_BLOCKS: usize = 16;
/// Seconds of every run.
const SECONDS: f64 = 1.0;
/// Where the servers are.
const SERVER: &str = "10.91.0.2";
const CLIENT: &str = "10.91.0.1";
const PLUMB_PORT: &str = "19766";
const TCP_PORT: &str = "11112";
const UDP_PORT: &str = "11111";
/// sockperf's smallest message.
const LATENCY_BYTES: u32 = 14;

/// What one run of a tool came to.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Mean latency in us, or the receiver's bytes per second.
    mean: f64,
    /// Median latency in us, where the tool tells.
    median: f64,
    /// CPU time of both ends per round trip or message, in us.
    cpu_us: f64,
}

/// Mean, median, and messages.
type Reading = (f64, f64, f64);

/// A client with its arguments.
struct Tool {
    name: String,
    program: PathBuf,
    arguments: String,
    size: u32,
    read: fn(&Output, u32) -> Option<Reading>,
}

/// The two ends and the servers at one of them, all gone with this value.
struct Bed {
    client: Namespace,
    server: Namespace,
    cpus: CpuSet,
    servers: Vec<Child>,
}

impl Drop for Bed {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // One that does not end is ended by the kernel with this process.
            let _ = server.terminate(Duration::from_secs(1));
        }
    }
}

fn find(name: &str) -> Outcome<PathBuf> {
    which(name).ok_or_else(|| format!("{name} is not installed; run scripts/install-tools.sh tests").into())
}

impl Bed {
    /// With both ends on the same CPUs, or each with separate CPUs.
    fn make(shares_cpus: bool) -> Outcome<Self> {
        let (client, server) = (Namespace::create()?, Namespace::create()?);
        let link = |name| Link { name, mtu: 1500, queue_length: None, queues: 1 };
        client.add_veth(link("near"), link("far"), &server)?;
        for (end, device, address) in [(&client, "near", CLIENT), (&server, "far", SERVER)] {
            let address = address.parse().map_err(|_| format!("{address} is not an address"))?;
            end.add_address(device, address, 24)?;
            end.set_up(device)?;
        }
        let sides = split_sides(&available_cpus()?);
        let servers_on = if shares_cpus { &sides.load } else { &sides.system };
        let mut bed = Self { client, server, cpus: sides.load.clone(), servers: Vec::new() };
        for (program, arguments) in [
            (built_plumb()?, format!("network serve -q --listen {SERVER}:{PLUMB_PORT}")),
            (find("qperf")?, String::new()),
            (find("iperf3")?, "-s".to_owned()),
            (find("sockperf")?, format!("sr -i {SERVER} -p {UDP_PORT}")),
            (find("sockperf")?, format!("sr --tcp -i {SERVER} -p {TCP_PORT}")),
        ] {
            let command = Command::new(program).args(arguments.split_whitespace()).pin(servers_on.clone());
            let command = command.own_group().dies_with_parent(Signal::KILL);
            let command = command.network(&bed.server)?;
            bed.servers.push(command.spawn()?);
        }
        plumb_host::time::sleep(Duration::from_secs(1));
        Ok(bed)
    }

    fn run(&self, tool: &Tool) -> Outcome<Sample> {
        let own = std::process::id();
        // The servers' time is in it, and they do something for one client only at a time.
        let children_ns = || -> Outcome<u64> {
            let tree = tree_cpu_time(own)?;
            let alone = process_cpu_time(own)?;
            Ok(tree.total_ns().saturating_sub(alone.total_ns()))
        };
        let before_ns = children_ns()?;
        let command = Command::new(&tool.program).args(tool.arguments.split_whitespace());
        let command = command.pin(self.cpus.clone()).network(&self.client);
        let command = command?;
        let output = output_of(command, &tool.name, Duration::from_secs(20))?;
        let cpu_ns = children_ns()?.saturating_sub(before_ns);
        let (mean, median, messages) = (tool.read)(&output, tool.size).ok_or_else(|| {
            format!("{} printed nothing that could be read:\n{}\n{}", tool.name, output.stdout, output.stderr)
        })?;
        Ok(Sample { mean, median, cpu_us: Duration::from_nanos(cpu_ns).as_secs_f64() * 1e6 / messages })
    }

    /// Runs tools in turns; those that cannot do it at all are left out and said.
    fn compare(&self, what: &str, all: Vec<Tool>, blocks: usize) -> Outcome<(Vec<Tool>, Samples<Sample>)> {
        let mut tools = Vec::new();
        for tool in all {
            match self.run(&tool) {
                Ok(_) => tools.push(tool),
                Err(error) if tool.name.starts_with("plumb") => return Err(error),
                Err(error) => say(&format!("{what}: {} is left out: {error:.300}", tool.name)),
            }
        }
        let seed = what.bytes().fold(5_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        let samples = interleave_by(tools.len(), blocks, seed, &mut |tool| {
            let sample = self.run(&tools[tool])?;
            say(&format!("{what} {}: {:.4} {:.2} us", tools[tool].name, sample.mean, sample.cpu_us));
            Ok(sample)
        })?;
        Ok((tools, samples))
    }
}

/// Runs every row and writes their sections of RESULTS.md; `only` names one of them.
pub fn run(only: Option<&str>) -> Outcome {
    if only.is_none_or(|only| only == "latency") {
        latency()?;
    }
    let bed = Bed::make(false)?;
    for test in ["tcp_bw", "udp_bw"] {
        if only.is_none_or(|only| only == test) {
            bandwidth(&bed, test)?;
        }
    }
    if only.is_none_or(|only| only == "batch") {
        batch(&bed)?;
    }
    Ok(())
}

fn ours(
    name: &str,
    test: &str,
    size: u32,
    flags: &str,
    read: fn(&Output, u32) -> Option<Reading>,
) -> Outcome<Tool> {
    let arguments =
        format!("network {SERVER}:{PLUMB_PORT} {test} -m {size} -d {SECONDS}s --warmup 0s --json -q {flags}");
    Ok(Tool { name: name.to_owned(), program: built_plumb()?, arguments, size, read })
}

fn qperf(test: &str, size: u32, read: fn(&Output, u32) -> Option<Reading>) -> Outcome<Tool> {
    let arguments = format!("{SERVER} -t {SECONDS} -e 6 -m {size} {test}");
    Ok(Tool { name: "qperf".to_owned(), program: find("qperf")?, arguments, size, read })
}

fn latency() -> Outcome {
    let mut text = String::from(LATENCY_HEAD);
    for (shares_cpus, words) in [(true, "one CPU"), (false, "a CPU each")] {
        latency_rows(&mut text, &Bed::make(shares_cpus)?, words)?;
    }
    let _ = writeln!(
        text,
        "\nMessages of {LATENCY_BYTES} B, which are sockperf's smallest. One flow, runs of one second, client and server \
         pinned to one CPU or to a CPU each, MTU 1500; every tool with its defaults."
    );
    write_text("network-latency", "Network load: latency on a veth pair", &text)
}

const LATENCY_HEAD: &str = "| test | both ends on | peer | statistic | ours | theirs | ratio (≤ 1.02) | CPU per round trip, both ends, ours | theirs | ratio (< 1) |\n\
                            |---|---|---|---|---|---|---|---|---|---|\n";

fn latency_rows(text: &mut String, bed: &Bed, placement: &str) -> Outcome {
    for (test, flags) in [("tcp_lat", format!("--tcp -p {TCP_PORT}")), ("udp_lat", format!("-p {UDP_PORT}"))]
    {
        let read = if test == "tcp_lat" { read_tcp_latency } else { read_udp_latency };
        let sockperf = Tool {
            name: "sockperf".to_owned(),
            program: find("sockperf")?,
            arguments: format!("pp -i {SERVER} {flags} -m {LATENCY_BYTES} -t {SECONDS}"),
            size: LATENCY_BYTES,
            read: read_sockperf,
        };
        let tools = vec![
            ours("plumb", test, LATENCY_BYTES, "", read)?,
            qperf(test, LATENCY_BYTES, read_qperf_latency)?,
            sockperf,
        ];
        let (tools, samples) = bed.compare(&format!("{test} on {placement}"), tools, LATENCY_BLOCKS)?;
        for (peer, tool) in tools.iter().enumerate().skip(1) {
            let (statistic, of): (_, fn(&Sample) -> f64) =
                if tool.name == "sockperf" { ("median", |s| s.median) } else { ("mean", |s| s.mean) };
            let _ = writeln!(
                text,
                "| {test} | {placement} | {} | {statistic} | {} | {} |",
                tool.name,
                cells(&samples, (0, peer), of, (2, " us")),
                cells(&samples, (0, peer), |s| s.cpu_us, (2, " us"))
            );
        }
    }
    Ok(())
}

const RECEIVERS: &str = "Every receiver blocks in each receive where the table names no other way. Ours takes up to 256 KiB of a \
                         stream by one call, or up to 64 datagrams; the peers take a message.";

const SETTINGS: &str = "One flow, runs of one second, client and server pinned to a CPU each, MTU 1500; every tool with its \
                        defaults where the table names no flag.";

fn bandwidth(bed: &Bed, test: &str) -> Outcome {
    let is_udp = test == "udp_bw";
    let mut text = String::from(BANDWIDTH_HEAD);
    for size in [1, 1024, 4096, if is_udp { 65_507 } else { 65_536 }] {
        let read = if is_udp { read_udp_bandwidth } else { read_tcp_bandwidth };
        let mut tools = vec![ours("plumb", test, size, "", read)?];
        if !is_udp && size > 4096 {
            tools.push(ours("plumb --zero-copy", test, size, "--zero-copy", read)?);
        }
        if size == 1024 {
            for way in ["poll", "pause"] {
                let flags = format!("--receive {way}");
                tools.push(ours(&format!("plumb {flags}"), test, size, &flags, read)?);
            }
        }
        let first_peer = tools.len();
        tools.push(qperf(test, size, read_qperf_bandwidth)?);
        let flags = if is_udp { "-u -b 0" } else { "" };
        let zero_copy: &[&str] = if !is_udp && size > 4096 { &["", " -Z"] } else { &[""] };
        for extra in zero_copy {
            tools.push(Tool {
                name: format!("iperf3{extra}"),
                program: find("iperf3")?,
                arguments: format!("-c {SERVER} -t {SECONDS} -l {size} -J {flags} {extra}"),
                size,
                read: read_iperf3,
            });
        }
        let what = format!("{test}, {size} B");
        let (tools, samples) = bed.compare(&what, tools, BLOCKS)?;
        for own in 0..first_peer {
            rows(&mut text, &what, own, first_peer, &tools, &samples);
        }
    }
    let _ = writeln!(
        text,
        "\nWhat the receiver got; the goal is the peers' bandwidth for less CPU time. A tool that is not in a size's rows cannot do \
         it. {RECEIVERS} {SETTINGS}"
    );
    write_text(&format!("network-{test}"), &format!("Network load: {test} on a veth pair"), &text)
}

fn batch(bed: &Bed) -> Outcome {
    let mut text = String::from(BANDWIDTH_HEAD);
    for size in [1, 64] {
        let tools = vec![
            ours("plumb --batch 64", "udp_bw", size, "--batch 64", read_udp_bandwidth)?,
            qperf("udp_bw", size, read_qperf_bandwidth)?,
        ];
        let what = format!("udp_bw, {size} B");
        let (tools, samples) = bed.compare(&what, tools, BLOCKS)?;
        rows(&mut text, &what, 0, 1, &tools, &samples);
    }
    let _ = writeln!(text, "\nThe target is a ratio of at least 3. {RECEIVERS} {SETTINGS}");
    write_text("network-batch", "Network load: batches of small datagrams on a veth pair", &text)
}

const BANDWIDTH_HEAD: &str = "| test | ours | peer | MB/s ours | theirs | ratio | CPU per message, both ends, ours | theirs | ratio (< 1) |\n\
                              |---|---|---|---|---|---|---|---|---|\n";

fn rows(text: &mut String, what: &str, own: usize, first: usize, tools: &[Tool], samples: &Samples<Sample>) {
    for peer in first..tools.len() {
        let _ = writeln!(
            text,
            "| {what} | {} | {} | {} | {} |",
            tools[own].name,
            tools[peer].name,
            cells(samples, (own, peer), |s| s.mean / 1e6, (2, "")),
            cells(samples, (own, peer), |s| s.cpu_us, (3, " us"))
        );
    }
}

fn read_tcp_latency(output: &Output, _: u32) -> Option<Reading> {
    read_latency(output, "tcp_lat")
}

fn read_udp_latency(output: &Output, _: u32) -> Option<Reading> {
    read_latency(output, "udp_lat")
}

fn read_latency(output: &Output, test: &str) -> Option<Reading> {
    let object: Value = serde_json::from_str(&output.stdout).ok()?;
    let metric = &object["metrics"][test];
    Some((metric["avg"].as_f64()?, metric["med"].as_f64()?, metric["count"].as_f64()?))
}

fn read_tcp_bandwidth(output: &Output, _: u32) -> Option<Reading> {
    let object: Value = serde_json::from_str(&output.stdout).ok()?;
    Some((object["metrics"]["tcp_bw"]["value"].as_f64()?, f64::NAN, object["work"].as_f64()?))
}

/// Of datagrams those count that arrived.
fn read_udp_bandwidth(output: &Output, size: u32) -> Option<Reading> {
    let object: Value = serde_json::from_str(&output.stdout).ok()?;
    let received = &object["metrics"]["udp_bw"];
    Some((received["value"].as_f64()?, f64::NAN, received["count"].as_f64()? / f64::from(size)))
}

/// `    latency  =  3.4512 us`
fn qperf_value(output: &Output, name: &str) -> Option<f64> {
    let line =
        output.stdout.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix('='))?;
    let mut words = line.split_whitespace();
    let value: f64 = words.next()?.replace(',', "").parse().ok()?;
    let scale = match words.next()? {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "sec" | "bytes/sec" => 1.0,
        "KB/sec" => 1e3,
        "MB/sec" => 1e6,
        "GB/sec" => 1e9,
        _ => return None,
    };
    Some(value * scale)
}

fn read_qperf_latency(output: &Output, _: u32) -> Option<Reading> {
    let seconds = qperf_value(output, "latency")?;
    Some((seconds * 1e6, f64::NAN, SECONDS / (2.0 * seconds)))
}

fn read_qperf_bandwidth(output: &Output, size: u32) -> Option<Reading> {
    let received = qperf_value(output, "recv_bw").or_else(|| qperf_value(output, "bw"))?;
    Some((received, f64::NAN, received * SECONDS / f64::from(size)))
}

/// The number behind a word.
fn number_behind(text: &str, word: &str) -> Option<f64> {
    let rest = text.split_once(word)?.1.trim_start();
    let end = rest.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

fn read_sockperf(output: &Output, _: u32) -> Option<Reading> {
    let total = output.stdout.lines().find(|line| line.contains("[Total Run]"))?;
    Some((
        number_behind(&output.stdout, "avg-latency=")?,
        number_behind(&output.stdout, "percentile 50.000 =")?,
        number_behind(total, "ReceivedMessages=")?,
    ))
}

fn read_iperf3(output: &Output, size: u32) -> Option<Reading> {
    let object: Value = serde_json::from_str(&output.stdout).ok()?;
    let end = &object["end"];
    let received = end["sum_received"]["bits_per_second"].as_f64().filter(|bits| *bits > 0.0)? / 8.0;
    Some((received, f64::NAN, received * SECONDS / f64::from(size)))
}
