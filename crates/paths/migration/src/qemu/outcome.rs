//! The outcome of a migration: by the clock, by the sockets, and by QEMU's own account.

use plumb_host::cpu::CpuTime;
use serde_json::Value;

const SECOND_NS: u64 = 1_000_000_000;

/// The bytes that had gone over the wire at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// The time since the migration began.
    pub at_ns: u64,
    pub sent_bytes: u64,
}

/// QEMU's own counts (qapi/migration.json, `MigrationInfo`).
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Account {
    /// Whether the account is final: a completed migration has its total time.
    pub is_final: bool,
    pub total_ms: u64,
    pub downtime_ms: u64,
    pub setup_ms: u64,
    pub transferred_bytes: u64,
    /// Pages sent with their content.
    pub normal_pages: u64,
    /// Pages of zeros.
    pub zero_pages: u64,
    pub page_bytes: u64,
    pub rounds: u64,
    pub mbps: f64,
    pub pages_per_second: u64,
    pub error: Option<String>,
}

impl Account {
    /// Reads an answer to `query-migrate`. Missing values are 0.
    pub(super) fn from_answer(state: &Value) -> Self {
        let (time, ram) = (
            |name: &str| state[name].as_u64().unwrap_or_default(),
            |name: &str| state["ram"][name].as_u64().unwrap_or_default(),
        );
        Self {
            is_final: state["status"] != "completed" || time("total-time") > 0,
            total_ms: time("total-time"),
            downtime_ms: time("downtime"),
            setup_ms: time("setup-time"),
            transferred_bytes: ram("transferred"),
            normal_pages: ram("normal"),
            zero_pages: ram("duplicate"),
            page_bytes: ram("page-size"),
            rounds: ram("dirty-sync-count"),
            mbps: state["ram"]["mbps"].as_f64().unwrap_or_default(),
            pages_per_second: ram("pages-per-second"),
            error: state["error-desc"].as_str().map(str::to_owned),
        }
    }

    /// All pages that were sent, including those of zeros.
    pub(super) fn pages(&self) -> u64 {
        self.normal_pages.saturating_add(self.zero_pages)
    }

    /// The bytes of the pages that were sent with their content.
    pub(super) fn normal_bytes(&self) -> u64 {
        self.normal_pages.saturating_mul(self.page_bytes)
    }
}

/// A migration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// The time from the command until QEMU reported the end.
    pub total_ns: u64,
    /// The time from the stop of the guest until then, by QEMU's clock; `None` if the guest never stopped.
    pub downtime_us: Option<u64>,
    pub rounds_us: Vec<u64>,
    /// Whether the guest is on the destination. Otherwise the migration took too long.
    pub has_converged: bool,
    pub send_cpu: CpuTime,
    /// Zero for a migration that was given up.
    pub recv_cpu: CpuTime,
    /// TCP connections that were found.
    pub connections: usize,
    pub samples: Vec<Sample>,
    pub account: Account,
}

impl Outcome {
    /// Bytes on the wire by the sockets' counters.
    pub(super) fn wire_bytes(&self) -> u64 {
        self.samples.last().map_or(0, |sample| sample.sent_bytes)
    }

    /// The time in which memory could move.
    pub(super) fn moving_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.account.setup_ms.saturating_mul(1_000_000))
    }

    /// Bytes on the wire in each whole second since the first byte.
    pub(super) fn bytes_by_second(&self) -> Vec<f64> {
        let (Some(first), Some(last)) =
            (self.samples.iter().rfind(|sample| sample.sent_bytes == 0), self.samples.last())
        else {
            return Vec::new();
        };
        let seconds = last.at_ns.saturating_sub(first.at_ns) / SECOND_NS;
        let edges: Vec<f64> =
            (0..=seconds).map(|second| self.sent_at(first.at_ns + second * SECOND_NS)).collect();
        edges.windows(2).map(|edge| edge[1] - edge[0]).collect()
    }

    /// The most bytes on the wire in any second, at whatever moment it begins; `None` if the migration lasted less than one.
    pub(super) fn busiest_second(&self) -> Option<f64> {
        let (first_ns, last_ns) = (self.samples.first()?.at_ns, self.samples.last()?.at_ns);
        let begins = self.samples.iter().map(|sample| sample.at_ns);
        let ends = self.samples.iter().filter_map(|sample| sample.at_ns.checked_sub(SECOND_NS));
        let whole = begins.chain(ends).filter(|at_ns| *at_ns >= first_ns && at_ns + SECOND_NS <= last_ns);
        whole.map(|at_ns| self.sent_at(at_ns + SECOND_NS) - self.sent_at(at_ns)).max_by(f64::total_cmp)
    }

    /// Bytes sent until a moment, interpolated linearly between the samples around it.
    fn sent_at(&self, at_ns: u64) -> f64 {
        let after = self.samples.partition_point(|sample| sample.at_ns < at_ns);
        let (Some(to), Some(from)) = (self.samples.get(after), self.samples.get(after.saturating_sub(1)))
        else {
            return self.wire_bytes() as f64;
        };
        let span_ns = to.at_ns.saturating_sub(from.at_ns);
        if span_ns == 0 {
            return to.sent_bytes as f64;
        }
        let share = at_ns.saturating_sub(from.at_ns) as f64 / span_ns as f64;
        from.sent_bytes as f64 + share * to.sent_bytes.saturating_sub(from.sent_bytes) as f64
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    /// As QEMU 7.2.22 answered after it had moved 512 MiB, half of it zeros, with zstd.
    pub(in crate::qemu) fn account() -> Account {
        Account::from_answer(&json!({
            "status": "completed", "setup-time": 1, "downtime": 54, "total-time": 1364,
            "ram": { "total": 536_870_912, "dirty-sync-count": 3, "multifd-bytes": 270_076_736, "pages-per-second": 145_510,
                "page-size": 4096, "remaining": 0, "mbps": 1588.66, "transferred": 270_666_861, "duplicate": 65_553,
                "normal-bytes": 268_365_824, "normal": 65_519 }
        }))
    }

    pub(in crate::qemu) fn outcome(samples: &[(u64, u64)]) -> Outcome {
        let samples = samples
            .iter()
            .map(|(ms, sent_bytes)| Sample { at_ns: ms * 1_000_000, sent_bytes: *sent_bytes })
            .collect();
        Outcome {
            total_ns: 1_364_200_000,
            downtime_us: Some(54_300),
            rounds_us: vec![1_300_000, 9_000, 54_000],
            has_converged: true,
            send_cpu: CpuTime { user_ns: 900_000_000, system_ns: 100_000_000 },
            recv_cpu: CpuTime { user_ns: 300_000_000, system_ns: 200_000_000 },
            connections: 3,
            samples,
            account: account(),
        }
    }

    #[test]
    fn qemus_account_is_read_and_what_it_does_not_tell_is_nothing() {
        let account = account();
        assert_eq!((account.total_ms, account.downtime_ms, account.rounds), (1364, 54, 3));
        assert_eq!((account.pages(), account.normal_bytes()), (131_072, 268_365_824));
        assert!(account.is_final && !Account::from_answer(&json!({ "status": "completed" })).is_final);
        assert_eq!(Account::from_answer(&json!("strange")), Account { is_final: true, ..Account::default() });
    }

    #[test]
    fn seconds_are_cut_between_samples_and_begin_with_the_first_byte() {
        let outcome = outcome(&[(0, 0), (500, 0), (1000, 50), (2000, 150), (2600, 210), (3000, 250)]);
        // From 0.5 s on: 100 until 1.5 s, 100 until 2.5 s, and half a second that is not whole.
        assert_eq!(outcome.bytes_by_second(), [100.0, 100.0]);
        assert_eq!(outcome.wire_bytes(), 250);
        assert_eq!(outcome.busiest_second().map(f64::round), Some(100.0));
    }

    #[test]
    fn without_samples_there_are_no_seconds() {
        assert!(outcome(&[]).bytes_by_second().is_empty());
        assert!(outcome(&[(0, 0), (300, 7)]).bytes_by_second().is_empty());
    }
}
