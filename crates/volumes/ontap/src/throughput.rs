//! Throughput as text, as ONTAP's commands and its REST interface take it: `500IOPS`, `100MB/s`, or `500IOPS,100MB/s`.
//!
//! Units and words are those of the command reference (`qos policy-group create`, `-max-throughput`): any case, no space, no
//! unit by default, `none` and `INF` and `0` for no limit.
//!
//! A MB is 2^20 bytes, as in the rest of the interface, on which what is published disagrees:
//! - The command reference of `qos policy-group create` and `modify` has "the units are base ten"
//!   (<https://docs.netapp.com/us-en/ontap-cli/qos-policy-group-modify.html>), and NetApp's Harvest makes 1,000 MB/s of `1GB/s`,
//!   which it took for 1,024 before.
//! - The REST reference has `max_throughput_mbps` "in terms of Mbps" and no more. OpenStack's driver for ONTAP divides by 2^20 for it.
//! - An array whose policy had `max_throughput_mbps` 100 let 100 MiB/s pass at every block size, to three digits (what is quoted in
//!   `experiments/qos-policies.yaml`). That is 4.9% above 10^8, from an array that let pass 495 of 500 IOPS.
//!
//! The measured behaviour of an array outweighs the word in its manual: this is what clients of that interface get.

/// The MB of a policy; see the module.
pub const MB_BYTES: u64 = 1 << 20;

/// The throughput that a policy allows or promises; unlimited if both are absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throughput {
    /// Operations per second.
    pub iops: Option<u64>,
    /// Bytes per second.
    pub bytes_per_s: Option<u64>,
}

impl Throughput {
    /// The form of the text, for errors.
    pub const DUE: &str = "500iops, 100MB/s, or both separated by a comma";

    /// Reads it.
    pub fn parse(text: &str) -> Option<Self> {
        let (mut iops, mut bytes_per_s) = (None, None);
        if matches!(text.to_ascii_lowercase().as_str(), "none" | "inf" | "0") {
            return Some(Self { iops, bytes_per_s });
        }
        for part in text.split(',') {
            let units =
                [("kb/s", 1 << 10), ("mb/s", MB_BYTES), ("gb/s", 1 << 30), ("tb/s", 1 << 40), ("b/s", 1)];
            let in_bytes = units.iter().find_map(|(unit, size)| before_unit(part, unit)?.checked_mul(*size));
            let place = if in_bytes.is_some() { &mut bytes_per_s } else { &mut iops };
            let value = in_bytes.or_else(|| before_unit(part, "iops"))?;
            if place.replace(value).is_some() {
                return None;
            }
        }
        Some(Self { iops, bytes_per_s })
    }

    /// As text, in the largest unit that says it exactly; `None` for no limit.
    pub fn text(self) -> Option<String> {
        let iops = self.iops.filter(|iops| *iops > 0).map(|iops| format!("{iops}IOPS"));
        let bytes = self.bytes_per_s.filter(|bytes| *bytes > 0).map(|bytes| {
            let units = [("GB/s", 1 << 30), ("MB/s", MB_BYTES), ("KB/s", 1 << 10), ("B/s", 1)];
            let (unit, size) = units.into_iter().find(|(_, size)| bytes % size == 0).unwrap_or(("B/s", 1));
            format!("{}{unit}", bytes / size)
        });
        let parts: Vec<String> = iops.into_iter().chain(bytes).collect();
        (!parts.is_empty()).then(|| parts.join(","))
    }
}

/// A number before a unit, whatever the unit's case.
pub fn before_unit(text: &str, unit: &str) -> Option<u64> {
    let at = text.len().checked_sub(unit.len())?;
    let (number, found) = (text.get(..at)?, text.get(at..)?);
    number.parse().ok().filter(|_| found.eq_ignore_ascii_case(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_netapp_gives_as_examples_is_read_and_said_again() {
        for (text, iops, bytes_per_s, said) in [
            ("900KB/s", None, Some(900 << 10), "900KB/s"),
            ("500MB/s", None, Some(500 << 20), "500MB/s"),
            ("120GB/s", None, Some(120 << 30), "120GB/s"),
            ("1tb/s", None, Some(1 << 40), "1024GB/s"),
            ("100B/s", None, Some(100), "100B/s"),
            ("5000IOPS", Some(5_000), None, "5000IOPS"),
            ("100iops", Some(100), None, "100IOPS"),
            ("5000IOPS,500KB/s", Some(5_000), Some(500 << 10), "5000IOPS,500KB/s"),
            ("100MB/s,2500iops", Some(2_500), Some(100 << 20), "2500IOPS,100MB/s"),
        ] {
            let throughput = Throughput::parse(text).unwrap();
            assert_eq!(throughput, Throughput { iops, bytes_per_s }, "{text}");
            assert_eq!(throughput.text().as_deref(), Some(said), "{text}");
        }
        for none in ["none", "INF", "0"] {
            assert_eq!(Throughput::parse(none).unwrap().text(), None, "{none}");
        }
        for wrong in
            ["", "500", "500 iops", "1iops,2iops", "1MB/s,2KB/s", "fast", "5iops,", "99999999999999GB/s"]
        {
            assert_eq!(Throughput::parse(wrong), None, "{wrong}");
        }
    }
}
