//! Requests to the kernel's routing netlink. Each waits for its answer.
//!
//! A library has the messages. Its asynchronous companion (`rtnetlink`) would bring a runtime for a few dozen requests in a row.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_ECHO, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// A socket to the kernel, in the namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Asks the kernel for a change.
    pub(crate) fn act(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.send(message, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        self.answer().map(drop)
    }

    /// Asks for one object.
    pub(crate) fn ask(&mut self, message: RouteNetlinkMessage) -> io::Result<RouteNetlinkMessage> {
        self.send(message, NLM_F_REQUEST)?;
        self.answer()?.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Asks for one object, which may not exist; the kernel then only says that it is done. Traffic control sends the object to
    /// listeners, and to the process that asks only with `NLM_F_ECHO`.
    pub(crate) fn find(&mut self, message: RouteNetlinkMessage) -> io::Result<Option<RouteNetlinkMessage>> {
        self.send(message, NLM_F_REQUEST | NLM_F_ACK | NLM_F_ECHO)?;
        self.answer()
    }

    /// Asks for all objects of a kind.
    pub(crate) fn list(&mut self, message: RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.send(message, NLM_F_REQUEST | NLM_F_DUMP)?;
        let mut all = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = &bytes[..];
            // Several messages come at a time, each aligned to four bytes.
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
                let length = (message.header.length as usize).next_multiple_of(4).clamp(4, rest.len().max(4));
                rest = rest.get(length..).unwrap_or_default();
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::InnerMessage(inner) => all.push(inner),
                    NetlinkPayload::Done(_) => return Ok(all),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    _ => {}
                }
            }
        }
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// The answer to the last request: the object, or `None` for "done".
    fn answer(&mut self) -> io::Result<Option<RouteNetlinkMessage>> {
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            // Answers to an abandoned request have another number.
            if message.header.sequence_number != self.sequence {
                continue;
            }
            return match message.payload {
                NetlinkPayload::Error(error) if error.code.is_none() => Ok(None),
                NetlinkPayload::Error(error) => Err(error.to_io()),
                NetlinkPayload::InnerMessage(inner) => Ok(Some(inner)),
                _ => Ok(None),
            };
        }
    }
}

/// Adds one attribute: length, type, value, padding (include/uapi/linux/netlink.h).
pub(super) fn attribute(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let length = u16::try_from(value.len() + 4).unwrap_or(u16::MAX);
    bytes.extend(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}
