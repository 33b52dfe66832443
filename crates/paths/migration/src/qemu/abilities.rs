//! The abilities of a QEMU binary, read from the binary: its migration's capabilities, parameters and methods.
//!
//! `query-qmp-schema` describes every command and type of the binary (docs/devel/qapi-code-gen.rst, "Client JSON
//! Protocol introspection"), so no table of versions is needed here.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::method::{Method, NoMethod};
use crate::settings::{SystemSettings, ZeroPages};

/// The reason why a QEMU does not support the settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unable {
    #[error(transparent)]
    NoMethod(#[from] NoMethod),
    #[error("QEMU {version} has no migration capability `{capability}`")]
    Capability { version: String, capability: &'static str },
    #[error(
        "this QEMU {version} was built without `{name}`: its multifd-compression knows {known}; install a build that has it and \
         name it in `system.program`"
    )]
    Method { version: String, name: &'static str, known: String },
    #[error("QEMU {version} has no migration parameter `{parameter}`")]
    Parameter { version: String, parameter: &'static str },
    #[error("QEMU {version} always looks for zero pages: it has no parameter `zero-page-detection`")]
    ZeroPages { version: String },
}

/// The parameters of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Abilities {
    /// Such as `7.2.22`.
    pub version: String,
    pub capabilities: BTreeSet<String>,
    pub parameters: BTreeSet<String>,
    /// Values of `multifd-compression`.
    pub methods: Vec<String>,
    /// Values of `zero-page-detection`; empty if QEMU lacks the parameter.
    pub zero_page_modes: Vec<String>,
}

impl Abilities {
    /// Reads the binary's answers to `query-qmp-schema` and `query-migrate-capabilities`.
    pub(super) fn from_answers(version: String, schema: &Value, capabilities: &Value) -> Self {
        let entities: HashMap<&str, &Value> =
            array(schema).iter().filter_map(|entity| Some((entity["name"].as_str()?, entity))).collect();
        let entity = |name: &Value| name.as_str().and_then(|name| entities.get(name).copied());
        let command = entities.get("migrate-set-parameters").copied();
        let arguments = command.and_then(|command| entity(&command["arg-type"]));
        let members = arguments.map_or(&[][..], |arguments| array(&arguments["members"]));
        let values = |parameter: &str| -> Vec<String> {
            let member = members.iter().find(|member| member["name"] == parameter);
            let kind = member.and_then(|member| entity(&member["type"]));
            kind.map_or_else(Vec::new, |kind| texts(array(&kind["values"]).iter()).collect())
        };
        Self {
            version,
            capabilities: texts(array(capabilities).iter().map(|entry| &entry["capability"])).collect(),
            parameters: texts(members.iter().map(|member| &member["name"])).collect(),
            methods: values("multifd-compression"),
            zero_page_modes: values("zero-page-detection"),
        }
    }

    /// Checks whether this QEMU supports the settings.
    ///
    /// # Errors
    /// When it does not.
    pub(super) fn suffice(&self, system: &SystemSettings) -> Result<(), Unable> {
        let version = || self.version.clone();
        for capability in ["multifd", "return-path", "events"] {
            if !self.capabilities.contains(capability) {
                return Err(Unable::Capability { version: version(), capability });
            }
        }
        let method = Method::for_codec(&system.codec)?;
        if !self.methods.iter().any(|known| known == method.name) {
            return Err(Unable::Method {
                version: version(),
                name: method.name,
                known: self.methods.join(", "),
            });
        }
        if let Some((parameter, _)) = method.level
            && !self.parameters.contains(parameter)
        {
            return Err(Unable::Parameter { version: version(), parameter });
        }
        if system.zero_pages == ZeroPages::Send && self.zero_page_mode(ZeroPages::Send).is_none() {
            return Err(Unable::ZeroPages { version: version() });
        }
        Ok(())
    }

    /// The best of this QEMU's values for the requested detection; `None` if it has no choice.
    pub(super) fn zero_page_mode(&self, asked: ZeroPages) -> Option<&'static str> {
        let ways: &[&'static str] = match asked {
            ZeroPages::Detect => &["multifd", "legacy"],
            ZeroPages::Send => &["none"],
        };
        ways.iter().copied().find(|way| self.zero_page_modes.iter().any(|known| known == way))
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts<'v>(values: impl Iterator<Item = &'v Value>) -> impl Iterator<Item = String> {
    values.filter_map(|value| value.as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(methods: &[&str], with_zero_pages: bool) -> Value {
        let mut members = vec![
            json!({ "name": "multifd-compression", "type": "3" }),
            json!({ "name": "multifd-zstd-level", "type": "int" }),
        ];
        if with_zero_pages {
            members.push(json!({ "name": "zero-page-detection", "type": "4" }));
        }
        json!([
            { "name": "migrate-set-parameters", "meta-type": "command", "arg-type": "2" },
            { "name": "2", "meta-type": "object", "members": members },
            { "name": "3", "meta-type": "enum", "values": methods },
            { "name": "4", "meta-type": "enum", "values": ["none", "legacy", "multifd"] },
            { "name": "int", "meta-type": "builtin" },
        ])
    }

    fn capabilities() -> Value {
        json!([{ "capability": "multifd", "state": false }, { "capability": "return-path", "state": false },
            { "capability": "events", "state": false }])
    }

    #[test]
    fn methods_and_parameters_are_read_through_the_schemas_references() {
        let old = Abilities::from_answers(
            "7.2.22".to_owned(),
            &schema(&["none", "zlib", "zstd"], false),
            &capabilities(),
        );
        assert_eq!(old.methods, ["none", "zlib", "zstd"]);
        assert_eq!(old.zero_page_mode(ZeroPages::Detect), None);
        let new =
            Abilities::from_answers("10.0.2".to_owned(), &schema(&["none", "qpl"], true), &capabilities());
        assert_eq!(new.zero_page_mode(ZeroPages::Detect), Some("multifd"));
        assert_eq!(new.zero_page_mode(ZeroPages::Send), Some("none"));
        assert!(new.parameters.contains("multifd-zstd-level"));
    }

    #[test]
    fn what_a_binary_cannot_do_is_one_sentence() {
        let read = |capabilities: &Value| {
            Abilities::from_answers("7.2.22".to_owned(), &schema(&["none"], false), capabilities)
        };
        let mut spec = SystemSettings::default();
        assert_eq!(read(&capabilities()).suffice(&spec), Ok(()));
        let without = read(&json!([])).suffice(&spec).unwrap_err().to_string();
        assert_eq!(without, "QEMU 7.2.22 has no migration capability `multifd`");
        spec.zero_pages = ZeroPages::Send;
        let always = read(&capabilities()).suffice(&spec).unwrap_err().to_string();
        assert_eq!(
            always,
            "QEMU 7.2.22 always looks for zero pages: it has no parameter `zero-page-detection`"
        );
    }

    #[test]
    fn a_schema_that_is_none_has_nothing() {
        let nothing = Abilities::from_answers(String::new(), &json!("strange"), &json!(3));
        assert!(
            nothing.methods.is_empty() && nothing.capabilities.is_empty() && nothing.parameters.is_empty()
        );
    }
}
