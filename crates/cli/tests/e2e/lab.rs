//! Tests that need the laboratory: a test cluster, hosts reached by ssh, a browser, or the CSI driver's own tools. `make test-lab` runs them.

mod browser;
mod cluster;
mod csi;
mod hosts;
pub mod places;
mod pods;
