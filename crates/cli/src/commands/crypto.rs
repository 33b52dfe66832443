//! `plumb crypto`: what the devices of this machine are worth, side by side.

mod answers;
mod document;
mod progress;
mod ratio;
mod rounds;
mod table;
mod text;

#[cfg(test)]
mod sample;

pub use document::CryptoDocument;

use plumb_crypto::measure::{Algorithm, Keys, Source, Sweep};
use plumb_crypto::settings::{CryptoSettings, LoadSettings};
use plumb_host::facts::HostFacts;
use plumb_path::Settings;

use self::document::{CRYPTO_FORMAT, DeviceDocument};
use self::progress::Progress;
use crate::args::{CryptoArguments, keys};
use crate::exit::{FAILED, Failure, HOLDS, Outcome};
use crate::output;

/// Looks for the devices, checks their results, measures them in turn and prints a table.
pub fn crypto(arguments: &CryptoArguments) -> Outcome {
    let each = arguments.keys.every()?;
    for settings in &each {
        settings.check().map_err(|fault| keys::fault::<CryptoSettings>(&fault))?;
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
    let mut devices: Vec<DeviceDocument> = Vec::new();
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
    let mut rows: Vec<_> = measured.iter().map(table::row).collect();
    ratio::compare(&mut rows);
    let table = CryptoDocument {
        format: CRYPTO_FORMAT.to_owned(),
        program: concat!("plumb ", env!("CARGO_PKG_VERSION")).to_owned(),
        cpu: HostFacts::read_now().cpu_model,
        duration_s: duration.seconds(),
        rounds,
        devices,
        rows,
        warnings: table::warnings(&measured),
    };
    print(arguments, &table)?;
    let is_whole = table.rows.iter().all(|row| row.errors.is_empty());
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

fn nothing_usable(devices: &[DeviceDocument]) -> String {
    let reason = |device: &DeviceDocument| Some(format!("{}: {}", device.name, device.missing.as_ref()?));
    let reasons: Vec<String> = devices.iter().filter_map(reason).collect();
    format!("failed to find a device to measure: {}", reasons.join("; "))
}

fn print(arguments: &CryptoArguments, table: &CryptoDocument) -> Result<(), Failure> {
    if arguments.json {
        return output::json(table);
    }
    output::painted(&text::crypto_text(table, &output::style(140)))
}

#[cfg(test)]
mod tests {
    use crate::in_process::refusals;

    #[test]
    fn wrong_uses_are_told_what_would_be_right() {
        let wrong: [&[&str]; 15] = [
            &["--algorithms", "rsa-2084"],
            &["--algorithms", "rsa-2048,md5"],
            &["--devices", "multibufer"],
            &["--batch", "0"],
            &["--batch", "1,9"],
            &["--in-flight", "0"],
            &["--in-flight", "many"],
            &["--duration", "1,5"],
            &["--duration", "0s"],
            &["--duration", "5 parsec"],
            &["--block", "0B"],
            &["--block", "1TB"],
            &["--block", "16 s"],
            &["--rounds", "0"],
            &["--devices", "multibuffer", "--algorithms", "sha-256"],
        ];
        let lines: Vec<Vec<&str>> = wrong.iter().map(|line| [&["crypto"], *line].concat()).collect();
        let lines: Vec<&[&str]> = lines.iter().map(Vec::as_slice).collect();
        insta::assert_snapshot!(refusals(&lines), @"
        2 invalid value 'rsa-2084' for '--algorithms <NAME>'
          [possible values: rsa-2048, rsa-3072, rsa-4096, ecdsa-p256, x25519, p256, aes-128-gcm, aes-256-gcm, chacha20-poly1305, sha-256, sha-512]

          tip: a similar value exists: 'rsa-2048'
        2 invalid value 'md5' for '--algorithms <NAME>'
          [possible values: rsa-2048, rsa-3072, rsa-4096, ecdsa-p256, x25519, p256, aes-128-gcm, aes-256-gcm, chacha20-poly1305, sha-256, sha-512]
        2 invalid value 'multibufer' for '--devices <NAME>'
          [possible values: software-openssl, software-aws-lc, multibuffer, openssl-speed]

          tip: a similar value exists: 'multibuffer'
        2 --batch: must be a number from 1 to 8
        2 --batch: must be a number from 1 to 8
        2 --in-flight: must be a number from 1 to 4096
        2 --in-flight: expected a whole number from 0 to 4294967295, found `many`
        2 --duration: `1,5` has a comma: write a decimal point: `1.5`
        2 --duration: must be longer than 0
        2 --duration: `parsec` is not a unit; known: s, ns, us, µs, ms, min, h
        2 --block: must be a size from 1 B to 16 MiB
        2 --block: must be a size from 1 B to 16 MiB
        2 --block: `16 s` is a duration such as `5 s` or `200 us`; expected an amount of data such as `612 B` or `4 KiB`
        2 invalid value '0' for '--rounds <N>': 0 is not in 1..=1000
        2 --devices: multibuffer does not do sha-256; it does RSA, ECDSA, X25519 and P-256
        ");
    }
}
