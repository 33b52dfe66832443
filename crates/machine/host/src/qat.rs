//! Counters of QuickAssist devices.
//!
//! The counters are the only proof from outside a program that a device was used at all. Drivers write them in two
//! forms, and in two places:
//!
//! - Linux from 6.6 on has `/sys/kernel/debug/qat_<device>_<address>/fw_counters`, a table with a line per engine
//!   (`drivers/crypto/intel/qat/qat_common/adf_fw_counters.c`, `Documentation/ABI/testing/debugfs-driver-qat`). From 6.8
//!   on `telemetry/` beside it says how busy 4xxx devices were, once somebody has turned it on
//!   (`Documentation/ABI/testing/debugfs-driver-qat_telemetry`).
//! - Intel's own drivers have the same file with a box of `| Firmware Requests [AE  0]: 260640 |` lines (QAT1.7 and later,
//!   `adf_fw_counters.c` there), and the oldest have `/proc/icp_<device>_dev<n>/qat<n>` (QAT1.6).
//!
//! Both are readable by root alone, and only the machine's own functions have them, not the virtual ones of a guest.

use std::fs;
use std::path::{Path, PathBuf};

/// The counter of all requests that QAT devices served, on the system's host or on the node of its pod.
pub const QAT_REQUESTS: &str = "qat_requests";
/// The state with more about these devices, such as how busy they are.
pub const QAT_TELEMETRY: &str = "qat_telemetry";

/// One device's counters since its driver started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QatDevice {
    /// As the driver calls it, such as `qat_4xxx_0000:6b:00.0`.
    pub name: String,
    /// Requests and responses over all engines.
    pub counters: QatCounters,
    /// The busiest public-key slice now, in percent; `None` where telemetry is off or not there.
    pub public_key_percent: Option<u64>,
}

/// The counters of a device's firmware.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QatCounters {
    /// Requests that were sent to it.
    pub requests: u64,
    /// Responses that came back.
    pub responses: u64,
}

/// All devices whose counters can be read, in the order of their names.
#[must_use]
pub fn qat_devices() -> Vec<QatDevice> {
    qat_devices_below(Path::new("/"))
}

/// The same in a tree that stands for the machine's root.
#[must_use]
pub fn qat_devices_below(root: &Path) -> Vec<QatDevice> {
    let debug = entries(&root.join("sys/kernel/debug"), "qat_").into_iter().filter_map(|directory| {
        let counters = read_counters(&directory.join("fw_counters"))?;
        let public_key_percent = telemetry(&directory.join("telemetry"));
        Some(QatDevice { name: name(&directory), counters, public_key_percent })
    });
    let legacy = entries(&root.join("proc"), "icp_").into_iter().filter_map(|directory| {
        let all = entries(&directory, "qat").into_iter().filter_map(|file| read_counters(&file));
        let counters = all.reduce(QatCounters::plus)?;
        Some(QatDevice { name: name(&directory), counters, public_key_percent: None })
    });
    debug.chain(legacy).collect()
}

/// The entries of a directory that begin so, sorted; none where it cannot be read.
fn entries(directory: &Path, prefix: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = all.filter(|path| name(path).starts_with(prefix)).collect();
    found.sort();
    found
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read_counters(file: &Path) -> Option<QatCounters> {
    parse(&fs::read_to_string(file).ok()?)
}

/// Either form; `None` where no engine is named.
fn parse(text: &str) -> Option<QatCounters> {
    parse_table(text).or_else(|| parse_box(text))
}

/// A header `AE Requests Responses`, then ` 0:  17  17` for every engine.
fn parse_table(text: &str) -> Option<QatCounters> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next()?.split_ascii_whitespace().collect();
    let column = |title: &str| header.iter().position(|other| *other == title);
    let (requests, responses) = (column("Requests")?, column("Responses")?);
    let engines = lines.filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        fields.first()?.strip_suffix(':')?.parse::<u16>().ok()?;
        let number = |column: usize| fields.get(column)?.parse().ok();
        Some(QatCounters { requests: number(requests)?, responses: number(responses)? })
    });
    engines.reduce(QatCounters::plus)
}

/// `| Firmware Requests [AE  0]:  260640 |`, and the same of responses and other events.
fn parse_box(text: &str) -> Option<QatCounters> {
    let mut sum: Option<QatCounters> = None;
    for line in text.lines() {
        let Some((what, value)) = line.trim_matches(['|', ' ', '\t']).rsplit_once(':') else { continue };
        let Some((what, "AE")) =
            what.split_once('[').map(|(what, engine)| (what, engine.get(..2).unwrap_or("")))
        else {
            continue;
        };
        let Ok(value) = value.trim().parse::<u64>() else { continue };
        let one = match what.trim() {
            "Firmware Requests" => QatCounters { requests: value, responses: 0 },
            "Firmware Responses" => QatCounters { requests: 0, responses: value },
            _ => continue,
        };
        sum = Some(sum.unwrap_or_default().plus(one));
    }
    sum
}

impl QatCounters {
    fn plus(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            responses: self.responses.saturating_add(other.responses),
        }
    }
}

/// The machine's administrator turns telemetry on; here it is only read.
fn telemetry(directory: &Path) -> Option<u64> {
    let control = fs::read_to_string(directory.join("control")).ok()?;
    if control.trim() == "0" {
        return None;
    }
    busiest_public_key_slice(&fs::read_to_string(directory.join("device_data")).ok()?)
}

/// From lines such as `util_pke0 37`, or with the least, the most and the mean behind the current value.
fn busiest_public_key_slice(text: &str) -> Option<u64> {
    let values = text.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        fields.next()?.strip_prefix("util_pke")?;
        fields.next()?.parse().ok()
    });
    values.max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "AE          Requests        Responses\n 0:               17               16\n 1:          1000000          1000000\n";
    const BOX: &str = "+------------------------------------------------+
| FW Statistics for Qat Device                   |
+------------------------------------------------+
| Firmware Requests [AE  0]:              260640 |
| Firmware Responses[AE  0]:              260639 |
| RAS Events        [AE  0]:                   7 |
+------------------------------------------------+
| Firmware Requests [AE 11]:                   5 |
| Firmware Responses[AE 11]:                   5 |
+------------------------------------------------+
";

    #[test]
    fn both_forms_are_summed_over_engines() {
        assert_eq!(parse(TABLE), Some(QatCounters { requests: 1_000_017, responses: 1_000_016 }));
        assert_eq!(parse(BOX), Some(QatCounters { requests: 260_645, responses: 260_644 }));
    }

    #[test]
    fn what_is_neither_form_has_no_counters() {
        for text in ["", "AE Requests Responses\n", "| Firmware Requests [AE  0]: |", "Device is not started"]
        {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn devices_are_found_in_both_places() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(qat_devices_below(root.path()), []);
        write("sys/kernel/debug/qat_4xxx_0000:6b:00.0/fw_counters", TABLE);
        write("sys/kernel/debug/qat_4xxx_0000:6b:00.0/telemetry/control", "1\n");
        write(
            "sys/kernel/debug/qat_4xxx_0000:6b:00.0/telemetry/device_data",
            "sample_cnt 9\nutil_pke0 12\nutil_pke1 37\n",
        );
        write("sys/kernel/debug/qat_c6xx_0000:05:00.0/fw_counters", BOX);
        write("sys/kernel/debug/qat_c6xx_0000:05:00.0/telemetry/control", "0\n");
        write("sys/kernel/debug/bdi/fw_counters", TABLE);
        write("proc/icp_dh895xcc_dev0/qat0", BOX);
        write("proc/icp_dh895xcc_dev0/qat1", BOX);
        write("proc/icp_dh895xcc_dev0/version", "1.6");
        let found = qat_devices_below(root.path());
        let seen: Vec<(&str, u64, Option<u64>)> = found
            .iter()
            .map(|device| (device.name.as_str(), device.counters.requests, device.public_key_percent))
            .collect();
        assert_eq!(
            seen,
            [
                ("qat_4xxx_0000:6b:00.0", 1_000_017, Some(37)),
                ("qat_c6xx_0000:05:00.0", 260_645, None),
                ("icp_dh895xcc_dev0", 521_290, None),
            ]
        );
    }

    fn table(engines: &[(u64, u64)]) -> String {
        let lines =
            engines.iter().enumerate().map(|(at, (sent, back))| format!("{at:2}: {sent:>16} {back:>16}\n"));
        format!("AE  {:>16} {:>16}\n{}", "Requests", "Responses", lines.collect::<String>())
    }

    fn boxed(engines: &[(u64, u64)]) -> String {
        let line = "+------------------------------------------------+\n";
        let rows = engines.iter().enumerate().map(|(at, (sent, back))| {
            format!("| Firmware Requests [AE {at:2}]:{sent:20} |\n| Firmware Responses[AE {at:2}]:{back:20} |\n{line}")
        });
        format!(
            "{line}| FW Statistics for Qat Device                   |\n{line}{}",
            rows.collect::<String>()
        )
    }

    proptest! {
        #[test]
        fn whatever_the_engines_counted_is_read_back(
            engines in prop::collection::vec((0..u64::MAX / 64, 0..u64::MAX / 64), 1..32),
        ) {
            let sum = QatCounters {
                requests: engines.iter().map(|engine| engine.0).sum(),
                responses: engines.iter().map(|engine| engine.1).sum(),
            };
            prop_assert_eq!(parse(&table(&engines)), Some(sum));
            prop_assert_eq!(parse(&boxed(&engines)), Some(sum));
        }

        #[test]
        fn no_text_is_too_strange(text in "(AE|Requests|Responses|Firmware |\\[|\\]|:|\\||[0-9]{1,25}|\\n| |\\PC){0,80}") {
            let _ = parse(&text);
            let _ = busiest_public_key_slice(&text);
        }
    }
}
