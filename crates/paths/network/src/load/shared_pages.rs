//! Whether `sendfile` sends a file's pages without a copy. The kernel does not say, so it is tried on the way to the server:
//! a page that is changed after it was handed over, and before it is sent, arrives changed only if it was not copied.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use plumb_model::Bytes;
use rustix::net::sockopt::set_tcp_cork;

use super::control::PATIENCE;
use super::error::Error;
use super::prepare;
use crate::settings::{LoadSettings, NetworkTarget, Test};
use crate::wire::socket;

/// The outcomes for pages that were handed over.
pub(crate) const SHARED: &str = "shared";
pub(crate) const COPIED: &str = "copied";

/// Far less than a segment, so that the kernel keeps it back.
const BYTES: usize = 64;
/// The kernel keeps data back for 200 ms at most, and this process may stand still for longer.
const TRIES: u64 = 3;

/// Tries it with messages that the server sends back. Returns how often a page arrived changed, and how often as it was.
///
/// # Errors
/// When the server goes away.
pub fn probe(target: &NetworkTarget) -> Result<(u64, u64), Error> {
    let spec = LoadSettings {
        tests: vec![Test::TcpLat],
        msg_size: Some(Bytes(BYTES as u64)),
        ..LoadSettings::default()
    };
    let mut prepared = prepare::prepare(&spec, target, Test::TcpLat)?;
    let system = |cause| Error::System { what: "try sendfile", cause };
    let mut changed = 0;
    for socket in prepared.sockets.iter().flatten() {
        changed += tries(socket, send_page).map_err(system)?;
        socket::finish(socket);
    }
    prepared.control.finish()?;
    Ok((changed, TRIES - changed))
}

/// How often what was handed over arrives as it was changed later.
fn tries(socket: &OwnedFd, hand_over: fn(&OwnedFd, &File) -> io::Result<()>) -> io::Result<u64> {
    socket::set_receive_timeout(socket, Some(PATIENCE))?;
    let mut changed = 0;
    for _ in 0..TRIES {
        // A new one each time: the kernel may still hold a page of the last.
        let file = File::from(rustix::fs::memfd_create("page", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.write_all_at(&[b'a'; BYTES], 0)?;
        set_tcp_cork(socket, true)?;
        hand_over(socket, &file)?;
        file.write_all_at(&[b'b'; BYTES], 0)?;
        set_tcp_cork(socket, false)?;
        let mut answer = [0; BYTES];
        if !socket::receive_all(socket, &mut answer)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        changed += u64::from(answer == [b'b'; BYTES]);
    }
    Ok(changed)
}

fn send_page(socket: &OwnedFd, file: &File) -> io::Result<()> {
    let sent = rustix::fs::sendfile(socket, file, Some(&mut 0), BYTES)?;
    if sent == BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// A connection to somebody who sends everything back.
    fn echo() -> OwnedFd {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            let mut message = [0; BYTES];
            while peer.read_exact(&mut message).is_ok() {
                peer.write_all(&message).unwrap();
            }
        });
        client.into()
    }

    #[test]
    fn a_page_is_shared_by_sendfile_and_copied_by_send() {
        assert!(tries(&echo(), send_page).unwrap() > 0);
        let copied = |socket: &OwnedFd, file: &File| {
            let mut bytes = [0; BYTES];
            file.read_exact_at(&mut bytes, 0)?;
            socket::send_all(socket, &bytes)
        };
        assert_eq!(tries(&echo(), copied).unwrap(), 0);
    }
}
