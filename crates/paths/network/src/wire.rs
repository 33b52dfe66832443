//! The parts that both ends share: sockets and their options, the first bytes of a connection, the control protocol, and the bounds
//! of a test.

pub mod batch;
pub mod bounds;
pub mod control;
pub mod datagram;
pub mod hello;
pub mod options;
pub mod socket;
pub mod zero_copy;
