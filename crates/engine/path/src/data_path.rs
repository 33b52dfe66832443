//! Data paths without their types: the one value through which the runner, agents and commands use `http`,
//! `null` and the others.
//!
//! Each has its own type of [`Settings`]. [`DataPath::with_settings`] hides it once, and the rest of the code is
//! common to all data paths. Each process reads settings once and passes them on as [`PathSettings`].

use plumb_model::ArrayVolume;
use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::family::{ArrayAccess, ArrayPolicy, PathError};
use crate::joined;
use crate::settings::{About, PathSettings, Settings};
use crate::tree::{Mistake, Node, from_node_thorough, hint};

/// A data path without its types.
#[derive(Clone, Copy)]
pub struct DataPath {
    /// The facts that never vary.
    about: About,
    /// See [`DataPath::with_systems_of`].
    systems: fn() -> Vec<Self>,
    read: fn(&Node) -> Result<PathSettings, Vec<Mistake>>,
    schema: fn() -> Value,
    /// See [`DataPath::with_arrays`].
    policy_on_array: Option<PolicyOnArray>,
}

/// Asks a storage array for the policy of a volume.
type PolicyOnArray = fn(&ArrayAccess, &ArrayVolume) -> Result<ArrayPolicy, PathError>;

impl std::ops::Deref for DataPath {
    type Target = About;

    fn deref(&self) -> &About {
        &self.about
    }
}

impl std::fmt::Debug for DataPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("DataPath").field("name", &self.name).finish_non_exhaustive()
    }
}

impl DataPath {
    /// The data path with settings of the type `T`.
    #[must_use]
    pub const fn with_settings<T>(about: About) -> Self
    where
        T: Settings + Serialize + DeserializeOwned + JsonSchema + Clone + 'static,
    {
        Self {
            about,
            systems: Vec::new,
            read: |tree| from_node_thorough::<T>(tree).map(PathSettings::new),
            schema: schema_of::<T>,
            policy_on_array: None,
        }
    }

    /// The same data path with a load that also works with systems of other data paths: `system.path` names
    /// one of them.
    #[must_use]
    pub const fn with_systems_of(self, systems: fn() -> Vec<Self>) -> Self {
        Self { systems, ..self }
    }

    /// The same data path, which can ask storage arrays for the policy of a volume.
    #[must_use]
    pub const fn with_arrays(self, policy: PolicyOnArray) -> Self {
        Self { policy_on_array: Some(policy), ..self }
    }

    /// Reads a tree of `system` and `load` as settings.
    ///
    /// # Errors
    /// Every mistake found, with its place.
    pub fn read_settings(&self, tree: &Node) -> Result<PathSettings, Vec<Mistake>> {
        let others = (self.systems)();
        let Some(parts) = joined::parts(tree).filter(|_| !others.is_empty()) else {
            return (self.read)(tree);
        };
        let name = parts.path.scalar().map_or("", |name| &name.text);
        let Some(other) = others.iter().find(|other| other.name == name) else {
            let known = others.iter().map(|other| other.name);
            let message = format!("this load cannot use a system of `{name}`; {}", hint(name, known));
            return Err(vec![Mistake::new(parts.path.span, message)]);
        };
        match (other.read_settings(&parts.system), (self.read)(&parts.load)) {
            (Ok(system), Ok(load)) => Ok(joined::join(other.name, system, load)),
            (system, load) => Err([system.err(), load.err()].into_iter().flatten().flatten().collect()),
        }
    }

    /// Reads settings from their JSON.
    ///
    /// # Errors
    /// When this program's settings have a different form.
    pub fn decode(&self, json: &Value) -> Result<PathSettings, PathError> {
        let tree = Node::of_json(json);
        self.read_settings(&tree).map_err(|mistakes| {
            let with_key = |Mistake { message, span, .. }: Mistake| match tree.key_at(span) {
                Some(key) => format!("{key}: {message}"),
                None => message,
            };
            let mistakes = mistakes.into_iter().map(with_key).collect::<Vec<String>>().join(". ");
            PathError::new(format!("read the settings of the {} data path: {mistakes}", self.name))
        })
    }

    /// The policy of a volume as its storage array reports it; `None` if the data path knows no arrays.
    ///
    /// # Errors
    /// When the array does not answer, or has no such volume.
    #[must_use]
    pub fn policy_on_array(
        &self,
        array: &ArrayAccess,
        volume: &ArrayVolume,
    ) -> Option<Result<ArrayPolicy, PathError>> {
        self.policy_on_array.map(|policy| policy(array, volume))
    }

    /// The JSON Schema of the settings, with all referenced types inlined.
    #[must_use]
    pub fn schema(&self) -> Value {
        let others = (self.systems)();
        joined::schema((self.schema)(), others.iter().map(|other| (other.name, other.schema())).collect())
    }
}

/// The data path with this name.
///
/// # Errors
/// When there is none.
pub fn find<'p>(paths: &'p [DataPath], name: &str) -> Result<&'p DataPath, PathError> {
    let found = paths.iter().find(|path| path.name == name);
    found.ok_or_else(|| PathError::new(format!("there is no data path `{name}` in this program")))
}

/// The schema of a type, with all referenced types inlined.
#[must_use]
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
    }
    schema
}
