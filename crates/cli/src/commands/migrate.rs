//! `plumb migrate`: one measurement of a migration, both sides as child processes of this one.
//!
//! The sides are the agents of `plumb run`, so that CPU time, pinning and evidence are the same here and there.

use std::net::SocketAddr;

use plumb_host::named_file;
use plumb_host::signals::Interrupts;
use plumb_migration::MIGRATION;
use plumb_migration::engine::{Listening, protection};
use plumb_migration::settings::{MigrationSettings, Tls};
use plumb_model::metric::{CPU_SYSTEM, OF_FOREIGN_SYSTEM};
use plumb_model::{Measurement, NoticeKind, Reading};
use plumb_path::{Foreign, Settings, Sides, Window};
use serde_json::json;

use super::single::{self, By};
use crate::args::{MigrateArguments, MigrateCommand, keys};
use crate::exit::{FAILED, Failure, HOLDS, INTERRUPTED, Outcome, REFUTED};
use crate::live::{Goal, LiveTask};
use crate::output;

/// Measures and prints, or serves as a destination.
pub fn migrate(arguments: &MigrateArguments) -> Outcome {
    let mut settings = arguments.keys.settings()?;
    settings.check().map_err(|fault| keys::fault::<MigrationSettings>(&fault))?;
    settings.feasible(Sides::BOTH).map_err(Failure::usage)?;
    if let Some(MigrateCommand::Serve { listen }) = &arguments.command {
        return serve(&settings, *listen);
    }
    single::headline(&arguments.shown, &what(&settings));
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let by = match arguments.to {
        Some(address) => to(address, &settings, arguments)?,
        None => By::Agents(Box::default()),
    };
    // The memory's content is the same each time.
    let window = Window { seed: 1, ..single::window(&mut settings) };
    let progress = (window, LiveTask::of_one("MiB on the wire", Goal::Open, None));
    let measured = single::measure(by, settings.clone(), progress, &interrupts, &arguments.shown)?;
    let Some(mut result) = measured else { return Ok(INTERRUPTED) };
    if arguments.to.is_some() {
        // Nobody reads the counters of a destination that another command serves.
        result.evidence = vec![protection(&settings, &result.measurement)];
        result.measurement.notices.push(NoticeKind::DestinationElsewhere.into());
        // The CPU time of its process includes preparing memory before a migration and checking it afterwards.
        for metric in OF_FOREIGN_SYSTEM.iter().chain([&CPU_SYSTEM]) {
            result.measurement.readings.remove(metric.name);
        }
    }
    single::print(&result.measurement, MIGRATION.metrics, &result.evidence, &arguments.shown)?;
    single::ended(&result, &interrupts, &arguments.shown, code)
}

/// The measured system, in the first line, with a cap in bytes and in bits.
fn what(settings: &MigrationSettings) -> String {
    let system = &settings.system;
    let cap = system.cap.0.map_or_else(|| "no cap".to_owned(), |cap| format!("cap {}", cap.with_bits()));
    format!("migrate {} · {} channels · {} · {cap}", system.memory, system.channels, system.codec.name())
}

/// The source in this process, to a destination that was started elsewhere.
fn to(
    address: SocketAddr,
    settings: &MigrationSettings,
    arguments: &MigrateArguments,
) -> Result<By, Failure> {
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
    // A destination that another command serves on this host is a side of the measurement.
    let foreign = Foreign { address: Some((address.ip().to_string(), address.port())), ..Foreign::default() };
    foreign.at(&target).map(Box::new).map(By::ThisProcess).map_err(Failure::harness)
}

fn certificate(arguments: &MigrateArguments) -> Result<Option<String>, Failure> {
    let read = |path: &std::path::PathBuf| {
        named_file::text(path).map_err(|error| Failure::usage(format!("--ca: failed to {error}")))
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

/// A migration that was given up refutes what was asked.
fn code(measurement: &Measurement) -> Outcome {
    Ok(match measurement.readings.get("converged") {
        Some(Reading::Share { no: 0, yes }) if *yes > 0 => HOLDS,
        Some(Reading::Share { .. }) => REFUTED,
        _ => FAILED,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_process::refusals;

    #[test]
    fn wrong_flags_are_usage_errors_that_name_the_flag() {
        let lines: [&[&str]; 10] = [
            &["migrate", "--memory", "5 kB"],
            &["migrate", "--channels", "0"],
            &["migrate", "--cap", "10 Gbps"],
            &["migrate", "--time-limit", "1h"],
            &["migrate", "--zero", "200%"],
            &["migrate", "--ca", "ca.pem"],
            &["migrate", "-q", "--to", "127.0.0.1:1", "--memory", "1 MiB", "--tls", "on"],
            &["migrate", "-q", "--to", "127.0.0.1:1", "--memory", "1 MiB", "--ca", "ca.pem"],
            &["migrate", "-q", "--to", "127.0.0.1:1", "--memory", "1 MiB", "--file", "/nowhere"],
            &["migrate", "-q", "--to", "127.0.0.1:1", "--memory", "1 MiB"],
        ];
        insta::assert_snapshot!(refusals(&lines), @"
        2 --memory: must be a multiple of 4 KiB, such as `1 GiB`
        2 --channels: must be a number from 1 to 255
        2 --cap: `Gbps` is not a unit; write `Gbit/s` for bits or `GB/s` for bytes
        2 --time-limit: must be above 0 and at most 46 s, which is `load.duration` and 45 s
        2 --zero: `200%` is out of range; expected a percentage from `0%` to `100%`
        2 the following required arguments were not provided:
          --to <ADDRESS:PORT>
        2 --tls on: the source must know the destination's certificate: save what `plumb migrate --tls on serve` prints, and name the file with `--ca FILE`
        2 --ca: only encrypted connections have a certificate: add `--tls on`
        2 failed to read /nowhere: No such file or directory (os error 2)
        5 failed to connect to the destination at 127.0.0.1:1: Connection refused (os error 111)
        ");
    }

    #[test]
    fn the_first_line_has_the_cap_in_bytes_and_in_bits() {
        let mut settings = MigrationSettings::default();
        settings.system.cap = "1 Gbit/s".parse().unwrap();
        insta::assert_snapshot!(what(&settings), @"migrate 1 GiB · 2 channels · none · cap 125 MB/s (1 Gbit/s)");
        settings.system.cap = "none".parse().unwrap();
        insta::assert_snapshot!(what(&settings), @"migrate 1 GiB · 2 channels · none · no cap");
    }

    #[test]
    fn what_was_given_up_refutes() {
        let result = |converged: Option<(u64, u64)>| {
            let share = converged.map(|(yes, no)| ("converged".to_owned(), Reading::Share { yes, no }));
            code(&Measurement { readings: share.into_iter().collect(), ..Measurement::default() }).unwrap()
        };
        assert_eq!(result(Some((3, 0))), HOLDS);
        assert_eq!(result(Some((3, 1))), REFUTED);
        assert_eq!(result(Some((0, 0))), REFUTED);
        assert_eq!(result(None), FAILED);
    }
}
