//! One stream of HTTP/2: how far its request and its answer are.

use plumb_h2::hpack::Field;
use plumb_h2::{Fault, Inflow, Window};

use super::error::Http2Error;
use crate::load::content::{Content, Label};

/// This side's window for a stream and for a connection. It is as large as h2load's, so that the load does not limit the server.
pub const WINDOW_BYTES: u32 = (1 << 30) - 1;

/// A stream.
#[derive(Debug)]
pub struct Exchange {
    /// 0 as long as the request waits for its turn.
    pub id: u32,
    /// Bytes of the request's body that were queued for sending.
    pub body_sent: usize,
    /// How much of the body the server takes now.
    pub window: Window,
    /// How much of the answer's body this side takes now.
    pub inflow: Inflow,
    /// What the answer's fields say, once they are there.
    pub head: Option<Head>,
    /// The answer's body so far.
    pub body_bytes: u64,
}

/// What the fields of an answer say.
#[derive(Debug, Clone, Copy, Default)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The body's content.
    pub content: Content,
    /// The body's length.
    pub length: Option<u64>,
    has_regular: bool,
}

impl Exchange {
    /// A stream that is not open yet.
    #[must_use]
    pub fn new() -> Self {
        let inflow = Inflow::new(WINDOW_BYTES);
        Self { id: 0, body_sent: 0, window: Window::new(0), inflow, head: None, body_bytes: 0 }
    }

    /// Whether the answer's body has the length that its fields gave.
    ///
    /// # Errors
    /// When it has another.
    pub fn check_length(&self, is_head: bool) -> Result<(), Http2Error> {
        let given = self.head.filter(|head| !is_head && head.status != 304).and_then(|head| head.length);
        if given.is_none_or(|length| length == self.body_bytes) {
            return Ok(());
        }
        Err(Http2Error::Illegal(Fault::BodyLength))
    }
}

impl Head {
    /// Takes a field of an answer.
    ///
    /// # Errors
    /// When an answer cannot have it (RFC 9113, section 8).
    pub fn take(&mut self, field: Field<'_>) -> Result<(), Http2Error> {
        let illegal = |fault| Err(Http2Error::Illegal(fault));
        match field.name {
            b":status" if self.has_regular => return illegal(Fault::PseudoLate),
            b":status" if self.status != 0 => return illegal(Fault::PseudoTwice),
            b":status" => return self.take_status(field.value),
            [b':', ..] => return illegal(Fault::PseudoUnknown),
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                return illegal(Fault::ConnectionField);
            }
            name if name.iter().any(u8::is_ascii_uppercase) => return illegal(Fault::UpperCaseName),
            b"content-type" => self.content.media_type = Label::of(field.value),
            b"content-encoding" => self.content.coding = Label::of(field.value),
            b"content-length" => {
                let text = std::str::from_utf8(field.value).ok();
                let length = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
                match length.and_then(|text| text.parse().ok()) {
                    Some(length) if self.length.is_none_or(|other| other == length) => {
                        self.length = Some(length);
                    }
                    _ => return illegal(Fault::ContentLength),
                }
            }
            _ => {}
        }
        self.has_regular = true;
        Ok(())
    }

    fn take_status(&mut self, value: &[u8]) -> Result<(), Http2Error> {
        let [hundreds @ b'1'..=b'9', tens @ b'0'..=b'9', ones @ b'0'..=b'9'] = value else {
            return Err(Http2Error::Status);
        };
        let digit = |byte: &u8| u16::from(byte - b'0');
        self.status = 100 * digit(hundreds) + 10 * digit(tens) + digit(ones);
        Ok(())
    }
}
