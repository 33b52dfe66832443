//! Dirty pages from the kernel: userfaultfd's asynchronous write protection and `PAGEMAP_SCAN`.
//!
//! Memory is protected once. A write to a protected page lifts its protection in the kernel, without anybody being asked,
//! and one ioctl finds the pages that are not protected any more and protects them again
//! (Documentation/admin-guide/mm/pagemap.rst and userfaultfd.rst). Huge pages are split where they are written to, so
//! the answer is exact to 4 KiB.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use super::super::bitmap::{PageRange, PageSet};
use super::super::error::MigrationError;
use super::super::memory::GuestMemory;
use plumb_codec::PAGE_BYTES;

/// `UFFD_USER_MODE_ONLY`: only writes of this process in user mode are watched, which takes no privilege.
const USER_MODE_ONLY: libc::c_int = 1;
const API: u64 = 0xaa;
/// `UFFD_FEATURE_WP_UNPOPULATED` and `UFFD_FEATURE_WP_ASYNC`.
const FEATURES: u64 = 1 << 13 | 1 << 15;
/// `UFFDIO_REGISTER_MODE_WP`.
const REGISTER_WRITE_PROTECT: u64 = 2;
/// `_IOWR(0xaa, 0x3f, struct uffdio_api)`.
const IOCTL_API: libc::Ioctl = 0xc018_aa3f;
/// `_IOWR(0xaa, 0x00, struct uffdio_register)`.
const IOCTL_REGISTER: libc::Ioctl = 0xc020_aa00;
/// `_IOWR('f', 16, struct pm_scan_arg)`.
const IOCTL_SCAN: libc::Ioctl = 0xc060_6610;
/// `PAGE_IS_WRITTEN`.
const IS_WRITTEN: u64 = 1 << 1;
/// `PM_SCAN_WP_MATCHING` and `PM_SCAN_CHECK_WPASYNC`.
const PROTECT_AND_CHECK: u64 = 1 | 2;
/// The most ranges that one call returns.
const RANGES: usize = 1024;

/// `struct uffdio_api`.
#[repr(C)]
#[derive(Default)]
struct ApiArgument {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
#[derive(Default)]
struct RegisterArgument {
    start: u64,
    length: u64,
    mode: u64,
    ioctls: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_count: u64,
    pages_max: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Memory that the kernel watches.
#[derive(Debug)]
pub(super) struct Userfault {
    memory: Arc<GuestMemory>,
    /// The watch ends when this is closed.
    _watch: OwnedFd,
    pagemap: File,
}

impl Userfault {
    /// Has the kernel watch a memory. All of it counts as written until the first call of the ioctl.
    ///
    /// # Errors
    /// When the kernel is older than 6.7, or does not allow it to this process.
    pub(super) fn watch(memory: Arc<GuestMemory>) -> Result<Self, MigrationError> {
        let failed = MigrationError::kernel("watch guest memory by userfaultfd");
        let open = || -> io::Result<OwnedFd> {
            let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY;
            // SAFETY: the call takes a number and returns a descriptor or an error.
            let descriptor = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
            let descriptor = i32::try_from(descriptor).map_err(io::Error::other)?;
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: the descriptor is new and nobody else has it.
            let watch = unsafe { OwnedFd::from_raw_fd(descriptor) };
            let mut api = ApiArgument { api: API, features: FEATURES, ioctls: 0 };
            // SAFETY: the argument is the struct that this ioctl reads and writes.
            unsafe { control(&watch, IOCTL_API, &mut api) }?;
            let mut register = RegisterArgument {
                start: memory.pointer(&(0..0)) as u64,
                length: memory.bytes() as u64,
                mode: REGISTER_WRITE_PROTECT,
                ioctls: 0,
            };
            // SAFETY: as above; the range is this memory, and to watch its writes does not change what they do.
            unsafe { control(&watch, IOCTL_REGISTER, &mut register) }?;
            Ok(watch)
        };
        let watch = open().map_err(failed)?;
        let userfault = Self { memory, _watch: watch, pagemap: plumb_host::memory::own_pagemap()? };
        userfault.take(&mut PageSet::none(0))?;
        Ok(userfault)
    }

    /// Adds the pages that were written since the last call, and protects them again.
    pub(super) fn take(&self, set: &mut PageSet) -> Result<(), MigrationError> {
        let base = self.memory.pointer(&(0..0)) as u64;
        let end = base + self.memory.bytes() as u64;
        let mut regions = vec![Region::default(); RANGES];
        let mut start = base;
        while start < end {
            let mut argument = ScanArgument {
                size: size_of::<ScanArgument>() as u64,
                flags: PROTECT_AND_CHECK,
                start,
                end,
                regions: regions.as_mut_ptr() as u64,
                regions_count: RANGES as u64,
                category_mask: IS_WRITTEN,
                return_mask: IS_WRITTEN,
                ..ScanArgument::default()
            };
            // SAFETY: the argument is the struct that this ioctl reads and writes, and points to room for as many regions
            // as it says.
            let told = unsafe { control(&self.pagemap, IOCTL_SCAN, &mut argument) }
                .map_err(MigrationError::kernel("ask the kernel for dirty pages"))?;
            for region in regions.iter().take(told) {
                let first = region.start.saturating_sub(base) / PAGE_BYTES as u64;
                set.insert(PageRange { first, count: (region.end - region.start) / PAGE_BYTES as u64 });
            }
            if argument.walk_end <= start {
                break;
            }
            start = argument.walk_end;
        }
        Ok(())
    }
}

/// # Safety
/// `argument` is what the ioctl takes.
unsafe fn control<T>(descriptor: &impl AsRawFd, request: libc::Ioctl, argument: &mut T) -> io::Result<usize> {
    // SAFETY: the caller passes the argument that belongs to the request.
    let result = unsafe { libc::ioctl(descriptor.as_raw_fd(), request, std::ptr::from_mut(argument)) };
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
