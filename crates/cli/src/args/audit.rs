//! The arguments of `plumb audit`.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, Command};
use plumb_audit::Rule;

/// `plumb audit`.
#[derive(Debug, Args)]
pub struct AuditArguments {
    /// Text files with tool outputs or tables, such as a README; `-` reads standard input.
    #[arg(required_unless_present = "explain", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the experiment that would settle the question to this file.
    #[arg(long, value_name = "FILE")]
    pub experiment: Option<PathBuf>,
    /// Print the findings as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Print what a rule checks and where it comes from, without reading a file. Each finding ends with the name of its rule.
    #[arg(
        long,
        value_name = "RULE",
        hide_possible_values = true,
        value_parser = RuleParser,
        conflicts_with_all = ["files", "experiment", "json"]
    )]
    pub explain: Option<Rule>,
}

/// Parses the name of a rule; shells complete the names. An error suggests similar names, because there are too many to list.
#[derive(Clone)]
struct RuleParser;

impl TypedValueParser for RuleParser {
    type Value = Rule;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Rule, clap::Error> {
        let name = value.to_string_lossy();
        Rule::from_name(&name).ok_or_else(|| {
            let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
            let arg = arg.map(Arg::to_string).unwrap_or_default();
            error.insert(ContextKind::InvalidArg, ContextValue::String(arg));
            error.insert(ContextKind::InvalidValue, ContextValue::String(name.to_string()));
            let near: Vec<String> = Rule::near(&name).into_iter().map(str::to_owned).collect();
            if !near.is_empty() {
                error.insert(ContextKind::SuggestedValue, ContextValue::Strings(near));
            }
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Rule::NAMES.iter().map(PossibleValue::new)))
    }
}
