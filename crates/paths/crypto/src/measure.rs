//! Measurements of devices: operations per second, time and CPU time per operation, of one thread.
//!
//! Private-key operations run in a closed loop: a fixed number is in flight, a batcher forms passes of them, and each that is
//! done is followed by the next. AEAD and hashes run one after another over blocks. The clock is the elapsed time, not
//! the user time that `openssl speed` takes unless it is told otherwise. A fast device that is wrong is worth nothing, so
//! that each can be asked for known answers first ([`check_answers`]).

mod answers;
mod bulk;
mod closed_loop;
pub(crate) mod openssl_speed;
mod series;
mod sweep;
mod tally;
mod work;

use std::sync::Arc;

use plumb_devices::{Counters, Device, DeviceError, DeviceKind};
use plumb_host::demand::CpuSupply;
use plumb_host::time::monotonic_ns;
use plumb_model::Measurement;
use plumb_path::{Mark, Window};

pub use crate::algorithm::Algorithm;
pub use answers::{Answers, check_answers};
pub use series::{Fill, Series, fill};
pub use sweep::{Absent, Keys, Point, Row, Source, Sweep};
pub use work::Work;

use self::bulk::Bulk;
use self::closed_loop::ClosedLoop;
use self::tally::Tally;
use crate::error::CryptoError;

/// A device with work for it, ready to be measured.
#[derive(Debug)]
pub struct Bench {
    device: DeviceKind,
    library: String,
    work: Work,
    worker: Worker,
}

#[derive(Debug)]
enum Worker {
    PrivateKey(Box<ClosedLoop>),
    Bulk(Bulk),
}

impl Worker {
    /// Does one pass of private-key operations, or one burst of blocks.
    fn step(&mut self, tally: &mut Tally) {
        match self {
            Self::PrivateKey(worker) => worker.step(tally),
            Self::Bulk(worker) => worker.step(tally),
        }
    }

    fn in_flight(&self) -> u64 {
        match self {
            Self::PrivateKey(worker) => worker.in_flight(),
            Self::Bulk(_) => 1,
        }
    }

    fn counters(&self) -> Option<&Arc<Counters>> {
        match self {
            Self::PrivateKey(worker) => Some(worker.counters()),
            Self::Bulk(_) => None,
        }
    }
}

impl Bench {
    /// Opens the device and prepares the work. Signatures take a private key in DER, see
    /// [`generate_key`](plumb_devices::generate_key).
    ///
    /// # Errors
    ///
    /// When the device is not there, does not do the algorithm, or cannot use the key.
    pub fn new(device: DeviceKind, work: Work, key: Option<&[u8]>) -> Result<Self, CryptoError> {
        if !work.algorithm.is_done_by(device) {
            return Err(CryptoError::NotDone { device, algorithm: work.algorithm });
        }
        let library = device.probe().map_err(|cause| DeviceError::Unavailable { device, cause })?.version;
        let worker = match work.algorithm.exchange() {
            _ if work.algorithm.is_bulk() => Worker::Bulk(Bulk::new(device, work)?),
            Some(group) => {
                Worker::PrivateKey(Box::new(ClosedLoop::exchanging(Device::open(device)?, group, work)?))
            }
            None => {
                let open = Device::open(device)?;
                let key = open.signing_key(key.unwrap_or_default())?;
                if work.algorithm.signature() != Some(key.kind()) {
                    let (key, algorithm) = (key.kind().name(), work.algorithm);
                    return Err(CryptoError::OtherKey { device, key, algorithm });
                }
                Worker::PrivateKey(Box::new(ClosedLoop::signing(open, key, work)))
            }
        };
        Ok(Self { device, library, work, worker })
    }

    /// Warms up, and measures one window. It ends with the pass in which its time runs out, and has at least one
    /// operation, also where this thread did not get a CPU all the time.
    ///
    /// The warm-up is as long as it takes for the number in flight to have gone through once, whatever its time: those who
    /// begin all at once wait less than those who come after them.
    pub fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Measurement {
        let started_ns = monotonic_ns();
        let mut warmup = Tally::new(started_ns);
        while monotonic_ns().saturating_sub(started_ns) < window.warmup_ns
            || warmup.ended() < self.worker.in_flight()
        {
            self.worker.step(&mut warmup);
        }
        let supply = CpuSupply::now();
        mark(Mark::Opened);
        let before = self.worker.counters().map(|counters| counters.totals());
        let mut tally = Tally::new(monotonic_ns());
        while tally.elapsed_ns(monotonic_ns()) < window.window_ns || tally.ended() == 0 {
            self.worker.step(&mut tally);
            if let Some((work, elapsed_ns)) = tally.second_passed() {
                mark(Mark::Progress { work, elapsed_ns });
            }
        }
        let mut measurement = tally.close(monotonic_ns(), &supply);
        let after = self.worker.counters().map(|counters| counters.totals());
        mark(Mark::Closed);
        self.observe(&mut measurement, before.zip(after));
        measurement
    }

    /// Writes down which device it was, and what it counted itself.
    fn observe(
        &self,
        measurement: &mut Measurement,
        totals: Option<(plumb_devices::Totals, plumb_devices::Totals)>,
    ) {
        let work = measurement.work;
        let mut observe = |property: &str, value: &str, count: u64| {
            if count > 0 {
                let values = measurement.observed.entry(property.to_owned()).or_default();
                values.insert(value.to_owned(), count);
            }
        };
        observe("device", self.device.name(), work);
        observe("library", &self.library, work);
        let Some((before, after)) = totals else {
            observe("operations", self.work.algorithm.name(), work);
            return;
        };
        let done = after.since(&before);
        for kind in plumb_devices::OperationKind::ALL {
            observe("operations", kind.name(), done.operations_of(kind));
        }
        for (lanes, passes) in (1..).zip(done.fill) {
            observe("passes", &format!("{lanes}"), passes);
        }
        observe("faults", "caught", done.faults_caught);
    }
}
