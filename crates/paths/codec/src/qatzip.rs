//! DEFLATE on an Intel QuickAssist device by QATzip, loaded at run time.
//!
//! With its software backup on, QATzip answers with success even without any device, and does the work on the CPU.
//! Its extended calls have a bit for that (`qatzip.h`, `QZ_SW_EXECUTION`), but no public version up to 1.3.1 ever sets it
//! (github.com/intel/QATzip, `src/qatzip.c`: nothing writes `ext_rc` on the software paths). So the backup is kept here: a
//! session without it can only succeed on the device, and what it cannot do goes to a second session with it, whose
//! frames are counted as software.

use std::ffi::{c_int, c_long, c_uchar, c_uint, c_ulong, c_void};

use super::library::{Library, Wanted};
use super::spare;
use super::{Codec, CodecCounters, CodecError};

const LIBQATZIP: Wanted = Wanted {
    names: &["libqatzip.so.3"],
    install: "install QATzip 1.2 or newer (`libqatzip3` in Debian 13 and Ubuntu 24.04, `qatzip-libs` in Fedora)",
};

/// `QZ_OK`; a larger code is success with a remark, such as a missing device, and a smaller one an error.
const OK: c_int = 0;
/// `QZ_SW_EXECUTION_MASK`.
const BY_SOFTWARE: u64 = 1 << 4;
/// The values of `sw_backup`: no software, and software where the device cannot do it.
const DEVICE_ONLY: c_uchar = 0;
const BACKUP: c_uchar = 1;
/// `LOG_NONE`: this program says what went wrong itself.
const LOG_NONE: c_uint = 0;

/// `QzSession_T`.
#[repr(C)]
struct Session {
    hw_session_stat: c_long,
    thd_sess_stat: c_int,
    internal: *mut c_void,
    total_in: c_ulong,
    total_out: c_ulong,
}

/// `QzSessionParamsDeflate_T`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Parameters {
    direction: c_uint,
    comp_lvl: c_uint,
    comp_algorithm: c_uchar,
    max_forks: c_uint,
    sw_backup: c_uchar,
    hw_buff_sz: c_uint,
    strm_buff_sz: c_uint,
    input_sz_thrshold: c_uint,
    req_cnt_thrshold: c_uint,
    wait_cnt_thrshold: c_uint,
    polling_mode: c_uint,
    is_sensitive_mode: c_uint,
    huffman_hdr: c_uint,
    data_fmt: c_uint,
    /// Room for what a later version may add at its end, which this program leaves at the library's defaults.
    later: [u64; 16],
}

type Compress = unsafe extern "C" fn(
    *mut Session,
    *const c_uchar,
    *mut c_uint,
    *mut c_uchar,
    *mut c_uint,
    c_uint,
    *mut u64,
) -> c_int;
type Decompress = unsafe extern "C" fn(
    *mut Session,
    *const c_uchar,
    *mut c_uint,
    *mut c_uchar,
    *mut c_uint,
    *mut u64,
) -> c_int;

#[derive(Clone, Copy)]
struct Functions {
    log: unsafe extern "C" fn(c_uint) -> c_uint,
    init: unsafe extern "C" fn(*mut Session, c_uchar) -> c_int,
    defaults: unsafe extern "C" fn(*mut Parameters) -> c_int,
    setup: unsafe extern "C" fn(*mut Session, *mut Parameters) -> c_int,
    bound: unsafe extern "C" fn(c_uint, *mut Session) -> c_uint,
    compress: Compress,
    decompress: Decompress,
    teardown: unsafe extern "C" fn(*mut Session) -> c_int,
    close: unsafe extern "C" fn(*mut Session) -> c_int,
}

/// A session that is set up.
struct Worker {
    functions: Functions,
    /// Boxed so that it stays in place: the library keeps a pointer to it.
    session: Box<Session>,
}

pub(super) struct Qatzip {
    /// Without backup; `None` where no device can be had.
    device: Option<Worker>,
    /// With backup, for what the device does not do; `None` only after a frame that failed.
    software: Option<Worker>,
    level: u32,
    functions: Functions,
    counters: CodecCounters,
    /// The code that `functions` point to stays as long as this does; it is the last field, so that sessions end before.
    _library: Library,
}

// SAFETY: a session belongs to no thread; it is used by one at a time, as every use takes `&mut self`.
unsafe impl Send for Qatzip {}

impl Qatzip {
    /// Whether the library is there, without looking for a device.
    pub(super) fn probe() -> Result<(), CodecError> {
        functions(&Library::load(LIBQATZIP)?).map(drop)
    }

    /// Opens separate sessions with the library's defaults, except for the level.
    pub(super) fn new(level: u32) -> Result<Self, CodecError> {
        let library = Library::load(LIBQATZIP)?;
        let functions = functions(&library)?;
        // With its backup a session looks for devices once a process, and tells here whether it found one.
        let software = Worker::start(functions, level, BACKUP)?;
        let is_attached = software.session.hw_session_stat == c_long::from(OK);
        let device = if is_attached { Worker::start(functions, level, DEVICE_ONLY).ok() } else { None };
        let software = Some(software);
        let counters = CodecCounters::default();
        Ok(Self { device, software, level, functions, counters, _library: library })
    }

    /// Has the device do it, or the software what the device does not.
    ///
    /// A session in which a frame failed is replaced: it keeps the failed stream and refuses whatever comes next.
    fn run(
        &mut self,
        mut work: impl FnMut(&mut Worker) -> Result<bool, CodecError>,
    ) -> Result<(), CodecError> {
        if let Some(mut device) = self.device.take() {
            match work(&mut device) {
                Ok(by_software) => {
                    self.device = Some(device);
                    self.counters.count(!by_software);
                    return Ok(());
                }
                Err(_) => {
                    drop(device);
                    self.device = Worker::start(self.functions, self.level, DEVICE_ONLY).ok();
                }
            }
        }
        let mut software = match self.software.take() {
            Some(software) => software,
            None => Worker::start(self.functions, self.level, BACKUP)?,
        };
        work(&mut software)?;
        self.software = Some(software);
        self.counters.count(false);
        Ok(())
    }
}

fn functions(library: &Library) -> Result<Functions, CodecError> {
    // SAFETY: the types are those of the library's public header.
    unsafe {
        Ok(Functions {
            log: library.function("qzSetLogLevel\0")?,
            init: library.function("qzInit\0")?,
            defaults: library.function("qzGetDefaultsDeflate\0")?,
            setup: library.function("qzSetupSessionDeflate\0")?,
            bound: library.function("qzMaxCompressedLength\0")?,
            compress: library.function("qzCompressExt\0")?,
            decompress: library.function("qzDecompressExt\0")?,
            teardown: library.function("qzTeardownSession\0")?,
            close: library.function("qzClose\0")?,
        })
    }
}

impl Worker {
    /// Attaches a session to a device, or to the backup, and sets it up.
    fn start(functions: Functions, level: u32, backup: c_uchar) -> Result<Self, CodecError> {
        let internal = std::ptr::null_mut();
        let session = Session { hw_session_stat: 0, thd_sess_stat: 0, internal, total_in: 0, total_out: 0 };
        let mut worker = Self { functions, session: Box::new(session) };
        let mut parameters = Parameters::default();
        let session = &raw mut *worker.session;
        // SAFETY: the session lives until it is closed, the parameters until the calls return, and they are larger than
        // what the library fills and reads.
        unsafe {
            (functions.log)(LOG_NONE);
            check("qzInit", (functions.init)(session, backup))?;
            check("qzGetDefaultsDeflate", (functions.defaults)(&raw mut parameters))?;
            parameters.comp_lvl = level;
            parameters.sw_backup = backup;
            check("qzSetupSessionDeflate", (functions.setup)(session, &raw mut parameters))?;
        }
        if backup == DEVICE_ONLY && worker.session.hw_session_stat != c_long::from(OK) {
            return Err(CodecError::Setup { codec: "qatzip", reason: "there is no device".to_owned() });
        }
        Ok(worker)
    }

    /// Replaces what is in `out` with the form, and says whether the library admits to software.
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<bool, CodecError> {
        let refused = |reason: String| CodecError::compress(input.len(), reason);
        if input.is_empty() {
            return Err(refused("QATzip does not compress empty data".to_owned()));
        }
        let bytes =
            c_uint::try_from(input.len()).map_err(|_| refused("QATzip takes less than 4 GiB".to_owned()))?;
        let session = &raw mut *self.session;
        // SAFETY: the session is set up; the function only computes.
        let bound = unsafe { (self.functions.bound)(bytes, session) };
        let (mut taken, mut written, mut remark) = (bytes, bound, 0);
        // SAFETY: the session is set up; the library reads the input, writes no more than the room that it is told of,
        // and says how much of both.
        unsafe {
            spare::replace(out, bound as usize, |room| {
                let compress = self.functions.compress;
                let (from, lengths) = (input.as_ptr(), (&raw mut taken, &raw mut written));
                match compress(session, from, lengths.0, room, lengths.1, 1, &raw mut remark) {
                    OK if taken == bytes => Ok(written as usize),
                    code => Err(refused(format!("QATzip answers with {code} ({})", meaning(code)))),
                }
            })
        }?;
        Ok(remark & BY_SOFTWARE != 0)
    }

    /// Fills `out` from the form, and says whether the library admits to software.
    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<bool, CodecError> {
        let expected = out.len();
        let corrupt = |reason: String| CodecError::corrupt(expected, reason);
        let size =
            |bytes| c_uint::try_from(bytes).map_err(|_| corrupt("QATzip takes less than 4 GiB".to_owned()));
        let (mut taken, mut written, mut remark) = (size(input.len())?, size(out.len())?, 0);
        let (session, decompress) = (&raw mut *self.session, self.functions.decompress);
        let (from, lengths) = (input.as_ptr(), (&raw mut taken, &raw mut written));
        // SAFETY: the session is set up; the library reads no more than the input and writes no more than `out`.
        let code =
            unsafe { decompress(session, from, lengths.0, out.as_mut_ptr(), lengths.1, &raw mut remark) };
        if code != OK {
            return Err(corrupt(format!("QATzip answers with {code} ({})", meaning(code))));
        }
        if written as usize != expected || taken as usize != input.len() {
            return Err(CodecError::wrong_size(expected, written as usize));
        }
        Ok(remark & BY_SOFTWARE != 0)
    }
}

fn check(call: &str, code: c_int) -> Result<(), CodecError> {
    if code >= OK {
        return Ok(());
    }
    Err(CodecError::Setup {
        codec: "qatzip",
        reason: format!("{call} answers with {code} ({})", meaning(code)),
    })
}

/// The meaning of a result by the library's public header.
fn meaning(code: c_int) -> &'static str {
    match code {
        -1 => "the parameters are wrong",
        -2 => "it failed",
        -3 => "there is not enough room",
        -4 => "the data is damaged",
        -5 => "the device did not answer in time",
        -100 => "the data's checksum is wrong",
        -101 => "there is no device",
        -102 => "there is no memory driver",
        -103 => "no instance of a device is available",
        -104 => "there is not enough memory for the device",
        _ => "see qatzip.h",
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: the session was given to the library, which takes one that was never set up, and is not used after it.
        unsafe {
            (self.functions.teardown)(&raw mut *self.session);
            (self.functions.close)(&raw mut *self.session);
        }
    }
}

impl Codec for Qatzip {
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.run(|worker| worker.compress(input, out))
    }

    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        self.run(|worker| worker.decompress(input, out))
    }

    fn counters(&self) -> CodecCounters {
        self.counters
    }
}
