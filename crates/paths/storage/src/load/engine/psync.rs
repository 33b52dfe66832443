//! `pread` and `pwrite`: one request at a time, done while it is handed over.

use std::fs::File;
use std::os::fd::AsRawFd;

use super::super::error::Error;
use super::interface::{Completion, Engine, Request};

#[derive(Debug)]
pub struct Psync {
    file: File,
    queued: Vec<Request>,
    done: Vec<Completion>,
}

impl Psync {
    pub fn new(file: &File) -> Result<Self, Error> {
        let file =
            file.try_clone().map_err(|cause| Error::Engine { what: "copy a file descriptor", cause })?;
        Ok(Self { file, queued: Vec::new(), done: Vec::new() })
    }

    fn perform(&self, request: Request) -> Completion {
        let (fd, length) = (self.file.as_raw_fd(), request.length as usize);
        let offset = libc::off_t::try_from(request.offset).unwrap_or(libc::off_t::MAX);
        // SAFETY: the descriptor is open, and the buffer is valid for `length` bytes until the completion.
        let result = unsafe {
            if request.is_write {
                libc::pwrite(fd, request.buffer.cast(), length, offset)
            } else {
                libc::pread(fd, request.buffer.cast(), length, offset)
            }
        };
        let errno = || -std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        let result = if result < 0 { errno() } else { i32::try_from(result).unwrap_or(i32::MAX) };
        Completion { tag: request.tag, result }
    }
}

impl Engine for Psync {
    fn queue(&mut self, request: Request) {
        self.queued.push(request);
    }

    fn submit(&mut self) -> Result<(), Error> {
        while let Some(request) = self.queued.pop() {
            let mut completion = self.perform(request);
            while completion.result == -libc::EINTR {
                completion = self.perform(request);
            }
            self.done.push(completion);
        }
        Ok(())
    }

    fn wait(&mut self, timeout_ns: Option<u64>, completions: &mut Vec<Completion>) -> Result<(), Error> {
        self.submit()?;
        if let (true, Some(timeout_ns)) = (self.done.is_empty(), timeout_ns) {
            plumb_host::time::sleep(std::time::Duration::from_nanos(timeout_ns));
        }
        completions.append(&mut self.done);
        Ok(())
    }
}
