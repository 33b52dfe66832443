//! `plumb codec FILE|DIR`: what each codec makes of data, in the units of a migration and as a whole.

mod table;

pub use table::CodecTable;

use std::path::Path;

use plumb_codec::content::{ContentSettings, read_path};
use plumb_codec::measure::{Finding, Form, MeasureError, Spent, measure};
use plumb_codec::{CodecKind, CodecSettings, PAGE_BYTES, UNIT_BYTES};
use plumb_host::facts::HostFacts;
use plumb_host::signals::Interrupts;
use plumb_model::{Bytes, Percent};

use self::table::{CODEC_FORMAT, CodecForm, CodecMissing, CodecRow, CodecSpeed};
use crate::args::CodecArguments;
use crate::exit::{FAILED, Failure, HOLDS, INTERRUPTED, Outcome};
use crate::live::LiveLine;
use crate::output;

/// As much of a file or directory as is read: it, its compressed forms and what is restored are in memory together.
const FILE_BYTES: u64 = 1 << 30;
/// The size after which the built-in corpus has had every kind of data in its proportion.
const BUILTIN_BYTES: u64 = plumb_codec::content::BUILTIN_BYTES as u64;
const GIB: f64 = (1_u64 << 30) as f64;

/// Reads or makes the data, measures each codec that this host has and prints a table.
pub fn codec(arguments: &CodecArguments) -> Outcome {
    if arguments.duration.0 == 0 {
        return Err(Failure::usage("--duration: must be longer than 0"));
    }
    let (codecs, missing) = present(&asked(&arguments.codecs));
    let (name, data) = data(arguments)?;
    let live = LiveLine::new(arguments.quiet || arguments.json);
    if !arguments.quiet {
        let names: Vec<String> = codecs.iter().map(CodecSettings::name).collect();
        let version = env!("CARGO_PKG_VERSION");
        output::message(&format!("plumb {version} · {name} · {} bytes · {}", data.len(), names.join(", ")));
        missing.iter().for_each(|missing| output::message(&format!("skipped {}", missing.reason)));
    }
    if codecs.is_empty() {
        let reasons: Vec<&str> = missing.iter().map(|missing| missing.reason.as_str()).collect();
        return Err(Failure::laid_out(FAILED, format!("failed to find a codec: {}", reasons.join("; "))));
    }
    let forms = arguments.form.map_or(Form::ALL.to_vec(), |form| vec![form.into()]);
    let turns = codecs.len() * forms.len();
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let measured = measure(&data, &codecs, &forms, arguments.duration.0, &mut |finding, turn| {
        let form = if finding.form == Form::Unit { "in units" } else { "as a whole" };
        live.show(&format!("round {}: {} {form}", turn / turns + 1, finding.codec));
        !interrupts.is_interrupted()
    });
    live.clear();
    match measured {
        Ok(findings) => print(arguments, &table(name, &data, &findings, missing))?,
        Err(MeasureError::Interrupted) => {
            return Err(Failure::laid_out(INTERRUPTED, "interrupted".to_owned()));
        }
        Err(error) => return Err(Failure::harness(error)),
    }
    Ok(HOLDS)
}

/// The codecs that were asked for, each once; without any, all but another's software path and what only QEMU has.
fn asked(codecs: &[CodecSettings]) -> Vec<CodecSettings> {
    let is_own = |kind: &CodecKind| !matches!(kind, CodecKind::QplSoftware | CodecKind::Uadk);
    let all = CodecKind::ALL.into_iter().filter(is_own).map(CodecSettings::at_default_level);
    let mut asked: Vec<CodecSettings> = Vec::new();
    for codec in if codecs.is_empty() { all.collect() } else { codecs.to_vec() } {
        if !asked.contains(&codec) {
            asked.push(codec);
        }
    }
    asked
}

/// Those that this host has, and why it has not the others.
fn present(asked: &[CodecSettings]) -> (Vec<CodecSettings>, Vec<CodecMissing>) {
    let (mut codecs, mut missing) = (Vec::new(), Vec::new());
    for codec in asked {
        match codec.feasible() {
            Ok(()) => codecs.push(*codec),
            Err(error) => missing.push(CodecMissing { codec: codec.to_string(), reason: error.to_string() }),
        }
    }
    (codecs, missing)
}

/// The data and what to call it.
fn data(arguments: &CodecArguments) -> Result<(String, Vec<u8>), Failure> {
    match &arguments.data {
        Some(path) => from_files(path, arguments.size.map_or(FILE_BYTES, |Bytes(bytes)| bytes)),
        None => built_in(arguments),
    }
}

fn from_files(path: &Path, bytes_max: u64) -> Result<(String, Vec<u8>), Failure> {
    if !(1..=FILE_BYTES).contains(&bytes_max) {
        return Err(Failure::usage("--size: must be a size from 1 B to 1 GiB"));
    }
    let bytes = read_path(path, bytes_max).map_err(|error| Failure::usage(format!("failed to {error}")))?;
    let cut = if bytes.len() as u64 == bytes_max { ", cut" } else { "" };
    Ok((format!("{}{cut}", path.display()), bytes))
}

fn built_in(arguments: &CodecArguments) -> Result<(String, Vec<u8>), Failure> {
    let bytes = arguments.size.map_or(BUILTIN_BYTES, |Bytes(bytes)| bytes);
    if !(PAGE_BYTES as u64..=FILE_BYTES).contains(&bytes) || !bytes.is_multiple_of(PAGE_BYTES as u64) {
        return Err(Failure::usage("--size: must be a multiple of 4 KiB, up to 1 GiB"));
    }
    let (zero, incompressible) = (arguments.zero, arguments.incompressible);
    let content = ContentSettings { zero, incompressible, ..ContentSettings::default() };
    let mut data = vec![0; bytes as usize];
    content
        .fill(&mut data, arguments.seed)
        .map_err(|error| Failure::usage(format!("--zero, --incompressible: failed to {error}")))?;
    if let Some(path) = &arguments.save {
        std::fs::write(path, &data)
            .map_err(|error| Failure::harness(format!("write {}: {error}", path.display())))?;
    }
    let share =
        |share: Percent, what| if share.0 > 0.0 { format!(", {share} {what}") } else { String::new() };
    let shares = share(zero, "zero") + &share(incompressible, "incompressible");
    Ok((format!("content {}, seed {}{shares}", arguments.content, arguments.seed), data))
}

fn table(data_name: String, data: &[u8], findings: &[Finding], missing: Vec<CodecMissing>) -> CodecTable {
    CodecTable {
        format: CODEC_FORMAT,
        program: concat!("plumb ", env!("CARGO_PKG_VERSION")).to_owned(),
        cpu: HostFacts::read_now().cpu_model,
        data: data_name,
        data_bytes: data.len() as u64,
        unit_bytes: UNIT_BYTES as u64,
        rounds: findings.first().map_or(0, |finding| finding.turns.len()),
        rows: findings.iter().map(|finding| row(data.len(), finding)).collect(),
        missing,
        warnings: findings.iter().filter_map(not_by_the_device).collect(),
    }
}

fn row(bytes: usize, finding: &Finding) -> CodecRow {
    CodecRow {
        codec: finding.codec.to_string(),
        form: if finding.form == Form::Unit { CodecForm::Unit } else { CodecForm::Whole },
        compressed_bytes: finding.compressed_bytes,
        ratio: bytes as f64 / finding.compressed_bytes.max(1) as f64,
        compress: speed(finding.turns.iter().map(|turn| turn.compress)),
        decompress: speed(finding.turns.iter().map(|turn| turn.decompress)),
        hardware_frames: finding.counters.hardware_frames,
        software_frames: finding.counters.software_frames,
    }
}

fn speed(spent: impl Iterator<Item = Spent> + Clone) -> CodecSpeed {
    let rate = |spent: Spent| spent.bytes as f64 * 1e3 / spent.wall_ns.max(1) as f64;
    let cost = |spent: Spent| spent.cpu_ns as f64 / 1e9 / (spent.bytes.max(1) as f64 / GIB);
    CodecSpeed {
        mb_per_s: median(spent.clone().map(rate)),
        best_mb_per_s: spent.clone().map(rate).fold(0.0, f64::max),
        cpu_s_per_gib: median(spent.map(cost)),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    plumb_stats::median(&values.collect::<Vec<_>>()).unwrap_or(0.0)
}

/// A codec that was chosen for its device and did something without it.
fn not_by_the_device(finding: &Finding) -> Option<String> {
    let counters = finding.counters;
    (finding.codec.wants_hardware() && finding.form == Form::Unit && counters.software_frames > 0).then(
        || {
            let all = counters.hardware_frames + counters.software_frames;
            format!(
                "{} did {} of {all} frames in software, not on its device",
                finding.codec, counters.software_frames
            )
        },
    )
}

fn print(arguments: &CodecArguments, table: &CodecTable) -> Result<(), Failure> {
    if arguments.json {
        return output::json(table);
    }
    output::painted(&table::codec_text(table, &output::style(140)))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command as Which};
    use crate::in_process::refusals;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
        assert_eq!(median(std::iter::empty()), 0.0);
    }

    #[test]
    fn a_speed_is_in_10_to_the_6_bytes_and_a_cost_in_2_to_the_30() {
        let spent = Spent { bytes: 1 << 30, wall_ns: 2_000_000_000, cpu_ns: 1_500_000_000 };
        let speed = speed([spent].into_iter());
        assert!((speed.mb_per_s - 536.870_912).abs() < 1e-9, "{speed:?}");
        assert!((speed.cpu_s_per_gib - 1.5).abs() < 1e-9, "{speed:?}");
    }

    #[test]
    fn each_codec_is_measured_once_and_software_paths_on_demand() {
        let zstd = CodecSettings::at_default_level(CodecKind::Zstd);
        assert_eq!(asked(&[zstd, "lz4".parse().unwrap(), "zstd:1".parse().unwrap()]).len(), 2);
        let names: Vec<String> = asked(&[]).iter().map(CodecSettings::name).collect();
        assert_eq!(names.join(" "), "none zlib:1 zstd:1 lz4:1 libdeflate:1 isal:1 qatzip:1 qpl:1");
    }

    #[test]
    fn wrong_uses_are_said_in_one_message() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("empty"), "").unwrap();
        std::fs::create_dir(path("nothing")).unwrap();
        let (fifo, all) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), fifo, all, 0).unwrap();
        let lines: [&[&str]; 12] = [
            &["codec", &path("none")],
            &["codec", &path("empty")],
            &["codec", &path("nothing")],
            &["codec", "/dev/zero"],
            &["codec", &path("fifo")],
            &["codec", "--codecs", "zst"],
            &["codec", "--codecs", "zlib:10"],
            &["codec", "--duration", "0s"],
            &["codec", "--size", "5 B"],
            &["codec", &path("empty"), "--size", "2 GiB"],
            &["codec", "--zero", "70%", "--incompressible", "70%"],
            &["codec", &path("empty"), "--zero", "5%"],
        ];
        insta::assert_snapshot!(refusals(&lines).replace(directory.path().to_str().unwrap(), "…"), @"
        2 failed to read …/none: No such file or directory (os error 2)
        2 failed to read …/empty: it is empty
        2 failed to read …/nothing: it is empty
        2 failed to read /dev/zero: it is not a regular file
        2 failed to read …/fifo: it is not a regular file
        2 invalid value 'zst' for '--codecs <CODEC>': `zst` is not a codec; did you mean `zstd`?
        2 invalid value 'zlib:10' for '--codecs <CODEC>': `zlib:10` is not a codec: zlib has levels from 1 to 9
        2 --duration: must be longer than 0
        2 --size: must be a multiple of 4 KiB, up to 1 GiB
        2 --size: must be a size from 1 B to 1 GiB
        2 --zero, --incompressible: failed to divide memory: the shares of zero and incompressible pages must be from 0% to 100%, and at most 100% together
        2 the argument '[FILE|DIR]' cannot be used with '--zero <PERCENT>'
        ");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        // It is for writing alone, even to root.
        if std::fs::exists("/proc/sys/net/ipv4/route/flush").unwrap() {
            insta::assert_snapshot!(refusals(&[&["codec", "/proc/sys/net/ipv4/route"]]), @"2 failed to read /proc/sys/net/ipv4/route/flush: Permission denied (os error 13)");
        }
    }

    #[test]
    fn the_built_in_content_needs_no_file_and_is_named() {
        let line = ["plumb", "codec", "--size", "64 KiB", "--zero", "50%", "--seed", "7"];
        let Which::Codec(arguments) = Arguments::try_parse_from(line).unwrap().command else { panic!() };
        let (name, data) = data(&arguments).unwrap();
        assert_eq!((name.as_str(), data.len()), ("content builtin, seed 7, 50% zero", 64 << 10));
    }
}
