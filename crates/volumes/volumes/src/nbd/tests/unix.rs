//! Clients of a Unix socket, and what becomes of the writes of one that was killed.

use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use super::client::Handshake;
use super::*;

fn connect(server: &Server) -> Client {
    let Address::Unix(path) = server.address() else { panic!("it listens on a Unix socket") };
    let stream = TcpStream::from(OwnedFd::from(UnixStream::connect(path).unwrap()));
    Client::enter(Handshake::over(stream), "vol1", true)
}

#[test]
fn writes_of_a_client_that_was_killed_are_not_done_later() {
    let directory = TempDir::new().unwrap();
    let limits = Limits { iops: NonZeroU64::new(1), ..Limits::NONE };
    let limiter = Arc::new(Limiter::new(limits, monotonic_ns()));
    let volume = Volume::open("vol1", &directory.path().join("vol1"), SIZE_BYTES, limiter).unwrap();
    let exports = Arc::new(Exports::default());
    exports.add(Arc::new(volume));
    // With one loop, what the first client did is noticed before what the second one does.
    let address = Address::Unix(directory.path().join("socket"));
    let mut server = Server::bind(&address, 1, exports).unwrap();
    server.begin().unwrap();

    let mut killed = connect(&server);
    for block in 0..32 {
        killed.send(WRITE, 0, block * 4096, 4096, &[7; 4096]);
    }
    assert_eq!(killed.receive(WRITE), Reply::Done(Vec::new()));
    drop(killed);

    let mut next = connect(&server);
    assert_eq!(next.call(FLUSH, 0, 0, 0, &[]), Reply::Done(Vec::new()));
    let limiter = server.exports().find("vol1").unwrap().limiter();
    server.change_limits(&limiter, Limits::NONE);
    let last = next.call(READ, 0, 31 * 4096, 4096, &[]);
    assert_eq!(last, Reply::Done(vec![0; 4096]), "nobody waits for it any more");
}

#[test]
fn a_volume_is_found_by_its_uuid_whatever_it_is_called() {
    let directory = TempDir::new().unwrap();
    let open = |name: &str| {
        let limiter = Arc::new(Limiter::new(Limits::NONE, monotonic_ns()));
        Arc::new(Volume::open(name, &directory.path().join(name), SIZE_BYTES, limiter).unwrap())
    };
    let (old, exports) = (open("vol1"), Exports::default());
    exports.add(Arc::clone(&old));
    exports.identify("u-1", &old);
    exports.rename(&[("vol1".to_owned(), "other".to_owned())]);
    exports.add(open("vol1"));
    assert!(Arc::ptr_eq(&exports.find("u-1").unwrap(), &old));
    assert!(!Arc::ptr_eq(&exports.find("vol1").unwrap(), &old));
    drop((exports.remove("other"), old));
    assert!(exports.find("u-1").is_none(), "it is served no more");
}
