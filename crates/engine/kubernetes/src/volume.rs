//! Volumes of pods: the PersistentVolume and the array behind a claim.

use plumb_model::ArrayVolume;
use serde_json::Value;

use crate::api::Cluster;
use crate::error::{Error, Unfound};

impl Cluster {
    /// Checks that the storage class of a claim exists, if the account may see that. Without it, a pod would
    /// wait for its volume.
    pub(crate) fn check_class(&self, claim: &Value) -> Result<(), Error> {
        let Some(name) = claim["storageClassName"].as_str().filter(|name| !name.is_empty()) else {
            return Ok(());
        };
        match self.get(&class_path(name)) {
            Err(error) if error.is_not_found() => Err(Error::NoClass(name.to_owned())),
            _ => Ok(()),
        }
    }

    /// A claim's volume in words: name, size and mode, and the class with its parameters.
    pub(crate) fn volume(&self, claim: &str) -> Result<String, Error> {
        let claim = self.get(&format!("{}/{claim}", self.path("/api/v1", "persistentvolumeclaims")))?;
        // Some accounts may not read classes.
        let class = claim["spec"]["storageClassName"].as_str();
        let class = class.and_then(|name| self.get(&class_path(name)).ok());
        Ok(volume_in_words(&claim, class.as_ref()))
    }
}

/// A volume, as the array behind it names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeOnArray {
    /// The volume's name on the array.
    pub volume: ArrayVolume,
    /// The policy that its storage class asks for, if the class names one and the account may read it.
    pub policy: Option<String>,
}

impl Cluster {
    /// The array's name for the volume of a claim, read from its PersistentVolume. `svm` is the fallback for
    /// volumes that do not name their SVM.
    ///
    /// # Errors
    /// When the account may not read PersistentVolumes, or this one does not name its volume.
    pub(crate) fn volume_on_array(&self, claim: &str, svm: Option<&str>) -> Result<VolumeOnArray, Error> {
        let claim = self.get(&format!("{}/{claim}", self.path("/api/v1", "persistentvolumeclaims")))?;
        let name = claim["spec"]["volumeName"].as_str().unwrap_or_default();
        let volume = self.get(&format!("/api/v1/persistentvolumes/{name}"))?;
        let class = claim["spec"]["storageClassName"].as_str();
        let class = class.and_then(|name| self.get(&class_path(name)).ok());
        let volume = on_array(&volume, svm).ok_or_else(|| Error::NoEndpoint {
            object: format!("the array's volume behind PersistentVolume {name}"),
            cause: Unfound::NoArrayVolume,
        })?;
        // A volume attributes class may have moved the volume to another policy since.
        let is_moved = claim["status"]["currentVolumeAttributesClassName"].is_string();
        Ok(VolumeOnArray { volume, policy: class.filter(|_| !is_moved).and_then(|class| policy_of(&class)) })
    }
}

/// The volume that Trident names in the attributes: `internalName`, and `internalID` as
/// `/svm/SVM/flexvol/NAME`.
fn on_array(volume: &Value, svm: Option<&str>) -> Option<ArrayVolume> {
    let attributes = &volume["spec"]["csi"]["volumeAttributes"];
    let name = attributes["internalName"].as_str()?.to_owned();
    let id = attributes["internalID"].as_str().unwrap_or_default();
    let own = id.strip_prefix("/svm/").and_then(|rest| rest.split('/').next());
    Some(ArrayVolume { svm: own.or(svm)?.to_owned(), name })
}

fn policy_of(class: &Value) -> Option<String> {
    let parameters = &class["parameters"];
    let policy = parameters["qosPolicy"].as_str().or_else(|| parameters["adaptiveQosPolicy"].as_str())?;
    Some(policy.to_owned()).filter(|policy| !policy.is_empty())
}

fn class_path(name: &str) -> String {
    format!("/apis/storage.k8s.io/v1/storageclasses/{name}")
}

fn volume_in_words(claim: &Value, class: Option<&Value>) -> String {
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

/// The provisioner of a class, and its parameters.
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
            volume_in_words(&claim, Some(&class)),
            "pvc-1 of 100Gi, Filesystem, ReadWriteOnce, class sc-qos1 (csi.plumbline.dev, qosPolicy: QoS_500iops)"
        );
        assert_eq!(volume_in_words(&claim, None), "pvc-1 of 100Gi, Filesystem, ReadWriteOnce, class sc-qos1");
    }

    #[test]
    fn a_volume_is_known_on_the_array_by_what_its_driver_says() {
        let volume = |attributes: Value| json!({ "spec": { "csi": { "volumeAttributes": attributes } } });
        let of = |svm: &str| Some(ArrayVolume { svm: svm.to_owned(), name: "trident_pvc_1".to_owned() });
        let whole =
            json!({ "internalName": "trident_pvc_1", "internalID": "/svm/svm1/flexvol/trident_pvc_1" });
        assert_eq!(on_array(&volume(whole), Some("other")), of("svm1"));
        let named = volume(json!({ "internalName": "trident_pvc_1" }));
        assert_eq!((on_array(&named, Some("svm2")), on_array(&named, None)), (of("svm2"), None));
        assert_eq!(on_array(&volume(Value::Null), Some("svm2")), None);
    }
}
