//! DEFLATE by ISA-L, Intel's library of storage functions, loaded at run time.
//!
//! Only the beginning of its two objects is described here (`igzip_lib.h`, github.com/intel/isa-l): the rest is the
//! library's own, for which there is room to spare. They have 82,384 and 87,368 bytes in versions 2.30 and 2.31, and a
//! level's buffer has 348,160 at most.

use std::ffi::c_int;

use super::library::{Library, Wanted};
use super::spare;
use super::{Codec, CodecCounters, CodecError};

const LIBISAL: Wanted = Wanted {
    names: &["libisal.so.2"],
    install: "install ISA-L (`libisal2` in Debian and Ubuntu, `isa-l` in Fedora)",
};

/// Room for an object of the library, in words of eight bytes: three times what it needs.
const OBJECT_WORDS: usize = 256 * 1024 / 8;
/// Room for a level's buffer, in words.
const LEVEL_WORDS: usize = 512 * 1024 / 8;

/// The beginning of `isal_zstream`.
#[repr(C)]
struct Deflate {
    next_in: *const u8,
    avail_in: u32,
    total_in: u32,
    next_out: *mut u8,
    avail_out: u32,
    total_out: u32,
    hufftables: *mut u8,
    level: u32,
    level_buf_size: u32,
    level_buf: *mut u8,
    end_of_stream: u16,
    flush: u16,
    gzip_flag: u16,
    hist_bits: u16,
}

/// The beginning of `inflate_state`.
#[repr(C)]
struct Inflate {
    next_out: *mut u8,
    avail_out: u32,
    total_out: u32,
    next_in: *const u8,
    read_in: u64,
    avail_in: u32,
    read_in_length: i32,
}

struct Functions {
    deflate_init: unsafe extern "C" fn(*mut Deflate),
    deflate: unsafe extern "C" fn(*mut Deflate) -> c_int,
    inflate_init: unsafe extern "C" fn(*mut Inflate),
    inflate: unsafe extern "C" fn(*mut Inflate) -> c_int,
}

pub(super) struct Isal {
    functions: Functions,
    level: u32,
    deflate: Vec<u64>,
    inflate: Vec<u64>,
    level_buffer: Vec<u64>,
    counters: CodecCounters,
    /// The code that `functions` point to stays as long as this does.
    _library: Library,
}

impl Isal {
    pub(super) fn new(level: u32) -> Result<Self, CodecError> {
        let library = Library::load(LIBISAL)?;
        // SAFETY: the types are those of the library's public header.
        let functions = unsafe {
            Functions {
                deflate_init: library.function("isal_deflate_stateless_init\0")?,
                deflate: library.function("isal_deflate_stateless\0")?,
                inflate_init: library.function("isal_inflate_init\0")?,
                inflate: library.function("isal_inflate_stateless\0")?,
            }
        };
        Ok(Self {
            functions,
            level,
            deflate: vec![0; OBJECT_WORDS],
            inflate: vec![0; OBJECT_WORDS],
            level_buffer: vec![0; LEVEL_WORDS],
            counters: CodecCounters::default(),
            _library: library,
        })
    }
}

/// The largest size of a compressed form, in bytes: the library stores blocks of up to 65,535 bytes that do not compress, with
/// heads of five bytes.
fn bound(bytes: usize) -> usize {
    bytes + bytes / 1024 + 512
}

impl Codec for Isal {
    fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let refused = |reason: String| CodecError::compress(input.len(), reason);
        let too_large = || refused("ISA-L takes less than 4 GiB".to_owned());
        let avail_in = u32::try_from(input.len()).map_err(|_| too_large())?;
        let bound = bound(input.len());
        let avail_out = u32::try_from(bound).map_err(|_| too_large())?;
        let stream = self.deflate.as_mut_ptr().cast::<Deflate>();
        let (level_buf, level_buf_size) = (self.level_buffer.as_mut_ptr().cast(), LEVEL_WORDS * 8);
        // SAFETY: the object has room to spare and is aligned; the library reads the input and writes no more than the
        // room that it is told of, and counts what it wrote.
        unsafe {
            spare::replace(out, bound, |room| {
                (self.functions.deflate_init)(stream);
                (*stream).next_in = input.as_ptr();
                (*stream).avail_in = avail_in;
                (*stream).next_out = room;
                (*stream).avail_out = avail_out;
                (*stream).level = self.level;
                (*stream).level_buf = level_buf;
                (*stream).level_buf_size = level_buf_size as u32;
                (*stream).end_of_stream = 1;
                match (self.functions.deflate)(stream) {
                    0 if (*stream).avail_in == 0 => Ok((*stream).total_out as usize),
                    code => Err(refused(format!("ISA-L answers with {code}"))),
                }
            })
        }?;
        self.counters.count(false);
        Ok(())
    }

    fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
        let expected = out.len();
        let corrupt = |reason: String| CodecError::corrupt(expected, reason);
        let size =
            |bytes| u32::try_from(bytes).map_err(|_| corrupt("ISA-L takes less than 4 GiB".to_owned()));
        let (avail_in, avail_out) = (size(input.len())?, size(out.len())?);
        let state = self.inflate.as_mut_ptr().cast::<Inflate>();
        // SAFETY: the object has room to spare and is aligned; the library reads no more than the input and writes no
        // more than `out`, whatever it finds, and counts what it wrote.
        let (code, written, left) = unsafe {
            (self.functions.inflate_init)(state);
            (*state).next_in = input.as_ptr();
            (*state).avail_in = avail_in;
            (*state).next_out = out.as_mut_ptr();
            (*state).avail_out = avail_out;
            let code = (self.functions.inflate)(state);
            (code, (*state).total_out as usize, (*state).avail_in)
        };
        match code {
            0 if written == out.len() && left == 0 => self.counters.count(false),
            0 => return Err(CodecError::wrong_size(out.len(), written)),
            code => return Err(corrupt(format!("ISA-L answers with {code}"))),
        }
        Ok(())
    }

    fn counters(&self) -> CodecCounters {
        self.counters
    }
}

// SAFETY: the pointers inside of the library's objects are set before every call and are not used after it.
unsafe impl Send for Isal {}
