//! The paths of connections, as QUIC knows them.

use std::collections::BTreeMap;

use plumb_model::{Histogram, merged};
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
    }
}

impl Paths {
    /// Adds the path of a connection that has had acknowledgements.
    pub fn note(&mut self, path: &PathStats, control: Option<CongestionControl>) {
        self.rtt.record(u64::try_from(path.rtt.as_nanos()).unwrap_or(u64::MAX));
        *self.datagram_bytes_max.entry(path.current_mtu).or_default() += 1;
        if let Some(control) = control {
            *self.controls.entry(control).or_default() += 1;
        }
    }
}
