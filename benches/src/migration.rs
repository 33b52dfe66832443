//! Migration: Plumbline's engine beside QEMU's multifd, with the same memory, codec, level, channels and cap.
//!
//! Both are variants of one experiment, so `plumb run` itself interleaves them, compares the memory of both sides after
//! every migration, and computes the ratios.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::process::{run_for_output, which};
use plumb_host::scratch::Scratch;
use serde_json::Value;

use crate::results::write_text;
use crate::tool::built_plumb;
use crate::{Outcome, say};

/// Blocks of every row.
const BLOCKS: u32 = 6;
/// The longest that a row may take.
const PATIENCE: Duration = Duration::from_secs(1800);
/// QEMUs beside the one that is installed: paths with colons between them.
const MORE_QEMUS: &str = "PLUMB_BENCH_QEMU";
/// A directory where the rows' runs are kept; a row whose run is there is not measured again.
const KEPT_RUNS: &str = "PLUMB_BENCH_RUNS";
/// The variant of the engine.
const OURS: &str = "plumb";
const TIME_TARGET: &str = "≤ 0.7";
const CPU_TARGET: &str = "≤ 0.8";

/// What both are told.
struct Row {
    memory: &'static str,
    content: Content,
    codec: &'static str,
    channels: u32,
    cap: Option<Cap>,
}

/// What the memory holds.
#[derive(Clone, Copy, PartialEq)]
enum Content {
    /// The built-in corpus, no page of zeros.
    Corpus,
    /// The same, but for half of the pages.
    HalfZero,
}

#[derive(Clone, Copy)]
struct Cap {
    text: &'static str,
    bytes_per_s: f64,
}

const fn row(memory: &'static str, content: Content, codec: &'static str, cap: Option<Cap>) -> Row {
    Row { memory, content, codec, channels: 2, cap }
}

const ROWS: [Row; 10] = [
    row("1 GiB", Content::Corpus, "none", None),
    row("4 GiB", Content::Corpus, "none", None),
    row("1 GiB", Content::HalfZero, "none", None),
    row("4 GiB", Content::HalfZero, "none", None),
    row("1 GiB", Content::Corpus, "zstd", None),
    row("4 GiB", Content::Corpus, "zstd", None),
    row("1 GiB", Content::HalfZero, "zstd", None),
    row("4 GiB", Content::HalfZero, "zstd", None),
    row("1 GiB", Content::HalfZero, "none", Some(Cap { text: "250 MB/s", bytes_per_s: 250e6 })),
    row("1 GiB", Content::HalfZero, "zstd", Some(Cap { text: "50 MB/s", bytes_per_s: 50e6 })),
];

/// A QEMU to compare with.
struct Peer {
    variant: String,
    program: Option<PathBuf>,
}

/// Runs the rows whose description contains all the words, and writes their section of RESULTS.md.
pub fn run(words: &[String]) -> Outcome {
    let peers = peers()?;
    let scratch = Scratch::create(&std::env::temp_dir(), "plumb-bench-")?;
    let kept = std::env::var_os(KEPT_RUNS).map(PathBuf::from);
    let runs = kept.as_deref().unwrap_or(scratch.path());
    let mut tables = Tables::default();
    for row in ROWS.iter().filter(|row| words.iter().all(|word| row.in_words().contains(word))) {
        let directory = runs.join(row.in_words().replace([' ', ',', '/'], "-"));
        let report = match read_report(&directory) {
            Some(report) => report,
            None => measure(row, &peers, &directory)?,
        };
        let windows = Windows::read_run(&directory)?;
        tables.add(row, &report, &windows)?;
    }
    write_text("migration", "Migration", &tables.text())
}

fn peers() -> Outcome<Vec<Peer>> {
    let installed = format!("qemu-system-{}", std::env::consts::ARCH);
    if which(&installed).is_none() {
        return Err(format!("{installed} is not installed; `make tools` installs it").into());
    }
    let more = std::env::var_os(MORE_QEMUS).unwrap_or_default();
    let more = std::env::split_paths(&more).filter(|path| !path.as_os_str().is_empty());
    let others =
        more.enumerate().map(|(at, path)| Peer { variant: format!("qemu-{}", at + 2), program: Some(path) });
    Ok(std::iter::once(Peer { variant: "qemu".to_owned(), program: None }).chain(others).collect())
}

impl Row {
    fn in_words(&self) -> String {
        let cap = self.cap.map_or_else(|| "no cap".to_owned(), |cap| cap.text.to_owned());
        let content = match self.content {
            Content::Corpus => "corpus",
            Content::HalfZero => "50% zero",
        };
        format!("{}, {content}, {}, {} channels, {cap}", self.memory, self.codec, self.channels)
    }

    fn experiment(&self, peers: &[Peer]) -> String {
        let cap = self.cap.map_or("none", |cap| cap.text);
        // The plain stream after each migration of ours is outside of what is timed. It moves pages of zeros like others.
        let limit = self.codec == "none" && self.cap.is_none() && self.content == Content::Corpus;
        let zero = if self.content == Content::HalfZero { "50%" } else { "0%" };
        let mut variants = String::from("    plumb: { system: { kind: plumb } }\n");
        for peer in peers {
            let program = peer
                .program
                .as_ref()
                .map_or_else(String::new, |path| format!(", program: {}", path.display()));
            // Writing to a String cannot fail.
            let _ = writeln!(variants, "    {}: {{ system: {{ kind: qemu{program} }} }}", peer.variant);
        }
        format!(
            "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata:\n  name: bench-migration\n  title: {}\n\
             spec:\n  path: migration\n  system:\n    memory: {}\n    content: {{ zero: {zero} }}\n    channels: {}\n    \
             codec: {}\n    cap: {cap}\n  load: {{ duration: 1 s, stream_limit: {limit} }}\n  baseline: qemu\n  \
             variants:\n{variants}  blocks: {{ min: {BLOCKS}, max: {BLOCKS} }}\n  claims:\n    \
             - plumb.total_time <= 0.7 * qemu.total_time\n",
            self.in_words(),
            self.memory,
            self.channels,
            self.codec,
        )
    }
}

/// The report of a run that has ended.
fn read_report(directory: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(directory.join("report.json")).ok()?).ok()
}

/// Runs the experiment of a row, and returns what `plumb run --json` printed.
fn measure(row: &Row, peers: &[Peer], directory: &Path) -> Outcome<Value> {
    let program = built_plumb()?;
    let file = directory.with_extension("yaml");
    std::fs::write(&file, row.experiment(peers))?;
    say(&format!("{}: {BLOCKS} blocks", row.in_words()));
    let arguments =
        ["run".as_ref(), file.as_os_str(), "--json".as_ref(), "--quiet".as_ref(), "--output".as_ref()];
    let arguments = arguments.into_iter().chain([directory.as_os_str()]);
    let output = run_for_output(&program, arguments, PATIENCE)?;
    let report: Value = serde_json::from_str(&output.stdout)
        .map_err(|error| format!("read what plumb printed: {error}; it said {}", output.stderr))?;
    let variants = report["variants"].as_array().map_or(&[][..], Vec::as_slice);
    match variants.iter().find(|variant| variant["state"] != "measured") {
        None => Ok(report),
        Some(variant) => Err(format!(
            "{}: {} is {}: {}",
            row.in_words(),
            variant["name"],
            variant["state"],
            variant["reason"]
        )
        .into()),
    }
}

/// Bytes per second in each whole second of every slot, by variant.
struct Windows(Vec<(String, f64)>);

impl Windows {
    fn read_run(directory: &Path) -> Outcome<Self> {
        let path = directory.join("slots.jsonl");
        let text =
            std::fs::read_to_string(&path).map_err(|error| format!("read {}: {error}", path.display()))?;
        let mut windows = Vec::new();
        for line in text.lines() {
            let line: Value = serde_json::from_str(line)?;
            let slot = &line["slot"];
            let values = &slot["outcome"]["measured"]["measurement"]["windows"]["throughput"];
            let variant = slot["variant"].as_str().unwrap_or_default();
            let values = values.as_array().into_iter().flatten().filter_map(Value::as_f64);
            windows.extend(values.map(|value| (variant.to_owned(), value)));
        }
        Ok(Self(windows))
    }

    fn of_variant(&self, variant: &str) -> Vec<f64> {
        self.0.iter().filter(|(of, _)| of == variant).map(|(_, value)| *value).collect()
    }
}

/// The tables of the section.
#[derive(Default)]
struct Tables {
    ratios: String,
    caps: String,
    limits: String,
}

impl Tables {
    /// A kept run may have been with other peers than are here now.
    fn add(&mut self, row: &Row, report: &Value, windows: &Windows) -> Outcome {
        let variants: Vec<&str> = report["variants"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|variant| variant["name"].as_str())
            .collect();
        for peer in variants.iter().filter(|variant| **variant != OURS) {
            self.add_ratios(row, peer, report)?;
        }
        if let Some(cap) = row.cap {
            for variant in &variants {
                self.add_cap(row, cap, variant, report, &windows.of_variant(variant))?;
            }
        }
        if let Some(limit) = median(report, OURS, "stream_limit") {
            let throughput = median(report, OURS, "throughput").ok_or("there is no throughput")?;
            let _ = writeln!(
                self.limits,
                "| {} | {:.0} MB/s | {:.0} MB/s | {:.2} | ≥ 0.9 |",
                row.in_words(),
                throughput / 1e6,
                limit / 1e6,
                throughput / limit
            );
        }
        Ok(())
    }

    fn add_ratios(&mut self, row: &Row, peer: &str, report: &Value) -> Outcome {
        let value = |variant, metric| {
            median(report, variant, metric).ok_or(format!("there is no {metric} of {variant}"))
        };
        let _ = write!(self.ratios, "| {} | {} |", row.in_words(), name(report, peer));
        for (metric, target) in
            [("total_time", TIME_TARGET), ("send_cpu_per_gib", CPU_TARGET), ("recv_cpu_per_gib", CPU_TARGET)]
        {
            // With a cap that binds both take as long as the cap says.
            let target = if row.cap.is_some() && metric == "total_time" { "–" } else { target };
            let ratio = ratio(report, metric, OURS, peer);
            let _ = write!(
                self.ratios,
                " {:.0} ms | {:.0} ms | {ratio} | {target} |",
                value(OURS, metric)?,
                value(peer, metric)?
            );
        }
        let both = |variant| {
            Ok::<f64, String>(value(variant, "send_cpu_per_gib")? + value(variant, "recv_cpu_per_gib")?)
        };
        let wire = value(OURS, "wire_bytes")? / value(peer, "wire_bytes")?;
        let _ = writeln!(self.ratios, " {:.2} | {wire:.2} |", both(OURS)? / both(peer)?);
        Ok(())
    }

    fn add_cap(&mut self, row: &Row, cap: Cap, variant: &str, report: &Value, windows: &[f64]) -> Outcome {
        let throughput = median(report, variant, "throughput").ok_or("there is no throughput")?;
        let highest = windows.iter().copied().max_by(f64::total_cmp);
        let highest = highest.map_or_else(
            || "no migration lasted a whole second of the window".to_owned(),
            |highest| format!("{:.1}% of {} windows", highest / cap.bytes_per_s * 100.0, windows.len()),
        );
        let _ = writeln!(
            self.caps,
            "| {} | {} | {:.1}% | {highest} |",
            row.in_words(),
            if variant == OURS { OURS.to_owned() } else { name(report, variant) },
            throughput / cap.bytes_per_s * 100.0
        );
        Ok(())
    }

    fn text(&self) -> String {
        let Self { ratios, caps, limits } = self;
        format!(
            "Memory holds the built-in corpus; with “50% zero” half of its pages are zero. CPU is of one side's process per GiB of memory. Times \
             and CPU are medians over all slots, ours and theirs, and then the ratio.\n\n\
             | memory, content, codec, channels, cap | peer | total time | theirs | ratio | target | CPU/GiB source | theirs | ratio | target \
             | CPU/GiB destination | theirs | ratio | target | CPU/GiB of both together, ratio | wire bytes, ratio |\n\
             |---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n{ratios}\n\
             The wire under a cap: used at least 98%, and in no window of 1 s more than 101%, is the target.\n\n\
             | memory, content, codec, channels, cap | who | used on average | highest window |\n|---|---|---|---|\n{caps}\n\
             Without a cap and a codec, against a plain stream of the same memory between the same two processes in the same \
             run:\n\n\
             | memory, content, codec, channels, cap | throughput | plain stream | ratio | target |\n|---|---|---|---|---|\n{limits}\n\
             QEMU's settings: {QEMU_SETTINGS}\n"
        )
    }
}

const QEMU_SETTINGS: &str = "`-machine none` (no device, no firmware, no processor: nothing but memory moves), anonymous memory \
on both sides, on which QEMU asks for transparent huge pages, source memory in place before the migration, the destination's \
fresh; capabilities `multifd`, `return-path` (as libvirt sets it; the clock ends when the destination has the guest) and \
`events`; `max-bandwidth` 1 TB/s where there is no cap; `zero-page-detection: multifd` where QEMU has it. Each side is pinned \
to the same CPUs as ours. Memory in a file is not used: it has no huge pages here, and takes QEMU three times as long.";

fn median(report: &Value, variant: &str, metric: &str) -> Option<f64> {
    let variants = report["variants"].as_array()?;
    variants.iter().find(|other| other["name"] == variant)?["metrics"][metric]["median"].as_f64()
}

/// A peer by the version that it says it has.
fn name(report: &Value, peer: &str) -> String {
    let variants = report["variants"].as_array().map_or(&[][..], Vec::as_slice);
    let variant = variants.iter().find(|variant| variant["name"] == peer);
    let evidence = variant.and_then(|variant| variant["evidence"].as_array()).map_or(&[][..], Vec::as_slice);
    let version = evidence.iter().find(|evidence| evidence["what"] == "version");
    version.and_then(|version| version["observed"].as_str()).unwrap_or(peer).to_owned()
}

/// Ours over a peer's. `plumb run` compares with its baseline, which is the installed QEMU; for others it is the ratio of
/// two ratios, without an interval.
fn ratio(report: &Value, metric: &str, of: &str, over: &str) -> String {
    let comparisons = report["comparisons"].as_array().map_or(&[][..], Vec::as_slice);
    let of_variant = |variant: &str| {
        comparisons
            .iter()
            .find(|comparison| comparison["variant"] == variant && comparison["metric"] == metric)
    };
    let Some(ours) = of_variant(of) else { return "–".to_owned() };
    let number = |comparison: &Value, key: &str| comparison[key].as_f64();
    match of_variant(over) {
        None => match (number(ours, "ratio"), number(ours, "low"), number(ours, "high")) {
            (Some(ratio), Some(low), Some(high)) => format!("{ratio:.2} [{low:.2}, {high:.2}]"),
            (Some(ratio), ..) => format!("{ratio:.2}"),
            _ => "–".to_owned(),
        },
        Some(theirs) => match (number(ours, "ratio"), number(theirs, "ratio")) {
            (Some(ours), Some(theirs)) => format!("{:.2}", ours / theirs),
            _ => "–".to_owned(),
        },
    }
}
