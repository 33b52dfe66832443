//! `/api/storage/qos/policies`.
//!
//! A MB is 2^20 bytes (why is in `throughput.rs`) and a TB 2^40. Minima of fixed policies are a preference: where
//! operations of several volumes wait in the server, those of a volume that is below its minimum go first, and a record has them
//! under `plumbline.preferred`. Those of adaptive policies raise the ceiling and do nothing else, and are under
//! `plumbline.not_enforced`. Neither is guaranteed; ONTAP, too, guarantees minima on some of its platforms only.

use std::ops::RangeInclusive;

use plumb_volumes::policy::{Adaptive, Fixed, Policy, Space};
use plumb_volumes::state::{PolicyRow, State, StateError};
use serde_json::{Map, Value, json};

use super::resource::{Changes, Resource};
use super::{svm_of, svm_record};
use crate::asked::Asked;
use crate::fault::{self, RestError};
use crate::fields::{Body, Field, FieldKind, read_only, set};
use crate::query::Collection;
use crate::throughput::{MB_BYTES, Throughput};

/// The bounds of one operation's size, at both limits of a fixed policy. NetApp's reference has "the ratio of max_throughput_mbps and
/// max_throughput_iops to be within 1 to 4096" and does not name the units. 1 to 4,096 operations per MB are 256 B to 1 MiB, 1
/// to 4,096 KB per operation are 1 KiB to 4 MiB; refused is what neither allows.
const OPERATION_BYTES: RangeInclusive<u64> = 256..=4 << 20;
const BLOCK_SIZES: &[&str] = &["any", "4k", "8k", "16k", "32k", "64k", "128k"];
const SPACES: &[&str] = &["used_space", "allocated_space"];

pub static POLICIES: Resource = Resource {
    collection: Collection {
        path: "/api/storage/qos/policies",
        fields: &[
            read_only("uuid", FieldKind::Text),
            read_only("name", FieldKind::Text),
            read_only("svm.name", FieldKind::Text),
            read_only("svm.uuid", FieldKind::Text),
            read_only("scope", FieldKind::Text),
            read_only("policy_class", FieldKind::Text),
            read_only("object_count", FieldKind::Count),
            read_only("fixed.capacity_shared", FieldKind::Flag),
            read_only("fixed.max_throughput", FieldKind::Text),
            read_only("fixed.max_throughput_iops", FieldKind::Count),
            read_only("fixed.max_throughput_mbps", FieldKind::Count),
            read_only("fixed.min_throughput", FieldKind::Text),
            read_only("fixed.min_throughput_iops", FieldKind::Count),
            read_only("fixed.min_throughput_mbps", FieldKind::Count),
            read_only("adaptive.absolute_min_iops", FieldKind::Count),
            read_only("adaptive.block_size", FieldKind::Text),
            read_only("adaptive.expected_iops", FieldKind::Count),
            read_only("adaptive.expected_iops_allocation", FieldKind::Text),
            read_only("adaptive.peak_iops", FieldKind::Count),
            read_only("adaptive.peak_iops_allocation", FieldKind::Text),
            read_only("plumbline.preferred", FieldKind::Text),
            read_only("plumbline.not_enforced", FieldKind::Text),
        ],
        always: &["uuid", "name"],
    },
    records,
    changes: Some(Changes { settable, make, change, delete }),
};

/// The fields that can be set: always, when a policy is made (`is_made`), or never.
fn settable(is_made: bool) -> Vec<Field> {
    let at_first = |name| Field { name, kind: FieldKind::Text, settable: is_made };
    vec![
        set("name", FieldKind::Text),
        at_first("svm.name"),
        at_first("svm.uuid"),
        Field { name: "fixed.capacity_shared", kind: FieldKind::Flag, settable: is_made },
        set("fixed.max_throughput", FieldKind::Text),
        set("fixed.max_throughput_iops", FieldKind::Count),
        set("fixed.max_throughput_mbps", FieldKind::Count),
        set("fixed.min_throughput", FieldKind::Text),
        set("fixed.min_throughput_iops", FieldKind::Count),
        set("fixed.min_throughput_mbps", FieldKind::Count),
        set("adaptive.absolute_min_iops", FieldKind::Count),
        set("adaptive.block_size", FieldKind::Choice(BLOCK_SIZES)),
        set("adaptive.expected_iops", FieldKind::Count),
        set("adaptive.expected_iops_allocation", FieldKind::Choice(SPACES)),
        set("adaptive.peak_iops", FieldKind::Count),
        set("adaptive.peak_iops_allocation", FieldKind::Choice(SPACES)),
        read_only("uuid", FieldKind::Text),
        read_only("scope", FieldKind::Text),
        read_only("policy_class", FieldKind::Text),
        read_only("object_count", FieldKind::Count),
    ]
}

fn make(state: &State, body: &Body) -> Result<String, RestError> {
    let name = body.text("name").ok_or_else(|| RestError::required("name"))?;
    let svm = svm_of(state, body)?;
    let policy = match (body.any_below("fixed."), body.any_below("adaptive.")) {
        (Some(_), Some(field)) => {
            let message =
                "A policy is either fixed or adaptive: \"fixed\" and \"adaptive\" exclude each other";
            return Err(RestError::bad(fault::CONTEXT, message).about(field));
        }
        (None, None) => return Err(RestError::required("fixed")),
        (Some(_), None) => Policy::Fixed(fixed(Fixed::default(), body)?),
        (None, Some(_)) => Policy::Adaptive(adaptive(Adaptive::new(0, 0), body)),
    };
    check(&policy)?;
    create_named(state, &svm, name, &policy)?;
    Ok(name.to_owned())
}

/// Makes a policy, or says with which other its name conflicts.
pub fn create_named(state: &State, svm: &str, name: &str, policy: &Policy) -> Result<(), RestError> {
    state.create_policy_of(svm, name, policy).map_err(|error| match error {
        StateError::Exists { .. } => conflict(state, name, policy),
        error => error.into(),
    })
}

fn conflict(state: &State, name: &str, new: &Policy) -> RestError {
    let rows = state.policies().unwrap_or_default();
    let existing = rows.iter().find(|row| row.name == name).map(|row| &row.policy);
    let (code, message) = match (new, existing) {
        (Policy::Adaptive(_), Some(Policy::Fixed(_))) => (
            fault::POLICY_EXISTS_FIXED,
            "The name specified for creating an adaptive QoS policy conflicts with an existing fixed QoS policy name.",
        ),
        (Policy::Fixed(_), Some(Policy::Adaptive(_))) => (
            fault::POLICY_EXISTS_ADAPTIVE,
            "The name specified for creating a fixed QoS policy conflicts with an existing adaptive QoS policy name.",
        ),
        _ => (
            fault::POLICY_EXISTS,
            "The name specified for creating conflicts with an existing QoS policy name.",
        ),
    };
    RestError::new(409, code, message).about("name")
}

fn change(state: &State, uuid: &str, body: &Body) -> Result<(), RestError> {
    let row = row_of(state, uuid)?;
    let policy = changed(&row.policy, body)?;
    if policy != row.policy {
        check(&policy)?;
        state.change_policy(&row.name, &policy)?;
    }
    if let Some(name) = body.text("name").filter(|name| *name != row.name) {
        state.rename_policy(&row.name, name).map_err(|error| match error {
            StateError::Exists { .. } => conflict(state, name, &policy),
            error => error.into(),
        })?;
    }
    Ok(())
}

/// A policy with the fields that a body sets set anew.
fn changed(policy: &Policy, body: &Body) -> Result<Policy, RestError> {
    match policy {
        Policy::Fixed(before) => match body.any_below("adaptive.") {
            Some(field) => {
                let message = "The existing fixed QoS policy cannot be modified to an adaptive QoS policy.";
                Err(RestError::bad(fault::POLICY_STAYS_FIXED, message).about(field))
            }
            None => Ok(Policy::Fixed(fixed(*before, body)?)),
        },
        Policy::Adaptive(before) => match body.any_below("fixed.") {
            Some(field) => {
                let message = "The existing adaptive QoS policy cannot be modified to a fixed QoS policy.";
                Err(RestError::bad(fault::POLICY_STAYS_ADAPTIVE, message).about(field))
            }
            None => Ok(Policy::Adaptive(adaptive(*before, body))),
        },
    }
}

/// Volumes that are under it are under none then: NetApp's reference has "All QoS workloads associated with the policy are
/// removed" (<https://docs.netapp.com/us-en/ontap-restapi/delete-storage-qos-policies-.html>).
fn delete(state: &State, uuid: &str) -> Result<Option<String>, RestError> {
    let row = row_of(state, uuid)?;
    state.release_volumes(&row.name)?;
    state.delete_policy(&row.name)?;
    Ok(None)
}

/// Checks ONTAP's rules for a policy, and then the policy's own.
pub fn check(policy: &Policy) -> Result<(), RestError> {
    if let Policy::Adaptive(adaptive) = policy {
        let fields =
            [("expected_iops", adaptive.expected_iops_per_tb), ("peak_iops", adaptive.peak_iops_per_tb)];
        if let Some((name, _)) = fields.iter().find(|(_, value)| *value == 0) {
            let message = "Invalid value for an adaptive field. Value should be non-zero.";
            return Err(RestError::bad(fault::POLICY_ADAPTIVE, message).about(format!("adaptive.{name}")));
        }
    }
    Ok(policy.check()?)
}

const MAX_NUMBERS: [&str; 2] = ["fixed.max_throughput_iops", "fixed.max_throughput_mbps"];
const MIN_NUMBERS: [&str; 2] = ["fixed.min_throughput_iops", "fixed.min_throughput_mbps"];

fn fixed(before: Fixed, body: &Body) -> Result<Fixed, RestError> {
    let iops = |name: &str, before: Option<u64>| match body.count(name) {
        None => before,
        Some(0) => None,
        Some(iops) => Some(iops),
    };
    let bytes = |name: &str, before: Option<u64>| match body.count(name) {
        None => Ok(before),
        Some(0) => Ok(None),
        Some(mb) => {
            mb.checked_mul(MB_BYTES).map(Some).ok_or_else(|| RestError::value(name, &mb.to_string(), "MB/s"))
        }
    };
    let mut fixed = Fixed {
        min_iops: iops("fixed.min_throughput_iops", before.min_iops),
        max_iops: iops("fixed.max_throughput_iops", before.max_iops),
        min_bytes_per_s: bytes("fixed.min_throughput_mbps", before.min_bytes_per_s)?,
        max_bytes_per_s: bytes("fixed.max_throughput_mbps", before.max_bytes_per_s)?,
        capacity_shared: body.flag("fixed.capacity_shared").unwrap_or(before.capacity_shared),
    };
    if MAX_NUMBERS.iter().any(|name| body.count(name).is_some()) {
        check_operation(&fixed)?;
    }
    if let Some(max) = throughput(body, "fixed.max_throughput", &MAX_NUMBERS)? {
        (fixed.max_iops, fixed.max_bytes_per_s) = (max.iops, max.bytes_per_s);
    }
    if let Some(min) = throughput(body, "fixed.min_throughput", &MIN_NUMBERS)? {
        (fixed.min_iops, fixed.min_bytes_per_s) = (min.iops, min.bytes_per_s);
    }
    Ok(fixed)
}

/// A throughput that is given as text, and then by none of its two numbers.
fn throughput(body: &Body, name: &str, numbers: &[&str]) -> Result<Option<Throughput>, RestError> {
    let Some(text) = body.text(name) else { return Ok(None) };
    if let Some(number) = numbers.iter().find(|number| body.count(number).is_some()) {
        let message = format!("\"{name}\" cannot be used in combination with \"{number}\"");
        return Err(RestError::bad(fault::POLICY_FIELDS, message).about(name));
    }
    Throughput::parse(text).map(Some).ok_or_else(|| RestError::value(name, text, Throughput::DUE))
}

/// Checks the two maxima against each other, where there are two; see [`OPERATION_BYTES`].
fn check_operation(fixed: &Fixed) -> Result<(), RestError> {
    let (Some(iops), Some(bytes)) = (fixed.max_iops, fixed.max_bytes_per_s) else { return Ok(()) };
    if OPERATION_BYTES.contains(&(bytes / iops.max(1))) {
        return Ok(());
    }
    let message = "Invalid value for maximum and minimum fields. Valid values for max_throughput_iops and \
                   max_throughput_mbps combination is for the ratio of max_throughput_mbps and max_throughput_iops \
                   to be within 1 to 4096.";
    Err(RestError::bad(fault::POLICY_RANGE, message).about("fixed.max_throughput_mbps"))
}

fn adaptive(before: Adaptive, body: &Body) -> Adaptive {
    let count = |name: &str, before: u64| body.count(name).unwrap_or(before);
    let space = |name: &str, before: Space| match body.text(name) {
        Some("used_space") => Space::UsedSpace,
        Some(_) => Space::AllocatedSpace,
        None => before,
    };
    Adaptive {
        expected_iops_per_tb: count("adaptive.expected_iops", before.expected_iops_per_tb),
        peak_iops_per_tb: count("adaptive.peak_iops", before.peak_iops_per_tb),
        absolute_min_iops: count("adaptive.absolute_min_iops", before.absolute_min_iops),
        expected_iops_allocation: space("adaptive.expected_iops_allocation", before.expected_iops_allocation),
        peak_iops_allocation: space("adaptive.peak_iops_allocation", before.peak_iops_allocation),
        block_bytes: match body.text("adaptive.block_size") {
            None => before.block_bytes,
            Some(size) => block_bytes(size),
        },
    }
}

/// Bytes from `4k`; `None` for `any`.
pub fn block_bytes(size: &str) -> Option<u64> {
    size.strip_suffix('k').and_then(|kib| kib.parse::<u64>().ok()).map(|kib| kib << 10)
}

fn row_of(state: &State, uuid: &str) -> Result<PolicyRow, RestError> {
    let row = state.policies()?.into_iter().find(|row| row.uuid == uuid);
    row.ok_or_else(|| RestError::missing("uuid"))
}

/// Every policy, with every field.
fn records(asked: &Asked<'_>) -> Result<Vec<Value>, RestError> {
    let state = asked.state;
    let (svms, volumes) = (state.svms()?, state.volumes()?);
    let rows = state.policies()?;
    let record = |row: &PolicyRow| {
        let users = volumes.iter().filter(|volume| volume.policy.as_deref() == Some(row.name.as_str()));
        let mut record = json!({ "uuid": row.uuid, "name": row.name, "svm": svm_record(&svms, &row.svm),
                                 "scope": "svm", "policy_class": "user_defined", "object_count": users.count() });
        let (kind, limits) = limits_of(&row.policy);
        record[kind] = limits;
        if let Policy::Fixed(fixed) = &row.policy {
            for (name, iops, bytes_per_s) in [
                ("max_throughput", fixed.max_iops, fixed.max_bytes_per_s),
                ("min_throughput", fixed.min_iops, fixed.min_bytes_per_s),
            ] {
                if let Some(text) = (Throughput { iops, bytes_per_s }).text() {
                    record[kind][name] = json!(text);
                }
            }
        }
        let (what, floors) = floors_of(&row.policy);
        if !floors.is_empty() {
            record["plumbline"] = json!({ what: floors });
        }
        record
    };
    Ok(rows.iter().map(record).collect())
}

/// A policy's own fields, and whether they are `fixed` or `adaptive`.
pub fn limits_of(policy: &Policy) -> (&'static str, Value) {
    match policy {
        Policy::Fixed(fixed) => {
            let mb = |bytes: Option<u64>| {
                bytes.map(|bytes| bytes.saturating_add(MB_BYTES / 2) / MB_BYTES).map(|mb| mb.max(1))
            };
            let mut limits = Map::new();
            limits.insert("capacity_shared".to_owned(), json!(fixed.capacity_shared));
            for (name, value) in [
                ("max_throughput_iops", fixed.max_iops),
                ("max_throughput_mbps", mb(fixed.max_bytes_per_s)),
                ("min_throughput_iops", fixed.min_iops),
                ("min_throughput_mbps", mb(fixed.min_bytes_per_s)),
            ] {
                if let Some(value) = value.filter(|value| *value > 0) {
                    limits.insert(name.to_owned(), json!(value));
                }
            }
            ("fixed", Value::Object(limits))
        }
        Policy::Adaptive(adaptive) => {
            let space = |space: Space| match space {
                Space::AllocatedSpace => "allocated_space",
                Space::UsedSpace => "used_space",
            };
            let block_size =
                adaptive.block_bytes.map_or_else(|| "any".to_owned(), |bytes| format!("{}k", bytes >> 10));
            let limits = json!({
                "expected_iops": adaptive.expected_iops_per_tb, "peak_iops": adaptive.peak_iops_per_tb,
                "absolute_min_iops": adaptive.absolute_min_iops, "block_size": block_size,
                "expected_iops_allocation": space(adaptive.expected_iops_allocation),
                "peak_iops_allocation": space(adaptive.peak_iops_allocation),
            });
            ("adaptive", limits)
        }
    }
}

/// The fields in which a policy promises a minimum, after the word for how well it keeps them.
fn floors_of(policy: &Policy) -> (&'static str, Vec<&'static str>) {
    let named = |fields: &[(&'static str, u64)]| {
        fields.iter().filter(|(_, value)| *value > 0).map(|(name, _)| *name).collect()
    };
    match policy {
        Policy::Fixed(fixed) => {
            let minima = [
                ("fixed.min_throughput_iops", fixed.min_iops.unwrap_or(0)),
                ("fixed.min_throughput_mbps", fixed.min_bytes_per_s.unwrap_or(0)),
            ];
            ("preferred", named(&minima))
        }
        Policy::Adaptive(adaptive) => {
            let minima = [
                ("adaptive.expected_iops", adaptive.expected_iops_per_tb),
                ("adaptive.absolute_min_iops", adaptive.absolute_min_iops),
            ];
            ("not_enforced", named(&minima))
        }
    }
}
