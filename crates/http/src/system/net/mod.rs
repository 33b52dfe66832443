//! What the event loops of origin and ingress are made of: epoll, sockets, buffers, and a slab of connections.

mod buffer;
mod listener;
mod poller;
mod slab;
mod socket;
mod thread;

pub(super) use buffer::{BUFFER_BYTES, Buffer, Pool};
pub(super) use listener::Listener;
pub(super) use poller::{Event, Poller, Waker};
pub(super) use slab::{Key, Slab};
pub(super) use socket::{Received, Sent, connect, read, write, write_all_of};
pub(super) use thread::{LoopThread, Signals};
