//! The evidence that a slot did what was asked.

mod link;
mod module;

use plumb_model::{Bytes, Evidence, Measurement, Reading, Statistic, facts, statements};
use plumb_path::{SeenWindow, Snapshot, tool};

use crate::settings::{
    Driver, HttpSettings, IngressKind, LoadProtocol, Offload, OffloadMode, Reuse, Spoken, TlsVersion,
};
use crate::{load, metrics, system};

statements! {
    TLS_VERSION = "tls-version": "TLS version negotiated", "{asked}", "{seen}";
    SPOKEN = "protocol-of-driver": "protocol that {program} spoke", "{asked}", "{seen}";
    UNREPORTED = "protocol-of-driver": "protocol that {program} spoke", "{asked}",
        "not reported, because thresholds of the script replaced those that count it";
    STREAMS = "streams-under-way": "requests under way on a connection", "{asked}", "at most {most}, {mean:.2} on average";
    DROPPED = "datagrams-dropped": "datagrams that the kernel dropped at the load's sockets", "0",
        "{dropped} beside {received} received, in buffers of {buffers}";
    CONGESTION = "congestion-control": "congestion control of the load's connections", "{asked}", "{seen}";
    RECEIVE_BUFFER = "receive-buffer": "receive buffers of the load's sockets", "{asked}, which the kernel doubles", "{seen}";
    CHOICE = "tls-choice": "{of} negotiated", "{asked}", "{seen}";
    HANDSHAKES = "handshakes": "handshakes", "0 resumed", "{full} full, {resumed} resumed";
    SESSIONS = "sessions-offered": "sessions offered", "in {asked:%} of handshakes, where the server has given one",
        "{offered} of {handshakes} handshakes offered one and {resumed} resumed it; {missing} had none to offer";
    ZERO_RTT = "zero-rtt": "0-RTT", "tried in {asked:%} of handshakes",
        "of {handshakes} handshakes, {accepted} with requests that the server accepted, {rejected} with rejected ones, {missing} without a \
         session that allows it";
    ZERO_RTT_OF_INGRESS = "zero-rtt-counted": "handshakes with requests in 0-RTT that {of} counted", "about {accepted}", "{counted}";
    HANDSHAKES_OF_INGRESS = "handshakes-counted": "handshakes that the ingress counted", "{asked}", "{full} full, {resumed} resumed";
    CONFIG = "configuration": "configuration of the ingress", "{asked}", "{seen}";
    REQUESTS = "requests-counted": "requests that {of} counted", "about {asked}", "{counted}";
    BY_PROTOCOL = "requests-by-protocol": "protocol of the requests that {of} counted", "{asked} for all, about {work}",
        "{h1} by h1, {h2} by h2";
    BY_PROTOCOL_WITH_H3 = "requests-by-protocol": "protocol of the requests that {of} counted", "{asked} for all, about {work}",
        "{h1} by h1, {h2} by h2, {h3} by h3";
    DROPPED_BY_INGRESS = "datagrams-dropped-by-ingress": "datagrams that the kernel dropped at the sockets of {of}", "0", "{dropped}";
    DROPPED_NEAR_INGRESS = "datagrams-dropped-by-ingress": "datagrams that the kernel dropped at all sockets of the network namespace of {of}",
        "0", "{dropped}";
    ANY_REQUESTS = "requests-counted": "requests that {of} counted", "at least 1", "{counted}";
    KEYS_INLINE = "key-operations": "private-key operations", "none by a device",
        "{device} by the device, {inline} in the event loop, {full} full handshakes";
    KEYS_IN_THREADS = "key-operations": "private-key operations", "all by the device, none in the event loop",
        "{device} by the device, {inline} in the event loop, {full} full handshakes";
    KEYS_IN_BATCHES = "key-operations": "private-key operations", "by the device, in software only where a pass would not have paid",
        "{device} by the device, {declined} in software because too few came together for a pass to pay, {inline} past the device, \
         {full} full handshakes";
    NO_BATCH = "operations-per-batch": "operations per batch", "{asked}", "no batch";
    BATCHES = "operations-per-batch": "operations per batch", "{asked}",
        "{mean:.2} ({operations} operations, {exchanges} of them of key exchanges, in {passes} batches, for which they waited \
         {waited_ns:ns} on average{pays})";
}

/// Proof, from counters before and after the window, that a slot did what was asked.
pub fn evidence(settings: &HttpSettings, seen: SeenWindow<'_>, measurement: &Measurement) -> Vec<Evidence> {
    let SeenWindow { before, after, .. } = seen;
    let mut evidence = vec![];
    evidence.extend(settings.tls_version_evidence(measurement));
    let (cipher, group) = (settings.load.cipher.as_deref(), settings.load.group.as_deref());
    evidence.extend(settings.choice_evidence(measurement, "cipher", cipher, load::is_same_cipher));
    evidence.extend(settings.choice_evidence(measurement, "group", group, load::is_same_group));
    let by_protocol = settings.by_protocol_evidence(before, after, measurement);
    evidence.extend(settings.protocol_evidence(measurement));
    evidence.extend(settings.spoken_evidence(measurement, by_protocol.is_some()));
    evidence.extend(match settings.load.driver {
        Driver::Native => settings.handshake_evidence(measurement),
        _ => settings.handshakes_of_the_server(before, after, measurement),
    });
    evidence.extend(settings.zero_rtt_evidence(measurement));
    evidence.extend(settings.zero_rtt_of_the_server(before, after, measurement));
    evidence.extend(settings.driver_evidence(measurement));
    evidence.extend(settings.offload_evidence(before, after));
    evidence.extend(settings.config_evidence(after));
    evidence.extend(settings.library_evidence(after));
    let full = match settings.load.driver {
        Driver::Native => measurement.observed_count("handshakes", "full"),
        _ => after.moved(before, "handshakes_full").unwrap_or(0),
    };
    evidence.extend(settings.device_evidence(before, after, full));
    evidence.extend(settings.batch_evidence(before, after));
    evidence.extend(settings.server_evidence(before, after, measurement));
    evidence.extend(by_protocol);
    evidence.extend(settings.ingress_drop_evidence(before, after));
    evidence.extend(settings.link_evidence(seen));
    evidence
}

/// Proof that the system is as its settings say, whatever the load is.
pub fn of_system(settings: &HttpSettings, seen: SeenWindow<'_>) -> Vec<Evidence> {
    let SeenWindow { before, after, .. } = seen;
    let mut settings = settings.clone();
    // Nothing is known of the load, so nothing can be asked of batches that only many connections fill.
    settings.load.connections = 1;
    let full = after.moved(before, "handshakes_full").unwrap_or(0);
    let requests = after
        .moved(before, "requests")
        .map(|counted| ANY_REQUESTS.evidence(counted > 0, facts![of = settings.program(), counted]));
    let mut evidence: Vec<Evidence> = settings.offload_evidence(before, after).into_iter().collect();
    evidence.extend(settings.config_evidence(after));
    evidence.extend(settings.library_evidence(after));
    evidence.extend(settings.device_evidence(before, after, full));
    evidence.extend(settings.batch_evidence(before, after));
    evidence.extend(requests);
    evidence.extend(settings.ingress_drop_evidence(before, after));
    evidence.extend(settings.link_evidence(seen));
    evidence
}

/// How far the server's own count of requests may be from the load's. The two are read at different moments, which on a
/// busy machine lie some milliseconds apart; a load that went elsewhere is off by all of it.
const COUNT_TOLERANCE: f64 = 0.25;

/// How many connections can fill a batch of the multi-buffer device.
const BATCH_CONNECTIONS: u32 = 8;

impl HttpSettings {
    fn is_tls(&self) -> bool {
        let ingress = &self.system.ingress;
        match ingress.kind {
            IngressKind::External => ingress.url.as_deref().is_some_and(|url| url.starts_with("https:")),
            _ => ingress.tls != TlsVersion::None,
        }
    }

    /// The version of TLS that must have been negotiated, if one is asked for.
    fn tls_version_evidence(&self, measurement: &Measurement) -> Option<Evidence> {
        let asked = match (self.load.tls, self.system.ingress.kind) {
            (Some(asked), _) => asked,
            (None, IngressKind::External) => return None,
            (None, _) => self.system.ingress.tls,
        };
        let asked = if self.is_tls() { asked.negotiated() } else { "none" };
        let (holds, seen) = match measurement.observed.get("tls_version") {
            Some(versions) => {
                (versions.keys().all(|version| version == asked), counts(measurement, "tls_version"))
            }
            None => (!self.is_tls() || measurement.work > 0, "no handshake in the window".to_owned()),
        };
        Some(TLS_VERSION.evidence(holds, facts![asked, seen]))
    }

    fn choice_evidence(
        &self,
        measurement: &Measurement,
        property: &str,
        asked: Option<&str>,
        is_same: fn(&str, &str) -> bool,
    ) -> Option<Evidence> {
        let asked = asked.filter(|_| self.is_tls())?;
        let values = measurement.observed.get(property)?;
        let holds = values.keys().all(|value| is_same(value, asked));
        Some(CHOICE.evidence(holds, facts![of = property, asked, seen = counts(measurement, property)]))
    }

    /// Proof that connections spoke the protocol of the load, and those of HTTP/2 carried as many requests at a time as it asks for.
    fn protocol_evidence(&self, measurement: &Measurement) -> Vec<Evidence> {
        if self.load.driver != Driver::Native {
            return Vec::new();
        }
        let alpn = match self.load.protocol {
            LoadProtocol::H1 => None,
            LoadProtocol::H2 | LoadProtocol::H3 => {
                let asked = self.load.protocol.fixed().map(Spoken::name);
                self.choice_evidence(measurement, "alpn", asked, |one, other| one == other)
            }
            LoadProtocol::Auto => auto_evidence(measurement),
        };
        let is_multiplexed = matches!(self.spoken(measurement), Some(Spoken::H2 | Spoken::H3));
        let streams = is_multiplexed.then(|| self.streams_evidence(measurement)).flatten();
        let of_quic = [
            self.drop_evidence(measurement),
            self.buffer_evidence(measurement),
            self.congestion_evidence(measurement),
        ];
        alpn.into_iter().chain(streams).chain(of_quic.into_iter().flatten()).collect()
    }

    /// Proof that no datagram was lost between the kernel and the load, which would count as a loss of the network.
    fn drop_evidence(&self, measurement: &Measurement) -> Option<Evidence> {
        let of = |value| measurement.observed_count(load::DATAGRAMS, value);
        let (dropped, received) = (of(load::DROPPED), of("received"));
        let buffers = counts(measurement, load::RECEIVE_BUFFER);
        (self.load.protocol == LoadProtocol::H3)
            .then(|| DROPPED.evidence(received > 0 && dropped == 0, facts![dropped, received, buffers]))
    }

    /// Proof that the kernel gave sockets the buffer that the load asks for.
    fn buffer_evidence(&self, measurement: &Measurement) -> Option<Evidence> {
        let asked = self.load.receive_buffer?;
        let buffers = measurement.observed.get(load::RECEIVE_BUFFER);
        let is_enough = |name: &String| Bytes::parse(name).is_ok_and(|given| given.0 / 2 >= asked.0);
        let seen = counts(measurement, load::RECEIVE_BUFFER);
        let holds = buffers.is_some_and(|buffers| buffers.keys().all(is_enough));
        Some(RECEIVE_BUFFER.evidence(holds, facts![asked = asked.to_string(), seen]))
    }

    /// Proof that QUIC's connections have the controller that the load asks for.
    fn congestion_evidence(&self, measurement: &Measurement) -> Option<Evidence> {
        let asked = self.load.congestion.unwrap_or_default().name();
        (self.load.protocol == LoadProtocol::H3).then(|| {
            let controls = measurement.observed.get(load::CONGESTION);
            let holds = controls.is_some_and(|controls| controls.keys().all(|name| name == asked));
            CONGESTION.evidence(holds, facts![asked, seen = counts(measurement, load::CONGESTION)])
        })
    }

    /// The protocol of the load's connections; `None` if a server was to choose it, and no handshake was seen.
    fn spoken(&self, measurement: &Measurement) -> Option<Spoken> {
        let negotiated = || match measurement.observed.get("alpn") {
            Some(values) if values.keys().any(|alpn| load::is_spoken(Spoken::H2, alpn)) => Some(Spoken::H2),
            Some(_) => Some(Spoken::H1),
            None => (!self.is_tls()).then_some(Spoken::H1),
        };
        self.load.protocol.fixed().or_else(negotiated)
    }

    /// The protocol that a tool reports. k6 does not report it if the user's script has thresholds. Then the ingress'
    /// count has to prove it.
    fn spoken_evidence(&self, measurement: &Measurement, is_counted: bool) -> Option<Evidence> {
        let (program, protocol) = (self.load.driver.program()?, self.load.protocol.fixed()?);
        let asked = protocol.name();
        let is_asked = |name: &String| load::is_same_protocol(protocol, name);
        match measurement.observed.get("protocol") {
            Some(names) => {
                let seen = counts(measurement, "protocol");
                Some(SPOKEN.evidence(names.keys().all(is_asked), facts![program, asked, seen]))
            }
            None if protocol == Spoken::H2 && !is_counted => {
                Some(UNREPORTED.evidence(false, facts![program, asked]))
            }
            None => None,
        }
    }

    fn streams_evidence(&self, measurement: &Measurement) -> Option<Evidence> {
        let most = measurement.sizes.get(load::STREAMS)?.bins().last()?.0;
        let Some(Reading::Trend(service)) = measurement.readings.get(metrics::HTTP_REQ_SERVICE.name) else {
            return None;
        };
        // Little's law: requests under way are their rate times the mean of their times.
        let busy_ns = service.statistic_ns(Statistic::Avg).unwrap_or(0.0) * as_f64(service.count());
        let window_ns = as_f64(measurement.window_ns.max(1));
        let mean = busy_ns / window_ns / f64::from(self.load.connections);
        let asked = u64::from(self.load.streams);
        let is_closed = self.load.is_closed_loop();
        // A few requests do not fill all connections.
        let is_filled = measurement.work >= 4 * asked * u64::from(self.load.connections);
        let holds = if is_closed && is_filled { most == asked } else { most <= asked };
        let asked = if is_closed { asked.to_string() } else { format!("at most {asked}") };
        Some(STREAMS.evidence(holds, facts![asked, most, mean]))
    }

    /// Proof that handshakes were full, or offered a session, as the settings say. Most load generators do not notice this fault.
    ///
    /// The load's offers are evidence. The server's answers are a result, since refusing sessions may be the treatment.
    fn handshake_evidence(&self, measurement: &Measurement) -> Option<Evidence> {
        if !self.is_tls() || self.load.reuse != Reuse::None {
            return None;
        }
        let full = measurement.observed_count("handshakes", "full");
        let resumed = measurement.observed_count("handshakes", "resumed");
        let session = |value| measurement.observed_count("sessions", value);
        let (offered, missing) = (session(load::OFFERED), session(load::MISSING));
        let asked = self.load.resumption.0;
        if asked <= 0.0 {
            let holds = resumed == 0 && offered == 0 && full > 0;
            return Some(HANDSHAKES.evidence(holds, facts![full, resumed]));
        }
        let handshakes = full + resumed;
        let holds = self.is_share(offered + missing, handshakes, asked);
        Some(SESSIONS.evidence(holds, facts![asked, offered, handshakes, resumed, missing]))
    }

    /// Proof that requests went out in 0-RTT as the settings say. Whether the server takes them is a result.
    fn zero_rtt_evidence(&self, measurement: &Measurement) -> Option<Evidence> {
        let asked = self.load.zero_rtt.0;
        if asked <= 0.0 || self.load.reuse != Reuse::None {
            return None;
        }
        let [accepted, rejected, missing] = [load::ACCEPTED, load::REJECTED, load::MISSING]
            .map(|value| measurement.observed_count(load::ZERO_RTT, value));
        let handshakes =
            ["full", "resumed"].map(|kind| measurement.observed_count("handshakes", kind)).iter().sum();
        let holds = self.is_share(accepted + rejected + missing, handshakes, asked);
        Some(ZERO_RTT.evidence(holds, facts![asked, handshakes, accepted, rejected, missing]))
    }

    /// Proof that the ingress took as many requests in 0-RTT as the load says, if it counts them.
    fn zero_rtt_of_the_server(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        measurement: &Measurement,
    ) -> Option<Evidence> {
        if self.load.zero_rtt.0 <= 0.0 {
            return None;
        }
        let counted = after.moved(before, system::ZERO_RTT_COUNTER)?;
        let accepted = measurement.observed_count(load::ZERO_RTT, load::ACCEPTED);
        let holds = counted == accepted || self.is_about(counted, accepted);
        Some(ZERO_RTT_OF_INGRESS.evidence(holds, facts![of = self.program(), accepted, counted]))
    }

    /// Whether `part` is the share of all handshakes that was asked for. They do not end in the order in which they began, so each
    /// connection may be one off.
    fn is_share(&self, part: u64, handshakes: u64, asked: f64) -> bool {
        let handshakes = as_f64(handshakes);
        let slack = if asked >= 1.0 { 0.0 } else { 0.02 + f64::from(self.load.connections) / handshakes };
        (as_f64(part) / handshakes - asked).abs() <= slack
    }

    /// A tool does not say how many handshakes were full. The ingress does, unless it is somebody else's.
    fn handshakes_of_the_server(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        measurement: &Measurement,
    ) -> Option<Evidence> {
        let full = after.moved(before, "handshakes_full").filter(|_| self.is_tls())?;
        let resumed = after.moved(before, "handshakes_resumed").unwrap_or(0);
        let (asked, holds) = match self.load.reuse {
            Reuse::None => {
                ("one for each request, 0 resumed", resumed == 0 && full * 4 > measurement.work * 3)
            }
            Reuse::KeepAlive => {
                ("at most one for each connection", full + resumed <= 2 * u64::from(self.load.connections))
            }
        };
        Some(HANDSHAKES_OF_INGRESS.evidence(holds, facts![asked, full, resumed]))
    }

    /// The configuration with which the ingress started, where it is not all plumb's own.
    fn config_evidence(&self, after: &Snapshot) -> Option<Evidence> {
        let asked = system::expected_config(&self.system.ingress)?;
        let seen = after.states.get(system::CONFIG_STATE).cloned().unwrap_or_default();
        Some(CONFIG.equal(facts![asked, seen]))
    }

    /// Which tool drove the load. ab calls itself ApacheBench.
    fn driver_evidence(&self, measurement: &Measurement) -> Option<Evidence> {
        let program = self.load.driver.program()?;
        let word = if self.load.driver == Driver::Ab { "apache" } else { program };
        tool::evidence(measurement, program, word)
    }

    fn offload_evidence(&self, before: &Snapshot, after: &Snapshot) -> Option<Evidence> {
        if self.system.ingress.kind != IngressKind::Embedded || !self.is_tls() {
            return None;
        }
        let moved = |counter: &str| after.moved(before, counter).unwrap_or(0);
        let (inline, device) = (moved("key_operations_inline"), moved("key_operations_device"));
        let full = moved("handshakes_full");
        let declined = moved("key_operations_declined");
        let (statement, holds) = match self.system.ingress.offload {
            Offload::None | Offload::Engine(_) | Offload::Provider(_) => (KEYS_INLINE, device == 0),
            Offload::Threads => (KEYS_IN_THREADS, inline == 0 && device > 0 || full == 0),
            Offload::Multibuffer => {
                (KEYS_IN_BATCHES, inline == 0 && self.has_used_batches(device, declined) || full == 0)
            }
        };
        Some(statement.evidence(holds, facts![device, inline, declined, full]))
    }

    /// Whether all private-key operations of the multi-buffer ingress went the way that its settings ask for.
    fn has_used_batches(&self, device: u64, declined: u64) -> bool {
        match self.system.ingress.offload_mode.unwrap_or_default() {
            OffloadMode::Sync => device > 0 && declined == 0,
            // With few connections it can be that a pass never paid, which is what the mode is for.
            OffloadMode::Async if self.fills_batches() => device > 0,
            OffloadMode::Async => device + declined > 0,
        }
    }

    /// Whether there are enough connections for a batch.
    fn fills_batches(&self) -> bool {
        self.load.connections >= BATCH_CONNECTIONS
    }

    /// How well the passes of the multi-buffer device were filled.
    fn batch_evidence(&self, before: &Snapshot, after: &Snapshot) -> Option<Evidence> {
        if self.system.ingress.offload != Offload::Multibuffer || !self.is_tls() {
            return None;
        }
        let moved = |counter: &str| after.moved(before, counter).unwrap_or(0);
        let (operations, passes) = (moved("device_operations"), moved("device_passes"));
        let mean = as_f64(operations) / as_f64(passes);
        let exchanges = operations.saturating_sub(moved("key_operations_device"));
        let pays = after.states.get("device_pass_pays").filter(|pays| !pays.is_empty());
        let pays = pays.map(|pays| format!("; a pass pays for {pays}")).unwrap_or_default();
        let (asked, holds) = match self.system.ingress.offload_mode.unwrap_or_default() {
            OffloadMode::Sync => ("1", operations == passes),
            OffloadMode::Async if self.fills_batches() => ("more than 1", operations > passes),
            OffloadMode::Async => ("at least 1", operations >= passes),
        };
        // To the microsecond: anything finer is not a property of the treatment.
        let waited_ns = moved("device_wait_ns") / moved("device_waited").max(1) / 1000 * 1000;
        let statement = if passes == 0 { NO_BATCH } else { BATCHES };
        let holds = holds || moved("handshakes_full") == 0;
        Some(statement.evidence(holds, facts![asked, mean, operations, exchanges, passes, waited_ns, pays]))
    }

    /// The ingress' own count of requests: proof that the load went through the program that the variant names.
    fn server_evidence(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        measurement: &Measurement,
    ) -> Option<Evidence> {
        let (counted, asked) = (after.moved(before, "requests")?, measurement.work);
        let holds = self.is_about(counted, asked);
        Some(REQUESTS.evidence(holds, facts![of = self.program(), asked, counted]))
    }

    /// Proof that an ingress of several protocols answered in that of the load, if it counts requests by protocol.
    fn by_protocol_evidence(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        measurement: &Measurement,
    ) -> Option<Evidence> {
        let ingress = &self.system.ingress;
        if !ingress.has_h2() && !ingress.has_h3() {
            return None;
        }
        let moved = |protocol| after.moved(before, system::counter(protocol));
        let (h1, h2, work) = (moved(Spoken::H1)?, moved(Spoken::H2)?, measurement.work);
        let h3 = if ingress.has_h3() { moved(Spoken::H3)? } else { 0 };
        let spoken = self.spoken(measurement)?;
        let counted = match spoken {
            Spoken::H1 => h1,
            Spoken::H2 => h2,
            Spoken::H3 => h3,
        };
        let statement = if ingress.has_h3() { BY_PROTOCOL_WITH_H3 } else { BY_PROTOCOL };
        let holds = counted == h1 + h2 + h3 && self.is_about(counted, work);
        let (of, asked) = (self.program(), spoken.name());
        Some(statement.evidence(holds, facts![of, asked, work, h1, h2, h3]))
    }

    /// Proof that no datagram was lost between the kernel and the ingress, if it counts them.
    fn ingress_drop_evidence(&self, before: &Snapshot, after: &Snapshot) -> Option<Evidence> {
        let dropped = after.moved(before, "datagrams_dropped")?;
        let is_haproxy = self.system.ingress.kind == IngressKind::Haproxy;
        let statement = if is_haproxy { DROPPED_NEAR_INGRESS } else { DROPPED_BY_INGRESS };
        Some(statement.evidence(dropped == 0, facts![of = self.program(), dropped]))
    }

    /// Whether the ingress counted about as many requests or handshakes as the load. Their counters are read at different moments.
    fn is_about(&self, counted: u64, work: u64) -> bool {
        let under_way = self.load.in_flight_of(self.load.streams);
        let slack = COUNT_TOLERANCE * as_f64(work) + 4.0 * under_way + 20.0;
        counted > 0 && (as_f64(counted) - as_f64(work)).abs() <= slack
    }
}

/// Proof that the server chose one protocol for all connections, also those of several load agents.
fn auto_evidence(measurement: &Measurement) -> Option<Evidence> {
    let values = measurement.observed.get("alpn")?;
    let are_all = |spoken| values.keys().all(|alpn| load::is_spoken(spoken, alpn));
    let holds = are_all(Spoken::H1) || are_all(Spoken::H2);
    Some(CHOICE.evidence(
        holds,
        facts![of = "alpn", asked = "one protocol on all connections", seen = counts(measurement, "alpn")],
    ))
}

/// `TLSv1.2 (812)`, most frequent values first.
fn counts(measurement: &Measurement, property: &str) -> String {
    let mut values: Vec<(&str, u64)> = measurement.values_of(property).collect();
    values.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let words: Vec<String> = values.iter().map(|(value, count)| format!("{value} ({count})")).collect();
    words.join(", ")
}

fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use plumb_model::Percent;
    use plumb_path::{Remark, Settings as _};

    use super::*;
    use crate::settings::CongestionControl;

    fn settings(change: impl FnOnce(&mut HttpSettings)) -> HttpSettings {
        let mut settings = HttpSettings::default();
        settings.load.reuse = Reuse::None;
        change(&mut settings);
        settings
    }

    /// Adds what was done to resume sessions.
    fn offering(mut measurement: Measurement, offered: u64, missing: u64) -> Measurement {
        let sessions = [(load::OFFERED.to_owned(), offered), (load::MISSING.to_owned(), missing)];
        measurement.observed.insert("sessions".to_owned(), sessions.into());
        measurement
    }

    fn measurement(version: &str, full: u64, resumed: u64) -> Measurement {
        let mut measurement = Measurement { work: full + resumed, ..Measurement::default() };
        measurement.observed.insert("tls_version".to_owned(), [(version.to_owned(), full + resumed)].into());
        measurement.observed.insert(
            "handshakes".to_owned(),
            [("full".to_owned(), full), ("resumed".to_owned(), resumed)].into(),
        );
        measurement
    }

    fn snapshot(counters: &[(&str, u64)]) -> Snapshot {
        let counters = counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Snapshot { counters, ..Snapshot::default() }
    }

    fn check(settings: &HttpSettings, measurement: &Measurement, after: &Snapshot, failing: &[&str]) {
        let evidence = settings.evidence(SeenWindow {
            before: &Snapshot::default(),
            after,
            measurement: Some(measurement),
        });
        let broken: Vec<&str> = evidence
            .iter()
            .filter(|evidence| !evidence.holds)
            .map(|evidence| evidence.what.as_str())
            .collect();
        assert_eq!(broken, failing, "{evidence:#?}");
    }

    #[test]
    fn requests_in_0_rtt_are_as_many_as_asked_for_and_as_the_ingress_counted() {
        let asked = settings(|settings| {
            settings.load.resumption = Percent(1.0);
            settings.load.zero_rtt = Percent(0.5);
        });
        let seen = |accepted: u64, rejected: u64, missing: u64| {
            let mut measurement = offering(measurement("TLSv1.3", 10, 990), 990, 10);
            let counts = [(load::ACCEPTED, accepted), (load::REJECTED, rejected), (load::MISSING, missing)];
            let counts = counts.map(|(name, count)| (name.to_owned(), count));
            measurement.observed.insert(load::ZERO_RTT.to_owned(), counts.into());
            measurement
        };
        let counted = |zero_rtt| snapshot(&[("handshakes_zero_rtt", zero_rtt)]);
        check(&asked, &seen(400, 90, 10), &counted(400), &[]);
        check(&asked, &seen(0, 490, 10), &counted(0), &[]);
        check(&asked, &seen(400, 90, 10), &Snapshot::default(), &[]);
        check(&asked, &seen(990, 0, 10), &counted(990), &["0-RTT"]);
        check(
            &asked,
            &seen(490, 0, 10),
            &counted(0),
            &["handshakes with requests in 0-RTT that the embedded ingress counted"],
        );
    }

    #[test]
    fn what_was_asked_for_holds() {
        let inline = snapshot(&[("key_operations_inline", 100), ("handshakes_full", 100), ("requests", 101)]);
        check(&settings(|_| {}), &measurement("TLSv1.3", 100, 0), &inline, &[]);
        let device = snapshot(&[("key_operations_device", 100), ("handshakes_full", 100), ("requests", 100)]);
        let threads = settings(|settings| settings.system.ingress.offload = Offload::Threads);
        check(&threads, &measurement("TLSv1.3", 100, 0), &device, &[]);
        let resumed = settings(|settings| settings.load.resumption = Percent(1.0));
        let all = offering(measurement("TLSv1.3", 20, 1304), 1304, 20);
        check(&resumed, &all, &Snapshot::default(), &[]);
    }

    #[test]
    fn a_server_that_refuses_sessions_is_a_result() {
        let half = settings(|settings| settings.load.resumption = Percent(0.5));
        let refused = offering(measurement("TLSv1.3", 1000, 0), 500, 0);
        check(&half, &refused, &Snapshot::default(), &[]);
        let given_none = offering(measurement("TLSv1.3", 1000, 0), 0, 500);
        check(&half, &given_none, &Snapshot::default(), &[]);
        let not_tried = offering(measurement("TLSv1.3", 1000, 0), 400, 0);
        check(&half, &not_tried, &Snapshot::default(), &["sessions offered"]);
    }

    #[test]
    fn http_2_is_proven_by_alpn_and_by_the_requests_under_way() {
        let http2 = |rate: Option<f64>| {
            settings(|settings| {
                settings.load.protocol = LoadProtocol::H2;
                settings.load.reuse = Reuse::KeepAlive;
                settings.load.streams = 8;
                settings.load.rate = rate.map(plumb_model::Rate);
            })
        };
        let seen = |most: u64, alpn: &str| {
            let mut measurement = measurement("TLSv1.3", 1000, 0);
            measurement.window_ns = 1_000_000_000;
            measurement.observed.insert("alpn".to_owned(), [(alpn.to_owned(), 10)].into());
            let mut streams = plumb_model::Histogram::default();
            streams.record(most);
            measurement.sizes.insert(load::STREAMS.to_owned(), streams);
            let mut service = plumb_model::Histogram::default();
            service.record_many(4_000_000, 1000);
            let service = Reading::Trend(service);
            measurement.readings.insert(metrics::HTTP_REQ_SERVICE.name.to_owned(), service);
            measurement
        };
        let none = Snapshot::default();
        check(&http2(None), &seen(8, "h2"), &none, &[]);
        check(&http2(None), &seen(8, "none"), &none, &["alpn negotiated"]);
        check(&http2(None), &seen(4, "h2"), &none, &["requests under way on a connection"]);
        check(&http2(Some(10.0)), &seen(4, "h2"), &none, &[]);
        check(&http2(Some(10.0)), &seen(9, "h2"), &none, &["requests under way on a connection"]);
        let auto = || {
            let mut settings = http2(None);
            settings.load.protocol = LoadProtocol::Auto;
            settings
        };
        check(&auto(), &seen(8, "h2"), &none, &[]);
        check(&auto(), &seen(4, "h2"), &none, &["requests under way on a connection"]);
        check(&auto(), &seen(1, "http/1.1"), &none, &[]);
        let mut mixed = seen(8, "h2");
        mixed.observed.get_mut("alpn").unwrap().insert("none".to_owned(), 3);
        check(&auto(), &mixed, &none, &["alpn negotiated"]);
        let few = Measurement { work: 100, ..seen(4, "h2") };
        check(&http2(None), &few, &none, &[]);
        // 1,000 requests of 4 ms in a second keep 0.4 of each of the ten connections busy.
        let evidence = http2(None).streams_evidence(&seen(8, "h2")).unwrap();
        assert_eq!(evidence.observed, "at most 8, 0.40 on average");
    }

    #[test]
    fn http_3_is_proven_by_its_controllers_and_by_datagrams_that_were_not_dropped() {
        let http3 = |congestion| {
            settings(|settings| {
                (settings.load.protocol, settings.load.reuse) = (LoadProtocol::H3, Reuse::KeepAlive);
                settings.load.congestion = congestion;
            })
        };
        let seen = |control: &str, dropped: u64| {
            let mut measurement = measurement("TLSv1.3", 1000, 0);
            let datagrams = [("received".to_owned(), 3000), (load::DROPPED.to_owned(), dropped)];
            measurement.observed.insert("alpn".to_owned(), [("h3".to_owned(), 10)].into());
            measurement.observed.insert(load::DATAGRAMS.to_owned(), datagrams.into());
            measurement.observed.insert(load::CONGESTION.to_owned(), [(control.to_owned(), 10)].into());
            measurement
        };
        let (none, bbr) = (Snapshot::default(), http3(Some(CongestionControl::Bbr)));
        check(&http3(None), &seen("cubic", 0), &none, &[]);
        check(&bbr, &seen("bbr", 0), &none, &[]);
        check(&bbr, &seen("cubic", 0), &none, &["congestion control of the load's connections"]);
        let mut buffered = http3(None);
        buffered.load.receive_buffer = Some(Bytes(4 << 20));
        for (given, failing) in
            [("8 MiB", vec![]), ("416 KiB", vec!["receive buffers of the load's sockets"])]
        {
            let mut measurement = seen("cubic", 0);
            measurement.observed.insert(load::RECEIVE_BUFFER.to_owned(), [(given.to_owned(), 10)].into());
            check(&buffered, &measurement, &none, &failing);
        }
        check(&bbr, &seen("bbr", 1), &none, &["datagrams that the kernel dropped at the load's sockets"]);
    }

    #[test]
    fn a_version_that_was_negotiated_holds_though_no_request_was_answered() {
        let stalled = Measurement { work: 0, ..measurement("TLSv1.3", 20, 0) };
        let inline = snapshot(&[("key_operations_inline", 20), ("handshakes_full", 20), ("requests", 0)]);
        let evidence = settings(|_| {}).evidence(SeenWindow {
            before: &Snapshot::default(),
            after: &inline,
            measurement: Some(&stalled),
        });
        let version = evidence.iter().find(|evidence| evidence.kind == TLS_VERSION.kind).unwrap();
        assert!(version.holds, "{version:?}");
    }

    #[test]
    fn what_silently_did_not_happen_is_found() {
        let inline = snapshot(&[("key_operations_inline", 100), ("handshakes_full", 100)]);
        let threads = settings(|settings| settings.system.ingress.offload = Offload::Threads);
        check(&threads, &measurement("TLSv1.3", 100, 0), &inline, &["private-key operations"]);
        check(&settings(|_| {}), &measurement("TLSv1.2", 100, 0), &inline, &["TLS version negotiated"]);
        check(&settings(|_| {}), &measurement("TLSv1.3", 4, 6720), &inline, &["handshakes"]);
        let resumed = settings(|settings| settings.load.resumption = Percent(1.0));
        let most = offering(measurement("TLSv1.3", 50, 950), 990, 0);
        check(&resumed, &most, &inline, &["sessions offered"]);
        let version = settings(|_| {}).evidence(SeenWindow {
            before: &Snapshot::default(),
            after: &inline,
            measurement: Some(&measurement("TLSv1.2", 100, 0)),
        });
        let version = version.iter().find(|evidence| evidence.kind == TLS_VERSION.kind).unwrap();
        assert_eq!((version.expected.as_str(), version.observed.as_str()), ("TLSv1.3", "TLSv1.2 (100)"));
        let elsewhere = snapshot(&[("requests", 3)]);
        check(
            &settings(|_| {}),
            &measurement("TLSv1.3", 1000, 0),
            &elsewhere,
            &["requests that the embedded ingress counted"],
        );
    }

    #[test]
    fn requests_that_the_ingress_answered_in_another_protocol_are_found() {
        let both = |protocol| {
            settings(|settings| {
                let ingress = &mut settings.system.ingress;
                (ingress.kind, ingress.protocols) = (IngressKind::Nginx, vec![Spoken::H1, Spoken::H2]);
                (settings.load.protocol, settings.load.reuse) = (protocol, Reuse::KeepAlive);
            })
        };
        let counted = |h1, h2| snapshot(&[("requests", 1000), ("requests_h1", h1), ("requests_h2", h2)]);
        let mut full = measurement("TLSv1.3", 1000, 0);
        full.observed.insert("alpn".to_owned(), [("h2".to_owned(), 10)].into());
        let other = &["protocol of the requests that nginx counted"];
        check(&both(LoadProtocol::H2), &full, &counted(0, 1010), &[]);
        check(&both(LoadProtocol::H1), &full, &counted(1010, 0), &[]);
        check(&both(LoadProtocol::H2), &full, &counted(1, 1000), other);
        check(&both(LoadProtocol::H1), &full, &counted(0, 1000), other);
        check(&both(LoadProtocol::H2), &full, &counted(0, 500), other);
        check(&both(LoadProtocol::Auto), &full, &counted(0, 1010), &[]);
        check(&both(LoadProtocol::Auto), &full, &counted(1010, 0), other);
        let h1_alone = settings(|settings| settings.system.ingress.kind = IngressKind::Haproxy);
        check(&h1_alone, &full, &counted(0, 1000), &[]);
    }

    #[test]
    fn requests_by_h3_and_datagrams_that_the_ingress_lost_are_found() {
        let all = |protocol| {
            settings(|settings| {
                settings.system.ingress.protocols = vec![Spoken::H1, Spoken::H2, Spoken::H3];
                (settings.load.protocol, settings.load.reuse) = (protocol, Reuse::KeepAlive);
            })
        };
        let counted = |[h1, h2, h3]: [u64; 3], dropped| {
            let requests =
                [("requests", 1000), ("requests_h1", h1), ("requests_h2", h2), ("requests_h3", h3)];
            snapshot(&[&requests[..], &[("datagrams_dropped", dropped)]].concat())
        };
        let mut full = measurement("TLSv1.3", 1000, 0);
        full.observed.insert("alpn".to_owned(), [("h3".to_owned(), 10)].into());
        let received = [("received".to_owned(), 3000)].into();
        full.observed.insert(load::DATAGRAMS.to_owned(), received);
        full.observed.insert(load::CONGESTION.to_owned(), [("cubic".to_owned(), 10)].into());
        let by_h3 = all(LoadProtocol::H3);
        let other = &["protocol of the requests that the embedded ingress counted"];
        check(&by_h3, &full, &counted([0, 0, 1010], 0), &[]);
        check(&by_h3, &full, &counted([0, 1, 1000], 0), other);
        check(&by_h3, &full, &counted([1000, 0, 0], 0), other);
        check(&all(LoadProtocol::H1), &full, &counted([1000, 0, 1], 0), other);
        let dropped = &["datagrams that the kernel dropped at the sockets of the embedded ingress"];
        check(&by_h3, &full, &counted([0, 0, 1000], 1), dropped);
        let mut by_haproxy = by_h3;
        by_haproxy.system.ingress.kind = IngressKind::Haproxy;
        let dropped =
            &["datagrams that the kernel dropped at all sockets of the network namespace of HAProxy"];
        check(&by_haproxy, &full, &counted([0, 0, 1000], 1), dropped);
    }

    #[test]
    fn a_tool_that_spoke_another_protocol_is_found() {
        let by = |driver, protocol| {
            settings(|settings| {
                (settings.load.driver, settings.load.protocol) = (driver, protocol);
                (settings.load.reuse, settings.system.ingress.kind) =
                    (Reuse::KeepAlive, IngressKind::External);
            })
        };
        let seen = |names: &[(&str, u64)]| {
            let names = names.iter().map(|(name, count)| ((*name).to_owned(), *count));
            let observed = [("protocol".to_owned(), names.collect())].into();
            Measurement { work: 1000, observed, ..Measurement::default() }
        };
        let none = Snapshot::default();
        let k6 = by(Driver::K6, LoadProtocol::H2);
        check(&k6, &seen(&[("HTTP/2.0", 1000)]), &none, &[]);
        check(&k6, &seen(&[("HTTP/2.0", 900), ("HTTP/1.1", 100)]), &none, &["protocol that k6 spoke"]);
        check(
            &by(Driver::K6, LoadProtocol::H1),
            &seen(&[("HTTP/2.0", 1000)]),
            &none,
            &["protocol that k6 spoke"],
        );
        check(&by(Driver::H2load, LoadProtocol::H2), &seen(&[("h2c", 1)]), &none, &[]);
        check(&by(Driver::Wrk, LoadProtocol::H1), &Measurement::default(), &none, &[]);
        let silent = Measurement { work: 1000, ..Measurement::default() };
        check(&k6, &silent, &none, &["protocol that k6 spoke"]);
        let mut counted = k6;
        counted.system.ingress.kind = IngressKind::Nginx;
        counted.system.ingress.protocols = vec![Spoken::H1, Spoken::H2];
        let after = snapshot(&[("requests", 1000), ("requests_h1", 0), ("requests_h2", 1000)]);
        assert_eq!(counted.spoken_evidence(&silent, true), None);
        assert!(counted.by_protocol_evidence(&none, &after, &silent).unwrap().holds);
    }

    #[test]
    fn batches_are_what_the_mode_asks_for() {
        let with = |mode, connections| {
            settings(|settings| {
                let ingress = &mut settings.system.ingress;
                (ingress.offload, ingress.offload_mode) = (Offload::Multibuffer, Some(mode));
                settings.load.connections = connections;
            })
        };
        let after = |device, declined, operations, passes| {
            snapshot(&[
                ("handshakes_full", 100),
                ("requests", 100),
                ("key_operations_device", device),
                ("key_operations_declined", declined),
                ("device_operations", operations),
                ("device_passes", passes),
            ])
        };
        let full = measurement("TLSv1.3", 100, 0);
        let (many, few) = (with(OffloadMode::Async, 100), with(OffloadMode::Async, 1));
        let sync = with(OffloadMode::Sync, 100);
        check(&many, &full, &after(96, 4, 280, 40), &[]);
        check(&few, &full, &after(0, 100, 0, 0), &[]);
        check(&sync, &full, &after(100, 0, 300, 300), &[]);
        check(&many, &full, &after(0, 100, 0, 0), &["private-key operations", "operations per batch"]);
        check(&many, &full, &after(100, 0, 300, 300), &["operations per batch"]);
        check(&sync, &full, &after(96, 4, 280, 40), &["private-key operations", "operations per batch"]);
        let mut after = after(96, 4, 280, 40);
        after
            .counters
            .extend([("device_waited".to_owned(), 280), ("device_wait_ns".to_owned(), 280 * 57_999)]);
        after.states.insert("device_pass_pays".to_owned(), "rsa-2048 from 3".to_owned());
        let evidence = many.evidence(SeenWindow {
            before: &Snapshot::default(),
            after: &after,
            measurement: Some(&full),
        });
        let words = |evidence: &Evidence| format!("{}: {}", evidence.what, evidence.observed);
        insta::assert_snapshot!(evidence[2..4].iter().map(words).collect::<Vec<_>>().join("\n"), @"
        private-key operations: 96 by the device, 4 in software because too few came together for a pass to pay, 0 past the device, 100 full handshakes
        operations per batch: 7.00 (280 operations, 184 of them of key exchanges, in 40 batches, for which they waited 57 us on average; a pass pays for rsa-2048 from 3)
        ");
        let inline = snapshot(&[("handshakes_full", 100), ("requests", 100), ("key_operations_inline", 100)]);
        check(&many, &full, &inline, &["private-key operations", "operations per batch"]);
    }

    #[test]
    fn a_metric_that_leaves_the_handshake_out_says_so_where_every_request_has_one() {
        let fresh = settings(|_| {});
        let of = |settings: &HttpSettings, metric: &str| settings.remark(metric, None);
        let Some(Remark::Note(note)) = of(&fresh, "http_req_duration") else { panic!("no note") };
        assert!(note.contains("excludes connecting and TLS"));
        assert_eq!(of(&fresh, "iteration_duration"), None);
        let kept = settings(|settings| settings.load.reuse = Reuse::KeepAlive);
        assert_eq!(of(&kept, "http_req_duration"), None);
        let open = settings(|settings| settings.load.rate = Some(plumb_model::Rate(10.0)));
        assert_eq!(of(&open, "http_req_duration"), None);
        assert!(of(&open, "http_req_service").is_some());
    }

    #[test]
    fn combinations_that_cannot_be_are_refused() {
        let key = |settings: HttpSettings| settings.check().unwrap_err().key;
        let refusing = settings(|settings| {
            settings.load.resumption = Percent(0.5);
            settings.system.ingress.tickets = false;
        });
        assert_eq!(refusing.check(), Ok(()), "to refuse what is offered can be the treatment");
        assert_eq!(key(settings(|settings| settings.load.tls = Some(TlsVersion::V12))), "load.tls");
        let kept = |settings: &mut HttpSettings| {
            (settings.load.reuse, settings.load.protocol) = (Reuse::KeepAlive, LoadProtocol::H2);
            settings.system.ingress.kind = IngressKind::Caddy;
        };
        assert_eq!(key(settings(kept)), "load.protocol");
        let both = settings(|settings| {
            kept(settings);
            settings.system.ingress.protocols = vec![Spoken::H1, Spoken::H2];
        });
        assert_eq!(both.check(), Ok(()));
        let mut by_k6 = both;
        by_k6.load.driver = Driver::K6;
        assert_eq!(by_k6.check(), Ok(()));
        by_k6.system.ingress.tls = TlsVersion::None;
        assert_eq!(key(by_k6), "load.protocol");
        let h2_alone = |protocol, tls| {
            settings(|settings| {
                (settings.load.reuse, settings.load.protocol) = (Reuse::KeepAlive, protocol);
                (settings.system.ingress.protocols, settings.system.ingress.tls) = (vec![Spoken::H2], tls);
            })
        };
        assert_eq!(key(h2_alone(LoadProtocol::H1, TlsVersion::V13)), "load.protocol");
        assert_eq!(key(h2_alone(LoadProtocol::Auto, TlsVersion::None)), "load.protocol");
        assert_eq!(h2_alone(LoadProtocol::Auto, TlsVersion::V13).check(), Ok(()));
        assert_eq!(h2_alone(LoadProtocol::H2, TlsVersion::None).check(), Ok(()));
        assert_eq!(settings(|_| {}).check(), Ok(()));
    }
}
