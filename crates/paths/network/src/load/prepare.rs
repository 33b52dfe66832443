//! A test made ready: the server has agreed, and all flows are there.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plumb_host::time::monotonic_ns;
use rustix::event::PollFlags;

use super::control::{Control, PATIENCE, within};
use super::error::Error;
use crate::options::ZeroCopy;
use crate::settings::{LoadSettings, NetworkTarget, Test};
use crate::wire::control::{SocketTerms, Terms};
use crate::wire::hello::{HELLO_BYTES, Purpose};
use crate::wire::options::{self, Observed};
use crate::wire::socket;

/// A hello of a flow of datagrams that is not answered is sent again so often.
const HELLO_AGAIN: Duration = Duration::from_millis(100);

/// A test that can begin.
#[derive(Debug)]
pub struct Prepared {
    /// The control connection.
    pub control: Control,
    /// The agreed test.
    pub terms: Terms,
    /// The test's token.
    pub token: u64,
    /// A socket for each flow; none where every message has its own.
    pub sockets: Vec<Option<Arc<OwnedFd>>>,
    /// The options read back of them.
    pub observed: Observed,
    /// Whether messages are sent without a copy.
    pub zero_copy: ZeroCopy,
    /// How many messages are due per second, or batches of them.
    pub rate_per_s: Option<f64>,
    /// Where sockets are opened.
    pub netns: Option<PathBuf>,
}

pub(super) fn terms(spec: &LoadSettings, target: &NetworkTarget, test: Test) -> Result<Terms, Error> {
    let shared_cpus = if spec.shares_cpus(test) { target.common_cpus()? } else { None };
    let small = |bytes: plumb_model::Bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX);
    Ok(Terms {
        test,
        msg_size: small(spec.size_of(test)),
        flows: spec.flows,
        batch: if test.is_bandwidth() { spec.batch } else { 1 },
        receive: spec.receive,
        shared_cpus,
        options: SocketTerms {
            nodelay: spec.nodelay_of(test),
            busy_poll_us: u32::try_from(spec.busy_poll.0 / 1000).unwrap_or(u32::MAX),
            send_buffer: spec.send_buffer.map(small),
            receive_buffer: spec.receive_buffer.map(small),
        },
    })
}

/// Makes a test ready.
///
/// # Errors
/// When the server is not there, or one of the two ends cannot do what is asked for.
pub fn prepare(spec: &LoadSettings, target: &NetworkTarget, test: Test) -> Result<Prepared, Error> {
    let terms = terms(spec, target, test)?;
    let mut control = Control::connect(target)?;
    let token = control.begin(&terms)?;
    let netns = target.netns.clone();
    let (name, address) = (control.name().to_owned(), control.address);
    let sockets = within(netns.as_deref(), || {
        (0..terms.flows).map(|flow| open(&terms, &name, address, token, flow)).collect::<Result<Vec<_>, _>>()
    })?;
    control.join()?;
    let mut observed = Observed::new();
    for socket in sockets.iter().flatten() {
        options::observe(socket, !test.is_udp(), &mut observed);
    }
    Ok(Prepared {
        control,
        token,
        sockets,
        observed,
        zero_copy: if test == Test::TcpBw { spec.zero_copy } else { ZeroCopy::Off },
        rate_per_s: spec.rate.map(|rate| rate.0 / f64::from(terms.batch)),
        netns,
        terms,
    })
}

fn open(
    terms: &Terms,
    name: &str,
    address: SocketAddr,
    token: u64,
    flow: u32,
) -> Result<Option<Arc<OwnedFd>>, Error> {
    let hello = Purpose::Flow { token, flow }.encode();
    let broken = |cause| Error::Connect { address: name.to_owned(), cause };
    match terms.test {
        // Each connection is opened when its turn comes; one is opened to see that the options are taken.
        Test::TcpCrr => {
            let probe = socket::connect(address, Some(&terms.options), PATIENCE);
            probe.map_err(|error| Error::connect(name, error))?;
            Ok(None)
        }
        Test::TcpLat | Test::TcpBw => {
            let socket = socket::connect(address, Some(&terms.options), PATIENCE)
                .map_err(|error| Error::connect(name, error))?;
            socket::send_all(&socket, &hello).map_err(broken)?;
            Ok(Some(Arc::new(socket)))
        }
        Test::UdpLat | Test::UdpBw => {
            let socket = socket::datagrams_to(address).map_err(broken)?;
            options::apply(&socket, &terms.options, false)
                .map_err(|error| Error::Option { is_usage: error.is_usage, message: error.to_string() })?;
            introduce(&socket, &hello, name)?;
            Ok(Some(Arc::new(socket)))
        }
    }
}

/// Says hello until the server answers, as either may be lost.
fn introduce(socket: &OwnedFd, hello: &[u8; HELLO_BYTES], name: &str) -> Result<(), Error> {
    let broken = |cause| Error::Connect { address: name.to_owned(), cause };
    let deadline_ns = monotonic_ns() + u64::try_from(PATIENCE.as_nanos()).unwrap_or(u64::MAX);
    let mut answer = [0; HELLO_BYTES + 1];
    while monotonic_ns() < deadline_ns {
        // Nobody there is seen as an error of a later call, and may be somebody in a moment.
        let _ = socket::send(socket, hello);
        if socket::is_ready(socket.as_fd(), PollFlags::IN, HELLO_AGAIN).map_err(broken)?
            && let Ok(count) = socket::receive(socket, &mut answer)
            && answer[..count] == hello[..]
        {
            return Ok(());
        }
    }
    Err(Error::NoDatagrams { address: name.to_owned(), seconds: PATIENCE.as_secs() })
}
