//! A variant's needs beyond the places: its own pods, a Service in front of them, a cluster object that leads
//! to its system.

use plumb_model::{Evidence, PodPlace, PodSides};
use plumb_path::{DataPath, PathSettings};
use serde_json::Value;

use super::{Hosts, Side};
use crate::error::HostError;
use crate::host_reading::SeenHost;
use crate::service;
use crate::slot_error::SlotError;

impl Hosts {
    /// Moves the sides to the pods that a variant asks for. Missing pods are created.
    ///
    /// # Errors
    /// When they cannot be created.
    pub fn turn_to(&mut self, over: &PodSides) -> Result<(), HostError> {
        let before = std::mem::replace(&mut self.layout.places, self.layout.given.clone());
        let laid = self.lie_over_both(over).and_then(|()| self.connections.add_missing(&self.layout.places));
        laid.inspect_err(|_| self.layout.places = before)
    }

    /// Moves the sides back to where the places say, without any variant's pods.
    pub fn turn_back(&mut self) {
        self.layout.places = self.layout.given.clone();
    }

    fn lie_over_both(&mut self, over: &PodSides) -> Result<(), HostError> {
        if over.is_empty() {
            return Ok(());
        }
        self.lie_over(Side::System, over.system.as_ref())?;
        for load in 0..self.layout.places.load.len() {
            // A load in the system's pod stays in it.
            if self.layout.given.load[load].host() == self.layout.given.system.host() {
                self.layout.places.load[load].pod = self.layout.places.system.pod.clone();
            }
            self.lie_over(Side::Load(load), over.load.as_ref())?;
        }
        Ok(())
    }

    /// Gives a side a pod with the variant's settings over it. An existing pod is used if it is equal.
    fn lie_over(&mut self, side: Side, over: Option<&PodPlace>) -> Result<(), HostError> {
        let Some(over) = over else { return Ok(()) };
        let known: Vec<PodPlace> =
            self.connections.others.iter().filter_map(|other| other.place.pod.clone()).collect();
        let place = match side {
            Side::System => Some(&mut self.layout.places.system),
            Side::Load(load) => self.layout.places.load.get_mut(load),
        };
        let Some(pod) = place.and_then(|place| place.pod.as_mut()) else {
            return Err(HostError::NoPod);
        };
        let wanted = pod.under(over);
        if wanted.is_like(pod) {
            return Ok(());
        }
        let base = format!("{}-v", pod.name.as_deref().unwrap_or("pod"));
        let named = |known: &&PodPlace| known.name.as_ref().is_some_and(|name| name.starts_with(&base));
        let same = known.iter().filter(named).find(|known| known.is_like(&wanted));
        let name = match same {
            Some(same) => same.name.clone(),
            None => Some(format!("{base}{}", known.iter().filter(named).count() + 1)),
        };
        *pod = PodPlace { name, ..wanted };
        Ok(())
    }

    /// Whether loads reach the current system through a Service.
    pub fn have_service(&self) -> bool {
        self.layout.places.system.pod.as_ref().is_some_and(|pod| pod.service)
    }

    /// The target of the current system for the loads: through a Service if its pod has one.
    ///
    /// # Errors
    /// When the Service cannot be created.
    pub fn target_for_loads(&mut self, target: Value) -> Result<Value, SlotError> {
        let has_service = self.have_service();
        let other = self.connections.to(self.layout.place(Side::System).host());
        let Some(other) = other.filter(|_| has_service) else { return Ok(target) };
        let Some(address) = other.remote.hello().address else { return Ok(target) };
        let Some(pod) = other.remote.pod() else { return Ok(target) };
        let service = pod.serve(&service::ports(&target, address)).map_err(HostError::from)?;
        Ok(service::readdressed(target, address, service))
    }

    /// Replaces the cluster object that the settings name, if any, by its endpoint.
    ///
    /// # Errors
    /// When the object leads nowhere.
    pub fn lead(&mut self, settings: &mut PathSettings) -> Result<(), HostError> {
        if let Some(object) = settings.facts().system.object {
            let is_inside = self.has_loads_in_pods();
            let found = self.endpoints.find(self.cluster.as_ref(), &object, is_inside)?;
            *settings = settings.clone().leading_to(&found);
        }
        Ok(())
    }

    /// Evidence from the cluster and the array behind it, and of CPUs that were kept from idling, of a window in which hosts were seen
    /// like this.
    pub fn evidence(&mut self, path: &DataPath, settings: &PathSettings, seen: &[SeenHost]) -> Vec<Evidence> {
        let object = self.evidence_of_object(settings);
        let pods = self.evidence_of_pods(seen);
        let awake = seen.iter().filter_map(SeenHost::evidence_of_awake);
        object.into_iter().chain(pods).chain(awake).chain(self.evidence_of_array(path)).collect()
    }

    /// Evidence whether the cluster object still leads to its first endpoint, if the settings name one.
    fn evidence_of_object(&self, settings: &PathSettings) -> Option<Evidence> {
        let object = settings.facts().system.object?;
        self.endpoints.evidence(self.cluster.as_ref(), &object, self.has_loads_in_pods())
    }

    fn has_loads_in_pods(&self) -> bool {
        self.layout.places.load.iter().all(|place| place.pod.is_some())
    }

    /// The policy of the system's volume, as the array reports it; `None` unless the places name an array and
    /// the system's pod has a volume.
    fn evidence_of_array(&mut self, path: &DataPath) -> Option<Evidence> {
        let Self { layout, array, connections, .. } = self;
        let array = array.as_mut()?;
        let of_system = layout.places.system.pod.as_ref().filter(|pod| pod.volume_claim.is_some())?;
        let other = connections.others.iter().find(|other| other.place.pod.as_ref() == Some(of_system))?;
        let found = other.remote.pod()?.volume_on_array(array.svm());
        array.evidence(path, found)
    }
}
