//! How much memory this process takes, and how much it could.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::text;

/// Physical memory of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnMemory {
    /// The current size in bytes (`VmRSS`).
    pub resident_bytes: u64,
    /// The most it ever took, in bytes (`VmHWM`).
    pub resident_bytes_max: u64,
}

/// The memory that this process takes now and took at most.
///
/// # Errors
///
/// When /proc is not mounted.
pub fn own_memory() -> Result<OwnMemory, Error> {
    text::require("/proc/self/status", parse)
}

fn parse(status: &str) -> Option<OwnMemory> {
    Some(OwnMemory {
        resident_bytes: text::kib_field(status, "VmRSS")?,
        resident_bytes_max: text::kib_field(status, "VmHWM")?,
    })
}

/// The memory that programs can have without swapping, in bytes (`MemAvailable`).
///
/// # Errors
///
/// When /proc is not mounted.
pub fn available_bytes() -> Result<u64, Error> {
    text::require("/proc/meminfo", |text| text::kib_field(text, "MemAvailable"))
}

/// This process's page table as the kernel shows it, for the ioctls that it takes.
///
/// # Errors
///
/// When /proc is not mounted or does not let this process.
pub fn own_pagemap() -> Result<fs::File, Error> {
    let path = Path::new("/proc/self/pagemap");
    fs::File::open(path).map_err(|cause| Error::Read { path: path.to_owned(), cause })
}

/// How many processes the kernel has killed for want of memory since boot, on the whole machine or in any control group;
/// `None` where it does not count them (`oom_kill` in /proc/vmstat, since Linux 4.13).
#[must_use]
pub fn out_of_memory_kills() -> Option<u64> {
    text::word_field(&text::read_trimmed("/proc/vmstat")?, "oom_kill")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_for_want_of_memory_are_counted() {
        assert!(out_of_memory_kills().is_some(), "kernels of this decade count them");
    }

    #[test]
    fn status_is_read() {
        let status = "Name:\tplumb\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let expected = OwnMemory { resident_bytes: 1_048_576, resident_bytes_max: 2_097_152 };
        assert_eq!(parse(status), Some(expected));
        assert_eq!(parse("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(available_bytes().unwrap() > 1 << 20);
    }

    #[test]
    fn this_process_takes_memory() {
        let memory = own_memory().unwrap();
        assert!(memory.resident_bytes > 0 && memory.resident_bytes_max >= memory.resident_bytes / 2);
    }
}
