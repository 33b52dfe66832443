//! dbench's script, which runs fio nine times on a file in a directory and prints a summary.
//!
//! It is run by bash, because it compares with `==`: under Debian's `sh` it leaves out seven of its nine jobs. It writes over a file
//! `fiotest` in its directory and removes it at its end.

use std::path::{Path, PathBuf};

use plumb_host::process::which;
use plumb_model::metric::CPU_LOAD;
use plumb_model::{Bytes, Measurement, Metric};
use plumb_path::tool::{Invocation, Program, Tool};
use plumb_path::{AnyError, PathError};
use plumb_readers::{ToolRun, format_named, only, read_as};

use super::fio::FIO;
use crate::metrics::METRICS;
use crate::settings::{LoadSettings, StorageTarget};

/// The shell that runs the script.
pub(super) const BASH: Program =
    Program { name: "bash", version: "--version", remedy: "on Debian: apt install bash" };

/// The file that the script makes.
const FILE: &str = "fiotest";

pub(super) struct DbenchTool {
    script: PathBuf,
    directory: PathBuf,
    size: Option<Bytes>,
    offset_increment: Bytes,
    direct: bool,
    options: Vec<String>,
    destroy_data: bool,
}

impl DbenchTool {
    /// The script on the directory that the target is, or in which it is.
    pub(super) fn new(settings: &LoadSettings, target: &StorageTarget) -> Result<Self, PathError> {
        let path = Path::new(&target.address);
        let metadata = std::fs::metadata(path)
            .map_err(|cause| PathError::load(format!("find {}: {cause}", path.display())))?;
        let (directory, bytes) = match path.parent().filter(|_| metadata.is_file() && target.is_ours) {
            Some(parent) => (parent, Some(Bytes(metadata.len()))),
            None if metadata.is_dir() => (path, None),
            None => {
                let why =
                    "it is not a directory, and dbench makes a file of its own; name a mounted directory";
                return Err(PathError::load(format!("use {} for dbench: {why}", path.display())));
            }
        };
        Ok(Self {
            script: settings.script.clone().unwrap_or_default(),
            directory: directory.to_owned(),
            size: settings.size.or(bytes),
            offset_increment: settings.offset_increment,
            direct: settings.direct,
            options: settings.options.clone(),
            destroy_data: settings.destroy_data,
        })
    }
}

/// A file in the place of dbench's own.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} exists, and dbench would write over it and remove it (`destroy_data` allows that)",
    file.display()
)]
struct Occupied {
    file: PathBuf,
}

impl Tool for DbenchTool {
    fn program(&self) -> Program {
        BASH
    }

    fn name(&self) -> &'static str {
        "dbench's script"
    }

    fn invocation(&self, _: u64) -> Result<Invocation, AnyError> {
        let file = self.directory.join(FILE);
        if file.exists() && !self.destroy_data {
            return Err(Occupied { file }.into());
        }
        let mut arguments = vec![self.script.display().to_string(), "fio".to_owned()];
        arguments.extend(self.options.iter().cloned());
        let mut environment = vec![
            ("DBENCH_MOUNTPOINT", self.directory.display().to_string()),
            ("FIO_DIRECT", u8::from(self.direct).to_string()),
        ];
        environment.extend(self.size.map(|size| ("FIO_SIZE", size.0.to_string())));
        if self.offset_increment.0 > 0 {
            environment.push(("FIO_OFFSET_INCREMENT", self.offset_increment.0.to_string()));
        }
        Ok(Invocation { arguments, environment, ..Invocation::default() })
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    /// The sequential jobs have four, and no others run at the same time.
    fn threads(&self) -> u32 {
        4
    }

    /// Each job of dbench has two seconds of warm-up.
    fn warms_up(&self) -> bool {
        false
    }

    fn read_run(&self, said: &str) -> Result<ToolRun, AnyError> {
        let format = format_named("dbench").ok_or("its format is not known")?;
        Ok(only(read_as(format, said)?)?)
    }

    fn complete(&self, measurement: &mut Measurement) {
        // It does not say how many operations it did. Zeros stand for CPU time that is not known.
        (measurement.cpu_user_ns, measurement.cpu_system_ns) = (0, 0);
        measurement.readings.remove(CPU_LOAD.name);
        if let Some(file) = which(FIO.name) {
            let fio = format!("{} ({})", FIO.version_of(&file), file.display());
            measurement.observed.insert("fio of the script".to_owned(), [(fio, measurement.work)].into());
        }
    }
}
