//! Processes as /proc shows them.
//!
//! A process may end between being listed and being read; that is not an error here, it is just gone.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One line of `/proc/PID/stat`, as far as it is used (proc_pid_stat(5)). Times are in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub pid: u32,
    pub parent: u32,
    /// `R` for running, `T` for stopped by a signal, `Z` for ended and not waited for, and so on.
    pub state: char,
    pub user_ticks: u64,
    pub system_ticks: u64,
    /// Of children that have ended and were waited for, with theirs.
    pub waited_user_ticks: u64,
    pub waited_system_ticks: u64,
    /// Since boot. With the pid it names one process for ever: pids are reused, this pair is not.
    pub started_ticks: u64,
    /// The CPU on which it ran last.
    pub cpu: u32,
}

impl Stat {
    /// The process `pid` now; `None` when there is none.
    pub(crate) fn of_process(pid: u32) -> Option<Self> {
        read_stat(&Path::new("/proc").join(pid.to_string()).join("stat"))
    }

    /// As [`Stat::of_process`], where /proc is under another root.
    pub(crate) fn read_under(root: &Path, pid: u32) -> Option<Self> {
        read_stat(&root.join("proc").join(pid.to_string()).join("stat"))
    }

    /// The thread whose directory in /proc this is; `None` when it has ended.
    pub(crate) fn of_task(task: &Path) -> Option<Self> {
        read_stat(&task.join("stat"))
    }

    /// Whether both were read from the same process, and not from a later one with its pid.
    pub(crate) fn is_same_process(&self, other: &Self) -> bool {
        (self.pid, self.started_ticks) == (other.pid, other.started_ticks)
    }
}

/// The process `root` and every descendant of it, parents before their children.
///
/// Empty when `root` is gone. A process whose parent has ended belongs to another tree by then.
pub(crate) fn tree(root: u32) -> Vec<Stat> {
    tree_of(root, &all())
}

fn tree_of(root: u32, processes: &[Stat]) -> Vec<Stat> {
    let mut by_parent: BTreeMap<u32, Vec<Stat>> = BTreeMap::new();
    for process in processes {
        // Process 1 in a PID namespace has a parent outside, shown as 0, and 0 is nobody's child.
        by_parent.entry(process.parent).or_default().push(*process);
    }
    let mut found: Vec<Stat> = processes.iter().filter(|process| process.pid == root).copied().collect();
    let mut next = 0;
    while let Some(parent) = found.get(next) {
        // Taking the children out makes a loop in inconsistent input end.
        found.extend(
            by_parent.remove(&parent.pid).unwrap_or_default().iter().filter(|child| child.pid != root),
        );
        next += 1;
    }
    found
}

fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .filter_map(|entry| read_stat(&entry.path().join("stat")))
        .collect()
}

fn read_stat(path: &Path) -> Option<Stat> {
    // A program may give itself any name, also one that is not UTF-8.
    parse_stat(&String::from_utf8_lossy(&fs::read(path).ok()?))
}

fn parse_stat(text: &str) -> Option<Stat> {
    let (pid, rest) = text.split_once(" (")?;
    // The name in parentheses may itself hold parentheses and spaces: only the last one ends it.
    let (_name, fields) = rest.rsplit_once(") ")?;
    // Fields are numbered from 1 in the manual; the state, number 3, is the first here.
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |manual_index: usize| fields.get(manual_index - 3)?.parse::<u64>().ok();
    // Waited-for children's times are signed in the manual, and never negative.
    Some(Stat {
        pid: pid.parse().ok()?,
        parent: u32::try_from(number(4)?).ok()?,
        state: fields.first()?.chars().next()?,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        waited_user_ticks: number(16)?,
        waited_system_ticks: number(17)?,
        started_ticks: number(22)?,
        cpu: u32::try_from(number(39)?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NGINX: &str = "4711 (nginx: (w) x) S 4710 4710 4710 0 -1 4194368 412 7 0 0 120 34 5 6 20 0 1 0 91542 \
                         11329536 1033 18446744073709551615 1 1 0 0 0 0 0 1073746048 402745863 0 0 0 17 1 0 0 0 0 0\n";

    fn process(pid: u32, parent: u32) -> Stat {
        Stat {
            pid,
            parent,
            state: 'S',
            user_ticks: 0,
            system_ticks: 0,
            waited_user_ticks: 0,
            waited_system_ticks: 0,
            started_ticks: 0,
            cpu: 0,
        }
    }

    #[test]
    fn a_stat_line_is_read_past_a_name_with_parentheses() {
        let expected = Stat {
            pid: 4711,
            parent: 4710,
            state: 'S',
            user_ticks: 120,
            system_ticks: 34,
            waited_user_ticks: 5,
            waited_system_ticks: 6,
            started_ticks: 91_542,
            cpu: 1,
        };
        assert_eq!(parse_stat(NGINX), Some(expected));
    }

    #[test]
    fn malformed_stat_lines_are_none() {
        for text in ["", "1", "1 (", "1 (a)", "1 (a) ", "1 (a) S 0", "x (a) S 1 2 3", "-1 (a) S"] {
            assert_eq!(parse_stat(text), None, "{text:?}");
        }
    }

    #[test]
    fn own_process_is_found() {
        let own = Stat::of_process(std::process::id()).unwrap();
        assert_eq!(own.pid, std::process::id());
        assert!(own.is_same_process(&tree(own.pid)[0]));
    }

    #[test]
    fn a_tree_lists_parents_before_children() {
        let processes =
            [process(9, 5), process(1, 0), process(5, 2), process(2, 1), process(3, 1), process(6, 2)];
        let pids = |root| tree_of(root, &processes).iter().map(|process| process.pid).collect::<Vec<_>>();
        assert_eq!(pids(2), [2, 5, 6, 9]);
        assert_eq!(pids(1), [1, 2, 3, 5, 6, 9]);
        assert_eq!(pids(9), [9]);
        assert_eq!(pids(77), [0; 0]);
    }

    #[test]
    fn a_loop_of_parents_ends() {
        let looped = [process(1, 2), process(2, 1), process(3, 3)];
        assert_eq!(tree_of(1, &looped).len(), 2);
        assert_eq!(tree_of(3, &looped).len(), 1);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".*") {
            let _ = parse_stat(&text);
        }

        #[test]
        fn no_damaged_line_makes_the_parser_panic(
            at in 0..NGINX.len(), bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..8),
        ) {
            let mut line = NGINX.as_bytes().to_vec();
            line.splice(at..(at + bytes.len()).min(NGINX.len()), bytes);
            let _ = parse_stat(&String::from_utf8_lossy(&line));
        }
    }
}
