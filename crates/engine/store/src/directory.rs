//! Writing and reading a run directory.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use plumb_model::{Ending, Header, Plan, Run, Slot};
use rustix::fs::OFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bounds::{self, OutOfBounds};
use crate::error::StoreError;
use crate::folder::{COMMON, Folder, PRIVATE};
use crate::now::{NOW_FORMAT, Now, NowRecord};
use crate::record::{EndRecord, FORMAT, HeaderRecord, SlotRecord};
use crate::run_log::RunLog;

pub(crate) const RUN: &str = "run.json";
const EXPERIMENT: &str = "experiment.yaml";
pub(crate) const SLOTS: &str = "slots.jsonl";
pub(crate) const END: &str = "end.json";
pub(crate) const NOW: &str = "now.json";
pub(crate) const LOCK: &str = "lock";

/// A run directory that is being written.
#[derive(Debug)]
pub struct RunDirectory {
    folder: Folder,
    plan: Plan,
    slots: File,
    /// How many slots the file has.
    written: usize,
    /// How many bytes of the slots file are whole lines. `None` in a new run, and once an unfinished line is
    /// cut.
    whole_bytes: Option<u64>,
    /// Kept open to hold the lock.
    _lock: File,
}

impl RunDirectory {
    /// Creates a run directory, or takes an existing one that holds no run.
    ///
    /// # Errors
    /// When it holds a run already, another process writes to it, or it cannot be written. Then nothing is left of the attempt.
    pub fn create(path: &Path, header: &Header, experiment_text: &str) -> Result<Self, StoreError> {
        let experiment_bytes = experiment_text.len() as u64;
        bounds::check_plan(&header.plan)
            .and_then(|()| bounds::check_bytes(experiment_bytes, bounds::EXPERIMENT_BYTES_MAX))
            .map_err(unreadable(path))?;
        let is_new = !path.exists();
        let folder = Folder::make(path)?;
        let made: Vec<&str> =
            [EXPERIMENT, SLOTS, RUN, LOCK].into_iter().filter(|name| !folder.has(name)).collect();
        let lock = lock(&folder)?;
        if folder.has(RUN) {
            return Err(StoreError::Exists { path: path.to_owned() });
        }
        let begin = || {
            folder.write_whole(EXPERIMENT, experiment_text.as_bytes(), PRIVATE)?;
            write_header(&folder, header, experiment_text)?;
            slots_to_append(&folder)
        };
        let slots = begin().inspect_err(|_| {
            // The first error is the one to report.
            made.iter().for_each(|name| drop(folder.remove(name)));
            if is_new {
                let _ = std::fs::remove_dir(path);
            }
        })?;
        let plan = header.plan.clone();
        Ok(Self { folder, plan, slots, written: 0, whole_bytes: None, _lock: lock })
    }

    /// Opens the directory of a run that is to continue. Its recorded files stay unchanged until
    /// [`RunDirectory::go_on`].
    ///
    /// # Errors
    /// When it holds no run, another process writes to it, it cannot be read, or its experiment was edited.
    pub fn resume(path: &Path) -> Result<(Self, Run), StoreError> {
        let folder = Folder::open_to_write(path).map_err(|error| no_run(error, path))?;
        if !folder.has(RUN) {
            return Err(StoreError::NoRun { path: path.to_owned() });
        }
        let lock = lock(&folder)?;
        let (run, whole_bytes) = read_counting(&folder, bounds::SLOTS_BYTES_MAX)?;
        if is_edited(&folder, &run)? {
            return Err(StoreError::Edited { path: path.join(EXPERIMENT) });
        }
        let slots = slots_to_append(&folder)?;
        let (plan, written) = (run.header.plan.clone(), run.slots.len());
        Ok((Self { folder, plan, slots, written, whole_bytes: Some(whole_bytes), _lock: lock }, run))
    }

    /// Prepares the directory of a resumed run for more slots: cuts an unfinished last line, and removes the
    /// ending.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn go_on(&mut self) -> Result<(), StoreError> {
        if let Some(whole_bytes) = self.whole_bytes.take() {
            let path = self.folder.path().join(SLOTS);
            self.slots.set_len(whole_bytes).map_err(StoreError::io("cut the unfinished line of", &path))?;
        }
        self.folder.remove(NOW)?;
        self.folder.remove(END)
    }

    /// Replaces the plan by one that allows more blocks. A kill leaves the old plan or the new one; the slots
    /// fit both.
    ///
    /// # Errors
    /// When the plan exceeds a bound, or the file cannot be written.
    pub fn extend(&mut self, run: &Run) -> Result<(), StoreError> {
        bounds::check_plan(&run.header.plan).map_err(unreadable(self.folder.path()))?;
        write_header(&self.folder, &run.header, &run.experiment_text)?;
        self.plan = run.header.plan.clone();
        Ok(())
    }

    /// Writes one slot; it is on disk when this returns.
    ///
    /// # Errors
    /// When the disk is full or gone, or the slot exceeds the bounds of readers. Earlier slots stay readable.
    pub fn append(&mut self, slot: &Slot) -> Result<(), StoreError> {
        let path = self.folder.path().join(SLOTS);
        let mut line = serde_json::to_vec(&SlotRecord { slot: slot.clone() })
            .map_err(|error| StoreError::io("write", &path)(error.into()))?;
        line.push(b'\n');
        let all_bytes = self.slots.metadata().map_err(StoreError::io("see the size of", &path))?.len();
        bounds::check_slot(slot, &self.plan)
            .and_then(|()| bounds::check_bytes(line.len() as u64, bounds::LINE_BYTES_MAX))
            .and_then(|()| bounds::check_bytes(all_bytes + line.len() as u64, bounds::SLOTS_BYTES_MAX))
            .and_then(|()| bounds::at_most("slots", self.written + 1, bounds::SLOTS_MAX))
            .map_err(unreadable(&path))?;
        self.slots.write_all(&line).map_err(StoreError::io("write", &path))?;
        self.slots.sync_data().map_err(StoreError::io("sync", &path))?;
        self.written += 1;
        Ok(())
    }

    /// Records what the run is doing now. The file is not synced, because no result depends on it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn now(&self, now: &Now) -> Result<(), StoreError> {
        let path = self.folder.path().join(NOW);
        let record = NowRecord { format: NOW_FORMAT.to_owned(), now: now.clone() };
        let text =
            serde_json::to_vec(&record).map_err(|error| StoreError::io("write", &path)(error.into()))?;
        self.folder.write_unsynced(NOW, &text, PRIVATE)
    }

    /// Opens the log of the run.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn log(&self) -> Result<RunLog, StoreError> {
        RunLog::open(self.folder.again()?)
    }

    /// Writes how the run ended.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(&self, ending: Ending, took_s: f64) -> Result<(), StoreError> {
        let path = self.folder.path().join(END);
        bounds::check_number("took_s", took_s).map_err(unreadable(&path))?;
        self.folder.remove(NOW)?;
        write_json(&self.folder, END, &EndRecord { ending, took_s }, bounds::END_BYTES_MAX)
    }

    /// The path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Writes a report beside a run's files.
///
/// # Errors
/// When the report cannot be written, or its name belongs to something other than a regular file.
pub fn write_report(directory: &Path, name: &str, text: &str) -> Result<(), StoreError> {
    Folder::open_to_write(directory)?.write_whole(name, text.as_bytes(), COMMON)
}

/// Reads a run directory, finished or not. Its files may be damaged, or come from another user.
///
/// # Errors
/// When it holds no run, or a file in it is malformed or exceeds a bound.
pub fn read_run(path: &Path) -> Result<Run, StoreError> {
    let folder = Folder::open_to_read(path).map_err(|error| no_run(error, path))?;
    read_counting(&folder, bounds::SLOTS_BYTES_MAX).map(|(run, _)| run)
}

/// The experiment file in a run's directory if it is not the one that ran.
///
/// # Errors
/// When it cannot be read.
pub fn edited_experiment(run: &Run) -> Result<Option<PathBuf>, StoreError> {
    let path = Path::new(&run.directory);
    let is_edited = is_edited(&Folder::open_to_read(path)?, run)?;
    Ok(is_edited.then(|| path.join(EXPERIMENT)))
}

fn is_edited(folder: &Folder, run: &Run) -> Result<bool, StoreError> {
    let found = folder.read_file(EXPERIMENT, bounds::EXPERIMENT_BYTES_MAX)?;
    Ok(found.is_some_and(|bytes| bytes != run.experiment_text.as_bytes()))
}

/// Turns the error of a missing directory into [`StoreError::NoRun`].
pub(crate) fn no_run(error: StoreError, path: &Path) -> StoreError {
    match error {
        StoreError::Io { cause, .. } if cause.kind() == std::io::ErrorKind::NotFound => {
            StoreError::NoRun { path: path.to_owned() }
        }
        other => other,
    }
}

/// Takes the lock that a writer holds from before it first looks at the directory.
fn lock(folder: &Folder) -> Result<File, StoreError> {
    let lock = folder.file(LOCK, OFlags::RDWR | OFlags::CREATE)?;
    lock.try_lock().map_err(|error| match error {
        std::fs::TryLockError::WouldBlock => StoreError::Locked { path: folder.path().to_owned() },
        std::fs::TryLockError::Error(cause) => StoreError::io("lock", &folder.path().join(LOCK))(cause),
    })?;
    Ok(lock)
}

fn unreadable(path: &Path) -> impl FnOnce(OutOfBounds) -> StoreError {
    let path = path.to_owned();
    move |fault| StoreError::Unreadable { path, reason: fault.to_string() }
}

fn slots_to_append(folder: &Folder) -> Result<File, StoreError> {
    folder.file(SLOTS, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
}

/// Reads a run. Returns it with the number of bytes of its slots file that are whole lines.
pub(crate) fn read_counting(folder: &Folder, slots_bytes_max: u64) -> Result<(Run, u64), StoreError> {
    let path = folder.path();
    let Some(bytes) = folder.read_file(RUN, bounds::HEADER_BYTES_MAX)? else {
        return Err(StoreError::NoRun { path: path.to_owned() });
    };
    let format: FormatOnly = parse(folder, RUN, &bytes)?;
    if format.format != FORMAT {
        return Err(StoreError::Format { path: path.join(RUN), found: format.format, expected: FORMAT });
    }
    let record: HeaderRecord = parse(folder, RUN, &bytes)?;
    let malformed = |name: &str, line: usize| {
        let path = path.join(name);
        move |fault: OutOfBounds| StoreError::Malformed { path, line, reason: fault.to_string() }
    };
    bounds::check_plan(&record.header.plan).map_err(malformed(RUN, 1))?;
    let experiment_text = match record.experiment {
        Some(text) => text,
        // Older runs have no experiment text in the header.
        None => text_of(folder.read_file(EXPERIMENT, bounds::EXPERIMENT_BYTES_MAX)?),
    };
    let (slots, whole_bytes) = read_slots(folder, &record.header.plan, (0, 0), slots_bytes_max)?;
    let end = read_end(folder)?;
    let run = Run {
        directory: path.display().to_string(),
        header: record.header,
        experiment_text,
        slots,
        ending: end.as_ref().map(|end| end.ending),
        took_s: end.as_ref().map(|end| end.took_s),
    };
    Ok((run, whole_bytes))
}

/// How the run ended, if it did.
pub(crate) fn read_end(folder: &Folder) -> Result<Option<EndRecord>, StoreError> {
    let Some(bytes) = folder.read_file(END, bounds::END_BYTES_MAX)? else { return Ok(None) };
    let end: EndRecord = parse(folder, END, &bytes)?;
    bounds::check_number("took_s", end.took_s).map_err(|fault| StoreError::Malformed {
        path: folder.path().join(END),
        line: 1,
        reason: fault.to_string(),
    })?;
    Ok(Some(end))
}

fn text_of(bytes: Option<Vec<u8>>) -> String {
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

#[derive(serde::Deserialize)]
struct FormatOnly {
    #[serde(default)]
    format: String,
}

/// Reads the slots that follow the first `whole_bytes` bytes and `before` slots. Returns them, and how many
/// bytes from the beginning of the file are whole lines.
pub(crate) fn read_slots(
    folder: &Folder,
    plan: &Plan,
    (mut whole_bytes, before): (u64, usize),
    slots_bytes_max: u64,
) -> Result<(Vec<Slot>, u64), StoreError> {
    let Some(mut file) = folder.reader(SLOTS, slots_bytes_max)? else { return Ok((Vec::new(), whole_bytes)) };
    let path = folder.path().join(SLOTS);
    file.seek(SeekFrom::Start(whole_bytes)).map_err(StoreError::io("read", &path))?;
    let mut reader = BufReader::new(file);
    let (mut slots, mut line) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        let mut bounded = (&mut reader).take(bounds::LINE_BYTES_MAX);
        bounded.read_until(b'\n', &mut line).map_err(StoreError::io("read", &path))?;
        let malformed = |reason: String| StoreError::Malformed {
            path: path.clone(),
            line: before + slots.len() + 1,
            reason,
        };
        if line.last() != Some(&b'\n') {
            return match line.len() as u64 == bounds::LINE_BYTES_MAX {
                true => Err(malformed(format!("the line has more than {} bytes", bounds::LINE_BYTES_MAX))),
                false => Ok((slots, whole_bytes)),
            };
        }
        let record: SlotRecord =
            serde_json::from_slice(&line).map_err(|error| malformed(error.to_string()))?;
        if before + slots.len() == bounds::SLOTS_MAX {
            return Err(malformed(format!("a run has at most {} slots", bounds::SLOTS_MAX)));
        }
        bounds::check_slot(&record.slot, plan).map_err(|fault| malformed(fault.to_string()))?;
        whole_bytes += line.len() as u64;
        slots.push(record.slot);
    }
}

fn parse<T: DeserializeOwned>(folder: &Folder, name: &str, bytes: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(bytes).map_err(|error| StoreError::Malformed {
        path: folder.path().join(name),
        line: error.line(),
        reason: error.to_string(),
    })
}

fn write_header(folder: &Folder, header: &Header, experiment_text: &str) -> Result<(), StoreError> {
    let record = HeaderRecord {
        format: FORMAT.to_owned(),
        experiment: Some(experiment_text.to_owned()),
        header: header.clone(),
    };
    write_json(folder, RUN, &record, bounds::HEADER_BYTES_MAX)
}

fn write_json(folder: &Folder, name: &str, value: &impl Serialize, bytes_max: u64) -> Result<(), StoreError> {
    let path = folder.path().join(name);
    let text =
        serde_json::to_vec_pretty(value).map_err(|error| StoreError::io("write", &path)(error.into()))?;
    bounds::check_bytes(text.len() as u64, bytes_max).map_err(unreadable(&path))?;
    folder.write_whole(name, &text, PRIVATE)
}

#[cfg(test)]
mod tests {
    mod fuzz;

    use super::*;
    use plumb_model::{
        FailureCause, Histogram, LoadHealth, Measurement, Reading, SlotOutcome, SlotResult, Variant,
    };
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn header() -> Header {
        Header {
            program_version: "0.1.0".to_owned(),
            build: Some("1f".to_owned()),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
            plan: Plan {
                seed: u64::MAX,
                window_ns: 1,
                synthetic: true,
                threads_key: Some("load.threads".to_owned()),
                questions: plumb_model::Question::of_old_runs(),
                ..Plan::new("x", "null", vec![Variant::new("a")])
            },
            host: vec![("kernel".to_owned(), "6.18".to_owned())],
            system_cpus: "0".to_owned(),
            load_cpus: "1".to_owned(),
            places: None,
            source: None,
            labels: Default::default(),
        }
    }

    fn slot(position: u32) -> Slot {
        Slot {
            cell: 0,
            block: 0,
            position,
            variant: "a".to_owned(),
            started_at: String::new(),
            offset_s: 0.1,
            took_s: 0.2,
            retried: vec!["x\ny".to_owned()],
            outcome: SlotOutcome::Failed { reason: "dead".to_owned(), cause: FailureCause::System },
        }
    }

    #[test]
    fn a_run_that_cannot_be_written_leaves_nothing() {
        let temporary = tempfile::tempdir().unwrap();
        // The header's place is taken, as if the disk were full after the experiment.
        fs::create_dir(temporary.path().join("run.json.partial")).unwrap();
        let error = RunDirectory::create(temporary.path(), &header(), "kind: Experiment\n").unwrap_err();
        assert!(error.to_string().contains("run.json.partial"), "{error}");
        let left: Vec<_> =
            fs::read_dir(temporary.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["run.json.partial"]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("run");
        let mut directory = RunDirectory::create(&path, &header(), "kind: Experiment\n").unwrap();
        directory.append(&slot(0)).unwrap();
        directory.append(&slot(1)).unwrap();
        assert_eq!(read_run(&path).unwrap().ending, None);
        directory.finish(Ending::Complete, 3.5).unwrap();
        let run = read_run(&path).unwrap();
        assert_eq!(run.header, header());
        assert_eq!(run.slots, [slot(0), slot(1)]);
        assert_eq!((run.ending, run.took_s), (Some(Ending::Complete), Some(3.5)));
        assert_eq!(run.experiment_text, "kind: Experiment\n");
    }

    #[test]
    fn a_cut_line_is_dropped_and_the_run_goes_on_after_it() {
        let temporary = tempfile::tempdir().unwrap();
        let mut directory = RunDirectory::create(temporary.path(), &header(), "").unwrap();
        directory.append(&slot(0)).unwrap();
        directory.append(&slot(1)).unwrap();
        drop(directory);
        let file = temporary.path().join("slots.jsonl");
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() - 5]).unwrap();
        assert_eq!(read_run(temporary.path()).unwrap().slots.len(), 1);
        let (mut directory, run) = RunDirectory::resume(temporary.path()).unwrap();
        assert_eq!(run.slots.len(), 1);
        assert_eq!(fs::metadata(&file).unwrap().len(), bytes.len() as u64 - 5, "looking changes nothing");
        directory.go_on().unwrap();
        directory.append(&slot(7)).unwrap();
        assert_eq!(read_run(temporary.path()).unwrap().slots, [slot(0), slot(7)]);
    }

    #[test]
    fn a_directory_is_not_written_twice() {
        let temporary = tempfile::tempdir().unwrap();
        let first = RunDirectory::create(temporary.path(), &header(), "").unwrap();
        let locked = RunDirectory::create(temporary.path(), &header(), "").unwrap_err();
        assert!(matches!(locked, StoreError::Locked { .. }));
        assert!(matches!(RunDirectory::resume(temporary.path()).unwrap_err(), StoreError::Locked { .. }));
        drop(first);
        let exists = RunDirectory::create(temporary.path(), &header(), "").unwrap_err();
        assert!(matches!(exists, StoreError::Exists { .. }));
        assert!(RunDirectory::resume(temporary.path()).is_ok());
    }

    #[test]
    fn of_many_runs_that_begin_at_once_one_gets_the_directory() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("run");
        let run = |text: String| {
            let path = path.clone();
            std::thread::spawn(move || RunDirectory::create(&path, &header(), &text))
        };
        let runs: Vec<_> = (0..16).map(|number| run(format!("# {number}"))).collect();
        let created: Vec<_> = runs.into_iter().map(|run| run.join().unwrap()).collect();
        assert_eq!(created.iter().filter(|created| created.is_ok()).count(), 1);
        let names = |number: usize| format!("# {number}");
        let winner = created.iter().position(Result::is_ok).map(names);
        assert_eq!(Some(read_run(&path).unwrap().experiment_text), winner);
        assert_eq!(Some(fs::read_to_string(path.join(EXPERIMENT)).unwrap()), winner);
    }

    #[test]
    fn names_that_are_taken_get_a_number() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("runs/x");
        let make = || crate::make_unique(&path).unwrap();
        assert_eq!((make(), make()), (path.clone(), temporary.path().join("runs/x-2")));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn what_a_run_keeps_is_the_users_alone() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("run");
        let directory = RunDirectory::create(&path, &header(), "x").unwrap();
        directory.finish(Ending::Complete, 1.0).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        for name in [RUN, EXPERIMENT, SLOTS, END, LOCK] {
            assert_eq!(mode(&path.join(name)), 0o600, "{name}");
        }
    }

    #[test]
    fn links_are_not_followed() {
        let temporary = tempfile::tempdir().unwrap();
        let (real, link) = (temporary.path().join("real"), temporary.path().join("link"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &link).unwrap();
        for path in [link.clone(), temporary.path().join("link/")] {
            let error = RunDirectory::create(&path, &header(), "").unwrap_err();
            assert!(matches!(error, StoreError::Link { .. }), "{error}");
        }
        assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
        let victim = temporary.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        for name in [RUN, EXPERIMENT, SLOTS, LOCK] {
            symlink(&victim, real.join(name)).unwrap();
            assert!(RunDirectory::create(&real, &header(), "").is_err(), "{name}");
            fs::remove_dir_all(&real).unwrap();
            fs::create_dir(&real).unwrap();
        }
        symlink(&victim, real.join("report.html")).unwrap();
        let error = write_report(&real, "report.html", "x").unwrap_err().to_string();
        assert!(error.contains("report.html: it is a symbolic link"), "{error}");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        drop(RunDirectory::create(&real, &header(), "").unwrap());
        assert!(read_run(&link).is_ok(), "reading through a link to the directory harms nobody");
        assert!(RunDirectory::resume(&link).is_err());
    }

    #[test]
    fn an_edited_experiment_is_not_resumed_and_what_ran_is_read() {
        let temporary = tempfile::tempdir().unwrap();
        drop(RunDirectory::create(temporary.path(), &header(), "seed: 1\n").unwrap());
        fs::write(temporary.path().join(EXPERIMENT), "seed: 2\n").unwrap();
        let error = RunDirectory::resume(temporary.path()).unwrap_err();
        assert!(matches!(error, StoreError::Edited { .. }), "{error}");
        assert_eq!(read_run(temporary.path()).unwrap().experiment_text, "seed: 1\n");
    }

    #[test]
    fn a_fifo_and_a_file_of_any_length_are_errors_at_once() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path();
        drop(RunDirectory::create(path, &header(), "").unwrap());
        for name in [RUN, SLOTS, END] {
            let _ = fs::remove_file(path.join(name));
            rustix::fs::mknodat(
                rustix::fs::CWD,
                path.join(name),
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR,
                0,
            )
            .unwrap();
            let error = read_run(path).unwrap_err();
            assert!(matches!(error, StoreError::NotAFile { .. }), "{name}: {error}");
            fs::remove_file(path.join(name)).unwrap();
            let record = HeaderRecord { format: FORMAT.to_owned(), experiment: None, header: header() };
            fs::write(path.join(RUN), serde_json::to_vec(&record).unwrap()).unwrap();
        }
        let slots = File::create(path.join(SLOTS)).unwrap();
        slots.set_len(bounds::LINE_BYTES_MAX + 1).unwrap();
        let error = read_run(path).unwrap_err().to_string();
        assert!(error.contains("slots.jsonl line 1: the line has more than 16777216 bytes"), "{error}");
        slots.set_len(1 << 40).unwrap();
        let error = read_run(path).unwrap_err().to_string();
        assert!(error.contains("a run writes at most"), "{error}");
    }

    #[test]
    fn what_no_run_writes_is_an_error_with_its_line() {
        let measured = |measurement: Measurement| {
            let result = SlotResult { measurement, ..SlotResult::default() };
            Slot { outcome: SlotOutcome::Measured(Box::new(result)), ..slot(1) }
        };
        let reading = |reading: Reading| {
            measured(Measurement { readings: [("x".to_owned(), reading)].into(), ..Measurement::default() })
        };
        let bins = |flat: &str| reading(Reading::Trend(serde_json::from_str::<Histogram>(flat).unwrap()));
        let many: Vec<u64> = (0..200_000).map(|_| 1).collect();
        let damaged = [
            Slot { cell: 1, ..slot(1) },
            Slot { block: u32::MAX, ..slot(1) },
            Slot { position: 1000, ..slot(1) },
            Slot { variant: "z".to_owned(), ..slot(1) },
            Slot { took_s: 1e300, ..slot(1) },
            reading(Reading::Gauge(-1e300)),
            reading(Reading::Count(u64::MAX)),
            measured(Measurement {
                health: LoadHealth { waited: 1e300, ..LoadHealth::default() },
                ..Measurement::default()
            }),
            measured(Measurement {
                shares: vec![plumb_model::Share { work_per_s: f64::INFINITY, ..Default::default() }],
                ..Measurement::default()
            }),
            bins("[5,1,0,1]"),
            bins("[1,18446744073709551615]"),
            bins(&serde_json::to_string(&many).unwrap()),
            measured(Measurement {
                windows: [("x".to_owned(), vec![0.0; 200_000])].into(),
                ..Measurement::default()
            }),
        ];
        for slot_ in damaged {
            let temporary = tempfile::tempdir().unwrap();
            let mut directory = RunDirectory::create(temporary.path(), &header(), "").unwrap();
            directory.append(&slot(0)).unwrap();
            let refused = directory.append(&slot_).unwrap_err();
            assert!(matches!(refused, StoreError::Unreadable { .. }), "{refused}");
            assert_eq!(
                read_run(temporary.path()).unwrap().slots,
                [slot(0)],
                "a refused slot leaves no trace"
            );
            let mut line = serde_json::to_vec(&SlotRecord { slot: slot_ }).unwrap();
            line.push(b'\n');
            directory.slots.write_all(&line).unwrap();
            let error = read_run(temporary.path()).unwrap_err().to_string();
            assert!(error.contains("slots.jsonl line 2: "), "{error}");
        }
    }

    #[test]
    fn a_plan_that_names_what_it_does_not_have_is_an_error() {
        let changes: [fn(&mut Plan); 6] = [
            |plan| plan.baseline = 1,
            |plan| plan.cells[0].variants[0].variant = 7,
            |plan| plan.blocks.max = u32::MAX,
            |plan| plan.others_max = 1e300,
            |plan| plan.window_ns = u64::MAX,
            |plan| plan.cells = vec![plan.cells[0].clone(); 1000],
        ];
        for change in changes {
            let temporary = tempfile::tempdir().unwrap();
            let mut header = header();
            change(&mut header.plan);
            let path = temporary.path().join("run");
            let refused = RunDirectory::create(&path, &header, "").unwrap_err();
            assert!(matches!(refused, StoreError::Unreadable { .. }), "{refused}");
            assert!(!path.exists(), "a refused run leaves no trace");
            let record = HeaderRecord { format: FORMAT.to_owned(), experiment: None, header };
            fs::write(temporary.path().join(RUN), serde_json::to_vec(&record).unwrap()).unwrap();
            let error = read_run(temporary.path()).unwrap_err().to_string();
            assert!(error.contains("run.json line 1: "), "{error}");
        }
    }

    #[test]
    fn files_beyond_their_size_are_not_written() {
        let temporary = tempfile::tempdir().unwrap();
        let text = "#".repeat(usize::try_from(bounds::EXPERIMENT_BYTES_MAX).unwrap() + 1);
        let error = RunDirectory::create(temporary.path(), &header(), &text).unwrap_err().to_string();
        assert!(error.ends_with("2097153 bytes are more than the 2097152 that a run writes, so the run could not be read again"), "{error}");
        let mut directory = RunDirectory::create(temporary.path(), &header(), "").unwrap();
        let long = Slot { started_at: "x".repeat(17 << 20), ..slot(0) };
        let error = directory.append(&long).unwrap_err();
        assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
        assert!(matches!(
            directory.finish(Ending::Complete, f64::INFINITY),
            Err(StoreError::Unreadable { .. })
        ));
        assert_eq!(read_run(temporary.path()).unwrap().slots, []);
    }

    #[test]
    fn slots_from_before_causes_were_recorded_are_read() {
        let temporary = tempfile::tempdir().unwrap();
        let mut directory = RunDirectory::create(temporary.path(), &header(), "").unwrap();
        let harness = SlotOutcome::Failed { reason: "dead".to_owned(), cause: FailureCause::Harness };
        let unmeasured = Slot { outcome: harness, ..slot(1) };
        directory.append(&unmeasured).unwrap();
        assert_eq!(read_run(temporary.path()).unwrap().slots, [unmeasured]);
        let file = temporary.path().join(SLOTS);
        let text = fs::read_to_string(&file).unwrap();
        let old = text.replace(r#","cause":"harness""#, "");
        assert_ne!(old, text);
        fs::write(&file, old).unwrap();
        assert_eq!(read_run(temporary.path()).unwrap().slots, [slot(1)]);
    }

    #[test]
    fn what_is_no_run_is_named() {
        let temporary = tempfile::tempdir().unwrap();
        assert!(matches!(read_run(temporary.path()).unwrap_err(), StoreError::NoRun { .. }));
        fs::write(temporary.path().join("run.json"), r#"{"format":"plumbline.run-directory/99"}"#).unwrap();
        let message = read_run(temporary.path()).unwrap_err().to_string();
        assert!(message.contains("its format is `plumbline.run-directory/99`"), "{message}");
    }
}
