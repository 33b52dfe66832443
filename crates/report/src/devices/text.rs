//! The table for a terminal: what there is to measure with, and then one small table for each algorithm.

use plumb_model::{Bytes, Reading, Statistic, Unit};

use super::ratio::{self, Compared, compared};
use super::{DeviceFound, DeviceRow, DeviceTable, RowWork};
use crate::figures;
use crate::layout::{Paint, Tone, clean, left, right, widest, wrap};
use crate::text::TextStyle;

const KEYS_HEADER: [&str; 9] =
    ["device", "batch", "in flight", "ops/s", "p50", "p99", "CPU/op", "fill", "against the best software"];
const BLOCKS_HEADER: [&str; 7] =
    ["device", "blocks/s", "bytes/s", "p50", "p99", "CPU/block", "against the best software"];

/// The table for a terminal, with a line feed at its end.
#[must_use]
pub fn crypto_text(table: &DeviceTable, style: &TextStyle) -> String {
    let page = Page { table, paint: Paint { colour: style.colour }, width: style.width.max(60) };
    let mut parts = vec![page.devices()];
    let rows = &table.rows;
    parts.extend(rows.chunk_by(|a, b| heading(a) == heading(b)).map(|group| page.group(group)));
    parts.push(page.errors());
    parts.push(page.notes());
    let parts: Vec<String> =
        parts.iter().filter(|part| !part.is_empty()).map(|part| part.join("\n")).collect();
    parts.join("\n\n") + "\n"
}

/// What the rows of one small table have in common.
fn heading(row: &DeviceRow) -> String {
    match row.work {
        RowWork::Keys { .. } => format!("{}: {}", row.algorithm, row.class),
        RowWork::Blocks { bytes } => format!("{}: {}, blocks of {}", row.algorithm, row.class, Bytes(bytes)),
    }
}

struct Page<'a> {
    table: &'a DeviceTable,
    paint: Paint,
    width: usize,
}

impl Page<'_> {
    fn devices(&self) -> Vec<String> {
        let names = widest(self.table.devices.iter().map(|device| device.name.as_str()));
        self.table.devices.iter().flat_map(|device| self.device(device, names)).collect()
    }

    fn device(&self, device: &DeviceFound, names: usize) -> Vec<String> {
        let (sign, tone, words) = match &device.library {
            Ok(library) => ("✓", Tone::Good, library_words(device, library)),
            Err(missing) => ("✗", Tone::Doubt, missing.clone()),
        };
        let lines = wrap(&words, self.width.saturating_sub(names + 4));
        let lead = |at: usize| match at {
            0 => format!("{} {}  ", self.paint.on(tone, sign), left(&device.name, names)),
            _ => " ".repeat(names + 4),
        };
        lines.iter().enumerate().map(|(at, line)| lead(at) + line).collect()
    }

    fn group(&self, rows: &[DeviceRow]) -> Vec<String> {
        let is_blocks = matches!(rows[0].work, RowWork::Blocks { .. });
        let header: &[&str] = if is_blocks { &BLOCKS_HEADER } else { &KEYS_HEADER };
        let mut cells = vec![header.iter().map(|&name| name.to_owned()).collect()];
        cells.extend(rows.iter().map(|row| self.cells(row)));
        let mut lines = vec![self.paint.on(Tone::Title, &heading(&rows[0]))];
        lines.extend(columns(&cells).into_iter().enumerate().map(|(at, line)| match at {
            0 => self.paint.on(Tone::Quiet, &line),
            _ => line,
        }));
        lines
    }

    fn cells(&self, row: &DeviceRow) -> Vec<String> {
        let readings = &row.total.readings;
        let time = |statistic| {
            let value =
                readings.get("op_latency").and_then(|r| r.number(Some(statistic), Unit::Milliseconds));
            value.map_or("–".to_owned(), |value| figures::value(value, Unit::Milliseconds))
        };
        let cpu = readings.get("cpu_load").and_then(|reading| reading.number(None, Unit::Microseconds));
        let cpu = cpu.map_or("–".to_owned(), |value| figures::value(value, Unit::Microseconds));
        let (p50, p99) = (time(Statistic::Med), time(Statistic::P99));
        let rate = ratio::rate(row);
        let ops = figures::value(rate, Unit::PerSecond);
        let ops = ops.strip_suffix("/s").unwrap_or(&ops).to_owned();
        let ratio = compared_words(compared(row, &self.table.rows), row);
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

    fn errors(&self) -> Vec<String> {
        let of_row = |row: &DeviceRow| {
            let what = format!("{} {}", row.device, row.algorithm);
            let line = |(kind, count): (&String, &u64)| {
                format!("{} {what}: {} ({count})", self.paint.on(Tone::Bad, "✗"), clean(kind))
            };
            row.total.errors.iter().map(line).collect::<Vec<String>>()
        };
        self.table.rows.iter().flat_map(of_row).collect()
    }

    fn notes(&self) -> Vec<String> {
        let table = self.table;
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
        let quiet = notes
            .iter()
            .flat_map(|note| wrap(note, self.width))
            .map(|line| self.paint.on(Tone::Quiet, &line));
        let warnings = table.warnings.iter().flat_map(|warning| {
            let lines = wrap(warning, self.width.saturating_sub(2)).into_iter().enumerate();
            lines.map(|(at, line)| match at {
                0 => format!("{} {line}", self.paint.on(Tone::Doubt, "!")),
                _ => format!("  {line}"),
            })
        });
        quiet.chain(warnings).collect()
    }
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

/// Cells in columns: the first and the last to the left, numbers to the right.
fn columns(cells: &[Vec<String>]) -> Vec<String> {
    let last = cells[0].len() - 1;
    let widths: Vec<usize> = (0..=last).map(|at| widest(cells.iter().map(|row| row[at].as_str()))).collect();
    let line = |row: &Vec<String>| {
        let texts = row.iter().zip(&widths).enumerate().map(|(at, (text, width))| {
            let text = clean(text);
            if at == 0 || at == last { left(&text, *width) } else { right(&text, *width) }
        });
        format!("  {}", texts.collect::<Vec<String>>().join("  ")).trim_end().to_owned()
    };
    cells.iter().map(line).collect()
}

#[cfg(test)]
pub(super) fn sample() -> DeviceTable {
    tests::sample()
}

#[cfg(test)]
mod tests {
    use plumb_model::{Histogram, Measurement};

    use super::*;

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
        library: Result<&str, &str>,
        file: Option<&str>,
        answers: Option<u64>,
    ) -> DeviceFound {
        DeviceFound {
            name: name.to_owned(),
            library: library.map(str::to_owned).map_err(str::to_owned),
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
                found(
                    "multibuffer",
                    Err("libcrypto_mb.so was not found: run scripts/install-crypto-mb.sh"),
                    None,
                    None,
                ),
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

    #[test]
    fn the_table_reads_from_devices_to_what_they_are_worth() {
        let style = TextStyle { colour: false, width: 110 };
        insta::assert_snapshot!(crypto_text(&sample(), &style), @"
        ✓ software-openssl  OpenSSL 3.0.19 27 Jan 2026; 24 known answers right
        ✓ software-aws-lc   AWS-LC by aws-lc-rs; 24 known answers right
        ✓ openssl-speed     OpenSSL 3.0.19 27 Jan 2026; its results cannot be checked
        ✗ multibuffer       libcrypto_mb.so was not found: run scripts/install-crypto-mb.sh

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

        ✗ software-openssl rsa-2048: sign on the multibuffer device: the result is wrong and was withheld (3)

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
