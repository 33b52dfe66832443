//! A link between two namespaces for kernels that cannot make one slow or bad (netem): two TAP devices, and a thread for each
//! direction that carries frames from one to the other when they are due.
//!
//! It is a wire and no part of what is measured, so its threads run before ordinary ones where the process may ask for that, on any
//! CPU of the process that started this one, and sleep until the next frame: one that polled would take a CPU from the system. Its
//! counts say whether it kept up.

mod carrier;
mod counts;
mod schedule;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;

use self::carrier::Carrier;
pub use self::counts::LinkCounts;
use self::counts::lock;
pub use self::schedule::LinkTerms;
use super::link::Link;
use super::namespace::Namespace;
use crate::Error;
use crate::cpu::{LINK_THREADS, cpus_of_parent};

/// How many frames may wait for a thread of the link, unless the user says otherwise.
const QUEUE_LENGTH: u32 = 10_000;

/// A link and its two devices, which go with it.
#[derive(Debug)]
pub struct TunLink {
    terms: LinkTerms,
    directions: [Direction; 2],
}

#[derive(Debug)]
struct Direction {
    counts: Arc<Mutex<LinkCounts>>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl TunLink {
    /// Joins two namespaces. The devices are down.
    ///
    /// # Errors
    ///
    /// When a name is taken, or the kernel has no TAP devices.
    pub fn start(ends: [(&Namespace, Link<'_>); 2], terms: LinkTerms) -> Result<Self, Error> {
        let [(near, one), (far, two)] = ends;
        let longer = |link: Link<'_>| link.queue_length.or(Some(QUEUE_LENGTH));
        let near = Arc::new(near.add_tap(Link { queue_length: longer(one), ..one })?);
        let far = Arc::new(far.add_tap(Link { queue_length: longer(two), ..two })?);
        let mtu = one.mtu.max(two.mtu);
        let start = |from, to, number| -> io::Result<Direction> {
            let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
            let carrier =
                Carrier::new(from, to, Arc::clone(&bell), mtu, schedule::Schedule::new(terms, number));
            let counts = carrier.counts();
            let thread = std::thread::Builder::new().name(format!("{LINK_THREADS}{number}"));
            let thread = Some(thread.spawn(move || carrier.run())?);
            Ok(Direction { counts, bell, thread })
        };
        let started =
            start(Arc::clone(&near), Arc::clone(&far), 0).and_then(|there| Ok([there, start(far, near, 1)?]));
        let directions = started
            .map_err(|cause| Error::Network { what: format!("start the link of {}", one.name), cause })?;
        Ok(Self { terms, directions })
    }

    /// The effects that it has.
    #[must_use]
    pub fn terms(&self) -> LinkTerms {
        self.terms
    }

    /// The number of CPUs on which its threads may run; 0 if the kernel does not say.
    #[must_use]
    pub fn cpus(&self) -> usize {
        cpus_of_parent().map_or(0, |cpus| cpus.iter().count())
    }

    /// The counts of both directions: from the first end, and to it.
    #[must_use]
    pub fn counts(&self) -> [LinkCounts; 2] {
        self.directions.each_ref().map(|direction| *lock(&direction.counts))
    }
}

impl Drop for Direction {
    fn drop(&mut self) {
        // A bell that cannot ring is full, and rings already.
        let _ = rustix::io::write(&*self.bell, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
