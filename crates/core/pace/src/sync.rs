//! Atomics of the standard library, or those of loom, which try every order in which threads can run.

#[cfg(all(test, loom))]
pub(crate) use loom::sync::{Arc, atomic::AtomicU64};
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::{Arc, atomic::AtomicU64};
