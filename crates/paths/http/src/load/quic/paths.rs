//! The paths of connections, as QUIC knows them, and the sockets at their beginning.

use std::collections::BTreeMap;

use plumb_model::{Histogram, merged};
use plumb_quic::Buffers;
use quinn_proto::PathStats;

use crate::settings::CongestionControl;

merged! {
    /// The paths of connections, each at one moment.
    #[derive(Debug, Default)]
    pub struct Paths {
        /// Smoothed round-trip times.
        pub rtt: Histogram,
        /// The number of connections by the size of the largest datagrams, in bytes.
        pub datagram_bytes_max: BTreeMap<u16, u64>,
        /// The number of connections by the controller that they have.
        pub controls: BTreeMap<CongestionControl, u64>,
        /// The number of sockets by the size of the buffer for datagrams that arrive, in bytes.
        pub receive_buffers: BTreeMap<u64, u64>,
        /// The same of datagrams that leave.
        pub send_buffers: BTreeMap<u64, u64>,
    }
}

impl Paths {
    /// Adds the path of a connection that has had acknowledgements, with the buffers of its socket if no other connection has it.
    pub fn note(&mut self, path: &PathStats, control: Option<CongestionControl>, buffers: Option<Buffers>) {
        self.rtt.record(u64::try_from(path.rtt.as_nanos()).unwrap_or(u64::MAX));
        *self.datagram_bytes_max.entry(path.current_mtu).or_default() += 1;
        if let Some(control) = control {
            *self.controls.entry(control).or_default() += 1;
        }
        if let Some(buffers) = buffers {
            self.note_socket(buffers);
        }
    }

    /// Adds a socket.
    pub fn note_socket(&mut self, buffers: Buffers) {
        *self.receive_buffers.entry(buffers.receive.0).or_default() += 1;
        *self.send_buffers.entry(buffers.send.0).or_default() += 1;
    }
}
