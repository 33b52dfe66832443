//! Counts frames that cost the receiver work and carry no message. It needs no clock.

use super::event::Limits;
use crate::error::{Error, PeerFault};
use crate::frame::FrameKind;

#[derive(Debug, Default)]
pub(super) struct Flood {
    idle_frames: u32,
    resets: u32,
}

impl Flood {
    /// Counts a frame that carries no part of a message.
    pub(super) fn idle(&mut self, kind: FrameKind, limits: &Limits) -> Result<(), Error> {
        self.idle_frames += 1;
        if self.idle_frames > limits.idle_frames_max {
            return Err(PeerFault::Flood(kind).on_connection());
        }
        Ok(())
    }

    /// Begins to count again, because one side sent a part of a message.
    pub(super) fn progress(&mut self) {
        self.idle_frames = 0;
    }

    /// Counts a request that was cut short, by the client or because of it. Work for it may have begun (CVE-2023-44487, CVE-2025-8671).
    pub(super) fn reset(&mut self, limits: &Limits) -> Result<(), Error> {
        self.resets += 1;
        if self.resets > limits.resets_max {
            return Err(PeerFault::Flood(FrameKind::RstStream).on_connection());
        }
        Ok(())
    }

    /// Counts a request that was answered in full.
    pub(super) fn completed(&mut self) {
        self.resets = self.resets.saturating_sub(1);
    }
}
