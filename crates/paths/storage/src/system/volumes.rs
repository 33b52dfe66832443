//! A volume under a policy: served by NBD from this process, or by the kernel.

mod backing;
mod kernel;
pub mod names;
mod served;

use plumb_path::{PathError, Place, System};

use crate::settings::{Layer, SystemSettings};

/// Makes the volume and serves it.
pub fn start(spec: &SystemSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
    match spec.volume.layer {
        Layer::Nbd => Ok(Box::new(served::Served::start(spec, place)?)),
        Layer::Kernel => Ok(Box::new(kernel::Limited::start(spec, place)?)),
    }
}
