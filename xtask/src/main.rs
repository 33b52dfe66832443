//! The project's chores as a program: `cargo xtask COMMAND`.
//!
//! A chore is one row of [`CHORES`] and one module. None of them depends on a crate of the product, so that
//! `cargo xtask tidy` builds in seconds and still runs while the product does not compile.

mod repository;
mod tidy;

use std::io::Write;
use std::process::ExitCode;

/// What a chore came to.
enum Outcome {
    /// Everything is as it should be.
    Clean,
    /// The chore did its work and found fault; it has printed what.
    Faulty,
}

/// What keeps a chore from doing its work.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("failed to start `{command}`: {source}")]
    Start { command: String, source: std::io::Error },
    #[error("failed to run `{command}`: {stderr}")]
    Run { command: String, stderr: String },
    #[error("failed to read the output of `{command}`: {reason}")]
    Output { command: String, reason: String },
    #[error("failed to read {path}: {source}")]
    Read { path: String, source: std::io::Error },
    #[error("failed to write to standard output: {0}")]
    Print(#[from] std::io::Error),
    #[error("failed to understand the arguments: {0}")]
    Usage(String),
}

/// One chore: its name on the command line, a line of help, and what runs it with the arguments after its name.
struct Chore {
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Result<Outcome, Error>,
}

const CHORES: &[Chore] =
    &[Chore { name: "tidy", help: "check the house rules and the edges between crates", run: tidy::run }];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(Outcome::Clean) => ExitCode::SUCCESS,
        Ok(Outcome::Faulty) => ExitCode::from(1),
        Err(error) => {
            // Where standard error is gone there is no one left to tell.
            let _ = writeln!(std::io::stderr(), "xtask: {error}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<Outcome, Error> {
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Error::Usage(usage("a command is missing")));
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        writeln!(std::io::stdout(), "{}", usage("help"))?;
        return Ok(Outcome::Clean);
    }
    match CHORES.iter().find(|chore| chore.name == name) {
        Some(chore) => (chore.run)(rest),
        None => Err(Error::Usage(usage(&format!("there is no command `{name}`")))),
    }
}

fn usage(first_line: &str) -> String {
    let mut text = format!("{first_line}\n\nusage: cargo xtask COMMAND\n");
    for chore in CHORES {
        text.push_str(&format!("\n  {:<10} {}", chore.name, chore.help));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_wrong_command_is_a_usage_error_that_lists_the_right_ones() {
        for words in [arguments(&[]), arguments(&["tiddy"])] {
            let message = dispatch(&words).err().expect("there is no such command").to_string();
            assert!(message.contains("tidy       check the house rules"), "{message}");
        }
    }

    #[test]
    fn names_of_chores_differ() {
        for (at, chore) in CHORES.iter().enumerate() {
            assert!(CHORES[..at].iter().all(|other| other.name != chore.name), "{} twice", chore.name);
        }
    }
}
