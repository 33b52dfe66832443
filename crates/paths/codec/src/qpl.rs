//! DEFLATE on an Intel In-Memory Analytics Accelerator by QPL, loaded at run time.
//!
//! A job belongs to the device or to the CPU from its start: where no device's queue can be had, the software path does
//! the work, and every frame is counted as what did it. Only the beginning of a job is described here
//! (`qpl/c_api/job.h`, github.com/intel/qpl); the library says how large one is.

use std::ffi::{c_int, c_uint, c_void};

use super::library::{Library, Wanted};
use super::spare;
use super::{Codec, CodecCounters, CodecError};

const LIBQPL: Wanted = Wanted {
    names: &["libqpl.so.1", "libqpl.so"],
    install: "build and install Intel's QPL 1.5 or newer as a shared library (github.com/intel/qpl)",
};

const PATH_HARDWARE: c_uint = 1;
const PATH_SOFTWARE: c_uint = 2;
const OP_DECOMPRESS: c_uint = 0;
const OP_COMPRESS: c_uint = 1;
const FLAG_FIRST: u32 = 0x0001;
const FLAG_LAST: u32 = 0x0002;
const FLAG_DYNAMIC_HUFFMAN: u32 = 0x2000;
const FLAG_OMIT_VERIFY: u32 = 0x4000;
/// `QPL_STS_QUEUES_ARE_BUSY_ERR`: all queues of the device are full, and the job may be given again.
const QUEUES_ARE_BUSY: c_int = 5;

/// The beginning of `qpl_job`.
#[repr(C)]
struct Job {
    next_in: *const u8,
    available_in: u32,
    total_in: u32,
    next_out: *mut u8,
    available_out: u32,
    total_out: u32,
    op: c_uint,
    flags: u32,
    crc: u32,
    xor_checksum: u32,
    last_bit_offset: u32,
    level: c_uint,
    statistics_mode: c_uint,
    huffman_table: *mut c_void,
    dictionary: *mut c_void,
}

type OnJob = unsafe extern "C" fn(*mut Job) -> c_int;

struct Functions {
    execute: OnJob,
    finish: OnJob,
}

pub(super) struct Qpl {
    functions: Functions,
    /// The job and the library's own state behind it.
    job: Vec<u64>,
    level: c_uint,
    by_hardware: bool,
    counters: CodecCounters,
    /// The code that `functions` point to stays as long as this does.
    _library: Library,
}

// SAFETY: a job belongs to no thread; it is used by one at a time, as every use takes `&mut self`.
unsafe impl Send for Qpl {}

impl Qpl {
    /// A job on the device if one can be had and software was not asked for, else on the CPU.
    pub(super) fn new(level: u32, software_only: bool) -> Result<Self, CodecError> {
        let library = Library::load(LIBQPL)?;
        // SAFETY: the types are those of the library's public header.
        let functions = unsafe {
            Functions {
                execute: library.function("qpl_execute_job\0")?,
                finish: library.function("qpl_fini_job\0")?,
            }
        };
        // The device has one level only.
        let on_device = if software_only || level != 1 { None } else { start(&library, PATH_HARDWARE).ok() };
        let by_hardware = on_device.is_some();
        let job = on_device.map_or_else(|| start(&library, PATH_SOFTWARE), Ok)?;
        Ok(Self { functions, job, level, by_hardware, counters: CodecCounters::default(), _library: library })
    }

    /// Runs one whole stream and says how many bytes were written.
    fn run(
        &mut self,
        op: c_uint,
        flags: u32,
        input: &[u8],
        out: *mut u8,
        room: u32,
    ) -> Result<(u32, u32), QplError> {
        let available_in = u32::try_from(input.len()).map_err(|_| QplError::Large)?;
        let job = self.job.as_mut_ptr().cast::<Job>();
        loop {
            // SAFETY: the job was initialised by the library; it reads no more than the input and writes no more than
            // `room` bytes at `out`, which the callers have.
            let code = unsafe {
                (*job).op = op;
                (*job).flags = FLAG_FIRST | FLAG_LAST | FLAG_OMIT_VERIFY | flags;
                (*job).level = self.level;
                (*job).huffman_table = std::ptr::null_mut();
                (*job).dictionary = std::ptr::null_mut();
                (*job).next_in = input.as_ptr();
                (*job).available_in = available_in;
                (*job).next_out = out;
                (*job).available_out = room;
                (self.functions.execute)(job)
            };
            match code {
                // SAFETY: as above; the library has set what it read and wrote.
                0 => return Ok(unsafe { ((*job).total_in, (*job).total_out) }),
                QUEUES_ARE_BUSY => std::hint::spin_loop(),
                code => return Err(QplError::Status(code)),
            }
        }
    }
}

/// A job on that path, initialised.
fn start(library: &Library, path: c_uint) -> Result<Vec<u64>, CodecError> {
    let setup = |call: &str, code| CodecError::Setup {
        codec: "qpl",
        reason: format!("{call} answers with {code} (qpl/c_api/status.h)"),
    };
    // SAFETY: the types are those of the library's public header.
    let (size, init) = unsafe {
        let size: unsafe extern "C" fn(c_uint, *mut u32) -> c_int = library.function("qpl_get_job_size\0")?;
        let init: unsafe extern "C" fn(c_uint, *mut Job) -> c_int = library.function("qpl_init_job\0")?;
        (size, init)
    };
    let mut bytes = 0;
    // SAFETY: the number is written before the call returns.
    let code = unsafe { size(path, &raw mut bytes) };
    if code != 0 {
        return Err(setup("qpl_get_job_size", code));
    }
    let mut job = vec![0_u64; (bytes as usize).max(size_of::<Job>()).div_ceil(8) + 8];
    // SAFETY: the job has the size that the library asked for, and does not move while it lives.
    match unsafe { init(path, job.as_mut_ptr().cast()) } {
        0 => Ok(job),
        code => Err(setup("qpl_init_job", code)),
    }
}

impl Drop for Qpl {
    fn drop(&mut self) {
        // SAFETY: the job was initialised by the library and is not used after it.
        unsafe { (self.functions.finish)(self.job.as_mut_ptr().cast()) };
    }
}

/// Why QPL did not do a stream.
#[derive(Debug, thiserror::Error)]
enum QplError {
    #[error("QPL takes less than 4 GiB")]
    Large,
    #[error("QPL left input")]
    LeftInput,
    #[error("QPL answers with {_0} (qpl/c_api/status.h)")]
    Status(i32),
}

/// The largest size of a compressed form, in bytes: blocks that do not compress are stored, with heads of five bytes.
fn bound(bytes: usize) -> usize {
    bytes + bytes / 8 + 1024
}

impl Codec for Qpl {
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let bound = bound(input.len());
        let refused = |error: QplError| CodecError::compress(input.len(), error.to_string());
        let room = u32::try_from(bound).map_err(|_| refused(QplError::Large))?;
        // SAFETY: there is room for `bound` bytes, and the library counts what it wrote.
        unsafe {
            spare::replace(out, bound, |to| {
                let (taken, written) =
                    self.run(OP_COMPRESS, FLAG_DYNAMIC_HUFFMAN, input, to, room).map_err(refused)?;
                if taken as usize == input.len() {
                    Ok(written as usize)
                } else {
                    Err(refused(QplError::LeftInput))
                }
            })
        }?;
        self.counters.count(self.by_hardware);
        Ok(())
    }

    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        let expected = out.len();
        let corrupt = |error: QplError| CodecError::corrupt(expected, error.to_string());
        let room = u32::try_from(expected).map_err(|_| corrupt(QplError::Large))?;
        let (_, written) = self.run(OP_DECOMPRESS, 0, input, out.as_mut_ptr(), room).map_err(corrupt)?;
        if written as usize != expected {
            return Err(CodecError::wrong_size(expected, written as usize));
        }
        self.counters.count(self.by_hardware);
        Ok(())
    }

    fn counters(&self) -> CodecCounters {
        self.counters
    }
}
