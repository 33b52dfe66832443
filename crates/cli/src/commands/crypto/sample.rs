//! A table for the tests.

use plumb_crypto::measure::Absent;
use plumb_devices::Unavailable;
use plumb_model::{Histogram, Measurement, Reading};

use super::found::{DeviceFound, DeviceRow, DeviceTable, RowWork};

/// A row of twelve windows of 0.1 s whose rate wobbles, or of one window without times.
fn row(device: &str, algorithm: &str, work: RowWork, per_s: f64, wobble: &[f64]) -> DeviceRow {
    let rates_per_s: Vec<f64> = wobble.iter().map(|by| per_s * (1.0 + by)).collect();
    let mean = rates_per_s.iter().sum::<f64>() / rates_per_s.len() as f64;
    let window_ns = 100_000_000 * rates_per_s.len() as u64;
    let count = (mean * window_ns as f64 / 1e9) as u64;
    let mut total = Measurement { window_ns, work: count, ..Measurement::default() };
    total.readings.insert("ops".to_owned(), Reading::Rate { value: mean, count });
    if wobble.len() > 1 {
        let in_flight = if let RowWork::Keys { in_flight, .. } = work { in_flight } else { 1 };
        let mut times = Histogram::new();
        let time_ns = (1e9 / per_s) as u64;
        times.record_many(time_ns * u64::from(in_flight), count - count / 50);
        times.record_many(time_ns * u64::from(in_flight) * 2, count / 50);
        total.readings.insert("op_latency".to_owned(), Reading::Trend(times));
        total.readings.insert("cpu_load".to_owned(), Reading::Gauge(1e6 / per_s));
    }
    DeviceRow {
        device: device.to_owned(),
        is_software: device.starts_with("software-"),
        algorithm: algorithm.to_owned(),
        class: if algorithm == "rsa-2048" { "signatures" } else { "AEAD" }.to_owned(),
        work,
        fill: (device == "multibuffer").then_some(match work {
            RowWork::Keys { batch, .. } => f64::from(batch),
            RowWork::Blocks { .. } => 1.0,
        }),
        rates_per_s,
        total,
    }
}

fn found(
    name: &str,
    library: Result<&str, Unavailable>,
    file: Option<&str>,
    answers: Option<u64>,
) -> DeviceFound {
    DeviceFound {
        name: name.to_owned(),
        library: library.map(str::to_owned).map_err(Absent::Device),
        file: file.map(str::to_owned),
        answers,
    }
}

pub(super) fn sample() -> DeviceTable {
    let one = [0.0];
    let a = [0.010, -0.002, 0.001, 0.004, -0.003, 0.0, 0.002, 0.0, -0.004, 0.003, 0.001, -0.001];
    let b = [0.003, 0.001, -0.004, 0.006, 0.0, -0.002, 0.004, 0.001, -0.001, 0.0, -0.006, 0.002];
    let keys = |batch, in_flight| RowWork::Keys { batch, in_flight };
    let blocks = RowWork::Blocks { bytes: 16_384 };
    DeviceTable {
        program: "plumb 0.1.0".to_owned(),
        cpu: Some("AMD EPYC".to_owned()),
        duration_s: 1.2,
        rounds: 6,
        devices: vec![
            found("software-openssl", Ok("OpenSSL 3.0.19 27 Jan 2026"), None, Some(24)),
            found("software-aws-lc", Ok("AWS-LC by aws-lc-rs"), None, Some(24)),
            found("openssl-speed", Ok("OpenSSL 3.0.19 27 Jan 2026"), None, None),
            found("multibuffer", Err(Unavailable::NoIfma), None, None),
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
    }
}
