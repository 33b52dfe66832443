//! Privileged pods that read the counters of nodes: one on each node that has a pod of the run.

use std::sync::Arc;

use plumb_kubernetes::{NODE_ROOT, Pods};
use plumb_model::{Json, JsonValue, PlaceOf, PodPlace, Readers};

use super::connections::{Connections, Other, first_connection};
use crate::error::HostError;
use crate::node::Watched;

impl Connections {
    /// Connects a reader on each node with a current pod, if the places ask for readers. A lost reader is
    /// replaced.
    ///
    /// # Errors
    /// When one cannot be created.
    pub(super) fn connect_readers(&mut self) -> Result<(), HostError> {
        let Some(asked) = self.asked_readers.clone() else { return Ok(()) };
        self.readers.retain_mut(|reader| !reader.remote.is_lost());
        let mut nodes: Vec<String> =
            self.others.iter().filter_map(|other| other.remote.node()).map(str::to_owned).collect();
        nodes.sort();
        nodes.dedup();
        for node in nodes {
            if self.readers.iter().any(|reader| reader.remote.node() == Some(&node)) {
                continue;
            }
            self.readers.push(reader(&node, &asked, &self.build, self.pods.as_ref())?);
        }
        Ok(())
    }
}

/// Creates a reader on a node. Its later looks include the node's counters.
///
/// # Errors
/// When there can be none.
pub(crate) fn reader(
    node: &str,
    asked: &Readers,
    build: &str,
    pods: Option<&Arc<Pods>>,
) -> Result<Other, HostError> {
    let place = PlaceOf { pod: Some(reader_on(node, asked)), ..PlaceOf::default() };
    let connected = first_connection(&place, build, pods);
    let failed = |cause| HostError::Reader { node: node.to_owned(), cause: Box::new(cause) };
    let mut remote = connected.map_err(failed)?;
    let Readers { fw_counters, network, .. } = *asked;
    remote.watch_node(Watched { root: NODE_ROOT.into(), fw_counters, network })?;
    Ok(Other { place, remote })
}

/// A pod that reads a node. The scheduler places it, so taints apply unless the settings tolerate them.
fn reader_on(node: &str, asked: &Readers) -> PodPlace {
    let privileged = [("privileged".to_owned(), JsonValue::Bool(true))].into();
    let base = PodPlace {
        name: Some(format!("reader-{node}")),
        node_name: Some(node.to_owned()),
        host_network: asked.network,
        security_context: Some(Json(JsonValue::Map(privileged))),
        sees_node: true,
        ..PodPlace::default()
    };
    asked.pod.as_ref().map_or(base.clone(), |over| PodPlace { name: base.name.clone(), ..base.under(over) })
}
