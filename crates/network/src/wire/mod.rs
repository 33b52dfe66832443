//! What both ends share: sockets and their options, the first bytes of a connection, and the control protocol.

pub mod batch;
pub mod control;
pub mod datagram;
pub mod hello;
pub mod options;
pub mod socket;
pub mod tcp_info;
