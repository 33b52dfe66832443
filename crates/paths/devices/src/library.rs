//! Intel's libcrypto_mb, loaded at run time: eight operations of one kind in one pass of AVX-512 IFMA instructions.
//!
//! It is loaded and not linked, since few machines have it and everything else works without. This file is the only
//! one that calls it. Every call takes arrays of eight pointers, one a lane; a lane without work has null pointers,
//! and the status has four bits a lane. The types of the functions are those of the library's public headers
//! `crypto_mb/{rsa,ec_nistp256,x25519,cpu_features,version}.h` (interface 11 and later, github.com/intel/
//! cryptography-primitives); numbers are little-endian arrays of 64-bit words, texts are big-endian bytes.

mod search;

use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use zeroize::Zeroize;

use self::search::{COMPANIONS, Environment};
use crate::device_kind::LANES;
use crate::error::Unavailable;
use crate::words::{Block, Words4, Words32, Words64};

/// The 32 bytes of an X25519 key, a P-256 secret, a hash, or half an ECDSA signature.
pub(crate) type Bytes32 = [u8; 32];

type Read<T> = *const *const T;
type Write<T> = *const *mut T;
type Method = *const RsaMethod;

/// The library's own description of an RSA operation; only pointers to it exist here.
#[repr(C)]
struct RsaMethod {
    opaque: [u8; 0],
}

/// `mbxVersion`.
#[repr(C)]
struct Version {
    number: [c_int; 3],
    cpu: [c_char; 4],
    name: *const c_char,
    build_date: *const c_char,
    text: *const c_char,
}

type GetMethod = unsafe extern "C" fn(c_int) -> Method;
type RsaPrivate = unsafe extern "C" fn(
    Read<u8>,
    Write<u8>,
    Read<u64>,
    Read<u64>,
    Read<u64>,
    Read<u64>,
    Read<u64>,
    c_int,
    Method,
    *mut u8,
) -> u32;
type RsaPublic = unsafe extern "C" fn(Read<u8>, Write<u8>, Read<u64>, c_int, Method, *mut u8) -> u32;
type EcdsaSign = unsafe extern "C" fn(Write<u8>, Write<u8>, Read<u8>, Read<u64>, Read<u64>, *mut u8) -> u32;
type EcPublic = unsafe extern "C" fn(Write<u64>, Write<u64>, Write<u64>, Read<u64>, *mut u8) -> u32;
type EcDerive = unsafe extern "C" fn(Write<u8>, Read<u64>, Read<u64>, Read<u64>, Read<u64>, *mut u8) -> u32;
type X25519Public = unsafe extern "C" fn(Write<u8>, Read<u8>) -> u32;
type X25519Derive = unsafe extern "C" fn(Write<u8>, Read<u8>, Read<u8>) -> u32;

/// The functions that are used here.
struct Functions {
    is_applicable: unsafe extern "C" fn(u64) -> c_int,
    version: unsafe extern "C" fn() -> *const Version,
    rsa_private_method: GetMethod,
    rsa_public_method: GetMethod,
    rsa_buffer_bytes: unsafe extern "C" fn(Method) -> c_int,
    rsa_private: RsaPrivate,
    rsa_public: RsaPublic,
    ecdsa_sign: EcdsaSign,
    ec_public: EcPublic,
    ec_derive: EcDerive,
    x25519_public: X25519Public,
    x25519_derive: X25519Derive,
}

/// The loaded library.
pub(crate) struct Library {
    path: PathBuf,
    functions: Functions,
    /// The code that `functions` point to stays as long as this does.
    _handle: Handle,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Library").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Library {
    /// Finds and loads it.
    ///
    /// # Errors
    ///
    /// When the CPU has not the instructions, or the library is not there, not loadable, too old or not applicable.
    pub(crate) fn load() -> Result<Self, Unavailable> {
        if !has_ifma() {
            return Err(Unavailable::NoIfma);
        }
        let library = Self::load_from(&Environment::of_this_process())?;
        // SAFETY: the function takes a number, 0 for "ask the CPU", and only computes.
        if unsafe { (library.functions.is_applicable)(0) } == 0 {
            return Err(Unavailable::NotApplicable { version: library.version() });
        }
        Ok(library)
    }

    fn load_from(environment: &Environment) -> Result<Self, Unavailable> {
        let mut failure = None;
        for path in environment.candidates() {
            if path.components().count() > 1 && !path.is_file() {
                continue;
            }
            match open(&path) {
                Ok(handle) => {
                    let functions = functions(&handle, &path)?;
                    return Ok(Self { path, functions, _handle: handle });
                }
                // What the loader does not find by name is not a failure; what lies there and cannot be loaded is.
                Err(cause) if path.is_file() => {
                    let cause = cause.to_string();
                    failure.get_or_insert(Unavailable::NotLoadable { path, cause });
                }
                Err(_) => {}
            }
        }
        let nowhere = || match environment.asked() {
            Some(asked) => Unavailable::NotThere(asked.to_owned()),
            None => Unavailable::NotFound,
        };
        Err(failure.unwrap_or_else(nowhere))
    }

    /// The file, or the name by which the loader found it.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The library's own words for its name, code path and version.
    pub(crate) fn version(&self) -> String {
        // SAFETY: the function takes nothing and returns a pointer to a constant of the library, which has four texts
        // that end in a zero byte.
        let text = unsafe { CStr::from_ptr((*(self.functions.version)()).text) };
        text.to_string_lossy().into_owned()
    }

    /// Raises each of `from` to its key's private exponent into the same place of `to`, by the Chinese remainder
    /// theorem. All keys have `bits`.
    pub(crate) fn rsa_private(
        &self,
        bits: u32,
        keys: &[&RsaKey],
        from: &[Block],
        to: &mut [Block],
        scratch: &mut Scratch,
    ) -> Status {
        assert!(keys.len() <= LANES && from.len() == keys.len() && to.len() == keys.len());
        let Some((bits, method, buffer)) = self.rsa_method(self.functions.rsa_private_method, bits, scratch)
        else {
            return Status::REFUSED;
        };
        let from = pointers_to_read(from, |block| block.as_ptr());
        let to = pointers_to_write(to, |block| block.as_mut_ptr());
        let part = |choose: fn(&RsaKey) -> &Words32| pointers_to_read(keys, |key| choose(key).as_ptr());
        let (p, q) = (part(|key| &key.p), part(|key| &key.q));
        let (dp, dq, iq) = (part(|key| &key.dp), part(|key| &key.dq), part(|key| &key.iq));
        // SAFETY: all arrays have eight pointers, each null or to memory of the length that the library takes for 4096
        // bits, the most that it has: 512 bytes of text, 32 words of half a modulus. They live until the call
        // returns. The buffer has the bytes that the library asked for with this very method.
        Status(unsafe {
            (self.functions.rsa_private)(
                from.as_ptr(),
                to.as_ptr(),
                p.as_ptr(),
                q.as_ptr(),
                dp.as_ptr(),
                dq.as_ptr(),
                iq.as_ptr(),
                bits,
                method,
                buffer,
            )
        })
    }

    /// Raises each of `from` to the public exponent 65537 into the same place of `to`. All keys have `bits`.
    pub(crate) fn rsa_public(
        &self,
        bits: u32,
        keys: &[&RsaKey],
        from: &[Block],
        to: &mut [Block],
        scratch: &mut Scratch,
    ) -> Status {
        assert!(keys.len() <= LANES && from.len() == keys.len() && to.len() == keys.len());
        let Some((bits, method, buffer)) = self.rsa_method(self.functions.rsa_public_method, bits, scratch)
        else {
            return Status::REFUSED;
        };
        let from = pointers_to_read(from, |block| block.as_ptr());
        let to = pointers_to_write(to, |block| block.as_mut_ptr());
        let n = pointers_to_read(keys, |key| key.n.as_ptr());
        // SAFETY: as above; a modulus has 64 words, which are 4096 bits.
        Status(unsafe {
            (self.functions.rsa_public)(from.as_ptr(), to.as_ptr(), n.as_ptr(), bits, method, buffer)
        })
    }

    /// The method of an RSA operation, with a buffer that is large enough for it; `None` for sizes that there are not.
    fn rsa_method(
        &self,
        method: GetMethod,
        bits: u32,
        scratch: &mut Scratch,
    ) -> Option<(c_int, Method, *mut u8)> {
        let bits = c_int::try_from(bits).ok().filter(|bits| *bits <= 4096)?;
        // SAFETY: the function takes a number and returns a pointer to a constant of the library, null for a size that
        // it does not have.
        let method = unsafe { method(bits) };
        if method.is_null() {
            return None;
        }
        // SAFETY: the pointer is one to a method, as checked above, and the function only reads it.
        let bytes = unsafe { (self.functions.rsa_buffer_bytes)(method) };
        Some((bits, method, scratch.at_least(usize::try_from(bytes).ok()?)))
    }

    /// Signs each of `hashes` with a nonce and a secret; the halves of the signatures go to `r` and `s`.
    pub(crate) fn ecdsa_sign(
        &self,
        hashes: &[Bytes32],
        nonces: &[Words4],
        secrets: &[&Words4],
        r: &mut [Bytes32],
        s: &mut [Bytes32],
    ) -> Status {
        let lanes = hashes.len();
        assert!(lanes <= LANES && nonces.len() == lanes && secrets.len() == lanes);
        assert!(r.len() == lanes && s.len() == lanes);
        let (r, s) = (pointers_to_write(r, |r| r.as_mut_ptr()), pointers_to_write(s, |s| s.as_mut_ptr()));
        let hashes = pointers_to_read(hashes, |hash| hash.as_ptr());
        let nonces = pointers_to_read(nonces, |nonce| nonce.as_ptr());
        let secrets = pointers_to_read(secrets, |secret| secret.as_ptr());
        // SAFETY: all arrays have eight pointers, each null or to 32 bytes that live until the call returns. The last
        // argument, a buffer, is reserved and may be null.
        Status(unsafe {
            (self.functions.ecdsa_sign)(
                r.as_ptr(),
                s.as_ptr(),
                hashes.as_ptr(),
                nonces.as_ptr(),
                secrets.as_ptr(),
                ptr::null_mut(),
            )
        })
    }

    /// The affine P-256 point of each secret.
    pub(crate) fn p256_public(&self, secrets: &[Words4], x: &mut [Words4], y: &mut [Words4]) -> Status {
        let lanes = secrets.len();
        assert!(lanes <= LANES && x.len() == lanes && y.len() == lanes);
        let (x, y) = (pointers_to_write(x, |x| x.as_mut_ptr()), pointers_to_write(y, |y| y.as_mut_ptr()));
        let secrets = pointers_to_read(secrets, |secret| secret.as_ptr());
        // SAFETY: as above; no third coordinate means that the points are to be affine.
        Status(unsafe {
            (self.functions.ec_public)(x.as_ptr(), y.as_ptr(), ptr::null(), secrets.as_ptr(), ptr::null_mut())
        })
    }

    /// The secret that each of `secrets` shares with the point at the same place.
    pub(crate) fn p256_derive(
        &self,
        secrets: &[&Words4],
        x: &[Words4],
        y: &[Words4],
        shared: &mut [Bytes32],
    ) -> Status {
        let lanes = secrets.len();
        assert!(lanes <= LANES && x.len() == lanes && y.len() == lanes && shared.len() == lanes);
        let shared = pointers_to_write(shared, |shared| shared.as_mut_ptr());
        let secrets = pointers_to_read(secrets, |secret| secret.as_ptr());
        let (x, y) = (pointers_to_read(x, |x| x.as_ptr()), pointers_to_read(y, |y| y.as_ptr()));
        // SAFETY: as above; no third coordinate means that the points are affine.
        Status(unsafe {
            (self.functions.ec_derive)(
                shared.as_ptr(),
                secrets.as_ptr(),
                x.as_ptr(),
                y.as_ptr(),
                ptr::null(),
                ptr::null_mut(),
            )
        })
    }

    /// The X25519 public key of each secret.
    pub(crate) fn x25519_public(&self, secrets: &[&Words4], publics: &mut [Words4]) -> Status {
        assert!(secrets.len() <= LANES && publics.len() == secrets.len());
        let publics = pointers_to_write(publics, |public| public.as_mut_ptr().cast::<u8>());
        let secrets = pointers_to_read(secrets, |secret| secret.as_ptr().cast::<u8>());
        // SAFETY: all arrays have eight pointers, each null or to 32 bytes that live until the call returns. The
        // library reads them as words, for which they are aligned.
        Status(unsafe { (self.functions.x25519_public)(publics.as_ptr(), secrets.as_ptr()) })
    }

    /// The secret that each of `secrets` shares with the X25519 public key at the same place.
    pub(crate) fn x25519_derive(
        &self,
        secrets: &[&Words4],
        peers: &[Words4],
        shared: &mut [Words4],
    ) -> Status {
        let lanes = secrets.len();
        assert!(lanes <= LANES && peers.len() == lanes && shared.len() == lanes);
        let shared = pointers_to_write(shared, |shared| shared.as_mut_ptr().cast::<u8>());
        let secrets = pointers_to_read(secrets, |secret| secret.as_ptr().cast::<u8>());
        let peers = pointers_to_read(peers, |peer| peer.as_ptr().cast::<u8>());
        // SAFETY: as above.
        Status(unsafe { (self.functions.x25519_derive)(shared.as_ptr(), secrets.as_ptr(), peers.as_ptr()) })
    }
}

/// An RSA key as the library reads it: little-endian words, zeros above the key's own size.
pub(crate) struct RsaKey {
    pub(crate) p: Words32,
    pub(crate) q: Words32,
    pub(crate) dp: Words32,
    pub(crate) dq: Words32,
    /// The inverse of q modulo p.
    pub(crate) iq: Words32,
    pub(crate) n: Words64,
}

impl Drop for RsaKey {
    fn drop(&mut self) {
        for part in [&mut self.p, &mut self.q, &mut self.dp, &mut self.dq, &mut self.iq] {
            part.zeroize();
        }
    }
}

/// Memory for the library's intermediate values, which would give a key away.
///
/// It is made of words, as wiping bytes one by one would cost a tenth of a batch.
#[derive(Default)]
pub(crate) struct Scratch {
    words: Vec<u64>,
}

impl Scratch {
    fn at_least(&mut self, bytes: usize) -> *mut u8 {
        let words = bytes.div_ceil(size_of::<u64>());
        if self.words.len() < words {
            // What is there is wiped already, so that growing leaves nothing behind.
            self.words.resize(words, 0);
        }
        self.words.as_mut_ptr().cast()
    }

    /// Overwrites everything with zeros.
    pub(crate) fn wipe(&mut self) {
        self.words.as_mut_slice().zeroize();
    }
}

/// What the library says of a batch: four bits a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Status(u32);

impl Status {
    /// No lane was done.
    const REFUSED: Self = Self(0x1111_1111);

    /// Whether a lane was done, or why not.
    pub(crate) fn lane(self, lane: usize) -> Result<(), LaneStatus> {
        match self.0 >> (lane * 4) & 0xf {
            0 => Ok(()),
            code => Err(LaneStatus(code)),
        }
    }
}

/// Why the library did not do a lane, as a set of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneStatus(u32);

impl std::fmt::Display for LaneStatus {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = match self.0 {
            1 => "it says that the input does not fit",
            2 => "it says that an input is missing",
            4 => "it says that the point is of low order",
            8 => "it says that the signature is not valid",
            10 => "it says that this CPU lacks an instruction",
            code => return write!(formatter, "it answers with the status {code}"),
        };
        formatter.write_str(words)
    }
}

/// A pointer into each item; null in the lanes after the last.
fn pointers_to_read<T, U>(items: &[T], place: impl Fn(&T) -> *const U) -> [*const U; LANES] {
    let mut pointers = [ptr::null(); LANES];
    pointers.iter_mut().zip(items).for_each(|(pointer, item)| *pointer = place(item));
    pointers
}

/// A pointer into each item to write to; null in the lanes after the last.
fn pointers_to_write<T, U>(items: &mut [T], place: impl Fn(&mut T) -> *mut U) -> [*mut U; LANES] {
    let mut pointers = [ptr::null_mut(); LANES];
    pointers.iter_mut().zip(items).for_each(|(pointer, item)| *pointer = place(item));
    pointers
}

#[cfg(target_arch = "x86_64")]
fn has_ifma() -> bool {
    std::arch::is_x86_feature_detected!("avx512ifma")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_ifma() -> bool {
    false
}

/// Loads a library after those that lie beside it and that it needs.
fn open(path: &Path) -> Result<Handle, libloading::Error> {
    let load = |path: &Path| {
        // SAFETY: libcrypto_mb and the libraries of Intel's compiler run no code of note when they are loaded or
        // unloaded. That the file is that library is for who installed it to ensure, as with every shared library.
        unsafe { Handle::open(Some(path), RTLD_NOW | RTLD_LOCAL) }
    };
    let has_directory = path.components().count() > 1;
    let beside = COMPANIONS.iter().filter(|_| has_directory).map(|name| path.with_file_name(name));
    // One that is not there may be in the loader's own directories, and one that cannot be loaded is missed below.
    let companions: Vec<Handle> = beside.filter_map(|path| load(&path).ok()).collect();
    let library = load(path);
    // What the library needs of them it holds on to itself.
    drop(companions);
    library
}

fn functions(handle: &Handle, path: &Path) -> Result<Functions, Unavailable> {
    macro_rules! function {
        ($name:literal) => {{
            // SAFETY: the field that this goes to has the type that the library's public header gives the function.
            let found = unsafe { handle.get($name) };
            *found.map_err(|_| Unavailable::NoSymbol { path: path.to_owned(), symbol: $name })?
        }};
    }
    Ok(Functions {
        is_applicable: function!("mbx_is_crypto_mb_applicable"),
        version: function!("mbx_getversion"),
        rsa_private_method: function!("mbx_RSA_private_crt_Method"),
        rsa_public_method: function!("mbx_RSA_pub65537_Method"),
        rsa_buffer_bytes: function!("mbx_RSA_Method_BufSize"),
        rsa_private: function!("mbx_rsa_private_crt_mb8"),
        rsa_public: function!("mbx_rsa_public_mb8"),
        ecdsa_sign: function!("mbx_nistp256_ecdsa_sign_mb8"),
        ec_public: function!("mbx_nistp256_ecpublic_key_mb8"),
        ec_derive: function!("mbx_nistp256_ecdh_mb8"),
        x25519_public: function!("mbx_x25519_public_key_mb8"),
        x25519_derive: function!("mbx_x25519_mb8"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &Path) -> Environment {
        Environment { asked: Some(path.into()), ..Environment::default() }
    }

    #[test]
    fn a_library_that_cannot_be_used_is_an_error_with_the_way_out() {
        let words = |path: &str| Library::load_from(&asked(Path::new(path))).unwrap_err().to_string();
        assert_eq!(words("/nonexistent"), "there is no libcrypto_mb.so at /nonexistent (PLUMB_CRYPTO_MB)");
        assert!(words("/etc/passwd").starts_with("/etc/passwd cannot be loaded: "));
        let libc = Library::load_from(&asked(Path::new("libc.so.6"))).unwrap_err().to_string();
        assert!(libc.contains("no function mbx_is_crypto_mb_applicable"), "{libc}");
    }

    #[test]
    fn a_status_has_four_bits_a_lane() {
        let status = Status(0x2000_0410);
        assert_eq!(status.lane(0), Ok(()));
        assert_eq!(status.lane(1), Err(LaneStatus(1)));
        assert_eq!(status.lane(2), Err(LaneStatus(4)));
        assert_eq!(status.lane(7), Err(LaneStatus(2)));
        assert!((0..LANES).all(|lane| Status::REFUSED.lane(lane).is_err()));
    }
}
