//! The arguments of `plumb storage`. Flags carry the names of the experiment file's keys; fio's names for the same are
//! understood too.

use clap::{Arg, ArgAction, Args};
use plumb_path::DataPath;
use plumb_storage::settings::StorageSettings;

use super::keys::{Flagged, Keys, capacity, key, switch, time, time_unless};
use super::places::OnArguments;
use super::shared::MeasurementArguments;

/// How long dbench measures each job.
const DBENCH_DURATION: &str = "15s";
/// How long dbench warms up before each job.
const DBENCH_WARMUP: &str = "2s";

/// `plumb storage`.
#[derive(Debug, Args)]
pub struct StorageArguments {
    /// The measurement's settings.
    #[command(flatten)]
    pub keys: Keys<StorageSettings>,
    /// From where it is measured.
    #[command(flatten)]
    pub places: OnArguments,
    /// Run dbench's nine jobs and print its summary.
    #[arg(long, value_parser = ["dbench"], value_name = "NAME",
          help = format!("Run dbench's nine jobs and print its summary; --duration and --warmup are those of each job \
                          ({DBENCH_DURATION} and {DBENCH_WARMUP})"),
          conflicts_with_all = ["load.access", "load.read_share", "load.block_size", "load.depth", "load.jobs", "load.rate",
                                "load.operations", "load.verify", "load.capacity.objective", "on"])]
    pub suite: Option<String>,
    /// How it is shown.
    #[command(flatten)]
    pub shown: MeasurementArguments,
}

impl Flagged for StorageSettings {
    const PATH: DataPath = plumb_storage::STORAGE;

    const FIXED: &'static [(&'static str, &'static str)] = &[("system.kind", "external")];

    fn flags() -> Vec<Arg> {
        let target = "A file, a block device, nbd://HOST:PORT/NAME, or `null:` for the load's own costs. A file that does not \
                      exist is made with --size, and gone afterwards";
        // The suite reads and writes, so its target has to stand that.
        let access = key("load.access", "ACCESS").default_value_if("suite", "dbench", "randrw");
        let warmup = time("load.warmup").help("Unmeasured time before the window").hide_default_value(true);
        let others = ["load.duration", "load.operations", "load.rate", "load.verify"];
        let [objective, trials, trial, step] = capacity(&others);
        vec![
            Arg::new("system.path").value_name("TARGET").required(true).help(target),
            access.visible_alias("rw").alias("readwrite"),
            key("load.read_share", "PERCENT").alias("rwmixread"),
            key("load.block_size", "SIZE").short('b').visible_alias("bs"),
            key("load.depth", "N").short('c').visible_alias("iodepth"),
            key("load.jobs", "N").short('t').visible_alias("numjobs"),
            key("load.engine", "ENGINE").visible_alias("ioengine"),
            Arg::new("load.direct")
                .long("buffered")
                .action(ArgAction::SetFalse)
                .help("Go through the page cache"),
            key("load.offset", "SIZE"),
            key("load.size", "SIZE").short('s'),
            key("load.offset_increment", "SIZE"),
            key("load.rate", "RATE").short('R'),
            objective,
            trials,
            trial,
            step,
            time_unless("load.operations").visible_alias("runtime").default_value_if(
                "suite",
                "dbench",
                DBENCH_DURATION,
            ),
            warmup.visible_alias("ramp-time").default_value("0s").default_value_if(
                "suite",
                "dbench",
                DBENCH_WARMUP,
            ),
            key("load.operations", "N").short('n'),
            key("load.compressible", "PERCENT"),
            switch("load.verify"),
            switch("load.destroy_data"),
        ]
    }
}
