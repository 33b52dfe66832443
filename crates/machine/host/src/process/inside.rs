//! The resources that a child holds: its TCP sockets with the kernel's own counters, and its memory.
//!
//! A program that counts its own bytes may count something else than what it sends. The kernel's counters of a socket
//! are exact, but they go with the socket, which a program closes as soon as it is done. So the socket is opened here a
//! second time (`pidfd_getfd`): its counters can then be read at any time, also after the program has closed it.
//!
//! This costs the program nothing. But as long as a socket is held here the other end does not learn that the program has
//! closed it: its holder drops it when the program ends.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::process::{PidfdGetfdFlags, pidfd_getfd};

use super::Child;
use crate::Error;
use crate::tcp_info::TcpInfo;

/// The kernel's counters of a TCP connection, in bytes of the stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Sent, each byte once.
    pub sent_bytes: u64,
    /// Received in order.
    pub received_bytes: u64,
}

/// A connected TCP socket of a child, held open here too.
#[derive(Debug)]
pub struct TcpSocket {
    stream: TcpStream,
    peer: SocketAddr,
}

impl TcpSocket {
    /// The other end.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The traffic so far.
    ///
    /// # Errors
    ///
    /// When the kernel is older than 4.19 and does not count.
    pub fn counters(&self) -> Result<TcpCounters, Error> {
        let failed = |cause| Error::System { what: "read the counters of a TCP socket", cause };
        let info = TcpInfo::of_socket(&self.stream).map_err(failed)?;
        let counters = || {
            let sent_bytes = info.bytes_sent()?.saturating_sub(info.bytes_retransmitted()?);
            Some(TcpCounters { sent_bytes, received_bytes: info.bytes_received()? })
        };
        counters().ok_or_else(|| failed(std::io::ErrorKind::Unsupported.into()))
    }
}

/// The TCP sockets that were found so far, by the child's number of them.
pub type TcpSockets = BTreeMap<i32, TcpSocket>;

impl Child {
    /// Adds the child's connected TCP sockets that are not known yet.
    ///
    /// # Errors
    ///
    /// When the kernel does not let this process look into the child.
    pub fn find_tcp_sockets(&self, known: &mut TcpSockets) -> Result<(), Error> {
        let directory = PathBuf::from(format!("/proc/{}/fd", self.pid()));
        let failed = |cause| Error::Read { path: directory.clone(), cause };
        for entry in fs::read_dir(&directory).map_err(failed)?.filter_map(Result::ok) {
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let is_socket = || {
                fs::read_link(entry.path())
                    .is_ok_and(|link| link.as_os_str().as_encoded_bytes().starts_with(b"socket:"))
            };
            if let Some(number) = number
                && !known.contains_key(&number)
                && is_socket()
                && let Some(socket) = self.tcp_socket(number)?
            {
                known.insert(number, socket);
            }
        }
        Ok(())
    }

    /// `None` when it is not a TCP socket, is not connected yet, or is closed already.
    fn tcp_socket(&self, number: i32) -> Result<Option<TcpSocket>, Error> {
        let taken: OwnedFd = match pidfd_getfd(self.end_event(), number, PidfdGetfdFlags::empty()) {
            Ok(taken) => taken,
            Err(rustix::io::Errno::BADF) => return Ok(None),
            Err(cause) => {
                return Err(Error::System { what: "hold a socket of a child", cause: cause.into() });
            }
        };
        let stream = TcpStream::from(taken);
        Ok(stream.peer_addr().ok().map(|peer| TcpSocket { stream, peer }))
    }

    /// Where the child has an anonymous, writable mapping of exactly this many bytes; `None` when there is none, or more
    /// than one.
    #[must_use]
    pub fn anonymous_mapping(&self, bytes: u64) -> Option<u64> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid())).ok()?;
        anonymous_mapping(&maps, bytes)
    }

    /// The child's memory, to be read and written at its own addresses.
    ///
    /// # Errors
    ///
    /// When the kernel does not let this process look into the child.
    pub fn memory(&self) -> Result<Memory, Error> {
        let path = PathBuf::from(format!("/proc/{}/mem", self.pid()));
        match OpenOptions::new().read(true).write(true).open(&path) {
            Ok(file) => Ok(Memory { file, path }),
            Err(cause) => Err(Error::Read { path, cause }),
        }
    }
}

/// The memory of another process. It ends with the process' own.
#[derive(Debug)]
pub struct Memory {
    file: File,
    path: PathBuf,
}

impl Memory {
    /// Fills `out` from an address on.
    ///
    /// # Errors
    ///
    /// When no such memory exists, or the process has ended.
    pub fn read_at(&self, address: u64, out: &mut [u8]) -> Result<(), Error> {
        self.file.read_exact_at(out, address).map_err(|cause| self.failed(cause))
    }

    /// Writes `bytes` from an address on.
    ///
    /// # Errors
    ///
    /// As for reading.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        let failed = |cause| Error::Write { path: self.path.clone(), cause };
        self.file.write_all_at(bytes, address).map_err(failed)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, cause: std::io::Error) -> Error {
        Error::Read { path: self.path.clone(), cause }
    }
}

fn anonymous_mapping(maps: &str, bytes: u64) -> Option<u64> {
    let starts = maps.lines().filter_map(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (range, mode) = (fields.next()?, fields.next()?);
        // Behind the mode are the offset, the device, the inode and, where there is one, the path.
        let (device, inode) = (fields.nth(1)?, fields.next()?);
        let (start, end) = range.split_once('-')?;
        let start = u64::from_str_radix(start, 16).ok()?;
        let length = u64::from_str_radix(end, 16).ok()?.checked_sub(start)?;
        let is_anonymous = device == "00:00" && inode == "0" && fields.next().is_none();
        (is_anonymous && mode == "rw-p" && length == bytes).then_some(start)
    });
    let mut starts = starts.fuse();
    starts.next().filter(|_| starts.next().is_none())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;
    use crate::process::{Command, Stream, waiting_shell};

    const MAPS: &str = "\
7f1a07e00000-7f1a27e00000 rw-p 00000000 00:00 0
7f1a28000000-7f1a48000000 rwxp 00000000 00:00 0
7f1a58000000-7f1a78000000 rw-p 00000000 00:00 0                          [heap]
7f1a88000000-7f1aa8000000 rw-s 00000000 00:01 77                         /memfd:x (deleted)
";

    #[test]
    fn only_an_anonymous_mapping_of_the_size_counts_and_only_if_it_is_alone() {
        assert_eq!(anonymous_mapping(MAPS, 0x2000_0000), Some(0x7f1a_07e0_0000));
        assert_eq!(anonymous_mapping(MAPS, 0x1000), None);
        let twice = MAPS.replace("rwxp", "rw-p");
        assert_eq!(anonymous_mapping(&twice, 0x2000_0000), None);
        assert_eq!(anonymous_mapping("garbage\n-\n1-zz rw-p 0 00:00 0", 1), None);
    }

    #[test]
    fn a_childs_connection_is_counted_exactly_even_after_the_child_has_closed_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        // Bash opens TCP connections by itself.
        let script = format!(
            "exec 9<>/dev/tcp/127.0.0.1/{port}; read -r go; head -c 100000 /dev/zero >&9; exec 9>&-; echo; read -r end"
        );
        let spawned =
            Command::new("bash").args(["-c", &script]).stdin(Stream::Piped).stdout(Stream::Piped).spawn();
        let mut child = spawned.unwrap();
        let (mut other, _) = listener.accept().unwrap();
        let mut sockets = TcpSockets::new();
        while sockets.is_empty() {
            child.find_tcp_sockets(&mut sockets).unwrap();
        }
        let socket = sockets.values().next().unwrap();
        assert_eq!(socket.peer(), listener.local_addr().unwrap());
        assert_eq!(socket.counters().unwrap(), TcpCounters::default());
        other.write_all(b"seven b").unwrap();
        child.take_stdin().unwrap().write_all(b"go\n").unwrap();
        let mut closed = [0];
        child.take_stdout().unwrap().read_exact(&mut closed).unwrap();
        other.read_exact(&mut vec![0; 100_000]).unwrap();
        let expected = TcpCounters { sent_bytes: 100_000, received_bytes: 7 };
        assert_eq!(socket.counters().unwrap(), expected);
        drop(sockets);
        other.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // What the child never read makes the kernel reset the connection instead of ending it.
        assert!(matches!(other.read(&mut closed), Ok(0) | Err(_)));
    }

    #[test]
    fn a_childs_memory_is_read_and_written_at_its_addresses() {
        let child = waiting_shell("");
        let stack = |maps: &str| {
            let line = maps.lines().find(|line| line.ends_with("[stack]"))?;
            u64::from_str_radix(line.split('-').next()?, 16).ok()
        };
        let maps = || fs::read_to_string(format!("/proc/{}/maps", child.pid())).unwrap();
        let address = stack(&maps()).unwrap();
        let memory = child.memory().unwrap();
        memory.write(address, b"written").unwrap();
        let mut read = [0; 7];
        memory.read_at(address, &mut read).unwrap();
        assert_eq!(&read, b"written");
        let error = memory.read_at(8, &mut read).unwrap_err().to_string();
        assert!(error.starts_with(&format!("read /proc/{}/mem: ", child.pid())), "{error}");
    }
}
