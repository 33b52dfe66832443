//! Checks that no single field of the settings can make.

use plumb_devices::LANES;
use plumb_path::SettingsFault;

use crate::settings::CryptoSettings;
use crate::tool;

/// More in flight would only make each wait longer.
const IN_FLIGHT_MAX: u32 = 4096;
/// The largest block, far above a TLS record.
const BLOCK_BYTES_MAX: u64 = 16 << 20;

/// Checks what no single field can.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(settings: &CryptoSettings) -> Result<(), SettingsFault> {
    let load = &settings.load;
    if !(1..=LANES as u32).contains(&load.batch) {
        return Err(SettingsFault::new("load.batch", format!("must be a number from 1 to {LANES}")));
    }
    if !(1..=IN_FLIGHT_MAX).contains(&load.in_flight) {
        return Err(SettingsFault::new(
            "load.in_flight",
            format!("must be a number from 1 to {IN_FLIGHT_MAX}"),
        ));
    }
    if !(1..=BLOCK_BYTES_MAX).contains(&load.block.0) {
        return Err(SettingsFault::new("load.block", "must be a size from 1 B to 16 MiB"));
    }
    if load.duration.0 == 0 {
        return Err(SettingsFault::new("load.duration", "must be longer than 0"));
    }
    tool::check(settings)
}
