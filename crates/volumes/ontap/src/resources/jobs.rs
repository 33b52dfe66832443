//! `/api/cluster/jobs`: what was done, for clients that poll. A change is done before it is answered, so every job that can
//! be asked about has succeeded; one that fails is answered with its error and leaves none.

use serde_json::json;

use crate::answer::RestResponse;
use crate::asked::Asked;
use crate::fault::RestError;
use crate::fields::{FieldKind, read};
use crate::query::Collection;

pub const JOBS: Collection = Collection {
    path: "/api/cluster/jobs",
    fields: &[
        read("uuid", FieldKind::Text),
        read("description", FieldKind::Text),
        read("state", FieldKind::Text),
        read("message", FieldKind::Text),
        read("code", FieldKind::Count),
        read("start_time", FieldKind::Text),
        read("end_time", FieldKind::Text),
    ],
    always: &["uuid"],
};

pub fn get(asked: &Asked<'_>, uuid: Option<&str>) -> Result<RestResponse, RestError> {
    let rows = asked.state.jobs()?;
    let records = rows.iter().map(|row| {
        json!({ "uuid": row.uuid, "description": row.description, "state": "success", "message": "success",
                "code": 0, "start_time": row.time, "end_time": row.time })
    });
    let links = asked.request.with_links;
    let Some(uuid) = uuid else {
        return Ok(RestResponse::ok(JOBS.list(asked.query, records.collect(), links)?));
    };
    let record = records.into_iter().find(|record| record["uuid"] == uuid);
    Ok(RestResponse::ok(JOBS.one(asked.query, &record.ok_or_else(|| RestError::missing("uuid"))?, links)?))
}
