//! The client's side of the control connection. Every answer has a deadline, so that a server that is gone is one clear
//! error within seconds.

use std::io::{self, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use plumb_host::address::resolve;
use plumb_host::signals::{unless_asked_to_stop, was_asked_to_stop};
use plumb_model::Span;
use rustix::event::PollFlags;

use super::error::Error;
use crate::settings::{NetworkTarget, Test};
use crate::wire::control::{Counters, Reply, Request, Terms, Totals, read_line, write_line};
use crate::wire::hello::{HELLO_BYTES, Purpose, Stranger, VERSION};
use crate::wire::socket::{self, ConnectError};

/// How long a server may take to answer.
pub const PATIENCE: Duration = Duration::from_secs(3);
/// The same where it waits first, for flows that connect or for messages under way.
const LONG_PATIENCE: Duration = Duration::from_millis(4500);
/// The same once this process was asked to stop.
const HASTE: Duration = Duration::from_millis(500);

/// A control connection.
#[derive(Debug)]
pub struct Control {
    /// The server as it was named.
    name: String,
    /// Where it is.
    pub address: SocketAddr,
    to: TcpStream,
    from: BufReader<TcpStream>,
    test: Option<Test>,
}

/// A server as messages name it.
fn name_of(target: &NetworkTarget) -> String {
    match target.address.contains(':') {
        true => format!("[{}]:{}", target.address, target.port),
        false => format!("{}:{}", target.address, target.port),
    }
}

/// Runs something in a thread that has entered a network namespace, where there is one to enter.
///
/// # Errors
/// When it cannot be entered, and what `run` says.
pub fn within<T: Send>(
    netns: Option<&Path>,
    run: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let Some(netns) = netns else { return run() };
    std::thread::scope(|scope| {
        let entered = || {
            plumb_host::namespace::enter(netns)?;
            run()
        };
        let early =
            || Error::System { what: "open sockets", cause: io::Error::other("the thread ended early") };
        scope.spawn(entered).join().unwrap_or_else(|_| Err(early()))
    })
}

impl Control {
    /// Connects to a server, and makes sure that it is one.
    ///
    /// # Errors
    /// When it does not answer, or is something else.
    pub fn connect(target: &NetworkTarget) -> Result<Self, Error> {
        within(target.netns.as_deref(), || {
            let (target, address) = (target.clone(), name_of(target));
            let connected = unless_asked_to_stop(move || Self::connect_here(&target));
            connected.map_err(|cause| Error::Connect { address, cause })?
        })
    }

    fn connect_here(target: &NetworkTarget) -> Result<Self, Error> {
        let name = name_of(target);
        let addresses = resolve(&target.address, target.port).map_err(Error::Resolve)?;
        let mut failed = None;
        for address in addresses.iter().take(2) {
            match socket::connect(*address, None, PATIENCE / 2) {
                Ok(connection) => return Self::greet(name, *address, connection),
                Err(error) => failed = Some(error),
            }
        }
        let failed = failed.unwrap_or(ConnectError::Io(io::ErrorKind::NotFound.into()));
        Err(Error::connect(&name, failed))
    }

    fn greet(name: String, address: SocketAddr, connection: OwnedFd) -> Result<Self, Error> {
        let broken = |cause| Error::Connect { address: name.clone(), cause };
        socket::keep_watch(&connection).map_err(broken)?;
        socket::set_receive_timeout(&connection, Some(PATIENCE)).map_err(broken)?;
        socket::send_all(&connection, &Purpose::Control.encode()).map_err(broken)?;
        let mut bytes = [0; HELLO_BYTES];
        let stranger = |what: String| Err(Error::Stranger { address: name.clone(), what });
        let mut filled = 0;
        while filled < HELLO_BYTES {
            match socket::receive(&connection, &mut bytes[filled..]) {
                Ok(0) | Err(_) => break,
                Ok(count) => filled += count,
            }
        }
        match Purpose::decode(&bytes[..filled]) {
            Ok(_) => {}
            Err(Stranger::Version(version)) => {
                return stranger(format!(
                    "it is a server of version {version} of the protocol, and this is version {VERSION}; use one \
                     plumb at both ends"
                ));
            }
            Err(Stranger::Foreign) if filled == 0 => {
                return stranger(
                    "its answer is not a plumb server's; does `plumb network serve` listen there?".to_owned(),
                );
            }
            Err(Stranger::Foreign) => {
                let said = String::from_utf8_lossy(&bytes[..filled]).escape_debug().to_string();
                return stranger(format!("it is not a plumb server, it said \"{said}\""));
            }
        }
        let to = TcpStream::from(connection);
        let from = BufReader::new(to.try_clone().map_err(broken)?);
        Ok(Self { name, address, to, from, test: None })
    }

    /// The server as it was named.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, request: &Request, patience: Duration) -> Result<Reply, Error> {
        let patience = if was_asked_to_stop() { HASTE } else { patience };
        socket::set_receive_timeout(&self.to, Some(patience))
            .map_err(|cause| Error::System { what: "wait for the server", cause })?;
        let sent = write_line(&mut self.to, request);
        // A server that refused before it was asked has said why.
        let reply = read_line(&mut self.from).and_then(|reply| match (&reply, sent) {
            (Some(Reply::Refused { .. }), _) | (_, Ok(())) => Ok(reply),
            (_, Err(error)) => Err(error),
        });
        match reply {
            Ok(Some(Reply::Refused { reason, is_usage })) => {
                Err(Error::Refused { address: self.name.clone(), reason, is_usage })
            }
            Ok(Some(reply)) => Ok(reply),
            Ok(None) => Err(self.gone()),
            Err(error) if is_timeout(&error) => Err(Error::Silent {
                address: self.name.clone(),
                test: self.test.map_or("the beginning", Test::name),
                silence: Span(patience.as_nanos() as u64),
            }),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Error::Stranger { address: self.name.clone(), what: error.to_string() })
            }
            Err(_) => Err(self.gone()),
        }
    }

    fn gone(&self) -> Error {
        Error::Gone { address: self.name.clone(), test: self.test.map_or("the beginning", Test::name) }
    }

    fn unexpected(&self, reply: &Reply) -> Error {
        let said = serde_json::to_string(reply).unwrap_or_default();
        Error::Stranger {
            address: self.name.clone(),
            what: format!("it sent an unexpected message: {said:.200}"),
        }
    }

    /// Begins a test. Returns its token.
    ///
    /// # Errors
    /// When the server is gone or refuses.
    pub fn begin(&mut self, terms: &Terms) -> Result<u64, Error> {
        self.test = Some(terms.test);
        match self.ask(&Request::Begin(terms.clone()), PATIENCE)? {
            Reply::Ready { token } => Ok(token),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Waits until the server has all flows.
    ///
    /// # Errors
    /// When the server is gone or has not got them.
    pub fn join(&mut self) -> Result<(), Error> {
        match self.ask(&Request::Join, LONG_PATIENCE)? {
            Reply::Joined => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The server's counters of now.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn sample(&mut self) -> Result<Counters, Error> {
        match self.ask(&Request::Sample, PATIENCE)? {
            Reply::Counters(counters) => Ok(counters),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Everything that came.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn finish(&mut self) -> Result<Totals, Error> {
        match self.ask(&Request::Finish, LONG_PATIENCE)? {
            Reply::Finished(totals) => Ok(totals),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Waits, but not longer than the server lives.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn wait(&self, timeout: Duration) -> Result<(), Error> {
        let ready = socket::is_ready(self.to.as_fd(), PollFlags::IN, timeout);
        match ready {
            // Nothing was asked, so that what is there to be read is an end.
            Ok(true) => Err(self.gone()),
            Ok(false) => Ok(()),
            Err(cause) => Err(Error::System { what: "wait for the server", cause }),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}
