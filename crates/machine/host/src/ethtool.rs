//! ethtool's ioctl (`SIOCETHTOOL`), which every kernel has and every driver answers.
//!
//! Its netlink form says features by bit numbers that change from kernel to kernel.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The input and the answer of a command: a struct of include/uapi/linux/ethtool.h that begins with the command.
///
/// # Safety
///
/// The struct must be the one that the kernel reads and writes for every command that its values have.
pub(crate) unsafe trait Argument {}

/// Has the kernel do a command for an interface in the network namespace of `socket`.
pub(crate) fn call(socket: impl AsFd, interface: &str, argument: &mut impl Argument) -> io::Result<()> {
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    let mut request = request_for(interface)?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(argument).cast();
    // SAFETY: `request` and `argument` outlive the call, and the kernel reads and writes no more than what `argument` is, as
    // its type promises.
    let done = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The beginning of every ioctl on an interface: its name.
///
/// # Errors
///
/// When the name is too long for the kernel.
pub(crate) fn request_for(interface: &str) -> io::Result<libc::ifreq> {
    // SAFETY: every field of `ifreq` is an integer, an array of them or a pointer, for all of which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = interface.as_bytes();
    // The last byte stays 0 and ends the name.
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}
