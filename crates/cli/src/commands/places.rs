//! `plumb places check`: connects to hosts and says what each is and would lack.

use std::fmt::Write;

use plumb_places::Accounts;
use serde_json::json;

use crate::args::places::{PlacesCheckArguments, PlacesCommand};
use crate::commands::connecting::{connect, from_file, named, one_machine};
use crate::commands::{check, planning, version::own_build};
use crate::exit::{FAILED, Failure, HOLDS, Outcome};
use crate::output;

/// `plumb places`.
pub fn places(command: &PlacesCommand) -> Outcome {
    let PlacesCommand::Check(arguments) = command;
    examine(arguments)
}

fn examine(arguments: &PlacesCheckArguments) -> Outcome {
    let mut places = match &arguments.file {
        Some(file) => from_file(file)?,
        None => named(arguments.system_on.as_deref(), &arguments.load_on)?,
    };
    places.name_pods();
    let build = own_build()?;
    let accounts = plumb_places::accounts(&places, &build).map_err(Failure::harness)?;
    let is_whole = accounts.hosts.iter().all(|account| account.trouble.is_none());
    if arguments.json {
        output::json(&json!({
            "format": "plumbline.places/1",
            "hosts": accounts.hosts,
            "on_one_machine": accounts.on_one_machine,
        }))?;
    } else {
        output::result(&describe(&accounts))?;
    }
    if let (Some(experiment), true) = (&arguments.experiment, is_whole) {
        let planned = planning::on(experiment, &Default::default(), || connect(places))?;
        if !arguments.json {
            output::result(&check::described(&planned))?;
        }
    }
    Ok(if is_whole { HOLDS } else { FAILED })
}

fn describe(accounts: &Accounts) -> String {
    let mut text = String::new();
    for account in &accounts.hosts {
        // Writing to a String cannot fail.
        let _ = match &account.trouble {
            Some(trouble) => writeln!(text, "✗ {}: failed to {trouble}", account.host),
            None => writeln!(text, "✓ {}", account.host),
        };
        let width = account.facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in &account.facts {
            let _ = writeln!(text, "  {name:width$}  {value}");
        }
    }
    for names in &accounts.on_one_machine {
        let _ = writeln!(text, "! {}", one_machine(names));
    }
    text.trim_end().to_owned()
}
