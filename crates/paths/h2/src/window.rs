//! Flow control (RFC 9113, section 5.2): how many bytes of DATA one side may still send.

use crate::error::PeerFault;

/// The largest window.
pub const WINDOW_MAX: u32 = (1 << 31) - 1;

/// A window on the side of the sender. It may be negative after SETTINGS lowered it (section 6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window(i64);

impl Window {
    /// A window of this many bytes.
    #[must_use]
    pub fn new(size: u32) -> Self {
        Self(i64::from(size))
    }

    /// The number of bytes that may be sent now.
    #[must_use]
    pub fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Takes the room of bytes that are sent or arrive.
    ///
    /// # Errors
    ///
    /// When the window has less room; it then stays as it was.
    pub fn take(&mut self, bytes: usize) -> Result<(), PeerFault> {
        if bytes > self.available() {
            return Err(PeerFault::DataBeyondWindow);
        }
        self.0 -= bytes as i64;
        Ok(())
    }

    /// Enlarges the window, after a WINDOW_UPDATE or a change of SETTINGS_INITIAL_WINDOW_SIZE; `by` may be negative.
    ///
    /// # Errors
    ///
    /// When the window would exceed 2^31-1; it then stays as it was.
    pub fn change(&mut self, by: i64) -> Result<(), PeerFault> {
        if self.0 + by > i64::from(WINDOW_MAX) {
            return Err(PeerFault::WindowTooLarge);
        }
        self.0 += by;
        Ok(())
    }
}

/// A window on the side of the receiver, and when it is time to enlarge it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inflow {
    window: Window,
    size: u32,
    /// Bytes that were used up and not yet given back to the peer.
    owed: u32,
    /// Bytes that were given back in `turn`.
    given: u32,
    turn: u32,
}

impl Inflow {
    /// A window of this many bytes, which updates restore.
    #[must_use]
    pub fn new(size: u32) -> Self {
        Self { window: Window::new(size), size, owed: 0, given: 0, turn: 0 }
    }

    /// Counts DATA that arrived.
    ///
    /// # Errors
    ///
    /// When the peer sent more than the window allows.
    pub fn take(&mut self, bytes: usize) -> Result<(), PeerFault> {
        self.window.take(bytes)
    }

    /// Bytes that arrived were used up. Returns the increment for a WINDOW_UPDATE once half of the window is owed: updates for
    /// fewer bytes would cost frames, and later ones would stop the peer. All updates of one `turn` leave together.
    #[must_use]
    pub fn release(&mut self, bytes: usize, turn: u32) -> Option<u32> {
        self.owed = self.owed.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
        if self.owed == 0 || self.owed < self.size / 2 {
            return None;
        }
        let increment = std::mem::take(&mut self.owed).min(WINDOW_MAX);
        // The sum cannot exceed the window that the peer had: it is what arrived before.
        let _ = self.window.change(i64::from(increment));
        if self.turn != turn {
            (self.turn, self.given) = (turn, 0);
        }
        self.given = self.given.saturating_add(increment);
        Some(increment)
    }

    /// Whether the peer may send no more before it learns of the updates of this turn.
    #[must_use]
    pub fn is_used_up(&self, turn: u32) -> bool {
        let given = if self.turn == turn { self.given } else { 0 };
        self.window.0 <= i64::from(given)
    }

    /// Applies this side's SETTINGS_INITIAL_WINDOW_SIZE, which the peer has acknowledged.
    ///
    /// # Errors
    ///
    /// When the window would exceed 2^31-1.
    pub fn resize(&mut self, size: u32) -> Result<(), PeerFault> {
        self.window.change(i64::from(size) - i64::from(self.size))?;
        self.size = size;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_ends_where_it_may_not_go_on() {
        let mut window = Window::new(10);
        assert_eq!(window.take(11), Err(PeerFault::DataBeyondWindow));
        window.take(10).unwrap();
        window.change(-5).unwrap();
        assert_eq!(window.available(), 0);
        assert_eq!(window.take(1), Err(PeerFault::DataBeyondWindow));
        window.take(0).unwrap();
        window.change(6).unwrap();
        assert_eq!(window.available(), 1);
        assert_eq!(window.change(i64::from(WINDOW_MAX)), Err(PeerFault::WindowTooLarge));
        window.change(i64::from(WINDOW_MAX) - 1).unwrap();
        assert_eq!(window.available(), WINDOW_MAX as usize);
    }

    #[test]
    fn a_receiver_gives_back_half_windows() {
        let mut inflow = Inflow::new(100);
        inflow.take(100).unwrap();
        assert_eq!(inflow.take(1), Err(PeerFault::DataBeyondWindow));
        assert_eq!(inflow.release(49, 0), None);
        assert_eq!(inflow.release(1, 0), Some(50));
        assert_eq!(inflow.window.available(), 50);
        inflow.resize(10).unwrap();
        assert_eq!(inflow.window.available(), 0);
        assert_eq!(inflow.release(50, 0), Some(50));
        assert_eq!(inflow.window.available(), 10);
        assert_eq!(Inflow::new(0).release(0, 0), None);
    }

    #[test]
    fn a_window_is_used_up_until_its_update_leaves() {
        let mut inflow = Inflow::new(100);
        inflow.take(60).unwrap();
        assert_eq!((inflow.release(60, 1), inflow.is_used_up(1)), (Some(60), false));
        inflow.take(40).unwrap();
        assert_eq!((inflow.release(40, 1), inflow.is_used_up(1)), (None, true));
        assert!(!inflow.is_used_up(2));
        inflow.take(60).unwrap();
        assert_eq!((inflow.release(60, 2), inflow.is_used_up(2)), (Some(100), true));
        // SETTINGS can leave less than nothing.
        let mut inflow = Inflow::new(100);
        inflow.take(60).unwrap();
        inflow.resize(50).unwrap();
        assert!(inflow.is_used_up(0));
    }
}
