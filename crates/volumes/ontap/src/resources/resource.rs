//! The common part of all resources: a list, one object, and the three ways to change objects, one at a time or all that a query
//! finds.

use plumb_volumes::state::State;
use serde_json::{Value, json};

use crate::answer::{RestResponse, links};
use crate::asked::{Asked, Method};
use crate::fault::{self, RestError};
use crate::fields::{Body, Field};
use crate::query::{Collection, Page, Query};

/// The path of the jobs, to which the answer to a change links.
pub const JOBS_PATH: &str = "/api/cluster/jobs";

/// The objects below a path of the interface.
pub struct Resource {
    pub collection: Collection,
    /// Every object, with every field.
    pub records: fn(&Asked<'_>) -> Result<Vec<Value>, RestError>,
    /// `None` for objects that clients can only read.
    pub changes: Option<Changes>,
}

/// How clients change the objects of a resource.
pub struct Changes {
    /// The fields of a body that makes an object, or else changes one.
    pub settable: fn(bool) -> Vec<Field>,
    /// Makes the object that a body describes, and returns its name.
    pub make: fn(&State, &Body) -> Result<String, RestError>,
    /// Changes the object with that UUID.
    pub change: fn(&State, &str, &Body) -> Result<(), RestError>,
    /// Deletes the object with that UUID, and returns the file to remove once the change is committed.
    pub delete: fn(&State, &str) -> Result<Option<String>, RestError>,
}

impl Resource {
    /// Answers a request for the object with a UUID, or for those that the query finds.
    pub fn answer(
        &self,
        asked: &Asked<'_>,
        method: Method,
        uuid: Option<&str>,
    ) -> Result<RestResponse, RestError> {
        let changes = || self.changes.as_ref().ok_or_else(not_allowed);
        match (method, uuid) {
            (Method::Get, uuid) => self.get(asked, uuid),
            (Method::Post, None) => self.make(asked, changes()?),
            (Method::Post, Some(_)) => Err(not_allowed()),
            (Method::Patch, uuid) => {
                let changes = changes()?;
                let body = Body::of_change(asked.request.body, &(changes.settable)(false))?;
                let change = |state: &State, uuid: &str| (changes.change)(state, uuid, &body).map(|()| None);
                self.alter(asked, "PATCH", uuid, change)
            }
            (Method::Delete, uuid) => self.alter(asked, "DELETE", uuid, changes()?.delete),
        }
    }

    fn get(&self, asked: &Asked<'_>, uuid: Option<&str>) -> Result<RestResponse, RestError> {
        let (records, links) = ((self.records)(asked)?, asked.request.with_links);
        let Some(uuid) = uuid else {
            return Ok(RestResponse::ok(self.collection.list(asked.query, records, links)?));
        };
        let record = records.into_iter().find(|record| record["uuid"] == uuid);
        let record = record.ok_or_else(|| RestError::missing("uuid"))?;
        Ok(RestResponse::ok(self.collection.one(asked.query, &record, links)?))
    }

    fn make(&self, asked: &Asked<'_>, changes: &Changes) -> Result<RestResponse, RestError> {
        let body = Body::parse(asked.request.body, &(changes.settable)(true))?;
        let (job, record) = recorded(asked, "POST", |state| {
            let name = (changes.make)(state, &body)?;
            let record = (self.records)(asked)?.into_iter().find(|record| record["name"] == name);
            record.ok_or_else(|| RestError::missing("name"))
        })?;
        done(asked, &job, Some((&self.collection, record)))
    }

    fn alter(
        &self,
        asked: &Asked<'_>,
        what: &str,
        uuid: Option<&str>,
        work: impl Fn(&State, &str) -> Result<Option<String>, RestError>,
    ) -> Result<RestResponse, RestError> {
        let (answer, files) = match uuid {
            None => each(self, asked, what, work)?,
            Some(uuid) => {
                let (job, file) = recorded(asked, what, |state| work(state, uuid))?;
                (done(asked, &job, None)?, vec![file])
            }
        };
        // The change is committed.
        files.iter().flatten().for_each(|file| asked.state.remove_file(file));
        Ok(answer)
    }
}

/// The answer to a method that a resource does not have.
pub fn not_allowed() -> RestError {
    RestError::new(405, fault::UNSUPPORTED, "The operation is not supported on this resource")
}

/// Makes a change and its job, both or neither. Returns the job's UUID and the result of `work`.
fn recorded<T>(
    asked: &Asked<'_>,
    what: &str,
    work: impl FnOnce(&State) -> Result<T, RestError>,
) -> Result<(String, T), RestError> {
    let state = asked.state;
    state.atomically(|| {
        let done = work(state)?;
        let path = asked.request.path.trim_end_matches('/');
        Ok((state.add_job(&format!("{what} {path}"))?, done))
    })
}

/// The answer to a change, which is complete by then: a client that does not wait gets a job that has succeeded.
fn done(asked: &Asked<'_>, job: &str, made: Option<(&Collection, Value)>) -> Result<RestResponse, RestError> {
    let makes = made.is_some();
    let options = asked.query.options(makes)?;
    let mut body = json!({ "job": { "uuid": job } });
    if asked.request.with_links {
        body["job"]["_links"] = links(&format!("{JOBS_PATH}/{job}"));
    }
    let mut location = None;
    if let Some((collection, record)) = made {
        let uuid = record["uuid"].as_str().unwrap_or_default();
        location = Some(format!("{}/{uuid}", collection.path));
        if options.return_records {
            body["num_records"] = json!(1);
            let all = Query::parse("")?;
            body["records"] = json!([collection.one(&all, &record, asked.request.with_links)?]);
        }
    }
    let status = match (options.wait, makes) {
        (false, _) => 202,
        (true, true) => 201,
        (true, false) => 200,
    };
    Ok(RestResponse { status, body, location })
}

/// Does the same with every record that the query finds, one after the other, and returns the results of `work`.
///
/// Either all changes are made or none, unless the query says `continue_on_failure`: then each is made by itself, and the answer
/// lists in ONTAP's words those that failed. (ONTAP undoes nothing in either case, but a default should not leave half a change.)
fn each(
    Resource { collection, records, .. }: &Resource,
    asked: &Asked<'_>,
    what: &str,
    work: impl Fn(&State, &str) -> Result<Option<String>, RestError>,
) -> Result<(RestResponse, Vec<Option<String>>), RestError> {
    let state = asked.state;
    let goes_on = asked.query.found_options(collection)?;
    let one = |record: &Value| {
        let uuid = record["uuid"].as_str().unwrap_or_default();
        let done = work(state, uuid).map_err(|fault| {
            let reason = fault.message.trim_end_matches('.');
            RestError {
                message: format!("{what} of record \"uuid: {uuid}\" failed. Reason: {reason}."),
                ..fault
            }
        })?;
        state.add_job(&format!("{what} {}/{uuid}", collection.path))?;
        Ok::<_, RestError>(done)
    };
    let (page, outcomes) = if goes_on {
        let page = collection.page(asked.query, records(asked)?)?;
        let outcomes: Vec<_> = page.records.iter().map(|record| state.atomically(|| one(record))).collect();
        (page, outcomes)
    } else {
        state.atomically(|| {
            let page = collection.page(asked.query, records(asked)?)?;
            let outcomes = page.records.iter().map(|record| one(record).map(Ok));
            let outcomes = outcomes.collect::<Result<Vec<_>, RestError>>()?;
            Ok::<_, RestError>((page, outcomes))
        })?
    };
    let after = records(asked)?;
    let (mut changed, mut faults, mut results) = (Vec::new(), Vec::new(), Vec::new());
    for (before, outcome) in page.records.into_iter().zip(outcomes) {
        match outcome {
            Ok(result) => {
                let now = after.iter().find(|record| record["uuid"] == before["uuid"]);
                changed.push(now.cloned().unwrap_or(before));
                results.push(result);
            }
            Err(fault) => faults.push(fault),
        }
    }
    let page = Page { records: changed, next: page.next };
    let body = collection.body(asked.query, &page, asked.request.with_links, false)?;
    Ok((RestResponse::of_several(body, &faults), results))
}
