//! `/api/cluster/jobs`: the changes that were made, for clients that poll. A change is complete before its answer, so every job
//! has succeeded; the answer to a change that failed is its error, and no job remains.

use serde_json::{Value, json};

use super::resource::{JOBS_PATH, Resource};
use crate::asked::Asked;
use crate::fault::RestError;
use crate::fields::{FieldKind, read_only};
use crate::query::Collection;

pub static JOBS: Resource = Resource {
    collection: Collection {
        path: JOBS_PATH,
        fields: &[
            read_only("uuid", FieldKind::Text),
            read_only("description", FieldKind::Text),
            read_only("state", FieldKind::Text),
            read_only("message", FieldKind::Text),
            read_only("code", FieldKind::Count),
            read_only("start_time", FieldKind::Text),
            read_only("end_time", FieldKind::Text),
        ],
        always: &["uuid"],
    },
    records,
    changes: None,
};

fn records(asked: &Asked<'_>) -> Result<Vec<Value>, RestError> {
    let rows = asked.state.jobs()?;
    let records = rows.iter().map(|row| {
        json!({ "uuid": row.uuid, "description": row.description, "state": "success", "message": "success",
                "code": 0, "start_time": row.time, "end_time": row.time })
    });
    Ok(records.collect())
}
