//! The load of one of several agents: its part of connections, rate and requests.

use plumb_path::tool::undivided;
use plumb_path::{Portion, SettingsFault};

use crate::settings::{Driver, LoadSettings};

/// The agent's part. It has as many threads as a single load, because it has its own host, but no more than connections.
///
/// # Errors
/// When the load cannot be divided among this many agents, with its key.
pub(crate) fn share(whole: &LoadSettings, portion: Portion) -> Result<LoadSettings, SettingsFault> {
    if whole.driver != Driver::Native {
        return Err(undivided());
    }
    let mut share = whole.clone();
    share.connections = portion.of_number_at_least(whole.connections, "load.connections")?;
    share.threads = whole.threads.min(share.connections);
    share.rate = whole.rate.map(|rate| portion.of_rate(rate, whole.connections));
    let requests = |requests| portion.of_at_least(requests, "load.requests");
    share.requests = whole.requests.map(requests).transpose()?;
    Ok(share)
}

#[cfg(test)]
mod tests {
    use plumb_model::Rate;
    use plumb_path::Settings as _;

    use super::*;
    use crate::settings::HttpSettings;

    fn shares(load: LoadSettings, of: u32) -> Result<Vec<LoadSettings>, SettingsFault> {
        let settings = HttpSettings { load, ..HttpSettings::default() };
        settings.check()?;
        (0..of)
            .map(|number| {
                let load = share(&settings.load, Portion { number, of })?;
                crate::load::check(&load).map(|()| load)
            })
            .collect()
    }

    #[test]
    fn all_shares_together_are_the_whole() {
        let load = LoadSettings {
            connections: 10,
            threads: 3,
            rate: Some(Rate(1000.0)),
            requests: Some(1001),
            ..LoadSettings::default()
        };
        let shares = shares(load.clone(), 4).unwrap();
        assert_eq!(shares.iter().map(|share| share.connections).collect::<Vec<_>>(), [3, 3, 2, 2]);
        assert_eq!(shares.iter().map(|share| share.threads).collect::<Vec<_>>(), [3, 3, 2, 2]);
        assert_eq!(shares.iter().filter_map(|share| share.requests).sum::<u64>(), 1001);
        let rate: f64 = shares.iter().filter_map(|share| share.rate).map(|rate| rate.0).sum();
        assert!((rate - 1000.0).abs() < 1e-9);
        let rates: Vec<f64> = shares.iter().filter_map(|share| share.rate).map(|rate| rate.0).collect();
        assert_eq!(rates, [300.0, 300.0, 200.0, 200.0], "each connection has the same rate");
        let rest =
            LoadSettings { connections: 3, requests: shares[0].requests, rate: shares[0].rate, ..load };
        assert_eq!(shares[0], rest, "nothing else differs");
    }

    #[test]
    fn what_cannot_be_divided_is_a_fault_at_its_key() {
        let key = |load: LoadSettings| shares(load, 4).unwrap_err().key;
        let load = LoadSettings::default;
        assert_eq!(key(LoadSettings { connections: 3, ..load() }), "load.connections");
        assert_eq!(key(LoadSettings { requests: Some(3), ..load() }), "load.requests");
        assert_eq!(key(LoadSettings { driver: Driver::Wrk, ..load() }), "load.driver");
    }
}
