//! Settings of a data path without their type.

use plumb_model::{Endpoint, Measurement};
use serde::Serialize;
use serde_json::Value;

use crate::family::{Fault, Load, Mark, PathError, Place, Settings, Timing, Window};

/// What `Clone` and serde give settings of any type.
pub trait AnySettings {
    /// A copy.
    fn copied(&self) -> PathSettings;

    /// The settings as JSON.
    ///
    /// # Errors
    /// When they cannot be written as JSON.
    fn json(&self) -> serde_json::Result<Value>;
}

impl<T: Settings + Serialize + Clone + 'static> AnySettings for T {
    fn copied(&self) -> PathSettings {
        PathSettings::new(self.clone())
    }

    fn json(&self) -> serde_json::Result<Value> {
        serde_json::to_value(self)
    }
}

/// The settings of a data path without their type.
pub struct PathSettings(Box<dyn Settings>);

impl PathSettings {
    /// Settings of any type.
    #[must_use]
    pub fn new(settings: impl Settings + 'static) -> Self {
        Self(Box::new(settings))
    }

    /// The settings as JSON.
    ///
    /// # Errors
    /// When the settings cannot be written as JSON.
    pub fn to_json(&self) -> Result<Value, PathError> {
        self.0.json().map_err(|error| PathError::new(format!("write the settings as JSON: {error}")))
    }

    /// Checks the settings, and lets `adjust` change their timing.
    ///
    /// # Errors
    /// The first fault, with its key.
    pub fn checked(mut self, adjust: impl FnOnce(Timing<'_>)) -> Result<Self, Fault> {
        self.0.check()?;
        adjust(self.0.timing());
        Ok(self)
    }

    /// The settings of one of several load agents, see [`Settings::share`]. A single agent gets the whole load.
    ///
    /// # Errors
    /// The key at fault, when the load cannot be divided at all or into this many shares.
    pub fn share(&self, number: u32, of: u32) -> Result<Self, Fault> {
        if of <= 1 { Ok(self.clone()) } else { self.0.share(number, of) }
    }

    /// The same settings, with their cluster object led to this endpoint.
    #[must_use]
    pub fn leading_to(mut self, endpoint: &Endpoint) -> Self {
        self.0.lead_to(endpoint);
        self
    }

    /// Builds the load, see [`Settings::load`]. It reports its intended size.
    ///
    /// # Errors
    /// When the settings cannot be turned into a load.
    pub fn load(&self, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        let load = self.0.load(target, place)?;
        Ok(match self.0.facts().load.weight {
            Some(asked) => Box::new(Weighed { load, asked }),
            None => load,
        })
    }
}

impl std::ops::Deref for PathSettings {
    type Target = dyn Settings;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl std::ops::DerefMut for PathSettings {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

impl Clone for PathSettings {
    fn clone(&self) -> Self {
        self.0.copied()
    }
}

impl std::fmt::Debug for PathSettings {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.to_json() {
            Ok(json) => write!(formatter, "PathSettings({json})"),
            Err(_) => formatter.write_str("PathSettings"),
        }
    }
}

/// A load that reports its intended size.
struct Weighed {
    load: Box<dyn Load>,
    asked: f64,
}

impl Load for Weighed {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        Ok(Measurement { asked: Some(self.asked), ..self.load.measure(window, mark)? })
    }
}
