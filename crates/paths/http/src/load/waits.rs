//! The waits of a request before and while it is sent.

use plumb_model::Wait;

/// The times that a request has waited, by reason.
#[derive(Debug, Clone, Copy, Default)]
pub struct Waits {
    ns: [u64; Wait::ALL.len()],
    present: Option<(Wait, u64)>,
}

impl Waits {
    /// The request waits from now on. A wait for something else ends.
    pub fn begin(&mut self, wait: Wait, now_ns: u64) {
        if self.present.is_none_or(|(present, _)| present != wait) {
            self.end(now_ns);
            self.present = Some((wait, now_ns));
        }
    }

    /// The request does not wait any more.
    pub fn end(&mut self, now_ns: u64) {
        if let Some((wait, since_ns)) = self.present.take() {
            self.add(wait, now_ns.saturating_sub(since_ns));
        }
    }

    /// Adds a wait that is over.
    pub fn add(&mut self, wait: Wait, wait_ns: u64) {
        self.ns[wait as usize] += wait_ns;
    }

    /// Whether the request did not wait at all, as is usual.
    #[must_use]
    pub fn are_none(&self) -> bool {
        self.ns.iter().fold(0, |all, ns| all | ns) == 0
    }

    /// The waits in the order of [`Wait::ALL`]; 0 for a reason without a wait.
    #[must_use]
    pub fn all_ns(&self) -> [u64; Wait::ALL.len()] {
        self.ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_until_another_begins_or_none_is_left() {
        let mut waits = Waits::default();
        waits.add(Wait::Connection, 5);
        waits.begin(Wait::StreamWindow, 10);
        waits.begin(Wait::StreamWindow, 15);
        waits.begin(Wait::Socket, 30);
        waits.end(31);
        waits.end(99);
        assert_eq!(waits.all_ns(), [5, 0, 0, 20, 0, 0, 1]);
    }
}
