//! The hosts that commands are told to use.

use std::path::Path;

use plumb_experiment::read_places;
use plumb_host::named_file;
use plumb_model::{PlaceOf, Places};
use plumb_places::Hosts;

use crate::args::places::{OnArguments, PlacesArguments};
use crate::commands::version::own_build;
use crate::exit::Failure;
use crate::output;

/// Connects to the hosts that the arguments name.
pub fn hosts(arguments: &PlacesArguments) -> Result<Hosts, Failure> {
    let PlacesArguments { places, system_on, load_on } = arguments;
    let places = match places {
        Some(file) => from_file(file)?,
        None => named(system_on.as_deref(), load_on)?,
    };
    connect(places).map(warned)
}

/// The hosts of a single measurement's load. The system is seen from here, or `from` the one host that has it.
pub fn loads(arguments: &OnArguments, from: Option<&str>) -> Result<Hosts, Failure> {
    connect(named(from, &arguments.on)?)
}

/// Connects to the hosts of a run that began earlier.
pub fn again(places: Option<&Places>) -> Result<Hosts, Failure> {
    connect(places.cloned().unwrap_or_default()).map(warned)
}

/// Connects to these hosts.
pub fn connect(places: Places) -> Result<Hosts, Failure> {
    if places == Places::default() {
        return Ok(Hosts::default());
    }
    Hosts::connect(places, &own_build()?).map_err(|reason| Failure::harness(reason).or_interruption())
}

/// Warns of hosts that are one machine, before anything runs there.
fn warned(hosts: Hosts) -> Hosts {
    for names in hosts.on_one_machine() {
        output::message(&format!("warning: {}", one_machine(&names)));
    }
    hosts
}

/// The warning that these hosts are one machine.
pub fn one_machine(names: &[String]) -> String {
    let (last, before) = names.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    format!(
        "{} and {last} are one machine, so they may take CPU time from one another; use another machine or node, or give every \
         place its own `cpus`",
        before.join(", ")
    )
}

/// The places of a file.
pub fn from_file(file: &Path) -> Result<Places, Failure> {
    let bytes = named_file::read_file(file).map_err(Failure::unreadable)?;
    Ok(read_places(&file.display().to_string(), &bytes)?)
}

/// Places from words on the command line.
pub fn named(system_on: Option<&str>, load_on: &[String]) -> Result<Places, Failure> {
    let place = |word: &str| PlaceOf::parse(word).map_err(|error| Failure::usage(error.to_string()));
    Ok(Places {
        system: system_on.map(place).transpose()?.unwrap_or_default(),
        load: load_on.iter().map(|word| place(word)).collect::<Result<_, _>>()?,
        kubernetes: None,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn hosts_that_are_one_machine_are_named() {
        let said = |names: &[&str]| {
            super::one_machine(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        insta::assert_snapshot!(said(&["a", "b"]), @"a and b are one machine, so they may take CPU time from one another; use another machine or node, or give every place its own `cpus`");
        insta::assert_snapshot!(said(&["a", "b", "c"]), @"a, b and c are one machine, so they may take CPU time from one another; use another machine or node, or give every place its own `cpus`");
    }
}
