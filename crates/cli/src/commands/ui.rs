//! `plumb ui`: a page to look at runs, and the same beside a run that wants one.

use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_history::{DATABASE_VARIABLE, HistoryError, Location};
use plumb_host::process::{Command, Detached, Stream, which};
use plumb_host::signals::Interrupts;
use plumb_host::time::sleep;
use plumb_ui::{Server, Settings, UiError};

use crate::args::{RUNS, UiArguments};
use crate::exit::{self, Failure, Outcome};
use crate::experiments::BUILT_IN;
use crate::output;

/// How often the page looks whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// A page beside a run stays this long after the last request, once the run has ended.
const LINGER: Duration = Duration::from_secs(300);
/// How a browser on a display is found and opened.
const OPENER: &str = "xdg-open";
const DISPLAYS: [&str; 2] = ["DISPLAY", "WAYLAND_DISPLAY"];

/// Serves until it is asked to stop.
pub fn ui(arguments: &UiArguments) -> Outcome {
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let server = Server::start(settings(arguments)?, arguments.listen, arguments.allow_remote);
    let server = server.map_err(|error| match error {
        UiError::Listen { .. } | UiError::Remote { .. } => Failure::usage(format!("failed to {error}")),
        other => Failure::harness(other),
    })?;
    output::result(&server.url())?;
    output::message("open this address in a browser; Ctrl-C ends the page, and no run that it started");
    let beside = arguments.beside.map(Detached::with_pid);
    while !interrupts.is_interrupted() {
        let is_over = beside.is_some_and(|run| !run.is_some_and(|run| run.is_running()));
        if is_over && server.watchers() == 0 && server.idle() > LINGER {
            break;
        }
        sleep(LOOK_EVERY);
    }
    Ok(exit::HOLDS)
}

fn settings(arguments: &UiArguments) -> Result<Settings, Failure> {
    let mut roots = arguments.directories.clone();
    if let Some(missing) = roots.iter().find(|root| !root.is_dir()) {
        return Err(Failure::usage(format!(
            "failed to serve {}: it is not a directory; name a run directory, or a folder that holds some",
            missing.display()
        )));
    }
    if roots.is_empty() {
        roots.push(PathBuf::from(RUNS));
    }
    let history = match Location::given_or_standard(arguments.database.as_deref()) {
        Ok(location) => Some(location),
        // An account without a home has no history either.
        Err(HistoryError::NoHome) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(Settings {
        roots,
        history,
        program: own_program()?,
        version: env!("CARGO_PKG_VERSION"),
        experiments: BUILT_IN,
    })
}

fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::harness(format!("find this program: {error}")))
}

/// A page beside a run. It is a separate process, so that it goes on when the run has ended.
#[derive(Debug)]
pub struct Beside(Detached);

impl Beside {
    /// Serves the folder of a run that is about to begin in `directory`, and tells the address.
    pub fn start(directory: &Path) -> Result<Self, Failure> {
        let parent =
            directory.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent)
            .map_err(|error| Failure::usage(format!("failed to make {}: {error}", parent.display())))?;
        let pipe = std::io::pipe().map_err(|error| Failure::harness(format!("make a pipe: {error}")));
        let (reader, writer) = pipe?;
        let process = Command::new(own_program()?)
            .arg("ui")
            .arg(parent)
            .args(["--beside", &std::process::id().to_string()])
            .inherit(["XDG_DATA_HOME", DATABASE_VARIABLE])
            .stdout(Stream::File(OwnedFd::from(writer).into()))
            .spawn_detached()
            .map_err(Failure::harness)?;
        let mut url = String::new();
        let read = BufReader::new(reader).read_line(&mut url);
        let url = url.trim();
        if read.is_err() || url.is_empty() {
            return Err(Failure::harness("start the page: it ended at once; `plumb ui` says why"));
        }
        output::message(&format!("page: {url}"));
        open(url);
        Ok(Self(process))
    }

    /// Ends it, where somebody wants no more of the run.
    pub fn end(&self) {
        // One that has ended already needs nothing.
        let _ = self.0.interrupt();
    }
}

/// Opens a browser where there is a display. The address goes by way of a private file, since every user of the host can read the
/// arguments of a process, and the token is in it.
fn open(url: &str) {
    let has_display =
        DISPLAYS.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let folder = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let (Some(folder), Some(opener)) = (folder.filter(|_| has_display), which(OPENER)) else { return };
    let file = folder.join(format!("plumb-page-{}.html", std::process::id()));
    let text = format!(
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={url}\"><title>Plumbline</title>"
    );
    if std::fs::write(&file, text).is_ok() {
        // A browser that does not open is not missed: the address is on the terminal.
        let _ = Command::new(opener)
            .arg(&file)
            .inherit(DISPLAYS)
            .inherit(["XDG_RUNTIME_DIR", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS"])
            .spawn_detached();
    }
}

#[cfg(test)]
mod tests {
    use crate::in_process::plumb;

    #[test]
    fn an_address_that_others_reach_is_refused() {
        let said = plumb(&["ui", "--listen", "0.0.0.0:0"]);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("listen on loopback"), "{}", said.err);
        assert!(said.err.contains("--allow-remote"), "{}", said.err);
    }
}
