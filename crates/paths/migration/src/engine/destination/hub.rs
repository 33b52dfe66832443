//! The state that the threads of a destination share.

use std::collections::BTreeMap;
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumb_host::cpu::{CpuTime, process_cpu_time};
use plumb_model::CpuCost;
use plumb_path::link::LinkedEnds;

use super::super::error::MigrationError;
use super::super::message::Received;
use super::super::wire::tls::Identity;
use super::room::Room;

/// The time limit for a connection to state its purpose.
pub(super) const HELLO_TIMEOUT: Duration = Duration::from_secs(2);

/// The totals of a destination so far. CPU time covers only migrations, from their setup until the guest runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Migrations that were complete.
    pub migrations: u64,
    /// Migrations that failed.
    pub failures: u64,
    /// CPU time.
    pub cpu: CpuTime,
    /// Bytes from the channels' sockets, by the kernel's count.
    pub wire_bytes: u64,
    /// Packets that were compressed.
    pub compressed_packets: u64,
    /// Regions of memory that were hashed for a comparison.
    pub regions: u64,
}

/// A channel that connected for a migration.
pub(super) type Arrival = (u8, TcpStream);

/// The state that the threads of a destination share.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) identity: Option<Identity>,
    pub(super) waiting: Mutex<BTreeMap<u64, Sender<Arrival>>>,
    pub(super) totals: Mutex<Totals>,
    pub(super) last_error: Mutex<Option<String>>,
    pub(super) is_over: AtomicBool,
    pub(super) room: Room,
    pub(super) patience: Duration,
    /// The link through which sources come. Its threads are in this process.
    pub(super) link: Option<Arc<LinkedEnds>>,
}

impl Hub {
    /// The CPU time of this process so far, without the link's.
    pub(super) fn cpu(&self) -> Result<CpuTime, plumb_host::Error> {
        let CpuTime { user_ns, system_ns } = process_cpu_time(std::process::id())?;
        let mut cost = CpuCost { user_ns, system_ns, ..CpuCost::default() };
        if let Some(link) = &self.link {
            link.subtract_link_cpu(&mut cost);
        }
        Ok(CpuTime { user_ns: cost.user_ns, system_ns: cost.system_ns })
    }

    pub(super) fn add(&self, received: &Received) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.migrations += 1;
        totals.cpu += CpuTime { user_ns: received.cpu_user_ns, system_ns: received.cpu_system_ns };
        totals.wire_bytes += received.wire_bytes;
        totals.compressed_packets += received.compressed_packets;
    }

    pub(super) fn add_regions(&self, regions: usize) {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).regions += regions as u64;
    }

    pub(super) fn fail(&self, error: &MigrationError) {
        self.totals.lock().unwrap_or_else(PoisonError::into_inner).failures += 1;
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }
}
