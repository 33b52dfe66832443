//! Tools that can drive the load: fio, and dbench's script.

mod abilities;
mod dbench;
mod fio;
mod job_file;
mod windows;

use std::path::{Path, PathBuf};

use plumb_host::cgroup::block::Membership;
use plumb_model::{Bytes, Measurement};
use plumb_path::tool::{DrivenLoad, NotInstalled};
use plumb_path::{Load, Mark, PathError, Window};

use self::dbench::{BASH, DbenchTool};
use self::fio::{FIO, FioTool};
use self::job_file::JobFile;
use super::device::Device;
use super::engine::Handle;
use crate::settings::{Access, Driver, LoadSettings, StorageTarget};

pub(crate) use self::abilities::{check, lacks};

/// Whether this host has the tool.
///
/// # Errors
/// One sentence that says what to install.
pub(crate) fn feasible(settings: &LoadSettings) -> Result<(), NotInstalled> {
    match settings.driver {
        Driver::Native => Ok(()),
        Driver::Fio => FIO.find().map(drop),
        Driver::Dbench => FIO.find().and_then(|_| BASH.find()).map(drop),
    }
}

/// A load that a tool drives against a target; `None` for Plumbline's own.
///
/// # Errors
/// When the tool cannot be used, or the target is not there or would lose data.
pub(crate) fn driven_load(
    settings: &LoadSettings,
    target: &StorageTarget,
    scratch: &Path,
) -> Result<Option<Box<dyn Load>>, PathError> {
    let load: Box<dyn Load> = match settings.driver {
        Driver::Native => return Ok(None),
        Driver::Dbench => Box::new(DrivenLoad::new(DbenchTool::new(settings, target)?)?),
        Driver::Fio => Box::new(DrivenLoad::new(fio_tool(settings, target, scratch)?)?),
    };
    Ok(Some(Box::new(Grouped { group: target.group.clone(), load })))
}

/// Makes sure first that fio may write where it is to write, and that the settings fit the target.
fn fio_tool(settings: &LoadSettings, target: &StorageTarget, scratch: &Path) -> Result<FioTool, PathError> {
    let job = settings.job.as_deref().map(JobFile::read_from).transpose().map_err(PathError::load)?;
    let access = match &job {
        Some(job) if job.writes => Access::RandReadWrite,
        Some(_) => Access::RandRead,
        None => settings.access,
    };
    let settings = LoadSettings { access, ..settings.clone() };
    let device = Device::open(target, &settings)?;
    match job.as_ref().map(JobFile::reach) {
        None => drop(device.regions(&settings)?),
        Some(reach) if reach > device.bytes => {
            return Err(PathError::load(format!(
                "use the job file on {}: its `size` and offsets reach to {}, and it has only {}",
                device.path,
                Bytes(reach),
                Bytes(device.bytes)
            )));
        }
        Some(_) => {}
    }
    Ok(FioTool {
        job,
        is_nbd: matches!(device.handle, Handle::Nbd(_)),
        direct: device.direct,
        bytes: device.bytes,
        notices: device.notices,
        address: target.address.clone(),
        scratch: scratch.to_owned(),
        settings,
    })
}

/// A load that is in a control group while it measures, with the tool that it starts.
struct Grouped {
    group: Option<PathBuf>,
    load: Box<dyn Load>,
}

impl Load for Grouped {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        // Only for as long as it measures: a system that ends removes the group, which must be empty then.
        let _membership = self.group.as_deref().map(Membership::enter).transpose()?;
        self.load.measure(window, mark)
    }
}
