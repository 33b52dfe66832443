//! The results of one measurement of devices, as the JSON object `plumbline.crypto/1`. The table for a terminal shows the same object.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// The name and version of the format.
pub const CRYPTO_FORMAT: &str = "plumbline.crypto/1";

/// A comparison of the devices of one machine.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "plumbline.crypto/1", deny_unknown_fields)]
pub struct CryptoDocument {
    /// Always `plumbline.crypto/1`.
    #[schemars(extend("const" = CRYPTO_FORMAT))]
    pub format: String,
    /// The program with its version.
    pub program: String,
    /// The CPU as its maker calls it.
    pub cpu: Option<String>,
    /// How long each row was measured, in seconds.
    pub duration_s: f64,
    /// In how many rounds; every round has two windows of each row, in a random order and its reverse.
    pub rounds: u32,
    /// Every device that was asked for.
    pub devices: Vec<DeviceDocument>,
    /// The results.
    pub rows: Vec<DeviceRowDocument>,
    /// Sentences about what cannot be trusted.
    pub warnings: Vec<String>,
}

/// A device, or a program that measures one.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DeviceDocument {
    /// The name.
    pub name: String,
    /// Whether this machine has it.
    pub usable: bool,
    /// The library's name and version.
    pub library: Option<String>,
    /// The file of a library that was loaded at run time.
    pub file: Option<String>,
    /// The missing part, and how to install it.
    pub missing: Option<String>,
    /// The results that were compared with another implementation's before the measurement; `null` if no other one can
    /// be had.
    pub known_answers: Option<AnswersDocument>,
}

/// Results that were compared.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct AnswersDocument {
    /// How many were right. A single wrong one ends the command without any result.
    pub right: u64,
}

/// One kind of work on one device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DeviceRowDocument {
    /// The device's name.
    pub device: String,
    /// The algorithm's name.
    pub algorithm: String,
    /// The class of work.
    pub class: String,
    /// Operations in one pass, at most; `null` for blocks.
    pub batch: Option<u32>,
    /// Operations at a time; `null` for blocks.
    pub in_flight: Option<u32>,
    /// The size of a block; `null` for what has none.
    pub block_bytes: Option<u64>,
    /// The time in which it was measured, all windows together, in seconds.
    pub elapsed_s: f64,
    /// Operations done in that time; 0 where a foreign program does not say.
    pub operations: u64,
    /// Operations per second of elapsed time.
    pub ops_per_s: f64,
    /// The same for each window.
    pub windows_per_s: Vec<f64>,
    /// Of blocks, bytes per second.
    pub bytes_per_s: Option<f64>,
    /// The time of an operation, with the wait for others in flight; of blocks, the mean of a burst.
    pub latency_ms: Option<LatencyDocument>,
    /// CPU time per operation, in µs.
    pub cpu_us_per_op: Option<f64>,
    /// Operations in a pass on average, where a device does more than one.
    pub fill: Option<f64>,
    /// Against the best software device with the same work; `null` for that one itself, and where there is none.
    pub ratio: Option<DeviceRatioDocument>,
    /// Failures by kind.
    pub errors: BTreeMap<String, u64>,
    /// Whether other rows may be compared with it.
    #[serde(skip)]
    pub is_software: bool,
    /// Whether it is the best software device for its work.
    #[serde(skip)]
    pub is_best: bool,
}

/// A distribution of times.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LatencyDocument {
    /// The mean.
    pub avg: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest.
    pub max: f64,
}

/// How a row compares.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct DeviceRatioDocument {
    /// The device that it is compared with.
    pub against: String,
    /// How many operations that one had in flight; `null` for blocks.
    pub against_in_flight: Option<u32>,
    /// Operations per second over that one's; with an interval, the geometric mean of the rounds' ratios.
    pub value: f64,
    /// The lower bound of the 95% interval; `null` where there was one window only.
    pub low: Option<f64>,
    /// The upper bound; `null` too where it is infinite.
    pub high: Option<f64>,
}

#[cfg(test)]
mod tests {
    use plumb_report::pretty;
    use serde_json::Value;

    use super::super::sample::sample;
    use super::*;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn the_object_has_the_documented_shape() {
        let found = parsed(&pretty(&sample()));
        assert_eq!(found["format"], "plumbline.crypto/1");
        assert_eq!(found["devices"][0]["known_answers"]["right"], 24);
        assert_eq!(
            (&found["devices"][3]["usable"], found["devices"][3]["missing"].is_string()),
            (&false.into(), true)
        );
        let rows = found["rows"].as_array().unwrap();
        let row = |device: &str, in_flight: u32| {
            rows.iter().find(|row| row["device"] == device && row["in_flight"] == in_flight).unwrap()
        };
        let lanes = row("multibuffer", 16);
        assert_eq!((&lanes["batch"], &lanes["fill"]), (&8.into(), &8.0.into()));
        assert!(lanes["latency_ms"]["p99"].is_f64() && lanes["cpu_us_per_op"].is_f64());
        assert_eq!(lanes["ratio"]["against"], "software-openssl");
        assert!(lanes["ratio"]["low"].as_f64() < lanes["ratio"]["value"].as_f64());
        assert!(row("software-openssl", 16)["ratio"].is_null());
        let speed = row("openssl-speed", 1);
        assert!(
            speed["latency_ms"].is_null()
                && speed["ratio"]["low"].is_null()
                && speed["ratio"]["value"].is_f64()
        );
        let blocks = rows.iter().find(|row| row["block_bytes"] == 16384).unwrap();
        assert!(blocks["batch"].is_null() && blocks["bytes_per_s"].is_f64());
    }

    #[test]
    fn the_schema_names_every_field() {
        let (schema, found) = (schemars::schema_for!(CryptoDocument).to_value(), parsed(&pretty(&sample())));
        let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<String>>();
        assert_eq!(names(&schema["properties"]), names(&found));
        for (definition, object) in
            [("DeviceDocument", &found["devices"][0]), ("DeviceRowDocument", &found["rows"][0])]
        {
            assert_eq!(names(&schema["$defs"][definition]["properties"]), names(object));
        }
    }
}
