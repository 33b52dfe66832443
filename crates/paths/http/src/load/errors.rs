//! Why a request fails, by kind: the text of a [`Failure`] is the key under which failures are counted.
//!
//! Kinds are few by construction. Nothing that a server can choose freely (a header, a reason phrase) becomes part
//! of one, so that a broken server cannot grow the table of errors without bound.

use openssl::error::ErrorStack;
use plumb_path::PathError;
use rustix::io::Errno;

use super::http2_error::Http2Error;
use super::http3_error::Http3Error;
use super::parse_error::ParseError;
use super::quic_error::QuicError;
use crate::settings::Spoken;

/// The advice that ends every message about a refused certificate.
pub const ACCEPT_ANY: &str = "accept any certificate with --insecure (load.insecure)";

/// Why a load cannot offer the TLS that it is asked for. Completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// No certificate can be for that name.
    #[error("use `{_0}` as a server's name: it is not a valid name")]
    ServerName(String),
    /// rustls refuses the versions.
    #[error("offer these TLS versions: {_0}")]
    Versions(rustls::Error),
    /// A part of the file of the client certificate is not PEM.
    #[error("read the {part}: {cause}")]
    Pem {
        /// The part.
        part: &'static str,
        /// Why.
        cause: rustls::pki_types::pem::Error,
    },
    /// rustls refuses the key.
    #[error("use the key of the client certificate: {_0}")]
    Key(rustls::Error),
    /// The key is that of another certificate.
    #[error("use the client certificate: its first certificate does not match its key")]
    OtherKey,
    /// The file holds no certificate.
    #[error("use the client certificate: the file has no certificate that OpenSSL reads")]
    NoCertificate,
    /// The trusted certificate is not PEM.
    #[error("read the trusted certificate (--ca, `load.ca`): {_0}")]
    Authority(ErrorStack),
    /// The host trusts no certificate.
    #[error(
        "find a trusted certificate; install `ca-certificates`, name a PEM file with --ca (load.ca), or {ACCEPT_ANY}"
    )]
    TrustsNone,
    /// OpenSSL refuses the trusted certificates.
    #[error("trust these certificates for `{name}`: {cause}")]
    Trust {
        /// The name of the server.
        name: String,
        /// Why.
        cause: ErrorStack,
    },
    /// OpenSSL refuses the settings.
    #[error("set up OpenSSL: {_0}")]
    OpenSsl(ErrorStack),
}

impl From<OfferError> for PathError {
    fn from(error: OfferError) -> Self {
        Self::new(error)
    }
}

/// Why a request failed. The text is what people read and count by.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nobody listens there.
    #[error("connection refused")]
    Refused,
    /// The other side, or something between, broke the connection off.
    #[error("connection reset")]
    Reset,
    /// No address and port of this host is left for one more connection.
    #[error("no free local port")]
    NoLocalPort,
    /// No connection within the request's timeout.
    #[error("connect timeout")]
    ConnectTimeout,
    /// A connection, but no handshake within the request's timeout.
    #[error("tls timeout")]
    TlsTimeout,
    /// No complete answer within the request's timeout.
    #[error("request timeout")]
    RequestTimeout,
    /// The connection ended before the answer did.
    #[error("closed early")]
    ClosedEarly,
    /// Due in the window of an open loop, and not answered when the grace period after it ended.
    #[error("unfinished")]
    Unfinished,
    /// The server refused with an alert, by its name in RFC 8446, appendix B.2.
    #[error("tls alert: {0}{remedy}", remedy = alert_remedy(.0))]
    Alert(&'static str),
    /// TLS failed on this side.
    #[error("tls: {0}")]
    Tls(String),
    /// The two sides agreed on a protocol that the load does not speak.
    #[error("tls: {}", other_protocol(*.0))]
    OtherProtocol(Spoken),
    /// The server chose the protocol of the load, and on this connection another one.
    #[error("tls: the server did not choose {}, with which the load began; set --protocol (load.protocol)", name(*.0))]
    OtherThanAtFirst(Spoken),
    /// The answer is not HTTP/1.
    #[error("http parse: {0}")]
    Parse(#[from] ParseError),
    /// HTTP/2 ended the request or its connection.
    #[error("http/2: {0}")]
    Http2(#[from] Http2Error),
    /// HTTP/3 ended the request or its connection.
    #[error("http/3: {0}")]
    Http3(#[from] Http3Error),
    /// QUIC ended the connection.
    #[error("quic: {0}")]
    Quic(#[from] QuicError),
    /// The kernel refused otherwise, by the name of the error.
    #[error("network: {0}")]
    Network(String),
}

impl Failure {
    /// Whether the request was refused, which says nothing about how long an answer takes. All other failures are waits.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Refused
            | Self::NoLocalPort
            | Self::Alert(_)
            | Self::Tls(_)
            | Self::OtherProtocol(_)
            | Self::OtherThanAtFirst(_)
            | Self::Http2(_)
            | Self::Http3(_)
            | Self::Parse(_)
            | Self::Network(_) => true,
            Self::Reset
            | Self::ConnectTimeout
            | Self::TlsTimeout
            | Self::RequestTimeout
            | Self::ClosedEarly
            | Self::Quic(_)
            | Self::Unfinished => false,
        }
    }

    /// Whether a request would fail in the same way at any other time: the two sides do not agree on TLS or on a protocol.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        match self {
            Self::Tls(_)
            | Self::OtherProtocol(_)
            | Self::Parse(ParseError::OtherProtocol)
            | Self::Http2(Http2Error::OtherProtocol)
            | Self::Quic(QuicError::Version) => true,
            // These may come from a server that is overloaded or restarts.
            Self::Alert(name) => {
                !["close_notify", "internal_error", "user_canceled", "unknown"].contains(name)
            }
            _ => false,
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Errno::from_io_error(&error)
            .map_or_else(|| Self::Network(error.to_string().to_lowercase()), Self::from)
    }
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        match error {
            Errno::CONNREFUSED => Self::Refused,
            Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED => Self::Reset,
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Self::NoLocalPort,
            Errno::TIMEDOUT => Self::ConnectTimeout,
            Errno::HOSTUNREACH => Self::Network("host unreachable".to_owned()),
            Errno::NETUNREACH => Self::Network("network unreachable".to_owned()),
            Errno::MFILE | Errno::NFILE => Self::Network("too many open files".to_owned()),
            other => Self::Network(std::io::Error::from(other).to_string().to_lowercase()),
        }
    }
}

fn other_protocol(spoken: Spoken) -> &'static str {
    match spoken {
        Spoken::H1 => {
            "the server chose a protocol other than HTTP/1.1; offer only `http/1.1`, or set --protocol h2 (load.protocol)"
        }
        Spoken::H2 => "the server did not choose HTTP/2; measure HTTP/1.1 with --protocol h1 (load.protocol)",
        Spoken::H3 => "the server did not choose HTTP/3; measure HTTP/2 with --protocol h2 (load.protocol)",
    }
}

fn name(spoken: Spoken) -> &'static str {
    match spoken {
        Spoken::H1 => "HTTP/1.1",
        Spoken::H2 => "HTTP/2",
        Spoken::H3 => "HTTP/3",
    }
}

/// The settings of the load that a server may mean by an alert, as they follow its name.
fn alert_remedy(name: &str) -> &'static str {
    match name {
        "handshake_failure" | "insufficient_security" => {
            "; check --group, --cipher and --tls (load.group, load.cipher, load.tls)"
        }
        "protocol_version" => "; check --tls (load.tls)",
        "no_application_protocol" => "; check --protocol and --alpn (load.protocol, load.alpn)",
        "certificate_required" => "; name one with --client-certificate (load.client_certificate)",
        "unrecognized_name" => "; check --sni (load.sni)",
        _ => "",
    }
}

/// The name of a TLS alert by its number (RFC 8446, appendix B.2, with the older ones of RFC 5246).
#[must_use]
pub fn alert_name(number: u8) -> &'static str {
    match number {
        0 => "close_notify",
        10 => "unexpected_message",
        20 => "bad_record_mac",
        21 => "decryption_failed",
        22 => "record_overflow",
        30 => "decompression_failure",
        40 => "handshake_failure",
        41 => "no_certificate",
        42 => "bad_certificate",
        43 => "unsupported_certificate",
        44 => "certificate_revoked",
        45 => "certificate_expired",
        46 => "certificate_unknown",
        47 => "illegal_parameter",
        48 => "unknown_ca",
        49 => "access_denied",
        50 => "decode_error",
        51 => "decrypt_error",
        60 => "export_restriction",
        70 => "protocol_version",
        71 => "insufficient_security",
        80 => "internal_error",
        86 => "inappropriate_fallback",
        90 => "user_canceled",
        100 => "no_renegotiation",
        109 => "missing_extension",
        110 => "unsupported_extension",
        112 => "unrecognized_name",
        113 => "bad_certificate_status_response",
        115 => "unknown_psk_identity",
        116 => "certificate_required",
        120 => "no_application_protocol",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_read_as_people_say_them() {
        let kinds = [
            Failure::from(Errno::CONNREFUSED),
            Failure::from(Errno::PIPE),
            Failure::from(Errno::ADDRNOTAVAIL),
            Failure::from(Errno::HOSTUNREACH),
            Failure::from(Errno::ACCESS),
            Failure::Alert(alert_name(40)),
            Failure::Tls("certificate not trusted".to_owned()),
            Failure::from(ParseError::ChunkSize),
        ];
        let texts: Vec<String> = kinds.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(texts.join("\n"), @r"
        connection refused
        connection reset
        no free local port
        network: host unreachable
        network: permission denied (os error 13)
        tls alert: handshake_failure; check --group, --cipher and --tls (load.group, load.cipher, load.tls)
        tls: certificate not trusted
        http parse: a chunk's size is not a hexadecimal number
        ");
    }
}
