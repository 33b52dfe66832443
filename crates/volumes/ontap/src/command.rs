//! ONTAP's commands for policies and volumes, on the same state as the REST interface:
//!
//! ```text
//! qos policy-group create|modify -policy-group A -vserver B -max-throughput 500iops,100MB/s -is-shared false
//! qos adaptive-policy-group create|modify -policy-group A -vserver B -expected-iops 5IOPS/GB -peak-iops 50IOPS/GB …
//! qos policy-group|adaptive-policy-group delete -policy-group A -force true
//! qos policy-group|adaptive-policy-group show -policy-group A
//! qos policy-group|adaptive-policy-group rename -policy-group A -new-name D
//! volume create|modify|delete|show -vserver B -volume C -size 100GB -qos-policy-group A
//! volume rename -vserver B -volume C -newname D
//! ```
//!
//! Options and their values are those of NetApp's command reference; one that is not known is an error, and so is one that is missing.
//! A policy that volumes are under is deleted with `-force`, whose `true` may be left out; without it, the command refuses, which
//! the REST interface does not.

use std::collections::BTreeMap;

use plumb_volumes::policy::{Adaptive, Fixed, Policy, Space};
use plumb_volumes::state::{PolicyRow, State, VolumeRow};

use crate::fault::{self, RestError};
use crate::fields::size_bytes;
use crate::resources::policies;
use crate::resources::volumes::NO_POLICY;
use crate::throughput::{Throughput, before_unit};

/// GB in a TB.
const GB_PER_TB: u64 = 1 << 10;

/// Does what a command says; what it answers is for people, and empty where nothing is to be said.
///
/// # Errors
/// When the command is none, or what it asks for cannot be; then nothing is changed.
pub fn run(state: &State, command: &str) -> Result<String, RestError> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let options_at = words.iter().position(|word| word.starts_with('-')).unwrap_or(words.len());
    let (verb, rest) = words.split_at(options_at);
    let mut options = Options::parse(rest)?;
    let done = state.atomically(|| {
        let said = match *verb {
            ["qos", "policy-group", "create"] => create(state, &mut options, fixed),
            ["qos", "adaptive-policy-group", "create"] => create(state, &mut options, adaptive),
            ["qos", "policy-group", "modify"] => modify(state, &mut options, fixed),
            ["qos", "adaptive-policy-group", "modify"] => modify(state, &mut options, adaptive),
            ["qos", "policy-group" | "adaptive-policy-group", "delete"] => delete(state, &mut options),
            ["qos", "policy-group" | "adaptive-policy-group", "rename"] => rename(state, &mut options),
            ["qos", "policy-group", "show"] => show(state, &mut options, "fixed"),
            ["qos", "adaptive-policy-group", "show"] => show(state, &mut options, "adaptive"),
            ["volume", "create"] => create_volume(state, &mut options),
            ["volume", "modify"] => modify_volume(state, &mut options),
            ["volume", "rename"] => rename_volume(state, &mut options),
            ["volume", "delete"] => delete_volume(state, &mut options),
            ["volume", "show"] => show_volumes(state, &mut options),
            _ => Err(unknown(&verb.join(" "))),
        }?;
        options.end()?;
        Ok::<_, RestError>(said)
    })?;
    if let Some(file) = done.deleted {
        state.remove_file(&file);
    }
    Ok(done.said)
}

/// A command's output, and the file to remove once the change is committed.
#[derive(Default)]
struct Done {
    said: String,
    deleted: Option<String>,
}

impl Done {
    fn quietly() -> Self {
        Self::default()
    }

    fn saying(lines: &[String]) -> Self {
        Self { said: lines.join("\n"), deleted: None }
    }
}

fn unknown(verb: &str) -> RestError {
    let known = "qos policy-group and qos adaptive-policy-group create, modify, rename, delete, show; volume create, modify, rename, \
                 delete, show";
    RestError::bad(fault::UNSUPPORTED, format!("\"{verb}\" is not a recognized command; there are {known}"))
}

/// An option that says all by being there.
const FLAG: &str = "force";

/// `-name value` pairs that nobody has taken yet.
struct Options<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Options<'a> {
    fn parse(words: &[&'a str]) -> Result<Self, RestError> {
        let mut options = BTreeMap::new();
        let mut words = words.iter().peekable();
        while let Some(word) = words.next() {
            let name = word.strip_prefix('-').ok_or_else(|| RestError::unexpected(word))?;
            let value = words.next_if(|value| !value.starts_with('-')).copied();
            let value = value.or_else(|| (name == FLAG).then_some("true")).ok_or_else(|| {
                RestError::bad(fault::REQUIRED, format!("-{name} needs a value")).about(name)
            })?;
            if options.insert(name, value.trim_matches('"')).is_some() {
                return Err(RestError::bad(fault::TWICE, format!("-{name} was specified twice")).about(name));
            }
        }
        Ok(Self(options))
    }

    fn take(&mut self, name: &str) -> Option<&'a str> {
        self.0.remove(name)
    }

    fn need(&mut self, name: &str) -> Result<&'a str, RestError> {
        let missing = || RestError::bad(fault::REQUIRED, format!("-{name} is required")).about(name);
        self.take(name).ok_or_else(missing)
    }

    /// A value through a reader that knows what the value must be.
    fn read_as<T>(
        &mut self,
        name: &str,
        due: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, RestError> {
        let Some(text) = self.take(name) else { return Ok(None) };
        read(text).map(Some).ok_or_else(|| RestError::value(name, text, due))
    }

    fn end(&self) -> Result<(), RestError> {
        self.0.keys().next().map_or(Ok(()), |name| Err(RestError::unexpected(&format!("-{name}"))))
    }
}

/// Reads a policy from options, on top of what it was.
type Reader = fn(Option<&Policy>, &mut Options<'_>) -> Result<Policy, RestError>;

fn create(state: &State, options: &mut Options<'_>, read: Reader) -> Result<Done, RestError> {
    let (name, svm) = (options.need("policy-group")?, options.need("vserver")?);
    let policy = read(None, options)?;
    policies::check(&policy)?;
    policies::create_named(state, svm, name, &policy)?;
    Ok(Done::quietly())
}

fn modify(state: &State, options: &mut Options<'_>, read: Reader) -> Result<Done, RestError> {
    let row = policy_named(state, options.need("policy-group")?)?;
    let policy = read(Some(&row.policy), options)?;
    policies::check(&policy)?;
    state.change_policy(&row.name, &policy)?;
    Ok(Done::quietly())
}

fn rename(state: &State, options: &mut Options<'_>) -> Result<Done, RestError> {
    let (row, new) = (policy_named(state, options.need("policy-group")?)?, options.need("new-name")?);
    state.rename_policy(&row.name, new)?;
    Ok(Done::quietly())
}

fn delete(state: &State, options: &mut Options<'_>) -> Result<Done, RestError> {
    let row = policy_named(state, options.need("policy-group")?)?;
    if options.read_as(FLAG, "true", |text| (text == "true").then_some(()))?.is_some() {
        state.release_volumes(&row.name)?;
    }
    state.delete_policy(&row.name)?;
    Ok(Done::quietly())
}

fn show(state: &State, options: &mut Options<'_>, kind: &str) -> Result<Done, RestError> {
    let wanted = options.take("policy-group");
    let rows = state.policies()?;
    let rows = rows.iter().filter(|row| wanted.is_none_or(|name| name == row.name));
    let lines = rows.map(|row| (row, policies::limits_of(&row.policy))).filter(|(_, (of, _))| *of == kind);
    let lines: Vec<String> =
        lines.map(|(row, (_, limits))| format!("{}  {}  {limits}", row.name, row.svm)).collect();
    Ok(Done::saying(&lines))
}

fn policy_named(state: &State, name: &str) -> Result<PolicyRow, RestError> {
    let row = state.policies()?.into_iter().find(|row| row.name == name);
    row.ok_or_else(|| RestError::missing("policy-group"))
}

fn fixed(before: Option<&Policy>, options: &mut Options<'_>) -> Result<Policy, RestError> {
    let mut fixed = match before {
        None => Fixed::default(),
        Some(Policy::Fixed(fixed)) => *fixed,
        Some(Policy::Adaptive(_)) => {
            return Err(RestError::bad(fault::POLICY_STAYS_ADAPTIVE, "it is an adaptive policy group"));
        }
    };
    if let Some(Throughput { iops, bytes_per_s }) =
        options.read_as("max-throughput", Throughput::DUE, Throughput::parse)?
    {
        (fixed.max_iops, fixed.max_bytes_per_s) = (iops, bytes_per_s);
    }
    if let Some(Throughput { iops, bytes_per_s }) =
        options.read_as("min-throughput", Throughput::DUE, Throughput::parse)?
    {
        (fixed.min_iops, fixed.min_bytes_per_s) = (iops, bytes_per_s);
    }
    let flag = |text: &str| text.parse::<bool>().ok();
    match (options.read_as("is-shared", "true|false", flag)?, before) {
        (Some(shared), Some(_)) if shared != fixed.capacity_shared => {
            return Err(RestError::read_only("is-shared"));
        }
        (Some(shared), _) => fixed.capacity_shared = shared,
        // The command's default, which is not that of the REST interface.
        (None, None) => fixed.capacity_shared = true,
        (None, Some(_)) => {}
    }
    Ok(Policy::Fixed(fixed))
}

fn adaptive(before: Option<&Policy>, options: &mut Options<'_>) -> Result<Policy, RestError> {
    let mut adaptive = match before {
        None => Adaptive::new(
            options
                .read_as("expected-iops", "5IOPS/GB", iops_per_tb)?
                .ok_or_else(|| required("expected-iops"))?,
            options.read_as("peak-iops", "50IOPS/GB", iops_per_tb)?.ok_or_else(|| required("peak-iops"))?,
        ),
        Some(Policy::Adaptive(adaptive)) => *adaptive,
        Some(Policy::Fixed(_)) => {
            return Err(RestError::bad(fault::POLICY_STAYS_FIXED, "it is not an adaptive policy group"));
        }
    };
    if let Some(iops) = options.read_as("expected-iops", "5IOPS/GB", iops_per_tb)? {
        adaptive.expected_iops_per_tb = iops;
    }
    if let Some(iops) = options.read_as("peak-iops", "50IOPS/GB", iops_per_tb)? {
        adaptive.peak_iops_per_tb = iops;
    }
    if let Some(iops) = options.read_as("absolute-min-iops", "100IOPS", iops)? {
        adaptive.absolute_min_iops = iops;
    }
    let due = "allocated-space|used-space";
    if let Some(space) = options.read_as("expected-iops-allocation", due, space)? {
        adaptive.expected_iops_allocation = space;
    }
    if let Some(space) = options.read_as("peak-iops-allocation", due, space)? {
        adaptive.peak_iops_allocation = space;
    }
    if let Some(bytes) = options.read_as("block-size", "any|4K|8K|16K|32K|64K|128K", block_size)? {
        adaptive.block_bytes = bytes;
    }
    Ok(Policy::Adaptive(adaptive))
}

fn required(name: &str) -> RestError {
    RestError::bad(fault::REQUIRED, format!("-{name} is required")).about(name)
}

fn create_volume(state: &State, options: &mut Options<'_>) -> Result<Done, RestError> {
    let (svm, name) = (options.need("vserver")?, options.need("volume")?);
    let size = options.read_as("size", "100GB", size_bytes)?.ok_or_else(|| required("size"))?;
    let policy = policy_option(options)?.flatten();
    // There is one pool of space.
    options.take("aggregate");
    state.create_volume_of(svm, name, size, policy)?;
    Ok(Done::quietly())
}

fn modify_volume(state: &State, options: &mut Options<'_>) -> Result<Done, RestError> {
    let row = volume_named(state, options)?;
    if let Some(size) = options.read_as("size", "100GB", size_bytes)? {
        state.resize_volume(&row.name, size)?;
    }
    if let Some(policy) = policy_option(options)? {
        state.assign_policy(&row.name, policy)?;
    }
    Ok(Done::quietly())
}

fn rename_volume(state: &State, options: &mut Options<'_>) -> Result<Done, RestError> {
    let (row, new) = (volume_named(state, options)?, options.need("newname")?);
    state.rename_volume(&row.name, new)?;
    Ok(Done::quietly())
}

fn delete_volume(state: &State, options: &mut Options<'_>) -> Result<Done, RestError> {
    let row = volume_named(state, options)?;
    Ok(Done { said: String::new(), deleted: Some(state.forget_volume(&row.name)?) })
}

fn show_volumes(state: &State, options: &mut Options<'_>) -> Result<Done, RestError> {
    let (svm, name) = (options.take("vserver"), options.take("volume"));
    let rows = state.volumes()?;
    let rows = rows
        .iter()
        .filter(|row| svm.is_none_or(|svm| svm == row.svm) && name.is_none_or(|name| name == row.name));
    let line = |row: &VolumeRow| {
        let policy = row.policy.as_deref().unwrap_or(NO_POLICY);
        format!("{}  {}  {} B  {policy}", row.name, row.svm, row.size_bytes)
    };
    Ok(Done::saying(&rows.map(line).collect::<Vec<_>>()))
}

fn volume_named(state: &State, options: &mut Options<'_>) -> Result<VolumeRow, RestError> {
    let (svm, name) = (options.need("vserver")?, options.need("volume")?);
    let row = state.volumes()?.into_iter().find(|row| row.name == name && row.svm == svm);
    row.ok_or_else(|| RestError::missing("volume"))
}

/// The policy that either of the two options names; `Some(None)` for none.
fn policy_option<'a>(options: &mut Options<'a>) -> Result<Option<Option<&'a str>>, RestError> {
    match (options.take("qos-policy-group"), options.take("qos-adaptive-policy-group")) {
        (Some(_), Some(_)) => {
            let message = "-qos-policy-group and -qos-adaptive-policy-group exclude each other";
            Err(RestError::bad(fault::CONTEXT, message).about("qos-adaptive-policy-group"))
        }
        (one, other) => Ok(one.or(other).map(|name| Some(name).filter(|name| *name != NO_POLICY))),
    }
}

/// `100IOPS`, or `100`.
fn iops(text: &str) -> Option<u64> {
    text.parse().ok().or_else(|| before_unit(text, "iops"))
}

/// `5IOPS/GB` or `5120IOPS/TB`; a number alone is per TB.
fn iops_per_tb(text: &str) -> Option<u64> {
    let per_gb = before_unit(text, "iops/gb").and_then(|iops| iops.checked_mul(GB_PER_TB));
    per_gb.or_else(|| before_unit(text, "iops/tb")).or_else(|| text.parse().ok())
}

fn space(text: &str) -> Option<Space> {
    match text {
        "allocated-space" => Some(Space::AllocatedSpace),
        "used-space" => Some(Space::UsedSpace),
        _ => None,
    }
}

fn block_size(text: &str) -> Option<Option<u64>> {
    let text = text.to_ascii_lowercase();
    if text == "any" {
        return Some(None);
    }
    policies::block_bytes(&text).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> (tempfile::TempDir, State) {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        (directory, state)
    }

    #[test]
    fn the_published_command_makes_what_it_says() {
        let (_directory, state) = state();
        let command = "qos adaptive-policy-group create -policy-group aQoS -vserver nfs_svm -expected-iops 5IOPS/GB \
                       -peak-iops 50IOPS/GB -peak-iops-allocation allocated-space";
        assert_eq!(run(&state, command).unwrap(), "");
        let expected =
            Adaptive { peak_iops_allocation: Space::AllocatedSpace, ..Adaptive::new(5_120, 51_200) };
        assert_eq!(state.policies().unwrap()[0].policy, Policy::Adaptive(expected));
        assert_eq!(run(&state, command).unwrap_err().code, fault::POLICY_EXISTS);
        run(
            &state,
            "qos adaptive-policy-group modify -policy-group aQoS -absolute-min-iops 75 -block-size 4K",
        )
        .unwrap();
        let expected = Adaptive { absolute_min_iops: 75, block_bytes: Some(4_096), ..expected };
        assert_eq!(state.policies().unwrap()[0].policy, Policy::Adaptive(expected));
    }

    #[test]
    fn volumes_are_made_moved_and_deleted() {
        let (_directory, state) = state();
        run(
            &state,
            "qos policy-group create -policy-group gold -vserver nfs_svm -max-throughput 500iops,100MB/s",
        )
        .unwrap();
        let gold = Fixed {
            max_iops: Some(500),
            max_bytes_per_s: Some(100 << 20),
            capacity_shared: true,
            ..Fixed::default()
        };
        assert_eq!(state.policies().unwrap()[0].policy, Policy::Fixed(gold));
        run(&state, "volume create -vserver nfs_svm -volume v1 -size 1GB -qos-policy-group gold").unwrap();
        assert_eq!(run(&state, "volume show").unwrap(), "v1  nfs_svm  1073741824 B  gold");
        assert_eq!(
            run(&state, "qos policy-group delete -policy-group gold").unwrap_err().code,
            fault::IN_USE
        );
        run(&state, "volume modify -vserver nfs_svm -volume v1 -size 2GB -qos-policy-group none").unwrap();
        assert_eq!(run(&state, "volume show -volume v1").unwrap(), "v1  nfs_svm  2147483648 B  none");
        run(&state, "volume rename -vserver nfs_svm -volume v1 -newname v2").unwrap();
        run(&state, "qos policy-group rename -policy-group gold -new-name silver").unwrap();
        assert_eq!(run(&state, "volume show").unwrap(), "v2  nfs_svm  2147483648 B  none");
        run(&state, "volume modify -vserver nfs_svm -volume v2 -qos-policy-group silver").unwrap();
        let delete = "qos policy-group delete -policy-group silver";
        assert_eq!(run(&state, delete).unwrap_err().code, fault::IN_USE);
        assert_eq!(run(&state, &format!("{delete} -force false")).unwrap_err().code, fault::VALUE);
        run(&state, &format!("{delete} -force true")).unwrap();
        assert_eq!(run(&state, "volume show").unwrap(), "v2  nfs_svm  2147483648 B  none");
        let adaptive = "qos adaptive-policy-group create -policy-group a -vserver nfs_svm -expected-iops 5 -peak-iops 50";
        run(&state, adaptive).unwrap();
        run(&state, "volume modify -vserver nfs_svm -volume v2 -qos-adaptive-policy-group a").unwrap();
        run(&state, "qos adaptive-policy-group delete -force -policy-group a").unwrap();
        assert_eq!(run(&state, "volume show").unwrap(), "v2  nfs_svm  2147483648 B  none");
        run(&state, "volume delete -vserver nfs_svm -volume v2").unwrap();
        assert_eq!(run(&state, "qos policy-group show").unwrap(), "");
    }

    #[test]
    fn a_wrong_command_changes_nothing() {
        let (_directory, state) = state();
        let create = "qos policy-group create -policy-group a -vserver nfs_svm";
        for (command, code) in [
            (String::new(), fault::UNSUPPORTED),
            ("qos policy-group destroy".to_owned(), fault::UNSUPPORTED),
            ("qos policy-group create -policy-group a".to_owned(), fault::REQUIRED),
            (format!("{create} -max-throughput"), fault::REQUIRED),
            (format!("{create} -max-throughput lots"), fault::VALUE),
            (format!("{create} -max-throughput 1iops,2iops"), fault::VALUE),
            (format!("{create} -max-throughput 5iops -min-throughput 6iops"), fault::POLICY_MIN_OVER_MAX),
            (format!("{create} -max-throughput 5iops -colour red"), fault::UNEXPECTED),
            (format!("{create} -max-throughput 5iops -vserver nfs_svm"), fault::TWICE),
            (format!("{create} 5iops"), fault::UNEXPECTED),
            (format!("{create} -max-throughput 5iops").replace("nfs_svm", "other"), fault::NO_SVM),
            (
                "volume create -vserver nfs_svm -volume v -size 1GB -qos-policy-group nope".to_owned(),
                fault::MISSING,
            ),
            ("volume modify -vserver nfs_svm -volume v -size 1GB".to_owned(), fault::MISSING),
        ] {
            assert_eq!(run(&state, &command).unwrap_err().code, code, "{command}");
        }
        assert!(state.policies().unwrap().is_empty() && state.volumes().unwrap().is_empty());
    }
}
