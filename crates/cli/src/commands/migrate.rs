//! `plumb migrate`: one measurement of a migration, both sides as child processes of this one.
//!
//! The sides are the agents of `plumb run`, so that CPU time, pinning and evidence are the same here and there.

use std::net::SocketAddr;

use plumb_host::service::Service;
use plumb_host::signals::Interrupts;
use plumb_migration::Migration;
use plumb_migration::engine::{Listening, both, protection};
use plumb_migration::settings::{MigrationSettings, Tls};
use plumb_model::{Reading, SlotResult, Span};
use plumb_path::{DataPath, Family, Mark, PathSettings, Place, Settings, Sides, Window};
use plumb_runner::Hosts;
use serde_json::json;

use super::single;
use super::surroundings::Surroundings;
use crate::args::{MigrateArguments, MigrateCommand, keys};
use crate::exit::{FAILED, Failure, HOLDS, INTERRUPTED, Outcome, REFUTED, VOID};
use crate::live::LiveLine;
use crate::output;

/// Measures and prints, or serves as a destination.
pub fn migrate(arguments: &MigrateArguments) -> Outcome {
    let mut settings = arguments.keys.settings()?;
    settings.check().map_err(|fault| keys::fault::<Migration>(&fault))?;
    settings.feasible(Sides::BOTH).map_err(Failure::usage)?;
    if let Some(MigrateCommand::Serve { listen }) = &arguments.command {
        return serve(&settings, *listen);
    }
    single::headline(&arguments.shown, &what(&settings));
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    // The memory's content is the same each time.
    let window = Window { seed: 1, ..single::window(&mut settings) };
    let measured = match arguments.to {
        Some(address) => to_another_host(&settings, window, address, arguments),
        None => on_this_host(&settings, window, &interrupts, arguments),
    };
    match measured? {
        Some(result) => {
            print(arguments, &result)?;
            Ok(single::code(&result.measurement, &arguments.shown, code(&result)))
        }
        None => Ok(INTERRUPTED),
    }
}

/// What is measured, in the first line, with a cap in bytes and in bits.
fn what(settings: &MigrationSettings) -> String {
    let system = &settings.system;
    let cap = system.cap.0.map_or_else(|| "no cap".to_owned(), |cap| format!("cap {}", both(cap)));
    format!("migrate {} · {} channels · {} · {cap}", system.memory, system.channels, system.codec.name())
}

/// Both sides as child processes; `None` when it was interrupted.
fn on_this_host(
    settings: &MigrationSettings,
    window: Window,
    interrupts: &Interrupts,
    arguments: &MigrateArguments,
) -> Result<Option<SlotResult>, Failure> {
    let line = single::live_line(&arguments.shown);
    let watch = |mark: Mark, _: Option<f64>| show(&line, mark);
    let of_path = PathSettings::of::<Migration>(settings.clone());
    let measured = single::by_agents(
        DataPath::of::<Migration>(),
        &of_path,
        window,
        Hosts::default(),
        (interrupts, &watch),
    );
    line.clear();
    measured
}

/// The source in this process, to a destination that was started elsewhere.
fn to_another_host(
    settings: &MigrationSettings,
    window: Window,
    address: SocketAddr,
    arguments: &MigrateArguments,
) -> Result<Option<SlotResult>, Failure> {
    let is_encrypted = settings.system.tls == Tls::On;
    if is_encrypted != arguments.ca.is_some() {
        return Err(Failure::usage(if is_encrypted {
            "--tls on: the source must know the destination's certificate: save what `plumb migrate --tls on serve` \
             prints, and name the file with `--ca FILE`"
        } else {
            "--ca: only encrypted connections have a certificate: add `--tls on`"
        }));
    }
    let target = json!({ "address": address, "certificate_pem": certificate(arguments)? });
    let place = Place { scratch: std::env::temp_dir(), cpus: 1, address: None, number: 0 };
    let mut load = Migration::load(settings, &target, &place).map_err(Failure::harness)?;
    let line = single::live_line(&arguments.shown);
    // A destination that another command serves on this host is a side of the measurement.
    let mut surroundings = Surroundings::of(Service::listening_at(address));
    let measured = load.measure(window, &mut |mark| {
        surroundings.note(mark);
        show(&line, mark);
    });
    line.clear();
    let mut measurement = measured.map_err(Failure::harness)?;
    measurement.warnings.extend(surroundings.warnings());
    let evidence = vec![protection(settings, &measurement)];
    Ok(Some(SlotResult { measurement, evidence, ..SlotResult::default() }))
}

fn certificate(arguments: &MigrateArguments) -> Result<Option<String>, Failure> {
    let read = |path: &std::path::PathBuf| {
        std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("--ca: failed to read {}: {error}", path.display())))
    };
    arguments.ca.as_ref().map(read).transpose()
}

/// Serves as a destination until it is interrupted.
fn serve(settings: &MigrationSettings, listen: SocketAddr) -> Outcome {
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let destination = Listening::start(settings, listen).map_err(Failure::harness)?;
    output::message(&format!("listening on {}", destination.address()));
    match destination.certificate_pem() {
        Some(certificate) => output::result(&certificate)?,
        None if !destination.address().ip().is_loopback() => output::message(&format!(
            "warning: anyone on the network can read and change the memory on its way to {}: `plumb migrate --tls on \
             serve` takes only encrypted connections",
            destination.address()
        )),
        None => {}
    }
    while !interrupts.is_interrupted() {
        for line in destination.news() {
            output::message(&line);
        }
        plumb_host::time::sleep(std::time::Duration::from_millis(100));
    }
    Ok(INTERRUPTED)
}

fn print(arguments: &MigrateArguments, result: &SlotResult) -> Result<(), Failure> {
    let mut measurement = result.measurement.clone();
    if arguments.to.is_some() {
        measurement.warnings.push(
            "the destination's counters are on another host: this result proves the encryption and the memory that \
             arrived, but not the codec, the cap or the bytes on the wire"
                .to_owned(),
        );
    }
    single::print(&measurement, Migration::METRICS, &result.evidence, &arguments.shown)
}

/// A migration that was given up refutes what was asked; evidence that does not hold makes the numbers void.
fn code(result: &SlotResult) -> u8 {
    if result.evidence.iter().any(|evidence| !evidence.holds) {
        return VOID;
    }
    match result.measurement.readings.get("converged") {
        Some(Reading::Share { no: 0, yes }) if *yes > 0 => HOLDS,
        Some(Reading::Share { .. }) => REFUTED,
        _ => FAILED,
    }
}

fn show(live: &LiveLine, mark: Mark) {
    if let Mark::Progress { work, elapsed_ns } = mark {
        let elapsed_s = Span(elapsed_ns).seconds();
        live.show(&format!("{elapsed_s:.1} s, {work} MiB on the wire"));
    }
}
