//! Control groups: the CPU limits of those that this process is in, and ([`block`]) groups made to limit a block device.
//!
//! A CPU limit at any level from the own group up to the top binds, and so all of them are read. Inside a
//! container the levels above its own are usually out of sight.

pub mod block;

use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text;

/// How often and for how long a CPU limit stopped the processes of a group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Throttling {
    /// Periods (of usually 100 ms) in which the group was stopped.
    pub periods_count: u64,
    /// Nanoseconds for which it was stopped, summed over CPUs.
    pub stopped_ns: u64,
}

/// Where the CPU controller's files of this process are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CpuGroups {
    /// Version of the hierarchy that has the CPU controller: 1 or 2.
    pub version: u8,
    /// The own group's directory, then its parents' up to the mount point.
    directories: Vec<PathBuf>,
}

impl CpuGroups {
    /// `None` when no hierarchy with a CPU controller is mounted.
    pub(crate) fn own() -> Option<Self> {
        locate(&text::read_trimmed("/proc/self/cgroup")?, &text::read_trimmed("/proc/self/mountinfo")?)
    }

    /// How many CPUs' worth of time the tightest level allows; `None` when no level has a limit.
    pub(crate) fn limit_cpus(&self) -> Option<f64> {
        let limit = |directory: &PathBuf| match self.version {
            1 => parse_quota(
                &text::read_trimmed(directory.join("cpu.cfs_quota_us"))?,
                &text::read_trimmed(directory.join("cpu.cfs_period_us"))?,
            ),
            _ => text::read_trimmed(directory.join("cpu.max"))?
                .split_once(' ')
                .and_then(|(quota, period)| parse_quota(quota, period)),
        };
        self.directories.iter().filter_map(limit).min_by(f64::total_cmp)
    }

    /// Sum over all levels; `None` when no level keeps count.
    pub(crate) fn throttling(&self) -> Option<Throttling> {
        let levels =
            self.directories.iter().filter_map(|directory| text::read_trimmed(directory.join("cpu.stat")));
        levels.filter_map(|stat| parse_throttling(&stat)).reduce(|a, b| Throttling {
            periods_count: a.periods_count.saturating_add(b.periods_count),
            stopped_ns: a.stopped_ns.saturating_add(b.stopped_ns),
        })
    }
}

fn locate(own_groups: &str, mounts: &str) -> Option<CpuGroups> {
    // In the hybrid layout both versions are there; the CPU controller is in the one that lists it.
    let of_version_1 = own_groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|name| name == "cpu").then_some(path)
    });
    let of_version_2 = || own_groups.lines().find_map(|line| line.strip_prefix("0::"));
    let (version, path) = of_version_1.map(|path| (1, path)).or_else(|| Some((2, of_version_2()?)))?;
    let (root, top) = mounts.lines().find_map(|line| mount_of_cpu_controller(line, version))?;
    // A path outside what is mounted here belongs to another namespace: the top is all there is.
    let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    let own: PathBuf = if is_plain { top.iter().chain(below).collect() } else { top.clone() };
    let directories =
        own.ancestors().take_while(|level| level.starts_with(&top)).map(Path::to_owned).collect();
    Some(CpuGroups { version, directories })
}

/// The root and the mount point in a line of mountinfo (proc_pid_mountinfo(5)), if it is the one.
fn mount_of_cpu_controller(line: &str, version: u8) -> Option<(&str, PathBuf)> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut mount_fields = mount.split(' ').skip(3);
    let (root, mount_point) = (mount_fields.next()?, mount_fields.next()?);
    let mut filesystem_fields = filesystem.split(' ');
    let (kind, options) = (filesystem_fields.next()?, filesystem_fields.nth(1)?);
    let is_it = match version {
        1 => kind == "cgroup" && options.split(',').any(|name| name == "cpu"),
        _ => kind == "cgroup2",
    };
    is_it.then(|| (root, PathBuf::from(mount_point)))
}

/// CPUs' worth of time; `None` for "max" and for -1, which mean no limit.
fn parse_quota(quota_us: &str, period_us: &str) -> Option<f64> {
    let quota_us: u64 = quota_us.trim().parse().ok()?;
    let period_us: u64 = period_us.trim().parse().ok().filter(|&period_us| period_us > 0)?;
    Some(quota_us as f64 / period_us as f64)
}

/// `cpu.stat`: version 1 writes nanoseconds and version 2 microseconds, under different names.
fn parse_throttling(stat: &str) -> Option<Throttling> {
    let stopped_ns = text::word_field(stat, "throttled_time")
        .or_else(|| text::word_field(stat, "throttled_usec")?.checked_mul(1_000))?;
    Some(Throttling { periods_count: text::word_field(stat, "nr_throttled")?, stopped_ns })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const SPLIT: &str = "33 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                         32 31 0:29 /docker/ab /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    fn located(own_groups: &str, mounts: &str) -> String {
        let Some(groups) = locate(own_groups, mounts) else { return "none".to_owned() };
        let directories: Vec<_> = groups.directories.iter().map(|path| path.display().to_string()).collect();
        format!("v{} {}", groups.version, directories.join(" "))
    }

    #[test]
    fn groups_are_located_in_every_layout() {
        assert_eq!(
            located("0::/user.slice/a.scope\n", UNIFIED),
            "v2 /sys/fs/cgroup/user.slice/a.scope /sys/fs/cgroup/user.slice /sys/fs/cgroup"
        );
        assert_eq!(located("0::/\n", UNIFIED), "v2 /sys/fs/cgroup");
        assert_eq!(located("0::/../../other\n", UNIFIED), "v2 /sys/fs/cgroup");
        let hybrid = "9:cpuset:/\n5:cpu,cpuacct:/docker/ab/inner\n0::/x\n";
        assert_eq!(located(hybrid, SPLIT), "v1 /sys/fs/cgroup/cpu,cpuacct/inner /sys/fs/cgroup/cpu,cpuacct");
        assert_eq!(located("5:cpu:/elsewhere\n", SPLIT), "v1 /sys/fs/cgroup/cpu,cpuacct");
        assert_eq!(located("", UNIFIED), "none");
        assert_eq!(located("0::/\n", ""), "none");
    }

    #[test]
    fn limits_are_read_as_cpus() {
        assert_eq!(parse_quota("150000", "100000"), Some(1.5));
        assert_eq!(parse_quota("-1\n", "100000\n"), None);
        assert_eq!(parse_quota("max", "100000"), None);
        assert_eq!(parse_quota("1", "0"), None);
    }

    #[test]
    fn throttling_is_read_from_both_versions() {
        let expected = Some(Throttling { periods_count: 7, stopped_ns: 1_500_000 });
        assert_eq!(parse_throttling("nr_periods 9\nnr_throttled 7\nthrottled_time 1500000\n"), expected);
        assert_eq!(parse_throttling("usage_usec 4\nnr_throttled 7\nthrottled_usec 1500\n"), expected);
        assert_eq!(parse_throttling("usage_usec 4\nuser_usec 4\n"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(a in "([0-9:, /.a-z-]*\n?)*", b in "([0-9:, /.a-z-]*\n?)*") {
            drop(locate(&a, &b));
            drop(locate("0::/a", &a));
            let _ = parse_throttling(&a);
            let _ = parse_quota(&a, &b);
        }
    }
}
