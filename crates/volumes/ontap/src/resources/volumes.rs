//! `/api/storage/volumes`.
//!
//! A volume is served by NBD under its name. One that gets another name stays the volume that it is: connections to it go on, and
//! those who connect ask for the new name. `plumbline` in its record says where, which limits its limiter has at this moment, and
//! what the limiter did. There is one pool of space, so `aggregates` may be given, as ONTAP's clients do, and are not looked at.

use std::os::unix::fs::MetadataExt;

use plumb_volumes::Report;
use plumb_volumes::state::{PolicyRow, State, StateError, SvmRow, VolumeRow};
use serde_json::{Value, json};

use super::resource::{Changes, Resource};
use super::{policies, svm_of, svm_record};
use crate::asked::Asked;
use crate::fault::{self, RestError};
use crate::fields::{Body, Field, FieldKind, read_only, set};
use crate::query::Collection;

/// The name that stands for no policy, as ONTAP has it.
pub const NO_POLICY: &str = "none";

pub static VOLUMES: Resource = Resource {
    collection: Collection {
        path: "/api/storage/volumes",
        fields: &[
            read_only("uuid", FieldKind::Text),
            read_only("name", FieldKind::Text),
            read_only("svm.name", FieldKind::Text),
            read_only("svm.uuid", FieldKind::Text),
            read_only("size", FieldKind::Size),
            read_only("state", FieldKind::Text),
            read_only("style", FieldKind::Text),
            read_only("type", FieldKind::Text),
            read_only("create_time", FieldKind::Text),
            read_only("space.size", FieldKind::Size),
            read_only("space.used", FieldKind::Size),
            read_only("space.available", FieldKind::Size),
            read_only("qos.policy.name", FieldKind::Text),
            read_only("qos.policy.uuid", FieldKind::Text),
            read_only("qos.policy.max_throughput_iops", FieldKind::Count),
            read_only("qos.policy.max_throughput_mbps", FieldKind::Count),
            read_only("qos.policy.min_throughput_iops", FieldKind::Count),
            read_only("qos.policy.min_throughput_mbps", FieldKind::Count),
            read_only("plumbline.nbd", FieldKind::Text),
            read_only("plumbline.limits.iops", FieldKind::Count),
            read_only("plumbline.limits.bytes_per_s", FieldKind::Count),
            read_only("plumbline.account.operations", FieldKind::Count),
            read_only("plumbline.account.bytes", FieldKind::Count),
            read_only("plumbline.account.delayed", FieldKind::Count),
            read_only("plumbline.account.bound_by_iops_ns", FieldKind::Count),
            read_only("plumbline.account.bound_by_bytes_ns", FieldKind::Count),
        ],
        always: &["uuid", "name"],
    },
    records,
    changes: Some(Changes { settable, make, change, delete }),
};

fn settable(is_made: bool) -> Vec<Field> {
    let at_first = |name, kind| Field { name, kind, settable: is_made };
    vec![
        set("name", FieldKind::Text),
        at_first("svm.name", FieldKind::Text),
        at_first("svm.uuid", FieldKind::Text),
        at_first("aggregates", FieldKind::Ignored),
        at_first("style", FieldKind::Choice(&["flexvol"])),
        at_first("type", FieldKind::Choice(&["rw"])),
        at_first("guarantee.type", FieldKind::Choice(&["none"])),
        set("size", FieldKind::Size),
        set("qos.policy.name", FieldKind::Text),
        set("qos.policy.uuid", FieldKind::Text),
        read_only("uuid", FieldKind::Text),
        read_only("state", FieldKind::Text),
        read_only("create_time", FieldKind::Text),
    ]
}

fn make(state: &State, body: &Body) -> Result<String, RestError> {
    let name = body.text("name").ok_or_else(|| RestError::required("name"))?;
    let svm = svm_of(state, body)?;
    let size = body.count("size").ok_or_else(|| RestError::required("size"))?;
    let policy = policy_of(state, body)?.flatten();
    state.create_volume_of(&svm, name, size, policy.as_deref()).map_err(named)?;
    Ok(name.to_owned())
}

/// Converts an error of a call that names a volume.
fn named(error: StateError) -> RestError {
    match error {
        StateError::Name(name) => {
            let message =
                format!("Invalid volume name \"{name}\": letters, digits, \"_\" and \"-\", at most 127");
            RestError::bad(fault::VOLUME_NAME, message).about("name")
        }
        error => error.into(),
    }
}

fn change(state: &State, uuid: &str, body: &Body) -> Result<(), RestError> {
    let row = row_of(state, uuid)?;
    if let Some(size) = body.count("size") {
        state.resize_volume(&row.name, size)?;
    }
    if let Some(policy) = policy_of(state, body)? {
        state.assign_policy(&row.name, policy.as_deref())?;
    }
    // Last, as all else asks for the volume by the name that it had.
    if let Some(name) = body.text("name").filter(|name| *name != row.name) {
        state.rename_volume(&row.name, name).map_err(named)?;
    }
    Ok(())
}

fn delete(state: &State, uuid: &str) -> Result<Option<String>, RestError> {
    let row = row_of(state, uuid)?;
    Ok(Some(state.forget_volume(&row.name)?))
}

/// The policy that a body names, by name, UUID, or both; `Some(None)` for none.
fn policy_of(state: &State, body: &Body) -> Result<Option<Option<String>>, RestError> {
    let rows = state.policies()?;
    let (name, uuid) = (body.text("qos.policy.name"), body.text("qos.policy.uuid"));
    if name == Some(NO_POLICY) && uuid.is_none() {
        return Ok(Some(None));
    }
    let find = |target: &str, is_it: &dyn Fn(&PolicyRow) -> bool| {
        let found = rows.iter().find(|row| is_it(row)).map(|row| row.name.clone());
        found.ok_or_else(|| RestError::missing(target))
    };
    let by_name = name.map(|name| find("qos.policy.name", &|row| row.name == name)).transpose()?;
    let by_uuid = uuid.map(|uuid| find("qos.policy.uuid", &|row| row.uuid == uuid)).transpose()?;
    match (by_name, by_uuid) {
        (Some(name), Some(other)) if name != other => {
            let message = "\"qos.policy.name\" and \"qos.policy.uuid\" do not refer to the same policy";
            Err(RestError::bad(fault::CONTEXT, message).about("qos.policy.uuid"))
        }
        (by_name, by_uuid) => Ok(by_name.or(by_uuid).map(Some)),
    }
}

fn row_of(state: &State, uuid: &str) -> Result<VolumeRow, RestError> {
    let row = state.volumes()?.into_iter().find(|row| row.uuid == uuid);
    row.ok_or_else(|| RestError::missing("uuid"))
}

fn records(asked: &Asked<'_>) -> Result<Vec<Value>, RestError> {
    let state = asked.state;
    let (svms, policies, report) = (state.svms()?, state.policies()?, asked.report());
    let rows = state.volumes()?;
    Ok(rows.iter().map(|row| record(state, row, &svms, &policies, report.as_ref())).collect())
}

fn record(
    state: &State,
    row: &VolumeRow,
    svms: &[SvmRow],
    policies: &[PolicyRow],
    report: Option<&Report>,
) -> Value {
    // A volume that was never served has no file yet.
    let used = std::fs::metadata(state.file_of(&row.file)).map_or(0, |file| file.blocks() * 512);
    let mut record = json!({
        "uuid": row.uuid, "name": row.name, "svm": svm_record(svms, &row.svm), "size": row.size_bytes,
        "state": "online", "style": "flexvol", "type": "rw", "create_time": row.create_time,
        "space": { "size": row.size_bytes, "used": used, "available": row.size_bytes.saturating_sub(used) },
    });
    let policy = policies.iter().find(|policy| row.policy.as_deref() == Some(policy.name.as_str()));
    if let Some(policy) = policy {
        let mut shown = match policies::limits_of(&policy.policy) {
            ("fixed", limits) => limits,
            _ => json!({}),
        };
        shown["name"] = json!(policy.name);
        shown["uuid"] = json!(policy.uuid);
        record["qos"] = json!({ "policy": shown });
    }
    if let Some(report) = report {
        let mut served = json!({ "nbd": report.address.uri(&row.name) });
        if let Some(volume) = report.volumes.iter().find(|volume| volume.uuid == row.uuid) {
            served["limits"] = limits(volume.limits.iops, volume.limits.bytes_per_s);
            served["account"] = json!(volume.account);
        }
        record["plumbline"] = served;
    }
    record
}

fn limits(iops: Option<std::num::NonZeroU64>, bytes_per_s: Option<std::num::NonZeroU64>) -> Value {
    let fields = [("iops", iops), ("bytes_per_s", bytes_per_s)];
    let given = fields.into_iter().filter_map(|(name, limit)| Some((name.to_owned(), json!(limit?))));
    Value::Object(given.collect())
}
