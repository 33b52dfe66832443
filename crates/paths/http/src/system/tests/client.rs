//! A blocking client that says what it is told to, and reads one answer after the other.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use plumb_host::tcp_info::TcpInfo;
use plumb_ingress::Answers;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ProtocolVersion, StreamOwned};

use crate::settings::Spoken;
use crate::system::readiness::client_config;
use crate::target::Target;

const PATIENCE: Duration = Duration::from_secs(20);

/// The certificates that a client trusts, and the sessions that it remembers.
#[derive(Clone)]
pub(super) struct Trust(Option<Arc<ClientConfig>>);

impl Trust {
    pub(super) fn in_target(target: &Target) -> Self {
        Self(target.ca_pem.as_deref().map(|ca_pem| client_config(ca_pem, Spoken::H1).unwrap()))
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

/// A connection to a system.
pub(super) struct Client {
    stream: Stream,
    answers: Answers,
}

impl Client {
    pub(super) fn connect(url: &str, trust: &Trust) -> Self {
        let authority = url.split('/').nth(2).unwrap();
        let port = authority.split(':').nth(1).unwrap().parse().unwrap();
        let tcp = TcpStream::connect(("127.0.0.1", port)).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        tcp.set_nodelay(true).unwrap();
        let stream = match &trust.0 {
            None => Stream::Plain(tcp),
            Some(config) => {
                let name = ServerName::try_from("localhost").unwrap();
                let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
                Stream::Tls(Box::new(StreamOwned::new(connection, tcp)))
            }
        };
        Self { stream, answers: Answers::default() }
    }

    pub(super) fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(tls) => tls.get_ref(),
        }
    }

    /// How many segments with data came so far. On the loopback device, each write of less than 32 KiB on the other side is one
    /// segment.
    pub(super) fn segments(&self) -> u32 {
        TcpInfo::of_socket(self.tcp()).unwrap().data_segments_received().unwrap()
    }

    pub(super) fn handshake(&self) -> Option<HandshakeKind> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Tls(tls) => tls.conn.handshake_kind(),
        }
    }

    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        match &self.stream {
            Stream::Plain(_) => None,
            Stream::Tls(tls) => tls.conn.protocol_version(),
        }
    }

    /// Sends the first bytes of a handshake, and waits for nothing.
    pub(super) fn begin_handshake(mut self) {
        if let Stream::Tls(tls) = &mut self.stream {
            tls.conn.write_tls(&mut tls.sock).unwrap();
        }
    }

    pub(super) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        match &mut self.stream {
            Stream::Plain(tcp) => {
                if let Err(error) = tcp.write_all(bytes.as_ref()) {
                    let mut said = Vec::new();
                    let _ = tcp.read_to_end(&mut said);
                    panic!("{error}; the server had said {:?}", String::from_utf8_lossy(&said));
                }
            }
            Stream::Tls(tls) => {
                tls.write_all(bytes.as_ref()).unwrap();
                tls.flush().unwrap();
            }
        }
    }

    pub(super) fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        self.answer()
    }

    /// The next answer to anything but HEAD.
    pub(super) fn answer(&mut self) -> Answer {
        self.answer_to(false)
    }

    pub(super) fn answer_to_head(&mut self) -> Answer {
        self.answer_to(true)
    }

    fn answer_to(&mut self, is_head: bool) -> Answer {
        let mut body = Vec::new();
        let content = |piece: &[u8]| body.extend_from_slice(piece);
        let answer = match &mut self.stream {
            Stream::Plain(tcp) => self.answers.read_answer(tcp, is_head, content),
            Stream::Tls(tls) => self.answers.read_answer(tls, is_head, content),
        };
        let answer = answer.unwrap().filter(|answer| answer.is_whole).expect("the answer is cut off");
        Answer { status: answer.status, head: answer.head, body }
    }

    /// Whether the other side has ended the connection and said nothing more.
    pub(super) fn is_ended(&mut self) -> bool {
        match &mut self.stream {
            Stream::Plain(tcp) => self.answers.are_over(tcp).unwrap(),
            Stream::Tls(tls) => self.answers.are_over(tls).unwrap(),
        }
    }
}
