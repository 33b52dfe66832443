//! fio's log of each second: `--write_iops_log` with `--log_avg_msec=1000`, one file for all jobs.
//!
//! A line is `ms, value, direction, block size, offset[, priority]`, with 0 for reads and 1 for writes (fio's `HOWTO`, "Log file
//! formats"). Every job writes its own lines, so a second of the load is their sum.

use std::collections::BTreeMap;
use std::path::Path;

use plumb_host::Error;

use crate::metrics::{READ_IOPS, WRITE_IOPS};

/// The beginning of the log's name.
pub(super) fn prefix(scratch: &Path) -> String {
    scratch.join("seconds").display().to_string()
}

fn file(scratch: &Path) -> std::path::PathBuf {
    scratch.join("seconds_iops.log")
}

/// Removes the log of an earlier run.
pub(super) fn clear(scratch: &Path) {
    // There is none before the first run.
    let _ = std::fs::remove_file(file(scratch));
}

/// Operations in each whole second of the window, by metric.
///
/// # Errors
/// When the log cannot be read.
pub(super) fn read_log(
    scratch: &Path,
    jobs: u32,
    window_ns: u64,
) -> Result<BTreeMap<String, Vec<f64>>, Error> {
    let path = file(scratch);
    let text = std::fs::read_to_string(&path).map_err(|cause| Error::Read { path, cause })?;
    Ok(parse(&text, jobs, window_ns / 1_000_000_000))
}

/// fio writes no line for a second in which a job completed nothing. A line of the last second is missing also where a job ended
/// before it was over, so that one counts only with the lines of all jobs.
fn parse(text: &str, jobs: u32, whole: u64) -> BTreeMap<String, Vec<f64>> {
    let mut seconds: [BTreeMap<u64, (u32, f64)>; 2] = Default::default();
    for line in text.lines() {
        let mut fields = line.split(',').map(str::trim);
        let mut next = || fields.next()?.parse::<u64>().ok();
        let (Some(at_ms), Some(per_s), Some(direction @ 0..=1)) = (next(), next(), next()) else { continue };
        let second = seconds[usize::from(direction == 1)].entry((at_ms + 500) / 1000).or_default();
        *second = (second.0 + 1, second.1 + per_s as f64);
    }
    let each = |seconds: &BTreeMap<u64, (u32, f64)>| -> Vec<f64> {
        let of = |second| seconds.get(&second).copied().unwrap_or_default();
        let is_known = |second: &u64| *second < whole || of(*second).0 == jobs;
        (1..=whole).filter(is_known).map(|second| of(second).1).collect()
    };
    let named = [READ_IOPS, WRITE_IOPS].into_iter().zip(&seconds);
    named
        .filter(|(_, seconds)| !seconds.is_empty())
        .map(|(metric, seconds)| (metric.name.to_owned(), each(seconds)))
        .filter(|(_, windows)| !windows.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_the_sum_of_all_jobs() {
        let text = "1000, 100, 0, 0, 0\n1000, 101, 1, 0, 0\n2001, 101, 0, 0, 0\n1000, 100, 0, 0, 0\n999, 100, 1, 0, 0\n\
                    2000, 101, 0, 0, 0, 0\n2000, 7, 1, 0, 0\nx\n";
        let windows = parse(text, 2, 2);
        assert_eq!(windows["read_iops"], [200.0, 202.0]);
        assert_eq!(windows["write_iops"], [201.0], "the second one of a job is missing");
        assert!(parse("", 1, 3).is_empty());
    }

    #[test]
    fn a_second_without_a_line_is_one_in_which_a_job_did_nothing() {
        // As fio 3.33 logs a job that does four operations and then thinks for two seconds.
        let text = "1000, 4, 0, 4096, 0\n3000, 4, 0, 4096, 0\n6018, 3, 0, 4096, 0\n8034, 3, 0, 4096, 0\n";
        assert_eq!(parse(text, 1, 8)["read_iops"], [4.0, 0.0, 4.0, 0.0, 0.0, 3.0, 0.0, 3.0]);
        let of_two = "1000, 5, 0, 4096, 0\n1000, 5, 0, 4096, 0\n2000, 7, 0, 4096, 0\n3000, 5, 0, 4096, 0\n3000, 5, 0, 4096, 0\n";
        assert_eq!(parse(of_two, 2, 3)["read_iops"], [10.0, 7.0, 10.0]);
    }
}
