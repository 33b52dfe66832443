//! The arguments of `plumb network`. Flags carry the names of the experiment file's keys; qperf's names for the same are
//! understood too.

use std::net::SocketAddr;

use clap::{Arg, ArgAction, Args, Subcommand, ValueEnum};
use plumb_network::settings::NetworkSettings;
use plumb_path::DataPath;

use super::keys::{Flagged, Keys, capacity, key, time};
use super::places::OnArguments;
use super::shared::MeasurementArguments;

/// `plumb network`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct NetworkArguments {
    /// Only serve, as the other end.
    #[command(subcommand)]
    pub command: Option<NetworkCommand>,
    /// The measurement's settings, for each message size.
    #[command(flatten)]
    pub keys: Keys<NetworkSettings>,
    /// From where it is measured.
    #[command(flatten)]
    pub places: OnArguments,
    /// The form of the result.
    #[arg(long, value_enum, default_value_t = NetworkFormat::Text, conflicts_with_all = ["json", "on", "load.capacity.objective"])]
    pub format: NetworkFormat,
    /// How it is shown.
    #[command(flatten)]
    pub shown: MeasurementArguments,
}

/// Other uses of `plumb network`.
#[derive(Debug, Subcommand)]
pub enum NetworkCommand {
    /// Serve as the other end of measurements, until Ctrl-C. Anyone who can reach the address can load the network, because no
    /// password is asked for. Each client address may have 64 control connections and 2048 flows; all addresses together, 128 and 4096.
    Serve {
        /// Where, for TCP and UDP.
        #[arg(long, default_value = "127.0.0.1:19766", value_name = "ADDRESS:PORT", value_parser = plumb_host::address::parse)]
        listen: SocketAddr,
        /// Say nothing but errors.
        #[arg(long, short)]
        quiet: bool,
    },
}

/// The forms of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NetworkFormat {
    /// For the terminal.
    Text,
    /// As qperf prints it.
    Qperf,
}

impl Flagged for NetworkSettings {
    const PATH: DataPath = plumb_network::NETWORK;

    const FIXED: &'static [(&'static str, &'static str)] = &[("system.kind", "external")];

    fn flags() -> Vec<Arg> {
        let size = |key| self::key(key, "SIZE").value_parser(|text: &str| Ok::<String, String>(binary(text)));
        let sizes = "The size of every message, or several sizes: 1,1K,64K (K is 1024). If absent, qperf's defaults: 64K for \
                     tcp_bw, 32K for udp_bw, 1 for the others";
        let zero_copy = "`tcp_bw`: send without a copy: from the page cache (`sendfile`, also if the flag has no value), or from memory that the \
                         kernel borrows (`msg_zerocopy`). The kernel still copies the latter for a receiver on this host";
        let [objective, trials, trial, step] = capacity(&["load.duration", "load.rate"]);
        vec![
            Arg::new("system.address")
                .value_name("ADDRESS")
                .required(true)
                .help("Where `plumb network serve` runs: HOST or HOST:PORT"),
            Arg::new("load.tests")
                .value_name("TEST")
                .num_args(1..)
                .action(ArgAction::Append)
                .default_values(["tcp_lat", "udp_lat", "tcp_bw", "udp_bw"])
                .hide_default_value(true)
                .help("The tests to run; all but tcp_crr if absent"),
            size("load.msg_size").short('m').alias("msg_size").value_delimiter(',').help(sizes),
            key("load.flows", "N").short('c').visible_short_alias('P'),
            time("load.duration")
                .short('d')
                .visible_alias("time")
                .default_value("2s")
                .help("How long to measure each test, such as `10s`"),
            time("load.warmup"),
            key("load.rate", "RATE").short('R'),
            objective,
            trials,
            trial,
            step,
            key("load.batch", "N"),
            key("load.cpus", "apart|shared"),
            key("load.busy_poll", "TIME"),
            key("load.zero_copy", "sendfile|msg_zerocopy")
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("sendfile")
                .hide_default_value(true)
                .help(zero_copy),
            key("load.receive", "block|poll|pause"),
            size("load.send_buffer"),
            size("load.receive_buffer"),
            key("load.nodelay", "on|off"),
        ]
    }
}

/// `1`, `1K`, `64K`, `1M` as qperf's and iperf3's users write it, with the unit that it has everywhere else.
fn binary(text: &str) -> String {
    let text = text.trim();
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let unit = match suffix {
        "" => "B",
        "K" | "k" => "KiB",
        "M" | "m" => "MiB",
        _ => return text.to_owned(),
    };
    if number.is_empty() { text.to_owned() } else { format!("{number} {unit}") }
}

#[cfg(test)]
mod tests {
    use plumb_model::Bytes;

    use super::*;

    #[test]
    fn sizes_are_those_of_qperf_and_those_with_units() {
        let size = |text: &str| binary(text).parse::<Bytes>();
        for (text, bytes) in
            [("1", 1), ("1K", 1024), ("64k", 65_536), ("1M", 1 << 20), ("4 KiB", 4096), ("2kB", 2000)]
        {
            assert_eq!(size(text), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "K", "1X", "99999999999999999999", "99999999999999999M", "-1"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
