//! Counts of a QUIC connection's datagrams.

use plumb_model::merged;

merged! {
    /// Counts of a QUIC connection's datagrams.
    #[derive(Debug, Default, Clone, Copy)]
    pub struct DatagramCounts {
        /// Handed to the kernel.
        pub sent: u64,
        /// Taken from the kernel.
        pub received: u64,
        /// The calls that took them to the kernel. One takes several in segments (UDP_SEGMENT).
        pub send_calls: u64,
        /// The calls that took them from the kernel. One takes several in segments (UDP_GRO).
        pub receive_calls: u64,
        /// Packets that this side sent and takes for lost.
        pub lost: u64,
        /// Dropped by the kernel, because the socket's buffer was full.
        pub dropped: u64,
        /// Times that losses were found, or marks of congestion (ECN).
        pub congestion_events: u64,
        /// Times that the path no longer carried datagrams as large as it had before.
        pub black_holes: u64,
        /// Times that the peer said that this side's window of the connection held it back (DATA_BLOCKED).
        pub data_blocked: u64,
        /// The same of the window of a stream (STREAM_DATA_BLOCKED).
        pub stream_data_blocked: u64,
    }
}

impl DatagramCounts {
    /// The counts since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent - before.sent,
            received: self.received - before.received,
            send_calls: self.send_calls - before.send_calls,
            receive_calls: self.receive_calls - before.receive_calls,
            lost: self.lost - before.lost,
            dropped: self.dropped - before.dropped,
            congestion_events: self.congestion_events - before.congestion_events,
            black_holes: self.black_holes - before.black_holes,
            data_blocked: self.data_blocked - before.data_blocked,
            stream_data_blocked: self.stream_data_blocked - before.stream_data_blocked,
        }
    }
}
