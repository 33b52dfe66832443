//! The load of one of several agents: its part of connections, rate and requests.

use plumb_path::{Fault, Portion};

use crate::settings::{Driver, LoadSettings};

/// The agent's part. Threads are of its own host, so it has as many as a single load, as far as its connections go round.
///
/// # Errors
/// When the load cannot be divided among this many agents, with its key.
pub(crate) fn share(whole: &LoadSettings, portion: Portion) -> Result<LoadSettings, Fault> {
    if !whole.options.is_empty() {
        let message = "the options of a tool cannot be divided among load agents, as they may set the load themselves; use the keys \
                       of `load`, or name one place for it";
        return Err(Fault::new("load.options", message));
    }
    let mut share = whole.clone();
    if whole.script.is_some() && whole.driver == Driver::K6 {
        share.options = segment(portion);
        return Ok(share);
    }
    share.connections = portion.of_number_at_least(whole.connections, "load.connections")?;
    share.threads = whole.threads.min(share.connections);
    share.rate = whole.rate.map(|rate| portion.of_rate(rate, whole.connections));
    let requests = |requests| portion.of_at_least(requests, "load.requests");
    share.requests = whole.requests.map(requests).transpose()?;
    Ok(share)
}

/// Has k6 run one part of a script that says itself how much it sends
/// (<https://grafana.com/docs/k6/latest/using-k6/k6-options/reference/#execution-segment>).
fn segment(Portion { number, of }: Portion) -> Vec<String> {
    let edge = |at: u32| match at {
        0 => "0".to_owned(),
        _ if at == of => "1".to_owned(),
        _ => format!("{at}/{of}"),
    };
    let edges: Vec<String> = (0..=of).map(edge).collect();
    vec![
        format!("--execution-segment={}:{}", edge(number), edge(number + 1)),
        format!("--execution-segment-sequence={}", edges.join(",")),
    ]
}

#[cfg(test)]
mod tests {
    use plumb_model::Rate;
    use plumb_path::Settings as _;

    use super::*;
    use crate::settings::HttpSettings;

    fn shares(load: LoadSettings, of: u32) -> Result<Vec<LoadSettings>, Fault> {
        let settings = HttpSettings { load, ..HttpSettings::default() };
        settings.check()?;
        (0..of)
            .map(|number| {
                let share = settings.share(number, of)?;
                share.check()?;
                Ok(share.load)
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
        let options = vec!["-H".to_owned(), "a: b".to_owned()];
        assert_eq!(key(LoadSettings { driver: Driver::Wrk, options, ..load() }), "load.options");
    }

    #[test]
    fn every_tool_can_be_told_its_share() {
        for driver in [Driver::Wrk, Driver::Ab, Driver::H2load, Driver::K6] {
            let shares =
                shares(LoadSettings { driver, connections: 9, ..LoadSettings::default() }, 2).unwrap();
            assert_eq!(
                shares.iter().map(|share| share.connections).collect::<Vec<_>>(),
                [5, 4],
                "{driver:?}"
            );
        }
        let script = Some("a.js".to_owned());
        let load = LoadSettings { driver: Driver::K6, script, ..LoadSettings::default() };
        let options: Vec<String> =
            shares(load, 3).unwrap().into_iter().map(|share| share.options.join(" ")).collect();
        assert_eq!(options[0], "--execution-segment=0:1/3 --execution-segment-sequence=0,1/3,2/3,1");
        assert_eq!(options[2], "--execution-segment=2/3:1 --execution-segment-sequence=0,1/3,2/3,1");
    }
}
