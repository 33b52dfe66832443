//! Rules over tables: each alone, and tables of one form together.

use crate::document::Document;
use crate::finding::Finding;
use crate::tables::{Figure, Row, Table};
use crate::words::{digits, list, under};

/// A page of memory on x86-64, in bytes.
const PAGE: f64 = 4096.0;
/// Sums that should be equal may differ by this share.
const CLOSES: f64 = 0.05;
/// Rows that name the network of the host itself, which every path of a container contains.
const HOST: [&str; 2] = ["host", "宿主机"];

/// What was read, in a sentence.
pub(crate) fn described(table: &Table) -> String {
    let rows: Vec<String> = table.rows.iter().map(|row| row.name.clone()).collect();
    let place = under(&table.place);
    let corner = if table.corner.is_empty() { String::new() } else { format!(" ({})", table.corner) };
    format!("a table{corner}{place}: {} of {}", table.columns.join(", "), list(&rows))
}

/// Ratios of the rows to the first one, by the first column.
pub(crate) fn conclusions(tables: &[Table]) -> Vec<String> {
    tables.iter().flat_map(of_table).collect()
}

fn of_table(table: &Table) -> Vec<String> {
    let Some(first) = table.value(0, 0) else { return Vec::new() };
    let others = (1..table.rows.len()).filter_map(|row| {
        let ratio = table.value(row, 0)? / first;
        Some(format!(
            "{} of {} over {} (line {}): ×{} — a point estimate, one number a cell",
            table.columns[0],
            table.rows[row].name,
            table.rows[0].name,
            table.line,
            digits(ratio)
        ))
    });
    others.collect()
}

pub(crate) fn findings(document: &Document<'_>, tables: &[Table]) -> Vec<Finding> {
    let text = document.text();
    let mut found = Vec::new();
    for table in tables {
        let finding = |(what, why): (&str, String)| Finding { line: table.line, what: what.to_owned(), why };
        let rules = [
            faster_than_the_host(table),
            small_messages(table),
            few_digits(table),
            half_round_trips(table),
            pages(table, &text),
            above_the_cap(table),
            cpu_of_different_lengths(table),
        ];
        found.extend(rules.into_iter().flatten().map(finding));
    }
    found.extend(slower_with_more(tables));
    if let Some(last) = tables.last() {
        let lines: Vec<String> = tables.iter().map(|table| table.line.to_string()).collect();
        found.push(Finding {
            line: last.line,
            what: "one number a cell".to_owned(),
            why: format!(
                "The tables (line {}) have one number for each cell. How much two runs of one cell differ is not known, so no \
                 difference between rows has an interval.",
                list(&unique(lines))
            ),
        });
    }
    found
}

fn unique(mut lines: Vec<String>) -> Vec<String> {
    lines.dedup();
    lines
}

fn is_host(row: &Row) -> bool {
    let name = row.name.to_lowercase();
    HOST.iter().any(|word| name.contains(word))
}

/// A path that contains another cannot be faster than it.
fn faster_than_the_host(table: &Table) -> Option<(&'static str, String)> {
    let host = table.rows.iter().position(is_host)?;
    let better = |column: usize| {
        let heading = table.columns[column].to_lowercase();
        let is_less_better = heading.contains("lat") || heading.contains("time");
        let of_host = table.value(host, column)?;
        let others = (0..table.rows.len()).filter(|row| *row != host);
        let ahead = others.filter_map(|row| {
            let value = table.value(row, column)?;
            let gain = if is_less_better { of_host / value } else { value / of_host };
            (gain > 1.02).then(|| (gain, table.rows[row].name.clone()))
        });
        let (gain, name) = ahead.max_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(format!("{name} by {:.0}% in {}", (gain - 1.0) * 100.0, table.columns[column]))
    };
    let better: Vec<String> = (0..table.columns.len()).filter_map(better).collect();
    (!better.is_empty()).then(|| {
        (
            "cells contradict each other",
            format!(
                "{} is part of every path here, and yet a longer path is better: {}. Either the paths differ in more than the table \
                 says, such as filters, CPUs or offloads, or runs differ by as much.",
                table.rows[host].name,
                list(&better)
            ),
        )
    })
}

/// Bandwidth with one-byte messages is a rate of system calls.
fn small_messages(table: &Table) -> Option<(&'static str, String)> {
    let is_one_byte =
        table.caption.split_whitespace().any(|word| word.trim_matches(['`', ',']) == "msg_size:1");
    let column = (0..table.columns.len()).find(|at| table.columns[*at].to_lowercase().contains("_bw"))?;
    let mega = table.value(0, column).filter(|_| is_one_byte && table.columns[column].contains("Mb"))?;
    let per_s = mega * 1e6 / 8.0;
    Some((
        "bandwidth of one-byte messages",
        format!(
            "{} Mb/s of one-byte messages is {} messages a second, {} us each: it measures what a send costs the CPU, and not a bandwidth. \
             CPU time would show whether there is less work, and the table has none.",
            digits(mega),
            digits(per_s),
            digits(1e6 / per_s)
        ),
    ))
}

/// Rows that lie no further apart than rounding moves them.
fn few_digits(table: &Table) -> Option<(&'static str, String)> {
    let close = (0..table.columns.len()).find_map(|column| {
        let figures: Vec<&Figure> =
            table.rows.iter().filter_map(|row| row.cells.get(column)?.as_ref()).collect();
        let mut pairs = figures
            .iter()
            .enumerate()
            .flat_map(|(at, one)| figures[at + 1..].iter().map(move |other| (*one, *other)));
        let is_close = |(one, other): &(&Figure, &Figure)| {
            let apart = (one.value / other.value - 1.0).abs();
            apart > 0.0 && one.rounding() + other.rounding() >= apart / 2.0
        };
        pairs.find(is_close).map(|pair| (column, pair))
    });
    let (column, (one, other)) = close?;
    Some((
        "few digits",
        format!(
            "{} has {} and {}, {:.1}% apart. They are rounded, and that alone moves their ratio by up to {:.1}%.",
            table.columns[column],
            digits(one.value),
            digits(other.value),
            (one.value / other.value - 1.0).abs() * 100.0,
            (one.rounding() + other.rounding()) * 100.0
        ),
    ))
}

/// qperf's latency is half of a mean round trip.
fn half_round_trips(table: &Table) -> Option<(&'static str, String)> {
    let is_qperf =
        table.caption.contains("qperf") && table.columns.iter().any(|column| column.contains("_lat"));
    is_qperf.then(|| {
        (
            "a mean alone",
            "qperf's latency is half of a round trip, as a mean: there is no percentile, so a rare long wait cannot be seen, and both \
             directions count as equal."
                .to_owned(),
        )
    })
}

/// Pages per second times seconds are the pages that a guest has, where nothing writes to it.
fn pages(table: &Table, text: &str) -> Option<(&'static str, String)> {
    let (pages, time) = (table.column(&["pages", "per"])?, table.column(&["total", "time"])?);
    let memory = guest_memory(text)?;
    let moved = |row: usize| Some(table.value(row, pages)? * PAGE * table.value(row, time)? / 1e3);
    let off: Vec<String> = (0..table.rows.len())
        .filter_map(|row| {
            let bytes = moved(row)?;
            (bytes > memory * (1.0 + CLOSES))
                .then(|| format!("{} {} GB", table.rows[row].name, digits(bytes / 1e9)))
        })
        .collect();
    (!off.is_empty()).then(|| {
        (
            "arithmetic does not close",
            format!(
                "Pages per second times the total time is more memory than the guest has, {} GB: {}. So the rate is not that of the whole \
                 migration, and its ratio between rows is not a speed-up.",
                digits(memory / 1e9),
                list(&off)
            ),
        )
    })
}

/// The memory of the guest that a text speaks of, in bytes: `64G memory`.
pub(crate) fn guest_memory(text: &str) -> Option<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).find_map(|pair| {
        let gib: f64 = pair[0].strip_suffix('G')?.parse().ok()?;
        pair[1].starts_with("memory").then_some(gib * f64::from(1 << 30))
    })
}

/// The cap above a table, in bits per second: `max-bandwidth: 1.25 GBps`.
fn cap(table: &Table) -> Option<f64> {
    let (_, rest) = table.caption.rsplit_once("max-bandwidth:")?;
    let gigabytes: f64 = rest.split_whitespace().next()?.parse().ok()?;
    rest.contains("GBps").then_some(gigabytes * 8e9)
}

/// No rate is above its cap.
fn above_the_cap(table: &Table) -> Option<(&'static str, String)> {
    let (column, cap) = (table.column(&["throughput", "mbps"])?, cap(table)?);
    let above: Vec<String> = (0..table.rows.len())
        .filter_map(|row| {
            let rate = table.value(row, column)? * 1e6;
            (rate > cap * 1.01)
                .then(|| format!("{} {:+.1}%", table.rows[row].name, (rate / cap - 1.0) * 100.0))
        })
        .collect();
    (!above.is_empty()).then(|| {
        (
            "a rate above its cap",
            format!(
                "The cap is {} Mbit/s, and the throughput is above it: {}. The cap is in units of 2^30 bytes, or the throughput counts what \
                 the cap does not; either way they cannot be compared as they stand.",
                digits(cap / 1e6),
                list(&above)
            ),
        )
    })
}

/// A percentage of a CPU is a cost only together with the time for which it was spent.
fn cpu_of_different_lengths(table: &Table) -> Option<(&'static str, String)> {
    let time = table.column(&["total", "time"])?;
    let cpus: Vec<usize> =
        (0..table.columns.len()).filter(|at| table.columns[*at].to_lowercase().contains("cpu")).collect();
    let seconds = |row: usize| table.value(row, time).map(|ms| ms / 1e3);
    let (shortest, longest) = (0..table.rows.len())
        .filter_map(seconds)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), s| (low.min(s), high.max(s)));
    if cpus.is_empty() || longest < 1.1 * shortest {
        return None;
    }
    let costs: Vec<String> = (0..table.rows.len())
        .filter_map(|row| {
            let share: f64 = cpus.iter().filter_map(|column| table.value(row, *column)).sum::<f64>() / 100.0;
            Some(format!("{} {} s", table.rows[row].name, digits(share * seconds(row)?)))
        })
        .collect();
    Some((
        "CPU without time",
        format!(
            "The rows take {} to {} s, so their CPU percentages are not their costs. CPU time of both sides for the whole job is {}.",
            digits(shortest),
            digits(longest),
            list(&costs)
        ),
    ))
}

/// A higher cap cannot make the same job slower.
fn slower_with_more(tables: &[Table]) -> Option<Finding> {
    tables.iter().enumerate().find_map(|(at, one)| {
        tables[at + 1..].iter().find_map(|other| {
            let is_same = one.corner == other.corner && one.columns == other.columns;
            let ((low, high), time) = (cap(one).zip(cap(other))?, one.column(&["total", "time"])?);
            if !is_same || low >= high {
                return None;
            }
            one.rows.iter().enumerate().find_map(|(row, name)| {
                let there = other.rows.iter().position(|other| other.name == name.name)?;
                let (before, after) = (one.value(row, time)?, other.value(there, time)?);
                (after > 1.02 * before).then(|| Finding {
                    line: other.line,
                    what: "cells contradict each other".to_owned(),
                    why: format!(
                        "With {} and {}, {} takes {} ms under a cap of {} Mbit/s and {} ms under one of {}: more bandwidth cannot make it \
                         slower, so runs differ by at least {:.0}%.",
                        one.corner,
                        name.name,
                        one.columns[time],
                        digits(before),
                        digits(low / 1e6),
                        digits(after),
                        digits(high / 1e6),
                        (after / before - 1.0) * 100.0
                    ),
                })
            })
        })
    })
}
