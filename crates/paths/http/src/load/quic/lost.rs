//! The ends of connections as failures of their requests.

use plumb_h3::ErrorCode;
use quinn_proto::{ConnectionError, TransportError, TransportErrorCode};

use crate::load::errors::{Failure, alert_name};
use crate::load::http3_error::Http3Error;
use crate::load::quic_error::QuicError;

/// The lowest and the highest code of a TLS alert in QUIC (RFC 9001, section 4.8).
const ALERTS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;

/// The failure of requests on a connection that ended for this reason.
pub fn failure(reason: ConnectionError) -> Failure {
    match reason {
        ConnectionError::VersionMismatch => QuicError::Version.into(),
        ConnectionError::TransportError(TransportError { code, reason, .. })
            if ALERTS.contains(&number(code)) =>
        {
            Failure::Tls(reason.strip_prefix("tls: ").unwrap_or(&reason).to_owned())
        }
        ConnectionError::TransportError(error) => QuicError::Transport(number(error.code)).into(),
        ConnectionError::ConnectionClosed(close) => match number(close.error_code) {
            0 => Failure::ClosedEarly,
            code if ALERTS.contains(&code) => Failure::Alert(alert_name(code as u8)),
            code => QuicError::Transport(code).into(),
        },
        ConnectionError::ApplicationClosed(close) => {
            match ErrorCode::from_number(close.error_code.into_inner()) {
                ErrorCode::NoError => Failure::ClosedEarly,
                code => Http3Error::Closed(code).into(),
            }
        }
        ConnectionError::Reset => QuicError::Reset.into(),
        ConnectionError::TimedOut => QuicError::Idle.into(),
        ConnectionError::LocallyClosed => Failure::ClosedEarly,
        ConnectionError::CidsExhausted => QuicError::Identifiers.into(),
    }
}

fn number(code: TransportErrorCode) -> u64 {
    code.into()
}
