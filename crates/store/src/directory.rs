//! Writing and reading a run directory.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use plumb_model::{Ending, Header, Run, Slot};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::StoreError;
use crate::record::{EndRecord, FORMAT, HeaderRecord, SlotRecord};

/// A run directory that is being written.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
    slots: File,
    /// Held for its lock.
    _lock: File,
}

impl RunDirectory {
    /// Makes a new run directory.
    ///
    /// # Errors
    /// When it holds a run already, or cannot be written.
    pub fn create(path: &Path, header: &Header, experiment_text: &str) -> Result<Self, StoreError> {
        fs::create_dir_all(path).map_err(StoreError::io("make the directory", path))?;
        let run = path.join("run.json");
        if run.exists() {
            return Err(StoreError::Exists { path: path.to_owned() });
        }
        let experiment = path.join("experiment.yaml");
        fs::write(&experiment, experiment_text).map_err(StoreError::io("write", &experiment))?;
        let record = HeaderRecord { format: FORMAT.to_owned(), header: header.clone() };
        write_whole(&run, &record)?;
        Self::open(path)
    }

    /// Opens the directory of a run that did not end, to continue it.
    ///
    /// # Errors
    /// When it holds no run, another process writes to it, or it cannot be read.
    pub fn resume(path: &Path) -> Result<(Self, Run), StoreError> {
        if !path.join("run.json").exists() {
            return Err(StoreError::NoRun { path: path.to_owned() });
        }
        let directory = Self::open(path)?;
        let (run, valid_bytes) = read_counting(path)?;
        directory
            .slots
            .set_len(valid_bytes)
            .map_err(StoreError::io("cut the unfinished line of", &path.join("slots.jsonl")))?;
        let end = path.join("end.json");
        if end.exists() {
            fs::remove_file(&end).map_err(StoreError::io("remove", &end))?;
        }
        Ok((directory, run))
    }

    fn open(path: &Path) -> Result<Self, StoreError> {
        let run = path.join("run.json");
        let lock = File::open(&run).map_err(StoreError::io("open", &run))?;
        lock.try_lock().map_err(|_| StoreError::Locked { path: path.to_owned() })?;
        let slots_path = path.join("slots.jsonl");
        let slots = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&slots_path)
            .map_err(StoreError::io("open", &slots_path))?;
        Ok(Self { path: path.to_owned(), slots, _lock: lock })
    }

    /// Writes one slot; it is on disk when this returns.
    ///
    /// # Errors
    /// When the disk is full or gone; slots written before stay readable.
    pub fn append(&mut self, slot: &Slot) -> Result<(), StoreError> {
        let path = self.path.join("slots.jsonl");
        let mut line = serde_json::to_vec(&SlotRecord { slot: slot.clone() })
            .map_err(|error| StoreError::io("write", &path)(error.into()))?;
        line.push(b'\n');
        self.slots.write_all(&line).map_err(StoreError::io("write", &path))?;
        self.slots.sync_data().map_err(StoreError::io("sync", &path))
    }

    /// Writes how the run ended.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(&self, ending: Ending, took_s: f64) -> Result<(), StoreError> {
        write_whole(&self.path.join("end.json"), &EndRecord { ending, took_s })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Reads a run directory, finished or not.
///
/// # Errors
/// When it holds no run, or a file in it is not of the format.
pub fn read(path: &Path) -> Result<Run, StoreError> {
    read_counting(path).map(|(run, _)| run)
}

/// Reads a run, and says how many bytes of `slots.jsonl` are whole lines.
fn read_counting(path: &Path) -> Result<(Run, u64), StoreError> {
    let run_path = path.join("run.json");
    if !run_path.exists() {
        return Err(StoreError::NoRun { path: path.to_owned() });
    }
    let format: FormatOnly = read_whole(&run_path)?;
    if format.format != FORMAT {
        return Err(StoreError::Format { path: run_path, found: format.format, expected: FORMAT });
    }
    let record: HeaderRecord = read_whole(&run_path)?;
    let experiment = path.join("experiment.yaml");
    let experiment_text = fs::read_to_string(&experiment).map_err(StoreError::io("read", &experiment))?;
    let (slots, valid_bytes) = read_slots(&path.join("slots.jsonl"))?;
    let end_path = path.join("end.json");
    let end: Option<EndRecord> = if end_path.exists() { Some(read_whole(&end_path)?) } else { None };
    let run = Run {
        directory: path.display().to_string(),
        header: record.header,
        experiment_text,
        slots,
        ending: end.as_ref().map(|end| end.ending),
        took_s: end.as_ref().map(|end| end.took_s),
    };
    Ok((run, valid_bytes))
}

#[derive(serde::Deserialize)]
struct FormatOnly {
    #[serde(default)]
    format: String,
}

fn read_slots(path: &Path) -> Result<(Vec<Slot>, u64), StoreError> {
    if !path.exists() {
        return Ok((Vec::new(), 0));
    }
    let bytes = fs::read(path).map_err(StoreError::io("read", path))?;
    let mut slots = Vec::new();
    let mut valid_bytes = 0;
    for (index, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if line.last() != Some(&b'\n') {
            break;
        }
        let record: SlotRecord = serde_json::from_slice(line).map_err(|error| StoreError::Malformed {
            path: path.to_owned(),
            line: index + 1,
            reason: error.to_string(),
        })?;
        slots.push(record.slot);
        valid_bytes += line.len() as u64;
    }
    Ok((slots, valid_bytes))
}

fn read_whole<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    let bytes = fs::read(path).map_err(StoreError::io("read", path))?;
    serde_json::from_slice(&bytes).map_err(|error| StoreError::Malformed {
        path: path.to_owned(),
        line: error.line(),
        reason: error.to_string(),
    })
}

/// Writes a small file so that it is either absent or whole, also after a kill.
fn write_whole(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    let partial = path.with_extension("json.partial");
    let text =
        serde_json::to_vec_pretty(value).map_err(|error| StoreError::io("write", path)(error.into()))?;
    let mut file = File::create(&partial).map_err(StoreError::io("write", &partial))?;
    file.write_all(&text).map_err(StoreError::io("write", &partial))?;
    file.sync_all().map_err(StoreError::io("sync", &partial))?;
    fs::rename(&partial, path).map_err(StoreError::io("rename to", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_model::{Blocks, Plan, SlotOutcome};

    fn header() -> Header {
        Header {
            program_version: "0.1.0".to_owned(),
            started_at: "2026-01-01T00:00:00Z".to_owned(),
            plan: Plan {
                name: "x".to_owned(),
                title: "x".to_owned(),
                path: "null".to_owned(),
                baseline: 0,
                variants: Vec::new(),
                cells: Vec::new(),
                blocks: Blocks::default(),
                claims: Vec::new(),
                metrics: Vec::new(),
                seed: u64::MAX,
                quick: false,
                only: Vec::new(),
                blocks_asked: None,
                window_ns: 1,
                warmup_ns: 0,
                others_max: Plan::others_max(),
            },
            host: vec![("kernel".to_owned(), "6.18".to_owned())],
            system_cpus: "0".to_owned(),
            load_cpus: "1".to_owned(),
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
            outcome: SlotOutcome::Failed { reason: "dead".to_owned() },
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("run");
        let mut directory = RunDirectory::create(&path, &header(), "kind: Experiment\n").unwrap();
        directory.append(&slot(0)).unwrap();
        directory.append(&slot(1)).unwrap();
        assert_eq!(read(&path).unwrap().ending, None);
        directory.finish(Ending::Complete, 3.5).unwrap();
        let run = read(&path).unwrap();
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
        assert_eq!(read(temporary.path()).unwrap().slots.len(), 1);
        let (mut directory, run) = RunDirectory::resume(temporary.path()).unwrap();
        assert_eq!(run.slots.len(), 1);
        directory.append(&slot(7)).unwrap();
        assert_eq!(read(temporary.path()).unwrap().slots, [slot(0), slot(7)]);
    }

    #[test]
    fn a_directory_is_not_written_twice() {
        let temporary = tempfile::tempdir().unwrap();
        let first = RunDirectory::create(temporary.path(), &header(), "").unwrap();
        let exists = RunDirectory::create(temporary.path(), &header(), "").unwrap_err();
        assert!(matches!(exists, StoreError::Exists { .. }));
        assert!(matches!(RunDirectory::resume(temporary.path()).unwrap_err(), StoreError::Locked { .. }));
        drop(first);
        assert!(RunDirectory::resume(temporary.path()).is_ok());
    }

    #[test]
    fn what_is_no_run_is_named() {
        let temporary = tempfile::tempdir().unwrap();
        assert!(matches!(read(temporary.path()).unwrap_err(), StoreError::NoRun { .. }));
        fs::write(temporary.path().join("run.json"), r#"{"format":"plumbline.run-directory/99"}"#).unwrap();
        let message = read(temporary.path()).unwrap_err().to_string();
        assert!(message.contains("its format is `plumbline.run-directory/99`"), "{message}");
    }
}
