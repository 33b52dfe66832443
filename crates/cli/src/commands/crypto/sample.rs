//! A table for the tests.

use plumb_model::{Histogram, Measurement, Reading};

use super::document::{AnswersDocument, CRYPTO_FORMAT, CryptoDocument, DeviceDocument, DeviceRowDocument};
use super::ratio::compare;
use super::table::figures;

/// A number of operations on keys, at most in a pass and at a time, or the size of a block.
#[derive(Clone, Copy)]
enum Work {
    Keys(u32, u32),
    Blocks(u64),
}

/// A row of twelve windows of 0.1 s whose rate wobbles, or of one window without times.
fn row(device: &str, algorithm: &str, work: Work, per_s: f64, wobble: &[f64]) -> DeviceRowDocument {
    let (batch, in_flight, block_bytes) = match work {
        Work::Keys(batch, in_flight) => (Some(batch), Some(in_flight), None),
        Work::Blocks(bytes) => (None, None, Some(bytes)),
    };
    let windows_per_s: Vec<f64> = wobble.iter().map(|by| per_s * (1.0 + by)).collect();
    let mean = windows_per_s.iter().sum::<f64>() / windows_per_s.len() as f64;
    let window_ns = 100_000_000 * windows_per_s.len() as u64;
    let count = (mean * window_ns as f64 / 1e9) as u64;
    let mut total = Measurement { window_ns, work: count, ..Measurement::default() };
    total.readings.insert("ops".to_owned(), Reading::Rate { value: mean, count });
    if wobble.len() > 1 {
        let in_flight = u64::from(in_flight.unwrap_or(1));
        let mut times = Histogram::new();
        let time_ns = (1e9 / per_s) as u64;
        times.record_many(time_ns * in_flight, count - count / 50);
        times.record_many(time_ns * in_flight * 2, count / 50);
        total.readings.insert("op_latency".to_owned(), Reading::Trend(times));
        total.readings.insert("cpu_load".to_owned(), Reading::Gauge(1e6 / per_s));
    }
    DeviceRowDocument {
        device: device.to_owned(),
        is_software: device.starts_with("software-"),
        algorithm: algorithm.to_owned(),
        class: if algorithm == "rsa-2048" { "signatures" } else { "AEAD" }.to_owned(),
        batch,
        in_flight,
        fill: (device == "multibuffer").then_some(batch.map_or(1.0, f64::from)),
        windows_per_s,
        ..figures(&total, block_bytes)
    }
}

fn found(name: &str, library: &str, answers: Option<u64>) -> DeviceDocument {
    DeviceDocument {
        name: name.to_owned(),
        usable: true,
        library: Some(library.to_owned()),
        file: None,
        missing: None,
        known_answers: answers.map(|right| AnswersDocument { right }),
    }
}

pub(super) fn sample() -> CryptoDocument {
    let one = [0.0];
    let a = [0.010, -0.002, 0.001, 0.004, -0.003, 0.0, 0.002, 0.0, -0.004, 0.003, 0.001, -0.001];
    let b = [0.003, 0.001, -0.004, 0.006, 0.0, -0.002, 0.004, 0.001, -0.001, 0.0, -0.006, 0.002];
    let (keys, blocks) = (Work::Keys, Work::Blocks(16_384));
    let mut table = CryptoDocument {
        format: CRYPTO_FORMAT.to_owned(),
        program: "plumb 0.1.0".to_owned(),
        cpu: Some("AMD EPYC".to_owned()),
        duration_s: 1.2,
        rounds: 6,
        devices: vec![
            found("software-openssl", "OpenSSL 3.0.19 27 Jan 2026", Some(24)),
            found("software-aws-lc", "AWS-LC by aws-lc-rs", Some(24)),
            found("openssl-speed", "OpenSSL 3.0.19 27 Jan 2026", None),
            DeviceDocument {
                usable: false,
                library: None,
                missing: Some("no AVX-512 IFMA on this CPU".to_owned()),
                ..found("multibuffer", "", None)
            },
        ],
        rows: vec![
            row("software-openssl", "rsa-2048", keys(1, 1), 4_080.0, &a),
            row("software-openssl", "rsa-2048", keys(1, 16), 4_090.0, &b),
            row("software-aws-lc", "rsa-2048", keys(1, 1), 3_900.0, &b),
            row("software-aws-lc", "rsa-2048", keys(1, 16), 3_910.0, &a),
            row("multibuffer", "rsa-2048", keys(1, 1), 1_050.0, &a),
            row("multibuffer", "rsa-2048", keys(8, 16), 8_200.0, &a),
            row("openssl-speed", "rsa-2048", keys(1, 1), 4_021.0, &one),
            row("software-openssl", "aes-128-gcm", blocks, 310_000.0, &a),
            row("software-aws-lc", "aes-128-gcm", blocks, 402_000.0, &b),
            row("openssl-speed", "aes-128-gcm", blocks, 305_500.0, &one),
        ],
        warnings: Vec::new(),
    };
    compare(&mut table.rows);
    table
}
