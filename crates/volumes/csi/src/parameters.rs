//! Parameters of storage classes and of volume attributes classes: the policy that a volume is under.
//!
//! The names are those of NetApp Trident's settings
//! (<https://docs.netapp.com/us-en/trident/trident-use/ontap-san-examples.html>), so that a storage class
//! means the same to both drivers.

use plumb_volumes::policy::Policy;
use plumb_volumes::state::{DEFAULT_SVM, PolicyRow};

use crate::fault::CallError;
use crate::messages::Texts;

const FIXED: &str = "qosPolicy";
const ADAPTIVE: &str = "adaptiveQosPolicy";
/// The prefix of parameters that Kubernetes' provisioner adds.
const PROVISIONERS: &str = "csi.storage.k8s.io/";

/// The policy of a new volume, and the SVM that the volume belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The policy's name; `None` for no policy.
    pub policy: Option<String>,
    /// The SVM of the policy.
    pub svm: String,
}

/// Reads parameters; later maps override earlier ones. `None` if none names a policy.
///
/// # Errors
/// When a parameter is unknown, both parameters are given, or the policy does not exist or is of the other kind.
pub fn placement(parameters: &[&Texts], policies: &[PolicyRow]) -> Result<Option<Placement>, CallError> {
    let mut named: Option<(&str, &str)> = None;
    for texts in parameters {
        let mut here: Option<(&str, &str)> = None;
        for (key, value) in texts.iter().filter(|(key, _)| !key.starts_with(PROVISIONERS)) {
            if ![FIXED, ADAPTIVE].contains(&key.as_str()) {
                return Err(CallError::Invalid(format!(
                    "unknown parameter `{key}`; there are `{FIXED}` and `{ADAPTIVE}`"
                )));
            }
            if here.replace((key, value)).is_some() {
                return Err(CallError::Invalid(format!(
                    "`{FIXED}` and `{ADAPTIVE}` exclude each other: a volume is under one policy"
                )));
            }
        }
        named = here.or(named);
    }
    named.map(|(key, name)| find(key, name, policies)).transpose()
}

fn find(key: &str, name: &str, policies: &[PolicyRow]) -> Result<Placement, CallError> {
    // An empty value means no policy, as in Trident's settings.
    if name.is_empty() {
        return Ok(Placement { policy: None, svm: DEFAULT_SVM.to_owned() });
    }
    let row = policies.iter().find(|row| row.name == name).ok_or_else(|| {
        CallError::Invalid(format!(
            "`{key}`: there is no policy `{name}`; `plumb volumes policy create {name}` makes one"
        ))
    })?;
    let kind = match row.policy {
        Policy::Fixed(_) => FIXED,
        Policy::Adaptive(_) => ADAPTIVE,
    };
    if kind != key {
        return Err(CallError::Invalid(format!(
            "`{key}`: the policy `{name}` is of the other kind; use `{kind}`"
        )));
    }
    Ok(Placement { policy: Some(name.to_owned()), svm: row.svm.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_volumes::policy::{Adaptive, Fixed};

    fn row(name: &str, policy: Policy) -> PolicyRow {
        PolicyRow { name: name.to_owned(), uuid: name.to_owned(), svm: "svm1".to_owned(), policy }
    }

    fn texts(pairs: &[(&str, &str)]) -> Texts {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn parameters_name_a_policy_of_their_kind() {
        let fixed = Policy::Fixed(Fixed { max_iops: Some(500), ..Fixed::default() });
        let policies = [row("gold", fixed), row("per-gb", Policy::Adaptive(Adaptive::new(1, 2)))];
        let placed = |parameters: &[&Texts]| placement(parameters, &policies);
        assert_eq!(placed(&[&texts(&[("csi.storage.k8s.io/pvc/name", "a")])]), Ok(None));
        let gold = texts(&[(FIXED, "gold")]);
        let expected = Placement { policy: Some("gold".to_owned()), svm: "svm1".to_owned() };
        assert_eq!(placed(&[&gold]), Ok(Some(expected)));
        let later = placed(&[&gold, &texts(&[(ADAPTIVE, "per-gb")])]).unwrap().unwrap();
        assert_eq!(later.policy.as_deref(), Some("per-gb"));
        assert_eq!(placed(&[&gold, &texts(&[(FIXED, "")])]).unwrap().unwrap().policy, None);
        for wrong in [
            texts(&[(FIXED, "per-gb")]),
            texts(&[(ADAPTIVE, "gold")]),
            texts(&[(FIXED, "none-such")]),
            texts(&[("qospolicy", "gold")]),
            texts(&[(FIXED, "gold"), (ADAPTIVE, "per-gb")]),
        ] {
            assert!(matches!(placed(&[&wrong]), Err(CallError::Invalid(_))), "{wrong:?}");
        }
    }
}
