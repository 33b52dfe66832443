//! Devices whose packets a program reads and writes (TUN/TAP), one Ethernet frame at a time.
//!
//! A device is not persistent: the kernel removes it with its descriptor, even if the program is killed. It offers no offloads, so
//! that the kernel splits large segments and computes checksums before the program reads them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use super::link::Link;
use super::namespace::Namespace;
use crate::Error;
use crate::ethtool::request_for;

/// `TUNSETIFF` and the flags of an Ethernet device whose frames have no header before them (include/uapi/linux/if_tun.h).
const TUNSETIFF: libc::Ioctl = 0x4004_54ca;
const IFF_TAP: libc::c_short = 0x0002;
const IFF_NO_PI: libc::c_short = 0x1000;

/// The program's end of a device. Reads and writes do not block.
#[derive(Debug)]
pub(super) struct Tap(File);

impl Tap {
    /// Takes the next frame that the kernel sent to the device; `None` if there is none.
    ///
    /// # Errors
    ///
    /// When the device is gone.
    pub(super) fn take_frame(&self, frame: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.0, frame) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error == rustix::io::Errno::AGAIN => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands a frame to the kernel as one that the device received. The kernel processes it before this returns.
    ///
    /// # Errors
    ///
    /// When the device is down or gone.
    pub(super) fn write(&self, frame: &[u8]) -> io::Result<()> {
        Ok(rustix::io::write(&self.0, frame).map(drop)?)
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Namespace {
    /// Makes a TAP device here, which is down.
    ///
    /// # Errors
    ///
    /// When the name is taken, or the kernel has no such devices.
    pub(super) fn add_tap(&self, link: Link<'_>) -> Result<Tap, Error> {
        // The device is made in the namespace of the thread that opened the file.
        let made = self.inside(|| open(link.name))?;
        let tap = made
            .map_err(|cause| Error::Network { what: format!("make the tap device {}", link.name), cause })?;
        self.set_mtu(link.name, link.mtu)?;
        if let Some(length) = link.queue_length {
            self.set_queue_length(link.name, length)?;
        }
        Ok(tap)
    }
}

fn open(name: &str) -> io::Result<Tap> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut request = request_for(name)?;
    request.ifr_ifru.ifru_flags = IFF_TAP | IFF_NO_PI;
    // SAFETY: the kernel reads and writes the request, which outlives the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(Tap(file)) }
}
