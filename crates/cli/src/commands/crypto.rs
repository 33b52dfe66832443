//! `plumb crypto`: what the devices of this machine are worth, side by side.

mod answers;
mod progress;
mod rounds;
mod table;

use plumb_crypto::measure::{Algorithm, Keys, Source, Sweep};
use plumb_host::facts::HostFacts;
use plumb_report::{DeviceFound, DeviceTable, TextStyle};

use self::progress::Progress;
use crate::args::CryptoArguments;
use crate::exit::{FAILED, Failure, HOLDS, Outcome};
use crate::output;

/// The largest block, far above a TLS record.
const BLOCK_BYTES_MAX: u64 = 16 << 20;

/// Looks for the devices, checks their results, measures them in turn and prints a table.
pub fn crypto(arguments: &CryptoArguments) -> Outcome {
    validate(arguments)?;
    let sources = unless_empty(&arguments.devices, &Source::ALL);
    let algorithms = unless_empty(&arguments.algorithms, &Algorithm::ALL);
    if !sweep(arguments, &sources, &algorithms).points().is_empty() {
        return measure(arguments, &sources, &algorithms);
    }
    let names = |names: Vec<&str>| names.join(", ");
    Err(Failure::usage(format!(
        "--devices: {} does not do {}; it does RSA, ECDSA, X25519 and P-256",
        names(sources.iter().map(|source| source.name()).collect()),
        names(algorithms.iter().map(|algorithm| algorithm.name()).collect())
    )))
}

fn measure(arguments: &CryptoArguments, sources: &[Source], algorithms: &[Algorithm]) -> Outcome {
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
    let sweep = sweep(arguments, &usable, algorithms);
    let points = sweep.points();
    if points.is_empty() {
        return Err(Failure::laid_out(FAILED, nothing_usable(&devices)));
    }
    progress.expect(&points, arguments.duration, arguments.rounds);
    let mut keys = Keys::default();
    answers::check(&sweep, &mut keys, &mut devices, &mut progress)?;
    let measured = rounds::measure(&points, &mut keys, arguments.duration, arguments.rounds, &mut progress)?;
    progress.finish();
    let table = DeviceTable {
        program: concat!("plumb ", env!("CARGO_PKG_VERSION")).to_owned(),
        cpu: HostFacts::read().cpu_model,
        duration_s: arguments.duration.seconds(),
        rounds: arguments.rounds,
        devices,
        rows: measured.iter().map(table::row).collect(),
        warnings: table::warnings(&measured),
    };
    print(arguments, &table)?;
    let is_whole = table.rows.iter().all(|row| row.total.errors.is_empty());
    Ok(if is_whole { HOLDS } else { FAILED })
}

fn sweep(arguments: &CryptoArguments, sources: &[Source], algorithms: &[Algorithm]) -> Sweep {
    let device = |source: &Source| match source {
        Source::Device(device) => Some(*device),
        Source::OpensslSpeed => None,
    };
    Sweep {
        devices: sources.iter().filter_map(device).collect(),
        openssl_speed: sources.contains(&Source::OpensslSpeed),
        algorithms: algorithms.to_vec(),
        batches: arguments.batch.clone(),
        in_flight: arguments.in_flight.clone(),
        blocks: arguments.block.clone(),
    }
}

/// What was asked for, each thing once; everything where nothing was.
fn unless_empty<T: Copy + PartialEq>(asked: &[T], all: &[T]) -> Vec<T> {
    all.iter().copied().filter(|item| asked.is_empty() || asked.contains(item)).collect()
}

fn validate(arguments: &CryptoArguments) -> Result<(), Failure> {
    if arguments.duration.0 == 0 {
        return Err(Failure::usage("--duration: must be longer than 0"));
    }
    if !arguments.block.iter().all(|block| (1..=BLOCK_BYTES_MAX).contains(&block.0)) {
        return Err(Failure::usage("--block: must be a size from 1 B to 16 MiB"));
    }
    Ok(())
}

fn nothing_usable(devices: &[DeviceFound]) -> String {
    let reason = |device: &DeviceFound| Some(format!("{}: {}", device.name, device.library.as_ref().err()?));
    let reasons: Vec<String> = devices.iter().filter_map(reason).collect();
    format!("failed to find a device to measure: {}", reasons.join("; "))
}

fn print(arguments: &CryptoArguments, table: &DeviceTable) -> Result<(), Failure> {
    if arguments.json {
        return output::result(&plumb_report::crypto_json(table));
    }
    let style = TextStyle { colour: output::colour_on_stdout(), width: output::width(140) };
    output::painted(&plumb_report::crypto_text(table, &style))
}
