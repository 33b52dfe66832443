//! QEMU: `info migrate` of the monitor in both of its forms, and the JSON of `query-migrate`.
//!
//! Sources: QEMU's `migration/migration-hmp-cmds.c` and `qapi/migration.json`. mbps is 10^6 bit/s, kbytes are 1,024 B, and sizes of
//! 10.1 and later are rounded for people.

use plumb_model::Metric;
use serde_json::Value;

use crate::door::{Part, parts};
use crate::figure::{Unreadable, printed};
use crate::json::{count as json_count, documents, objects, positive as json_positive, text as json_text};
use crate::metrics::{
    CONVERGED, DOWNTIME, PAGES_PER_SECOND, ROUNDS, SETUP_TIME, THROUGHPUT, TOTAL_TIME, WIRE_BYTES,
};
use crate::text::{after, positive, scaled};
use crate::tool_run::{NoReading, ToolRun};

/// The facts of a migration, in QEMU's units.
#[derive(Default)]
struct Migration {
    status: String,
    total_ms: Option<f64>,
    down_ms: Option<f64>,
    setup_ms: Option<f64>,
    mbps: Option<f64>,
    pages_per_s: Option<f64>,
    transferred_bytes: Option<f64>,
    multifd_bytes: Option<f64>,
    rounds: Option<f64>,
    /// Why it failed, in QEMU's words.
    error: Option<String>,
    /// Whether sizes are rounded.
    rounded: bool,
    /// Whether a count of what is left went below zero.
    underflown: bool,
}

/// The states in which a migration ends early: QEMU then prints neither its times nor the memory.
const ENDS: [&str; 2] = ["failed", "cancelled"];

fn of_json(value: &Value) -> Option<&Value> {
    let answer = value.get("return");
    [answer, Some(value)].into_iter().flatten().find(|it| {
        let is_running = it.get("total-time").is_some() && it.get("ram").is_some();
        let is_end = json_text(it, "/status").is_some_and(|status| ENDS.contains(&status));
        is_running || is_end && (answer.is_some() || it.get("error-desc").is_some())
    })
}

pub(crate) fn is(text: &str) -> bool {
    let is_ended = ENDS.iter().any(|end| text.contains(&format!("Migration status: {end}")));
    let is_old = text.contains("Migration status:") && text.contains("total time:") || is_ended;
    let is_new = text.contains("Time (ms):") && text.contains("RAM info:");
    is_old || is_new || documents(text).found.iter().any(|value| of_json(value).is_some())
}

/// Whether a completed migration has its downtime.
pub(crate) fn is_whole(text: &str) -> bool {
    !text.contains("status: completed") || text.contains("downtime:")
}

/// Successive polls of one migration are one run; the last poll covers all of it.
pub(crate) fn read_runs<'t>(text: &'t str) -> Result<Vec<ToolRun>, Unreadable<'t>> {
    let found = objects(text)?;
    let polls: Vec<(usize, Migration)> = if found.iter().any(|value| of_json(value).is_some()) {
        found.iter().filter_map(of_json).map(|value| (1, json(value))).collect()
    } else {
        let of_part = |part: Part<'t>| Ok((part.run_line, of_text(part.text)?));
        parts(text, key).into_iter().map(of_part).collect::<Result<_, Unreadable<'t>>>()?
    };
    let mut migrations: Vec<(usize, Migration)> = Vec::new();
    for (line, poll) in polls.into_iter().filter(|(_, poll)| !poll.status.is_empty()) {
        match migrations.last_mut().filter(|(_, known)| known.goes_on_as(&poll)) {
            Some((_, known)) => *known = poll,
            None => migrations.push((line, poll)),
        }
    }
    let read = |(line, migration): &(usize, Migration)| {
        let mut run = run(migration)?;
        run.line = *line;
        Ok(run)
    };
    if migrations.is_empty() {
        Err("it has no status of a migration".into())
    } else {
        migrations.iter().map(read).collect()
    }
}

/// The key of a line that a poll prints once.
fn key(line: &str) -> Option<&str> {
    let labels = ["Migration status:", "Status:", "total time:", "Time (ms):"];
    labels.into_iter().find(|label| line.starts_with(label))
}

fn of_text(text: &str) -> Result<Migration, Unreadable<'_>> {
    if text.contains("Time (ms):") { new_text(text) } else { old_text(text) }
}

impl Migration {
    /// Whether a later poll is of the same migration.
    fn goes_on_as(&self, later: &Self) -> bool {
        let has_ended = ENDS.iter().chain(&["completed"]).any(|end| self.status.starts_with(end));
        let is_later = self.total_ms.unwrap_or_default() <= later.total_ms.unwrap_or(f64::INFINITY);
        is_later && (!has_ended || self.status == later.status && self.total_ms == later.total_ms)
    }
}

fn json(value: &Value) -> Migration {
    let remaining = value.pointer("/ram/remaining").and_then(Value::as_f64).unwrap_or_default();
    Migration {
        status: json_text(value, "/status").unwrap_or("unknown").to_owned(),
        error: json_text(value, "/error-desc").map(str::to_owned),
        total_ms: json_positive(value, "/total-time"),
        down_ms: json_positive(value, "/downtime"),
        setup_ms: json_positive(value, "/setup-time"),
        mbps: json_positive(value, "/ram/mbps"),
        pages_per_s: json_positive(value, "/ram/pages-per-second"),
        transferred_bytes: json_positive(value, "/ram/transferred"),
        multifd_bytes: json_positive(value, "/ram/multifd-bytes"),
        rounds: json_count(value, "/ram/dirty-sync-count").map(|count| count as f64),
        rounded: false,
        underflown: remaining >= 9.2e18,
    }
}

fn old_text(text: &str) -> Result<Migration, Unreadable<'_>> {
    let of = |label: &str| printed(after(text, label), positive);
    let kib = |label: &str| Ok::<_, Unreadable<'_>>(of(label)?.map(|kib| kib * 1024.0));
    Ok(Migration {
        status: status(after(text, "Migration status:")),
        error: error(text, "Migration status:"),
        total_ms: of("total time:")?,
        down_ms: of("downtime:")?,
        setup_ms: of("setup:")?,
        mbps: of("throughput:")?,
        pages_per_s: of("pages-per-second:")?,
        transferred_bytes: kib("transferred ram:")?,
        multifd_bytes: kib("multifd bytes:")?,
        rounds: of("dirty sync count:")?,
        rounded: false,
        underflown: of("remaining ram:")?.is_some_and(|kib| kib >= 1e15),
    })
}

/// `failed (Unable to write to socket)` is a status with its reason.
fn status(said: Option<&str>) -> String {
    let word = said.map(|said| said.split(" (").next().unwrap_or(said).trim());
    word.unwrap_or_default().to_owned()
}

fn error(text: &str, label: &str) -> Option<String> {
    let own = after(text, label).and_then(|said| said.split_once(" (")?.1.strip_suffix(')'));
    own.or_else(|| after(text, "Error:")).or_else(|| after(text, "error description:")).map(str::to_owned)
}

/// `Time (ms): total=1234, setup=3, down=12`, and sizes such as `1.2 GiB`.
fn new_text(text: &str) -> Result<Migration, Unreadable<'_>> {
    let item = |label: &str, name: &str| {
        let line = after(text, label)?;
        line.split(", ").find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('='))
    };
    let number = |label: &str, name: &str| printed(item(label, name), positive);
    let size = |label: &str, name: &str| printed(item(label, name), |size| scaled(size, "B", 1024.0));
    Ok(Migration {
        status: status(after(text, "Status:")),
        error: error(text, "Status:"),
        total_ms: number("Time (ms):", "total")?,
        down_ms: number("Time (ms):", "down")?,
        setup_ms: number("Time (ms):", "setup")?,
        mbps: printed(after(text, "Throughput (Mbps):"), positive)?,
        pages_per_s: number("Page Rates (pps):", "transfer")?,
        transferred_bytes: size("Transfers:", "transferred")?,
        multifd_bytes: size("Channels:", "multifd")?,
        rounds: number("Others:", "dirty_syncs")?,
        rounded: true,
        underflown: false,
    })
}

fn run(migration: &Migration) -> Result<ToolRun, Unreadable<'static>> {
    let has_begun = migration.total_ms.is_none_or(|ms| ms > 0.0);
    let failure = match migration.status.as_str() {
        "failed" => {
            let reason = migration.error.as_deref().unwrap_or("QEMU does not say why");
            Some(format!("the migration failed: {reason}"))
        }
        "cancelled" => Some("the migration was cancelled".to_owned()),
        status => (!has_begun).then(|| format!("the migration had not begun: its status is `{status}`")),
    };
    if let Some(failure) = failure {
        return Ok(ToolRun::without("QEMU", "migration", NoReading::Failed(failure)));
    }
    let mut run = ToolRun::new("QEMU", "migration", "migrations");
    let total_ms = migration.total_ms.ok_or("it has no total time")?;
    run.worked(Some(total_ms / 1e3), Some(1));
    let is_completed = migration.status.starts_with("completed");
    run.share(&CONVERGED, u64::from(is_completed), 1);
    run.measurement.attempts.tried = 1;
    if !is_completed {
        run.measurement.attempts.failed = 1;
        run.error(&format!("status {}", migration.status), 1);
        run.warn("the migration had not completed, so its times are those so far");
    }
    let gauges: [(&Metric, Option<f64>); 5] = [
        (&TOTAL_TIME, Some(total_ms)),
        (&DOWNTIME, migration.down_ms),
        (&SETUP_TIME, migration.setup_ms),
        (&WIRE_BYTES, migration.transferred_bytes),
        (&ROUNDS, migration.rounds),
    ];
    gauges.into_iter().for_each(|(metric, value)| run.gauge(metric, value));
    run.rate(&THROUGHPUT, migration.mbps.map(|mbps| mbps * 125_000.0), None);
    run.rate(&PAGES_PER_SECOND, migration.pages_per_s, None);
    if migration.multifd_bytes.is_some_and(|bytes| bytes > 0.0) {
        run.warn(
            "up to 7.2, QEMU counts the pages that multifd sends and not the bytes on the wire: with compression, transferred and \
             throughput are then too high",
        );
    }
    if migration.rounded {
        run.warn("this form of `info migrate` rounds sizes for people; `query-migrate` has all digits");
    }
    if migration.underflown {
        run.warn("QEMU's count of what remains went below zero, and is left out");
    }
    Ok(run)
}
