//! Additions to the configuration of HAProxy or nginx, or a replacement for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Lines for sections of plumb's own configuration, or a whole template.
///
/// A line replaces plumb's own line of the same directive in that section.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigSettings {
    /// HAProxy: lines for `global`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global: Option<String>,
    /// HAProxy: lines for `defaults`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defaults: Option<String>,
    /// HAProxy: lines for the frontend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frontend: Option<String>,
    /// HAProxy: lines for the backend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// nginx: lines outside of all blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main: Option<String>,
    /// nginx: lines for `events`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<String>,
    /// nginx: lines for `http`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// nginx: lines for the `upstream` of the origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<String>,
    /// nginx: lines for the `server`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// nginx: lines for the server's `location /`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// All of the configuration, with placeholders such as `{{port}}` for what plumb fills in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The whole path of a file with such a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

impl ConfigSettings {
    /// Whether plumb's own configuration is used as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The lines for sections that there are, each with the key of its section.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("global", &self.global),
            ("defaults", &self.defaults),
            ("frontend", &self.frontend),
            ("backend", &self.backend),
            ("main", &self.main),
            ("events", &self.events),
            ("http", &self.http),
            ("upstream", &self.upstream),
            ("server", &self.server),
            ("location", &self.location),
        ];
        all.into_iter().filter_map(|(name, lines)| Some((name, lines.as_deref()?))).collect()
    }
}
