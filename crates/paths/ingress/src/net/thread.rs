//! A thread that runs an event loop, and how it is told to end.

use plumb_host::epoll::Bell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Signals from other threads to an event loop: wake up, and stop.
#[derive(Debug)]
pub(crate) struct Signals {
    bell: Bell,
    stop: AtomicBool,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self { bell: Bell::new()?, stop: AtomicBool::new(false) }))
    }

    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Whether the loop has to end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
    }
}

/// A running event loop. Dropping it ends the loop and waits for that.
#[derive(Debug)]
pub(crate) struct LoopThread {
    signals: Arc<Signals>,
    thread: Option<JoinHandle<()>>,
}

impl LoopThread {
    /// Starts a thread by a name, so that its CPU time can be told from others'.
    pub(crate) fn start(
        name: String,
        signals: Arc<Signals>,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<Self> {
        let thread = std::thread::Builder::new().name(name).spawn(run)?;
        Ok(Self { signals, thread: Some(thread) })
    }

    /// Whether the loop has ended by itself, which it does only when it cannot go on.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for LoopThread {
    fn drop(&mut self) {
        self.signals.stop();
        if let Some(thread) = self.thread.take() {
            // A loop that panicked has said so on standard error; there is nothing to add.
            let _ = thread.join();
        }
    }
}
