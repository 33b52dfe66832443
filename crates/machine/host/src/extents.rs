//! Extents of a file that have a place on the disk and no data (FIEMAP, Documentation/filesystems/fiemap.rst): what `fallocate` makes.
//! They are read as zeros, without a look at the disk.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660B_u32 as libc::Ioctl;
/// Without it, what was written and is still in memory alone counts as not written.
const FIEMAP_FLAG_SYNC: u32 = 0x1;
const EXTENT_LAST: u32 = 0x1;
const EXTENT_UNWRITTEN: u32 = 0x800;
/// How many extents one call tells of.
const EXTENTS: usize = 256;
/// After this many calls a file counts as too scattered to tell.
const CALLS_MAX: usize = 256;

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` with room for extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// How many bytes of a file have a place on the disk that was never written to.
///
/// # Errors
/// When its file system does not tell, or the file is too scattered.
pub fn unwritten_bytes(file: &File) -> io::Result<u64> {
    let (mut start, mut unwritten) = (0, 0_u64);
    for _ in 0..CALLS_MAX {
        let mut request = Request {
            start,
            length: u64::MAX - start,
            flags: FIEMAP_FLAG_SYNC,
            mapped: 0,
            count: EXTENTS as u32,
            reserved: 0,
            extents: [Extent::default(); EXTENTS],
        };
        // SAFETY: `request` outlives the call, and the kernel writes no more extents than `count`, for which there is room.
        let done = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut request) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        let mapped = request.extents.get(..request.mapped as usize).unwrap_or(&request.extents);
        unwritten +=
            mapped.iter().filter(|it| it.flags & EXTENT_UNWRITTEN != 0).map(|it| it.length).sum::<u64>();
        match mapped.last() {
            Some(last) if last.flags & EXTENT_LAST == 0 => start = last.logical.saturating_add(last.length),
            _ => return Ok(unwritten),
        }
    }
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_was_allocated_and_not_written_is_told() {
        let mut file = tempfile::tempfile().unwrap();
        const MIB: u64 = 1 << 20;
        let allocated = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 3 * MIB);
        if let Err(cause) = allocated {
            eprintln!(
                "test skipped: what_was_allocated_and_not_written_is_told: hardware: fallocate: {cause}"
            );
            return;
        }
        file.write_all(&vec![b'x'; MIB as usize]).unwrap();
        // A file system in memory does not tell.
        if let Ok(unwritten) = unwritten_bytes(&file) {
            assert_eq!(unwritten, 2 * MIB);
        }
    }
}
