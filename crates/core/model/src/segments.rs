//! Signs of loss on the load's TCP connections, which stand beside the reasons why requests waited.
//!
//! They are part of the model because the load that counts them and the report that shows them do not know each other.

use crate::{Better, Metric, MetricKind, Unit};

/// Segments of the load's connections that did not pass at once and in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segments {
    /// The load sent them again.
    Retransmitted,
    /// They reached the load out of order.
    OutOfOrder,
}

impl Segments {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 2] = [Self::Retransmitted, Self::OutOfOrder];

    /// The number of these segments in a window.
    #[must_use]
    pub const fn metric(self) -> Metric {
        let (name, about) = match self {
            Self::Retransmitted => (
                "segments_retransmitted",
                "segments that the load sent again within the window, on all its connections (TCP_INFO)",
            ),
            Self::OutOfOrder => (
                "segments_out_of_order",
                "segments that reached the load out of order within the window, on all its connections (TCP_INFO)",
            ),
        };
        Metric { name, unit: Unit::Count, better: Better::Lower, kind: MetricKind::Count, about }
    }
}
