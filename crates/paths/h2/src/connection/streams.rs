//! The open streams, and the ids of those that this side ended (RFC 9113, section 5.1).

use std::collections::VecDeque;

use crate::error::PeerFault;
use crate::message::Content;
use crate::window::{Inflow, Window};

/// The number of streams ended by this side that are remembered.
const RESET_MAX: usize = 256;

/// The progress of the peer's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Receiving {
    /// The fields are still to come.
    Head,
    /// Content or trailers are to come.
    Body,
    /// The message is complete.
    Ended,
}

/// A stream that is open on at least one side.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) outflow: Window,
    pub(super) inflow: Inflow,
    pub(super) receiving: Receiving,
    /// Whether this side has sent all of its message.
    pub(super) has_sent: bool,
    /// The content of the peer's message.
    pub(super) content: Content,
    /// Whether the response answers HEAD, and so has no content whatever length it states.
    pub(super) to_head: bool,
}

impl Stream {
    /// Counts content that arrived.
    ///
    /// # Errors
    ///
    /// When it exceeds the window or the stated length, or ends before that length.
    pub(super) fn take_content(
        &mut self,
        bytes: usize,
        flow_bytes: usize,
        ends: bool,
    ) -> Result<(), PeerFault> {
        self.inflow.take(flow_bytes)?;
        self.content.take(bytes as u64)?;
        if ends {
            self.content.end()?;
        }
        Ok(())
    }
}

/// All streams of a connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// The open streams, in the order of their ids. They are few, and most frames concern the oldest or the youngest.
    open: VecDeque<Stream>,
    /// The last streams that this side ended: the peer may have sent more on them before it knew.
    reset: VecDeque<u32>,
    /// The highest id that has been dropped from `reset`.
    forgotten: u32,
    /// Ids that the peer skipped when it opened streams, and can never use.
    skipped: (u32, u32),
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        let at = self.open.binary_search_by_key(&id, |stream| stream.id).ok()?;
        self.open.get_mut(at)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.open.iter_mut()
    }

    /// Adds a stream with a higher id than all others.
    pub(super) fn push(&mut self, stream: Stream) {
        self.open.push_back(stream);
    }

    pub(super) fn remove(&mut self, id: u32) -> bool {
        let at = self.open.binary_search_by_key(&id, |stream| stream.id);
        at.is_ok_and(|at| self.open.remove(at).is_some())
    }

    /// Ends the streams above an id.
    pub(super) fn remove_above(&mut self, id: u32) {
        self.open.retain(|stream| stream.id <= id);
    }

    /// Notes that this side ended a stream.
    pub(super) fn note_reset(&mut self, id: u32) {
        if self.reset.len() == RESET_MAX {
            self.forgotten = self.forgotten.max(self.reset.pop_front().unwrap_or(0));
        }
        self.reset.push_back(id);
    }

    /// Whether this side ended a stream, or may have. Frames that arrive on such a stream are dropped.
    pub(super) fn may_be_reset(&self, id: u32) -> bool {
        id <= self.forgotten || self.reset.contains(&id)
    }

    /// Notes that the peer opens stream `id` and that its last one was `last`.
    pub(super) fn note_opened(&mut self, last: u32, id: u32) {
        if id > last + 2 {
            self.skipped = (last + 1, id - 1);
        }
    }

    pub(super) fn is_skipped(&self, id: u32) -> bool {
        (self.skipped.0..=self.skipped.1).contains(&id)
    }
}
