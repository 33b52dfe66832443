//! A keeper on another host, started by OpenSSH's own client.
//!
//! The client is the user's: it has the configuration, keys, jump hosts and shared connections of `ssh HOST`.
//! It never prompts, since nobody watches a run. On the host it starts a POSIX shell. The shell creates a
//! private directory and copies this program if the host lacks this build. It then starts the program as a
//! keeper, and removes the directory at the end.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, copy};
use std::process::ChildStderr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use plumb_host::own_program;
use plumb_host::process::{Child, Command, Stream};

use super::connection::{Connection, Opened};
use crate::connection_error::{ConnectionError, Peer, Step};
use crate::error::{HostError, Unfit};

/// The variable that names another client, with its options.
const CLIENT: &str = "PLUMB_SSH";
/// Never prompts, and notices within seconds that a host does not answer or has stopped answering.
const OPTIONS: [&str; 9] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=8",
    "-o",
    "ServerAliveInterval=2",
    "-o",
    "ServerAliveCountMax=3",
];
/// The variables by which the client finds its keys and its agent.
const ENVIRONMENT: [&str; 6] = ["HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "KRB5CCNAME", "XDG_RUNTIME_DIR"];

/// The first word of the shell's first line, which identifies it.
pub(crate) const SHELL: &str = "plumb-shell";
/// The script that runs on the host. It contains no single quote, so that it can be quoted with them for any
/// login shell. It begins with a line break, because a profile may have left an unfinished line.
///
/// The directory's name identifies the shell that created it, so that the next keeper knows which directories
/// are in use: a shell that is killed while it copies this program cannot remove its own.
pub(crate) const SCRIPT: &str = r#"umask 077
echo
echo "plumb-shell $(uname -s) $(uname -m) $(getconf GNU_LIBC_VERSION 2>/dev/null || echo unknown)"
IFS= read -r build || exit 1
n=$(readlink /proc/self/ns/pid 2>/dev/null | tr -dc 0-9)
d=$(mktemp -d "${TMPDIR:-/tmp}/plumb-$n-$$-XXXXXXXX") || exit 1
trap "rm -rf \"$d\"" EXIT
trap "exit 1" HUP INT TERM
p=$(command -v plumb 2>/dev/null)
if [ -n "$p" ] && [ "$("$p" keep --build 2>/dev/null </dev/null)" = "$build" ]; then
  echo plumb-has
else
  p=$d/plumb
  unpack=cat
  gzip --help >/dev/null 2>&1 </dev/null && unpack="gzip -dc"
  echo "plumb-lacks $unpack"
  IFS= read -r size && head -c "$size" | $unpack > "$p" && chmod 700 "$p" || exit 1
fi
"$p" keep "$d"
"#;

/// How many of the client's last lines are kept.
const WORDS_MAX: usize = 8;
/// The longest of these lines. OpenSSH cuts its own at 1 KiB.
const WORDS_BYTES_MAX: u64 = 8 << 10;
/// How long a silent client may take to end, and how long its last lines may then take. A shared connection
/// can keep its standard error open for ever.
const LAST_WORDS: Duration = Duration::from_secs(2);
const AFTER_THE_END: Duration = Duration::from_millis(500);

/// A running client.
pub(crate) struct Client {
    destination: String,
    child: Child,
    /// The last lines of the client's and the shell's standard error.
    words: Arc<Mutex<Vec<String>>>,
    /// Closed after the last complaint.
    all_words: Receiver<()>,
}

/// The client, with its options.
pub(crate) fn client() -> String {
    std::env::var(CLIENT).unwrap_or_else(|_| "ssh".to_owned())
}

impl Client {
    /// Starts a client, and the shell on the host behind it.
    pub(crate) fn start(destination: &str) -> Result<Opened, HostError> {
        let client = client();
        let mut words = client.split_whitespace();
        let program = words.next().unwrap_or("ssh");
        let mut child = Command::new(program)
            .args(words)
            .args(OPTIONS)
            .arg("--")
            .arg(destination)
            .arg(format!("exec sh -c '{SCRIPT}'"))
            .inherit(ENVIRONMENT)
            .stdin(Stream::Piped)
            .stdout(Stream::Piped)
            .stderr(Stream::Piped)
            .own_group()
            .spawn()
            .map_err(|cause| HostError::Start { what: format!("ssh to {destination}"), cause })?;
        let input = child.take_stdin().expect("its standard input is piped");
        let output = child.take_stdout().expect("its standard output is piped");
        let errors = child.take_stderr().expect("its standard error is piped");
        let words = Arc::new(Mutex::new(Vec::new()));
        let (heard, (end, all_words)) = (Arc::clone(&words), channel());
        std::thread::spawn(move || {
            listen(errors, &heard);
            drop::<Sender<()>>(end);
        });
        let client = Self { destination: destination.to_owned(), child, words, all_words };
        Ok(Opened { connection: Box::new(client), input: Box::new(input), output: Box::new(output) })
    }
}

impl Connection for Client {
    fn trouble(&mut self, step: Step, waited: Option<Duration>) -> ConnectionError {
        let mut exit = None;
        if waited.is_none() {
            exit = self.child.wait_timeout(LAST_WORDS).ok().flatten();
            // Nothing is ever sent: the wait ends when the channel closes or after this time.
            let _ = self.all_words.recv_timeout(AFTER_THE_END);
        }
        let said = self.words.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let peer = Peer::Host { destination: self.destination.clone(), client: client(), exit };
        ConnectionError { step, peer, said, waited }
    }

    fn kill(&mut self) {
        // A client that has already ended needs no kill.
        let _ = self.child.kill();
    }

    fn has_ended(&mut self, wait: Duration) -> bool {
        matches!(self.child.wait_timeout(wait), Ok(Some(_)))
    }
}

fn listen(errors: ChildStderr, heard: &Mutex<Vec<String>>) {
    let mut errors = BufReader::new(errors);
    let mut bytes = Vec::new();
    // A longer line is split.
    while (&mut errors).take(WORDS_BYTES_MAX).read_until(b'\n', &mut bytes).is_ok_and(|length| length > 0) {
        let line = String::from_utf8_lossy(&bytes).trim().to_owned();
        bytes.clear();
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        // OpenSSH's note on a newly learnt host is not a complaint.
        if !line.is_empty() && !line.starts_with("Warning: Permanently added") {
            heard.push(line);
        }
        if heard.len() > WORDS_MAX {
            heard.remove(0);
        }
    }
}

/// The shell's first line: the system, its machine, its C library.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shell {
    pub system: String,
    pub machine: String,
    pub library: String,
}

impl Shell {
    /// Parses the shell's first line; `None` for a line of something else, such as a profile.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix(SHELL)?.strip_prefix(' ')?.splitn(3, ' ').map(str::to_owned);
        Some(Self { system: words.next()?, machine: words.next()?, library: words.next()? })
    }

    /// Why this program cannot run there, if so.
    pub(crate) fn misfit(&self) -> Option<Unfit> {
        let theirs = match self.machine.as_str() {
            "amd64" => "x86_64",
            "arm64" => "aarch64",
            other => other,
        };
        let is_fit = self.system == "Linux" && theirs == std::env::consts::ARCH;
        (!is_fit).then(|| Unfit::Machine { system: self.system.clone(), machine: self.machine.clone() })
    }
}

/// The answer of a shell whose host lacks this build, before the command by which it unpacks the copy.
pub(crate) const LACKS: &str = "plumb-lacks ";

/// This program as a shell expects it, which unpacks it by this command: its size, and its bytes.
pub(crate) fn program(unpack: &str) -> std::io::Result<(u64, Box<dyn Read>)> {
    if unpack.starts_with("gzip") {
        let packed = packed()?;
        return Ok((packed.len() as u64, Box::new(Cursor::new(packed))));
    }
    let program = File::open(own_program())?;
    Ok((program.metadata()?.len(), Box::new(program)))
}

/// This program, compressed once for all hosts that get it at the same time.
fn packed() -> std::io::Result<Arc<[u8]>> {
    static PACKED: Mutex<Option<Weak<[u8]>>> = Mutex::new(None);
    let mut kept = PACKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(packed) = kept.as_ref().and_then(Weak::upgrade) {
        return Ok(packed);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    copy(&mut File::open(own_program())?, &mut encoder)?;
    let packed = Arc::from(encoder.finish()?);
    *kept = Some(Arc::downgrade(&packed));
    Ok(packed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_can_stand_between_single_quotes_and_is_known_by_a_word() {
        assert!(!SCRIPT.contains('\''));
        assert!(SCRIPT.contains(SHELL));
    }

    #[test]
    fn a_shell_is_told_from_a_talkative_profile() {
        let shell = Shell::parse("plumb-shell Linux x86_64 glibc 2.36").unwrap();
        assert_eq!(shell.library, "glibc 2.36");
        assert_eq!(Shell::parse("Welcome to host1"), None);
        let other = Shell { machine: "riscv64".to_owned(), ..shell };
        assert!(other.misfit().unwrap().to_string().starts_with("it runs Linux on riscv64"), "{other:?}");
    }
}
