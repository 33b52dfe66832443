//! `plumb places check`: connects to hosts and says what each is and would lack.

use std::fmt::Write;

use plumb_places::CheckedHosts;
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
    let checked = plumb_places::check(&places, &build).map_err(Failure::harness)?;
    let is_whole = checked.hosts.iter().all(|host| host.trouble.is_none());
    if arguments.json {
        output::json(&json!({
            "format": "plumbline.places/1",
            "hosts": checked.hosts,
            "on_one_machine": checked.on_one_machine,
        }))?;
    } else {
        output::result(&describe(&checked))?;
    }
    if let (Some(experiment), true) = (&arguments.experiment, is_whole) {
        let planned = planning::on(experiment, &Default::default(), || connect(places))?;
        if !arguments.json {
            output::result(&check::described(&planned))?;
        }
    }
    Ok(if is_whole { HOLDS } else { FAILED })
}

fn describe(checked: &CheckedHosts) -> String {
    let mut text = String::new();
    for host in &checked.hosts {
        // Writing to a String cannot fail.
        let _ = match &host.trouble {
            Some(trouble) => writeln!(text, "✗ {}: failed to {trouble}", host.host),
            None => writeln!(text, "✓ {}", host.host),
        };
        let width = host.facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, value) in &host.facts {
            let _ = writeln!(text, "  {name:width$}  {value}");
        }
    }
    for names in &checked.on_one_machine {
        let _ = writeln!(text, "! {}", one_machine(names));
    }
    text.trim_end().to_owned()
}
