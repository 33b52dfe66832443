//! The kinds of unidirectional streams (RFC 9114, section 6.2; RFC 9204, section 4.2).

use std::fmt;

use crate::varint;

/// The kinds of unidirectional streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamKind {
    /// The control stream.
    Control,
    /// A push stream.
    Push,
    /// The stream with which a QPACK encoder fills the other side's table.
    QpackEncoder,
    /// The stream with which a QPACK decoder answers.
    QpackDecoder,
    /// A kind that the RFCs do not define, which is ignored.
    Unknown(u64),
}

impl StreamKind {
    const ALL: [Self; 4] = [Self::Control, Self::Push, Self::QpackEncoder, Self::QpackDecoder];

    /// The kind with a number from the wire.
    #[must_use]
    pub fn from_number(number: u64) -> Self {
        let at = usize::try_from(number).ok();
        at.and_then(|at| Self::ALL.get(at)).copied().unwrap_or(Self::Unknown(number))
    }

    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Unknown(number) => number,
            known => Self::ALL.iter().position(|&kind| kind == known).map_or(0, |at| at as u64),
        }
    }

    /// Writes the kind, with which a stream begins.
    pub fn encode(self, out: &mut Vec<u8>) {
        varint::encode(self.number(), out);
    }
}

impl fmt::Display for StreamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Control => "control",
            Self::Push => "push",
            Self::QpackEncoder => "QPACK encoder",
            Self::QpackDecoder => "QPACK decoder",
            Self::Unknown(number) => return write!(f, "unknown ({number})"),
        })
    }
}
