//! Existing systems that a cluster object leads to. A run uses the endpoint that the object led to when the
//! run was planned, and every slot says whether the object still leads there.

use std::collections::BTreeMap;

use plumb_kubernetes::Cluster;
use plumb_model::{ClusterObject, Endpoint, Evidence, facts, statements};

use crate::error::HostError;

statements! {
    ENDPOINT = "endpoint": "endpoint of {of}", "{asked}", "{seen}";
}

/// An object, and whether the loads that use it are in the cluster.
type ObjectSeen = (ClusterObject, bool);

/// The endpoints of cluster objects when they were first looked up.
#[derive(Debug, Default)]
pub(crate) struct Endpoints(BTreeMap<ObjectSeen, Endpoint>);

impl Endpoints {
    /// The endpoint of an object.
    ///
    /// # Errors
    /// When it leads nowhere.
    pub(crate) fn find(
        &mut self,
        cluster: Option<&Cluster>,
        object: &ClusterObject,
        is_inside: bool,
    ) -> Result<Endpoint, HostError> {
        let seen = (object.clone(), is_inside);
        if let Some(known) = self.0.get(&seen) {
            return Ok(known.clone());
        }
        let cluster = cluster.ok_or_else(|| HostError::NoCluster { what: format!("find {object}") })?;
        let found = cluster.endpoint(object, is_inside)?;
        self.0.insert(seen, found.clone());
        Ok(found)
    }

    /// Evidence whether an object still leads to its first endpoint.
    pub(crate) fn evidence(
        &self,
        cluster: Option<&Cluster>,
        object: &ClusterObject,
        is_inside: bool,
    ) -> Option<Evidence> {
        let asked = self.0.get(&(object.clone(), is_inside))?.to_string();
        let now = cluster?.endpoint(object, is_inside);
        let seen = now.map_or_else(|error| format!("failed to {error}"), |now| now.to_string());
        Some(ENDPOINT.equal(facts![of = object.to_string(), asked, seen]))
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::ClusterObjectKind;

    use super::*;

    #[test]
    fn without_a_cluster_the_missing_key_is_named() {
        let object = ClusterObject::written(ClusterObjectKind::Service, "web:web", None);
        insta::assert_snapshot!(
            Endpoints::default().find(None, &object, false).unwrap_err(),
            @"find Service web:web: the places name no cluster; add `kubernetes: {}` to a places file, and give it with `--places`"
        );
    }
}
