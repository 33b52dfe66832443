//! Programs of the host that can be an ingress or an origin, and where they are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::process::{run_for_output, which};
use plumb_path::PathError;

pub(super) const HAPROXY: Installable =
    Installable { title: "HAProxy", command: "haproxy", package: "haproxy" };

pub(super) const NGINX: Installable =
    Installable { title: "nginx", command: "nginx", package: "nginx-light" };

/// How long a program may take to say its version.
const VERSION_PATIENCE: Duration = Duration::from_secs(10);

/// A program that can be installed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Installable {
    /// How it is called, by people and by the shell.
    pub title: &'static str,
    pub command: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
}

impl Installable {
    /// Where it is installed.
    ///
    /// # Errors
    ///
    /// What to do when it is not.
    pub(super) fn find(self) -> Result<PathBuf, String> {
        which(self.command).ok_or_else(|| {
            format!("{} is not installed; on Debian: apt-get install {}", self.title, self.package)
        })
    }

    /// The first line of what it says of its version.
    pub(super) fn version(self, file: &Path) -> Result<String, PathError> {
        let output = run_for_output(file, ["-v"], VERSION_PATIENCE)?;
        let lines = output.stdout.lines().chain(output.stderr.lines());
        Ok(lines.map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned())
    }
}
