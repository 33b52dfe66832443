//! The two sides of a slot: a destination as the system, a source as the load.
//!
//! A window is a number of migrations, one after the other. Each goes to a destination with fresh memory, and is compared afterwards. CPU
//! time counts on both sides, from the start of a migration until the guest runs at the destination. The time between two migrations
//! counts only towards the length of the window.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use plumb_host::time::monotonic_ns;
use plumb_model::{CpuCost, Measurement};
use plumb_path::link::LinkedEnds;
use plumb_path::{Load, Mark, PathError, Snapshot, System, Window, read_target};
use serde_json::Value;

use super::destination::{Destination, DestinationAddress};
use super::report::{self, Migrations};
use super::source::Source;
use crate::settings::{MigrationSettings, Tls};

/// The time between two reports of a migration's progress, in MiB on the wire.
const PROGRESS_NS: u64 = 250_000_000;

/// The destination's counter of bytes from the channels' sockets, by the kernel's count.
pub(super) const WIRE_BYTES: &str = "wire_bytes";
/// The destination's counter of packets that it restored.
pub(super) const COMPRESSED_PACKETS: &str = "compressed_packets";
/// The destination's counter of regions of memory that it hashed for a comparison.
pub(super) const REGIONS: &str = "regions";

/// A destination as a system.
#[derive(Debug)]
pub struct DestinationSystem {
    destination: Destination,
}

impl DestinationSystem {
    /// Starts a destination on a free port of loopback, or behind a link.
    ///
    /// # Errors
    /// When no port is free, or the link cannot be made.
    pub fn start(settings: &MigrationSettings) -> Result<Self, PathError> {
        let is_encrypted = settings.system.tls == Tls::On;
        let destination = if settings.system.link.is_empty() {
            Destination::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), is_encrypted)?
        } else {
            Destination::behind(Arc::new(LinkedEnds::join(&settings.system.link)?), is_encrypted)?
        };
        Ok(Self { destination })
    }
}

impl System for DestinationSystem {
    fn target(&self) -> Value {
        serde_json::to_value(self.destination.target()).unwrap_or_default()
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let totals = self.destination.totals();
        let mut snapshot = Snapshot {
            cpu: CpuCost {
                user_ns: totals.cpu.user_ns,
                system_ns: totals.cpu.system_ns,
                ..CpuCost::default()
            },
            ..Snapshot::default()
        };
        let counters = [
            (WIRE_BYTES, totals.wire_bytes),
            (COMPRESSED_PACKETS, totals.compressed_packets),
            (REGIONS, totals.regions),
        ];
        snapshot.counters.extend(counters.map(|(name, count)| (name.to_owned(), count)));
        if let Some(link) = self.destination.link() {
            link.observe(&mut snapshot)?;
        }
        Ok(snapshot)
    }

    fn stop(&mut self) -> Result<(), PathError> {
        Ok(())
    }
}

/// A source as a load.
#[derive(Debug)]
pub struct SourceLoad {
    source: Source,
    settings: MigrationSettings,
}

impl SourceLoad {
    /// Fills the memory of a guest that is to move to `target`.
    ///
    /// # Errors
    /// When there is not enough memory, or the target cannot be read.
    pub fn prepare(settings: &MigrationSettings, target: &Value) -> Result<Self, PathError> {
        let target: DestinationAddress = read_target(target)?;
        let source = Source::new(settings, target)?;
        Ok(Self { source, settings: settings.clone() })
    }

    fn migrate_into(&self, migrations: &mut Migrations, mark: &mut dyn FnMut(Mark)) -> Result<(), PathError> {
        let before: u64 = migrations.outcomes.iter().map(|outcome| outcome.wire_bytes).sum();
        let mut told_ns = migrations.opened_ns;
        let outcome = self.source.migrate(&mut |sample| {
            if sample.at_ns >= told_ns + PROGRESS_NS {
                told_ns = sample.at_ns;
                let work = (before + sample.bytes) >> 20;
                mark(Mark::Progress { work, elapsed_ns: sample.at_ns - migrations.opened_ns });
            }
        });
        migrations.outcomes.push(outcome?);
        if self.settings.load.stream_limit {
            migrations.stream_limits.push(self.source.stream_limit()?);
        }
        Ok(())
    }
}

impl Load for SourceLoad {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        let started_ns = monotonic_ns();
        while monotonic_ns() - started_ns < window.warmup_ns {
            self.source.migrate(&mut |_| {})?;
        }
        mark(Mark::Opened);
        let opened_ns = monotonic_ns();
        let mut migrations = Migrations { opened_ns, ..Migrations::default() };
        loop {
            self.migrate_into(&mut migrations, mark)?;
            let elapsed_ns = monotonic_ns() - opened_ns;
            if elapsed_ns >= window.window_ns {
                migrations.window_ns = elapsed_ns;
                break;
            }
        }
        mark(Mark::Closed);
        Ok(report::measurement(&self.settings, &migrations, self.source.guest().watch_name()))
    }
}

/// A destination for sources on other hosts.
#[derive(Debug)]
pub struct Listening {
    destination: Destination,
    told: std::cell::Cell<u64>,
}

impl Listening {
    /// Listens at an address.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn start(settings: &MigrationSettings, address: SocketAddr) -> Result<Self, PathError> {
        let destination = Destination::start(address, settings.system.tls == Tls::On)?;
        Ok(Self { destination, told: std::cell::Cell::new(0) })
    }

    /// The address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.destination.target().address
    }

    /// The certificate that sources must trust; `None` without TLS.
    #[must_use]
    pub fn certificate_pem(&self) -> Option<String> {
        self.destination.target().certificate_pem
    }

    /// The events since the last call, a line each.
    #[must_use]
    pub fn news(&self) -> Vec<String> {
        let totals = self.destination.totals();
        let before = self.told.replace(totals.migrations);
        let complete =
            (before..totals.migrations).map(|number| format!("migration {} is complete", number + 1));
        let failed = self.destination.take_error().map(|reason| format!("failed to {reason}"));
        complete.chain(failed).collect()
    }
}
