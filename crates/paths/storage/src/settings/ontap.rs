//! An experiment's settings of an array: where it is, which volume, and the policy that a variant puts it under.

use std::path::PathBuf;

use plumb_host::named_file;
use plumb_model::quantity::{Dimension, Quantity};
use plumb_model::{ByteRate, Bytes, Rate};
use plumb_path::SettingsFault;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Allocation;

/// ONTAP's MB: an array that was told 100 was seen to let 100 MiB/s pass, whatever its manual says of base ten.
const MIB: f64 = 1_048_576.0;
const TIB: f64 = 1_099_511_627_776.0;
const BLOCK_SIZES_KIB: [u64; 6] = [4, 8, 16, 32, 64, 128];

/// A volume of an ONTAP array, and the credentials to manage it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OntapSettings {
    /// The array's management address, such as `https://cluster1`.
    pub url: String,
    /// The SVM that the volume belongs to.
    pub svm: String,
    /// The volume, which exists; `system.path` is where it is read and written.
    pub volume: String,
    /// The name of an environment variable that holds `user:password`.
    pub credentials_env: Option<String>,
    /// A file whose first line is `user:password`.
    pub credentials_file: Option<PathBuf>,
    /// Certificates in PEM that the array's must be signed by; the system's own if absent.
    pub certificate: Option<PathBuf>,
    /// Do not check the array's certificate at all.
    pub insecure: bool,
    /// The policy to put the volume under; none if absent. The one that it had comes back at the end.
    pub policy: Option<OntapPolicy>,
}

/// A QoS policy: fixed, or adaptive where it has a peak.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OntapPolicy {
    /// Fixed: at most this many operations, such as `500 IOPS`.
    pub max_iops: Option<Rate>,
    /// Fixed: at most this much data, in whole MiB per second, such as `100 MiB/s`.
    pub max_bandwidth: Option<ByteRate>,
    /// Fixed: at least this many operations.
    pub min_iops: Option<Rate>,
    /// Fixed: at least this much data, in whole MiB per second.
    pub min_bandwidth: Option<ByteRate>,
    /// Adaptive: at most this many operations for a size, such as `50 IOPS/GiB`. (ONTAP's `GB` is a GiB.)
    pub peak_iops: Option<String>,
    /// Adaptive: at least this many operations for a size.
    pub expected_iops: Option<String>,
    /// Adaptive: never less than this many operations.
    pub absolute_min_iops: Option<Rate>,
    /// Adaptive: the size that the peak is a proportion of; used space if absent.
    pub peak_iops_allocation: Option<Allocation>,
    /// Adaptive: the size that the expected operations are a proportion of; allocated space if absent.
    pub expected_iops_allocation: Option<Allocation>,
    /// Adaptive: 4 to 128 KiB.
    pub block_size: Option<Bytes>,
}

/// Why there are no credentials for an array.
#[derive(Debug, thiserror::Error)]
pub enum NoCredentials {
    /// The variable cannot be read.
    #[error("the array's credentials: the environment variable {name}: {cause}")]
    Variable {
        /// The name.
        name: String,
        /// Why.
        cause: std::env::VarError,
    },
    /// The file cannot be read.
    #[error("the array's credentials: failed to {_0}")]
    File(plumb_host::Error),
    /// The settings name neither.
    #[error("no credentials are named")]
    Unnamed,
    /// The text has another form. It may hold a secret.
    #[error("{place} does not hold `user:password`")]
    NoPair {
        /// Where the text is.
        place: String,
    },
}

impl OntapSettings {
    /// Checks what no single field can.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), SettingsFault> {
        let fault =
            |key: &str, message: &str| Err(SettingsFault::new(format!("system.ontap.{key}"), message));
        if !self.url.starts_with("https://") {
            return fault("url", "must be the array's management address, such as `https://cluster1`");
        }
        for (key, value) in [("svm", &self.svm), ("volume", &self.volume)] {
            if value.is_empty() {
                return fault(key, "must not be empty");
            }
        }
        if self.credentials_env.is_some() == self.credentials_file.is_some() {
            return fault(
                "credentials_env",
                "either `credentials_env` names an environment variable or `credentials_file` a file that holds `user:password`",
            );
        }
        if self.insecure && self.certificate.is_some() {
            return fault("insecure", "it cannot go with `certificate`, which is always checked");
        }
        self.policy.as_ref().map_or(Ok(()), |policy| policy.body().map(drop))
    }

    /// `user` and `password`, from where the settings say that they are.
    ///
    /// # Errors
    /// When there are none.
    pub fn credentials(&self) -> Result<(String, String), NoCredentials> {
        let (place, text) = match (&self.credentials_env, &self.credentials_file) {
            (Some(name), _) => {
                let place = format!("the environment variable {name}");
                let text = std::env::var(name)
                    .map_err(|cause| NoCredentials::Variable { name: name.clone(), cause })?;
                (place, text)
            }
            (None, Some(path)) => {
                let text = named_file::text(path).map_err(NoCredentials::File)?;
                (path.display().to_string(), text)
            }
            (None, None) => return Err(NoCredentials::Unnamed),
        };
        let first = text.lines().next().unwrap_or_default();
        let pair = first.split_once(':').filter(|(user, password)| !user.is_empty() && !password.is_empty());
        let (user, password) = pair.ok_or(NoCredentials::NoPair { place })?;
        Ok((user.to_owned(), password.to_owned()))
    }

    /// The request to the array, as text; compared with what it answers.
    #[must_use]
    pub fn asked(&self) -> String {
        let body = self.policy.as_ref().and_then(|policy| policy.body().ok());
        body.map_or_else(|| "no policy".to_owned(), |body| described(&body))
    }
}

impl OntapPolicy {
    /// The policy as ONTAP's REST interface takes it: `fixed` or `adaptive` with their fields.
    ///
    /// # Errors
    /// What it cannot take.
    pub fn body(&self) -> Result<Value, SettingsFault> {
        let mut fixed = Map::new();
        let mut adaptive = Map::new();
        put(&mut fixed, "max_throughput_iops", whole("max_iops", self.max_iops.map(|rate| rate.0))?);
        put(&mut fixed, "min_throughput_iops", whole("min_iops", self.min_iops.map(|rate| rate.0))?);
        let mib = |rate: Option<ByteRate>| rate.map(|rate| rate.0 / MIB);
        put(&mut fixed, "max_throughput_mbps", whole("max_bandwidth", mib(self.max_bandwidth))?);
        put(&mut fixed, "min_throughput_mbps", whole("min_bandwidth", mib(self.min_bandwidth))?);
        put(&mut adaptive, "peak_iops", per_tib("peak_iops", self.peak_iops.as_deref())?);
        put(&mut adaptive, "expected_iops", per_tib("expected_iops", self.expected_iops.as_deref())?);
        let absolute = self.absolute_min_iops.map(|rate| rate.0);
        put(&mut adaptive, "absolute_min_iops", whole("absolute_min_iops", absolute)?);
        put(&mut adaptive, "peak_iops_allocation", self.peak_iops_allocation.map(Allocation::word));
        put(&mut adaptive, "expected_iops_allocation", self.expected_iops_allocation.map(Allocation::word));
        put(&mut adaptive, "block_size", block_size(self.block_size)?);
        match (fixed.is_empty(), adaptive.is_empty()) {
            (false, true) => {
                // One volume, so it makes no difference; said so that the array's answer can be compared.
                fixed.insert("capacity_shared".to_owned(), json!(false));
                Ok(json!({ "fixed": fixed }))
            }
            (true, false) if adaptive.contains_key("peak_iops") && adaptive.contains_key("expected_iops") => {
                Ok(json!({ "adaptive": adaptive }))
            }
            (true, false) => {
                Err(fault("peak_iops", "an adaptive policy needs both `peak_iops` and `expected_iops`"))
            }
            (true, true) => Err(fault("max_iops", "a policy must limit something; leave it out for none")),
            (false, false) => Err(fault("peak_iops", "a policy is either fixed or adaptive")),
        }
    }
}

impl Allocation {
    /// ONTAP's word.
    fn word(self) -> &'static str {
        match self {
            Self::AllocatedSpace => "allocated_space",
            Self::UsedSpace => "used_space",
        }
    }
}

/// A policy's fields on a line, such as `fixed: capacity_shared false, max_throughput_iops 500`.
pub fn described(policy: &Value) -> String {
    let Some((kind, fields)) = policy.as_object().and_then(|policy| policy.iter().next()) else {
        return "no policy".to_owned();
    };
    let field = |(name, value): (&String, &Value)| {
        format!("{name} {}", value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    };
    let fields: Vec<String> = fields.as_object().into_iter().flatten().map(field).collect();
    format!("{kind}: {}", fields.join(", "))
}

fn fault(key: &str, message: &str) -> SettingsFault {
    SettingsFault::new(format!("system.ontap.policy.{key}"), message)
}

fn put(map: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        map.insert(name.to_owned(), value.into());
    }
}

fn whole(key: &str, value: Option<f64>) -> Result<Option<u64>, SettingsFault> {
    let Some(value) = value else { return Ok(None) };
    let rounded = value.round();
    if (value - rounded).abs() < 1e-6 && (1.0..1e15).contains(&rounded) {
        Ok(Some(rounded as u64))
    } else {
        Err(fault(key, "ONTAP takes whole operations per second, and whole MiB/s"))
    }
}

fn per_tib(key: &str, text: Option<&str>) -> Result<Option<u64>, SettingsFault> {
    let Some(text) = text else { return Ok(None) };
    let quantity = Quantity::parse_as(text, Dimension::EventRatePerData);
    let value = quantity.map_err(|error| fault(key, &error.to_string()))?.value * TIB;
    if (0.5..1e15).contains(&value) {
        Ok(Some(value.round() as u64))
    } else {
        Err(fault(key, "must be at least 1 IOPS/TiB, such as `50 IOPS/GiB`"))
    }
}

fn block_size(size: Option<Bytes>) -> Result<Option<String>, SettingsFault> {
    let Some(Bytes(bytes)) = size else { return Ok(None) };
    let kib = BLOCK_SIZES_KIB.iter().find(|kib| **kib << 10 == bytes);
    kib.map(|kib| Some(format!("{kib}k")))
        .ok_or_else(|| fault("block_size", "ONTAP has 4, 8, 16, 32, 64 and 128 KiB"))
}

/// The volume and the policy to put it under, which the load needs besides a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub(crate) volume_uuid: String,
    pub(crate) policy: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_become_what_the_array_takes() {
        let fixed = OntapPolicy {
            max_iops: Some(Rate(500.0)),
            max_bandwidth: Some(ByteRate(100.0 * MIB)),
            ..OntapPolicy::default()
        };
        let body = fixed.body().unwrap();
        let expected = json!({ "fixed": { "capacity_shared": false, "max_throughput_iops": 500, "max_throughput_mbps": 100 } });
        assert_eq!(body, expected);
        assert_eq!(
            described(&body),
            "fixed: capacity_shared false, max_throughput_iops 500, max_throughput_mbps 100"
        );
        let adaptive = OntapPolicy {
            peak_iops: Some("50 IOPS/GiB".to_owned()),
            expected_iops: Some("5 IOPS/GiB".to_owned()),
            peak_iops_allocation: Some(Allocation::AllocatedSpace),
            block_size: Some(Bytes(32 << 10)),
            ..OntapPolicy::default()
        };
        let expected = json!({ "adaptive": { "peak_iops": 51_200, "expected_iops": 5_120,
                                             "peak_iops_allocation": "allocated_space", "block_size": "32k" } });
        assert_eq!(adaptive.body().unwrap(), expected);
    }

    #[test]
    fn what_the_array_cannot_take_is_named() {
        let key = |policy: OntapPolicy| policy.body().unwrap_err().key;
        let decimal = OntapPolicy { max_bandwidth: Some(ByteRate(1e8)), ..OntapPolicy::default() };
        assert_eq!(key(decimal), "system.ontap.policy.max_bandwidth");
        let half = OntapPolicy { peak_iops: Some("50 IOPS/GiB".to_owned()), ..OntapPolicy::default() };
        assert_eq!(key(half), "system.ontap.policy.peak_iops");
        assert_eq!(key(OntapPolicy::default()), "system.ontap.policy.max_iops");
        let both = OntapPolicy {
            max_iops: Some(Rate(5.0)),
            peak_iops: Some("5 IOPS/GiB".to_owned()),
            ..OntapPolicy::default()
        };
        assert_eq!(key(both), "system.ontap.policy.peak_iops");
        let good = OntapSettings {
            url: "https://cluster1".to_owned(),
            svm: "svm1".to_owned(),
            volume: "vol1".to_owned(),
            credentials_env: Some("ARRAY".to_owned()),
            ..OntapSettings::default()
        };
        good.check().unwrap();
        let key = |spec: OntapSettings| spec.check().unwrap_err().key;
        assert_eq!(
            key(OntapSettings { url: "http://cluster1".to_owned(), ..good.clone() }),
            "system.ontap.url"
        );
        assert_eq!(key(OntapSettings { volume: String::new(), ..good.clone() }), "system.ontap.volume");
        assert_eq!(key(OntapSettings { credentials_env: None, ..good }), "system.ontap.credentials_env");
    }

    #[test]
    fn credentials_that_are_not_there_are_named_and_those_that_are_wrong_are_not_shown() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("credentials");
        let of_file = OntapSettings { credentials_file: Some(file.clone()), ..OntapSettings::default() };
        let missing = of_file.credentials().unwrap_err().to_string();
        assert!(missing.starts_with("the array's credentials: failed to read /"), "{missing}");
        assert!(missing.contains("credentials: No such file or directory"), "{missing}");
        std::fs::write(&file, "secret-word\nadmin:x\n").unwrap();
        let wrong = of_file.credentials().unwrap_err().to_string();
        assert!(wrong.ends_with("credentials does not hold `user:password`"), "{wrong}");
        assert!(!wrong.contains("secret-word"), "{wrong}");
        std::fs::write(&file, "admin:a:b\n").unwrap();
        assert_eq!(of_file.credentials().unwrap(), ("admin".to_owned(), "a:b".to_owned()));
        let name = "PLUMB_NO_SUCH_VARIABLE".to_owned();
        let of_variable = OntapSettings { credentials_env: Some(name), ..OntapSettings::default() };
        assert_eq!(
            of_variable.credentials().unwrap_err().to_string(),
            "the array's credentials: the environment variable PLUMB_NO_SUCH_VARIABLE: environment variable not found"
        );
    }
}
