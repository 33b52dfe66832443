//! The log of a run: one JSON object per line, of every process of the run.
//!
//! It is an aid and not a result. It is therefore neither synced nor read by reports, and a full disk costs lines,
//! which are counted, but not the run. Of each process the newest lines are kept, up to a bound.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};

use plumb_model::{LOG_BYTES_MAX, LogLevel, LogLine};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::folder::{Folder, PRIVATE};

pub(crate) const LOG: &str = "log.jsonl";
/// A file above this is not continued: no run writes it.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// The target of the line that counts dropped ones.
const TARGET: &str = "plumb_store::run_log";
/// The field of that line with the count.
const COUNT: &str = "dropped";

/// The log of a run, open for writing.
#[derive(Debug)]
pub struct RunLog {
    folder: Folder,
    file: File,
    /// The length of the file's whole lines.
    whole_bytes: u64,
    by_process: BTreeMap<String, Written>,
}

/// The lines of a process.
#[derive(Debug, Default)]
struct Written {
    bytes: usize,
    /// Lines that are missing from the file and not yet counted in it.
    dropped: u64,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct LogRecord {
    process: String,
    #[serde(flatten)]
    line: LogLine,
}

impl RunLog {
    /// Opens the log in a run directory, behind the whole lines that it has.
    pub(crate) fn open(folder: Folder) -> Result<Self, StoreError> {
        let mut file = Self::file(&folder)?;
        let mut bytes = Vec::new();
        let all = (&mut file).take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
        all.map_err(StoreError::io("read", &folder.path().join(LOG)))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            bytes.clear();
        }
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let mut log = Self { folder, file, whole_bytes: whole as u64, by_process: BTreeMap::new() };
        for (record, line) in records(&bytes[..whole]) {
            log.by_process.entry(record.process).or_default().bytes += line.len();
        }
        // Without space, the unfinished line stays, and the next one ends it.
        let _ = log.file.set_len(log.whole_bytes);
        Ok(log)
    }

    fn file(folder: &Folder) -> Result<File, StoreError> {
        folder.file(LOG, OFlags::RDWR | OFlags::APPEND | OFlags::CREATE)
    }

    /// Writes a line. A line that cannot be written is counted, and the count is written before the next one.
    pub fn add(&mut self, process: &str, line: &LogLine) {
        let written = self.by_process.entry(process.to_owned()).or_default();
        let mut text = match written.dropped {
            0 => Vec::new(),
            count => json_line(process, &dropped(count, line)),
        };
        text.extend(json_line(process, line));
        let is_room = written.bytes + text.len() <= LOG_BYTES_MAX;
        if (is_room || self.make_room(process)) && self.append(&text) {
            let written = self.by_process.entry(process.to_owned()).or_default();
            written.bytes += text.len();
            written.dropped = 0;
        } else {
            self.by_process.entry(process.to_owned()).or_default().dropped += 1;
        }
    }

    /// Appends whole lines. Takes a part of them away again if the disk is full.
    fn append(&mut self, text: &[u8]) -> bool {
        let is_written = self.file.write_all(text).is_ok();
        if is_written {
            self.whole_bytes += text.len() as u64;
        } else {
            // The next whole line would otherwise follow a part of this one.
            let _ = self.file.set_len(self.whole_bytes);
        }
        is_written
    }

    /// Rewrites the file without the older half of a process's lines, and with their count in their place.
    fn make_room(&mut self, process: &str) -> bool {
        let Ok(Some(bytes)) = self.folder.read_file(LOG, FILE_BYTES_MAX) else { return false };
        let all = self.by_process.get(process).map_or(0, |written| written.bytes);
        let mut kept = Vec::new();
        let (mut gone_bytes, mut gone, mut last_gone) = (0, 0, None);
        let mut place = 0;
        for (record, line) in records(&bytes) {
            if record.process != process || all - gone_bytes <= LOG_BYTES_MAX / 2 {
                kept.extend_from_slice(line);
                continue;
            }
            if gone == 0 {
                place = kept.len();
            }
            gone_bytes = all.min(gone_bytes + line.len());
            gone += record.count();
            last_gone = Some(record.line);
        }
        let note = last_gone.map(|last| json_line(process, &dropped(gone, &last))).unwrap_or_default();
        let note_bytes = note.len();
        kept.splice(place..place, note);
        let renewed = self.folder.write_unsynced(LOG, &kept, PRIVATE).and_then(|()| Self::file(&self.folder));
        let Ok(file) = renewed else { return false };
        (self.file, self.whole_bytes) = (file, kept.len() as u64);
        self.by_process.entry(process.to_owned()).or_default().bytes = all - gone_bytes + note_bytes;
        true
    }
}

impl LogRecord {
    /// How many lines it stands for.
    fn count(&self) -> u64 {
        let count = self.line.fields.get(COUNT).filter(|_| self.line.target == TARGET);
        count.and_then(|count| count.parse().ok()).unwrap_or(1)
    }
}

/// The line in place of dropped ones, with the moment of one beside them.
fn dropped(count: u64, beside: &LogLine) -> LogLine {
    LogLine {
        time: beside.time.clone(),
        at_ns: beside.at_ns,
        level: LogLevel::Warn,
        target: TARGET.to_owned(),
        message: format!("{count} lines dropped"),
        fields: [(COUNT.to_owned(), count.to_string())].into(),
    }
}

fn json_line(process: &str, line: &LogLine) -> Vec<u8> {
    let record = LogRecord { process: process.to_owned(), line: line.clone() };
    // Its fields are texts and numbers, which always have a form in JSON.
    let mut bytes = serde_json::to_vec(&record).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The records in a text with their lines. Whatever is no record is left out.
fn records(bytes: &[u8]) -> impl Iterator<Item = (LogRecord, &[u8])> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    lines.filter_map(|line| Some((serde_json::from_slice(line).ok()?, line)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn line(message: &str) -> LogLine {
        LogLine {
            time: "2026-03-01T12:00:00.250Z".to_owned(),
            at_ns: Some(5),
            level: LogLevel::Info,
            target: "plumb_x".to_owned(),
            message: message.to_owned(),
            fields: [("pid".to_owned(), "7".to_owned())].into(),
        }
    }

    fn open(path: &Path) -> RunLog {
        RunLog::open(Folder::open_to_write(path).unwrap()).unwrap()
    }

    fn messages(path: &Path, process: &str) -> Vec<String> {
        let bytes = fs::read(path.join(LOG)).unwrap();
        let all = bytes.split_inclusive(|byte| *byte == b'\n').count();
        let read: Vec<_> = records(&bytes).map(|(record, _)| record).collect();
        assert_eq!(read.len(), all, "every line is a record");
        read.into_iter().filter(|it| it.process == process).map(|it| it.line.message).collect()
    }

    #[test]
    fn a_line_is_a_json_object_with_its_process() {
        let temporary = tempfile::tempdir().unwrap();
        open(temporary.path()).add("system-a", &line("started"));
        assert_eq!(
            fs::read_to_string(temporary.path().join(LOG)).unwrap(),
            "{\"process\":\"system-a\",\"time\":\"2026-03-01T12:00:00.250Z\",\"at_ns\":5,\"level\":\"info\",\
             \"target\":\"plumb_x\",\"message\":\"started\",\"fields\":{\"pid\":\"7\"}}\n"
        );
    }

    #[test]
    fn a_continued_log_keeps_its_whole_lines() {
        let temporary = tempfile::tempdir().unwrap();
        open(temporary.path()).add("runner", &line("before"));
        let path = temporary.path().join(LOG);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{text}{{\"process\":\"run")).unwrap();
        open(temporary.path()).add("runner", &line("after"));
        assert_eq!(messages(temporary.path(), "runner"), ["before", "after"]);
    }

    #[test]
    fn the_oldest_lines_of_a_process_are_dropped_and_counted() {
        let temporary = tempfile::tempdir().unwrap();
        let mut log = open(temporary.path());
        log.add("quiet", &line("still there"));
        let long = "x".repeat(4000);
        let write = |log: &mut RunLog, numbers: std::ops::Range<u64>| {
            numbers.for_each(|number| log.add("talkative", &line(&format!("{number} {long}"))));
        };
        write(&mut log, 0..400);
        // The bound counts what is there already.
        drop(log);
        write(&mut open(temporary.path()), 400..1000);
        let bytes = fs::metadata(temporary.path().join(LOG)).unwrap().len();
        assert!(bytes <= LOG_BYTES_MAX as u64 + 1000, "{bytes} bytes");
        assert_eq!(messages(temporary.path(), "quiet"), ["still there"]);
        let kept = messages(temporary.path(), "talkative");
        let (counts, texts): (Vec<&String>, Vec<&String>) =
            kept.iter().partition(|text| text.ends_with("dropped"));
        assert_eq!(counts, [&format!("{} lines dropped", 1000 - texts.len())]);
        assert!(kept[0].ends_with("dropped") && texts.last().unwrap().starts_with("999 "));
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_once_there_is_room_again() {
        let temporary = tempfile::tempdir().unwrap();
        let mut log = open(temporary.path());
        log.add("load", &line("first"));
        let real =
            std::mem::replace(&mut log.file, fs::File::options().write(true).open("/dev/full").unwrap());
        for _ in 0..3 {
            log.add("load", &line("lost"));
        }
        log.file = real;
        log.add("load", &line("last"));
        assert_eq!(messages(temporary.path(), "load"), ["first", "3 lines dropped", "last"]);
    }

    #[test]
    fn a_link_is_not_followed() {
        let temporary = tempfile::tempdir().unwrap();
        let victim = temporary.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, temporary.path().join(LOG)).unwrap();
        let error = RunLog::open(Folder::open_to_write(temporary.path()).unwrap()).unwrap_err();
        assert!(matches!(error, StoreError::Link { .. }), "{error}");
        assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
    }
}
