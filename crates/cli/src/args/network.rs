//! The arguments of `plumb network`. Flags carry the names of the experiment file's keys; qperf's names for the same are
//! understood too.

use std::net::SocketAddr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use plumb_model::{Bytes, Rate, Span};
use plumb_network::options::{Placement, Receive, ZeroCopy};
use plumb_network::settings::Test;

use super::FailureArguments;

/// `plumb network`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct NetworkArguments {
    /// Only serve, as the other end.
    #[command(subcommand)]
    pub command: Option<NetworkCommand>,
    /// Where `plumb network serve` runs: HOST or HOST:PORT.
    #[arg(required = true)]
    pub address: Option<String>,
    /// What to measure; all but tcp_crr if absent.
    #[arg(value_parser = test_names(), value_name = "TEST")]
    pub tests: Vec<Test>,
    /// The size of every message, or several: 1,1K,64K (K is 1024). If absent, qperf's: 64K for tcp_bw, 32K for udp_bw, 1 for the
    /// others.
    #[arg(long, short = 'm', alias = "msg_size", value_delimiter = ',', value_parser = size, value_name = "SIZE")]
    pub msg_size: Vec<Bytes>,
    /// Connections at a time, each with a thread at each end.
    #[arg(long, short = 'c', visible_short_alias = 'P', default_value_t = 1, value_name = "N")]
    pub flows: u32,
    /// How long to measure each test, such as `10s`.
    #[arg(long, short = 'd', visible_alias = "time", default_value = "2s", value_name = "TIME", value_parser = super::duration)]
    pub duration: Span,
    /// Unmeasured time before each test.
    #[arg(long, default_value = "200ms", value_name = "TIME", value_parser = super::duration)]
    pub warmup: Span,
    /// Messages per second of all flows together, such as `1000/s` (timed from the intended send).
    #[arg(long, short = 'R', value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Messages that a bandwidth test hands to the kernel at once; datagrams by UDP_SEGMENT and UDP_GRO where it can.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub batch: u32,
    /// tcp_lat, udp_lat: whether both ends of a flow share one CPU, where the server is on this host. They work in turns;
    /// waking a CPU that idles is then not measured.
    #[arg(long, value_name = "apart|shared", value_parser = placement(), default_value = "apart")]
    pub cpus: Placement,
    /// How long threads look for data at the device before they sleep, such as `50us` (SO_BUSY_POLL).
    #[arg(long, default_value = "0s", value_name = "TIME")]
    pub busy_poll: Span,
    /// tcp_bw: send without a copy: from the page cache (sendfile), which is meant where no way is named, or from memory that
    /// the kernel borrows (msg_zerocopy), which it copies all the same for a receiver on this host.
    #[arg(long, value_name = "sendfile|msg_zerocopy", value_parser = zero_copy(), num_args = 0..=1, require_equals = true,
          default_value = "off", hide_default_value = true, default_missing_value = "sendfile")]
    pub zero_copy: ZeroCopy,
    /// tcp_bw, udp_bw: how the receiver waits for data: `block` sleeps in each receive, as an ordinary application does; `poll`
    /// never sleeps and keeps a CPU busy for each flow; `pause` sleeps for a fixed time (TCP 200 us, UDP 50 us) whenever it has
    /// taken everything.
    #[arg(long, value_name = "block|poll|pause", value_parser = receive(), default_value = "block")]
    pub receive: Receive,
    /// The sockets' send buffers; the kernel's choice if absent.
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub send_buffer: Option<Bytes>,
    /// The sockets' receive buffers; the kernel's choice if absent.
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub receive_buffer: Option<Bytes>,
    /// TCP_NODELAY; if absent, on where messages go there and back and off where they go one way.
    #[arg(long, value_name = "on|off", value_parser = on_off())]
    pub nodelay: Option<bool>,
    /// The form of the result.
    #[arg(long, value_enum, default_value_t = NetworkFormat::Text, conflicts_with = "json")]
    pub format: NetworkFormat,
    /// See [`FailureArguments`].
    #[command(flatten)]
    pub failures: FailureArguments,
    /// Print the measurement as JSON: one object for each message size.
    #[arg(long)]
    pub json: bool,
    /// No progress.
    #[arg(long, short)]
    pub quiet: bool,
}

/// What else `plumb network` does.
#[derive(Debug, Subcommand)]
pub enum NetworkCommand {
    /// Be the other end of measurements, until Ctrl-C. There is no password: anyone who can reach the address can load the network.
    /// Each address may have 64 control connections and 2048 flows at a time; all addresses together, 128 and 4096.
    Serve {
        /// Where, for TCP and UDP.
        #[arg(long, default_value = "127.0.0.1:19766", value_name = "ADDRESS:PORT")]
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

fn test_names() -> impl TypedValueParser<Value = Test> {
    let names = PossibleValuesParser::new(Test::ALL.map(Test::name));
    names.try_map(|name| Test::from_name(&name).ok_or("no such test"))
}

fn on_off() -> impl TypedValueParser<Value = bool> {
    PossibleValuesParser::new(["on", "off"]).map(|word| word == "on")
}

fn zero_copy() -> impl TypedValueParser<Value = ZeroCopy> {
    let ways = [ZeroCopy::Off, ZeroCopy::Sendfile, ZeroCopy::MsgZerocopy];
    PossibleValuesParser::new(ways.map(ZeroCopy::name))
        .map(move |word| ways.into_iter().find(|way| way.name() == word).unwrap_or_default())
}

fn receive() -> impl TypedValueParser<Value = Receive> {
    PossibleValuesParser::new(Receive::ALL.map(Receive::name))
        .map(|word| Receive::ALL.into_iter().find(|way| way.name() == word).unwrap_or_default())
}

fn placement() -> impl TypedValueParser<Value = Placement> {
    PossibleValuesParser::new(["apart", "shared"]).map(|word| match word.as_str() {
        "shared" => Placement::Shared,
        _ => Placement::Apart,
    })
}

/// `1`, `1K`, `64K`, `1M` as qperf's and iperf3's users write it, or with a unit as everywhere here.
fn size(text: &str) -> Result<Bytes, String> {
    let text = text.trim();
    let split = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let shift = match suffix {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        _ => return text.parse().map_err(|error: plumb_model::quantity::QuantityError| error.to_string()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.map(Bytes).ok_or_else(|| format!("`{text}` is not a size; it is a number such as 1, 1K or 64K"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_qperf_and_those_with_units() {
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
