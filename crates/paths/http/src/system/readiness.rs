//! Proof that a system answers, and that it is ours: a real request through it.
//!
//! A program may listen before it can serve, and what listens on a port may be something else. So a system counts as
//! started when a client that trusts only the system's own authority has got the whole body from it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use plumb_h2::connection::{Connection, Event, Limits, Side};
use plumb_h2::hpack::Field;
use plumb_host::time::{monotonic_ns, sleep};
use plumb_ingress::Answers;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::certificates::Certificates;
use crate::settings::Spoken;

/// How long a system may take until it answers.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between one attempt and the next.
const PAUSE: Duration = Duration::from_millis(10);
/// For each step of an attempt.
const STEP_TIMEOUT: Duration = Duration::from_secs(2);
/// The window of HTTP/2 for what a connection sends and this side has not read.
const WINDOW_BYTES: u32 = 65_535;

/// The observations of the proving connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answered {
    /// The TLS version in the words of experiment files; `none` without TLS.
    pub tls: String,
    /// The cipher suite by its IANA name, with TLS.
    pub cipher: Option<String>,
}

/// Why an attempt proved nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unproven {
    #[error("it did not answer within {} s: {_0}", PATIENCE.as_secs())]
    Silent(#[from] Silent),
    #[error("its answer is not the origin's: {_0}")]
    Wrong(#[from] Wrong),
}

/// Why there was no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Silent {
    #[error("connect: {_0}")]
    Connect(io::Error),
    #[error(transparent)]
    Socket(io::Error),
    #[error(transparent)]
    Name(#[from] InvalidDnsNameError),
    #[error(transparent)]
    Authority(#[from] rustls::pki_types::pem::Error),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    #[error("send a request: {_0}")]
    Send(io::Error),
    #[error("read the answer: {_0}")]
    Read(io::Error),
    #[error("read the answer: {_0}")]
    Http2(#[from] plumb_h2::Error),
    #[error("the connection ended before an answer came")]
    Ended,
}

/// An answer that is not the origin's.
#[derive(Debug, thiserror::Error)]
pub(super) enum Wrong {
    #[error("it shows a certificate other than the one made for it")]
    Certificate,
    #[error("{_0}")]
    Status(String),
    #[error("the body has {found} B instead of {expected} B")]
    Length { found: u64, expected: u64 },
}

/// A port for loads on this host.
pub(super) fn here(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// The facts by which a server is proven.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected<'a> {
    /// The address of this host on which it listens.
    pub address: IpAddr,
    /// Where it terminates TLS.
    pub certificates: Option<&'a Certificates>,
    /// The protocol by which it is asked.
    pub protocol: Spoken,
    pub body_bytes: u64,
}

impl Expected<'_> {
    /// An origin with a body of this length.
    pub fn of_origin(body_bytes: u64) -> Self {
        let address = Ipv4Addr::LOCALHOST.into();
        Self { address, certificates: None, protocol: Spoken::H1, body_bytes }
    }
}

/// Asks until the system answers with a body of the given length. `check` is called between attempts, to give up early.
///
/// # Errors
///
/// What the last attempt met when time was up, or what `check` returned.
pub(super) fn prove<E>(
    port: u16,
    expected: Expected<'_>,
    mut check: impl FnMut() -> Result<(), E>,
) -> Result<Result<Answered, Unproven>, E> {
    let deadline_ns = monotonic_ns() + PATIENCE.as_nanos() as u64;
    loop {
        match attempt(port, expected) {
            Ok(proof) => return Ok(Ok(proof)),
            Err(unproven) if monotonic_ns() >= deadline_ns => return Ok(Err(unproven)),
            Err(_) => check()?,
        }
        sleep(PAUSE);
    }
}

fn attempt(port: u16, expected: Expected<'_>) -> Result<Answered, Unproven> {
    let Expected { address, certificates, protocol, .. } = expected;
    let address = SocketAddr::from((address, port));
    let stream = TcpStream::connect_timeout(&address, STEP_TIMEOUT).map_err(Silent::Connect)?;
    stream
        .set_read_timeout(Some(STEP_TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(STEP_TIMEOUT)))
        .map_err(Silent::Socket)?;
    let Some(certificates) = certificates else {
        let mut stream = stream;
        return get(&mut stream, port, expected).map(|()| Answered { tls: "none".to_owned(), cipher: None });
    };
    // Loads on other hosts know it by its address.
    let name = match address.ip() {
        IpAddr::V4(Ipv4Addr::LOCALHOST) => ServerName::try_from("localhost").map_err(Silent::from)?,
        other => ServerName::from(other),
    };
    let connection =
        ClientConnection::new(client_config(&certificates.ca_pem, protocol)?, name).map_err(Silent::from)?;
    let mut stream = StreamOwned::new(connection, stream);
    get(&mut stream, port, expected)?;
    check_leaf(&stream.conn, certificates)?;
    let tls = match stream.conn.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => "1.2".to_owned(),
        Some(rustls::ProtocolVersion::TLSv1_3) => "1.3".to_owned(),
        other => format!("{other:?}"),
    };
    let cipher =
        stream.conn.negotiated_cipher_suite().and_then(|suite| suite.suite().as_str().map(str::to_owned));
    Ok(Answered { tls, cipher })
}

/// The settings of a client that trusts this authority alone. It offers HTTP/2 in ALPN, or nothing.
pub(super) fn client_config(ca_pem: &str, protocol: Spoken) -> Result<Arc<ClientConfig>, Silent> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(ca_pem.as_bytes())?;
    roots.add(authority)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = (protocol == Spoken::H2).then(|| b"h2".to_vec()).into_iter().collect();
    Ok(Arc::new(config))
}

/// The authority signs one leaf only, so that this fails only if something else got hold of it.
fn check_leaf(connection: &ClientConnection, certificates: &Certificates) -> Result<(), Wrong> {
    match connection.peer_certificates() {
        Some([leaf]) if *leaf == certificates.leaf => Ok(()),
        _ => Err(Wrong::Certificate),
    }
}

/// An answer, of whichever protocol.
#[derive(Debug, Default)]
struct ProvingAnswer {
    status: u16,
    status_line: String,
    content_bytes: u64,
}

fn get(stream: &mut (impl Read + Write), port: u16, expected: Expected<'_>) -> Result<(), Unproven> {
    let seen = match (expected.protocol, expected.certificates) {
        // An ingress that speaks HTTP/3 speaks another version beside it, and is proven by that.
        (Spoken::H1 | Spoken::H3, _) => get_http1(stream, port)?,
        (Spoken::H2, None) => get_http2(stream, "http", port)?,
        (Spoken::H2, Some(_)) => get_http2(stream, "https", port)?,
    };
    if seen.status != 200 {
        return Err(Wrong::Status(seen.status_line).into());
    }
    if seen.content_bytes != expected.body_bytes {
        return Err(Wrong::Length { found: seen.content_bytes, expected: expected.body_bytes }.into());
    }
    Ok(())
}

fn get_http1(stream: &mut (impl Read + Write), port: u16) -> Result<ProvingAnswer, Silent> {
    let request = format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(Silent::Send)?;
    let mut content_bytes = 0;
    let answer = Answers::default()
        .read_answer(stream, false, |content| content_bytes += content.len() as u64)
        .map_err(Silent::Read)?
        .ok_or(Silent::Ended)?;
    Ok(ProvingAnswer { status: answer.status, status_line: answer.status_line().to_string(), content_bytes })
}

fn get_http2(stream: &mut (impl Read + Write), scheme: &str, port: u16) -> Result<ProvingAnswer, Silent> {
    let authority = format!("localhost:{port}");
    let fields = [(":method", "GET"), (":scheme", scheme), (":path", "/"), (":authority", &authority)];
    let fields = fields.map(|(name, value)| Field::new(name.as_bytes(), value.as_bytes()));
    let (settings, limits, mut out) = (plumb_h2::Settings::default(), Limits::default(), Vec::new());
    let mut connection = Connection::begin(Side::Client, settings, WINDOW_BYTES, limits, &mut out);
    let request = connection.open(false).map_err(|_| Silent::Ended)?;
    connection.send_fields(request, fields, true, &mut out);
    let (mut seen, mut inbox, mut bytes) = (ProvingAnswer::default(), Vec::new(), [0; 16 << 10]);
    loop {
        stream.write_all(&out).and_then(|()| stream.flush()).map_err(Silent::Send)?;
        out.clear();
        let count = stream.read(&mut bytes).map_err(Silent::Read)?;
        if count == 0 {
            return Err(Silent::Ended);
        }
        inbox.extend_from_slice(&bytes[..count]);
        let mut taken = 0;
        while let Some((event, length)) = connection.receive(&inbox[taken..], &mut out)? {
            taken += length;
            let is_whole = match event {
                Event::Head { head, ends_stream, .. } => {
                    (seen.status, seen.status_line) = (head.status, head.status.to_string());
                    ends_stream
                }
                Event::Data { stream, data, flow_bytes, ends_stream } => {
                    seen.content_bytes += data.len() as u64;
                    connection.release(stream, flow_bytes, &mut out);
                    ends_stream
                }
                Event::Trailers { .. } => true,
                Event::Reset { .. } | Event::Refused(_) => return Err(Silent::Ended),
                _ => false,
            };
            if is_whole {
                return Ok(seen);
            }
        }
        inbox.drain(..taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection on which an answer is ready, whatever is asked.
    struct Ready<'a>(&'a [u8]);

    impl Read for Ready<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(into)
        }
    }

    impl Write for Ready<'_> {
        fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
            Ok(from.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn another_answer_is_told_from_none() {
        let said = |answer: &str| {
            get(&mut Ready(answer.as_bytes()), 1, Expected::of_origin(2)).map_err(|reason| reason.to_string())
        };
        assert_eq!(said("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"), Ok(()));
        let refused = said("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n").unwrap_err();
        insta::assert_snapshot!(refused, @"its answer is not the origin's: 401 Unauthorized");
        let short = said("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\no").unwrap_err();
        insta::assert_snapshot!(short, @"its answer is not the origin's: the body has 1 B instead of 2 B");
        let silent = said("").unwrap_err();
        insta::assert_snapshot!(silent, @"it did not answer within 10 s: the connection ended before an answer came");
    }
}
