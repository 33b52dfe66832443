//! The controller service: it creates, grows and deletes volumes, and moves them between policies. It changes
//! only the volumes' database, which the server follows by itself.

use std::sync::Arc;

use plumb_volumes::state::VolumeRow;

use crate::capability::Access;
use crate::common::Common;
use crate::fault::CallError;
use crate::identity::{VolumeId, check_id, volume_name};
use crate::messages::{
    CapacityRange, Confirmed, ControllerExpandRequest, ControllerExpandResponse, CreateVolumeRequest,
    CreateVolumeResponse, DeleteVolumeRequest, Empty, GetCapacityRequest, GetCapacityResponse,
    ListVolumesRequest, ListVolumesResponse, ModifyRequest, Texts, ValidateRequest, ValidateResponse,
    VolumeCapability, VolumeEntry, VolumeInfo,
};
use crate::parameters::{Placement, placement};
use crate::record::Records;

/// The size of a volume if the request names none.
const DEFAULT_BYTES: u64 = 1 << 30;
/// The smallest volume: a file system with a journal needs this much.
const BYTES_MIN: u64 = 16 << 20;
/// The unit that sizes are rounded to: one page, and one block of the file system.
const UNIT_BYTES: u64 = 4096;

/// See the module.
#[derive(Debug, Clone)]
pub struct Controller {
    common: Arc<Common>,
    records: Records,
}

impl Controller {
    /// The service to a state.
    #[must_use]
    pub fn new(common: Arc<Common>) -> Self {
        let records = Records::in_directory_of(&common);
        Self { common, records }
    }

    /// Creates a volume, or finds the one that an earlier request of the same name created.
    ///
    /// # Errors
    /// When the request cannot be met, or the volume of that name differs from the request.
    pub fn create(&self, request: &CreateVolumeRequest) -> Result<CreateVolumeResponse, CallError> {
        if request.name.is_empty() {
            return Err(CallError::Invalid("the request has no name".to_owned()));
        }
        check_capabilities(&request.volume_capabilities)?;
        if request.volume_content_source.is_some() {
            return Err(CallError::Invalid("a volume cannot be made as a copy".to_owned()));
        }
        self.check_place(request)?;
        let range = request.capacity_range.unwrap_or_default();
        let size = size_of(&range, DEFAULT_BYTES)?;
        let name = volume_name(&request.name);
        let _reserved = self.common.reserve(&name)?;
        let state = self.common.state();
        let placement = placement(&[&request.parameters, &request.mutable_parameters], &state.policies()?)?;
        let found = |rows: Vec<VolumeRow>| rows.into_iter().find(|row| row.name == name);
        if let Some(row) = found(state.volumes()?) {
            check_same(&row, &range, placement.as_ref())?;
            return Ok(self.created(&row));
        }
        match placement {
            None => state.create_volume(&name, size, None)?,
            Some(Placement { policy, svm }) => {
                state.create_volume_of(&svm, &name, size, policy.as_deref())?;
            }
        }
        let row = found(state.volumes()?);
        row.map(|row| self.created(&row))
            .ok_or_else(|| CallError::host(format!("find the volume `{name}` again")))
    }

    fn created(&self, row: &VolumeRow) -> CreateVolumeResponse {
        CreateVolumeResponse { volume: Some(self.info(row)) }
    }

    fn info(&self, row: &VolumeRow) -> VolumeInfo {
        VolumeInfo {
            capacity_bytes: row.size_bytes.cast_signed(),
            volume_id: VolumeId::text_for(&self.common.node, row),
            volume_context: Texts::new(),
            accessible_topology: vec![self.common.node.topology()],
        }
    }

    fn check_place(&self, request: &CreateVolumeRequest) -> Result<(), CallError> {
        let Some(places) = &request.accessibility_requirements else { return Ok(()) };
        // Without requisite places, the preferred ones only state an order.
        if places.requisite.is_empty() || places.requisite.iter().any(|place| self.common.node.is_in(place)) {
            return Ok(());
        }
        let node = self.common.node.as_str();
        Err(CallError::Exhausted(format!(
            "volumes of this driver are on the node `{node}`, which was not asked for"
        )))
    }

    /// Deletes a volume. A volume that does not exist counts as deleted.
    ///
    /// # Errors
    /// When it is in use on this node.
    pub fn delete(&self, request: &DeleteVolumeRequest) -> Result<Empty, CallError> {
        let uuid = match VolumeId::on(&self.common.node, &request.volume_id) {
            Ok(uuid) => uuid,
            Err(CallError::Missing(_)) if !is_elsewhere(&self.common, &request.volume_id) => {
                return Ok(Empty {});
            }
            Err(fault) => return Err(fault),
        };
        let _reserved = self.common.reserve(&uuid)?;
        if self.records.record_of(&uuid)?.is_some() {
            let id = &request.volume_id;
            return Err(CallError::Precondition(format!("the volume `{id}` is staged; unstage it first")));
        }
        if let Some(row) = self.common.row(&uuid)? {
            self.common.state().delete_volume(&row.name)?;
        }
        // Only an unfinished file system has left this file.
        let _ = std::fs::remove_file(self.records.unfinished(&uuid));
        Ok(Empty {})
    }

    /// Says whether a volume has the capabilities that a request names.
    ///
    /// # Errors
    /// When the volume does not exist, or the request names no capability.
    pub fn validate(&self, request: &ValidateRequest) -> Result<ValidateResponse, CallError> {
        check_id(&request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(CallError::Invalid("the request has no volume capabilities".to_owned()));
        }
        self.common.volume(&request.volume_id)?;
        let unmet = request.volume_capabilities.iter().find_map(|asked| Access::from_capability(asked).err());
        if let Some(unmet) = unmet {
            return Ok(ValidateResponse { confirmed: None, message: unmet.to_string() });
        }
        let confirmed = Confirmed {
            volume_context: request.volume_context.clone(),
            volume_capabilities: request.volume_capabilities.clone(),
            // The driver compares no parameters.
            parameters: Texts::new(),
        };
        Ok(ValidateResponse { confirmed: Some(confirmed), message: String::new() })
    }

    /// Lists volumes by name, including those that this driver did not create.
    ///
    /// # Errors
    /// When the token comes from no earlier answer.
    pub fn list(&self, request: &ListVolumesRequest) -> Result<ListVolumesResponse, CallError> {
        if request.max_entries < 0 {
            return Err(CallError::Invalid("the number of entries is negative".to_owned()));
        }
        let rows = self.common.state().volumes()?;
        // The token is the last volume's name: the order of names holds while volumes come and go.
        let after = request.starting_token.as_str();
        if !after.is_empty() && !rows.iter().any(|row| row.name == after) {
            return Err(CallError::Busy(format!(
                "`{after}` is not where an earlier list ended; begin again"
            )));
        }
        let mut left = rows.iter().filter(|row| row.name.as_str() > after).peekable();
        let most = usize::try_from(request.max_entries).ok().filter(|most| *most > 0).unwrap_or(usize::MAX);
        let listed: Vec<&VolumeRow> = left.by_ref().take(most).collect();
        let next = listed.last().filter(|_| left.peek().is_some());
        Ok(ListVolumesResponse {
            next_token: next.map_or_else(String::new, |row| row.name.clone()),
            entries: listed.iter().map(|row| VolumeEntry { volume: Some(self.info(row)) }).collect(),
        })
    }

    /// Reports the free space of the state directory's file system. Volumes are sparse, so their sizes may
    /// add up to more than that.
    ///
    /// # Errors
    /// When the file system cannot be queried.
    pub fn capacity(&self, request: &GetCapacityRequest) -> Result<GetCapacityResponse, CallError> {
        let is_here = request.accessible_topology.as_ref().is_none_or(|place| self.common.node.is_in(place));
        let is_possible =
            request.volume_capabilities.iter().all(|asked| Access::from_capability(asked).is_ok());
        if !is_here || !is_possible {
            return Ok(GetCapacityResponse { available_capacity: 0 });
        }
        let directory = self.common.state_directory();
        let space = rustix::fs::statvfs(directory).map_err(|cause| {
            CallError::host(format!("ask for the space of {}: {cause}", directory.display()))
        })?;
        let bytes = space.f_bavail.saturating_mul(space.f_frsize);
        Ok(GetCapacityResponse { available_capacity: i64::try_from(bytes).unwrap_or(i64::MAX) })
    }

    /// Makes a volume larger. The node service then grows its device and file system. For a volume of another
    /// node it answers with a size in the range and leaves both steps to that node's service.
    ///
    /// # Errors
    /// When the volume does not exist, or the size is invalid.
    pub fn expand(&self, request: &ControllerExpandRequest) -> Result<ControllerExpandResponse, CallError> {
        check_id(&request.volume_id)?;
        let range = request.capacity_range.as_ref();
        let range =
            range.ok_or_else(|| CallError::Invalid("the request has no capacity range".to_owned()))?;
        let id = VolumeId::parse(&request.volume_id)?;
        if id.node != self.common.node.as_str() {
            let capacity_bytes = size_of(range, BYTES_MIN)?.cast_signed();
            return Ok(ControllerExpandResponse { capacity_bytes, node_expansion_required: true });
        }
        let _reserved = self.common.reserve(&id.uuid)?;
        let row = self.common.volume(&request.volume_id)?;
        let size = grown(&self.common, &row, range)?;
        Ok(ControllerExpandResponse { capacity_bytes: size.cast_signed(), node_expansion_required: true })
    }

    /// Moves a volume to another policy, at once, even while it is in use.
    ///
    /// # Errors
    /// When the volume or the policy does not exist.
    pub fn modify(&self, request: &ModifyRequest) -> Result<Empty, CallError> {
        let row = self.common.volume(&request.volume_id)?;
        let _reserved = self.common.reserve(&row.uuid)?;
        let state = self.common.state();
        if let Some(placement) = placement(&[&request.mutable_parameters], &state.policies()?)? {
            state.assign_policy(&row.name, placement.policy.as_deref())?;
        }
        Ok(Empty {})
    }
}

/// Whether an identity names a volume of another node.
fn is_elsewhere(common: &Common, id: &str) -> bool {
    VolumeId::parse(id).is_ok_and(|id| id.node != common.node.as_str())
}

fn check_capabilities(asked: &[VolumeCapability]) -> Result<(), CallError> {
    if asked.is_empty() {
        return Err(CallError::Invalid("the request has no volume capabilities".to_owned()));
    }
    asked.iter().try_for_each(|asked| Access::from_capability(asked).map(drop))
}

/// Whether an existing volume matches a request, which callers may repeat.
fn check_same(
    row: &VolumeRow,
    range: &CapacityRange,
    placement: Option<&Placement>,
) -> Result<(), CallError> {
    let least = range.required_bytes.cast_unsigned();
    let most = most_of(range);
    let fits = row.size_bytes >= least && row.size_bytes <= most;
    if !fits || row.policy != placement.and_then(|placement| placement.policy.clone()) {
        return Err(CallError::Exists(format!(
            "there is a volume `{}` of {} bytes under {}, which is not what is asked for",
            row.name,
            row.size_bytes,
            row.policy
                .as_ref()
                .map_or_else(|| "no policy".to_owned(), |policy| format!("the policy `{policy}`"))
        )));
    }
    Ok(())
}

fn most_of(range: &CapacityRange) -> u64 {
    u64::try_from(range.limit_bytes).ok().filter(|most| *most > 0).unwrap_or(u64::MAX)
}

/// The size for a range.
fn size_of(range: &CapacityRange, default_bytes: u64) -> Result<u64, CallError> {
    let out_of_range = |text: &str| {
        let bytes = |bytes: i64| if bytes == 0 { "any".to_owned() } else { bytes.to_string() };
        let (least, most) = (bytes(range.required_bytes), bytes(range.limit_bytes));
        CallError::Range(format!("a size of at least {least} and at most {most} bytes: {text}"))
    };
    if range.required_bytes < 0 || range.limit_bytes < 0 {
        return Err(CallError::Invalid("a size is negative".to_owned()));
    }
    let (least, most) = (range.required_bytes.cast_unsigned(), most_of(range));
    if least > most {
        return Err(CallError::Invalid("the least size is above the largest".to_owned()));
    }
    let wanted = if least == 0 { default_bytes.min(most) } else { least };
    let size = wanted.max(BYTES_MIN).checked_next_multiple_of(UNIT_BYTES);
    let size = size.filter(|size| i64::try_from(*size).is_ok());
    let size = size.ok_or_else(|| out_of_range("no volume can be so large"))?;
    // The limit may not be a multiple of the unit.
    let size = if size > most { most / UNIT_BYTES * UNIT_BYTES } else { size };
    if size < BYTES_MIN || size < least {
        return Err(out_of_range("sizes are multiples of 4 KiB from 16 MiB on"));
    }
    Ok(size)
}

/// Grows a volume in the database to the size of a range if it is smaller, and returns its size.
///
/// # Errors
/// When the size is too large for a file, or the volume is larger than the limit.
pub(crate) fn grown(common: &Common, row: &VolumeRow, range: &CapacityRange) -> Result<u64, CallError> {
    if row.size_bytes > most_of(range) {
        return Err(CallError::Range(format!(
            "the volume has {} bytes, more than the {} that it may have, and it does not shrink",
            row.size_bytes, range.limit_bytes
        )));
    }
    let size = size_of(range, row.size_bytes)?;
    if size <= row.size_bytes {
        return Ok(row.size_bytes);
    }
    Ok(common.state().grow_volume(&row.name, size)?)
}

#[cfg(test)]
mod tests;
