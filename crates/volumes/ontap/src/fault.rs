//! Faults of a request, in ONTAP's words and codes.
//!
//! Beside each code stands where NetApp publishes it (ONTAP 9 REST API reference, <https://docs.netapp.com/us-en/ontap-restapi/>):
//! *common* is the table of "Getting started with the ONTAP REST API" that every resource shares, *records* its table of operations
//! on several records, *policies* is `post-storage-qos-policies` with its sibling for PATCH, *volumes* `post-storage-volumes` and
//! *SVMs* the calls that name one.

use plumb_volumes::policy::PolicyFault;
use plumb_volumes::state::StateError;
use serde_json::{Value, json};

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestError {
    /// The HTTP status.
    pub status: u16,
    /// ONTAP's number for it.
    pub code: u32,
    /// One sentence.
    pub message: String,
    /// The field that it is about.
    pub target: Option<String>,
}

/// An entry with the same identifiers exists (common).
pub const EXISTS: u32 = 1;
/// The operation is not supported (common).
pub const UNSUPPORTED: u32 = 3;
/// The entry does not exist (common).
pub const MISSING: u32 = 4;
/// More than is allowed (common).
pub const TOO_MUCH: u32 = 7;
/// Something else uses it (common).
pub const IN_USE: u32 = 8;
/// The application failed (common).
pub const INTERNAL: u32 = 262_145;
/// A field or a parameter that is not there (common).
pub const UNEXPECTED: u32 = 262_179;
/// Two fields that exclude each other (common).
pub const CONTEXT: u32 = 262_186;
/// A field was given twice (common).
pub const TWICE: u32 = 262_188;
/// A change that changes nothing (common).
pub const NOTHING: u32 = 262_190;
/// A field that cannot be set by this call (common).
pub const READ_ONLY: u32 = 262_196;
/// A value that a field cannot have (common).
pub const VALUE: u32 = 262_197;
/// A body where none belongs (common).
pub const BODY: u32 = 262_198;
/// Not JSON (common).
pub const JSON: u32 = 262_199;
/// A field that must be there is not (common).
pub const REQUIRED: u32 = 262_212;
/// An array where none belongs (common).
pub const ARRAY: u32 = 262_255;
/// A field that nothing can be ordered by (common).
pub const ORDER: u32 = 262_268;
/// The user is unknown, or the password is wrong (common).
pub const UNAUTHORIZED: u32 = 6_691_623;
/// The SVM does not exist (SVMs).
pub const NO_SVM: u32 = 2_621_462;
/// An SVM's name and UUID are of two SVMs (SVMs).
pub const TWO_SVMS: u32 = 2_621_706;
/// No SVM was named (SVMs).
pub const WHICH_SVM: u32 = 2_621_707;
/// A volume of that name exists (volumes).
pub const VOLUME_EXISTS: u32 = 917_526;
/// A name that a volume cannot have (volumes).
pub const VOLUME_NAME: u32 = 917_888;
/// A policy of that name and kind exists (policies).
pub const POLICY_EXISTS: u32 = 8_454_154;
/// A minimum is above its maximum (policies).
pub const POLICY_MIN_OVER_MAX: u32 = 8_454_194;
/// Minima and maxima that cannot be, alone or with each other (policies).
pub const POLICY_RANGE: u32 = 8_454_260;
/// An adaptive field that has to be above 0 (policies).
pub const POLICY_ADAPTIVE: u32 = 8_454_273;
/// Expected operations are above peak operations (policies).
pub const POLICY_EXPECTED_OVER_PEAK: u32 = 8_454_274;
/// The adaptive policy's name is that of a fixed one (policies).
pub const POLICY_EXISTS_FIXED: u32 = 8_454_277;
/// The fixed policy's name is that of an adaptive one (policies).
pub const POLICY_EXISTS_ADAPTIVE: u32 = 8_454_278;
/// A fixed policy cannot become adaptive (policies).
pub const POLICY_STAYS_FIXED: u32 = 8_454_327;
/// An adaptive policy cannot become fixed (policies).
pub const POLICY_STAYS_ADAPTIVE: u32 = 8_454_328;
/// Fields of a policy that cannot be given together (policies).
pub const POLICY_FIELDS: u32 = 8_454_389;
/// One of several records could not be changed (records).
pub const RECORD: u32 = 262_287;
/// Several records were changed, and others could not be (records).
pub const RECORDS: u32 = 262_292;

impl RestError {
    /// A fault about no field in particular.
    pub fn new(status: u16, code: u32, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), target: None }
    }

    /// A request that cannot be done as it is.
    pub fn bad(code: u32, message: impl Into<String>) -> Self {
        Self::new(400, code, message)
    }

    /// The same, about a field.
    #[must_use]
    pub fn about(mut self, target: impl Into<String>) -> Self {
        self.target = Some(target.into());
        self
    }

    /// A field or parameter that is not there.
    #[must_use]
    pub fn unexpected(argument: &str) -> Self {
        Self::bad(UNEXPECTED, format!("Unexpected argument \"{argument}\".")).about(argument)
    }

    /// A value that a field cannot have; `due` says what it can.
    #[must_use]
    pub fn value(field: &str, value: &str, due: &str) -> Self {
        let value: String = value.chars().take(100).collect();
        Self::bad(VALUE, format!("The value \"{value}\" is invalid for field \"{field}\" (<{due}>)"))
            .about(field)
    }

    /// A field that must be there is not.
    #[must_use]
    pub fn required(field: &str) -> Self {
        Self::bad(REQUIRED, format!("Field \"{field}\" is required")).about(field)
    }

    /// A field that this call cannot set.
    #[must_use]
    pub fn read_only(field: &str) -> Self {
        Self::bad(READ_ONLY, format!("Field \"{field}\" cannot be set in this operation")).about(field)
    }

    /// A change that changes nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self::bad(NOTHING, "You must provide one or more values to apply your changes")
    }

    /// There is nothing with that identifier.
    #[must_use]
    pub fn missing(target: &str) -> Self {
        Self::new(404, MISSING, "entry doesn't exist").about(target)
    }

    /// ONTAP's error object.
    #[must_use]
    pub fn body(&self) -> Value {
        let mut error = json!({ "message": self.message, "code": self.code.to_string() });
        if let Some(target) = &self.target {
            error["target"] = json!(target);
        }
        json!({ "error": error })
    }
}

impl From<StateError> for RestError {
    fn from(error: StateError) -> Self {
        let message = format!("failed to {error}");
        match error {
            StateError::Exists { kind: "volume", .. } => {
                Self::new(409, VOLUME_EXISTS, "The volume name specified is a duplicate.").about("name")
            }
            StateError::Exists { .. } => Self::new(409, EXISTS, message).about("name"),
            StateError::Missing { kind: "SVM", name } => {
                Self::new(404, NO_SVM, format!("SVM \"{name}\" does not exist.")).about("svm.name")
            }
            StateError::Missing { kind: "policy", .. } => Self::missing("qos.policy.name"),
            StateError::Missing { .. } => Self::missing("uuid"),
            StateError::Name(_) => Self::bad(VALUE, message).about("name"),
            StateError::InUse(name) => Self::new(
                409,
                IN_USE,
                format!(
                    "The policy \"{name}\" is in use by volumes; move them first, or delete it with -force."
                ),
            )
            .about("uuid"),
            StateError::Policy { fault, .. } => fault.into(),
            StateError::OtherSvm { .. } => Self::bad(CONTEXT, message).about("qos.policy.name"),
            StateError::Size { size_bytes, .. } => Self::value("size", &size_bytes.to_string(), "size"),
            StateError::Uuid(uuid) => Self::value("uuid", &uuid, "UUID"),
            StateError::Kind(_)
            | StateError::Open { .. }
            | StateError::Format { .. }
            | StateError::Database(_) => Self::new(500, INTERNAL, message),
        }
    }
}

impl From<PolicyFault> for RestError {
    fn from(fault: PolicyFault) -> Self {
        let message = fault.to_string();
        match fault {
            PolicyFault::Empty => Self::bad(POLICY_RANGE, message).about("fixed"),
            PolicyFault::MinOverMax { unit: "IOPS", .. } => {
                Self::bad(POLICY_MIN_OVER_MAX, message).about("fixed.min_throughput_iops")
            }
            PolicyFault::MinOverMax { .. } => {
                Self::bad(POLICY_MIN_OVER_MAX, message).about("fixed.min_throughput_mbps")
            }
            PolicyFault::ExpectedOverPeak { .. } => {
                Self::bad(POLICY_EXPECTED_OVER_PEAK, message).about("adaptive.expected_iops")
            }
            PolicyFault::NoPeak => Self::bad(POLICY_ADAPTIVE, message).about("adaptive.peak_iops"),
            PolicyFault::BlockSize(bytes) => {
                Self::value("adaptive.block_size", &bytes.to_string(), "any, 4k to 128k")
            }
        }
    }
}
