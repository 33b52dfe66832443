//! Systems that exist already and that an object of the cluster leads to. A run goes where the object led when the run was planned, and
//! every slot says whether the object still leads there.

use std::collections::BTreeMap;

use plumb_kubernetes::Cluster;
use plumb_model::{ClusterObject, Endpoint, Evidence};

/// An object, and whether the loads that go by it are in the cluster.
type ObjectSeen = (ClusterObject, bool);

/// Where objects of the cluster led when they were first asked about.
#[derive(Debug, Default)]
pub(crate) struct Endpoints(BTreeMap<ObjectSeen, Endpoint>);

impl Endpoints {
    /// Where an object leads.
    ///
    /// # Errors
    /// Why it leads nowhere, which completes "failed to ...".
    pub(crate) fn find(
        &mut self,
        cluster: Option<&Cluster>,
        object: &ClusterObject,
        is_inside: bool,
    ) -> Result<Endpoint, String> {
        let seen = (object.clone(), is_inside);
        if let Some(known) = self.0.get(&seen) {
            return Ok(known.clone());
        }
        let cluster = cluster.ok_or_else(|| {
            format!(
                "find {object}: the places name no cluster; add `kubernetes: {{}}` to a places file, and give it with `--places`"
            )
        })?;
        let found = cluster.endpoint(object, is_inside).map_err(|error| error.to_string())?;
        self.0.insert(seen, found.clone());
        Ok(found)
    }

    /// Whether an object still leads to where it did.
    pub(crate) fn evidence(
        &self,
        cluster: Option<&Cluster>,
        object: &ClusterObject,
        is_inside: bool,
    ) -> Option<Evidence> {
        let expected = self.0.get(&(object.clone(), is_inside))?.to_string();
        let now = cluster?.endpoint(object, is_inside);
        let observed = now.map_or_else(|error| format!("failed to {error}"), |now| now.to_string());
        Some(Evidence {
            what: format!("where {object} leads"),
            holds: observed == expected,
            expected,
            observed,
        })
    }
}
