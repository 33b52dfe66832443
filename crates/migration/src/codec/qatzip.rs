//! DEFLATE on an Intel QuickAssist device by QATzip, loaded at run time.
//!
//! With its software backup on, as QEMU has it, QATzip answers with success where there is no device at all and does
//! the work on the CPU. Only the extended calls tell the two apart, frame by frame: bit 4 of what they return beside
//! their result is set when the frame was done in software (`qatzip.h`, `QZ_SW_EXECUTION`, github.com/intel/QATzip).

use std::ffi::{c_int, c_long, c_uchar, c_uint, c_ulong, c_void};

use super::library::{Library, Wanted};
use super::spare;
use super::{Codec, CodecCounters, CodecError};

const LIBQATZIP: Wanted = Wanted {
    names: &["libqatzip.so.3"],
    install: "install QATzip 1.2 or newer (`libqatzip3` in Debian 13 and Ubuntu 24.04, `qatzip-libs` in Fedora)",
};

/// `QZ_OK`; what is larger is success with a remark, such as that there is no device, and what is smaller an error.
const OK: c_int = 0;
/// `QZ_SW_EXECUTION_MASK`.
const BY_SOFTWARE: u64 = 1 << 4;
/// The bits of `sw_backup`: software where there is no device, and software always.
const BACKUP: c_uchar = 1;
const SOFTWARE_ONLY: c_uchar = 1 << 1;
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

struct Functions {
    bound: unsafe extern "C" fn(c_uint, *mut Session) -> c_uint,
    compress: Compress,
    decompress: Decompress,
    teardown: unsafe extern "C" fn(*mut Session) -> c_int,
    close: unsafe extern "C" fn(*mut Session) -> c_int,
}

pub(super) struct Qatzip {
    functions: Functions,
    /// Its place must not change: the library keeps a pointer to it.
    session: Box<Session>,
    counters: CodecCounters,
    /// The code that `functions` point to stays as long as this does.
    _library: Library,
}

// SAFETY: a session belongs to no thread; it is used by one at a time, as every use takes `&mut self`.
unsafe impl Send for Qatzip {}

impl Qatzip {
    /// A session of its own, with the library's defaults but for level and software.
    pub(super) fn new(level: u32, software_only: bool) -> Result<Self, CodecError> {
        let library = Library::load(LIBQATZIP)?;
        let software = if software_only { BACKUP | SOFTWARE_ONLY } else { BACKUP };
        let session = Session {
            hw_session_stat: 0,
            thd_sess_stat: 0,
            internal: std::ptr::null_mut(),
            total_in: 0,
            total_out: 0,
        };
        // SAFETY: the types are those of the library's public header.
        let functions = unsafe {
            Functions {
                bound: library.function("qzMaxCompressedLength\0")?,
                compress: library.function("qzCompressExt\0")?,
                decompress: library.function("qzDecompressExt\0")?,
                teardown: library.function("qzTeardownSession\0")?,
                close: library.function("qzClose\0")?,
            }
        };
        let mut session = Box::new(session);
        start(&library, &mut session, level, software)?;
        Ok(Self { functions, session, counters: CodecCounters::default(), _library: library })
    }
}

/// Attaches a session to a device or to the backup, and sets it up.
fn start(library: &Library, session: &mut Session, level: u32, software: c_uchar) -> Result<(), CodecError> {
    // SAFETY: the types are those of the library's public header. The session lives until it is closed, the parameters
    // until the call returns and are larger than what the library fills and reads.
    unsafe {
        let log: unsafe extern "C" fn(c_uint) -> c_uint = library.function("qzSetLogLevel\0")?;
        let init: unsafe extern "C" fn(*mut Session, c_uchar) -> c_int = library.function("qzInit\0")?;
        let defaults: unsafe extern "C" fn(*mut Parameters) -> c_int =
            library.function("qzGetDefaultsDeflate\0")?;
        let setup: unsafe extern "C" fn(*mut Session, *mut Parameters) -> c_int =
            library.function("qzSetupSessionDeflate\0")?;
        log(LOG_NONE);
        check("qzInit", init(session, software & BACKUP))?;
        let mut parameters = Parameters::default();
        check("qzGetDefaultsDeflate", defaults(&raw mut parameters))?;
        parameters.comp_lvl = level;
        parameters.sw_backup = software;
        check("qzSetupSessionDeflate", setup(session, &raw mut parameters))
    }
}

fn check(call: &str, code: c_int) -> Result<(), CodecError> {
    if code >= OK {
        return Ok(());
    }
    Err(CodecError::Setup {
        codec: "qatzip",
        reason: format!("{call} answers with {code} ({})", words(code)),
    })
}

/// What the library's public header says of its results.
fn words(code: c_int) -> &'static str {
    match code {
        -1 => "the parameters are wrong",
        -2 => "it failed",
        -3 => "there is not enough room",
        -4 => "the data is damaged",
        -5 => "the device did not answer in time",
        -100 => "the data's checksum is wrong",
        -101 => "there is no device",
        -102 => "there is no memory driver",
        -103 => "no instance of a device can be had",
        -104 => "there is not enough memory for the device",
        _ => "see qatzip.h",
    }
}

impl Drop for Qatzip {
    fn drop(&mut self) {
        // SAFETY: the session was set up by the library and is not used after it.
        unsafe {
            (self.functions.teardown)(&raw mut *self.session);
            (self.functions.close)(&raw mut *self.session);
        }
    }
}

impl Codec for Qatzip {
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let refused = |reason: String| CodecError::compress(input.len(), reason);
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
                match compress(
                    session,
                    input.as_ptr(),
                    &raw mut taken,
                    room,
                    &raw mut written,
                    1,
                    &raw mut remark,
                ) {
                    OK if taken == bytes => Ok(written as usize),
                    code => Err(refused(format!("QATzip answers with {code} ({})", words(code)))),
                }
            })
        }?;
        self.counters.count(remark & BY_SOFTWARE == 0);
        Ok(())
    }

    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        let expected = out.len();
        let corrupt = |reason: String| CodecError::corrupt(expected, reason);
        let size =
            |bytes| c_uint::try_from(bytes).map_err(|_| corrupt("QATzip takes less than 4 GiB".to_owned()));
        let (mut taken, mut written, mut remark) = (size(input.len())?, size(out.len())?, 0);
        let session = &raw mut *self.session;
        // SAFETY: the session is set up; the library reads no more than the input and writes no more than `out`.
        let code = unsafe {
            let decompress = self.functions.decompress;
            decompress(
                session,
                input.as_ptr(),
                &raw mut taken,
                out.as_mut_ptr(),
                &raw mut written,
                &raw mut remark,
            )
        };
        if code != OK {
            return Err(corrupt(format!("QATzip answers with {code} ({})", words(code))));
        }
        if written as usize != out.len() || taken as usize != input.len() {
            return Err(CodecError::wrong_size(out.len(), written as usize));
        }
        self.counters.count(remark & BY_SOFTWARE == 0);
        Ok(())
    }

    fn counters(&self) -> CodecCounters {
        self.counters
    }
}
