//! The `plumb` command: arguments into a plan, events into progress, verdicts into exit codes.
//!
//! Exit codes are decided here and nowhere else. Results go to standard output, messages and progress to standard
//! error, so that the one can be piped while a person watches the other.

mod args;
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

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};
use exit::Outcome;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            return ExitCode::from(refused(&error));
        }
    };
    if let Err(failure) = logging::start(&arguments.command) {
        output::failure(&failure);
        return ExitCode::from(failure.code);
    }
    let may_be_changed = matches!(arguments.command, Command::Tune(_));
    if arguments.command.measures()
        && let Err(failure) = commands::tune::put_back_leftovers(may_be_changed)
    {
        output::failure(&failure);
        return ExitCode::from(failure.code);
    }
    ended(dispatch(arguments.command))
}

/// Prints what clap has to say: an error, or help and the version, which are results.
fn refused(error: &clap::Error) -> u8 {
    if error.use_stderr() {
        let _ = error.print();
        return exit::USAGE;
    }
    let text = error.render();
    let text = if output::colour_on_stdout() { text.ansi().to_string() } else { text.to_string() };
    match output::painted(&text) {
        Ok(()) => exit::HOLDS,
        Err(failure) => {
            output::failure(&failure);
            failure.code
        }
    }
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
    }
}

fn ended(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}
