//! Programs of the host that can be an ingress or an origin, and where they are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::process::{run_for_output, which};
use plumb_path::tool::NotInstalled;

pub(super) const HAPROXY: Installable = Installable {
    title: "HAProxy",
    command: "haproxy",
    version_argument: "-v",
    build_argument: "-vv",
    remedy: "on Debian: apt-get install haproxy",
};

pub(super) const NGINX: Installable = Installable {
    title: "nginx",
    command: "nginx",
    version_argument: "-v",
    build_argument: "-V",
    remedy: "on Debian: apt-get install nginx-light",
};

pub(super) const CADDY: Installable = Installable {
    title: "Caddy",
    command: "caddy",
    version_argument: "version",
    build_argument: "build-info",
    remedy: "on Debian: apt-get install caddy",
};

/// How long a program may take to say its version.
const VERSION_PATIENCE: Duration = Duration::from_secs(10);

/// A program that can be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Installable {
    /// How it is called, by people and by the shell.
    pub title: &'static str,
    pub command: &'static str,
    /// The argument that prints its version.
    pub version_argument: &'static str,
    /// The argument that prints what it was built with.
    pub build_argument: &'static str,
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
    pub(super) fn version(self, file: &Path) -> Result<String, plumb_host::Error> {
        let said = said(file, self.version_argument)?;
        Ok(said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned())
    }

    /// All that it says of its build, after its version.
    pub(super) fn build(self, file: &Path) -> Result<String, plumb_host::Error> {
        said(file, self.build_argument)
    }
}

fn said(file: &Path, argument: &str) -> Result<String, plumb_host::Error> {
    let output = run_for_output(file, [argument], VERSION_PATIENCE)?;
    Ok(output.stdout + &output.stderr)
}
