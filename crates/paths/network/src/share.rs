//! The load of one of several agents: its part of flows and rate.

use plumb_path::tool::undivided;
use plumb_path::{Portion, SettingsFault};

use crate::options::Placement;
use crate::settings::{Driver, LoadSettings};

/// The agent's part.
///
/// # Errors
/// When the load cannot be divided among this many agents, with its key.
pub(crate) fn share(whole: &LoadSettings, portion: Portion) -> Result<LoadSettings, SettingsFault> {
    if whole.driver != Driver::Native {
        return Err(undivided());
    }
    if whole.cpus == Placement::Shared {
        let message =
            "flows of several load agents cannot each share a CPU with the server; leave `cpus` out";
        return Err(SettingsFault::new("load.cpus", message));
    }
    Ok(LoadSettings {
        flows: portion.of_number_at_least(whole.flows, "load.flows")?,
        rate: whole.rate.map(|rate| portion.of_rate(rate, whole.flows)),
        ..whole.clone()
    })
}

#[cfg(test)]
mod tests {
    use plumb_model::Rate;

    use super::*;

    fn portions(of: u32) -> impl Iterator<Item = Portion> {
        (0..of).map(move |number| Portion { number, of })
    }

    #[test]
    fn all_shares_together_are_the_whole() {
        let whole = LoadSettings { flows: 7, rate: Some(Rate(350.0)), ..LoadSettings::default() };
        let shares: Vec<LoadSettings> = portions(3).map(|portion| share(&whole, portion).unwrap()).collect();
        assert_eq!(shares.iter().map(|share| share.flows).collect::<Vec<_>>(), [3, 2, 2]);
        assert_eq!(shares[2], LoadSettings { flows: 2, rate: Some(Rate(100.0)), ..whole.clone() });
        let key =
            |whole: &LoadSettings, of| portions(of).find_map(|one| share(whole, one).err()).unwrap().key;
        assert_eq!(key(&whole, 8), "load.flows");
        assert_eq!(key(&LoadSettings { driver: Driver::Iperf3, ..whole.clone() }, 2), "load.driver");
        assert_eq!(key(&LoadSettings { cpus: Placement::Shared, ..whole }, 2), "load.cpus");
    }
}
