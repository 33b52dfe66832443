//! Known answers of every device, before anything is measured: a fast device that is wrong is worth nothing.

use plumb_crypto::measure::{Keys, Sweep, check_answers};

use super::document::{AnswersDocument, DeviceDocument};
use super::progress::Progress;
use crate::exit::Failure;

/// Checks each device with each algorithm that it is to be measured with, and writes down how many results were right.
///
/// A wrong result ends the command.
pub fn check(
    sweep: &Sweep,
    keys: &mut Keys,
    devices: &mut [DeviceDocument],
    progress: &mut Progress,
) -> Result<(), Failure> {
    for &device in &sweep.devices {
        let mut right = 0;
        for &algorithm in sweep.algorithms.iter().filter(|algorithm| algorithm.is_done_by(device)) {
            progress.show(&format!("known answers of {device}: {algorithm}"));
            right += check_answers(device, algorithm, keys).map_err(Failure::harness)?.results;
        }
        for found in devices.iter_mut().filter(|found| found.name == device.name()) {
            found.known_answers = Some(AnswersDocument { right });
        }
    }
    Ok(())
}
