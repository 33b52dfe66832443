//! `plumb volumes svm`, `user` and `ontap`: the management interface's side of the state.

use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::Path;

use plumb_host::named_file;
use plumb_ontap::{command, passwords};
use plumb_volumes::state::State;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::args::volumes::{SvmCommand, UserCommand};
use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

const PASSWORD_BYTES_MAX: u64 = 1024;

/// Makes and lists SVMs.
pub fn svm(state: &State, command: &SvmCommand) -> Outcome {
    match command {
        SvmCommand::Create { name, uuid } => state.create_svm(name, uuid.as_deref())?,
        SvmCommand::List => {
            for svm in state.svms()? {
                output::result(&format!("{}  {}", svm.name, svm.uuid))?;
            }
        }
    }
    Ok(HOLDS)
}

/// Says who may use the interface.
pub fn user(state: &State, command: &UserCommand) -> Outcome {
    match command {
        UserCommand::Set { name, password_file } => {
            let password = password(name, password_file.as_deref())?;
            let hash = passwords::hash(&password).map_err(Failure::harness)?;
            state.set_user(name, &hash)?;
        }
        UserCommand::List => {
            for name in state.users()? {
                output::result(&name)?;
            }
        }
        UserCommand::Delete { name } => state.delete_user(name)?,
    }
    Ok(HOLDS)
}

/// Does what one of ONTAP's commands says.
pub fn ontap(state: &State, text: &str) -> Outcome {
    let said = command::run(state, text).map_err(|fault| match fault.status {
        500.. => Failure::harness(&fault.message),
        _ => {
            Failure::usage(format!("{} (ONTAP's error {})", fault.message.trim_end_matches('.'), fault.code))
        }
    })?;
    if !said.is_empty() {
        output::result(&said)?;
    }
    Ok(HOLDS)
}

/// The first line of a file or of standard input. A terminal is asked, and does not show what is typed.
fn password(user: &str, file: Option<&Path>) -> Result<String, Failure> {
    let password = match file {
        Some(path) => {
            let text = named_file::text(path).map_err(Failure::unreadable)?;
            text.lines().next().unwrap_or_default().to_owned()
        }
        None => {
            let input = std::io::stdin();
            let shown = input.is_terminal().then(|| hide_typing(user)).flatten();
            let read = first_line(input.lock());
            if let Some(shown) = shown {
                // The terminal was asked to do so before, so it can.
                let _ = tcsetattr(&input, OptionalActions::Now, &shown);
            }
            read.map_err(|error| Failure::usage(format!("failed to read the password: {error}")))?
        }
    };
    if password.is_empty() {
        return Err(Failure::usage(
            "the password is empty; it is the first line of standard input or of --password-file",
        ));
    }
    Ok(password)
}

fn first_line(source: impl Read) -> std::io::Result<String> {
    let mut line = String::new();
    BufReader::new(source.take(PASSWORD_BYTES_MAX)).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Turns the terminal's echo off and returns how it was.
fn hide_typing(user: &str) -> Option<rustix::termios::Termios> {
    let input = std::io::stdin();
    output::message(&format!("password for {user}:"));
    let before = tcgetattr(&input).ok()?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&input, OptionalActions::Now, &hidden).ok()?;
    Some(before)
}
