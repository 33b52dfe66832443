//! `plumb crypto`: devices of this machine side by side, one that it lacks, and one whose results are wrong.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::common::{code, plumb, skip, stderr, stdout};

/// Runs it where the library of the multibuffer device is not to be found.
fn crypto(arguments: &str) -> Output {
    let mut command = plumb();
    command.env("PLUMB_CRYPTO_MB", "/nowhere").arg("crypto").args(arguments.split_whitespace());
    command.output().unwrap()
}

/// With each sort of work. A device that is not there costs the others nothing.
#[test]
fn devices_are_checked_and_measured_side_by_side() {
    let output = crypto(
        "--duration 100ms --algorithms rsa-2048,ecdsa-p256,x25519,aes-128-gcm,sha-256 --block 1KiB --json \
         --devices software-openssl,software-aws-lc,multibuffer",
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&found["format"], &found["rounds"]), (&"plumbline.crypto/1".into(), &6.into()));
    let [devices @ .., missing] = found["devices"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert_eq!((&missing["name"], &missing["usable"]), (&"multibuffer".into(), &false.into()));
    let reason = missing["missing"].as_str().unwrap();
    // Plain lines, since nobody watches on a terminal.
    let progress = stderr(&output);
    assert!(progress.contains(&format!("skipped multibuffer: {reason}\n")), "{progress}");
    assert!(progress.contains("measuring x25519\n") && !progress.contains('\u{1b}'), "{progress}");
    for device in devices {
        // Three private-key algorithms with 12 results each, and two of blocks with 5 each.
        let found = (&device["usable"], &device["known_answers"]["right"]);
        assert_eq!(found, (&true.into(), &46.into()), "{device}");
    }
    let rows = found["rows"].as_array().unwrap();
    // Two devices: three algorithms with 1 and with 16 in flight, and two with blocks.
    assert_eq!(rows.len(), 2 * (3 * 2 + 2), "{rows:#?}");
    for row in rows {
        assert!(row["operations"].as_u64().unwrap() > 0 && row["ops_per_s"].as_f64().unwrap() > 0.0, "{row}");
        assert_eq!(row["windows_per_s"].as_array().unwrap().len(), 12, "{row}");
        assert!(row["latency_ms"]["p50"].as_f64() <= row["latency_ms"]["p99"].as_f64(), "{row}");
        assert!(row["cpu_us_per_op"].as_f64().unwrap() > 0.0 && row["errors"] == json!({}), "{row}");
        assert_eq!(row["bytes_per_s"].is_f64(), row["block_bytes"] == 1024, "{row}");
    }
    // Of each two that had the same work, one is the best and the other has a ratio to it.
    let compared = rows.iter().filter(|row| row["ratio"]["low"].is_f64()).count();
    assert_eq!(compared, rows.len() / 2);
    let output = crypto("-d 20ms --algorithms ecdsa-p256 --rounds 1 --json --devices multibuffer");
    assert_eq!((code(&output), stdout(&output).as_str()), (5, ""));
    assert!(stderr(&output).contains(&format!("failed to find a device to measure: multibuffer: {reason}")));
    openssl_speed_stands_beside_the_devices();
}

fn openssl_speed_stands_beside_the_devices() {
    let output =
        crypto("-d 50ms --algorithms sha-512 --rounds 1 --quiet --devices software-aws-lc,openssl-speed");
    assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
    let text = stdout(&output);
    for part in ["software-aws-lc", "best software", "sha-512: hashes"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    if text.contains("✓ openssl-speed") {
        assert_eq!(text.lines().filter(|line| line.starts_with("  openssl-speed ")).count(), 1, "{text}");
    }
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
