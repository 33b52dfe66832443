//! Building blocks of the event loops of origin and ingress: sockets, buffers, and a slab of connections.

mod buffer;
mod datagrams;
mod listener;
mod slab;
mod socket;
mod thread;

pub(crate) use buffer::{BUFFER_BYTES, Buffer, Pool};
pub(crate) use datagrams::datagram_socket;
pub(crate) use listener::Listener;
pub(crate) use slab::{Key, Slab};
pub(crate) use socket::{Received, Sent, connect, read_once, write_all_of, write_once};
pub(crate) use thread::{LoopThread, Signals};
