//! The files that a process has in its memory: which libraries it really loaded.

use std::fs;
use std::path::PathBuf;

/// The files that the process `pid` has mapped, each once, in the order of their addresses.
///
/// Empty when no such process exists, or it belongs to somebody else (proc_pid_maps(5)).
#[must_use]
pub fn mapped_files(pid: u32) -> Vec<PathBuf> {
    let text = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    parse(&String::from_utf8_lossy(&text))
}

/// Lines of five fields and a path, which may hold spaces, or a name in brackets, or nothing.
fn parse(text: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for line in text.lines() {
        let Some(start) = line.find('/') else { continue };
        let path = PathBuf::from(&line[start..]);
        if files.last() != Some(&path) && !files.contains(&path) {
            files.push(path);
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_once_and_what_is_no_file_is_left_out() {
        let text = "55a0-55a1 r--p 00000000 fe:00 9978080                    /usr/sbin/haproxy\n\
                    55a1-55a2 r-xp 00001000 fe:00 9978080                    /usr/sbin/haproxy\n\
                    7f15-7f16 rw-p 00000000 00:00 0 \n\
                    7f16-7f17 r--p 00000000 fe:00 9978081                    /opt/my engines/a.so\n\
                    7ffd-7ffe rw-p 00000000 00:00 0                          [stack]\n";
        assert_eq!(parse(text), [PathBuf::from("/usr/sbin/haproxy"), PathBuf::from("/opt/my engines/a.so")]);
        assert!(parse("").is_empty());
    }

    #[test]
    fn this_process_has_its_own_program() {
        let program = std::env::current_exe().unwrap();
        assert!(mapped_files(std::process::id()).contains(&program));
        assert!(mapped_files(u32::MAX).is_empty());
    }
}
