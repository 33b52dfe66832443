//! `plumb volumes`: volumes under QoS policies, served by NBD.

mod access;
mod csi;
mod serve;

use std::path::Path;
use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::{ByteRate, Bytes, Rate};
use plumb_volumes::nbd::Address;
use plumb_volumes::policy::{Adaptive, Fixed, Policy};
use plumb_volumes::state::{PolicyRow, State, VolumeRow};
use serde_json::{Value, json};

use crate::args::volumes::{PolicyArguments, PolicyCommand, VolumesArguments, VolumesCommand};
use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

/// How long a running server may take to put a change into effect; it looks several times a second.
const CONFIRMATION_NS: u64 = 5_000_000_000;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Does one of the things that there are to do with volumes.
pub fn volumes(arguments: &VolumesArguments) -> Outcome {
    let directory = &arguments.state;
    if let VolumesCommand::Serve(serve) = &arguments.command {
        return serve::serve(directory, serve);
    }
    if let VolumesCommand::Csi(csi) = &arguments.command {
        return csi::csi(directory, csi);
    }
    let state = State::open(directory).map_err(Failure::harness)?;
    let done = match &arguments.command {
        VolumesCommand::Serve(_) | VolumesCommand::Csi(_) => Ok(()),
        VolumesCommand::List { json } => return list_volumes(&state, *json),
        VolumesCommand::Create { name, size, policy } => {
            state.create_volume(name, size.0, policy.as_deref()).inspect(|()| say_unit(*size))
        }
        VolumesCommand::Resize { name, size } => {
            state.resize_volume(name, size.0).inspect(|()| say_unit(*size))
        }
        VolumesCommand::Assign { name, policy } => {
            if !State::is_served(directory) {
                output::message("no server runs on this state: the policy takes effect when one starts");
            }
            state.assign_policy(name, Some(policy.as_str()).filter(|policy| *policy != "none"))
        }
        VolumesCommand::Delete { name } => state.delete_volume(name),
        VolumesCommand::Policy(PolicyCommand::List { json }) => return list_policies(&state, *json),
        VolumesCommand::Policy(PolicyCommand::Create(policy)) => {
            state.create_policy(&policy.name, &defined(policy)?)
        }
        VolumesCommand::Policy(PolicyCommand::Change(policy)) => {
            state.change_policy(&policy.name, &defined(policy)?)
        }
        VolumesCommand::Policy(PolicyCommand::Delete { name }) => state.delete_policy(name),
        VolumesCommand::Svm(svm) => return access::svm(&state, svm),
        VolumesCommand::User(user) => return access::user(&state, user),
        VolumesCommand::Ontap { command } => return access::ontap(&state, &command.join(" ")),
    };
    done?;
    await_server(directory, monotonic_ns());
    Ok(HOLDS)
}

/// Returns when a running server has put a change into effect that was committed by `changed_ns`.
fn await_server(directory: &Path, changed_ns: u64) {
    let has_followed =
        || report_of(directory).and_then(|report| report["followed_ns"].as_u64()) > Some(changed_ns);
    let until_ns = changed_ns.saturating_add(CONFIRMATION_NS);
    while State::is_served(directory) && !has_followed() {
        if monotonic_ns() > until_ns {
            return output::message(&format!(
                "warning: the change is saved, but the running server did not confirm it within {} s. `plumb volumes list` \
                 shows the limits in effect",
                CONFIRMATION_NS / 1_000_000_000
            ));
        }
        sleep(LOOK_EVERY);
    }
}

fn say_unit(size: Bytes) {
    if let Some(note) = about_unit(size) {
        output::message(&note);
    }
}

/// A size that was given in powers of ten is another one to ONTAP's clients, which say GB for 2^30 bytes.
fn about_unit(size: Bytes) -> Option<String> {
    let is_in_powers_of_ten = size.0.is_multiple_of(1_000_000) && !size.0.is_multiple_of(1 << 20);
    is_in_powers_of_ten.then(|| {
        format!(
            "note: {size} are {} bytes; in ONTAP's REST interface and commands a GB is 2^30 bytes, so write GiB for a size that \
             is the same in both",
            size.0
        )
    })
}

fn defined(arguments: &PolicyArguments) -> Result<Policy, Failure> {
    let iops = |rate: Option<Rate>| rate.map(|rate| whole(rate.0)).transpose();
    let bytes = |rate: Option<ByteRate>| rate.map(|rate| whole(rate.0)).transpose();
    let Some(peak) = arguments.peak_iops else {
        return Ok(Policy::Fixed(Fixed {
            min_iops: iops(arguments.min_iops)?,
            max_iops: iops(arguments.max_iops)?,
            min_bytes_per_s: bytes(arguments.min_bandwidth)?,
            max_bytes_per_s: bytes(arguments.max_bandwidth)?,
            capacity_shared: arguments.shared,
        }));
    };
    Ok(Policy::Adaptive(Adaptive {
        absolute_min_iops: whole(arguments.absolute_min_iops.0)?,
        expected_iops_allocation: arguments.expected_iops_allocation.into(),
        peak_iops_allocation: arguments.peak_iops_allocation.into(),
        block_bytes: arguments.block_size.map(|size| size.0),
        ..Adaptive::new(arguments.expected_iops, peak)
    }))
}

/// Limits are whole operations and bytes.
fn whole(rate: f64) -> Result<u64, Failure> {
    let is_whole = (0.0..1e15).contains(&rate) && (rate == 0.0 || rate >= 1.0);
    is_whole
        .then(|| rate.round() as u64)
        .ok_or_else(|| Failure::usage(format!("a rate of {rate} per second: it must be from 1 to 10^15")))
}

fn list_volumes(state: &State, as_json: bool) -> Outcome {
    let served = report_of(state.directory());
    let volumes = state.volumes().map_err(Failure::harness)?;
    let reported = |row: &VolumeRow| -> Option<&Value> {
        served.as_ref()?.get("volumes")?.as_array()?.iter().find(|volume| volume["uuid"] == row.uuid)
    };
    let address = served.as_ref().and_then(|report| report["address"].as_str()?.parse::<Address>().ok());
    let uri = |row: &VolumeRow| address.as_ref().map(|address| address.uri(&row.name));
    if as_json {
        let row = |row: &VolumeRow| {
            let serving = reported(row);
            json!({ "name": row.name, "uuid": row.uuid, "size_bytes": row.size_bytes, "policy": row.policy,
                    "uri": uri(row),
                    "used_bytes": serving.map(|it| &it["used_bytes"]), "limits": serving.map(|it| &it["limits"]),
                    "account": serving.map(|it| &it["account"]) })
        };
        let rows: Vec<_> = volumes.iter().map(row).collect();
        output::json(&json!({ "format": "plumbline.volumes/1", "volumes": rows }))?;
        return Ok(HOLDS);
    }
    for row in &volumes {
        let policy = row.policy.as_deref().unwrap_or("none");
        let limits = reported(row).map_or_else(|| "not served".to_owned(), |it| limits_text(&it["limits"]));
        let uri = uri(row).map_or_else(String::new, |uri| format!("  {uri}"));
        output::result(&format!("{}  {}  policy {policy}  {limits}{uri}", row.name, Bytes(row.size_bytes)))?;
    }
    Ok(HOLDS)
}

fn list_policies(state: &State, as_json: bool) -> Outcome {
    let policies = state.policies().map_err(Failure::harness)?;
    let row = |row: &PolicyRow| json!({ "name": row.name, "uuid": row.uuid, "policy": row.policy });
    if as_json {
        let rows: Vec<_> = policies.iter().map(row).collect();
        output::json(&json!({ "format": "plumbline.volume-policies/1", "policies": rows }))?;
        return Ok(HOLDS);
    }
    for row in &policies {
        output::result(&format!("{}  {}", row.name, json!(row.policy)))?;
    }
    Ok(HOLDS)
}

fn limits_text(limits: &Value) -> String {
    let iops = limits["iops"].as_u64().map(|iops| format!("{iops} IOPS"));
    let bytes = limits["bytes_per_s"].as_u64().map(|bytes| ByteRate(bytes as f64).to_string());
    let parts: Vec<String> = iops.into_iter().chain(bytes).collect();
    if parts.is_empty() { "unlimited".to_owned() } else { parts.join(", ") }
}

/// A running server's report; `None` where none runs.
fn report_of(directory: &Path) -> Option<Value> {
    let is_served = State::is_served(directory);
    let text = std::fs::read_to_string(directory.join(serve::REPORT_FILE)).ok()?;
    is_served.then(|| serde_json::from_str(&text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use plumb_volumes::policy::Space;

    use super::*;
    use crate::args::{Arguments, Command as Which};
    use crate::in_process::refusals;

    fn policy(line: &str) -> Policy {
        let line = format!("plumb volumes --state /nowhere policy create p {line}");
        let Which::Volumes(volumes) = Arguments::try_parse_from(line.split_whitespace()).unwrap().command
        else {
            panic!("{line}")
        };
        let VolumesCommand::Policy(PolicyCommand::Create(policy)) = volumes.command else { panic!("{line}") };
        defined(&policy).unwrap()
    }

    #[test]
    fn an_adaptive_policy_is_by_size_unless_it_is_told_otherwise() {
        let by_size =
            Adaptive { peak_iops_allocation: Space::AllocatedSpace, ..Adaptive::new(5_498, 54_976) };
        assert_eq!(policy("--peak-iops 50IOPS/GB --expected-iops 5IOPS/GB"), Policy::Adaptive(by_size));
        assert_eq!(
            policy("--peak-iops 50IOPS/GB --peak-iops-allocation used-space"),
            Policy::Adaptive(Adaptive::new(0, 54_976))
        );
    }

    #[test]
    fn what_a_state_does_not_take_is_refused_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().to_str().unwrap();
        State::open(directory.path()).unwrap().create_volume("vol1", 4096, None).unwrap();
        std::fs::write(directory.path().join("empty"), "").unwrap();
        let said =
            |rest: &[&str]| refusals(&[&[&["volumes", "--state", state], rest].concat()]).replace(state, "…");
        insta::assert_snapshot!(said(&["create", "vol1", "--size", "1GB"]), @"2 failed to create the volume `vol1`: one of that name exists already");
        insta::assert_snapshot!(said(&["ontap", "qos", "policy-group", "create", "-policy-group", "a"]), @"2 -vserver is required (ONTAP's error 262212)");
        let serve = ["serve", "--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0"];
        insta::assert_snapshot!(said(&serve), @"2 failed to serve the REST interface: it has no users; `plumb volumes user set NAME` adds one");
        let empty = directory.path().join("empty");
        let set = ["user", "set", "admin", "--password-file", empty.to_str().unwrap()];
        insta::assert_snapshot!(said(&set), @"2 the password is empty; it is the first line of standard input or of --password-file");
        let device = ["user", "set", "admin", "--password-file", "/dev/null"];
        insta::assert_snapshot!(said(&device), @"2 failed to read /dev/null: it is a character device, not a file");
        State::open(directory.path()).unwrap().set_user("admin", "x").unwrap();
        let none = directory.path().join("none.pem");
        let keys = ["--certificate", none.to_str().unwrap(), "--key", none.to_str().unwrap()];
        insta::assert_snapshot!(said(&[&serve[..], &keys].concat()), @"2 failed to read …/none.pem: No such file or directory (os error 2)");
    }

    #[test]
    fn a_size_that_is_another_one_to_ontap_is_told() {
        insta::assert_snapshot!(about_unit(Bytes(100_000_000_000)).unwrap(), @"note: 100 GB are 100000000000 bytes; in ONTAP's REST interface and commands a GB is 2^30 bytes, so write GiB for a size that is the same in both");
        assert_eq!(about_unit(Bytes(100 << 30)), None);
    }
}
