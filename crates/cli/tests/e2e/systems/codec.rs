//! `plumb codec`: its sizes against those that each library's own tool gives.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{code, run, stderr, stdout, write};

/// The rows of a measurement of some data in one form.
fn rows(data: &Path, form: &str, codecs: &str) -> Vec<Value> {
    let path = data.to_str().unwrap();
    let output = run(&["codec", path, "--form", form, "--codecs", codecs, "-d", "10ms", "--json", "-q"]);
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
    let table: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(table["format"], "plumbline.codec/1");
    assert_eq!(table["missing"], Value::Array(Vec::new()));
    table["rows"].as_array().unwrap().clone()
}

fn compressed(rows: &[Value], codec: &str) -> u64 {
    let row = rows.iter().find(|row| row["codec"] == codec);
    row.and_then(|row| row["compressed_bytes"].as_u64()).unwrap()
}

/// How many bytes a program makes of a file, and the version that it says it has.
fn by_tool(program: &str, arguments: &[&str], data: &Path) -> Option<(u64, String)> {
    let version = Command::new(program)
        .arg(if program.starts_with("libdeflate") { "-V" } else { "--version" })
        .output()
        .ok()?;
    let version = String::from_utf8_lossy(&[version.stdout, version.stderr].concat()).into_owned();
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::from(fs::File::open(data).unwrap()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Some((output.stdout.len() as u64, version))
}

/// Data of several kinds, in a file.
fn data(directory: &Path, bytes: usize) -> std::path::PathBuf {
    let program = fs::read(env!("CARGO_BIN_EXE_plumb")).unwrap();
    let text = include_str!("../../../../../Cargo.lock").as_bytes();
    let mixed = [&program[..bytes / 2], &text.repeat(1 + bytes / text.len())[..bytes / 2]].concat();
    write(directory, "data", mixed)
}

#[test]
fn sizes_are_those_of_the_libraries_own_tools() {
    let directory = tempfile::tempdir().unwrap();
    // One unit, so that lz4's frame has one block and ISA-L's tool reads it as a whole.
    let path = data(directory.path(), 512 << 10);
    let rows = rows(&path, "whole", "zstd:1,zstd:9,lz4:1,lz4:9,zlib:6,libdeflate:6,isal:1");
    // Differences that formats around the data and other versions of the same library may make.
    for (codec, program, arguments, within) in [
        ("zstd:1", "zstd", ZSTD, 0.01),
        ("zstd:9", "zstd", ["-9", "--no-check", "-c", "--single-thread"].as_slice(), 0.01),
        ("lz4:1", "lz4", &["-1", "-B6", "-c", "--no-frame-crc"], 0.002),
        ("lz4:9", "lz4", &["-9", "-B6", "-c", "--no-frame-crc"], 0.002),
        ("zlib:6", "gzip", &["-6", "-c"], 0.04),
        ("libdeflate:6", "libdeflate-gzip", &["-6", "-c"], 0.02),
        ("isal:1", "igzip", &["-1", "-c"], 0.02),
    ] {
        let Some((size, version)) = by_tool(program, arguments, &path) else {
            crate::common::skip(&format!("size_of_{codec}: {program} is not installed"));
            continue;
        };
        let ours = compressed(&rows, codec);
        let ratio = ours as f64 / size as f64;
        assert!((ratio - 1.0).abs() < within, "{codec}: {ours} bytes, {program} {size} ({version})");
    }
    units_are_compressed_each_for_itself(directory.path());
}

const ZSTD: &[&str] = &["-1", "--no-check", "-c", "--single-thread"];

fn units_are_compressed_each_for_itself(directory: &Path) {
    let path = data(directory, 3 << 19);
    let (units, whole) = (rows(&path, "unit", "zstd:1,none"), rows(&path, "whole", "zstd:1,none"));
    let bytes = fs::read(&path).unwrap();
    assert_eq!(compressed(&units, "none"), bytes.len() as u64);
    assert!(compressed(&units, "zstd:1") > compressed(&whole, "zstd:1"));
    let tool_makes = |unit: &[u8]| Some(by_tool("zstd", ZSTD, &write(directory, "unit", unit))?.0);
    if let Some(size) = bytes.chunks(512 << 10).map(tool_makes).sum::<Option<u64>>() {
        let ratio = compressed(&units, "zstd:1") as f64 / size as f64;
        assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    }
    assert!(units.iter().all(|row| row["hardware_frames"] == 0 && row["software_frames"].as_u64() > Some(5)));
}
