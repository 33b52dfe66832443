//! `plumb codec`: its table against the sizes that each library's own tool gives, its JSON, and wrong uses of it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{code, plumb, run, stderr, stdout, write};

/// The rows of a measurement of some data in one form.
fn rows(data: &Path, form: &str, codecs: &str) -> Vec<Value> {
    let path = data.to_str().unwrap();
    let output = run(&["codec", path, "--form", form, "--codecs", codecs, "-d", "10ms", "--json", "-q"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
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
        ("zstd:1", "zstd", vec!["-1", "--no-check", "-c", "--single-thread"], 0.01),
        ("zstd:9", "zstd", vec!["-9", "--no-check", "-c", "--single-thread"], 0.01),
        ("lz4:1", "lz4", vec!["-1", "-B6", "-c", "--no-frame-crc"], 0.002),
        ("lz4:9", "lz4", vec!["-9", "-B6", "-c", "--no-frame-crc"], 0.002),
        ("zlib:6", "gzip", vec!["-6", "-c"], 0.04),
        ("libdeflate:6", "libdeflate-gzip", vec!["-6", "-c"], 0.02),
        ("isal:1", "igzip", vec!["-1", "-c"], 0.02),
    ] {
        let Some((size, version)) = by_tool(program, &arguments, &path) else {
            crate::common::skip(&format!("{program}, which {codec} is compared with, is not installed"));
            continue;
        };
        let ours = compressed(&rows, codec);
        let ratio = ours as f64 / size as f64;
        assert!((ratio - 1.0).abs() < within, "{codec}: {ours} bytes, {program} {size} ({version})");
    }
}

#[test]
fn units_are_compressed_each_for_itself() {
    let directory = tempfile::tempdir().unwrap();
    let path = data(directory.path(), 3 << 19);
    let (units, whole) = (rows(&path, "unit", "zstd:1,none"), rows(&path, "whole", "zstd:1,none"));
    let bytes = fs::read(&path).unwrap();
    let by_unit: Option<u64> = bytes
        .chunks(512 << 10)
        .map(|unit| {
            let unit = write(directory.path(), "unit", unit);
            by_tool("zstd", &["-1", "--no-check", "-c", "--single-thread"], &unit).map(|(size, _)| size)
        })
        .sum();
    assert_eq!(compressed(&units, "none"), bytes.len() as u64);
    assert!(compressed(&units, "zstd:1") > compressed(&whole, "zstd:1"));
    match by_unit {
        Some(size) => {
            let ratio = compressed(&units, "zstd:1") as f64 / size as f64;
            assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
        }
        None => crate::common::skip("zstd is not installed"),
    }
    assert!(units.iter().all(|row| row["hardware_frames"] == 0 && row["software_frames"].as_u64() > Some(5)));
}

#[test]
fn the_built_in_content_needs_no_file() {
    let output =
        run(&["codec", "--size", "1 MiB", "--zero", "50%", "--codecs", "zstd,lz4:-4,zstd:1", "-d", "10ms"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("content builtin, seed 1, 50% zero"), "{text}");
    assert!(text.contains("In units of 512 KiB") && text.contains("As a whole"), "{text}");
    // Each codec once a form, however often it was asked for.
    assert_eq!(text.lines().filter(|line| line.starts_with("zstd:1 ")).count(), 2, "{text}");
    assert!(stderr(&output).starts_with("plumb "), "{}", stderr(&output));
    let again = run(&["codec", "--size", "1 MiB", "--codecs", "none", "-d", "10ms", "-q"]);
    assert_eq!(stderr(&again), "");
}

#[test]
fn wrong_uses_are_said_in_one_message() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    write(directory.path(), "empty", "");
    fs::create_dir(path("nothing")).unwrap();
    assert!(Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
    for (arguments, message) in [
        (vec![path("none")], "No such file or directory"),
        (vec![path("empty")], "it is empty"),
        (vec![path("nothing")], "it is empty"),
        (vec![path("fifo")], "it is not a regular file"),
        (vec!["/dev/zero".to_owned()], "it is not a regular file"),
        (vec!["--codecs".to_owned(), "zst".to_owned()], "`zst` is not a codec; did you mean `zstd`?"),
        (vec!["--codecs".to_owned(), "zlib:10".to_owned()], "zlib has levels from 1 to 9"),
        (vec!["--duration".to_owned(), "0s".to_owned()], "must be longer than 0"),
        (vec!["--size".to_owned(), "5 B".to_owned()], "must be a multiple of 4 KiB"),
        (
            vec!["--zero".to_owned(), "70%".to_owned(), "--incompressible".to_owned(), "70%".to_owned()],
            "100% together",
        ),
        (vec![path("empty"), "--zero".to_owned(), "5%".to_owned()], "cannot be used with"),
    ] {
        let arguments: Vec<&str> =
            std::iter::once("codec").chain(arguments.iter().map(String::as_str)).collect();
        let output = run(&arguments);
        assert_eq!(code(&output), 2, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{arguments:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(directory.path(), 0o755);
    let secret = write(directory.path(), "secret", "x");
    open(&secret, 0o000);
    // As somebody who is not allowed to: root may read everything. The program may lie where others may not look.
    let program = directory.path().join("plumb");
    fs::copy(env!("CARGO_BIN_EXE_plumb"), &program).unwrap();
    open(&program, 0o755);
    let mut command = if fs::read(&secret).is_ok() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command
    } else {
        plumb()
    };
    let output = command.arg("codec").arg(directory.path()).arg("-q").output().unwrap();
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    let message = stderr(&output);
    assert!(message.contains("secret: Permission denied"), "{message}");
}
