//! The progress of a rollout, read from an object's status.

use serde_json::Value;

/// The state of a rollout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rollout {
    /// Something that the object runs does not match its specification yet.
    UnderWay,
    /// Everything matches.
    Complete,
    /// Kubernetes has given up, for this reason.
    GivenUp(String),
}

/// The state of an object's rollout.
pub(crate) fn state(object: &Value) -> Rollout {
    let (status, generation) = (&object["status"], number(&object["metadata"]["generation"]));
    if number(&status["observedGeneration"]) < generation {
        return Rollout::UnderWay;
    }
    let conditions = status["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    if let Some(stuck) = conditions.iter().find(|condition| condition["reason"] == "ProgressDeadlineExceeded")
    {
        let reason = stuck["message"].as_str().unwrap_or("its deadline has passed");
        return Rollout::GivenUp(reason.to_owned());
    }
    let is_complete = counts(object).iter().all(|(_, wanted, there)| wanted == there);
    if is_complete { Rollout::Complete } else { Rollout::UnderWay }
}

/// The part of the rollout that is still missing, in words.
pub(crate) fn shortfall(object: &Value) -> String {
    let missing = counts(object).into_iter().find(|(_, wanted, there)| wanted != there);
    let conditions = object["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let bad = conditions
        .iter()
        .find(|condition| condition["type"] == "ReplicaFailure" && condition["status"] == "True");
    match (bad, missing) {
        (Some(bad), _) => bad["message"].as_str().unwrap_or_default().to_owned(),
        (None, Some((_, wanted, there))) if there > wanted => {
            format!("{} old pods still run, as no new one is ready", there - wanted)
        }
        (None, Some((what, wanted, there))) => format!("{there} of {wanted} pods are {what}"),
        (None, None) => "its controller has not seen the change yet".to_owned(),
    }
}

/// Counts that have to be equal: the name of the pods, how many are wanted, how many exist.
fn counts(object: &Value) -> Vec<(&'static str, u64, u64)> {
    let status = &object["status"];
    match object["kind"].as_str().unwrap_or_default() {
        "Deployment" | "StatefulSet" => {
            let wanted = object["spec"]["replicas"].as_u64().unwrap_or(1);
            let ready = if object["kind"] == "Deployment" { "availableReplicas" } else { "readyReplicas" };
            vec![
                ("updated", wanted, number(&status["updatedReplicas"])),
                ("ready", wanted, number(&status[ready])),
                ("left", wanted, number(&status["replicas"])),
            ]
        }
        "DaemonSet" => {
            let wanted = number(&status["desiredNumberScheduled"]);
            vec![
                ("updated", wanted, number(&status["updatedNumberScheduled"])),
                ("ready", wanted, number(&status["numberAvailable"])),
            ]
        }
        _ => Vec::new(),
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rollout_is_over_when_no_old_pod_is_left() {
        let deployment = |seen: u64, updated: u64, all: u64| {
            json!({
                "kind": "Deployment", "metadata": { "generation": 2 }, "spec": { "replicas": 2 },
                "status": { "observedGeneration": seen, "updatedReplicas": updated, "availableReplicas": 2, "replicas": all },
            })
        };
        assert_eq!(state(&deployment(1, 2, 2)), Rollout::UnderWay);
        assert_eq!(state(&deployment(2, 1, 3)), Rollout::UnderWay);
        assert_eq!(state(&deployment(2, 2, 3)), Rollout::UnderWay);
        assert_eq!(state(&deployment(2, 2, 2)), Rollout::Complete);
        assert_eq!(shortfall(&deployment(2, 1, 3)), "1 of 2 pods are updated");
    }

    #[test]
    fn kubernetes_reason_for_giving_up_is_told() {
        let stuck = json!({
            "kind": "Deployment", "metadata": { "generation": 1 },
            "status": { "observedGeneration": 1, "conditions": [
                { "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out" }
            ] },
        });
        assert_eq!(state(&stuck), Rollout::GivenUp("timed out".to_owned()));
    }
}
