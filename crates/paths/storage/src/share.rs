//! The load of one of several agents: its part of jobs or depth, of the rate, and of the operations.

use plumb_model::Bytes;
use plumb_path::tool::undivided;
use plumb_path::{Portion, SettingsFault};

use crate::settings::{Driver, LoadSettings, Suite};

/// The agent's part: whole jobs with their regions where there are enough of them, and otherwise a part of each job's depth.
///
/// # Errors
/// When the load cannot be divided among this many agents, with its key.
pub(crate) fn share(whole: &LoadSettings, portion: Portion) -> Result<LoadSettings, SettingsFault> {
    if whole.verify {
        let message = "what is checked must be written by one load agent alone; name one place for the load, or set `verify: false`";
        return Err(SettingsFault::new("load.verify", message));
    }
    if whole.suite != Suite::None {
        let message = "the jobs of a suite do not begin at given moments, as several load agents have to; name one place for the load";
        return Err(SettingsFault::new("load.suite", message));
    }
    if whole.driver != Driver::Native {
        return Err(undivided());
    }
    let operations = |operations| portion.of_at_least(operations, "load.operations");
    let operations = whole.operations.map(operations).transpose()?;
    let rate = |things| whole.rate.map(|rate| portion.of_rate(rate, things));
    if whole.jobs >= portion.of {
        let first = u64::from(portion.before(whole.jobs));
        let offset = Bytes(whole.offset.0.saturating_add(whole.offset_increment.0.saturating_mul(first)));
        let jobs = portion.of_number(whole.jobs);
        return Ok(LoadSettings { jobs, offset, rate: rate(whole.jobs), operations, ..whole.clone() });
    }
    if !whole.access.is_random() {
        let message = format!(
            "{} sequential jobs cannot be divided among {} load agents, as several would use the same blocks; give each a job",
            whole.jobs, portion.of
        );
        return Err(SettingsFault::new("load.jobs", message));
    }
    let depth = portion.of_number_at_least(whole.depth, "load.depth")?;
    Ok(LoadSettings { depth, rate: rate(whole.depth), operations, ..whole.clone() })
}

#[cfg(test)]
mod tests {
    use plumb_model::Rate;

    use super::*;
    use crate::settings::Access;

    fn shares(whole: &LoadSettings, of: u32) -> Result<Vec<LoadSettings>, SettingsFault> {
        (0..of).map(|number| share(whole, Portion { number, of })).collect()
    }

    fn in_flight(shares: &[LoadSettings]) -> u32 {
        shares.iter().map(|share| share.jobs * share.depth).sum()
    }

    #[test]
    fn jobs_are_divided_with_their_regions() {
        let whole = LoadSettings {
            access: Access::Read,
            jobs: 5,
            depth: 4,
            offset: Bytes(100),
            offset_increment: Bytes(10),
            rate: Some(Rate(600.0)),
            operations: Some(7),
            ..LoadSettings::default()
        };
        let shares = shares(&whole, 3).unwrap();
        let regions: Vec<(u32, u64)> = shares.iter().map(|share| (share.jobs, share.offset.0)).collect();
        assert_eq!(regions, [(2, 100), (2, 120), (1, 140)]);
        assert_eq!(in_flight(&shares), 20);
        assert_eq!(shares.iter().filter_map(|share| share.operations).sum::<u64>(), 7);
        assert_eq!(
            shares.iter().filter_map(|share| share.rate).collect::<Vec<_>>(),
            [240.0, 240.0, 120.0].map(Rate)
        );
    }

    #[test]
    fn depth_is_divided_where_jobs_are_too_few() {
        let whole = LoadSettings { jobs: 2, depth: 9, ..LoadSettings::default() };
        let parts = shares(&whole, 4).unwrap();
        assert_eq!(
            parts.iter().map(|share| (share.jobs, share.depth)).collect::<Vec<_>>(),
            [(2, 3), (2, 2), (2, 2), (2, 2)]
        );
        assert_eq!(in_flight(&parts), 18);
        let key = |whole: LoadSettings| shares(&whole, 4).unwrap_err().key;
        assert_eq!(key(LoadSettings { depth: 3, ..whole.clone() }), "load.depth");
        assert_eq!(key(LoadSettings { access: Access::Write, ..whole.clone() }), "load.jobs");
        assert_eq!(key(LoadSettings { verify: true, ..whole.clone() }), "load.verify");
        assert_eq!(key(LoadSettings { operations: Some(3), ..whole.clone() }), "load.operations");
        assert_eq!(key(LoadSettings { driver: Driver::Fio, ..whole }), "load.driver");
    }
}
