//! Storage load: CPU time per read and reads/s against fio, with the same engine, block size and depth, on the same file,
//! loop device, and on what does nothing.
//!
//! fio is given what it has that helps: registered files and buffers, and a second time batches of sixteen, which is not
//! its default. A submission thread of the kernel (`sqthread_poll`) has a separate row, as it occupies a whole CPU.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::cpu::{Awake, CpuSet, Sides, available_cpus, split_sides};
use plumb_host::loop_device::LoopDevice;
use plumb_host::process::{Command, Output, output_of, which};
use plumb_host::scratch::Scratch;

use crate::blocks::{interleave, interleave_by};
use crate::results::{Row, cells, write_section, write_text};
use crate::tool::{Tool, built_plumb, split_arguments};
use crate::{Outcome, say};

/// Blocks of every row.
const BLOCKS: usize = 6;
const LATENCY_BLOCKS: usize = 12;
/// Milliseconds of every run of theirs: short ones, since the machine is another one after some seconds.
const LATENCY_MS: u32 = 1_000;
/// Unmeasured milliseconds before those of latency: a machine that was idle answers otherwise at first.
const LATENCY_RAMP_MS: u32 = 500;
/// Seconds of every run.
const SECONDS: u32 = 3;
const DEPTH: u32 = 64;
const FILE_BYTES: u64 = 1 << 30;
const CPU_TARGET: f64 = 0.8;
const REGISTERED: &str = "--registerfiles=1 --fixedbufs=1";
const BATCHES: &str =
    "--iodepth_batch_submit=16 --iodepth_batch_complete_min=1 --iodepth_batch_complete_max=64";

/// Runs every row and writes their sections of RESULTS.md; `only` names one of them.
pub fn run(only: Option<&str>) -> Outcome {
    let fio = which("fio").ok_or("fio is not installed; run scripts/install-tools.sh tests")?;
    let cpus = available_cpus()?;
    let sides = split_sides(&cpus);
    let scratch = Scratch::create(Path::new("."), "plumb-bench")?;
    let file = scratch.path().join("blocks");
    plumb_storage::load::write_data(
        &std::fs::File::create(&file).map_err(|error| format!("create {}: {error}", file.display()))?,
        FILE_BYTES,
        0.0,
    )
    .map_err(|error| format!("fill {}: {error}", file.display()))?;
    let file = file.display().to_string();
    let mut targets = vec![("file", file.clone())];
    // It goes with its last user, whatever ends this program.
    let device =
        std::fs::File::options().read(true).write(true).open(&file).map(|file| LoopDevice::over(&file));
    match &device {
        Ok(Ok(device)) => targets.push(("loop device", device.path().display().to_string())),
        Ok(Err(error)) => say(&format!("failed to {error}: the loop device's rows are left out")),
        Err(error) => return Err(format!("open {file}: {error}").into()),
    }
    if only.is_none_or(|only| only == "load") {
        load(&targets, &fio, &sides.load)?;
    }
    if only.is_none_or(|only| only == "latency") {
        latency(&targets, &fio, &sides)?;
    }
    Ok(())
}

/// Measures many reads in flight and writes their section.
fn load(targets: &[(&str, String)], fio: &Path, cpus: &CpuSet) -> Outcome {
    let mut rows = Vec::new();
    let mut notes = Vec::new();
    for (what, target) in targets {
        let uring = format!("--ioengine=io_uring {REGISTERED}");
        let peers = [
            ("fio io_uring", uring.clone()),
            ("fio io_uring, batches of 16", format!("{uring} {BATCHES}")),
            ("fio io_uring, sqthread_poll", format!("{uring} --sqthread_poll=1")),
        ];
        rows.extend(compare(
            &format!("{what}, io_uring"),
            ("io_uring", target),
            fio,
            &peers,
            cpus,
            &mut notes,
        )?);
        let peers = [
            ("fio libaio", "--ioengine=libaio".to_owned()),
            ("fio libaio, batches of 16", format!("--ioengine=libaio {BATCHES}")),
        ];
        rows.extend(compare(&format!("{what}, libaio"), ("libaio", target), fio, &peers, cpus, &mut notes)?);
    }
    let peers = [("fio null", "--ioengine=null --size=1G".to_owned())];
    rows.extend(compare("nothing", ("io_uring", "null:"), fio, &peers, cpus, &mut notes)?);
    write_section("storage", "Storage load: random reads of 4 KiB, depth 64, direct I/O", &rows, &notes)
}

/// Percentiles of latency, in us.
#[derive(Debug, Clone, Copy)]
struct Percentiles([f64; 3]);

/// Measures one read at a time, so that the tools do not wait behind their own queue, and writes its section.
///
/// fio runs twice: as a whole on the CPU of its job, and with its job alone there. Its main thread's timers are due every few
/// milliseconds, and a CPU that expects them goes to sleep less deeply, which the job's reads gain from.
fn latency(targets: &[(&str, String)], fio: &Path, sides: &Sides) -> Outcome {
    let mut text = String::from(
        "| load | CPUs | percentile | fio io_uring | ours | theirs | ratio (0.98 to 1.02) |\n|---|---|---|---|---|---|---|\n",
    );
    let all = available_cpus()?;
    let conditions = [("kept awake", true), ("idle between", false)];
    let cases = targets.iter().flat_map(|target| conditions.map(|condition| (target, condition)));
    for ((what, target), (how, is_awake)) in cases {
        let _awake = is_awake.then(|| Awake::keep(&all));
        let ours = split_arguments(&format!(
            "storage --json --quiet --warmup {LATENCY_RAMP_MS}ms -d {LATENCY_MS}ms -c 1 -b 4KiB --rw randread --engine io_uring {target}"
        ));
        let theirs = split_arguments(&format!(
            "--name=bench --ioengine=io_uring {REGISTERED} --filename={target} --rw=randread --bs=4k --iodepth=1 --direct=1 \
             --time_based --ramp_time={LATENCY_RAMP_MS}ms --runtime={LATENCY_MS}ms --randrepeat=0 --lat_percentiles=1 \
             --percentile_list=50:90:99 --output-format=json"
        ));
        let apart = theirs.iter().cloned().chain([format!("--cpus_allowed={}", sides.load)]).collect();
        let plumb = built_plumb()?;
        let tools =
            [(plumb.as_path(), ours, &sides.load), (fio, theirs, &sides.load), (fio, apart, &sides.system)];
        let samples = interleave_by(tools.len(), LATENCY_BLOCKS, rows_seed(what), &mut |tool| {
            let (program, arguments, cpus) = &tools[tool];
            let command = Command::new(program).args(arguments).pin((*cpus).clone());
            let output = output_of(command, "a load", Duration::from_secs(60))?;
            let read = if tool == 0 { plumb_percentiles } else { fio_percentiles };
            let found = read(&output).ok_or_else(|| format!("no percentiles in {:.300}", output.stdout))?;
            say(&format!("{what}, {how}, depth 1, tool {tool}: {found:?}"));
            Ok(found)
        })?;
        let values: [fn(&Percentiles) -> f64; 3] = [|p| p.0[0], |p| p.0[1], |p| p.0[2]];
        for (name, value) in ["50", "90", "99"].into_iter().zip(values) {
            for (peer, where_else) in [(2, "job alone on its CPU"), (1, "all on one CPU")] {
                // Writing to a String cannot fail.
                let _ = writeln!(
                    text,
                    "| {what}, depth 1 | {how} | {name} | {where_else} | {} |",
                    cells(&samples, (0, peer), value, (2, " us"))
                );
            }
        }
    }
    let _ = writeln!(
        text,
        "\nFrom the submission to the completion that the program has seen; fio with `{REGISTERED} --lat_percentiles=1`, whose \
         buckets are up to 1.6% wide. CPUs are kept awake by threads that run where nobody else would (SCHED_IDLE): one that idles in \
         a virtual machine is left to the host, and what waking it costs depends on how the program sleeps. fio's job alone on its \
         CPU is `--cpus_allowed`, its other threads on the system's; ours has no timers that it would share its CPU with."
    );
    write_text("storage-latency", "Storage load: latency of random reads of 4 KiB, one at a time", &text)
}

fn plumb_percentiles(output: &Output) -> Option<Percentiles> {
    let object: serde_json::Value = serde_json::from_str(&output.stdout).ok()?;
    let latency = &object["metrics"]["read_latency"];
    Some(Percentiles([latency["med"].as_f64()?, latency["p90"].as_f64()?, latency["p99"].as_f64()?]))
}

fn fio_percentiles(output: &Output) -> Option<Percentiles> {
    let object: serde_json::Value = serde_json::from_str(&output.stdout[output.stdout.find('{')?..]).ok()?;
    let latency = &object["jobs"][0]["read"]["lat_ns"]["percentile"];
    let us = |name: &str| latency[name].as_f64().map(|ns| ns / 1e3);
    Some(Percentiles([us("50.000000")?, us("90.000000")?, us("99.000000")?]))
}

fn compare(
    what: &str,
    (engine, target): (&str, &str),
    fio: &Path,
    peers: &[(&'static str, String)],
    cpus: &CpuSet,
    notes: &mut Vec<String>,
) -> Outcome<Vec<Row>> {
    let mut tools = vec![plumb(engine, target)?];
    tools.extend(peers.iter().map(|(name, flags)| fio_tool(name, fio.to_owned(), flags, target)));
    let samples = interleave(&tools, BLOCKS, (cpus, None), rows_seed(what))?;
    notes.extend(peers.iter().map(|(name, flags)| format!("- {what}, {name}: `{flags}`")));
    Ok((1..tools.len()).map(|peer| Row::comparing(what, &tools, &samples, peer, Some(CPU_TARGET))).collect())
}

fn rows_seed(what: &str) -> u64 {
    what.bytes().fold(3_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()))
}

fn plumb(engine: &str, target: &str) -> Outcome<Tool> {
    let program = built_plumb()?;
    let flags =
        format!("storage --json --quiet -d {SECONDS}s -c {DEPTH} -b 4KiB --rw randread --engine {engine}");
    let mut arguments: Vec<String> = flags.split(' ').map(str::to_owned).collect();
    arguments.push(target.to_owned());
    Ok(Tool { name: "plumb", program, arguments, read: read_plumb })
}

pub fn read_plumb(output: &Output) -> Option<(f64, f64)> {
    let object: serde_json::Value = serde_json::from_str(&output.stdout).ok()?;
    let reads = &object["metrics"]["read_iops"];
    let (count, value) = (reads["count"].as_f64()?, reads["value"].as_f64()?);
    (count > 0.0).then(|| (count, count / value))
}

fn fio_tool(name: &'static str, program: PathBuf, flags: &str, target: &str) -> Tool {
    let common = format!(
        "--name=bench --rw=randread --bs=4k --iodepth={DEPTH} --direct=1 --time_based --runtime={SECONDS} \
         --randrepeat=0 --output-format=json"
    );
    let mut arguments: Vec<String> =
        common.split_whitespace().chain(flags.split(' ')).map(str::to_owned).collect();
    if target != plumb_storage::load::NULL {
        arguments.push(format!("--filename={target}"));
    }
    Tool { name, program, arguments, read: read_fio }
}

pub fn read_fio(output: &Output) -> Option<(f64, f64)> {
    // Notes may stand before the object.
    let begin = output.stdout.find('{')?;
    let object: serde_json::Value = serde_json::from_str(&output.stdout[begin..]).ok()?;
    let read = &object["jobs"][0]["read"];
    let (count, value) = (read["total_ios"].as_f64()?, read["iops"].as_f64()?);
    (count > 0.0).then(|| (count, count / value))
}
