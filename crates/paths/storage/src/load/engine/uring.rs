//! io_uring with everything registered that can be: the file, the buffers as one range, and a ring that only its one
//! thread uses. One system call submits the queue and waits for completions.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};

use super::super::error::Error;
use super::interface::{Completion, Engine, KERNEL_PIECE, Request};
use crate::load::buffers::Buffers;

pub struct Uring {
    ring: IoUring,
    /// Open as long as the ring is.
    file: File,
    has_fixed_file: bool,
    has_fixed_buffers: bool,
}

impl Uring {
    pub fn new(file: &File, depth: u32, buffers: &Buffers) -> Result<Self, Error> {
        let error = |what, cause| Error::Engine { what, cause };
        let file = file.try_clone().map_err(|cause| error("copy a file descriptor", cause))?;
        let ring = ring(depth).map_err(|cause| error("set up io_uring", cause))?;
        let submitter = ring.submitter();
        let has_fixed_file = submitter.register_files(&[file.as_raw_fd()]).is_ok();
        // Pinned memory may be limited (RLIMIT_MEMLOCK); then the kernel looks the pages up each time.
        // SAFETY: the mapping outlives the ring, as the job drops its engine before its buffers.
        let has_fixed_buffers = unsafe { submitter.register_buffers(&[buffers.whole()]) }.is_ok();
        Ok(Self { ring, file, has_fixed_file, has_fixed_buffers })
    }

    fn entry(&self, request: Request) -> squeue::Entry {
        let Request { tag, is_write, offset, buffer, length } = request;
        let fixed = Fixed(0);
        let plain = Fd(self.file.as_raw_fd());
        let entry = match (is_write, self.has_fixed_buffers, self.has_fixed_file) {
            (false, true, true) => opcode::ReadFixed::new(fixed, buffer, length, 0).offset(offset).build(),
            (false, true, false) => opcode::ReadFixed::new(plain, buffer, length, 0).offset(offset).build(),
            (false, false, true) => opcode::Read::new(fixed, buffer, length).offset(offset).build(),
            (false, false, false) => opcode::Read::new(plain, buffer, length).offset(offset).build(),
            (true, true, true) => opcode::WriteFixed::new(fixed, buffer, length, 0).offset(offset).build(),
            (true, true, false) => opcode::WriteFixed::new(plain, buffer, length, 0).offset(offset).build(),
            (true, false, true) => opcode::Write::new(fixed, buffer, length).offset(offset).build(),
            (true, false, false) => opcode::Write::new(plain, buffer, length).offset(offset).build(),
        };
        entry.user_data(tag.into())
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let completion = |entry: io_uring::cqueue::Entry| Completion {
            tag: entry.user_data() as u32,
            result: entry.result(),
        };
        completions.extend(self.ring.completion().map(completion));
    }
}

/// A ring with what newer kernels offer to a single thread, or a plain one.
fn ring(depth: u32) -> io::Result<IoUring> {
    let entries = depth.next_power_of_two();
    let newest =
        IoUring::builder().setup_single_issuer().setup_coop_taskrun().setup_defer_taskrun().build(entries);
    newest.or_else(|_| IoUring::new(entries))
}

impl Engine for Uring {
    fn piece(&self) -> usize {
        KERNEL_PIECE
    }

    fn queue(&mut self, request: Request) {
        let entry = self.entry(request);
        // SAFETY: the buffer stays valid and untouched until the completion, as requests promise, and the file is open.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has as many entries as requests can be under way");
    }

    fn submit(&mut self) -> Result<(), Error> {
        hand_over(self.ring.submit())
    }

    fn wait(&mut self, timeout_ns: Option<u64>, completions: &mut Vec<Completion>) -> Result<(), Error> {
        let entered = match timeout_ns {
            None => self.ring.submit_and_wait(1),
            Some(timeout_ns) => {
                let timeout = Timespec::from(std::time::Duration::from_nanos(timeout_ns));
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        hand_over(entered)?;
        self.reap(completions);
        Ok(())
    }
}

fn hand_over(entered: io::Result<usize>) -> Result<(), Error> {
    match entered {
        Ok(_) => Ok(()),
        // The time is over, a signal came, or completions have to be taken first: the caller comes again.
        Err(cause)
            if matches!(
                cause.raw_os_error(),
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN)
            ) =>
        {
            Ok(())
        }
        Err(cause) => Err(Error::Engine { what: "hand requests over to io_uring", cause }),
    }
}
