//! Linux' native asynchronous I/O by its three system calls; the library of that name adds nothing to them.
//!
//! Completions are taken from the ring that the kernel maps into the process where it has the known form, which saves
//! a system call when some are there already (`fs/aio.c`, `struct aio_ring`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use super::super::error::Error;
use super::interface::{Completion, Engine, KERNEL_PIECE, Request};

const RING_MAGIC: u32 = 0xa10a_10a1;

/// `struct io_event` of `linux/aio_abi.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Event {
    data: u64,
    object: u64,
    result: i64,
    result_2: i64,
}

/// `struct aio_ring` of the kernel's `fs/aio.c`; the events follow it.
#[repr(C)]
struct Ring {
    id: u32,
    entries: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compatible: u32,
    incompatible: u32,
    header_bytes: u32,
}

#[derive(Debug)]
pub struct Libaio {
    file: File,
    context: libc::c_ulong,
    /// One per tag, at a place that stays: the kernel is given their addresses.
    blocks: Box<[libc::iocb]>,
    queued: Vec<*mut libc::iocb>,
    events: Vec<Event>,
}

impl Libaio {
    pub fn new(file: &File, depth: u32) -> Result<Self, Error> {
        let error = |what, cause| Error::Engine { what, cause };
        let file = file.try_clone().map_err(|cause| error("copy a file descriptor", cause))?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the pointer is valid for the one word that the call fills.
        let result = unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) };
        if result < 0 {
            return Err(error("set up asynchronous I/O (see fs.aio-max-nr)", io::Error::last_os_error()));
        }
        // SAFETY: the structure consists of integers, of which zero is a valid value.
        let block: libc::iocb = unsafe { std::mem::zeroed() };
        Ok(Self {
            file,
            context,
            blocks: vec![block; depth as usize].into(),
            queued: Vec::with_capacity(depth as usize),
            events: vec![Event::default(); depth as usize],
        })
    }

    /// Takes what is in the ring; `false` where there is nothing or the ring has an unknown form.
    fn reap(&self, completions: &mut Vec<Completion>) -> bool {
        let ring = self.context as *const Ring;
        // SAFETY: the context is the address at which the kernel mapped the ring for this process to read, and it stays
        // mapped until the context is destroyed. Only this thread moves the head.
        unsafe {
            if (*ring).magic != RING_MAGIC || (*ring).incompatible != 0 {
                return false;
            }
            let (entries, events) = ((*ring).entries, ring.add(1).cast::<Event>());
            let mut head = (*ring).head.load(Ordering::Relaxed);
            let tail = (*ring).tail.load(Ordering::Acquire);
            if head == tail || entries == 0 {
                return false;
            }
            while head != tail {
                completions.push(completion(events.add(head as usize).read_volatile()));
                head = (head + 1) % entries;
            }
            fence(Ordering::AcqRel);
            (*ring).head.store(head, Ordering::Release);
        }
        true
    }
}

fn completion(event: Event) -> Completion {
    Completion { tag: event.data as u32, result: event.result as i32 }
}

impl Engine for Libaio {
    fn piece(&self) -> usize {
        KERNEL_PIECE
    }

    fn queue(&mut self, request: Request) {
        let block = &mut self.blocks[request.tag as usize];
        block.aio_data = request.tag.into();
        // IOCB_CMD_PREAD and IOCB_CMD_PWRITE.
        block.aio_lio_opcode = u16::from(request.is_write);
        block.aio_fildes = self.file.as_raw_fd().unsigned_abs();
        block.aio_buf = request.buffer as u64;
        block.aio_nbytes = request.length.into();
        block.aio_offset = request.offset.cast_signed();
        self.queued.push(&raw mut *block);
    }

    fn submit(&mut self) -> Result<(), Error> {
        let mut at = 0;
        while at < self.queued.len() {
            let rest = &mut self.queued[at..];
            // SAFETY: every pointer leads to a control block that stays in place until its completion, as do the
            // buffers that they name.
            let taken =
                unsafe { libc::syscall(libc::SYS_io_submit, self.context, rest.len(), rest.as_mut_ptr()) };
            match usize::try_from(taken) {
                Ok(taken) => at += taken,
                Err(_) => match io::Error::last_os_error() {
                    cause if matches!(cause.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => {}
                    cause => return Err(Error::Engine { what: "submit asynchronous I/O", cause }),
                },
            }
        }
        self.queued.clear();
        Ok(())
    }

    fn wait(&mut self, timeout_ns: Option<u64>, completions: &mut Vec<Completion>) -> Result<(), Error> {
        self.submit()?;
        if self.reap(completions) {
            return Ok(());
        }
        let timeout = timeout_ns.map(timespec);
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the events are valid for as many as are asked for, and the timeout for the length of the call.
        let got = unsafe {
            let events = self.events.as_mut_ptr();
            libc::syscall(libc::SYS_io_getevents, self.context, 1, self.events.len(), events, timeout)
        };
        match usize::try_from(got) {
            Ok(got) => completions.extend(self.events.iter().take(got).copied().map(completion)),
            Err(_) => match io::Error::last_os_error() {
                cause if cause.raw_os_error() == Some(libc::EINTR) => {}
                cause => return Err(Error::Engine { what: "wait for asynchronous I/O", cause }),
            },
        }
        Ok(())
    }
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000).cast_signed(), tv_nsec: (ns % 1_000_000_000).cast_signed() }
}

impl Drop for Libaio {
    fn drop(&mut self) {
        // It waits for what is under way, so that no buffer is written after this.
        // SAFETY: the context is ours and is not used again.
        let _ = unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
