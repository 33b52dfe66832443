//! The resources: policies, volumes, SVMs, and the jobs that changed them.

pub mod jobs;
pub mod policies;
pub mod resource;
pub mod svms;
pub mod volumes;

use plumb_volumes::state::{State, SvmRow};
use serde_json::{Value, json};

use crate::fault::{self, RestError};
use crate::fields::Body;

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
