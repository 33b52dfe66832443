//! The table for a terminal: what there is to measure with, and then one small table for each algorithm.

use plumb_model::{Bytes, Reading, Statistic, Unit};
use plumb_report::sheet::{Sheet, Tone};
use plumb_report::{TextStyle, figures};

use super::found::{DeviceFound, DeviceRow, DeviceTable, RowWork};
use super::ratio::{self, Compared, compared};

const KEYS_HEADER: [&str; 9] =
    ["device", "batch", "in flight", "ops/s", "p50", "p99", "CPU/op", "fill", "against the best software"];
const BLOCKS_HEADER: [&str; 7] =
    ["device", "blocks/s", "bytes/s", "p50", "p99", "CPU/block", "against the best software"];

/// The table for a terminal, with a line feed at its end.
pub fn crypto_text(table: &DeviceTable, style: &TextStyle) -> String {
    let mut sheet = Sheet::new(style);
    let names = table.devices.iter().map(|device| device.name.chars().count()).max().unwrap_or(0);
    for device in &table.devices {
        let (sign, tone, words) = match &device.library {
            Ok(library) => ("✓", Tone::Good, library_words(device, library)),
            Err(missing) => ("✗", Tone::Doubt, missing.to_string()),
        };
        sheet.signed(tone, sign, (&device.name, names), &words);
    }
    for group in table.rows.chunk_by(|a, b| heading(a) == heading(b)) {
        sheet.title(&heading(&group[0]));
        let is_blocks = matches!(group[0].work, RowWork::Blocks { .. });
        let head: &[&str] = if is_blocks { &BLOCKS_HEADER } else { &KEYS_HEADER };
        let cells: Vec<Vec<String>> = group.iter().map(|row| cells(row, &table.rows)).collect();
        sheet.columns(2, head, &cells);
    }
    sheet.block();
    for row in &table.rows {
        for (kind, count) in &row.total.errors {
            let words = format!("{} {}: {kind} ({count})", row.device, row.algorithm);
            sheet.signed(Tone::Bad, "✗", ("", 0), &words);
        }
    }
    sheet.block();
    notes(table).iter().for_each(|note| sheet.text(Tone::Quiet, note));
    table.warnings.iter().for_each(|warning| sheet.signed(Tone::Doubt, "!", ("", 0), warning));
    sheet.finish()
}

/// What the rows of one small table have in common.
fn heading(row: &DeviceRow) -> String {
    match row.work {
        RowWork::Keys { .. } => format!("{}: {}", row.algorithm, row.class),
        RowWork::Blocks { bytes } => format!("{}: {}, blocks of {}", row.algorithm, row.class, Bytes(bytes)),
    }
}

fn cells(row: &DeviceRow, rows: &[DeviceRow]) -> Vec<String> {
    let readings = &row.total.readings;
    let time = |statistic| {
        let value = readings.get("op_latency").and_then(|r| r.number(Some(statistic), Unit::Milliseconds));
        value.map_or("–".to_owned(), |value| figures::value(value, Unit::Milliseconds))
    };
    let cpu = readings.get("cpu_load").and_then(|reading| reading.number(None, Unit::Microseconds));
    let cpu = cpu.map_or("–".to_owned(), |value| figures::value(value, Unit::Microseconds));
    let (p50, p99) = (time(Statistic::Med), time(Statistic::P99));
    let rate = ratio::rate(row);
    let ops = figures::value(rate, Unit::PerSecond);
    let ops = ops.strip_suffix("/s").unwrap_or(&ops).to_owned();
    let ratio = compared_words(compared(row, rows), row);
    match row.work {
        RowWork::Keys { batch, in_flight } => {
            let fill = row.fill.map_or("–".to_owned(), figures::digits);
            let (batch, in_flight) = (batch.to_string(), in_flight.to_string());
            vec![row.device.clone(), batch, in_flight, ops, p50, p99, cpu, fill, ratio]
        }
        RowWork::Blocks { bytes } => {
            let throughput = figures::value(rate * bytes as f64, Unit::BytesPerSecond);
            vec![row.device.clone(), ops, throughput, p50, p99, cpu, ratio]
        }
    }
}

fn notes(table: &DeviceTable) -> Vec<String> {
    let mut notes = vec![format!(
        "Each row: {} of one thread in {}, devices in turn in a random order and its reverse; times and rates are \
         elapsed time, intervals hold at 95%.",
        figures::time_ns(table.duration_s * 1e9),
        figures::plural(table.rounds as usize, "round")
    )];
    if table.rows.iter().any(|row| matches!(row.work, RowWork::Blocks { .. }) && has_times(row)) {
        notes.push("Times of blocks are means of bursts of at least 20 µs.".to_owned());
    }
    if table.rows.iter().any(|row| row.rates_per_s.len() == 1) {
        notes.push(
            "openssl-speed measures once, with -elapsed, so its ratios have no interval, and its results are not checked; its key \
             exchange is the derivation without a fresh key."
                .to_owned(),
        );
    }
    notes
}

fn has_times(row: &DeviceRow) -> bool {
    matches!(row.total.readings.get("op_latency"), Some(Reading::Trend(times)) if times.count() > 0)
}

fn library_words(device: &DeviceFound, library: &str) -> String {
    let file = device.file.as_ref().map(|file| format!(", {file}")).unwrap_or_default();
    let answers = match device.answers {
        Some(right) => format!("{} right", figures::plural(right as usize, "known answer")),
        None => "its results cannot be checked".to_owned(),
    };
    format!("{library}{file}; {answers}")
}

fn compared_words(compared: Compared<'_>, row: &DeviceRow) -> String {
    match compared {
        Compared::Best => "best software".to_owned(),
        Compared::Alone => "–".to_owned(),
        Compared::Against { ratio, interval, best } => {
            let words = match interval {
                Some(found) => figures::effect(ratio, found.low, Some(found.high)),
                None => figures::ratio(ratio, ratio, None),
            };
            match (row.work, best.work) {
                (RowWork::Keys { in_flight: own, .. }, RowWork::Keys { in_flight, .. })
                    if own != in_flight =>
                {
                    format!("{words} (of {in_flight} in flight)")
                }
                _ => words,
            }
        }
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
        table.rows[0].total.errors.insert(fault.to_owned(), 3);
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
