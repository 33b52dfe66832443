//! The `plumb` command: arguments into a plan, events into progress, verdicts into exit codes.
//!
//! Exit codes are decided here and nowhere else. Results go to standard output, messages and progress to standard
//! error, so that the one can be piped while a person watches the other.

mod args;
mod client;
mod commands;
mod data_paths;
mod exit;
mod experiments;
#[cfg(test)]
mod in_process;
mod live;
mod logging;
mod output;
mod progress;
#[cfg(test)]
mod synthetic;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};
use plumb_model::name::did_you_mean;

use args::{Arguments, Command};
use exit::Outcome;

fn main() -> ExitCode {
    ExitCode::from(run(std::env::args_os()))
}

/// Does what a command line asks for, and returns the exit code.
fn run(line: impl IntoIterator<Item = OsString>) -> u8 {
    let line: Vec<OsString> = line.into_iter().collect();
    let arguments = match Arguments::try_parse_from(&line) {
        Ok(arguments) => arguments,
        Err(error) => return refused(&with_near_command(error, &line)),
    };
    if let Err(failure) = logging::start(&arguments.command) {
        return ended(Err(failure));
    }
    let may_be_changed = matches!(arguments.command, Command::Tune(_));
    if arguments.command.measures()
        && let Err(failure) = commands::tune::put_back_leftovers(may_be_changed)
    {
        return ended(Err(failure));
    }
    ended(dispatch(arguments.command))
}

/// Adds the nearest command to an error about an unknown one. clap finds none for short names such as `rn`.
fn with_near_command(mut error: clap::Error, line: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if error.get(ContextKind::SuggestedSubcommand).is_some() {
        return error;
    }
    let all = Arguments::command();
    let before = line.iter().skip(1).take_while(|word| *word != wrong.as_str());
    let parent = before.fold(&all, |command, word| command.find_subcommand(word).unwrap_or(command));
    let names =
        parent.get_subcommands().filter(|command| !command.is_hide_set()).map(clap::Command::get_name);
    if let Some(near) = did_you_mean(wrong, names) {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![near.to_owned()]));
    }
    error
}

/// Prints what clap has to say: an error, or help and the version, which are results.
fn refused(error: &clap::Error) -> u8 {
    let (text, is_error) = (error.render(), error.use_stderr());
    let has_colour = if is_error { output::colour_on_stderr() } else { output::colour_on_stdout() };
    let text = if has_colour { text.ansi().to_string() } else { text.to_string() };
    if is_error {
        output::painted_message(text.trim_end());
        return exit::USAGE;
    }
    ended(output::painted(&text).map(|()| exit::HOLDS))
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Run(run) => commands::run::run(&run),
        Command::Check(check) => commands::check::check(&check),
        Command::Init(init) => commands::init::init(&init),
        Command::List(list) => commands::list::list(&list),
        Command::Report(report) => commands::report::report(&report),
        Command::Compare(compare) => commands::compare::compare(&compare),
        Command::Export(export) => commands::export::export(&export),
        Command::Ui(ui) => commands::ui::ui(&ui),
        Command::Audit(audit) => commands::audit::audit(&audit),
        Command::Gate(gate) => commands::gate::gate(&gate),
        Command::History(history) => commands::history::history(&history),
        Command::Programs(command) => commands::command::command(&command),
        Command::Import(import) => commands::import::import(&import),
        Command::Http(http) => commands::http::http(&http),
        Command::Codec(codec) => commands::codec::codec(&codec),
        Command::Crypto(crypto) => commands::crypto::crypto(&crypto),
        Command::Storage(storage) => commands::storage::storage(&storage),
        Command::Network(network) => commands::network::network(&network),
        Command::Migrate(migrate) => commands::migrate::migrate(&migrate),
        Command::Volumes(volumes) => commands::volumes::volumes(&volumes),
        Command::Host(host) => commands::host::host(&host),
        Command::Tune(command) => commands::tune::tune(&command),
        Command::Schema(schema) => commands::schema::schema(&schema),
        Command::Completions { shell } => commands::completions::completions(shell),
        Command::Version => commands::version::version(),
        Command::Man { directory } => commands::man::man(&directory),
        Command::Places(command) => commands::places::places(&command),
        Command::Keep(keep) => commands::keep::keep(&keep),
        Command::Agent(agent) => commands::agent::agent(&agent),
        Command::Answer(answer) => commands::answer::answer(&answer),
    }
}

fn ended(outcome: Outcome) -> u8 {
    outcome.unwrap_or_else(|failure| {
        output::failure(&failure);
        failure.code
    })
}

#[cfg(test)]
mod tests {
    use crate::in_process::plumb;

    #[test]
    fn a_wrong_command_line_has_a_hint_and_its_exit_code() {
        let unknown = plumb(&["runn", "tls-offload"]);
        assert_eq!((unknown.code, unknown.out.as_str()), (2, ""));
        insta::assert_snapshot!(unknown.err, @r"
        error: unrecognized subcommand 'runn'

          tip: a similar subcommand exists: 'run'

        Usage: plumb <COMMAND>

        For more information, try '--help'.
        ");
        for (line, near) in [(&["rn"][..], "run"), (&["ls"], "list"), (&["history", "shw"], "show")] {
            let said = plumb(line);
            let tip = format!("tip: a similar subcommand exists: '{near}'");
            assert!(said.code == 2 && said.err.contains(&tip), "{said:?}");
        }
        let hostile = plumb(&["ru\u{202e}n"]);
        assert!(hostile.code == 2 && hostile.err.contains(r"ru\u{202e}n"), "{hostile:?}");
        let nothing = plumb(&[]);
        assert_eq!((nothing.code, nothing.out.as_str()), (2, ""));
        assert!(nothing.err.starts_with("Proves what one change does"), "{nothing:?}");
    }

    #[test]
    fn help_and_version_are_results() {
        let version = format!("plumb {}\n", env!("CARGO_PKG_VERSION"));
        for arguments in [["version"], ["--version"]] {
            let said = plumb(&arguments);
            assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, version.as_str(), ""));
        }
        let help = plumb(&["run", "--help"]);
        assert!(help.code == 0 && help.err.is_empty() && help.out.contains("--resume"), "{help:?}");
        for shell in ["bash", "zsh", "fish"] {
            let script = plumb(&["completions", shell]);
            assert!(
                script.code == 0 && script.out.contains("plumb") && script.out.lines().count() > 100,
                "{shell}"
            );
        }
    }
}
