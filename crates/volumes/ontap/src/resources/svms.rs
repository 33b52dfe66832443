//! `/api/svm/svms`: the SVMs that volumes and policies belong to. They are made by `plumb volumes svm create`.

use serde_json::{Value, json};

use super::resource::Resource;
use crate::asked::Asked;
use crate::fault::RestError;
use crate::fields::{FieldKind, read_only};
use crate::query::Collection;

pub static SVMS: Resource = Resource {
    collection: Collection {
        path: "/api/svm/svms",
        fields: &[
            read_only("uuid", FieldKind::Text),
            read_only("name", FieldKind::Text),
            read_only("state", FieldKind::Text),
        ],
        always: &["uuid", "name"],
    },
    records,
    changes: None,
};

fn records(asked: &Asked<'_>) -> Result<Vec<Value>, RestError> {
    let rows = asked.state.svms()?;
    let records = rows.iter().map(|row| json!({ "uuid": row.uuid, "name": row.name, "state": "running" }));
    Ok(records.collect())
}
