//! The arguments of `plumb command`. Flags carry the names of the experiment file's keys, with the short forms of hyperfine.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Args};
use plumb_command::CommandSettings;
use plumb_model::Percent;
use plumb_path::DataPath;

use super::error::ArgumentError;
use super::keys::{Flagged, Keys, key, time};
use super::shared::MeasurementArguments;

/// `plumb command`.
#[derive(Debug, Args)]
pub struct CommandArguments {
    /// The measurement's settings, for each command.
    #[command(flatten)]
    pub keys: Keys<CommandSettings>,
    /// Values for `{NAME}` in all commands, separated by commas. Of one command, each value is a variant, and of several
    /// commands, each value is a cell; may be given more than once.
    #[arg(long, short = 'P', value_name = "NAME=VALUE,…", value_parser = parameter)]
    pub parameter: Vec<Parameter>,
    /// Accept every exit code.
    #[arg(long, short = 'i', conflicts_with = "load.exit")]
    pub ignore_failure: bool,
    /// The name of a command in the report and in the run directory, in the order of the commands; may be given more than once.
    #[arg(long, short = 'n', value_name = "NAME")]
    pub name: Vec<String>,
    /// How closely the ratio of each command to the first is to be known; the comparison ends when it is. If absent, it ends when one is
    /// known to be faster, or the ratio is known within 2%.
    #[arg(long, value_name = "PERCENT")]
    pub within: Option<Percent>,
    /// Exactly this many blocks instead of 6 to 12; each block measures every command twice.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub blocks: Option<u32>,
    /// The share of CPU time that other processes may use in a comparison; above it in half of the slots, its times are void.
    #[arg(long, default_value = "10%", value_name = "PERCENT")]
    pub others_max: Percent,
    /// The seed of the random orders; a new one is drawn and printed if absent.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// The run directory of a comparison; `plumb-runs/command-TIME` if absent.
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write the comparison as an experiment to this new file, and do not run it.
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
    /// How it is shown.
    #[command(flatten)]
    pub shown: MeasurementArguments,
}

/// A parameter with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// The name.
    pub name: String,
    /// The values, at least one.
    pub values: Vec<String>,
}

fn parameter(text: &str) -> Result<Parameter, ArgumentError> {
    let (name, values) = text.split_once('=').ok_or(ArgumentError::NoValues)?;
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    match values.iter().enumerate().find(|(at, value)| values[..*at].contains(value)) {
        Some((_, twice)) => Err(ArgumentError::Twice(twice.clone())),
        None => Ok(Parameter { name: name.to_owned(), values }),
    }
}

impl Flagged for CommandSettings {
    const PATH: DataPath = plumb_command::COMMAND;

    fn flags() -> Vec<Arg> {
        let colon = |text: &str| match text.split_once('=') {
            Some((name, value)) => Ok(format!("{name}: {value}")),
            None => Err("write `NAME=VALUE`".to_owned()),
        };
        vec![
            Arg::new("load.command")
                .value_name("CMD")
                .required(true)
                .num_args(1..)
                .action(ArgAction::Append)
                .hide_default_value(true)
                .help("The command, quoted as one argument; two or more are compared with the first"),
            key("load.shell", "none|sh").short('S'),
            time("load.duration")
                .short('d')
                .hide_default_value(true)
                .help("How long to run the command again and again; 3 s if it is the only one, 1 s in each slot of a comparison"),
            time("load.warmup").short('w'),
            key("load.runs", "N").short('r'),
            time("load.timeout"),
            key("load.setup", "CMD").short('s'),
            key("load.prepare", "CMD").short('p'),
            key("load.cleanup", "CMD").short('c'),
            key("load.exit", "CODE").value_delimiter(','),
            key("load.env", "NAME=VALUE").action(ArgAction::Append).value_parser(colon),
            key("load.inherit", "NAME").action(ArgAction::Append).value_delimiter(','),
            key("load.directory", "DIR"),
            key("system.start", "CMD"),
            key("system.ready", "CMD"),
            key("system.stop", "CMD"),
        ]
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use plumb_command::{CommandSettings, Exits, Shell};

    use super::*;
    use crate::args::{Arguments, Command as Which};

    fn arguments(line: &str) -> CommandArguments {
        let parsed =
            Arguments::try_parse_from(line.split('|')).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Which::Programs(arguments) = parsed.command else { panic!("{line}") };
        *arguments
    }

    #[test]
    fn flags_make_the_settings_of_each_command() {
        let found = arguments(
            "plumb|command|a 1|b|--shell|sh|-r|5|--exit|0,3|--env|A=b=c|--inherit|X,Y|-s|make|--start|serve|-d|2",
        );
        let every: Vec<CommandSettings> = found.keys.every().unwrap();
        let commands: Vec<&str> = every.iter().map(|settings| settings.load.command.as_str()).collect();
        assert_eq!(commands, ["a 1", "b"]);
        let load = &every[1].load;
        assert_eq!((load.shell, load.runs, &load.exit), (Shell::Sh, Some(5), &Exits::Codes(vec![0, 3])));
        assert_eq!((load.env["A"].as_str(), load.inherit.len()), ("b=c", 2));
        assert_eq!(load.setup.as_deref(), Some("make"));
        assert_eq!(every[0].system.start.as_deref(), Some("serve"));
        assert_eq!(load.duration, plumb_model::Span(2_000_000_000));
    }

    #[test]
    fn a_parameter_has_a_name_and_values() {
        let found = arguments("plumb|command|sleep {n}|-P|n=1,2").parameter;
        let values = vec!["1".to_owned(), "2".to_owned()];
        assert_eq!(found, [Parameter { name: "n".to_owned(), values }]);
        assert_eq!(parameter("n").unwrap_err(), ArgumentError::NoValues);
        assert_eq!(parameter("n=1,1").unwrap_err(), ArgumentError::Twice("1".to_owned()));
    }
}
