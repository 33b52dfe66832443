//! A tokio runtime on its own thread. Servers run there, so the rest of the program blocks and needs no runtime.
//! [`accept`] bounds the connections of a server.

mod places;

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

pub use places::{Limits, Visitor, accept};

/// A runtime with one thread, and up to `blocking_threads` more for blocking calls.
///
/// # Errors
/// When the process cannot open more descriptors.
pub fn runtime(blocking_threads: usize) -> io::Result<Runtime> {
    Builder::new_current_thread().enable_io().enable_time().max_blocking_threads(blocking_threads).build()
}

/// A runtime on its own thread. Dropping it ends the runtime and its tasks.
#[derive(Debug)]
pub struct Background {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Moves a runtime and its tasks to a thread of this name. When it ends, blocking calls get `grace` to return.
    ///
    /// # Errors
    /// When the process cannot start more threads.
    pub fn start(runtime: Runtime, name: &str, grace: Duration) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel::<()>();
        let work = move || {
            // This returns when the sender is dropped.
            let _ = runtime.block_on(stopped);
            runtime.shutdown_timeout(grace);
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};

    #[test]
    fn tasks_run_until_it_is_dropped() {
        let (sender, received) = channel();
        let runtime = runtime(1).unwrap();
        runtime.spawn(async move {
            sender.send(()).unwrap();
            std::future::pending::<()>().await;
            drop(sender);
        });
        let background = Background::start(runtime, "test", Duration::from_secs(1)).unwrap();
        received.recv().unwrap();
        assert_eq!(received.recv_timeout(Duration::from_millis(20)), Err(RecvTimeoutError::Timeout));
        drop(background);
        assert_eq!(received.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Disconnected));
    }
}
