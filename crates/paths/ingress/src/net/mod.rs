//! Building blocks of the event loops of origin and ingress: sockets, buffers, and a slab of connections.

mod buffer;
mod listener;
mod slab;
mod socket;
mod thread;

pub(crate) use buffer::{BUFFER_BYTES, Buffer, Pool};
pub(crate) use listener::Listener;
pub(crate) use slab::{Key, Slab};
pub(crate) use socket::{Received, Sent, connect, read, write, write_all_of};
pub(crate) use thread::{LoopThread, Signals};
