//! The target as something that blocks are read from and written to: what it is, how large, whether the page cache is
//! passed by, and whether anything on it would be lost.

use plumb_model::{Notice, NoticeKind};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::sync::Arc;

use rustix::fs::{AtFlags, FallocateFlags, OFlags, StatxFlags, fallocate, fcntl_getfl, fstatfs, statx};

use super::buffers::Buffers;
use super::engine::nbd::Nbd;
use super::engine::{Engine, Handle, Request};
use super::error::Error;
use crate::nbd_address::NbdAddress;
use crate::pattern::{FILL_BYTES, write_data};
use crate::settings::{LoadSettings, NULL, StorageTarget};

/// How large that is when nothing is said.
const NULL_BYTES: u64 = 1 << 40;
/// The alignment to use if the kernel reports none: it then needs no more than this.
const SECTOR_BYTES: u32 = 512;
/// A block device is looked at in this many places before it counts as empty.
const PROBES: u64 = 256;
const PROBE_BYTES: usize = 64 << 10;
/// A target that is only read is looked at in this many places: few, because a volume may allow only some reads per second.
const GLANCES: u64 = 16;
const GLANCE_BYTES: usize = 4096;

/// Whether the page cache is passed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direct {
    /// It is.
    Yes,
    /// It is not.
    No,
    /// That is decided elsewhere.
    Remote,
}

impl Direct {
    /// As it stands in measurements.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::Remote => "decided by the server",
        }
    }
}

/// An opened target.
#[derive(Debug)]
pub struct Device {
    /// How the engines reach it.
    pub handle: Handle,
    /// The name, for messages.
    pub path: String,
    /// How many bytes it has.
    pub bytes: u64,
    /// Offsets and lengths are multiples of this.
    pub alignment: u32,
    /// Whether the page cache is passed by, as it was found and not as it was asked for.
    pub direct: Direct,
    /// The notices that the reader needs.
    pub notices: Vec<Notice>,
}

impl Device {
    /// Opens a target and makes sure that the load may do with it what it is asked to.
    ///
    /// # Errors
    /// When it is not there, is not storage, or holds what would be lost.
    pub fn open(target: &StorageTarget, spec: &LoadSettings) -> Result<Self, Error> {
        if target.address == NULL {
            return Ok(Self::null(spec));
        }
        let path = target.address.clone();
        if path.starts_with("nbd:") {
            return Self::remote(path, target, spec);
        }
        let metadata = match std::fs::metadata(&path) {
            Ok(metadata) => metadata,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Self::create(target, spec),
            Err(cause) => return Err(Error::Open { path, cause }),
        };
        let is_device = metadata.file_type().is_block_device();
        if !is_device && !metadata.is_file() {
            return Err(Error::NotStorage { path, what: what_it_is(&metadata) });
        }
        if spec.access.writes() && !target.is_ours && !spec.destroy_data {
            refuse_to_destroy(&path, is_device)?;
        }
        let exclusive =
            if is_device && spec.access.writes() && !spec.destroy_data { libc::O_EXCL } else { 0 };
        let name = target.name.clone().unwrap_or_else(|| path.clone());
        Self::of_file(&path, name, spec, exclusive)
    }

    fn null(spec: &LoadSettings) -> Self {
        let regions = u64::from(spec.jobs.saturating_sub(1)).saturating_mul(spec.offset_increment.0);
        let asked = spec.size.map(|size| spec.offset.0.saturating_add(size.0).saturating_add(regions));
        Self {
            handle: Handle::Null,
            path: NULL.to_owned(),
            bytes: asked.unwrap_or(NULL_BYTES),
            alignment: 1,
            direct: Direct::Yes,
            notices: vec![NoticeKind::NullStorage.into()],
        }
    }

    fn remote(path: String, target: &StorageTarget, spec: &LoadSettings) -> Result<Self, Error> {
        let wrong = |message: &str| Error::Nbd { address: path.clone(), message: message.to_owned() };
        let address = NbdAddress::parse(&path).ok_or_else(|| wrong("an address is nbd://HOST:PORT/NAME"))?;
        let mut connection = Nbd::connect(&address, 1)?;
        let export = connection.export();
        if spec.access.writes() {
            if export.is_read_only() {
                return Err(wrong("the export is read-only"));
            }
            if !target.is_ours && !spec.destroy_data && export_holds_data(&mut connection)? {
                return Err(Error::InUse { path, use_of_it: "it is not empty".to_owned() });
            }
        }
        let mut notices = Vec::new();
        if spec.jobs > 1 && spec.access.writes() && !export.is_shared() {
            notices.push(NoticeKind::ConnectionsApart.into());
        }
        let handle = Handle::Nbd(Arc::new(address));
        Ok(Self { handle, path, bytes: export.bytes, alignment: 1, direct: Direct::Remote, notices })
    }

    /// Makes a file that has no name any more when it is used: however this ends, nothing is left.
    fn create(target: &StorageTarget, spec: &LoadSettings) -> Result<Self, Error> {
        let path = target.address.clone();
        let Some(size) = target.create else { return Err(Error::Missing { path }) };
        let created = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = created.map_err(|cause| Error::Open { path: path.clone(), cause })?;
        let device = fill(&file, size.0, spec)
            .map_err(|cause| Error::Fill { path: path.clone(), cause })
            .and_then(|()| Self::of_file(&path, path.clone(), spec, 0));
        // It may have been removed by someone else meanwhile, which is what is wanted.
        let _ = std::fs::remove_file(&path);
        let mut device = device?;
        device.notices.push(Notice::from(NoticeKind::MadeForThis).about([path]));
        Ok(device)
    }

    /// Opens what is at an address. Messages call it `path`.
    fn of_file(address: &str, path: String, spec: &LoadSettings, flags: i32) -> Result<Self, Error> {
        let open = |flags: i32| {
            let mut options = OpenOptions::new();
            options.read(true).write(spec.access.writes()).custom_flags(flags);
            options.open(address)
        };
        let mut notices = Vec::new();
        let direct = if spec.direct { libc::O_DIRECT } else { 0 };
        let opened = match open(flags | direct) {
            Err(cause) if direct != 0 && cause.raw_os_error() == Some(libc::EINVAL) => open(flags),
            opened => opened,
        };
        let mut file = match opened {
            Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) => {
                let use_of_it = "it is mounted, or a volume manager or swap has it".to_owned();
                return Err(Error::InUse { path, use_of_it });
            }
            opened => opened.map_err(|cause| Error::Open { path: path.clone(), cause })?,
        };
        let bytes = file.seek(SeekFrom::End(0)).map_err(|cause| Error::Open { path: path.clone(), cause })?;
        let direct = is_direct(&file);
        if spec.direct && !direct {
            notices.push(Notice::from(NoticeKind::NoDirect).about([&path]));
        }
        let alignment = if direct { alignment(&file) } else { 1 };
        let direct = if direct { Direct::Yes } else { Direct::No };
        Ok(Self { handle: Handle::File(Arc::new(file)), path, bytes, alignment, direct, notices })
    }

    /// The region of every job: its beginning and its length.
    ///
    /// # Errors
    /// When a setting does not fit the target.
    pub fn regions(&self, spec: &LoadSettings) -> Result<Vec<(u64, u64)>, Error> {
        let unfit = |key, message| Err(Error::Unfit { path: self.path.clone(), key, message });
        let alignment = u64::from(self.alignment);
        for (key, value) in [
            ("block_size", spec.block_size),
            ("offset", spec.offset),
            ("offset_increment", spec.offset_increment),
        ] {
            if !value.0.is_multiple_of(alignment) {
                let message = format!("direct I/O on it takes multiples of {alignment} B, not {value}");
                return unfit(key, message);
            }
        }
        let mut regions = Vec::new();
        for job in 0..u64::from(spec.jobs) {
            let begin = spec.offset.0.saturating_add(job.saturating_mul(spec.offset_increment.0));
            let length = spec.size.map_or(self.bytes.saturating_sub(begin), |size| size.0);
            if begin.saturating_add(length) > self.bytes {
                let message = format!(
                    "the region of job {job} ends at {} B, and it has only {} B",
                    begin.saturating_add(length),
                    self.bytes
                );
                return unfit("size", message);
            }
            if length < spec.block_size.0 {
                let message =
                    format!("no block of {} fits into the {length} B of job {job}", spec.block_size);
                return unfit("block_size", message);
            }
            regions.push((begin, length));
        }
        Ok(regions)
    }

    /// The share of a file that was never written and is read without any storage: holes, and what `fallocate` made. `None` where
    /// that is unknown.
    #[must_use]
    pub fn never_written(&self) -> Option<f64> {
        let Handle::File(file) = &self.handle else { return None };
        let metadata = file.metadata().ok().filter(Metadata::is_file)?;
        let placed = std::os::unix::fs::MetadataExt::blocks(&metadata).saturating_mul(512);
        let held = placed.saturating_sub(plumb_host::extents::unwritten_bytes(file).unwrap_or(0));
        (self.bytes > 0).then(|| 1.0 - (held as f64 / self.bytes as f64).min(1.0))
    }

    /// In how many places of a few that are looked at a file or device holds nothing but zeros, and in how many it was looked at. Many
    /// kinds of storage answer reads of zeros without any data.
    #[must_use]
    pub fn zeros(&self) -> Option<(usize, usize)> {
        let Handle::File(file) = &self.handle else { return None };
        // By the page cache, which takes any place and length, and for files without a name as well.
        let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        let last = self.bytes.checked_sub(GLANCE_BYTES as u64)?;
        let mut piece = vec![0; GLANCE_BYTES];
        let mut zeros = 0;
        for glance in 0..GLANCES {
            let at = u128::from(last) * u128::from(glance) / u128::from(GLANCES - 1);
            let got =
                file.read_at(&mut piece, u64::try_from(at).unwrap_or(last)).ok().filter(|got| *got > 0)?;
            zeros += usize::from(piece[..got].iter().all(|byte| *byte == 0));
        }
        Some((zeros, GLANCES as usize))
    }
}

fn what_it_is(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    if kind.is_dir() {
        "a directory"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_fifo() {
        "a pipe"
    } else {
        "a socket"
    }
}

/// Makes sure that what would be written over holds nothing.
fn refuse_to_destroy(path: &str, is_device: bool) -> Result<(), Error> {
    let open_error = |cause| Error::Open { path: path.to_owned(), cause };
    let mut file = File::open(path).map_err(open_error)?;
    let holds_data = if is_device {
        let bytes = file.seek(SeekFrom::End(0)).map_err(open_error)?;
        device_holds_data(&file, bytes).map_err(open_error)?
    } else {
        file_holds_data(&mut file).map_err(open_error)?
    };
    let use_of_it = || "it is not empty".to_owned();
    if holds_data { Err(Error::InUse { path: path.to_owned(), use_of_it: use_of_it() }) } else { Ok(()) }
}

/// Whether a file holds anything but holes and zeros.
fn file_holds_data(file: &mut File) -> io::Result<bool> {
    match rustix::fs::seek(&*file, rustix::fs::SeekFrom::Data(0)) {
        Err(rustix::io::Errno::NXIO) => return Ok(false),
        Err(_) => {
            file.rewind()?;
        }
        Ok(_) => {}
    }
    let mut piece = vec![0; FILL_BYTES];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(false),
            got if piece[..got].iter().any(|byte| *byte != 0) => return Ok(true),
            _ => {}
        }
    }
}

/// Whether a device holds anything but zeros in any of many places, its beginning and its end among them: there every
/// file system, partition table and volume manager leaves its mark.
fn device_holds_data(file: &File, bytes: u64) -> io::Result<bool> {
    let mut piece = vec![0; PROBE_BYTES];
    let last = bytes.saturating_sub(PROBE_BYTES as u64);
    for probe in 0..PROBES {
        let at = u128::from(last) * u128::from(probe) / u128::from(PROBES - 1);
        let got = file.read_at(&mut piece, u64::try_from(at).unwrap_or(last))?;
        if piece[..got].iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// As with a device.
fn export_holds_data(connection: &mut Nbd) -> Result<bool, Error> {
    let bytes = connection.export().bytes;
    let length = u32::try_from(bytes.min(PROBE_BYTES as u64)).unwrap_or(0);
    let buffers = Buffers::new(1, length as usize)
        .map_err(|cause| Error::Engine { what: "get memory for the blocks in flight", cause })?;
    let mut completions = Vec::new();
    for probe in 0..PROBES {
        let last = bytes - u64::from(length);
        let at = u128::from(last) * u128::from(probe) / u128::from(PROBES - 1);
        let offset = u64::try_from(at).unwrap_or(last) / 512 * 512;
        connection.queue(Request { tag: 0, is_write: false, offset, buffer: buffers.address(0), length });
        connection.wait(None, &mut completions)?;
        if completions.drain(..).any(|it| it.result > 0) && buffers.block(0).iter().any(|byte| *byte != 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Gives a new file its content: data where it is read, only space where it is written.
fn fill(file: &File, bytes: u64, spec: &LoadSettings) -> io::Result<()> {
    if spec.access.reads() {
        return write_data(file, bytes, spec.compressible.0);
    }
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes),
        allocated => allocated.map_err(io::Error::from),
    }
}

/// Whether its file system keeps files in memory only. A device's own name may well be in such a one.
fn lives_in_memory(file: &File) -> bool {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    #[expect(clippy::unnecessary_cast, reason = "its type depends on the architecture")]
    fstatfs(file).is_ok_and(|found| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&(found.f_type as i64)))
}

/// Whether the page cache is passed by: file systems in memory take the flag and have nothing else than that cache.
fn is_direct(file: &File) -> bool {
    fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::DIRECT)) && !lives_in_memory(file)
}

fn alignment(file: &File) -> u32 {
    let of_device = file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device());
    if of_device {
        return rustix::fs::ioctl_blksszget(file).unwrap_or(SECTOR_BYTES).max(1);
    }
    let asked = StatxFlags::DIOALIGN;
    match statx(file, "", AtFlags::EMPTY_PATH, asked) {
        Ok(found) if StatxFlags::from_bits_retain(found.stx_mask).contains(asked) => {
            found.stx_dio_offset_align.max(1)
        }
        _ => SECTOR_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::Bytes;

    use super::*;

    #[test]
    fn direct_io_takes_whole_sectors_only_and_the_page_cache_takes_all() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("full");
        std::fs::write(&path, vec![7; 64 << 10]).unwrap();
        let target = StorageTarget::existing(path.to_str().unwrap());
        let spec = LoadSettings { block_size: Bytes(1000), ..LoadSettings::default() };
        let direct = Device::open(&target, &spec).unwrap();
        match direct.direct {
            Direct::Yes => {
                let refused = direct.regions(&spec).unwrap_err().to_string();
                assert!(refused.contains("takes multiples of"), "{refused}");
            }
            // Where the file system has no direct I/O, the measurement says so.
            _ => assert_eq!(direct.notices[0].kind, NoticeKind::NoDirect),
        }
        let spec = LoadSettings { direct: false, ..spec };
        let buffered = Device::open(&target, &spec).unwrap();
        assert_eq!((buffered.direct, buffered.notices.len()), (Direct::No, 0));
        assert_eq!(buffered.regions(&spec).unwrap(), [(0, 64 << 10)]);
    }

    #[test]
    fn what_is_read_without_any_storage_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let allocated = File::create(file("allocated")).unwrap();
        // Without fallocate, the file has a hole.
        let _ = fallocate(&allocated, FallocateFlags::empty(), 0, 4 << 20);
        allocated.set_len(4 << 20).unwrap();
        std::fs::write(file("zeros"), vec![0; 4 << 20]).unwrap();
        std::fs::write(file("data"), vec![7; 4 << 20]).unwrap();
        let open = |name: &str| {
            let target = StorageTarget::existing(file(name).to_str().unwrap());
            Device::open(&target, &LoadSettings { direct: false, ..LoadSettings::default() }).unwrap()
        };
        // A file system in memory does not tell what was only allocated.
        let never_written = open("allocated").never_written().unwrap();
        assert!(never_written == 1.0 || never_written == 0.0, "{never_written}");
        let zeros = |name: &str| open(name).zeros().unwrap();
        assert_eq!([zeros("allocated"), zeros("zeros"), zeros("data")], [(16, 16), (16, 16), (0, 16)]);
        assert_eq!(open("data").never_written(), Some(0.0));
    }
}
