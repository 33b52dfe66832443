//! The first bytes of a short item, until the rest arrives.

/// The first bytes of an item of at most `N` bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun<const N: usize> {
    bytes: [u8; N],
    count: u8,
}

impl<const N: usize> Default for Begun<N> {
    fn default() -> Self {
        Self { bytes: [0; N], count: 0 }
    }
}

impl<const N: usize> Begun<N> {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes bytes from the front of `input` until `parse` succeeds on all that were taken, which it must within `N` bytes. `None` means
    /// that `input` ended before.
    pub(crate) fn take<T>(&mut self, input: &mut &[u8], parse: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        while usize::from(self.count) < N {
            let (&first, rest) = input.split_first()?;
            *input = rest;
            self.bytes[usize::from(self.count)] = first;
            self.count += 1;
            if let Some(whole) = parse(&self.bytes[..usize::from(self.count)]) {
                self.count = 0;
                return Some(whole);
            }
        }
        None
    }
}
