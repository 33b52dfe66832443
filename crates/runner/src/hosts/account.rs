//! What is known of another host before anything runs there.

use std::sync::Arc;

use plumb_kubernetes::{Cluster, Pods};
use plumb_model::PlaceOf;
use serde::Serialize;

use super::remote::Remote;

/// A host, or why it cannot be used.
#[derive(Debug, Clone, Serialize)]
pub struct HostAccount {
    /// As the places name it.
    pub host: String,
    /// Why it cannot be used; completes "failed to ...".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Facts about it as lines, the most telling first.
    pub facts: Vec<(String, String)>,
}

impl HostAccount {
    /// What is known of a cluster.
    #[must_use]
    pub fn of_cluster(cluster: &Cluster) -> Self {
        Self { host: "cluster".to_owned(), trouble: None, facts: cluster.facts() }
    }

    /// Connects to a host and disconnects.
    #[must_use]
    pub fn of(place: &PlaceOf, build: &str, pods: Option<&Arc<Pods>>) -> Self {
        let (trouble, facts) = match Remote::connect(place, build, pods) {
            Ok(remote) => (None, facts(&remote)),
            Err(trouble) => (Some(trouble), Vec::new()),
        };
        let host = place.ssh.clone().unwrap_or_else(|| place.name().to_owned());
        Self { host, trouble, facts }
    }
}

fn facts(remote: &Remote) -> Vec<(String, String)> {
    let hello = remote.hello();
    let clock = remote.clock();
    let copied = if remote.was_copied() { "this build, copied there" } else { "this build, installed there" };
    let user =
        if hello.is_root { "root" } else { "an ordinary user, so tunings and namespaces may lack rights" };
    let mut facts = vec![
        ("plumb".to_owned(), copied.to_owned()),
        ("user".to_owned(), user.to_owned()),
        ("c library".to_owned(), remote.library().to_owned()),
        ("round trip".to_owned(), format!("{:.2} ms", remote.round_trip_ns() as f64 / 1e6)),
        ("clock".to_owned(), format!("known to within {:.2} ms", clock.bound_ns as f64 / 1e6)),
    ];
    facts.extend(remote.lines());
    facts.extend(hello.address.map(|address| ("address".to_owned(), address.to_string())));
    facts.extend(hello.facts.iter().cloned());
    facts
}

/// What `plumb` prints on a host when it is called with these arguments.
///
/// # Errors
/// When the host cannot be used; the text completes "failed to ...".
pub fn told_by(place: &PlaceOf, build: &str, arguments: &[&str]) -> Result<String, String> {
    Remote::connect(place, build, None)?.tell(arguments)
}
