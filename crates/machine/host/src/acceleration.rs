//! CPU instructions and libraries that programs use to accelerate work: which of them this host has, and why one cannot be used.

mod features;
mod libraries;
#[cfg(test)]
mod tests;

pub use features::{CpuFeature, cpu_features};
pub use libraries::{AccelerationLibrary, acceleration_libraries};
