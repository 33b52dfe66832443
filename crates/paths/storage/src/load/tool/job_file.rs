//! A job file of the user, for fio.
//!
//! What it reads and writes, and for how long, is the experiment's affair: these keys are taken out of every section and given
//! once, in a section `[global]` before all others. Everything else stays as it is.

use std::path::{Path, PathBuf};

use plumb_host::named_file;

/// Keys that are taken out: where, how long, and what comes before; and what makes, extends or removes files.
const REPLACED: [&str; 20] = [
    "filename",
    "filename_format",
    "directory",
    "opendir",
    "nrfiles",
    "filesize",
    "runtime",
    "timeout",
    "time_based",
    "ramp_time",
    "group_reporting",
    "allow_file_create",
    "create_on_open",
    "create_only",
    "overwrite",
    "file_append",
    "fill_device",
    "fill_fs",
    "unlink",
    "unlink_each_loop",
];

/// Why an option of fio is not the user's to give, where it is not. On its command line fio takes the beginning of a key for the key.
pub(super) fn refused_option(option: &str) -> Option<String> {
    let key = key_of(option.trim_start_matches('-'));
    let begins = |whole: &str| !key.is_empty() && whole.starts_with(&key);
    if REPLACED.iter().any(|whole| begins(whole)) {
        return Some(format!(
            "`{option}` is the experiment's to say: where, how long, and that no file is made or removed"
        ));
    }
    if ["rw", "readwrite", "size", "offset", "offset_increment", "numjobs"].iter().any(|whole| begins(whole))
    {
        return Some(format!(
            "`{option}` decides which data is used; say it by the keys of `load`, or in the job file"
        ));
    }
    REFUSED.iter().find(|(whole, _)| begins(whole)).map(|(_, why)| format!("`{option}` {why}"))
}

/// Whether an option sets a rate.
pub(super) fn is_rate(option: &str) -> bool {
    let key = key_of(option.trim_start_matches('-'));
    ["rate", "rate_iops"].iter().any(|whole| key.len() >= 3 && whole.starts_with(&key))
}

/// Keys that cannot be in it, each with the reason.
const REFUSED: [(&str, &str); 6] = [
    ("stonewall", "runs jobs one after another, and a slot measures one load; give each job a variant"),
    (
        "wait_for_previous",
        "runs jobs one after another, and a slot measures one load; give each job a variant",
    ),
    ("wait_for", "runs jobs one after another, and a slot measures one load; give each job a variant"),
    ("new_group", "reports jobs apart, and a slot measures one load; give each job a variant"),
    ("read_iolog", "names other targets than the experiment's"),
    ("include", "names another file, which is not read here; copy its lines"),
];

/// Keys under which fio takes no time of an operation.
const WITHOUT_TIMES: [&str; 2] = ["gtod_reduce", "disable_lat"];

/// Why a job file cannot drive a slot. Completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub(super) enum JobError {
    #[error(transparent)]
    Unreadable(#[from] plumb_host::Error),
    #[error("use the job file {}: line {line}: {why}", path.display())]
    Line { path: PathBuf, line: usize, why: Wrong },
}

/// A mistake in a line of a job file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Wrong {
    #[error("it has no job, which begins with a line such as `[job]`")]
    NoJob,
    #[error("`{key}` {why}")]
    Refused { key: &'static str, why: &'static str },
    #[error("`{key}={value}` must be a number such as `256m`, so that it can be held against the target")]
    NotNumber { key: String, value: String },
}

/// The facts about a job file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobFile {
    /// The lines without those that are always replaced, each with its key; a section's has none.
    lines: Vec<(String, String)>,
    /// Whether a job in it writes, or may.
    pub(super) writes: bool,
    /// The key under which it takes no times.
    pub(super) without_times: Option<&'static str>,
    /// Whether a job in it keeps to a rate.
    pub(super) has_rate: bool,
    reach: Reach,
}

/// The largest of each of these in any section.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Reach {
    size: u64,
    offset: u64,
    increment: u64,
    jobs: u64,
}

impl JobFile {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, or a line in it cannot be part of a slot.
    pub(super) fn read_from(path: &Path) -> Result<Self, JobError> {
        let text = named_file::text(path)?;
        Self::parse(&text).map_err(|(line, why)| JobError::Line { path: path.to_owned(), line, why })
    }

    fn parse(text: &str) -> Result<Self, (usize, Wrong)> {
        let mut file = Self {
            lines: Vec::new(),
            writes: false,
            without_times: None,
            has_rate: false,
            reach: Reach::default(),
        };
        let mut jobs = 0;
        for (number, line) in (1..).zip(text.lines()) {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with([';', '#']) {
                continue;
            }
            let key = key_of(trimmed);
            if trimmed.starts_with('[') {
                jobs += usize::from(!trimmed.eq_ignore_ascii_case("[global]"));
            } else {
                let (_, value) = trimmed.split_once('=').unwrap_or_default();
                file.note(&key, value.trim()).map_err(|why| (number, why))?;
            }
            if !REPLACED.contains(&key.as_str()) {
                file.lines.push((key, line.to_owned()));
            }
        }
        if jobs == 0 {
            return Err((1, Wrong::NoJob));
        }
        Ok(file)
    }

    fn note(&mut self, key: &str, value: &str) -> Result<(), Wrong> {
        if let Some((key, why)) = REFUSED.iter().find(|(name, _)| *name == key) {
            return Err(Wrong::Refused { key, why });
        }
        match key {
            // A variable could stand for anything.
            "rw" | "readwrite" => {
                let access = value.split(':').next().unwrap_or_default();
                self.writes |= !["read", "randread"].contains(&access);
            }
            "rate" | "rate_iops" => self.has_rate = true,
            "size" => raise(&mut self.reach.size, bytes_of(key, value)?),
            "offset" => raise(&mut self.reach.offset, bytes_of(key, value)?),
            "offset_increment" => raise(&mut self.reach.increment, bytes_of(key, value)?),
            "numjobs" => raise(&mut self.reach.jobs, bytes_of(key, value)?),
            _ => {
                if let Some(name) = WITHOUT_TIMES.iter().find(|name| **name == key && value != "0") {
                    self.without_times = Some(name);
                }
            }
        }
        Ok(())
    }

    /// Where the last job's region ends at most, in bytes. fio would go on behind the end of a file, which takes no storage.
    pub(super) fn reach(&self) -> u64 {
        let Reach { size, offset, increment, jobs } = self.reach;
        let last = increment.saturating_mul(jobs.saturating_sub(1));
        size.saturating_add(offset).saturating_add(last)
    }

    /// The file that fio gets. A key that is given here is in no other section.
    pub(super) fn with(&self, global: &[(&str, String)]) -> String {
        let given = global.iter().map(|(key, value)| format!("{key}={value}\n"));
        let is_given = |key: &str| global.iter().any(|(given, _)| *given == key);
        let others = self.lines.iter().filter(|(key, _)| !is_given(key)).map(|(_, line)| format!("{line}\n"));
        format!("[global]\n{}", given.chain(others).collect::<String>())
    }
}

fn raise(known: &mut u64, value: u64) {
    *known = (*known).max(value);
}

/// A size as fio reads it, with its suffixes as powers of 1024; 0 for a share of the target, which never exceeds that.
fn bytes_of(key: &str, value: &str) -> Result<u64, Wrong> {
    let value = value.to_lowercase();
    let digits = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let shift = match value[digits..].trim_end_matches('b').trim_end_matches('i') {
        "%" => return Ok(0),
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        "p" => 50,
        _ => 64,
    };
    let bytes =
        value[..digits].parse::<u64>().ok().and_then(|number| number.checked_mul(1_u64.checked_shl(shift)?));
    bytes.ok_or_else(|| Wrong::NotNumber { key: key.to_owned(), value })
}

/// The key of a line: `rw` of `rw = read`, and `include` of `include FILE`.
fn key_of(line: &str) -> String {
    line.split(['=', ' ', '\t']).next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_experiment_says_where_and_how_long_and_the_file_the_rest() {
        let text = "; a comment\n[global]\nbs = 8k\nfilename=/dev/sda\nruntime=60\n\n[one]\nrw=randread:2\niodepth=4\n";
        let file = JobFile::parse(text).unwrap();
        assert!(!file.writes && file.without_times.is_none() && !file.has_rate);
        let global = [("filename", "/x".to_owned()), ("runtime", "500ms".to_owned())];
        assert!(file.with(&[("bs", "4k".to_owned())]).starts_with("[global]\nbs=4k\n[global]\n[one]\n"));
        assert_eq!(
            file.with(&global),
            "[global]\nfilename=/x\nruntime=500ms\n[global]\nbs = 8k\n[one]\nrw=randread:2\niodepth=4\n"
        );
    }

    #[test]
    fn what_writes_and_what_takes_no_times_is_known() {
        let parse = |line: &str| JobFile::parse(&format!("[one]\n{line}\n")).unwrap();
        for line in ["rw=randwrite", "readwrite = rw", "rw=${ACCESS}", "rw=trim"] {
            assert!(parse(line).writes, "{line}");
        }
        assert_eq!(parse("gtod_reduce=1").without_times, Some("gtod_reduce"));
        assert_eq!(parse("gtod_reduce=0").without_times, None);
        assert!(parse("rate_iops=100").has_rate);
    }

    #[test]
    fn how_far_a_job_reaches_is_known() {
        let reach = |lines: &str| JobFile::parse(&format!("[one]\n{lines}\n")).map(|file| file.reach());
        assert_eq!(reach("rw=read"), Ok(0));
        assert_eq!(reach("size=50%\noffset=4k"), Ok(4096));
        assert_eq!(reach("size=2MiB\noffset_increment=1m\nnumjobs=3"), Ok(4 << 20));
        for line in ["size=${SIZE}", "size=2x", "size=99999999p", "size=-1"] {
            assert_eq!(reach(line).unwrap_err().0, 2, "{line}");
        }
    }

    #[test]
    fn options_cannot_lead_elsewhere() {
        assert!(
            refused_option("--filename=/dev/sda")
                .unwrap()
                .starts_with("`--filename=/dev/sda` is the experiment's")
        );
        assert!(refused_option("-unlink").is_some() && refused_option("--stonewall").is_some());
        assert!(refused_option("--rw=write").is_some());
        assert_eq!(refused_option("--thinktime=10"), None);
        for beginning in ["--director=/", "--readwrit=randwrite", "--numjob=2", "--unlink_e=1", "--stonewal"]
        {
            assert!(refused_option(beginning).is_some(), "{beginning}");
        }
        assert!(is_rate("--rate_iops=5") && is_rate("--rate=1m") && !is_rate("--random_generator=lfsr"));
    }

    #[test]
    fn a_file_that_is_more_than_one_load_is_refused_at_its_line() {
        let (line, why) = JobFile::parse("[one]\nrw=read\n[two]\nstonewall\n").unwrap_err();
        assert!(
            line == 4 && why.to_string().starts_with("`stonewall` runs jobs one after another"),
            "{line}: {why}"
        );
        assert!(JobFile::parse("[global]\nrw=read\n").is_err());
        assert!(JobFile::parse("[one]\ninclude other.fio\n").is_err());
    }
}
