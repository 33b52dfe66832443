//! Volumes of pods: what stands behind a claim.

use serde_json::Value;

use crate::api::Cluster;
use crate::error::Error;

impl Cluster {
    /// Makes sure that the storage class of a claim exists, as far as the account may see that: a pod would wait for it.
    pub(crate) fn check_class(&self, claim: &Value) -> Result<(), Error> {
        let Some(name) = claim["storageClassName"].as_str().filter(|name| !name.is_empty()) else {
            return Ok(());
        };
        match self.get(&class_path(name)) {
            Err(error) if error.is_not_found() => Err(Error::NoClass(name.to_owned())),
            _ => Ok(()),
        }
    }

    /// A claim's volume in words: name, size, mode, and the class with its parameters.
    pub(crate) fn volume(&self, claim: &str) -> Result<String, Error> {
        let claim = self.get(&format!("{}/{claim}", self.path("/api/v1", "persistentvolumeclaims")))?;
        // Not every account may see classes.
        let class = claim["spec"]["storageClassName"].as_str();
        let class = class.and_then(|name| self.get(&class_path(name)).ok());
        Ok(words(&claim, class.as_ref()))
    }
}

fn class_path(name: &str) -> String {
    format!("/apis/storage.k8s.io/v1/storageclasses/{name}")
}

fn words(claim: &Value, class: Option<&Value>) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let (spec, status) = (&claim["spec"], &claim["status"]);
    let modes = spec["accessModes"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
    let attributes = status["currentVolumeAttributesClassName"].as_str();
    let attributes = attributes.map(|name| format!(", attributes class {name}")).unwrap_or_default();
    format!(
        "{} of {}, {}, {}, class {}{attributes}{}",
        text(&spec["volumeName"]),
        text(&status["capacity"]["storage"]),
        text(&spec["volumeMode"]),
        modes.join(" "),
        text(&spec["storageClassName"]),
        class.map(parameters).unwrap_or_default(),
    )
}

/// The provisioner of a class, and what it is told.
fn parameters(class: &Value) -> String {
    let given = class["parameters"].as_object().into_iter().flatten();
    let given: String =
        given.map(|(name, value)| format!(", {name}: {}", value.as_str().unwrap_or_default())).collect();
    format!(" ({}{given})", class["provisioner"].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_volume_is_told_with_its_class_and_policy() {
        let claim = json!({
            "spec": {
                "storageClassName": "sc-qos1", "volumeName": "pvc-1", "volumeMode": "Filesystem",
                "accessModes": ["ReadWriteOnce"],
            },
            "status": { "capacity": { "storage": "100Gi" } },
        });
        let class =
            json!({ "provisioner": "csi.plumbline.dev", "parameters": { "qosPolicy": "QoS_500iops" } });
        assert_eq!(
            words(&claim, Some(&class)),
            "pvc-1 of 100Gi, Filesystem, ReadWriteOnce, class sc-qos1 (csi.plumbline.dev, qosPolicy: QoS_500iops)"
        );
        assert_eq!(words(&claim, None), "pvc-1 of 100Gi, Filesystem, ReadWriteOnce, class sc-qos1");
    }
}
