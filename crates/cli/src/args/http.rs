//! The arguments of `plumb http`. Flags carry the names of the experiment file's keys, with the short forms that users of
//! ab, wrk and k6 expect.

use clap::{Arg, ArgAction, Args};
use plumb_http::settings::HttpSettings;
use plumb_path::DataPath;

use super::keys::{Flagged, Keys, capacity, key, switch, time, time_unless};
use super::places::OnArguments;
use super::shared::MeasurementArguments;

/// `plumb http`.
#[derive(Debug, Args)]
pub struct HttpArguments {
    /// The measurement's settings.
    #[command(flatten)]
    pub keys: Keys<HttpSettings>,
    /// From where it is measured.
    #[command(flatten)]
    pub places: OnArguments,
    /// How it is shown.
    #[command(flatten)]
    pub shown: MeasurementArguments,
}

impl Flagged for HttpSettings {
    const PATH: DataPath = plumb_http::HTTP;

    const FIXED: &'static [(&'static str, &'static str)] = &[("system.ingress.kind", "external")];

    fn flags() -> Vec<Arg> {
        let [objective, trials, trial, step] = capacity(&["load.duration", "load.requests", "load.rate"]);
        let several = |flag: Arg| flag.action(ArgAction::Append);
        vec![
            Arg::new("system.ingress.url").value_name("URL").required(true).help("The URL to request"),
            key("load.connections", "N").short('c'),
            key("load.protocol", "PROTOCOL").value_parser(["h1", "h2", "h3", "auto"]),
            key("load.streams", "N"),
            key("load.windows.connection", "SIZE").long("connection-window"),
            key("load.windows.stream", "SIZE").long("stream-window"),
            key("load.max_frame", "SIZE"),
            key("load.header_table", "SIZE"),
            key("load.congestion", "ALGORITHM").value_parser(["cubic", "newreno", "bbr"]),
            key("load.receive_buffer", "SIZE"),
            key("load.sockets", "SOCKETS").value_parser(["per-connection", "shared"]),
            key("load.threads", "N").short('t'),
            time_unless("load.requests"),
            key("load.requests", "N").short('n'),
            time("load.warmup").help("Unmeasured time before the window").default_value("0s"),
            key("load.rate", "RATE").short('R'),
            objective,
            trials,
            trial,
            step,
            key("load.reuse", "REUSE"),
            key("load.tls", "VERSION").value_parser(["1.2", "1.3"]).help("The only TLS version to offer"),
            key("load.cipher", "NAME"),
            key("load.group", "NAME"),
            key("load.resumption", "PERCENT"),
            key("load.zero_rtt", "PERCENT"),
            key("load.sni", "NAME"),
            several(key("load.alpn", "NAME"))
                .help("Application protocol to offer; may be given more than once"),
            key("load.client_certificate", "FILE"),
            key("load.ca", "FILE"),
            switch("load.insecure").short('k'),
            key("load.method", "METHOD").short('m').visible_short_alias('X'),
            key("load.host", "NAME"),
            several(key("load.headers", "HEADER"))
                .long("header")
                .short('H')
                .help("Further request header, `Name: value`; may be given more than once"),
            key("load.body", "TEXT"),
            several(key("load.checks", "CHECK"))
                .long("check")
                .help("A condition that every good answer meets, such as `status == 200`; may be given more than once"),
            time("load.timeout"),
        ]
    }
}
