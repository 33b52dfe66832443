//! The table for a terminal: what there is to measure with, and then one small table for each algorithm.

use plumb_model::{Bytes, Unit};
use plumb_report::sheet::{Sheet, Tone};
use plumb_report::{TextStyle, figures};

use super::document::{CryptoDocument, DeviceDocument, DeviceRowDocument};

const KEYS_HEADER: [&str; 9] =
    ["device", "batch", "in flight", "ops/s", "p50", "p99", "CPU/op", "fill", "against the best software"];
const BLOCKS_HEADER: [&str; 7] =
    ["device", "blocks/s", "bytes/s", "p50", "p99", "CPU/block", "against the best software"];

/// The table for a terminal, with a line feed at its end.
pub fn crypto_text(table: &CryptoDocument, style: &TextStyle) -> String {
    let mut sheet = Sheet::new(style);
    let names = table.devices.iter().map(|device| device.name.chars().count()).max().unwrap_or(0);
    for device in &table.devices {
        let (sign, tone, words) = match &device.library {
            Some(library) => ("✓", Tone::Good, library_words(device, library)),
            None => ("✗", Tone::Doubt, device.missing.clone().unwrap_or_default()),
        };
        sheet.signed(tone, sign, (&device.name, names), &words);
    }
    for group in table.rows.chunk_by(|a, b| heading(a) == heading(b)) {
        sheet.title(&heading(&group[0]));
        let is_blocks = group[0].block_bytes.is_some();
        let head: &[&str] = if is_blocks { &BLOCKS_HEADER } else { &KEYS_HEADER };
        let cells: Vec<Vec<String>> = group.iter().map(cells).collect();
        sheet.columns(2, head, &cells);
    }
    sheet.block();
    for row in &table.rows {
        for (kind, count) in &row.errors {
            let words = format!("{} {}: {kind} ({count})", row.device, row.algorithm);
            sheet.signed(Tone::Bad, "✗", ("", 0), &words);
        }
    }
    sheet.block();
    notes(table).iter().for_each(|note| sheet.text(Tone::Quiet, note));
    table.warnings.iter().for_each(|warning| sheet.signed(Tone::Doubt, "!", ("", 0), warning));
    sheet.finish()
}

/// The common part of the rows of one small table.
fn heading(row: &DeviceRowDocument) -> String {
    let blocks = row.block_bytes.map(|bytes| format!(", blocks of {}", Bytes(bytes))).unwrap_or_default();
    format!("{}: {}{blocks}", row.algorithm, row.class)
}

fn cells(row: &DeviceRowDocument) -> Vec<String> {
    let value =
        |value: Option<f64>, unit| value.map_or("–".to_owned(), |value| figures::value(value, unit));
    let latency = row.latency_ms.as_ref();
    let p50 = value(latency.map(|latency| latency.p50), Unit::Milliseconds);
    let p99 = value(latency.map(|latency| latency.p99), Unit::Milliseconds);
    let cpu = value(row.cpu_us_per_op, Unit::Microseconds);
    let ops = figures::value(row.ops_per_s, Unit::PerSecond);
    let ops = ops.strip_suffix("/s").unwrap_or(&ops).to_owned();
    if row.block_bytes.is_some() {
        let throughput = value(row.bytes_per_s, Unit::BytesPerSecond);
        return vec![row.device.clone(), ops, throughput, p50, p99, cpu, compared_words(row)];
    }
    let count = |count: Option<u32>| count.unwrap_or_default().to_string();
    let fill = row.fill.map_or("–".to_owned(), figures::digits);
    let (batch, in_flight) = (count(row.batch), count(row.in_flight));
    vec![row.device.clone(), batch, in_flight, ops, p50, p99, cpu, fill, compared_words(row)]
}

fn notes(table: &CryptoDocument) -> Vec<String> {
    let mut notes = vec![format!(
        "Each row: {} of one thread in {}, devices in turn in a random order and its reverse; times and rates are \
         elapsed time, intervals hold at 95%.",
        figures::time_ns(table.duration_s * 1e9),
        figures::plural(table.rounds as usize, "round")
    )];
    if table.rows.iter().any(|row| row.block_bytes.is_some() && row.latency_ms.is_some()) {
        notes.push("Times of blocks are means of bursts of at least 20 µs.".to_owned());
    }
    if table.rows.iter().any(|row| row.windows_per_s.len() == 1) {
        notes.push(
            "openssl-speed measures once, with -elapsed, so its ratios have no interval, and its results are not checked; its key \
             exchange is the derivation without a fresh key."
                .to_owned(),
        );
    }
    notes
}

fn library_words(device: &DeviceDocument, library: &str) -> String {
    let file = device.file.as_ref().map(|file| format!(", {file}")).unwrap_or_default();
    let answers = match &device.known_answers {
        Some(answers) => format!("{} right", figures::plural(answers.right as usize, "known answer")),
        None => "its results cannot be checked".to_owned(),
    };
    format!("{library}{file}; {answers}")
}

fn compared_words(row: &DeviceRowDocument) -> String {
    let Some(ratio) = &row.ratio else {
        return if row.is_best { "best software" } else { "–" }.to_owned();
    };
    let words = match ratio.low {
        Some(low) => figures::effect(ratio.value, low, ratio.high),
        None => figures::ratio(ratio.value, ratio.value, None),
    };
    match ratio.against_in_flight.filter(|in_flight| row.in_flight != Some(*in_flight)) {
        Some(in_flight) => format!("{words} (of {in_flight} in flight)"),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::sample;
    use super::*;

    #[test]
    fn the_table_reads_from_devices_to_what_they_are_worth() {
        let style = TextStyle { colour: false, width: 110 };
        insta::assert_snapshot!(crypto_text(&sample(), &style), @"
        ✓ software-openssl  OpenSSL 3.0.19 27 Jan 2026; 24 known answers right
        ✓ software-aws-lc   AWS-LC by aws-lc-rs; 24 known answers right
        ✓ openssl-speed     OpenSSL 3.0.19 27 Jan 2026; its results cannot be checked
        ✗ multibuffer       no AVX-512 IFMA on this CPU

        rsa-2048: signatures
          device            batch  in flight  ops/s      p50      p99  CPU/op  fill  against the best software
          software-openssl      1          1  4.08k   245 µs   490 µs  245 µs     –  best software
          software-openssl      1         16  4.09k  3.91 ms  7.83 ms  244 µs     –  best software
          software-aws-lc       1          1  3.90k   257 µs   513 µs  256 µs     –  ×0.9553 [0.9525, 0.9581]
          software-aws-lc       1         16  3.91k  4.09 ms  8.19 ms  256 µs     –  ×0.9565 [0.9538, 0.9593]
          multibuffer           1          1  1.05k   953 µs  1.91 ms  952 µs  1.00  ×0.25735 [0.25735, 0.25735]
          multibuffer           8         16  8.21k  1.95 ms  3.90 ms  122 µs  8.00  ×2.006 [2.000, 2.012]
          openssl-speed         1          1  4.02k        –        –       –     –  ×0.985

        aes-128-gcm: AEAD, blocks of 16 KiB
          device            blocks/s    bytes/s      p50      p99  CPU/block  against the best software
          software-openssl      310k  5.08 GB/s  3.23 µs  6.45 µs    3.23 µs  ×0.7716 [0.7693, 0.7739]
          software-aws-lc       402k  6.59 GB/s  2.49 µs  4.97 µs    2.49 µs  best software
          openssl-speed         306k  5.01 GB/s        –        –          –  ×0.760

        Each row: 1.20 s of one thread in 6 rounds, devices in turn in a random order and its reverse; times and rates
        are elapsed time, intervals hold at 95%.
        Times of blocks are means of bursts of at least 20 µs.
        openssl-speed measures once, with -elapsed, so its ratios have no interval, and its results are not checked;
        its key exchange is the derivation without a fresh key.
        ");
    }

    #[test]
    fn errors_and_warnings_are_told_and_nothing_measured_is_fine() {
        let style = TextStyle { colour: false, width: 60 };
        let mut table = sample();
        table.rows.truncate(1);
        let fault = "sign on the multibuffer device: the result is wrong and was withheld";
        table.rows[0].errors.insert(fault.to_owned(), 3);
        table.devices.truncate(1);
        table.devices[0].file = Some("/opt/lib/libcrypto_mb.so".to_owned());
        table.warnings.push(
            "other processes took 31% of a CPU while this was measured, so that rates are too low".to_owned(),
        );
        insta::assert_snapshot!(crypto_text(&table, &style), @"
        ✓ software-openssl  OpenSSL 3.0.19 27 Jan 2026,
                            /opt/lib/libcrypto_mb.so; 24 known
                            answers right

        rsa-2048: signatures
          device            batch  in flight  ops/s     p50     p99  CPU/op  fill  against the best software
          software-openssl      1          1  4.08k  245 µs  490 µs  245 µs     –  best software

        ✗ software-openssl rsa-2048: sign on the multibuffer device:
          the result is wrong and was withheld (3)

        Each row: 1.20 s of one thread in 6 rounds, devices in turn
        in a random order and its reverse; times and rates are
        elapsed time, intervals hold at 95%.
        ! other processes took 31% of a CPU while this was measured,
          so that rates are too low
        ");
        table.rows.clear();
        table.warnings.clear();
        assert!(crypto_text(&table, &style).contains("OpenSSL"));
    }
}
