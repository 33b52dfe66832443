//! Failures before and while a network is measured. Messages complete "failed to …".

use std::io;

use plumb_model::Span;
use plumb_path::{PathError, SettingsFault};

use crate::wire::socket::ConnectError;

/// A network that cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name leads to no address.
    #[error(transparent)]
    Resolve(plumb_host::Error),
    /// Nobody answers.
    #[error("connect to {address}: {}", connect_words(.cause))]
    Connect {
        /// The server.
        address: String,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The peer that answers is not a server of plumb.
    #[error("talk to {address}: {what}")]
    Stranger {
        /// The server.
        address: String,
        /// The answer that shows it.
        what: String,
    },
    /// Flows of datagrams do not get through.
    #[error("reach {address} by UDP: no answer within {seconds} s; is the UDP port open on the way?")]
    NoDatagrams {
        /// The server.
        address: String,
        /// How long was waited.
        seconds: u64,
    },
    /// The server said no.
    #[error("measure with {address}: the server failed to {reason}")]
    Refused {
        /// The server.
        address: String,
        /// The reason.
        reason: String,
        /// Whether something else has to be asked for.
        is_usage: bool,
    },
    /// The server is gone.
    #[error("measure: the server at {address} went away in the middle of {test}")]
    Gone {
        /// The server.
        address: String,
        /// The test.
        test: &'static str,
    },
    /// The server says nothing any more.
    #[error("measure: the server at {address} has said nothing for {silence} in the middle of {test}")]
    Silent {
        /// The server.
        address: String,
        /// The test.
        test: &'static str,
        /// How long.
        silence: Span,
    },
    /// The watching thread had no CPU while its flows ran.
    #[error(
        "measure {test}: its flows kept the thread that reads counters off the CPUs for the whole window; use a real-time priority of \
         2 or more (`chrt -f 2`), or none"
    )]
    Starved {
        /// The test.
        test: &'static str,
    },
    /// A test was not ready when it had to start on every host.
    #[error(
        "measure {test}: its flows were not connected when it was to start at the same moment on every host"
    )]
    Late {
        /// The test.
        test: &'static str,
    },
    /// This end's socket does not take an option.
    #[error("{message}")]
    Option {
        /// What, and why.
        message: String,
        /// Whether something else has to be asked for.
        is_usage: bool,
    },
    /// This host failed.
    #[error(transparent)]
    Host(#[from] plumb_host::Error),
    /// The flows' threads failed.
    #[error(transparent)]
    Drive(#[from] PathError),
    /// The kernel failed in something else.
    #[error("{what}: {cause}")]
    System {
        /// The attempted action.
        what: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A setting is wrong by itself.
    #[error("build the load: {0}")]
    Setting(#[from] SettingsFault),
}

impl Error {
    /// Whether the user has to ask for something else: a name that exists, another option, or with more rights. A peer that
    /// refuses, keeps silent or is something else may be all right the next minute, so that is a failure and no wrong usage.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Setting(_) | Self::Host(_) => true,
            Self::Resolve(_) | Self::Connect { .. } | Self::Stranger { .. } | Self::NoDatagrams { .. } => {
                false
            }
            Self::Refused { is_usage, .. } | Self::Option { is_usage, .. } => *is_usage,
            Self::Gone { .. } | Self::Silent { .. } | Self::Starved { .. } | Self::Late { .. } => false,
            Self::Drive(_) | Self::System { .. } => false,
        }
    }

    pub(super) fn connect(address: &str, error: ConnectError) -> Self {
        match error {
            ConnectError::Io(cause) => Self::Connect { address: address.to_owned(), cause },
            ConnectError::Option(error) => {
                Self::Option { is_usage: error.is_usage, message: error.to_string() }
            }
        }
    }
}

fn connect_words(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there; start `plumb network serve` at that end, or name its port".to_owned()
        }
        io::ErrorKind::TimedOut => {
            "no answer; the address is wrong, the host is down, or something on the way drops packets"
                .to_owned()
        }
        _ => cause.to_string(),
    }
}

impl From<Error> for PathError {
    fn from(error: Error) -> Self {
        match error {
            Error::Drive(error) => error,
            Error::Starved { .. } | Error::Late { .. } | Error::Host(_) | Error::System { .. } => {
                Self::load(error)
            }
            error if error.is_usage() => Self::usage(error),
            _ => Self::new(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_that_starves_its_own_watcher_does_not_blame_the_system() {
        use plumb_model::FailureCause;

        let cause = |error: Error| PathError::from(error).cause();
        assert_eq!(cause(Error::Starved { test: "udp_bw" }), FailureCause::Harness);
        assert_eq!(cause(Error::Gone { address: String::new(), test: "udp_bw" }), FailureCause::System);
    }
}
