//! The arguments of `plumb audit`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::TypedValueParser;
use plumb_readers::audit::Rule;

use super::names::NameParser;

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
        value_parser = rule(),
        conflicts_with_all = ["files", "experiment", "json"]
    )]
    pub explain: Option<Rule>,
}

fn rule() -> impl TypedValueParser<Value = Rule> {
    let named = |name: String| Rule::from_name(&name).ok_or_else(|| format!("no rule is named `{name}`"));
    NameParser { names: Rule::NAMES.to_vec(), near: Rule::near }.try_map(named)
}
