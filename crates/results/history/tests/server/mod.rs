//! A private Postgres server for tests, in a temporary directory and reached by a socket there. Dropping the
//! value stops it.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Debian's number of `nobody` and `nogroup`: Postgres refuses to run as root.
const NOBODY: u32 = 65_534;
const LIMIT: Duration = Duration::from_secs(180);

/// A running server.
pub struct Server {
    programs: PathBuf,
    directory: tempfile::TempDir,
    child: Child,
}

impl Server {
    /// Starts a server. The error says why there is none, so that a test can report why it is skipped.
    pub fn start() -> Result<Self, &'static str> {
        let programs = programs().ok_or("there is no Postgres (package postgresql)")?;
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        if rustix::process::geteuid().is_root() {
            chown(directory.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let made = unprivileged(&programs.join("initdb"))
            .args(["--username=plumb", "--auth=trust", "--no-sync", "--encoding=UTF8", "--pgdata"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let log = fs::File::create(directory.path().join("log")).unwrap();
        let child = unprivileged(&programs.join("postgres"))
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=50", "-k"])
            .arg(directory.path())
            .arg("-D")
            .arg(&data)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { programs, directory, child };
        let begun = Instant::now();
        // The last line of this file is the server's state.
        while !fs::read_to_string(data.join("postmaster.pid")).is_ok_and(|text| text.contains("ready")) {
            let log = || fs::read_to_string(server.directory.path().join("log")).unwrap_or_default();
            assert!(begun.elapsed() < LIMIT, "the server does not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// The URL of a new database.
    pub fn database(&self, name: &str) -> String {
        let made = Command::new(self.programs.join("createdb"))
            .args(["--username=plumb", "--host"])
            .arg(self.directory.path())
            .arg(name)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        format!("postgres:///{name}?user=plumb&host={}", self.directory.path().display())
    }

    /// Runs a statement in a database.
    pub fn sql(&self, database: &str, statement: &str) -> String {
        let done = Command::new(self.programs.join("psql"))
            .args(["--no-psqlrc", "--tuples-only", "--no-align", "--username=plumb", "--host"])
            .arg(self.directory.path())
            .args(["--dbname", database, "--command", statement])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // SIGINT asks Postgres for a fast shutdown: it closes all connections and exits.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
        let _ = self.child.wait();
    }
}

/// A program that runs as `nobody` if this process is root. The kernel interrupts it when this thread ends.
fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    }
    command.args(["--pdeathsig", "INT"]).arg(program).current_dir("/");
    command
}

/// The folder of the server's programs, which Debian keeps out of `PATH`.
fn programs() -> Option<PathBuf> {
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all: Vec<PathBuf> = debian.chain(std::env::split_paths(&path)).collect();
    let has = |directory: &PathBuf| {
        ["postgres", "initdb", "createdb", "psql"].iter().all(|name| directory.join(name).is_file())
    };
    all.retain(has);
    all.into_iter().next()
}
