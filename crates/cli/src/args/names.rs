//! Values that are one of many names.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command};

/// Parses one of many names; shells complete them. An error suggests similar names, because there are too many to list.
#[derive(Clone)]
pub(super) struct NameParser {
    pub(super) names: Vec<&'static str>,
    /// Names similar to an unknown one.
    pub(super) near: fn(&str) -> Vec<&'static str>,
}

impl TypedValueParser for NameParser {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let name = value.to_string_lossy();
        if self.names.contains(&&*name) {
            return Ok(name.into_owned());
        }
        let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
        let arg = arg.map(Arg::to_string).unwrap_or_default();
        error.insert(ContextKind::InvalidArg, ContextValue::String(arg));
        error.insert(ContextKind::InvalidValue, ContextValue::String(name.to_string()));
        let near: Vec<String> = (self.near)(&name).into_iter().map(str::to_owned).collect();
        if !near.is_empty() {
            error.insert(ContextKind::SuggestedValue, ContextValue::Strings(near));
        }
        Err(error)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.names.iter().map(PossibleValue::new)))
    }
}
