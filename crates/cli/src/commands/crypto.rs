//! `plumb crypto`: what the devices of this machine are worth, side by side.

mod answers;
mod document;
mod found;
mod progress;
mod ratio;
mod rounds;
mod table;
mod text;

#[cfg(test)]
mod sample;

pub use document::crypto_json_schema;

use plumb_crypto::Crypto;
use plumb_crypto::measure::{Algorithm, Keys, Source, Sweep};
use plumb_crypto::settings::{CryptoSettings, LoadSettings};
use plumb_host::facts::HostFacts;
use plumb_path::Settings;
use plumb_report::TextStyle;

use self::found::{DeviceFound, DeviceTable};
use self::progress::Progress;
use crate::args::{CryptoArguments, keys};
use crate::exit::{FAILED, Failure, HOLDS, Outcome};
use crate::output;

/// Looks for the devices, checks their results, measures them in turn and prints a table.
pub fn crypto(arguments: &CryptoArguments) -> Outcome {
    let each = arguments.keys.every()?;
    for settings in &each {
        settings.check().map_err(|fault| keys::fault::<Crypto>(&fault))?;
    }
    let asked = &arguments.devices;
    let sources: Vec<Source> =
        Source::ALL.into_iter().filter(|source| asked.is_empty() || asked.contains(source)).collect();
    let all = sweep(&each, &sources);
    if !all.points().is_empty() {
        return measure(arguments, &each, &sources);
    }
    let names = |names: Vec<&str>| names.join(", ");
    Err(Failure::usage(format!(
        "--devices: {} does not do {}; it does RSA, ECDSA, X25519 and P-256",
        names(sources.iter().map(|source| source.name()).collect()),
        names(all.algorithms.iter().map(|algorithm| algorithm.name()).collect())
    )))
}

fn measure(arguments: &CryptoArguments, each: &[CryptoSettings], sources: &[Source]) -> Outcome {
    let (duration, rounds) = (each[0].load.duration, arguments.rounds);
    let mut progress = Progress::new(arguments.quiet);
    let mut devices: Vec<DeviceFound> = Vec::new();
    let mut usable: Vec<Source> = Vec::new();
    for &source in sources {
        let presence = source.probe();
        if let Err(missing) = &presence {
            progress.line(&format!("skipped {}: {missing}", source.name()));
        } else {
            usable.push(source);
        }
        devices.push(table::found(source, presence));
    }
    let sweep = sweep(each, &usable);
    let points = sweep.points();
    if points.is_empty() {
        return Err(Failure::laid_out(FAILED, nothing_usable(&devices)));
    }
    progress.expect(&points, duration, rounds);
    let mut keys = Keys::default();
    answers::check(&sweep, &mut keys, &mut devices, &mut progress)?;
    let measured = rounds::measure(&points, &mut keys, duration, rounds, &mut progress)?;
    progress.finish();
    let table = DeviceTable {
        program: concat!("plumb ", env!("CARGO_PKG_VERSION")).to_owned(),
        cpu: HostFacts::read().cpu_model,
        duration_s: duration.seconds(),
        rounds,
        devices,
        rows: measured.iter().map(table::row).collect(),
        warnings: table::warnings(&measured),
    };
    print(arguments, &table)?;
    let is_whole = table.rows.iter().all(|row| row.total.errors.is_empty());
    Ok(if is_whole { HOLDS } else { FAILED })
}

/// Everything that the settings ask for, each thing once.
fn sweep(each: &[CryptoSettings], sources: &[Source]) -> Sweep {
    let device = |source: &Source| match source {
        Source::Device(device) => Some(*device),
        Source::OpensslSpeed => None,
    };
    let is_asked = |algorithm: &Algorithm| each.iter().any(|settings| settings.load.algorithm == *algorithm);
    Sweep {
        devices: sources.iter().filter_map(device).collect(),
        openssl_speed: sources.contains(&Source::OpensslSpeed),
        algorithms: Algorithm::ALL.into_iter().filter(is_asked).collect(),
        batches: unique(each, |load| load.batch),
        in_flight: unique(each, |load| load.in_flight),
        blocks: unique(each, |load| load.block),
    }
}

fn unique<T: PartialEq>(each: &[CryptoSettings], of: fn(&LoadSettings) -> T) -> Vec<T> {
    let mut values = Vec::new();
    for value in each.iter().map(|settings| of(&settings.load)) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

fn nothing_usable(devices: &[DeviceFound]) -> String {
    let reason = |device: &DeviceFound| Some(format!("{}: {}", device.name, device.library.as_ref().err()?));
    let reasons: Vec<String> = devices.iter().filter_map(reason).collect();
    format!("failed to find a device to measure: {}", reasons.join("; "))
}

fn print(arguments: &CryptoArguments, table: &DeviceTable) -> Result<(), Failure> {
    if arguments.json {
        return output::result(&document::crypto_json(table));
    }
    let style = TextStyle { colour: output::colour_on_stdout(), width: output::width(140) };
    output::painted(&text::crypto_text(table, &style))
}
