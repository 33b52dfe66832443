//! Checks of combinations of settings, which no single field can check.

use plumb_codec::PAGE_BYTES;
use plumb_path::SettingsFault;

use crate::qemu;
use crate::settings::{MigrationSettings, SystemKind};

/// The most channels. More of them would only take turns.
const CHANNELS_MAX: u32 = 255;

/// The time by which a slot may exceed its window, so that the side that waits for it does not give up first.
const LIMIT_SLACK_NS: u64 = 45_000_000_000;

/// Checks combinations of settings.
///
/// # Errors
/// The first fault, with its key.
pub fn check(settings: &MigrationSettings) -> Result<(), SettingsFault> {
    let system = &settings.system;
    if system.memory.0 == 0 || !system.memory.0.is_multiple_of(PAGE_BYTES as u64) {
        return Err(SettingsFault::new("system.memory", "must be a multiple of 4 KiB, such as `1 GiB`"));
    }
    if !(1..=CHANNELS_MAX).contains(&system.channels) {
        return Err(SettingsFault::new(
            "system.channels",
            format!("must be a number from 1 to {CHANNELS_MAX}"),
        ));
    }
    if system.cap.0.is_some_and(|cap| cap.0 < 1.0) {
        return Err(SettingsFault::new("system.cap", "must be a rate above 0, or `none`"));
    }
    system
        .content
        .check()
        .map_err(|error| SettingsFault::new("system.content", format!("failed to {error}")))?;
    system.link.check_between_ends()?;
    let (limit, longest) =
        (settings.load.time_limit, settings.load.duration.0.saturating_add(LIMIT_SLACK_NS));
    if limit.0 == 0 || limit.0 > longest {
        return Err(SettingsFault::new(
            "load.time_limit",
            format!(
                "must be above 0 and at most {}, which is `load.duration` and 45 s",
                plumb_model::Span(longest)
            ),
        ));
    }
    if settings.load.max_rounds == 0 {
        return Err(SettingsFault::new("load.max_rounds", "must be a number above 0"));
    }
    match system.kind {
        SystemKind::Plumb => Ok(()),
        SystemKind::Qemu => qemu::check(settings),
    }
}
