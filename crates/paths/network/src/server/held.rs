//! Locks of a server's threads, one of which may have panicked.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock whose holder panicked still holds what it held: counters and lists.
pub fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
