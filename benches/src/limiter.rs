//! Limiters: what plumb's NBD server, nbdkit's rate filter and QEMU's throttle group let through in tests of 3 s and 10 s, by
//! the mean, which is all that most tests show, and by single seconds.
//!
//! Every server serves the same file, anew for every test, so that whatever a limiter saves up it has saved up. The load is
//! ours for all three, with the server on one side's CPUs and the load on the other's.

use std::fmt::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::cpu::{CpuSet, CpuTime, Sides, available_cpus, split_sides, tree_cpu_time};
use plumb_host::process::{Child, Command, Stream, run_for_output, which};
use plumb_host::scratch::Scratch;
use plumb_host::time::{monotonic_ns, sleep};

use crate::blocks::interleave_by;
use crate::results::{cells, write_text};
use crate::standstill::{self, Watch};
use crate::storage::{read_fio, read_plumb};
use crate::tool::{Tool, built_plumb, split_arguments};
use crate::{Outcome, say};

const FILE_BYTES: u64 = 256 << 20;
const VOLUME: &str = "blocks";
const SHORT_S: u32 = 3;
const LONG_S: u32 = 10;
/// How far off the beginning of a second may be: the load ends when its process does, a little after its window.
const NEAR_NS: u64 = 100_000_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// What a test is limited to.
#[derive(Debug, Clone, Copy)]
enum Limit {
    Nothing,
    Iops(u32),
    BytesPerS(u64),
}

/// One test.
#[derive(Debug, Clone, Copy)]
struct Case {
    limit: Limit,
    block: &'static str,
    block_bytes: u32,
    connections: u32,
    depth: u32,
    /// Whether the peers are put beside.
    with_peers: bool,
}

const fn case(
    limit: Limit,
    (block, block_bytes): (&'static str, u32),
    (connections, depth): (u32, u32),
    with_peers: bool,
) -> Case {
    Case { limit, block, block_bytes, connections, depth, with_peers }
}

const K4: (&str, u32) = ("4KiB", 4 << 10);
const K64: (&str, u32) = ("64KiB", 64 << 10);
const M1: (&str, u32) = ("1MiB", 1 << 20);
const DATA: Limit = Limit::BytesPerS(100_000_000);

const CASES: [Case; 12] = [
    case(Limit::Iops(500), K4, (1, 16), true),
    case(Limit::Iops(500), K4, (16, 2), false),
    case(Limit::Iops(5_000), K4, (1, 16), false),
    case(Limit::Iops(5_000), K4, (16, 4), true),
    case(Limit::Iops(50_000), K4, (1, 64), true),
    case(Limit::Iops(50_000), K4, (16, 8), false),
    case(DATA, K4, (1, 64), false),
    case(DATA, K4, (16, 8), false),
    case(DATA, K64, (1, 16), true),
    case(DATA, K64, (16, 4), true),
    case(DATA, M1, (1, 4), true),
    case(DATA, M1, (16, 2), false),
];

/// What servers are asked for where nothing limits them.
const UNLIMITED: Case = case(Limit::Nothing, K4, (1, 64), true);
/// Blocks of each of its rows, and seconds of a run.
const BLOCKS: usize = 6;
const SPEED_S: u32 = 3;

/// Whose limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Plumb,
    Nbdkit,
    Qemu,
}

/// Runs every test and writes the section of RESULTS.md.
pub fn run() -> Outcome {
    let bench = Bench::prepare()?;
    let mut rows = String::from(
        "| limit | block | connections | server | 3 s: mean | 10 s: mean | 10 s: first second | worst second after it | stood still in it |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for case in &CASES {
        let mut servers = vec![Server::Plumb];
        if case.with_peers {
            servers.extend([Server::Nbdkit, Server::Qemu].into_iter().filter(|server| bench.has(*server)));
        }
        for server in servers {
            let row = bench.row(case, server)?;
            say(&row);
            rows.push_str(&row);
        }
    }
    let notes = format!(
        "\nMeans and seconds are off the limit by so much. A whole second of {LONG_S} s begins when the load's window does. \
         A CPU stands still while a thread of real-time priority that is due on it does not run, for more than 1 ms each time: \
         the hypervisor runs something else, or the kernel does what cannot be put off. Nothing is served then, and a second \
         that holds more than 4.5 ms of it cannot be whole: a limiter that made up for more would let too much through later. \
         Where that second begins is known to 0.1 s, and what lies so near counts. \
         At 100 MB/s a second holds 95.4 reads of 1 MiB: 95 are -0.4% and 96 are +0.7%, and nothing is nearer.\n\n\
         Settings:\n\n- plumb: `volumes serve`, its policy as in the row\n\
         - nbdkit: `--filter=rate file`, `rate=` as bits/s (operations as bytes, since it knows no other limit), default burst\n\
         - QEMU: `qemu-nbd --object throttle-group` with `x-iops-total` or `x-bps-total`, default burst\n\
         - load: `plumb storage nbd://… --rw randread`, no warm-up, a new server for every test\n"
    );
    write_text("limiter", "Limiters: what a second holds", &(rows + &notes))
}

/// Measures the servers without a limit and writes their section of RESULTS.md.
pub fn run_unlimited() -> Outcome {
    let bench = Bench::prepare()?;
    let servers: Vec<Server> = [Server::Plumb, Server::Qemu, Server::Nbdkit]
        .into_iter()
        .filter(|server| bench.has(*server))
        .collect();
    let mut text = String::from(
        "| client | server | reads/s, plumb's server | theirs | ratio (≥ 1) | server's CPU per read, plumb's | theirs | ratio |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for client in [Client::Plumb, Client::Fio] {
        let samples = interleave_by(servers.len(), BLOCKS, client as u64 + 11, &mut |at| {
            let sample = bench.speed(servers[at], client)?;
            say(&format!(
                "{client:?} at {:?}: {:.0}/s {:.2} us",
                servers[at], sample.reads_per_s, sample.cpu_us
            ));
            Ok(sample)
        })?;
        for (at, server) in servers.iter().enumerate().skip(1) {
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} |",
                client.name(),
                if *server == Server::Qemu { "qemu-nbd" } else { "nbdkit file" },
                cells(&samples, (0, at), |sample| sample.reads_per_s, (0, "")),
                cells(&samples, (0, at), |sample| sample.cpu_us, (2, " us"))
            );
        }
    }
    text.push_str(
        "\nRandom reads of 4 KiB at depth 64 over one connection, a file of 256 MiB in the page cache, every server with its \
         defaults on one CPU and the client on another.\n",
    );
    write_text("nbd-server", "NBD servers without a limit", &text)
}

/// Whose load.
#[derive(Debug, Clone, Copy)]
enum Client {
    Plumb,
    Fio,
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Self::Plumb => "plumb storage",
            Self::Fio => "fio, engine nbd",
        }
    }
}

/// What a server came to in one run.
#[derive(Debug, Clone, Copy)]
struct Speed {
    reads_per_s: f64,
    /// CPU time of the server for each.
    cpu_us: f64,
}

struct Bench {
    plumb: PathBuf,
    scratch: Scratch,
    cpus: CpuSet,
    sides: Sides,
}

impl Bench {
    fn prepare() -> Outcome<Self> {
        let plumb = built_plumb()?;
        let scratch = Scratch::create(Path::new("."), "plumb-bench")?;
        let cpus = available_cpus()?;
        let bench = Self { plumb, scratch, sides: split_sides(&cpus), cpus };
        for (at, case) in CASES.iter().enumerate() {
            let (flag, value) = match case.limit {
                Limit::Nothing => continue,
                Limit::Iops(iops) => ("--max-iops", format!("{iops} IOPS")),
                Limit::BytesPerS(bytes) => ("--max-bandwidth", format!("{bytes} B/s")),
            };
            bench.volumes(&["policy", "create", &policy(at), flag, &value])?;
        }
        bench.volumes(&["create", VOLUME, "--size", &format!("{FILE_BYTES}B")])?;
        let file = bench.file();
        let made = std::fs::File::create(&file)
            .and_then(|file| plumb_storage::load::write_data(&file, FILE_BYTES, 0.0));
        made.map_err(|error| format!("fill {}: {error}", file.display()))?;
        Ok(bench)
    }

    fn state(&self) -> String {
        self.scratch.path().display().to_string()
    }

    fn file(&self) -> PathBuf {
        self.scratch.path().join("data").join(VOLUME)
    }

    fn has(&self, server: Server) -> bool {
        let program = match server {
            Server::Plumb => return self.plumb.exists(),
            Server::Nbdkit => "nbdkit",
            Server::Qemu => "qemu-nbd",
        };
        which(program).is_some()
    }

    fn volumes(&self, arguments: &[&str]) -> Outcome {
        let state = self.state();
        let all = [&["volumes", "--state", &state], arguments].concat();
        let program = self.plumb.display().to_string();
        let done = run_for_output(&program, &all, PATIENCE)?;
        if done.exit.is_success() {
            Ok(())
        } else {
            Err(format!("plumb {}: {}", all.join(" "), done.stderr).into())
        }
    }

    fn row(&self, case: &Case, server: Server) -> Outcome<String> {
        let short = self.test(case, server, SHORT_S)?;
        let watch = Watch::begin(&self.cpus);
        let long = self.test(case, server, LONG_S);
        let end_ns = monotonic_ns();
        let stood_still = watch.end();
        let long = long?;
        let limit = match case.limit {
            Limit::Nothing => f64::INFINITY,
            Limit::Iops(iops) => f64::from(iops),
            Limit::BytesPerS(bytes) => bytes as f64 / f64::from(case.block_bytes),
        };
        let off = |rate: f64| format!("{:+.2}%", (rate / limit - 1.0) * 100.0);
        let mean = |seconds: &[f64]| seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
        let far = |rate: f64| (rate - limit).abs();
        let first = long.first().copied().unwrap_or(0.0);
        let seconds = long.iter().copied().enumerate().skip(1);
        let (at, worst) =
            seconds.max_by(|left, right| far(left.1).total_cmp(&far(right.1))).unwrap_or_default();
        let begin_ns = end_ns.saturating_sub((long.len() - at) as u64 * 1_000_000_000);
        let near = (begin_ns.saturating_sub(NEAR_NS), begin_ns + 1_000_000_000 + NEAR_NS);
        let stood_still = stood_still.map_or_else(
            || "unknown".to_owned(),
            |seen| format!("{:.1} ms", standstill::within(&seen, near).as_secs_f64() * 1e3),
        );
        let mut row = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            row,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {stood_still} |",
            match case.limit {
                Limit::Nothing => "none".to_owned(),
                Limit::Iops(iops) => format!("{iops} IOPS"),
                Limit::BytesPerS(bytes) => format!("{} MB/s", bytes / 1_000_000),
            },
            case.block,
            case.connections,
            match server {
                Server::Plumb => "plumb",
                Server::Nbdkit => "nbdkit rate",
                Server::Qemu => "QEMU throttle",
            },
            off(mean(&short)),
            off(mean(&long)),
            off(first),
            off(worst),
        );
        Ok(row)
    }

    /// One run without a limit.
    fn speed(&self, server: Server, client: Client) -> Outcome<Speed> {
        let port = free_port()?;
        let serving = self.serve(&UNLIMITED, server, port)?;
        let name = if server == Server::Plumb { VOLUME } else { "" };
        let uri = format!("nbd://127.0.0.1:{port}/{name}");
        let tool = match client {
            Client::Plumb => Tool {
                name: client.name(),
                program: self.plumb.clone(),
                arguments: split_arguments(&format!(
                    "storage {uri} --json --quiet --rw randread --warmup 0s -d {SPEED_S}s -b 4KiB -c 64"
                )),
                read: read_plumb,
            },
            Client::Fio => Tool {
                name: client.name(),
                program: which("fio").ok_or("fio is not installed; run scripts/install-tools.sh tests")?,
                arguments: split_arguments(&format!(
                    "--name=bench --ioengine=nbd --uri={uri} --rw=randread --bs=4k --iodepth=64 --time_based \
                     --runtime={SPEED_S} --randrepeat=0 --output-format=json"
                )),
                read: read_fio,
            },
        };
        let cpu_ns = || tree_cpu_time(serving.pid()).map(CpuTime::total_ns);
        let before_ns = cpu_ns()?;
        let sample = tool.run(&self.sides.load, Some(serving.pid()))?;
        let spent = Duration::from_nanos(cpu_ns()?.saturating_sub(before_ns));
        let reads = sample.requests_per_s * f64::from(SPEED_S);
        Ok(Speed { reads_per_s: sample.requests_per_s, cpu_us: spent.as_secs_f64() * 1e6 / reads })
    }

    /// Reads per second in each second of one test.
    fn test(&self, case: &Case, server: Server, seconds: u32) -> Outcome<Vec<f64>> {
        let port = free_port()?;
        let serving = self.serve(case, server, port)?;
        let name = if server == Server::Plumb { VOLUME } else { "" };
        let flags = format!(
            "storage nbd://127.0.0.1:{port}/{name} --json --quiet --rw randread --warmup 0s -d {seconds}s -b {} -c {} -t {}",
            case.block, case.depth, case.connections
        );
        let mut load = Command::new(&self.plumb)
            .args(flags.split(' '))
            .stdout(Stream::Piped)
            .stderr(Stream::Null)
            .pin(self.sides.load.clone())
            .spawn()?;
        let mut text = String::new();
        if let Some(mut stream) = load.take_stdout() {
            std::io::Read::read_to_string(&mut stream, &mut text)?;
        }
        drop(serving);
        let found: serde_json::Value = serde_json::from_str(&text)
            .map_err(|error| format!("read the load's answer: {error}: {text:.200}"))?;
        let windows = found["metrics"]["read_iops"]["windows"].as_array();
        let windows = windows.ok_or("the load has no seconds")?;
        Ok(windows.iter().filter_map(serde_json::Value::as_f64).collect())
    }

    /// Starts a server, and waits until it answers.
    fn serve(&self, case: &Case, server: Server, port: u16) -> Outcome<Child> {
        let command = match server {
            Server::Plumb => {
                if let Some(at) = CASES.iter().position(|other| std::ptr::eq(other, case)) {
                    self.volumes(&["assign", VOLUME, &policy(at)])?;
                }
                let flags = format!("volumes --state {} serve --listen 127.0.0.1:{port}", self.state());
                Command::new(&self.plumb).args(split_arguments(&flags))
            }
            Server::Nbdkit => self.nbdkit(case, port),
            Server::Qemu => self.qemu_nbd(case, port),
        };
        let quiet = command.stdout(Stream::Null).stderr(Stream::Null).own_group();
        let serving = quiet.pin(self.sides.system.clone()).spawn()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        for _ in 0..200 {
            if TcpStream::connect(address).is_ok() {
                return Ok(serving);
            }
            sleep(Duration::from_millis(50));
        }
        Err(format!("{server:?} does not listen on port {port}").into())
    }

    fn nbdkit(&self, case: &Case, port: u16) -> Command {
        let file = self.file().display().to_string();
        let command =
            Command::new("nbdkit").args(split_arguments(&format!("--foreground -i 127.0.0.1 -p {port}")));
        let bytes_per_s = match case.limit {
            Limit::Nothing => return command.args(["file", &file]),
            Limit::Iops(iops) => u64::from(iops) * u64::from(case.block_bytes),
            Limit::BytesPerS(bytes) => bytes,
        };
        command.args(["--filter=rate", "file", &file, &format!("rate={}", bytes_per_s * 8)])
    }

    fn qemu_nbd(&self, case: &Case, port: u16) -> Command {
        let file = self.file().display().to_string();
        let always = format!("--persistent --shared=64 --bind=127.0.0.1 --port={port}");
        let command = Command::new("qemu-nbd").args(split_arguments(&always));
        let limit = match case.limit {
            Limit::Nothing => return command.args(["--format=raw", &file]),
            Limit::Iops(iops) => format!("x-iops-total={iops}"),
            Limit::BytesPerS(bytes) => format!("x-bps-total={bytes}"),
        };
        let group = format!("throttle-group,id=group,{limit}");
        let image = format!(
            "driver=throttle,throttle-group=group,file.driver=raw,file.file.driver=file,file.file.filename={file}"
        );
        command.args(["--object", &group, "--image-opts", &image])
    }
}

fn policy(at: usize) -> String {
    format!("case-{at}")
}

/// A port that nobody has at this moment.
fn free_port() -> Outcome<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.local_addr().map(|address| address.port()).map_err(Into::into)
}
