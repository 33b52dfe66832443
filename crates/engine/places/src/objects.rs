//! Cluster objects that variants change. The runner itself makes these changes, since a cluster is not a
//! host.
//!
//! A change stays until a slot of another variant, as a rollout takes longer than a slot.

use std::collections::BTreeMap;

use plumb_kubernetes::{ChangedObject, Cluster};
use plumb_model::user_change::KubernetesChange;
use plumb_model::{Evidence, UserChange, facts, statements};

use crate::error::HostError;

statements! {
    OBJECT = "cluster-object": "{of}", "{asked}", "{seen}";
}

/// The objects that a run has changed so far.
#[derive(Debug, Default)]
pub struct Objects {
    cluster: Option<Cluster>,
    /// Every change so far, with its object.
    known: Vec<(KubernetesChange, ChangedObject)>,
    /// Indexes of the changes in effect now, in the order in which they were made.
    changed: Vec<usize>,
}

impl Objects {
    /// No changes yet, of a cluster's objects.
    pub(crate) fn in_cluster(cluster: Option<Cluster>) -> Self {
        Self { cluster, known: Vec::new(), changed: Vec::new() }
    }

    /// Puts exactly these changes into effect.
    ///
    /// # Errors
    /// When an object refuses one.
    pub fn turn_to(&mut self, changes: &[UserChange]) -> Result<(), HostError> {
        let wanted = changes.iter().filter_map(of_cluster).map(|change| self.find(change));
        let wanted: Vec<usize> = wanted.collect::<Result<_, _>>()?;
        if wanted == self.changed {
            return Ok(());
        }
        self.put_back()?;
        for at in wanted {
            self.known[at].1.apply()?;
            self.changed.push(at);
        }
        Ok(())
    }

    /// Undoes all changes, the last one first.
    ///
    /// # Errors
    /// When an object is not restored.
    pub fn put_back(&mut self) -> Result<(), HostError> {
        while let Some(at) = self.changed.last() {
            self.known[*at].1.restore()?;
            self.changed.pop();
        }
        Ok(())
    }

    /// Evidence whether each object is as this program left it. If several changes concern one object, the
    /// last one determines its expected state.
    pub fn look(&self) -> Vec<Evidence> {
        let mut objects: BTreeMap<&str, &ChangedObject> = BTreeMap::new();
        for (_, target) in &self.known {
            objects.entry(target.object()).or_insert(target);
        }
        for at in &self.changed {
            let target = &self.known[*at].1;
            objects.insert(target.object(), target);
        }
        let evidence = |target: &ChangedObject| {
            let (asked, seen) = target.look();
            OBJECT.equal(facts![of = target.object_in_words(), asked, seen])
        };
        objects.into_values().map(evidence).collect()
    }

    fn find(&mut self, change: &KubernetesChange) -> Result<usize, HostError> {
        if let Some(at) = self.known.iter().position(|(known, _)| known == change) {
            return Ok(at);
        }
        let what = || format!("change {} {}", change.kind, change.name);
        let cluster = self.cluster.as_ref().ok_or_else(|| HostError::NoCluster { what: what() })?;
        let target = ChangedObject::find(cluster, change)?;
        self.known.push((change.clone(), target));
        Ok(self.known.len() - 1)
    }
}

fn of_cluster(change: &UserChange) -> Option<&KubernetesChange> {
    match change {
        UserChange::Kubernetes(change) => Some(change),
        UserChange::Command(_) | UserChange::File(_) | UserChange::Sysctl(_) | UserChange::Service(_) => None,
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        // A run that ended well has restored them already. Otherwise each object stores its original state.
        let _ = self.put_back();
    }
}
