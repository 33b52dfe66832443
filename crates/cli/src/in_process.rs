//! Commands run in a test's own process, for tests of what they print, how they refuse, and how they end.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Parser;
use plumb_model::Run;
use serde_json::Value;

use crate::args::Arguments;
use crate::exit::{Outcome, USAGE};
use crate::output::caught;

#[path = "../../results/history/tests/made/mod.rs"]
pub mod made;

/// A command's output and its exit code.
#[derive(Debug)]
pub struct Said {
    pub code: u8,
    pub out: String,
    pub err: String,
}

/// Runs `plumb` with these arguments, in this process.
pub fn plumb(arguments: &[&str]) -> Said {
    let line = std::iter::once("plumb").chain(arguments.iter().copied()).map(OsString::from);
    let code = crate::run(line);
    said(code)
}

/// The output of a command that ended so.
pub fn ended(outcome: Outcome) -> Said {
    said(crate::ended(outcome))
}

fn said(code: u8) -> Said {
    let [out, err] = caught::take().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Said { code, out, err }
}

impl Said {
    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A null experiment with the given lines under `spec`.
pub fn null_experiment(spec: &str) -> String {
    experiment("null", spec)
}

/// An experiment on a data path with the given lines under `spec`.
pub fn experiment(path: &str, spec: &str) -> String {
    let indented: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: \"{path}\"\n{indented}"
    )
}

/// Writes a file into a directory, and gives its path.
pub fn write(directory: &Path, name: &str, text: impl AsRef<[u8]>) -> String {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Writes a made-up run as `plumb run` would have, at its own place below a folder.
pub fn on_disk(folder: &Path, run: &Run) -> PathBuf {
    let path = folder.join(&run.directory);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut directory = plumb_store::RunDirectory::create(&path, &run.header, &run.experiment_text).unwrap();
    run.slots.iter().for_each(|slot| directory.append(slot).unwrap());
    if let Some(ending) = run.ending {
        directory.finish(ending, run.took_s.unwrap()).unwrap();
    }
    path
}

/// A port of loopback at which nothing listens, and at which nothing can as long as this value is held.
pub struct NobodyAt {
    pub port: u16,
    _bound: rustix::fd::OwnedFd,
}

impl NobodyAt {
    pub fn loopback() -> Self {
        use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap().port();
        Self { port, _bound: socket }
    }
}

/// The refusal of a command line: the exit code and the message, without the usage that clap adds.
///
/// # Panics
/// When it is not refused.
pub fn refused(arguments: &[&str]) -> (u8, String) {
    let line = std::iter::once("plumb").chain(arguments.iter().copied());
    match Arguments::try_parse_from(line) {
        Err(error) => {
            let text = error.to_string();
            let message = text.split("\n\nUsage:").next().unwrap_or_default();
            let message = message.split("\n\nFor more information").next().unwrap_or_default();
            (USAGE, message.trim_start_matches("error: ").to_owned())
        }
        Ok(parsed) => match crate::dispatch(parsed.command) {
            Err(failure) => (failure.code, failure.message),
            Ok(code) => panic!("{arguments:?} ended with code {code}"),
        },
    }
}

/// As [`refused`], of several command lines, each with its code before its message.
pub fn refusals(lines: &[&[&str]]) -> String {
    let refusal = |line: &&[&str]| {
        let (code, message) = refused(line);
        format!("{code} {message}")
    };
    lines.iter().map(refusal).collect::<Vec<String>>().join("\n")
}
