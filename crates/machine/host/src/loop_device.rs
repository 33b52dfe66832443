//! A file as a block device: for as long as somebody holds it open, or until it is taken apart.
//!
//! A [`LoopDevice`] is set up with the flag by which the kernel takes it apart when its last user has closed it. So nothing has
//! to be undone, and nothing is left however its users end. [`keep`] makes a device without that flag, for users that do not
//! hold it open all the time. Source of numbers and layout: the kernel's `include/uapi/linux/loop.h`.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// Why this process may make no loop devices.
#[derive(Debug, thiserror::Error)]
#[error("loop devices need root and {CONTROL}: {_0}")]
pub struct NoLoopDevices(io::Error);

const CONTROL: &str = "/dev/loop-control";
const BLOCK_DEVICES: &str = "/sys/block";
const LOOP_CLR_FD: libc::c_ulong = 0x4c01;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4c05;
const LOOP_SET_CAPACITY: libc::c_ulong = 0x4c07;
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
const AUTOCLEAR: u32 = 4;
const DIRECT_IO: u32 = 16;
/// Others may take the free device first: so often another is asked for.
const TRIES: usize = 16;

/// `struct loop_info64`.
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`.
#[repr(C)]
struct Config {
    descriptor: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// A loop device over a file. It goes when this value and everyone else who has it open are gone.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
    device: File,
}

impl LoopDevice {
    /// Makes a block device of a file, passing by the page cache of the file's file system where that can be done.
    ///
    /// # Errors
    /// When this is not root, or the kernel has no loop devices or none that is free.
    pub fn over(file: &File) -> Result<Self, Error> {
        let (path, device) = make(file, AUTOCLEAR, "")?;
        Ok(Self { path, device })
    }

    /// Whether this process may make loop devices here.
    ///
    /// # Errors
    /// When it may not.
    pub fn can_be_made() -> Result<(), NoLoopDevices> {
        let opened = OpenOptions::new().read(true).write(true).open(CONTROL);
        opened.map(drop).map_err(NoLoopDevices)
    }

    /// The device's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The major and minor number.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    pub fn numbers(&self) -> Result<(u32, u32), Error> {
        let failed = |cause| Error::Read { path: self.path.clone(), cause };
        let number = self.device.metadata().map_err(failed)?.rdev();
        Ok((libc::major(number), libc::minor(number)))
    }

    /// How many bytes it has.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    pub fn bytes(&self) -> Result<u64, Error> {
        let failed = |cause| Error::Read { path: self.path.clone(), cause };
        (&self.device).seek(SeekFrom::End(0)).map_err(failed)
    }
}

/// Makes a block device of a file that stays until [`take_apart`], whether somebody has it open or not. [`kept`] finds it by its
/// label, of which the kernel keeps 63 bytes.
///
/// # Errors
///
/// As [`LoopDevice::over`].
pub fn keep(file: &File, label: &str) -> Result<PathBuf, Error> {
    make(file, 0, label).map(|(path, _)| path)
}

/// The devices with this label.
#[must_use]
pub fn kept(label: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(BLOCK_DEVICES).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let paths = names.filter(|name| name.starts_with("loop")).map(|name| Path::new("/dev").join(name));
    paths.filter(|path| label_of(path).is_ok_and(|found| found == label)).collect()
}

/// Has a device go when nobody has it open any more, which is at once where nobody has.
///
/// # Errors
///
/// When the kernel refuses.
pub fn take_apart(path: &Path) -> Result<(), Error> {
    match request(path, LOOP_CLR_FD) {
        // It is none any more.
        Err(cause) if cause.raw_os_error() == Some(libc::ENXIO) => Ok(()),
        done => done.map_err(|cause| Error::Write { path: path.to_owned(), cause }),
    }
}

/// Has a device become as large as its file is now.
///
/// # Errors
///
/// When the kernel refuses.
pub fn follow_size(path: &Path) -> Result<(), Error> {
    request(path, LOOP_SET_CAPACITY).map_err(|cause| Error::Write { path: path.to_owned(), cause })
}

/// A device's size in bytes.
///
/// # Errors
///
/// When it cannot be opened.
pub fn size_bytes(path: &Path) -> Result<u64, Error> {
    let seen = File::open(path).and_then(|mut device| device.seek(SeekFrom::End(0)));
    seen.map_err(|cause| Error::Read { path: path.to_owned(), cause })
}

/// Whether the file below a device is in a FUSE file system whose server has ended. The kernel returns a label only with the file's
/// attributes, and asks that server for them unless it has cached them. So [`kept`] may not find such a device.
#[must_use]
pub fn has_lost_its_file(path: &Path) -> bool {
    label_of(path).is_err_and(|cause| cause.raw_os_error() == Some(libc::ENOTCONN))
}

fn label_of(path: &Path) -> io::Result<String> {
    let device = File::open(path)?;
    let mut info = no_info();
    // SAFETY: the descriptor is open for the call, and the kernel fills a structure that has its layout.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    let length = info.file_name.iter().position(|byte| *byte == 0).unwrap_or(info.file_name.len());
    Ok(String::from_utf8_lossy(&info.file_name[..length]).into_owned())
}

fn request(path: &Path, number: libc::c_ulong) -> io::Result<()> {
    let device = OpenOptions::new().read(true).write(true).open(path)?;
    // SAFETY: the descriptor is open for the call, and these requests take no argument that is looked at.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), number, 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn make(file: &File, flags: u32, label: &str) -> Result<(PathBuf, File), Error> {
    let failed = |cause| Error::System { what: "make a loop device", cause };
    let mut last = io::Error::from(ErrorKind::ResourceBusy);
    for _ in 0..TRIES {
        let path = free_device().map_err(failed)?;
        let device = OpenOptions::new().read(true).write(true).open(&path).map_err(failed)?;
        let configured =
            configure(&device, file, flags | DIRECT_IO, label).or_else(|cause| match cause.raw_os_error() {
                Some(libc::EINVAL) => configure(&device, file, flags, label),
                _ => Err(cause),
            });
        match configured {
            Ok(()) => return Ok((path, device)),
            Err(cause) if cause.raw_os_error() == Some(libc::EBUSY) => last = cause,
            Err(cause) => return Err(failed(cause)),
        }
    }
    Err(failed(last))
}

/// The path of a device that nobody uses at this moment.
fn free_device() -> io::Result<PathBuf> {
    let control = OpenOptions::new().read(true).write(true).open(CONTROL)?;
    // SAFETY: the descriptor is open for the call, and this request takes no argument.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(PathBuf::from(format!("/dev/loop{number}")))
}

fn no_info() -> LoopInfo {
    LoopInfo {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    }
}

fn configure(device: &File, file: &File, flags: u32, label: &str) -> io::Result<()> {
    let descriptor: RawFd = file.as_raw_fd();
    let mut info = LoopInfo { flags, ..no_info() };
    // The last byte stays 0: the kernel takes the name as text.
    for (to, from) in info.file_name[..63].iter_mut().zip(label.bytes()) {
        *to = from;
    }
    let config = Config { descriptor: descriptor.cast_unsigned(), block_size: 0, info, reserved: [0; 8] };
    // SAFETY: both descriptors are open for the call, and the kernel only reads the structure, which has its layout.
    let done = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn the_layout_is_the_kernels() {
        assert_eq!((size_of::<LoopInfo>(), size_of::<Config>()), (232, 304));
    }

    #[test]
    fn a_kept_device_is_found_by_its_label_grows_and_is_taken_apart() {
        if let Err(reason) = LoopDevice::can_be_made() {
            let test = "loop_device::tests::a_kept_device_is_found_by_its_label_grows_and_is_taken_apart";
            crate::unprivileged::skip(test, &format!("make a loop device ({reason})"));
            return;
        }
        let label = format!("plumb test {}", std::process::id());
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let path = keep(&file, &label).unwrap();
        assert_eq!(kept(&label), std::slice::from_ref(&path));
        file.set_len(2 << 20).unwrap();
        follow_size(&path).unwrap();
        assert_eq!(size_bytes(&path).unwrap(), 2 << 20);
        take_apart(&path).unwrap();
        assert!(kept(&label).is_empty());
        take_apart(&path).unwrap();
    }

    #[test]
    fn a_device_holds_the_file_and_goes_with_its_last_user() {
        // Another test may take the device as soon as it is free, but no other test has a file of this size.
        const BYTES: usize = 123 * 512;
        if let Err(reason) = LoopDevice::can_be_made() {
            let test = "loop_device::tests::a_device_holds_the_file_and_goes_with_its_last_user";
            crate::unprivileged::skip(test, &format!("make a loop device ({reason})"));
            return;
        }
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; BYTES]).unwrap();
        file.sync_all().unwrap();
        let device = LoopDevice::over(&file).unwrap();
        assert_eq!(device.bytes().unwrap(), BYTES as u64);
        assert_eq!(device.numbers().unwrap().0, 7);
        let mut other = File::open(device.path()).unwrap();
        let path = device.path().to_owned();
        drop(device);
        let mut bytes = [0; 512];
        other.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [7; 512]);
        drop(other);
        let left = File::open(&path).and_then(|mut file| file.seek(SeekFrom::End(0)));
        assert!(left.is_err() || left.is_ok_and(|bytes| bytes != BYTES as u64));
    }
}
