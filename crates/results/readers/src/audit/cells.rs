//! Rules for tables: one table at a time, and tables of the same form together.

use plumb_model::Better;

use crate::audit::document::Document;
use crate::audit::finding::{Finding, NotRead};
use crate::audit::headings::has_word;
use crate::audit::percentiles::out_of_order;
use crate::audit::ratios::{Ratio, of_table};
use crate::audit::rule::Rule;
use crate::audit::series::{Layout, Point, Series, layout};
use crate::audit::tables::{Row, Table};
use crate::audit::units::Dimension;
use crate::audit::words::{at_lines, digits, list, under};

/// A page of memory on x86-64, in bytes.
const PAGE: f64 = 4096.0;
/// The largest relative difference between sums that should be equal.
const CLOSES: f64 = 0.05;
/// Names of the host's own network, which is part of every container's path.
const HOST: &[&str] = &["host", "宿主机"];
/// Words of tables about networks.
const NETWORK: &[&str] = &["tcp", "udp", "network", "iperf", "qperf", "netperf", "网络"];

/// A table with one of these headings and one column of values lists settings, not results.
const SETTINGS: &[&str] = &["variable", "parameter", "setting", "settings", "option", "flag", "sysctl"];

/// A table with its series.
pub(crate) struct Understood<'t> {
    pub(crate) table: &'t Table,
    pub(crate) layout: Layout,
}

/// The tables that can be read as series, and everything that could not be read.
pub(crate) fn understood(tables: &[Table]) -> (Vec<Understood<'_>>, Vec<NotRead>) {
    let (mut found, mut not_read) = (Vec::new(), Vec::new());
    for table in tables {
        if table.columns.len() == 1 && has_word(&table.corner, SETTINGS) {
            continue;
        }
        match layout(table) {
            Ok(layout) => found.push(Understood { table, layout }),
            Err(why) if table.left_out.is_empty() => {
                let why = format!("{}: {why}", described_as_table(table));
                not_read.push(NotRead { line: table.line, why, is_failure: false });
            }
            Err(_) => {}
        }
        not_read.extend(table.left_out.iter().cloned());
    }
    (found, not_read)
}

fn described_as_table(table: &Table) -> String {
    let rows: Vec<String> = table.rows.iter().map(|row| row.name.clone()).collect();
    let columns: Vec<&str> = table.columns.iter().map(|heading| heading.text.as_str()).collect();
    let place = under(&table.place);
    let corner = if table.corner.is_empty() { String::new() } else { format!(" ({})", table.corner) };
    format!("a table{corner}{place}: {} of {}", columns.join(", "), list(&rows))
}

/// Describes a table in a sentence.
pub(crate) fn described(Understood { table, layout }: &Understood<'_>) -> String {
    let has_several = layout.series.iter().any(|series| series.points.len() > 1);
    let reason = if has_several && !layout.is_choice {
        "; no ratios, because nothing marks its rows or columns as alternatives"
    } else {
        ""
    };
    format!("{}{reason}", described_as_table(table))
}

pub(crate) fn conclusions(tables: &[Understood<'_>]) -> Vec<Ratio> {
    tables.iter().flat_map(|known| of_table(known.table, &known.layout)).collect()
}

pub(crate) fn findings(document: &Document<'_>, tables: &[Understood<'_>]) -> Vec<Finding> {
    let memory = guest_memory(document.text());
    let mut found = Vec::new();
    for Understood { table, layout } in tables {
        let finding = |(rule, why): (Rule, String)| Finding { line: table.line, rule, why };
        let rules = [
            faster_than_the_host(table, layout).map(|why| (Rule::FasterThanAPart, why)),
            out_of_order(table).map(|why| (Rule::PercentilesOutOfOrder, why)),
            small_messages(table).map(|why| (Rule::OneByteBandwidth, why)),
            few_digits(table, layout).map(|why| (Rule::FewDigits, why)),
            half_round_trips(table).map(|why| (Rule::MeanAlone, why)),
            pages(table, memory).map(|why| (Rule::MorePagesThanMemory, why)),
            above_the_cap(table).map(|why| (Rule::AboveTheCap, why)),
            cpu_of_different_lengths(table).map(|why| (Rule::CpuWithoutTime, why)),
        ];
        found.extend(rules.into_iter().flatten().map(finding));
    }
    found.extend(slower_with_more(tables));
    found.extend(one_number_a_cell(document, tables));
    found
}

/// Reports tables of comparable results without a spread.
fn one_number_a_cell(document: &Document<'_>, tables: &[Understood<'_>]) -> Option<Finding> {
    let is_spread = |table: &Table| {
        let has_digits = |text: &String| text.contains(|c: char| c.is_ascii_digit());
        let is_filled = |at: usize| table.rows.iter().any(|row| row.texts.get(at).is_some_and(has_digits));
        (0..table.columns.len()).any(|at| table.columns[at].is_spread() && is_filled(at))
    };
    let is_bare = |known: &&Understood<'_>| {
        let mut series = known.layout.series.iter();
        let has_pairs = series.clone().any(|series| series.points.len() > 1);
        let has_spread = series.any(|series| series.points.iter().any(|point| point.figure.spread.is_some()));
        has_pairs && !has_spread && !is_spread(known.table)
    };
    let bare: Vec<&Understood<'_>> = tables.iter().filter(is_bare).collect();
    let line = bare.last()?.table.line;
    let lines = at_lines(bare.iter().map(|known| known.table.line));
    Some(match document.repetitions() {
        Some((said, words)) => Finding {
            line,
            rule: Rule::NoSpread,
            why: format!(
                "Line {said} mentions repetitions (\"{words}\"), but the tables ({lines}) show one number per cell. Their spread is \
                 missing, so no difference between cells has an interval."
            ),
        },
        None => Finding {
            line,
            rule: Rule::OneNumberACell,
            why: format!(
                "The tables ({lines}) have one number per cell. How much two runs of the same cell differ is unknown, so no difference \
                 between cells has an interval."
            ),
        },
    })
}

fn is_host(name: &str) -> bool {
    has_word(name, HOST) || HOST.iter().any(|word| !word.is_ascii() && name.contains(word))
}

/// Whether a table compares network paths.
fn is_of_networks(table: &Table) -> bool {
    let headings = table.columns.iter().map(|heading| heading.text.as_str());
    let texts: Vec<String> =
        headings.chain([&table.place[..], &table.caption]).map(str::to_lowercase).collect();
    table.rows.iter().any(|row| has_word(&row.name, &["network"]))
        || NETWORK.iter().any(|word| texts.iter().any(|text| text.contains(word)))
}

/// A path that contains another cannot be faster than it.
fn faster_than_the_host(table: &Table, layout: &Layout) -> Option<String> {
    let host = table.rows.iter().find(|row| is_host(&row.name)).filter(|_| is_of_networks(table))?;
    let better: Vec<String> = layout
        .series
        .iter()
        .filter(|series| series.is_column)
        .filter_map(|series| ahead_of_host(table, series))
        .collect();
    (!better.is_empty()).then(|| {
        format!(
            "{} is part of every path here, and yet a longer path is better: {}. Either the paths differ in more than the table says, such \
             as filters, CPUs or offloads, or runs differ by as much.",
            host.name,
            list(&better)
        )
    })
}

fn ahead_of_host(table: &Table, series: &Series) -> Option<String> {
    let host = series.points.iter().find(|point| is_host(point.name()))?;
    let gain = |point: &Point| match series.better {
        Better::Lower => Some(host.amount / point.amount),
        Better::Higher => Some(point.amount / host.amount),
        Better::Neither => None,
    };
    let others = series.points.iter().filter(|point| !is_host(point.name()));
    let ahead = others.filter_map(|point| {
        let gain = gain(point).filter(|gain| *gain > 1.02 && gain.is_finite())?;
        Some((gain, point.name()))
    });
    let (gain, name) = ahead.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(format!("{name} by {:.0}% in {}", (gain - 1.0) * 100.0, table.columns[series.index].text))
}

/// Bandwidth with one-byte messages is a rate of system calls.
fn small_messages(table: &Table) -> Option<String> {
    let is_one_byte =
        table.caption.split_whitespace().any(|word| word.trim_matches(['`', ',']) == "msg_size:1");
    let column =
        (0..table.columns.len()).find(|at| table.columns[*at].text.to_lowercase().contains("_bw"))?;
    let mega = table.value(0, column).filter(|_| is_one_byte && table.columns[column].text.contains("Mb"))?;
    let per_s = mega * 1e6 / 8.0;
    Some(format!(
        "{} Mb/s of one-byte messages is {} messages a second, {} us each: it measures the CPU cost of a send, not a bandwidth. CPU \
         time would show whether a send costs less, and the table has none.",
        digits(mega),
        digits(per_s),
        digits(1e6 / per_s)
    ))
}

/// Alternatives whose difference may come from rounding.
fn few_digits(table: &Table, layout: &Layout) -> Option<String> {
    let is_close = |(one, other): &(&Point, &Point)| {
        let apart = (one.amount / other.amount - 1.0).abs();
        apart > 0.0 && one.figure.rounding() + other.figure.rounding() >= apart / 2.0
    };
    let mut series = layout.comparisons().filter(|series| series.better != Better::Neither);
    let (series, (one, other)) = series.find_map(|series| {
        let points = &series.points;
        let mut pairs = points
            .iter()
            .enumerate()
            .flat_map(|(at, one)| points[at + 1..].iter().map(move |other| (one, other)))
            .filter(|(one, other)| layout.apart(one, other).is_none());
        Some((series, pairs.find(is_close)?))
    })?;
    let what = if series.is_column { &table.columns[series.index].text } else { &series.what };
    Some(format!(
        "{what} has {} and {}, {:.1}% apart. Rounding alone can change their ratio by up to {:.1}%.",
        digits(one.figure.value),
        digits(other.figure.value),
        (one.amount / other.amount - 1.0).abs() * 100.0,
        (one.figure.rounding() + other.figure.rounding()) * 100.0
    ))
}

/// qperf's latency is half of a mean round trip.
fn half_round_trips(table: &Table) -> Option<String> {
    let is_qperf =
        table.caption.contains("qperf") && table.columns.iter().any(|column| column.text.contains("_lat"));
    is_qperf.then(|| {
        "qperf reports half of the mean round trip as latency. It assumes that both directions take equally long, and it has no \
         percentiles, so the mean hides rare long waits."
            .to_owned()
    })
}

/// Pages per second times seconds cannot exceed the guest's memory, unless the guest writes to it.
fn pages(table: &Table, memory: Option<f64>) -> Option<String> {
    let (pages, time) = (table.column(&["pages", "per"])?, table.column(&["total", "time"])?);
    let memory = memory?;
    let moved = |row: usize| Some(table.value(row, pages)? * PAGE * seconds(table, row, time)?);
    let off: Vec<String> = (0..table.rows.len())
        .filter_map(|row| {
            let bytes = moved(row)?;
            (bytes > memory * (1.0 + CLOSES))
                .then(|| format!("{} {} GB", table.rows[row].name, digits(bytes / 1e9)))
        })
        .collect();
    (!off.is_empty()).then(|| {
        format!(
            "Pages per second times the total time is more memory than the guest has, {} GB: {}. So the rate does not hold for \
             the whole migration, and its ratio between rows is not a speed-up.",
            digits(memory / 1e9),
            list(&off)
        )
    })
}

/// A time in a cell, in seconds; `None` without a unit.
fn seconds(table: &Table, row: usize, column: usize) -> Option<f64> {
    let heading = table.columns[column].unit.as_ref();
    let figure = table.rows.get(row)?.figure(column)?;
    (figure.dimension(heading) == Some(&Dimension::Time)).then(|| figure.amount(heading))
}

/// The guest's memory, as in `64G memory`, in bytes.
pub(crate) fn guest_memory(text: &str) -> Option<f64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).find_map(|pair| {
        let gib: f64 = pair[0].strip_suffix('G')?.parse().ok()?;
        pair[1].starts_with("memory").then_some(gib * f64::from(1 << 30))
    })
}

/// The cap in a table's caption, in bits per second: `max-bandwidth: 1.25 GBps`.
fn cap(table: &Table) -> Option<f64> {
    let (_, rest) = table.caption.rsplit_once("max-bandwidth:")?;
    let gigabytes: f64 = rest.split_whitespace().next()?.parse().ok()?;
    rest.contains("GBps").then_some(gigabytes * 8e9)
}

/// No rate is above its cap.
fn above_the_cap(table: &Table) -> Option<String> {
    let (column, cap) = (table.column(&["throughput", "mbps"])?, cap(table)?);
    let above: Vec<String> = (0..table.rows.len())
        .filter_map(|row| {
            let rate = table.value(row, column)? * 1e6;
            (rate > cap * 1.01)
                .then(|| format!("{} {:+.1}%", table.rows[row].name, (rate / cap - 1.0) * 100.0))
        })
        .collect();
    (!above.is_empty()).then(|| {
        format!(
            "The cap is {} Mbit/s, and the throughput is above it: {}. Either the cap is in units of 2^30 bytes, or the throughput counts \
             bytes that the cap does not. They cannot be compared as they stand.",
            digits(cap / 1e6),
            list(&above)
        )
    })
}

/// A CPU percentage is a cost only when multiplied by time.
fn cpu_of_different_lengths(table: &Table) -> Option<String> {
    let time = table.column(&["total", "time"])?;
    let cpus: Vec<usize> = (0..table.columns.len())
        .filter(|at| table.columns[*at].text.to_lowercase().contains("cpu"))
        .collect();
    let seconds = |row: usize| seconds(table, row, time);
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
    Some(format!(
        "The rows take {} to {} s, so their CPU percentages are not their costs. The CPU time of both sides for the whole job is {}.",
        digits(shortest),
        digits(longest),
        list(&costs)
    ))
}

/// A higher cap cannot make the same job slower.
fn slower_with_more(tables: &[Understood<'_>]) -> Option<Finding> {
    tables
        .iter()
        .enumerate()
        .find_map(|(at, one)| tables[at + 1..].iter().find_map(|other| slower_than(one.table, other.table)))
}

/// A job that took longer in a later table with a higher cap.
fn slower_than(one: &Table, other: &Table) -> Option<Finding> {
    let ((low, high), time) = (cap(one).zip(cap(other))?, one.column(&["total", "time"])?);
    if one.corner != other.corner || one.columns != other.columns || low >= high {
        return None;
    }
    one.rows.iter().enumerate().find_map(|(row, Row { name, .. })| {
        let there = other.rows.iter().position(|other| other.name == *name)?;
        let (before, after) = (seconds(one, row, time)?, seconds(other, there, time)?);
        (after > 1.02 * before).then(|| Finding {
            line: other.line,
            rule: Rule::SlowerWithMore,
            why: format!(
                "With {} and {name}, {} takes {} s under a cap of {} Mbit/s and {} s under one of {}: more bandwidth cannot make it \
                 slower, so runs differ by at least {:.0}%.",
                one.corner,
                one.columns[time].text,
                digits(before),
                digits(low / 1e6),
                digits(after),
                digits(high / 1e6),
                (after / before - 1.0) * 100.0
            ),
        })
    })
}
