//! A program to start, and how.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::{PoisonError, RwLock};

use rustix::process::{getpid, getppid, set_parent_process_death_signal, setsid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space, set_no_new_privs};
use tracing::debug;

use super::capabilities::drop_capabilities;
use super::nobody::become_nobody;
use super::{Child, Detached, Signal, environment};
use crate::Error;
use crate::cpu::{CpuSet, set_affinity};
use crate::time::monotonic_ns;

/// Whether this process starts children. A thread holds it while it starts one.
static MAY_START: RwLock<bool> = RwLock::new(true);

/// Has this process start no more children. When this returns, none is being started, so that all that there are can be killed:
/// a thread that starts one program after another would otherwise start the next one, which nothing would end.
pub fn start_no_more() {
    *MAY_START.write().unwrap_or_else(PoisonError::into_inner) = false;
}

/// Where one of a child's standard streams leads.
#[derive(Debug)]
pub enum Stream {
    /// Nowhere.
    Null,
    /// Where this process's leads.
    Inherit,
    /// To this process, by a pipe that is taken from the [`Child`].
    Piped,
    /// Into a file, or out of one.
    File(File),
}

impl From<Stream> for Stdio {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Null => Self::null(),
            Stream::Inherit => Self::inherit(),
            Stream::Piped => Self::piped(),
            Stream::File(file) => file.into(),
        }
    }
}

/// A program to start as a child: its arguments, surroundings and bounds.
///
/// Of the environment, named variables are inherited (`environment.rs`); more are set here. The working directory is
/// inherited unless it is set. The three standard streams lead nowhere unless they are set, as a stray line must not spoil
/// this process's own output.
#[derive(Debug)]
#[expect(clippy::disallowed_types, reason = "this is the one place that starts processes")]
pub struct Command {
    inner: std::process::Command,
    cpus: Option<CpuSet>,
    network: Option<OwnedFd>,
    is_own_group: bool,
    parent_death_signal: Option<Signal>,
    is_nobody: bool,
    is_without_new_privileges: bool,
    is_without_capabilities: bool,
    is_own_session: bool,
}

#[expect(clippy::disallowed_types, reason = "this is the one place that starts processes")]
impl Command {
    /// The program: a path, or a name to be looked up on PATH (see [`which`](super::which) for names
    /// in the system administrator's directories).
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let mut inner = std::process::Command::new(program);
        inner.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        inner.env_clear().envs(environment::passed_on());
        Self {
            inner,
            cpus: None,
            network: None,
            is_own_group: false,
            parent_death_signal: None,
            is_nobody: false,
            is_without_new_privileges: false,
            is_without_capabilities: false,
            is_own_session: false,
        }
    }

    /// Sets the name by which the program is called, its argument 0; the program as it was asked for if absent.
    #[must_use]
    pub fn called(mut self, name: impl AsRef<OsStr>) -> Self {
        self.inner.arg0(name);
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.inner.arg(argument);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.inner.args(arguments);
        self
    }

    /// Sets a variable of the child's environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.inner.env(name, value);
        self
    }

    /// Passes on variables of this process's own environment by their names, where they are set.
    #[must_use]
    pub fn inherit<N: AsRef<OsStr>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        for name in names {
            if let Some(value) = std::env::var_os(&name) {
                self.inner.env(name, value);
            }
        }
        self
    }

    /// Runs the child as `nobody`, from before its program begins; see [`can_run_as_nobody`](super::can_run_as_nobody). Its
    /// working directory is entered before that, so it need not be reachable for `nobody`.
    #[must_use]
    pub fn as_nobody(mut self) -> Self {
        self.is_nobody = true;
        self
    }

    /// Keeps the child, and what it starts, from getting rights by executing set-user-ID programs (`PR_SET_NO_NEW_PRIVS`).
    #[must_use]
    pub fn no_new_privileges(mut self) -> Self {
        self.is_without_new_privileges = true;
        self
    }

    /// Takes root's capabilities from the child and all that it starts, but for reading the files of other users.
    #[must_use]
    pub fn without_capabilities(mut self) -> Self {
        self.is_without_capabilities = true;
        self
    }

    /// Sets the child's working directory.
    #[must_use]
    pub fn working_directory(mut self, directory: impl AsRef<Path>) -> Self {
        self.inner.current_dir(directory);
        self
    }

    /// Sets where the child's standard input comes from.
    #[must_use]
    pub fn stdin(mut self, stream: Stream) -> Self {
        self.inner.stdin(stream);
        self
    }

    /// Sets where the child's standard output goes.
    #[must_use]
    pub fn stdout(mut self, stream: Stream) -> Self {
        self.inner.stdout(stream);
        self
    }

    /// Sets where the child's standard error goes.
    #[must_use]
    pub fn stderr(mut self, stream: Stream) -> Self {
        self.inner.stderr(stream);
        self
    }

    /// Lets the child, and what it starts, run on these CPUs only. It is pinned before its program
    /// begins, so that no thread of it is ever elsewhere.
    #[must_use]
    pub fn pin(mut self, cpus: CpuSet) -> Self {
        self.cpus = Some(cpus);
        self
    }

    /// Starts the child inside a network namespace: a [`Namespace`](crate::namespace::Namespace), or an open file of one.
    ///
    /// # Errors
    ///
    /// When this process has no descriptor left to hold it until then.
    pub fn network(mut self, namespace: &impl AsFd) -> Result<Self, Error> {
        let held = namespace.as_fd().try_clone_to_owned();
        self.network = Some(held.map_err(|cause| Error::System { what: "hold a network namespace", cause })?);
        Ok(self)
    }

    /// Puts the child into a separate process group: a Ctrl-C on the terminal does not reach it, and
    /// whatever of the group outlives the child is killed when the child is reaped.
    #[must_use]
    pub fn own_group(mut self) -> Self {
        self.is_own_group = true;
        self
    }

    /// Has the kernel send `signal` to the child when its parent dies, even if by SIGKILL.
    ///
    /// To the kernel the parent is the *thread* that starts the child (`PR_SET_PDEATHSIG`, prctl(2)):
    /// start it from a thread that lives as long as the child is to live. Children of the child do
    /// not inherit this: choose a signal on which it ends them. The kernel forgets it when the child
    /// executes a set-user-ID program.
    #[must_use]
    pub fn dies_with_parent(mut self, signal: Signal) -> Self {
        self.parent_death_signal = Some(signal);
        self
    }

    /// Starts it.
    ///
    /// # Errors
    ///
    /// When the program is not there or not executable, or a stream, the directory or a CPU is not to
    /// be had.
    pub fn spawn(self) -> Result<Child, Error> {
        let program = self.inner.get_program().to_string_lossy().into_owned();
        match self.spawn_unlogged() {
            Ok(child) => Ok(child.logged(program)),
            Err(error) => {
                debug!(program, error = %error, "failed to start a process");
                Err(error)
            }
        }
    }

    /// As [`Command::spawn`], without a line in the log about its start and its end: for what is measured.
    pub(super) fn spawn_unlogged(mut self) -> Result<Child, Error> {
        if self.is_own_group {
            self.inner.process_group(0);
        }
        self.prepare_child();
        let may_start = MAY_START.read().unwrap_or_else(PoisonError::into_inner);
        if !*may_start {
            return Err(self.failure(io::Error::other("this process is about to end")));
        }
        let started_ns = monotonic_ns();
        let child = self.inner.spawn().map_err(|cause| self.failure(cause))?;
        Child::adopt(child, self.is_own_group, started_ns).map_err(|cause| self.failure(cause))
    }

    /// Starts it as a process that outlives this one: in its own session, and with nothing that ends it when this process ends.
    /// The caller keeps the [`Detached`], by which the process is found again.
    ///
    /// # Errors
    ///
    /// As [`Command::spawn`].
    pub fn spawn_detached(mut self) -> Result<Detached, Error> {
        self.is_own_session = true;
        self.prepare_child();
        let may_start = MAY_START.read().unwrap_or_else(PoisonError::into_inner);
        if !*may_start {
            return Err(self.failure(io::Error::other("this process is about to end")));
        }
        let child = self.inner.spawn().map_err(|cause| self.failure(cause))?;
        Detached::with_pid(child.id()).ok_or(Error::NoProcess { pid: child.id() })
    }

    /// Has the child change what only it can change itself, between fork and exec.
    ///
    /// A child without such changes, whose program is a path, is started by `posix_spawn`: that copies no page table of this
    /// process, which would count as the child's own start-up.
    fn prepare_child(&mut self) {
        let mask = self.cpus.as_ref().map(CpuSet::to_mask);
        let (signal, parent) = (self.parent_death_signal, getpid());
        let network = self.network.take();
        let (is_nobody, is_without_new_privileges) = (self.is_nobody, self.is_without_new_privileges);
        let is_without_capabilities = self.is_without_capabilities;
        let is_own_session = self.is_own_session;
        let is_changed = is_nobody || is_without_new_privileges || is_without_capabilities || is_own_session;
        if mask.is_none() && signal.is_none() && network.is_none() && !is_changed {
            return;
        }
        let prepare = move || {
            if let Some(network) = &network {
                move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?;
            }
            mask.as_deref().map_or(Ok(()), set_affinity)?;
            if is_own_session {
                setsid()?;
            }
            if is_nobody {
                become_nobody()?;
            }
            if is_without_new_privileges {
                set_no_new_privs(true)?;
            }
            if is_without_capabilities {
                drop_capabilities()?;
            }
            // After the change of user, with which the kernel forgets the signal.
            let Some(signal) = signal else { return Ok(()) };
            set_parent_process_death_signal(Some(signal))?;
            // A parent that died before the call above will never be reported: by then the child has another one.
            if getppid() == Some(parent) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
        };
        // SAFETY: between fork and exec `prepare` makes system calls only; it takes no lock and
        // allocates nothing, as its mask is ready and an error from a number holds no memory.
        unsafe { self.inner.pre_exec(prepare) };
    }

    fn failure(&self, cause: io::Error) -> Error {
        let program = self.inner.get_program().to_string_lossy().into_owned();
        Error::Spawn { program, cpus: self.cpus.clone(), cause }
    }
}
