//! Servers that are programs of the host: found, started on a free port, proven, asked how they are, and ended.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::network::{self, FreePort, datagrams_dropped};
use plumb_host::process::{Child, Command, Signal, Stream, give_to_nobody, make_private, output_of};
use plumb_path::PathError;

use super::config::ConfigError;
use super::installable::Installable;
use super::offload::Environment;
use super::readiness::{self, Answered, Expected};

/// How often another port is tried when somebody else was faster.
const ATTEMPTS: usize = 5;
/// How long a program may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);
/// How long a program may take to answer a question about itself.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long a program may take to test its configuration.
const TEST_PATIENCE: Duration = Duration::from_secs(10);
/// How many faults of a configuration are shown.
const OBJECTIONS_MAX: usize = 3;
/// How much of a program's log goes into an error.
const LAST_WORDS_BYTES: u64 = 1_000;

/// How to start a program once it is known on which port.
pub(super) struct Recipe<'a> {
    pub program: Installable,
    /// A separate directory for the program's files, which is removed in the end.
    pub directory: PathBuf,
    pub arguments: &'a [&'a str],
    pub config_name: &'a str,
    /// The configuration, given the port to listen on.
    pub config: &'a dyn Fn(u16) -> Result<String, ConfigError>,
    /// The configuration of its OpenSSL.
    pub environment: Environment,
    /// The signal that it gets when its parent dies. A program without children is best killed.
    pub death_signal: Signal,
    /// Files with private keys that it reads by their names in its directory.
    pub secrets: Vec<PathBuf>,
    /// The working directory, if that is not `directory`. Standard input is `directory` in any case.
    pub working_directory: Option<&'static str>,
    /// Whether root starts it as `nobody`, which then owns its directory and can read little else.
    pub is_nobody: bool,
}

/// A running program. Dropping it kills it; [`Program::stop`] is kinder and cleans up.
#[derive(Debug)]
pub(super) struct Program {
    title: &'static str,
    child: Child,
    directory: PathBuf,
    port: FreePort,
    /// The version that it reports.
    pub version: String,
    /// The configuration file, and the text that was written to it.
    config: (PathBuf, String),
}

impl Program {
    /// Starts a program on a free port, and proves that it answers.
    pub(super) fn start(recipe: &Recipe<'_>, expected: Expected<'_>) -> Result<(Self, Answered), PathError> {
        let file = recipe.program.find().map_err(PathError::new)?;
        let version = recipe.program.version(&file)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let mut program = Self::spawn(recipe, &file, &version, expected.address)?;
            match program.prove(expected) {
                Ok(proof) => return Ok((program, proof)),
                // The port was free when it was looked for; somebody else may have taken it since.
                Err(_)
                    if attempt < ATTEMPTS
                        && program.log().to_lowercase().contains("address already in use") => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Has a program test its configuration. `argument` makes it test instead of start.
    ///
    /// # Errors
    /// The program's objections.
    pub(super) fn test(recipe: &Recipe<'_>, argument: &str) -> Result<(), PathError> {
        let file = recipe.program.find().map_err(PathError::new)?;
        let prepared = Prepared::new(recipe, Ipv4Addr::LOCALHOST.into())?;
        let command = prepared.command(recipe, &file)?.arg(argument);
        let output = output_of(command, recipe.program.command, TEST_PATIENCE)?;
        if output.exit.is_success() {
            return Ok(());
        }
        let said = format!("{}{}", output.stderr, output.stdout);
        Err(PathError::new(objections(&said, recipe.config_name, &prepared.text)))
    }

    fn spawn(recipe: &Recipe<'_>, file: &Path, version: &str, address: IpAddr) -> Result<Self, PathError> {
        let directory = &recipe.directory;
        let failed = |error: io::Error| failure(recipe, &error);
        let prepared = Prepared::new(recipe, address)?;
        let log = File::create(directory.join(LOG)).map_err(failed)?;
        let child = prepared
            .command(recipe, file)?
            .stdout(Stream::File(log.try_clone().map_err(failed)?))
            .stderr(Stream::File(log))
            .own_group()
            .dies_with_parent(recipe.death_signal)
            .spawn()?;
        let (title, version) = (recipe.program.title, version.to_owned());
        let Prepared { port, text } = prepared;
        let config = (directory.join(recipe.config_name), text);
        Ok(Self { title, child, directory: directory.clone(), port, version, config })
    }

    /// The summary of its configuration, as long as that is the one with which it started.
    pub(super) fn config_state<'s>(&self, summary: &'s str) -> &'s str {
        let (path, text) = &self.config;
        let is_it = fs::read_to_string(path).is_ok_and(|now| now == *text);
        if is_it { summary } else { "not the one with which it started" }
    }

    fn prove(&mut self, expected: Expected<'_>) -> Result<Answered, PathError> {
        let (port, title) = (self.port(), self.title);
        let proof = readiness::prove(port, expected, || self.check())?;
        proof.map_err(|reason| {
            PathError::new(format!("get the origin's answer from {title}: {reason}{}", self.last_words()))
        })
    }

    /// Whether it still runs.
    pub(super) fn check(&mut self) -> Result<(), PathError> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(exit) => {
                let words = self.last_words();
                Err(PathError::new(format!("keep {} running: it {exit}{words}", self.title)))
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    /// Where it listens.
    pub(super) fn port(&self) -> u16 {
        self.port.number()
    }

    /// Datagrams that the kernel dropped at its UDP sockets, if it has any at its port.
    pub(super) fn datagrams_dropped(&self) -> Result<Option<u64>, PathError> {
        Ok(datagrams_dropped(self.pid(), self.port())?)
    }

    /// Datagrams that the kernel dropped at all UDP sockets of its network namespace, if it has any at its port.
    pub(super) fn datagrams_dropped_in_namespace(&self) -> Result<Option<u64>, PathError> {
        let has_sockets = self.datagrams_dropped()?.is_some();
        Ok(has_sockets.then(|| network::datagrams_dropped_in_namespace(self.pid())).transpose()?)
    }

    /// Asks through a socket in the program's directory, and returns the answer.
    pub(super) fn ask(&self, socket: &str, question: &str) -> io::Result<String> {
        let directory = File::open(&self.directory)?;
        // Through the open directory, as a whole path may be too long.
        let mut stream = UnixStream::connect(format!("/proc/self/fd/{}/{socket}", directory.as_raw_fd()))?;
        stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
        stream.write_all(question.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Ends it and removes its files.
    pub(super) fn stop(&mut self) -> Result<(), PathError> {
        self.child.terminate(GRACE)?;
        fs::remove_dir_all(&self.directory)
            .map_err(|error| PathError::new(format!("remove {}: {error}", self.directory.display())))
    }

    fn last_words(&self) -> String {
        let log = self.log();
        if log.trim().is_empty() { String::new() } else { format!("; its last words: {}", log.trim()) }
    }

    /// The end of what it has written, from a line's start.
    fn log(&self) -> String {
        let read = || {
            let mut file = File::open(self.directory.join(LOG))?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS_BYTES)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok::<_, io::Error>((length > LAST_WORDS_BYTES, bytes))
        };
        // Without a log there are no last words.
        let Ok((is_cut, bytes)) = read() else { return String::new() };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match text.split_once('\n') {
            Some((_, whole_lines)) if is_cut => whole_lines.to_owned(),
            _ => text,
        }
    }
}

/// A program's directory with its files.
struct Prepared {
    port: FreePort,
    /// The configuration.
    text: String,
}

impl Prepared {
    fn new(recipe: &Recipe<'_>, address: IpAddr) -> Result<Self, PathError> {
        let directory = &recipe.directory;
        let failed = |error: io::Error| failure(recipe, &error);
        make_private(directory)?;
        remove_sockets(directory).map_err(failed)?;
        let port = FreePort::at(address).map_err(failed)?;
        let text = (recipe.config)(port.number()).map_err(PathError::new)?;
        fs::write(directory.join(recipe.config_name), &text).map_err(failed)?;
        for (name, text) in &recipe.environment.files {
            fs::write(directory.join(name), text).map_err(failed)?;
        }
        for secret in &recipe.secrets {
            fs::copy(secret, directory.join(secret.file_name().unwrap_or_default())).map_err(failed)?;
        }
        File::create(directory.join(LOG)).map_err(failed)?;
        if recipe.is_nobody {
            give_to_nobody(directory)?;
        }
        Ok(Self { port, text })
    }

    /// The command that starts the program in there.
    fn command(&self, recipe: &Recipe<'_>, file: &Path) -> Result<Command, PathError> {
        let directory = &recipe.directory;
        let variables = recipe.environment.variables.iter();
        let command = variables.fold(Command::new(file), |command, (name, value)| command.env(name, value));
        let command = if recipe.is_nobody { command.as_nobody() } else { command };
        let stdin = File::open(directory).map_err(|error| failure(recipe, &error))?;
        Ok(command
            .no_new_privileges()
            .args(recipe.arguments)
            .working_directory(recipe.working_directory.map_or(directory.as_path(), Path::new))
            .stdin(Stream::File(stdin)))
    }
}

fn failure(recipe: &Recipe<'_>, error: &io::Error) -> PathError {
    let directory = recipe.directory.display();
    PathError::new(format!("prepare {} in {directory}: {error}", recipe.program.title))
}

/// The program's objections to its configuration, with the lines that it means.
fn objections(said: &str, config_name: &str, text: &str) -> String {
    // HAProxy says in the end, once or twice, that there were faults.
    let is_fault = |line: &&str| {
        (line.contains("[ALERT]") || line.contains("[emerg]"))
            && !line.contains("rrors found in configuration")
            && !line.contains("rror(s) found")
    };
    let faults: Vec<String> =
        said.lines().filter(is_fault).map(|line| objection(line, config_name, text)).collect();
    match faults.as_slice() {
        [] => said.lines().last().unwrap_or("it says nothing").trim().to_owned(),
        faults => faults[..faults.len().min(OBJECTIONS_MAX)].join("; "),
    }
}

/// One of them, without what concerns the process alone; a number of a line means nothing to people who have not seen the file.
fn objection(line: &str, config_name: &str, text: &str) -> String {
    let words =
        line.split_once("config : ").or_else(|| line.split_once("[emerg] ")).map_or(line, |(_, rest)| rest);
    // nginx begins with the numbers of its process and its thread.
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'#');
    let words =
        words.split_once(": ").filter(|(begin, _)| is_number(begin)).map_or(words, |(_, rest)| rest).trim();
    let after = words.rsplit_once(&format!("{config_name}:")).map_or("", |(_, rest)| rest);
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    let meant = digits.parse::<usize>().ok().and_then(|number| text.lines().nth(number.checked_sub(1)?));
    match meant {
        Some(meant) => format!("{words}; that line is `{}`", meant.trim()),
        None => words.to_owned(),
    }
}

/// Where a program's standard output and standard error go.
const LOG: &str = "log";

/// Removes the sockets of an attempt that failed: a program cannot bind to a file that is there.
fn remove_sockets(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_socket() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
