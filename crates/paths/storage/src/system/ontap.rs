//! A volume of an ONTAP array (or of whatever speaks its REST interface) under a QoS policy that is made for the run.
//!
//! Every variant's system makes its own policy and removes it again. All variants share the one volume, so the load puts it under its
//! variant's policy before each slot ([`apply`]); what the array says of it is read back when the window opens and when it closes.
//!
//! The names of the policies on the array record what to put back: `plumb_RUN_of_VOLUME_was_POLICY`. So the next start finds it
//! even if this host was switched off in between.

mod client;

use std::collections::BTreeMap;

use plumb_model::{ArrayVolume, Evidence, facts, statements};
use plumb_path::family::{ArrayAccess, ArrayPolicy};
use plumb_path::{PathError, Snapshot, System};
use serde_json::{Value, json};

use self::client::Client;
use crate::settings::StorageTarget;
use crate::settings::ontap::{Assignment, OntapSettings, described};

const POLICIES: &str = "/api/storage/qos/policies";
const VOLUMES: &str = "/api/storage/volumes";
const NO_POLICY: &str = "none";
const NAME_CHARACTERS_MAX: usize = 127;
/// The variant without a policy has one in name only, under which no volume ever is.
const UNUSED_IOPS: u64 = 1_000_000;
const ASSIGNED: &str = "policy";
const LIMITS: &str = "limits";

statements! {
    POLICY = "array-policy": "policy of the volume {of}, read back from the array", "{asked}", "{seen}";
}

/// A policy on an array, and a volume that is put under it.
#[derive(Debug)]
pub struct Array {
    client: Client,
    spec: OntapSettings,
    path: String,
    volume_uuid: String,
    /// The volume's policy before the run.
    original: String,
    /// The policy that was made.
    own: String,
    is_stopped: bool,
}

impl Array {
    /// Makes the policy, and finds out what has to be put back.
    pub fn start(spec: &OntapSettings, path: &str) -> Result<Self, PathError> {
        let client = Client::new(spec)?;
        let (svm, volume) = (encoded(&spec.svm), encoded(&spec.volume));
        let found = client.get(&format!("{VOLUMES}?svm.name={svm}&name={volume}&fields=qos.policy.name"))?;
        let record = &found["records"][0];
        let Some(volume_uuid) = record["uuid"].as_str().map(str::to_owned) else {
            return Err(PathError::new(format!(
                "find the volume {} of {} on {}: there is none",
                spec.volume, spec.svm, spec.url
            )));
        };
        let assigned = record["qos"]["policy"]["name"].as_str().unwrap_or(NO_POLICY);
        let ours = made_for(&client, &spec.svm, &spec.volume)?;
        let original = ours.iter().find_map(|(name, _)| original_in(name, &spec.volume));
        let original = original.unwrap_or(assigned).to_owned();
        let own = name_for(&spec.volume, &original)?;
        let mut body = match &spec.policy {
            Some(policy) => policy.body().map_err(|fault| PathError::new(fault.message))?,
            None => json!({ "fixed": { "capacity_shared": false, "max_throughput_iops": UNUSED_IOPS } }),
        };
        body["name"] = json!(own);
        body["svm"] = json!({ "name": spec.svm });
        let mut array = Self {
            client,
            spec: spec.clone(),
            path: path.to_owned(),
            volume_uuid,
            original,
            own,
            is_stopped: false,
        };
        array.client.post(POLICIES, &body)?;
        // Removes what a killed run left together with this run's policies, once the volume has left its policy.
        let proved = apply_with(&array.client, &array.assignment()).and_then(|()| array.snapshot());
        proved.map(|_| array)
    }

    fn assignment(&self) -> Assignment {
        let policy = if self.spec.policy.is_some() { self.own.as_str() } else { NO_POLICY };
        Assignment { volume_uuid: self.volume_uuid.clone(), policy: policy.to_owned() }
    }

    fn put_back(&mut self) -> Result<(), PathError> {
        if std::mem::replace(&mut self.is_stopped, true) {
            return Ok(());
        }
        let original = Assignment { volume_uuid: self.volume_uuid.clone(), policy: self.original.clone() };
        apply_with(&self.client, &original)?;
        for (name, uuid) in made_for(&self.client, &self.spec.svm, &self.spec.volume)? {
            let path = format!("{POLICIES}/{uuid}");
            if name == self.own {
                self.client.delete(&path)?;
            } else if !is_of_this_run(&name) {
                // What a killed run left: another variant's system may just have removed it.
                let _ = self.client.delete(&path);
            }
        }
        Ok(())
    }
}

impl System for Array {
    fn target(&self) -> Value {
        json!(StorageTarget {
            assignment: Some(self.assignment()),
            ..StorageTarget::existing(self.path.as_str())
        })
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        let fields = "fields=qos.policy.name,qos.policy.uuid";
        let volume = self.client.get(&format!("{VOLUMES}/{}?{fields}", self.volume_uuid))?;
        let assigned = &volume["qos"]["policy"];
        let mut states = BTreeMap::new();
        let name = assigned["name"].as_str().unwrap_or(NO_POLICY);
        states.insert(ASSIGNED.to_owned(), name.to_owned());
        let limits = match assigned["uuid"].as_str() {
            None => "no policy".to_owned(),
            Some(uuid) => {
                let policy = self.client.get(&format!("{POLICIES}/{uuid}?fields=fixed,adaptive"))?;
                described(&as_asked(&policy, &self.spec))
            }
        };
        states.insert(LIMITS.to_owned(), limits);
        Ok(Snapshot { states, ..Snapshot::default() })
    }

    fn stop(&mut self) -> Result<(), PathError> {
        self.put_back()
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        // A caller that wants to hear of it has called `stop`.
        let _ = self.put_back();
    }
}

/// Puts the volume under the policy of the slot that comes.
///
/// # Errors
/// When the array does not answer or refuses.
pub fn apply(spec: &OntapSettings, assignment: &Assignment) -> Result<(), PathError> {
    apply_with(&Client::new(spec)?, assignment)
}

/// Reads the policy of a volume that the run does not manage.
///
/// # Errors
/// When the array does not answer, or has no such volume.
pub fn policy_of(array: &ArrayAccess, volume: &ArrayVolume) -> Result<ArrayPolicy, PathError> {
    let client = Client::for_array(array)?;
    let (svm, name) = (encoded(&volume.svm), encoded(&volume.name));
    let fields = "qos.policy.name,qos.policy.uuid";
    let found = client.get(&format!("{VOLUMES}?svm.name={svm}&name={name}&fields={fields}"))?;
    let Some(record) = found["records"].get(0) else {
        let ArrayVolume { svm, name } = volume;
        return Err(PathError::new(format!(
            "find the volume {name} of {svm} on {}: there is none",
            array.url
        )));
    };
    let assigned = &record["qos"]["policy"];
    let limits = match assigned["uuid"].as_str() {
        None => described(&Value::Null),
        Some(uuid) => {
            described(&limits_of(&client.get(&format!("{POLICIES}/{uuid}?fields=fixed,adaptive"))?))
        }
    };
    Ok(ArrayPolicy { name: assigned["name"].as_str().unwrap_or(NO_POLICY).to_owned(), limits })
}

/// The limits of a policy, fixed or adaptive.
fn limits_of(policy: &Value) -> Value {
    let kind = if policy["adaptive"].is_object() { "adaptive" } else { "fixed" };
    json!({ kind: policy[kind] })
}

fn apply_with(client: &Client, assignment: &Assignment) -> Result<(), PathError> {
    let body = json!({ "qos": { "policy": { "name": assignment.policy } } });
    client.patch(&format!("{VOLUMES}/{}", assignment.volume_uuid), &body)
}

/// Proof that the volume was under what was asked for, by what the array said when the window opened and when it closed.
pub fn evidence(spec: &OntapSettings, before: &Snapshot, after: &Snapshot) -> Evidence {
    let asked = spec.asked();
    let said =
        |snapshot: &Snapshot| snapshot.states.get(LIMITS).cloned().unwrap_or_else(|| "nothing".to_owned());
    let (opened, closed) = (said(before), said(after));
    let holds = opened == asked && closed == asked;
    let seen = if opened == closed { opened } else { format!("{opened}, later {closed}") };
    POLICY.evidence(holds, facts![of = spec.volume.as_str(), asked, seen])
}

/// The array's values of the fields that were asked for.
fn as_asked(policy: &Value, spec: &OntapSettings) -> Value {
    let asked = spec.policy.as_ref().and_then(|policy| policy.body().ok()).unwrap_or(Value::Null);
    let kind = if policy["adaptive"].is_object() { "adaptive" } else { "fixed" };
    let fields = policy[kind].as_object().cloned().unwrap_or_default();
    // Of a policy of another kind everything is shown, since nothing of it was asked for.
    let kept =
        fields.into_iter().filter(|(name, _)| asked[kind].get(name).is_some() || !asked[kind].is_object());
    json!({ kind: kept.collect::<serde_json::Map<_, _>>() })
}

/// The policies that this program made for a volume: names and UUIDs.
fn made_for(client: &Client, svm: &str, volume: &str) -> Result<Vec<(String, String)>, PathError> {
    let pattern = encoded(&format!("plumb_*_of_{volume}_was_*"));
    let found = client.get(&format!("{POLICIES}?svm.name={}&name={pattern}", encoded(svm)))?;
    let records = found["records"].as_array().into_iter().flatten();
    let pair =
        |record: &Value| Some((record["name"].as_str()?.to_owned(), record["uuid"].as_str()?.to_owned()));
    Ok(records.filter_map(pair).filter(|(name, _)| original_in(name, volume).is_some()).collect())
}

/// A name that no other process chooses, and that says what has to be put back.
fn name_for(volume: &str, original: &str) -> Result<String, PathError> {
    let name = format!("plumb_{}x{:x}_of_{volume}_was_{original}", run(), std::process::id());
    if name.len() <= NAME_CHARACTERS_MAX {
        return Ok(name);
    }
    Err(PathError::new(format!(
        "name a policy for the volume {volume}: `{name}`, which says what to put back, is longer than ONTAP's {NAME_CHARACTERS_MAX} characters"
    )))
}

/// A number that all systems of a run share: the process that started them.
fn run() -> String {
    format!("{:x}", std::os::unix::process::parent_id())
}

fn is_of_this_run(name: &str) -> bool {
    name.starts_with(&format!("plumb_{}x", run()))
}

/// The policy that the volume was under before, read from a policy's name.
fn original_in<'a>(name: &'a str, volume: &str) -> Option<&'a str> {
    let (_, rest) = name.strip_prefix("plumb_")?.split_once('_')?;
    rest.strip_prefix("of_")?.strip_prefix(volume)?.strip_prefix("_was_")
}

/// Text as part of a query (RFC 3986); `*` stays what it means to ONTAP.
fn encoded(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'*');
    let encode = |byte: u8| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::ontap::OntapPolicy;

    #[test]
    fn names_say_what_to_put_back() {
        let name = name_for("vol_1", "gold_of_vol_1_was_x").unwrap();
        assert_eq!(original_in(&name, "vol_1"), Some("gold_of_vol_1_was_x"));
        assert_eq!(original_in(&name, "vol"), None);
        assert!(is_of_this_run(&name) && !is_of_this_run("plumb_0x0_of_vol_1_was_none"));
        assert_eq!(original_in("gold", "vol_1"), None);
        assert!(name_for("v", &"x".repeat(120)).is_err());
        assert_eq!(encoded("a b&c*"), "a%20b%26c*");
    }

    #[test]
    fn what_the_array_says_otherwise_is_no_evidence() {
        let policy = OntapPolicy { max_iops: Some(plumb_model::Rate(500.0)), ..OntapPolicy::default() };
        let spec = OntapSettings { policy: Some(policy), ..OntapSettings::default() };
        let said = |max: u64| {
            let policy = json!({ "name": "x", "fixed": { "capacity_shared": false, "max_throughput_iops": max,
                                                         "min_throughput_iops": 7 } });
            let states = BTreeMap::from([(LIMITS.to_owned(), described(&as_asked(&policy, &spec)))]);
            Snapshot { states, ..Snapshot::default() }
        };
        let holds = |before: &Snapshot, after: &Snapshot| evidence(&spec, before, after).holds;
        assert!(holds(&said(500), &said(500)));
        assert!(!holds(&said(500), &said(600)) && !holds(&said(600), &said(500)));
        assert!(!holds(&Snapshot::default(), &Snapshot::default()));
    }
}
