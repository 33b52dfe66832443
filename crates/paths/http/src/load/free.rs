//! The connections of an open loop that have room for a request.

use std::collections::VecDeque;

/// Connections with room: first those with the fewest requests under way, and of these the one that has waited longest.
#[derive(Debug, Default)]
pub struct Free {
    /// The connections with room, by the number of requests under way.
    levels: Vec<VecDeque<usize>>,
    /// The level of each connection that is in one.
    level_of: Vec<Option<usize>>,
    count: usize,
}

impl Free {
    /// Adds a connection with this many requests under way, or moves it.
    pub fn put(&mut self, index: usize, level: usize) {
        self.remove(index);
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, VecDeque::new);
        }
        if self.level_of.len() <= index {
            self.level_of.resize(index + 1, None);
        }
        self.levels[level].push_back(index);
        self.level_of[index] = Some(level);
        self.count += 1;
    }

    /// Removes a connection, if it is there.
    pub fn remove(&mut self, index: usize) {
        let Some(level) = self.level_of.get_mut(index).and_then(Option::take) else { return };
        self.count -= 1;
        self.levels[level].retain(|other| *other != index);
    }

    /// Takes the connection for the next request.
    pub fn take(&mut self) -> Option<usize> {
        let index = self.levels.iter_mut().find_map(VecDeque::pop_front)?;
        self.level_of[index] = None;
        self.count -= 1;
        Some(index)
    }

    /// Whether no connection has room.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_connection_has_the_fewest_requests_and_has_waited_longest() {
        let mut free = Free::default();
        for (index, level) in [(0, 2), (1, 0), (2, 0), (3, 1)] {
            free.put(index, level);
        }
        // One is moved, and one has no room any more.
        free.put(1, 1);
        free.remove(0);
        free.remove(0);
        let order: Vec<usize> = std::iter::from_fn(|| free.take()).collect();
        assert_eq!(order, [2, 3, 1]);
        assert!(free.is_empty());
    }
}
