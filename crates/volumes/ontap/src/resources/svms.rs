//! `/api/svm/svms`: the SVMs that volumes and policies belong to. They are made by `plumb volumes svm create`.

use serde_json::json;

use crate::answer::RestResponse;
use crate::asked::Asked;
use crate::fault::RestError;
use crate::fields::{FieldKind, read};
use crate::query::Collection;

pub const SVMS: Collection = Collection {
    path: "/api/svm/svms",
    fields: &[read("uuid", FieldKind::Text), read("name", FieldKind::Text), read("state", FieldKind::Text)],
    always: &["uuid", "name"],
};

pub fn get(asked: &Asked<'_>, uuid: Option<&str>) -> Result<RestResponse, RestError> {
    let rows = asked.state.svms()?;
    let records = rows.iter().map(|row| json!({ "uuid": row.uuid, "name": row.name, "state": "running" }));
    let links = asked.request.with_links;
    let Some(uuid) = uuid else {
        return Ok(RestResponse::ok(SVMS.list(asked.query, records.collect(), links)?));
    };
    let record = records.into_iter().find(|record| record["uuid"] == uuid);
    Ok(RestResponse::ok(SVMS.one(asked.query, &record.ok_or_else(|| RestError::missing("uuid"))?, links)?))
}
