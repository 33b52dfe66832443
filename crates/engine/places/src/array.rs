//! The storage array behind the volumes of pods, which is asked for the policies of volumes.

use std::collections::BTreeMap;
use std::env::VarError;

use plumb_host::named_file;
use plumb_kubernetes::{Cluster, VolumeOnArray};
use plumb_model::{ArrayPlace, ArrayVolume, Evidence, facts, statements};
use plumb_path::DataPath;
use plumb_path::family::{ArrayAccess, ArrayPolicy};

statements! {
    NO_VOLUME = "array-policy": "policy of the system's volume on the array", UNKNOWN, FAILED;
    NO_POLICY = "array-policy": OF_VOLUME, UNKNOWN, FAILED;
    POLICY = "array-policy": OF_VOLUME, "{asked}", "{seen}";
}

const OF_VOLUME: &str = "policy of the volume {of}, as the array reports it";
const UNKNOWN: &str = "a policy that the array reports";
const FAILED: &str = "failed to {reason}";

/// An array, with its first answer for each volume.
pub(super) struct Array {
    access: ArrayAccess,
    svm: Option<String>,
    first: BTreeMap<ArrayVolume, ArrayPolicy>,
}

impl Array {
    /// The array of the places, with the account from the source that they name.
    ///
    /// # Errors
    /// When there is no account.
    pub(super) fn from_place(place: &ArrayPlace, cluster: Option<&Cluster>) -> Result<Self, AccountError> {
        let (user, password) = account(place, cluster)?;
        let ArrayPlace { url, certificate, insecure, svm, .. } = place.clone();
        let access = ArrayAccess { url, certificate, insecure, user, password };
        Ok(Self { access, svm, first: BTreeMap::new() })
    }

    /// The SVM of volumes that do not name theirs.
    pub(super) fn svm(&self) -> Option<&str> {
        self.svm.as_deref()
    }

    /// Evidence whether a volume is under the policy that its class asks for, and is still under the policy
    /// of the first answer.
    pub(super) fn evidence(
        &mut self,
        path: &DataPath,
        found: Result<VolumeOnArray, plumb_kubernetes::Error>,
    ) -> Option<Evidence> {
        let VolumeOnArray { volume, policy: asked } = match found {
            Ok(found) => found,
            Err(error) => return Some(NO_VOLUME.evidence(false, facts![reason = error.to_string()])),
        };
        let of = format!("{} of {}", volume.name, volume.svm);
        let said = match path.policy_on_array(&self.access, &volume)? {
            Ok(said) => said,
            Err(error) => return Some(NO_POLICY.evidence(false, facts![of, reason = error.to_string()])),
        };
        let first = self.first.entry(volume).or_insert_with(|| said.clone());
        let expected =
            ArrayPolicy { name: asked.unwrap_or_else(|| first.name.clone()), limits: first.limits.clone() };
        let (asked, seen) = (policy_in_words(&expected), policy_in_words(&said));
        Some(POLICY.evidence(said == expected, facts![of, asked, seen]))
    }
}

fn policy_in_words(policy: &ArrayPolicy) -> String {
    if policy.name == "none" { policy.limits.clone() } else { format!("{}, {}", policy.name, policy.limits) }
}

fn account(place: &ArrayPlace, cluster: Option<&Cluster>) -> Result<(String, String), AccountError> {
    let pair = |whence: String, text: &str| {
        let first = text.lines().next().and_then(|line| line.split_once(':'));
        let (user, password) = first.ok_or(AccountError::NoPair { whence })?;
        Ok((user.to_owned(), password.to_owned()))
    };
    if let Some(name) = &place.credentials_env {
        let text =
            std::env::var(name).map_err(|cause| AccountError::Variable { name: name.clone(), cause })?;
        return pair(format!("the environment variable {name}"), &text);
    }
    if let Some(file) = &place.credentials_file {
        let text = named_file::text(file).map_err(AccountError::File)?;
        return pair(file.display().to_string(), &text);
    }
    let (secret, cluster) = place.secret.as_ref().zip(cluster).ok_or(AccountError::None)?;
    cluster.account_in(secret).map_err(AccountError::Secret)
}

/// Why the account of an array is unknown.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The environment variable has no text.
    #[error("read the array's account from the environment variable {name}: {cause}")]
    Variable {
        /// The name.
        name: String,
        /// Why.
        cause: VarError,
    },
    /// The variable or file does not hold an account.
    #[error("read the array's account from {whence}: it does not hold `user:password`")]
    NoPair {
        /// The variable or file.
        whence: String,
    },
    /// The file cannot be read.
    #[error("read the array's account: {0}")]
    File(plumb_host::Error),
    /// The cluster's Secret cannot be read.
    #[error("read the array's account: {0}")]
    Secret(plumb_kubernetes::Error),
    /// The places name no source of the account.
    #[error("read the array's account: the places name none")]
    None,
}
