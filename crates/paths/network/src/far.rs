//! A load on another host than its system: it builds its half of the network, and reads that half's counters at the same moments as
//! the system does its own. Evidence holds for both halves together.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use plumb_host::time::monotonic_ns;
use plumb_model::Measurement;
use plumb_path::{Load, Mark, PathError, Snapshot, Window};

use crate::load::any_load;
use crate::options::Placement;
use crate::settings::{Apart, NetworkSettings, NetworkTarget};
use crate::system::half::{Half, of_client};
use crate::system::merged_halves::note;

/// The observed property of ends that have no CPU in common.
pub(crate) const UNSHARED: &str = "ends without a CPU in common";

/// A load with its half of the network.
struct FarLoad {
    load: Box<dyn Load>,
    half: Half,
    /// Whether the ends are to share a CPU and have none in common.
    is_unshared: bool,
}

/// Builds a load's half, and makes sure that the server answers through it.
///
/// # Errors
/// When something cannot be made, or the server does not answer.
pub(crate) fn far_load(
    settings: &NetworkSettings,
    target: &NetworkTarget,
    apart: &Apart,
    number: u32,
) -> Result<impl Load + use<>, PathError> {
    let half = of_client(&settings.system, apart, number)?;
    let target = NetworkTarget { netns: half.netns(), ..target.clone() };
    let is_unshared = settings.load.cpus == Placement::Shared && target.common_cpus()?.is_none();
    let load = any_load(&settings.load, &target).map_err(|error| {
        PathError::new(format!("reach the server's end from this host: {error}; {}", half.way()))
    })?;
    Ok(FarLoad { load, half, is_unshared })
}

impl Load for FarLoad {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        let Self { load, half, is_unshared } = self;
        let (measured, seen) = std::thread::scope(|scope| {
            let (teller, told): (Sender<Mark>, _) = channel();
            let watcher = scope.spawn(|| watch(half, told));
            let measured = load.measure(window, &mut |moment| {
                // A watcher that failed says so at the end.
                let _ = teller.send(moment);
                mark(moment);
            });
            drop(teller);
            let panicked = || Err(PathError::load("read counters: a thread panicked".to_owned()));
            (measured, watcher.join().unwrap_or_else(|_| panicked()))
        });
        let mut measurement = measured?;
        if let Some((opened, closed)) = seen? {
            note(&mut measurement, opened, closed);
        }
        if *is_unshared {
            measurement.observed.insert(UNSHARED.to_owned(), [("yes".to_owned(), 1)].into());
        }
        Ok(measurement)
    }
}

/// Reads the half's counters when the window opens and closes, at the agreed moments where there are any; `None` where it never
/// opened.
fn watch(half: &Half, told: Receiver<Mark>) -> Result<Option<(Snapshot, Snapshot)>, PathError> {
    let look = || {
        let mut snapshot = Snapshot::default();
        half.observe(&mut snapshot).map(|()| snapshot)
    };
    let moments = told.iter().find_map(|mark| match mark {
        Mark::Agreed { open_ns, close_ns } => Some((open_ns, close_ns)),
        Mark::Opened => Some((0, u64::MAX)),
        Mark::Progress { .. } | Mark::Closed => None,
    });
    let Some((open_ns, close_ns)) = moments else { return Ok(None) };
    wait_until(open_ns, &told);
    let opened = look()?;
    wait_until(close_ns, &told);
    Ok(Some((opened, look()?)))
}

/// Waits for a moment, or for the window to close earlier.
fn wait_until(at_ns: u64, told: &Receiver<Mark>) {
    loop {
        let left = Duration::from_nanos(at_ns.saturating_sub(monotonic_ns()));
        match told.recv_timeout(left) {
            Ok(Mark::Closed) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            Ok(_) => {}
        }
    }
}
