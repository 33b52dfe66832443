//! Locks and flags of the standard library, or those of loom, which try every order in which threads can run.

#[cfg(all(test, loom))]
pub(super) use loom::sync::{Mutex, MutexGuard, atomic::AtomicBool};
#[cfg(not(all(test, loom)))]
pub(super) use std::sync::{Mutex, MutexGuard, atomic::AtomicBool};
