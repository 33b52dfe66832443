//! A process in a pod, with its standard streams.
//!
//! Its streams are sockets of this process, so that the runner reads and writes them like those of a child.
//! The runtime copies between the sockets and the WebSocket.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::api::{Cluster, innermost};
use crate::error::Error;
use crate::pod::CONTAINER;

/// How long the process may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(9);
/// The size of the buffers between the WebSocket and the sockets, in bytes: a whole program passes through
/// one.
const BUFFER: usize = 1 << 20;
/// How many of the last lines of standard error are kept.
const WORDS_MAX: usize = 8;
/// The longest of these lines.
const WORDS_BYTES_MAX: u64 = 8 << 10;

/// A process in a pod. Dropping it cuts its streams.
pub struct Exec {
    ended: Receiver<String>,
    how: Option<String>,
    words: Arc<Mutex<Vec<String>>>,
    /// Whether silence means that the process is gone.
    is_watched: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl std::fmt::Debug for Exec {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Exec").field("how", &self.how).finish_non_exhaustive()
    }
}

impl Exec {
    /// Starts a process. The sockets are its standard input and output.
    pub(crate) fn start(
        cluster: &Cluster,
        pod: &str,
        command: &[&str],
    ) -> Result<(Self, UnixStream, UnixStream), Error> {
        let failed = |reason: String| Error::Pod { pod: pod.to_owned(), reason };
        let pods: Api<Pod> = Api::namespaced(cluster.client(), cluster.namespace());
        let params = AttachParams::default()
            .container(CONTAINER)
            .stdin(true)
            .stdout(true)
            .stderr(true)
            .max_stdin_buf_size(BUFFER)
            .max_stdout_buf_size(BUFFER);
        let begun =
            cluster.wait(async { timeout(START_TIMEOUT, pods.exec(pod, command.to_vec(), &params)).await });
        let process = match begun {
            Ok(Ok(process)) => process,
            Ok(Err(error)) => return Err(failed(format!("start a process in it: {}", innermost(&error)))),
            Err(_) => return Err(failed(format!("no process started in it within {START_TIMEOUT:?}"))),
        };
        let streams = || -> std::io::Result<_> { Ok((UnixStream::pair()?, UnixStream::pair()?)) };
        let ((input, ours_in), (output, ours_out)) = streams().map_err(|error| failed(error.to_string()))?;
        let (sender, ended) = channel();
        let words = Arc::new(Mutex::new(Vec::new()));
        let is_watched = Arc::new(AtomicBool::new(false));
        let (heard, watched) = (Arc::clone(&words), Arc::clone(&is_watched));
        let task = cluster.runtime().spawn(async move {
            let how = carry(process, (ours_in, ours_out), heard, &watched).await;
            // The receiver may have been dropped.
            let _ = sender.send(how);
        });
        Ok((Self { ended, how: None, words, is_watched, task }, input, output))
    }

    /// The last lines of its standard error.
    #[must_use]
    pub fn last_lines(&self) -> Vec<String> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How the process or its streams ended, in words; `None` if it still runs after `wait`.
    pub fn ended(&mut self, wait: Duration) -> Option<&str> {
        if self.how.is_none() {
            self.how = match self.ended.recv_timeout(wait) {
                Ok(how) => Some(how),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some("the connection was cut".to_owned()),
            };
        }
        self.how.as_deref()
    }

    /// From now on, takes the process for gone after some seconds of silence. A node that fails closes no
    /// connection.
    pub fn end_when_silent(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
    }

    /// Cuts its streams.
    pub fn cut(&self) {
        self.task.abort();
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Copies until the process has ended or is unreachable, and returns how it ended, in words.
async fn carry(
    mut process: AttachedProcess,
    (input, output): (UnixStream, UnixStream),
    heard: Arc<Mutex<Vec<String>>>,
    is_watched: &AtomicBool,
) -> String {
    let (Ok(mut input), Ok(mut output)) = (asynchronous(input), asynchronous(output)) else {
        return "its streams could not be opened".to_owned();
    };
    let (Some(stdin), Some(mut stdout), stderr) = (process.stdin(), process.stdout(), process.stderr())
    else {
        return lost();
    };
    let status = process.take_status();
    let from_process = async {
        let mut buffer = vec![0; CHUNK];
        let is_silent = loop {
            match timeout(SILENCE, stdout.read(&mut buffer)).await {
                Err(_) if is_watched.load(Ordering::Relaxed) => break true,
                Err(_) => {}
                Ok(Ok(length)) if length > 0 => {
                    if output.write_all(&buffer[..length]).await.is_err() {
                        break false;
                    }
                }
                Ok(_) => break false,
            }
        };
        let _ = output.shutdown().await;
        is_silent.then(|| format!("nothing came from it for {SILENCE:?}"))
    };
    let complaints = tokio::spawn(async move {
        let Some(stderr) = stderr else { return };
        let (mut stderr, mut line) = (BufReader::new(stderr), Vec::new());
        // A longer line is split.
        while let Ok(1..) = (&mut stderr).take(WORDS_BYTES_MAX).read_until(b'\n', &mut line).await {
            note(&heard, String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned());
            line.clear();
        }
    });
    // Input may stay open for ever, so only the output is waited for.
    let is_gone = tokio::select! {
        is_gone = from_process => is_gone,
        () = feed(&mut input, stdin, STALL) => Some(format!("it read nothing for {STALL:?}")),
    };
    if let Some(how) = is_gone {
        complaints.abort();
        return how;
    }
    // Standard error may still hold its last lines.
    let _ = timeout(STATUS_TIMEOUT, complaints).await;
    match status {
        Some(status) => {
            timeout(STATUS_TIMEOUT, status).await.ok().flatten().map_or_else(lost, |status| said(&status))
        }
        None => lost(),
    }
}

/// Copies input to a process. Returns only if the process does not read a chunk within `stall`: a node that
/// fails closes no connection.
async fn feed(input: &mut (impl AsyncRead + Unpin), mut stdin: impl AsyncWrite + Unpin, stall: Duration) {
    let mut buffer = vec![0; CHUNK];
    // Each end notices by its own stream that the other has closed.
    while let Ok(length @ 1..) = input.read(&mut buffer).await {
        match timeout(stall, stdin.write_all(&buffer[..length])).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => break,
            Err(_) => return,
        }
    }
    let _ = stdin.shutdown().await;
    std::future::pending().await
}

/// How many bytes are copied at a time.
const CHUNK: usize = 1 << 16;
/// How long a process may take to read one chunk. Plumb's processes always read, even on a busy node.
const STALL: Duration = Duration::from_secs(20);
/// How long a watched process may be silent before it counts as gone. It writes something every second.
const SILENCE: Duration = Duration::from_secs(8);
/// How long a process that closed its output may take to report its exit status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

fn lost() -> String {
    "the connection ended".to_owned()
}

fn said(status: &Status) -> String {
    match (status.status.as_deref(), status.message.as_deref()) {
        (Some("Success"), _) => "the process ended".to_owned(),
        (_, Some(message)) if !message.is_empty() => message.to_owned(),
        _ => lost(),
    }
}

fn asynchronous(stream: UnixStream) -> std::io::Result<tokio::net::UnixStream> {
    stream.set_nonblocking(true)?;
    tokio::net::UnixStream::from_std(stream)
}

fn note(heard: &Mutex<Vec<String>>, line: String) {
    let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    if !line.trim().is_empty() {
        heard.push(line);
    }
    if heard.len() > WORDS_MAX {
        heard.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::duplex;

    /// Longer than any step of a test takes.
    const LONG: Duration = Duration::from_secs(20);

    fn wait<T>(what: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(what)
    }

    #[test]
    fn a_process_that_reads_no_more_is_given_up() {
        wait(async {
            let (mut input, mut ours) = duplex(1 << 20);
            let (stdin, _unread) = duplex(16);
            ours.write_all(&[7; 1 << 10]).await.unwrap();
            timeout(LONG, feed(&mut input, stdin, Duration::from_millis(20))).await.unwrap();
        });
    }

    #[test]
    fn a_process_may_wait_for_input_and_then_gets_all_of_it() {
        wait(async {
            let (mut input, mut ours) = duplex(1 << 20);
            let (stdin, mut theirs) = duplex(16);
            let read = async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                ours.write_all(&[7; 1 << 10]).await.unwrap();
                drop(ours);
                let mut all = Vec::new();
                theirs.read_to_end(&mut all).await.unwrap();
                all
            };
            let all = tokio::select! {
                () = feed(&mut input, stdin, Duration::from_millis(50)) => panic!("the process was given up"),
                all = timeout(LONG, read) => all.unwrap(),
            };
            assert_eq!(all, [7; 1 << 10]);
        });
    }
}
