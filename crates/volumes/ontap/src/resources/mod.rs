//! What there is: policies, volumes, SVMs, and the jobs that changed them.

pub mod jobs;
pub mod policies;
pub mod svms;
pub mod volumes;

use plumb_volumes::state::{State, SvmRow};
use serde_json::{Value, json};

use crate::answer::{RestResponse, links};
use crate::asked::Asked;
use crate::fault::{self, RestError};
use crate::fields::Body;
use crate::query::{Collection, Page};

/// The SVM that a body names, by name, UUID, or both.
fn svm_of(state: &State, body: &Body) -> Result<String, RestError> {
    let (name, uuid) = (body.text("svm.name"), body.text("svm.uuid"));
    let rows = state.svms()?;
    let find = |what: &str, is_it: &dyn Fn(&SvmRow) -> bool, target: &str| {
        let message = format!("SVM \"{what}\" does not exist.");
        let found = rows.iter().find(|row| is_it(row)).map(|row| row.name.clone());
        found.ok_or_else(|| RestError::new(404, fault::NO_SVM, message).about(target))
    };
    let by_name = name.map(|name| find(name, &|row| row.name == name, "svm.name")).transpose()?;
    let by_uuid =
        uuid.map(|uuid| find(uuid, &|row| row.uuid.eq_ignore_ascii_case(uuid), "svm.uuid")).transpose()?;
    match (by_name, by_uuid) {
        (Some(name), Some(other)) if name != other => {
            let message = "The specified \"svm.uuid\" and \"svm.name\" do not refer to the same SVM.";
            Err(RestError::bad(fault::TWO_SVMS, message).about("svm.uuid"))
        }
        (Some(name), _) | (None, Some(name)) => Ok(name),
        (None, None) => {
            let message = "No SVM was specified. Either \"svm.name\" or \"svm.uuid\" must be supplied.";
            Err(RestError::bad(fault::WHICH_SVM, message).about("svm.name"))
        }
    }
}

fn svm_record(svms: &[SvmRow], name: &str) -> Value {
    let uuid = svms.iter().find(|svm| svm.name == name).map(|svm| svm.uuid.as_str());
    json!({ "name": name, "uuid": uuid })
}

/// A change and the memory of it, both or neither; `work` returns what else the caller wants to know.
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

/// The answer to a change. Everything is done by then; a client that does not wait is told of a job that succeeded.
fn done(asked: &Asked<'_>, job: &str, made: Option<(&Collection, Value)>) -> Result<RestResponse, RestError> {
    let makes = made.is_some();
    let options = asked.query.options(makes)?;
    let mut body = json!({ "job": { "uuid": job } });
    if asked.request.with_links {
        body["job"]["_links"] = links(&format!("{}/{job}", jobs::JOBS.path));
    }
    let mut location = None;
    if let Some((collection, record)) = made {
        let uuid = record["uuid"].as_str().unwrap_or_default();
        location = Some(format!("{}/{uuid}", collection.path));
        if options.return_records {
            body["num_records"] = json!(1);
            let all = crate::query::Query::parse("")?;
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

/// Does the same with every record that the query finds, one after the other, and returns what each came to.
///
/// Either all of it is done or none, unless the query says `continue_on_failure`: then each is done on its own, and what
/// could not be is listed in ONTAP's words. (ONTAP undoes nothing in either case; doing half by default is not a service.)
fn each<T>(
    asked: &Asked<'_>,
    collection: &Collection,
    what: &str,
    records: impl Fn() -> Result<Vec<Value>, RestError>,
    work: impl Fn(&State, &str) -> Result<T, RestError>,
) -> Result<(RestResponse, Vec<T>), RestError> {
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
        let page = collection.page(asked.query, records()?)?;
        let outcomes: Vec<_> = page.records.iter().map(|record| state.atomically(|| one(record))).collect();
        (page, outcomes)
    } else {
        state.atomically(|| {
            let page = collection.page(asked.query, records()?)?;
            let outcomes = page.records.iter().map(|record| one(record).map(Ok));
            let outcomes = outcomes.collect::<Result<Vec<_>, RestError>>()?;
            Ok::<_, RestError>((page, outcomes))
        })?
    };
    let after = records()?;
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
