//! Programs of the host that can be an ingress or an origin, and where they are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::process::{run_for_output, which};
use plumb_path::PathError;
use plumb_path::tool::NotInstalled;

pub(super) const HAPROXY: Installable =
    Installable { title: "HAProxy", command: "haproxy", remedy: "on Debian: apt-get install haproxy" };

pub(super) const NGINX: Installable =
    Installable { title: "nginx", command: "nginx", remedy: "on Debian: apt-get install nginx-light" };

/// How long a program may take to say its version.
const VERSION_PATIENCE: Duration = Duration::from_secs(10);

/// A program that can be installed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Installable {
    /// How it is called, by people and by the shell.
    pub title: &'static str,
    pub command: &'static str,
    /// A clause that says how to install it.
    pub remedy: &'static str,
}

impl Installable {
    /// Where it is installed.
    ///
    /// # Errors
    ///
    /// When it is not.
    pub(super) fn find(self) -> Result<PathBuf, NotInstalled> {
        which(self.command).ok_or(NotInstalled { program: self.title, remedy: self.remedy })
    }

    /// The first line of what it says of its version.
    pub(super) fn version(self, file: &Path) -> Result<String, PathError> {
        let output = run_for_output(file, ["-v"], VERSION_PATIENCE)?;
        let lines = output.stdout.lines().chain(output.stderr.lines());
        Ok(lines.map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned())
    }
}
