//! The arguments of `plumb crypto`. A flag with several values stands for the settings with each of them.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, Args};
use plumb_crypto::measure::{Algorithm, Source};
use plumb_crypto::settings::CryptoSettings;
use plumb_path::DataPath;

use super::keys::{Flagged, Keys, key, time};

/// `plumb crypto`.
#[derive(Debug, Args)]
pub struct CryptoArguments {
    /// The measurement's settings, for each row, of whatever device.
    #[command(flatten)]
    pub keys: Keys<CryptoSettings>,
    /// Only these devices, separated by commas; all if absent. `openssl-speed` runs the program `openssl`.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = sources())]
    pub devices: Vec<Source>,
    /// How many rounds the devices take turns in; an interval needs at least three.
    #[arg(long, default_value_t = 6, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Print the table as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// No progress.
    #[arg(long, short)]
    pub quiet: bool,
}

impl Flagged for CryptoSettings {
    const PATH: DataPath = plumb_crypto::CRYPTO;

    fn flags() -> Vec<Arg> {
        let several = |key, name| self::key(key, name).value_delimiter(',');
        vec![
            several("load.algorithm", "NAME")
                .long("algorithms")
                .default_values(Algorithm::ALL.map(Algorithm::name))
                .hide_default_value(true)
                .help("Only these algorithms, separated by commas; all if absent"),
            several("load.batch", "N")
                .help("Operations in one pass of a device that batches, separated by commas"),
            several("load.in_flight", "N")
                .default_value("1,16")
                .help("Signatures or key exchanges in flight, separated by commas"),
            several("load.block", "SIZE").help("Block sizes of AEAD and hashes, separated by commas"),
            time("load.duration")
                .short('d')
                .default_value("1s")
                .help("How long to measure each row over all rounds; `openssl speed` takes whole seconds"),
        ]
    }
}

/// Sources by name; clap suggests the nearest, and shells complete them.
fn sources() -> impl TypedValueParser<Value = Source> {
    let names = PossibleValuesParser::new(Source::ALL.map(Source::name));
    names.try_map(|name| Source::from_name(&name).ok_or("no such device"))
}
