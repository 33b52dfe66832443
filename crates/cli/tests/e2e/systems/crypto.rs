//! `plumb crypto`: every device of this machine, and what is said of one that it has not.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use crate::common::{code, plumb, run, skip, stderr, stdout};

/// Quick, and with each sort of work.
const QUICK: [&str; 7] = [
    "crypto",
    "--duration",
    "100ms",
    "--algorithms",
    "rsa-2048,ecdsa-p256,x25519,aes-128-gcm,sha-256",
    "--block",
    "1KiB",
];

#[test]
fn devices_are_checked_and_measured_side_by_side() {
    let arguments =
        [&QUICK[..], &["--devices", "software-openssl,software-aws-lc", "--json", "--quiet"]].concat();
    let output = run(&arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&found["format"], &found["rounds"]), (&"plumbline.crypto/1".into(), &6.into()));
    for device in found["devices"].as_array().unwrap() {
        // Three private-key algorithms with 12 results each, and two of blocks with 5 each.
        assert_eq!(
            (&device["usable"], &device["known_answers"]["right"]),
            (&true.into(), &46.into()),
            "{device}"
        );
    }
    let rows = found["rows"].as_array().unwrap();
    // Two devices: three algorithms with 1 and with 16 in flight, and two with blocks.
    assert_eq!(rows.len(), 2 * (3 * 2 + 2), "{rows:#?}");
    for row in rows {
        assert!(row["operations"].as_u64().unwrap() > 0 && row["ops_per_s"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["windows_per_s"].as_array().unwrap().len(), 12, "{row}");
        assert!(row["latency_ms"]["p50"].as_f64() <= row["latency_ms"]["p99"].as_f64(), "{row}");
        assert!(
            row["cpu_us_per_op"].as_f64().unwrap() > 0.0 && row["errors"] == serde_json::json!({}),
            "{row}"
        );
        assert_eq!(row["bytes_per_s"].is_f64(), row["block_bytes"] == 1024, "{row}");
    }
    // Of each two that had the same work, one is the best and the other has a ratio to it.
    let compared = rows.iter().filter(|row| row["ratio"]["low"].is_f64()).count();
    assert_eq!(compared, rows.len() / 2);
}

#[test]
fn the_table_has_every_device_and_openssl_speed_beside() {
    let output = run(&[
        "crypto",
        "--duration",
        "50ms",
        "--algorithms",
        "x25519,sha-512",
        "--in-flight",
        "8",
        "--rounds",
        "3",
    ]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let (text, progress) = (stdout(&output), stderr(&output));
    for part in [
        "software-openssl",
        "software-aws-lc",
        "multibuffer",
        "best software",
        "x25519: key exchanges",
        "sha-512: hashes",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    if text.contains("✓ openssl-speed") {
        assert_eq!(text.lines().filter(|line| line.starts_with("  openssl-speed ")).count(), 2, "{text}");
    }
    // Plain lines, since nobody watches on a terminal.
    assert!(progress.contains("measuring x25519\n") && !progress.contains('\u{1b}'), "{progress}");
}

#[test]
fn a_device_that_is_not_there_costs_the_others_nothing() {
    let with = |devices: &str| {
        let arguments = [
            "crypto",
            "-d",
            "20ms",
            "--algorithms",
            "ecdsa-p256",
            "--rounds",
            "1",
            "--json",
            "--devices",
            devices,
        ];
        plumb().env("PLUMB_CRYPTO_MB", "/nowhere").args(arguments).output().unwrap()
    };
    let output = with("software-aws-lc,multibuffer");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let devices: BTreeSet<&str> =
        found["rows"].as_array().unwrap().iter().map(|row| row["device"].as_str().unwrap()).collect();
    assert_eq!(devices, ["software-aws-lc"].into());
    let missing = &found["devices"][1];
    assert_eq!((&missing["name"], &missing["usable"]), (&"multibuffer".into(), &false.into()));
    let reason = missing["missing"].as_str().unwrap();
    assert!(stderr(&output).contains(&format!("skipped multibuffer: {reason}\n")), "{}", stderr(&output));
    let output = with("multibuffer");
    assert_eq!((code(&output), stdout(&output).as_str()), (5, ""));
    assert!(stderr(&output).contains(&format!("failed to find a device to measure: multibuffer: {reason}")));
}

/// Nothing is measured, whatever the library says of itself, and nobody sees a figure.
#[test]
fn a_device_whose_results_are_wrong_is_an_error() {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    if !cpu.contains("avx512ifma") {
        skip("hardware: no AVX-512 IFMA on this CPU");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("libcrypto_mb.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/systems/crypto/wrong_library.c");
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).output().unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    for (algorithm, part) in [
        (
            "rsa-2048",
            "failed to trust the multibuffer device with rsa-2048: 12 of 12 results are wrong according to software-aws-lc",
        ),
        (
            "x25519",
            "failed to trust the multibuffer device with x25519: 12 of 12 results are wrong according to software-aws-lc",
        ),
        ("ecdsa-p256", "failed to sign on the multibuffer device: the result is wrong and was withheld"),
        ("p256", "failed to generate a key on the multibuffer device: the result is wrong and was withheld"),
    ] {
        let arguments = [
            "crypto",
            "-d",
            "20ms",
            "--quiet",
            "--algorithms",
            algorithm,
            "--devices",
            "software-aws-lc,multibuffer",
        ];
        let output = plumb().env("PLUMB_CRYPTO_MB", &library).args(arguments).output().unwrap();
        assert_eq!((code(&output), stdout(&output).as_str()), (5, ""), "{algorithm}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{algorithm}: {}", stderr(&output));
    }
}

#[test]
fn wrong_uses_of_crypto_are_told_what_would_be_right() {
    for (arguments, part) in [
        (&["--algorithms", "rsa-2084"][..], "'rsa-2048'"),
        (&["--algorithms", "rsa-2048,md5"], "chacha20-poly1305"),
        (&["--devices", "multibufer"], "'multibuffer'"),
        (&["--batch", "0"], "from 1 to 8"),
        (&["--batch", "1,9"], "from 1 to 8"),
        (&["--in-flight", "0"], "from 1 to 4096"),
        (&["--in-flight", "many"], "--in-flight: expected a whole number"),
        (&["--duration", "1,5"], "has a comma: write a decimal point: `1.5`"),
        (&["--duration", "0s"], "must be longer than 0"),
        (&["--duration", "5 parsec"], "`parsec` is not a unit"),
        (&["--block", "0B"], "must be a size from 1 B to 16 MiB"),
        (&["--block", "1TB"], "must be a size from 1 B to 16 MiB"),
        (&["--block", "16"], "has no unit"),
        (&["--rounds", "0"], "1..=1000"),
        (&["--devices", "multibuffer", "--algorithms", "sha-256"], "multibuffer does not do sha-256"),
    ] {
        let output = run(&[&["crypto"], arguments].concat());
        let message = stderr(&output);
        assert_eq!(code(&output), 2, "{arguments:?}: {message}");
        assert!(message.contains(part) && !message.contains("panicked"), "{arguments:?}: {message}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn shells_complete_the_names_of_algorithms_and_devices() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&run(&["completions", shell]));
        assert!(script.contains("chacha20-poly1305") && script.contains("software-aws-lc"), "{shell}");
    }
}
