//! A system of another data path as the command finds it: each text and number of its target is a placeholder, `{system.url}`, and
//! an environment variable, `PLUMB_URL`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use plumb_path::PathError;
use serde_json::Value;

use crate::settings::CommandSettings;

/// The beginning of placeholders.
const PLACE: &str = "system.";
/// The end of the names of fields with a certificate, which are written to files because tools take files.
const PEM: &str = "_pem";
/// The field with the network namespace in which the load has to run.
const NETNS: &str = "netns";

/// The settings with the values of parameters, and with what the system's target says, in their places.
///
/// # Errors
/// When a command asks for what the target does not have, or a file cannot be written.
pub(crate) fn aimed(
    settings: &CommandSettings,
    target: &Value,
    scratch: &Path,
) -> Result<CommandSettings, PathError> {
    let mut fields = fields(target, scratch)?;
    let mut settings = settings.clone();
    settings.load.netns = fields.remove(NETNS).map(PathBuf::from);
    for (name, value) in &fields {
        let variable = format!("PLUMB_{}", name.to_ascii_uppercase());
        settings.load.env.entry(variable).or_insert_with(|| value.clone());
        settings.load.parameters.insert(format!("{PLACE}{name}"), value.clone());
    }
    let aimed = settings.resolved();
    let open = aimed.commands().find_map(|command| open_place(command)).map(str::to_owned);
    match open {
        Some(place) if fields.is_empty() => Err(PathError::load(format!(
            "run `{}`: `{place}` stands for a part of a system of another data path, and `system.path` names none",
            settings.load.command
        ))),
        Some(place) => {
            let known: Vec<String> = fields.keys().map(|name| format!("`{{{PLACE}{name}}}`")).collect();
            Err(PathError::load(format!(
                "run `{}`: the system has no `{place}`; it has {}",
                settings.load.command,
                known.join(", ")
            )))
        }
        None => Ok(aimed),
    }
}

/// Texts and numbers by name; what is a certificate becomes a file.
fn fields(target: &Value, scratch: &Path) -> Result<BTreeMap<String, String>, PathError> {
    let mut fields = BTreeMap::new();
    for (name, value) in target.as_object().into_iter().flatten() {
        match (value, name.strip_suffix(PEM)) {
            (Value::String(pem), Some(stem)) => {
                let file = scratch.join(format!("{stem}.pem"));
                std::fs::write(&file, pem)
                    .map_err(|cause| PathError::load(format!("write {}: {cause}", file.display())))?;
                fields.insert(format!("{stem}_file"), file.display().to_string());
            }
            (Value::String(text), None) => drop(fields.insert(name.clone(), text.clone())),
            (Value::Number(number), _) => drop(fields.insert(name.clone(), number.to_string())),
            _ => {}
        }
    }
    Ok(fields)
}

/// A placeholder for a part of a system that is still in a command.
fn open_place(command: &str) -> Option<&str> {
    let mut rest = command;
    while let Some(start) = rest.find("{system.") {
        rest = &rest[start..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let end = rest[1..].find(|c| !is_name(c)).map_or(rest.len(), |end| end + 1);
        if rest[end..].starts_with('}') {
            return Some(&rest[..=end]);
        }
        rest = &rest[end..];
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn aim(command: &str, target: &Value) -> Result<CommandSettings, String> {
        let scratch = tempfile::tempdir().unwrap();
        let mut settings = CommandSettings::default();
        settings.load.command = command.to_owned();
        settings.load.parameters.insert("n".to_owned(), "5".to_owned());
        aimed(&settings, target, scratch.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_command_finds_the_system_by_placeholders_and_by_variables() {
        let target =
            json!({ "url": "http://127.0.0.1:1/", "port": 1, "ca_pem": "PEM", "limit": {}, "group": null });
        let aimed = aim("ab -n {n} {system.url}", &target).unwrap().load;
        assert_eq!(aimed.command, "ab -n 5 http://127.0.0.1:1/");
        let variables: Vec<&str> = aimed.env.keys().map(String::as_str).collect();
        assert_eq!(variables, ["PLUMB_CA_FILE", "PLUMB_PORT", "PLUMB_URL"]);
        assert!(aimed.env["PLUMB_CA_FILE"].ends_with("/ca.pem"), "{:?}", aimed.env);
    }

    #[test]
    fn a_command_runs_in_the_network_of_the_system() {
        let target = json!({ "address": "10.0.0.2", "port": 5201, "netns": "/proc/1/fd/7", "apart": null });
        let aimed = aim("iperf3 -c {system.address} -p {system.port}", &target).unwrap().load;
        assert_eq!(aimed.command, "iperf3 -c 10.0.0.2 -p 5201");
        assert_eq!(aimed.netns, Some(PathBuf::from("/proc/1/fd/7")));
        assert!(aim("ls {system.netns}", &target).is_err());
    }

    #[test]
    fn what_the_system_does_not_have_is_refused_and_code_in_braces_is_not() {
        let target = json!({ "url": "http://127.0.0.1:1/" });
        let refused = aim("ab {system.uri}", &target).unwrap_err();
        assert_eq!(refused, "run `ab {system.uri}`: the system has no `{system.uri}`; it has `{system.url}`");
        let none = aim("ab {system.url}", &Value::Null).unwrap_err();
        assert!(none.ends_with("and `system.path` names none"), "{none}");
        assert!(aim("awk '{system.x; y}'", &target).is_ok());
    }
}
