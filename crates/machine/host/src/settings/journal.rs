//! The journal of what was changed on this machine: old values on disk before the first new one is written.
//!
//! JSON lines: who writes it, then an entry for every setting, then a mark that a change is meant to stay (that of
//! `plumb tune apply`). A journal without that mark whose writer is gone is what a kill left behind. Its last line may
//! be cut off, as an entry is only acted on once it is on disk.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Setting;
use super::state::{remove_durably, sync_directory_of};
use crate::Error;
use crate::procfs::Stat;

/// The form of the journal that this program writes.
const FORMAT: &str = "plumbline.tunings/1";

/// One setting that is about to be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The tuning that changes it.
    pub tuning: String,
    /// The setting that is changed.
    pub setting: Setting,
    /// The value before the change.
    pub old: String,
    /// The new value.
    pub new: String,
}

/// The process that writes a journal, and when and where its values hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Writer {
    format: String,
    /// The process.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub started_ticks: u64,
    /// The kernel's name for the time since the last boot: settings do not outlive it.
    pub boot: String,
    /// The network namespace, whose settings can be reached from no other.
    pub network_namespace: String,
}

impl Writer {
    /// This process.
    #[must_use]
    pub fn this() -> Self {
        let pid = std::process::id();
        let namespace = fs::read_link("/proc/self/ns/net").unwrap_or_default();
        Self {
            format: FORMAT.to_owned(),
            pid,
            started_ticks: Stat::of_process(pid).map_or(0, |stat| stat.started_ticks),
            boot: crate::time::boot_id().unwrap_or_default(),
            network_namespace: namespace.to_string_lossy().into_owned(),
        }
    }

    /// Whether what it wrote may still be so: settings do not outlive a boot. A boot whose name could not be read may be
    /// this one.
    #[must_use]
    pub fn is_of_this_boot(&self) -> bool {
        let this = Self::this().boot;
        self.boot == this || self.boot.is_empty() || this.is_empty()
    }

    /// Whether it was in the network namespace of this process.
    #[must_use]
    pub fn is_of_this_network_namespace(&self) -> bool {
        self.network_namespace == Self::this().network_namespace
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Writer(Writer),
    Entry(Entry),
    /// All entries before it are meant to stay.
    Stays,
}

/// The contents of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The process that wrote it first.
    pub writer: Writer,
    /// Changes that are meant to stay until somebody asks for their end, in the order in which they were made.
    pub staying: Vec<Entry>,
    /// Changes after those, which nobody finished.
    pub unfinished: Vec<Entry>,
}

/// A journal that is being written.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    /// The entries since it was opened.
    entries: Vec<Entry>,
}

impl Journal {
    /// A new journal, which must not exist yet.
    ///
    /// # Errors
    /// When it exists or cannot be written.
    pub fn create(path: &Path) -> Result<Self, Error> {
        Self::begin(path, Writer::this())
    }

    fn begin(path: &Path, writer: Writer) -> Result<Self, Error> {
        let open = || OpenOptions::new().append(true).create_new(true).mode(0o600).open(path);
        let file = open().map_err(|cause| failure(path, cause))?;
        let mut journal = Self { path: path.to_owned(), file, entries: Vec::new() };
        journal.write(&[Line::Writer(writer)])?;
        sync_directory_of(path).map_err(|cause| failure(path, cause))?;
        Ok(journal)
    }

    /// A journal that is there, to add to.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new().append(true).open(path).map_err(|cause| failure(path, cause))?;
        Ok(Self { path: path.to_owned(), file, entries: Vec::new() })
    }

    /// Has entries on disk; only then may what they say be done.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn note(&mut self, entries: &[Entry]) -> Result<(), Error> {
        // Also what may have reached the disk in part may have to be put back.
        self.entries.extend_from_slice(entries);
        let lines: Vec<Line> = entries.iter().cloned().map(Line::Entry).collect();
        self.write(&lines)
    }

    /// The entries since the journal was opened, in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Has it say only this: what else it said is put back.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn retain(&mut self, entries: &[Entry]) -> Result<(), Error> {
        let unfinished = entries.to_vec();
        replace(&self.path, &Record { writer: Writer::this(), staying: Vec::new(), unfinished })?;
        *self = Self { entries: entries.to_vec(), ..Self::append(&self.path)? };
        Ok(())
    }

    /// Marks all that was done as meant to stay.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn stay(&mut self) -> Result<(), Error> {
        self.write(&[Line::Stays])
    }

    /// Removes the journal: all that it says is put back.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn remove(&self) -> Result<(), Error> {
        remove(&self.path)
    }

    fn write(&mut self, lines: &[Line]) -> Result<(), Error> {
        let failed = |cause| failure(&self.path, cause);
        let mut text = String::new();
        for line in lines {
            text += &serde_json::to_string(line).map_err(|error| failed(error.into()))?;
            text.push('\n');
        }
        self.file.write_all(text.as_bytes()).map_err(failed)?;
        self.file.sync_data().map_err(failed)
    }
}

/// The contents of the journal at `path`; `None` where there is none.
///
/// # Errors
/// When it cannot be read, or is not a journal of this form.
pub fn read_record(path: &Path) -> Result<Option<Record>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text).map_err(|cause| Error::Read { path: path.to_owned(), cause }),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(Error::Read { path: path.to_owned(), cause }),
    }
}

/// Has the journal at `path` say this and nothing else; removes it where nothing is left.
///
/// # Errors
/// When the disk refuses.
pub fn replace(path: &Path, record: &Record) -> Result<(), Error> {
    if record.staying.is_empty() && record.unfinished.is_empty() {
        return remove(path);
    }
    let beside = path.with_extension("new");
    remove(&beside)?;
    let mut journal = Journal::begin(&beside, record.writer.clone())?;
    if !record.staying.is_empty() {
        journal.note(&record.staying)?;
        journal.stay()?;
    }
    journal.note(&record.unfinished)?;
    fs::rename(&beside, path).and_then(|()| sync_directory_of(path)).map_err(|cause| failure(path, cause))
}

fn remove(path: &Path) -> Result<(), Error> {
    remove_durably(path).map_err(|cause| failure(path, cause))
}

/// A journal whose first line is not whole was not acted on, and says nothing.
fn parse(text: &str) -> io::Result<Option<Record>> {
    let bad = |line: usize, why: &str| {
        io::Error::new(io::ErrorKind::InvalidData, format!("line {line} does not belong in a journal: {why}"))
    };
    let mut record: Option<Record> = None;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    for (number, line) in (1..).zip(whole.lines()) {
        let line = serde_json::from_str(line).map_err(|error| bad(number, &error.to_string()))?;
        match (line, &mut record) {
            (Line::Writer(writer), None) if writer.format == FORMAT => {
                record = Some(Record { writer, staying: Vec::new(), unfinished: Vec::new() });
            }
            (Line::Entry(entry), Some(_)) if !entry.setting.is_changeable() => {
                return Err(bad(number, "no tuning changes what it names"));
            }
            (Line::Entry(entry), Some(record)) => record.unfinished.push(entry),
            (Line::Stays, Some(record)) => record.staying.append(&mut record.unfinished),
            _ => return Err(bad(number, "it is out of order")),
        }
    }
    Ok(record)
}

fn failure(path: &Path, cause: io::Error) -> Error {
    Error::Write { path: path.to_owned(), cause }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(key: &str, old: &str, new: &str) -> Entry {
        let (old, new) = (old.to_owned(), new.to_owned());
        Entry { tuning: "test".to_owned(), setting: Setting::sysctl(key), old, new }
    }

    #[test]
    fn what_was_noted_is_read_back_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.jsonl");
        assert_eq!(read_record(&path).unwrap(), None);
        let [a, b, c] =
            ["vm.swappiness", "vm.dirty_bytes", "net.ipv4.tcp_rmem"].map(|key| entry(key, "1", "2"));
        let mut journal = Journal::create(&path).unwrap();
        journal.note(&[a.clone(), b.clone()]).unwrap();
        journal.stay().unwrap();
        drop(journal);
        Journal::append(&path).unwrap().note(std::slice::from_ref(&c)).unwrap();
        let record = read_record(&path).unwrap().unwrap();
        assert_eq!(record.writer, Writer::this());
        assert_eq!((&record.staying, &record.unfinished), (&vec![a.clone(), b.clone()], &vec![c]));
        assert!(Journal::create(&path).is_err());
        replace(&path, &Record { unfinished: Vec::new(), ..record.clone() }).unwrap();
        assert_eq!(read_record(&path).unwrap().unwrap().staying, [a, b]);
        replace(&path, &Record { staying: Vec::new(), unfinished: Vec::new(), ..record }).unwrap();
        assert!(fs::read_dir(directory.path()).unwrap().next().is_none());
    }

    #[test]
    fn a_line_that_was_cut_off_was_not_acted_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.jsonl");
        let a = entry("vm.swappiness", "60", "1");
        Journal::create(&path).unwrap().note(&[a.clone(), entry("kernel.numa_balancing", "1", "0")]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for cut in 0..text.len() {
            fs::write(&path, &text[..cut]).unwrap();
            let unfinished = read_record(&path).unwrap().map(|record| record.unfinished.len());
            let lines = text[..cut].matches('\n').count();
            assert_eq!(unfinished, lines.checked_sub(1), "{cut}");
        }
    }

    #[test]
    fn what_is_not_a_journal_is_refused_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.jsonl");
        fs::write(&path, "hello\n").unwrap();
        let message = read_record(&path).unwrap_err().to_string();
        assert!(message.contains("run.jsonl: line 1 does not belong in a journal"), "{message}");
        let mut foreign = entry("vm.swappiness", "1", "2");
        foreign.setting = Setting::File("/etc/passwd".to_owned());
        fs::remove_file(&path).unwrap();
        Journal::create(&path).unwrap().note(&[foreign]).unwrap();
        assert!(read_record(&path).unwrap_err().to_string().contains("line 2"));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".*\n.*") {
            let _ = parse(&text);
        }
    }
}
