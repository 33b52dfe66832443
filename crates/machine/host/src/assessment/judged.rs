//! One thing about the machine, judged.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One thing about the machine, judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Assessment {
    /// The subject.
    pub name: String,
    /// How it is.
    pub value: String,
    /// Whether measurements can do with it.
    pub fine: bool,
    /// The advice where it is not fine.
    pub advice: Option<String>,
}

/// Advice is given exactly where something is not fine.
pub(super) fn judge(
    name: &str,
    value: impl Into<String>,
    fine: bool,
    advice: impl Into<String>,
) -> Assessment {
    let advice = (!fine).then(|| advice.into());
    Assessment { name: name.to_owned(), value: value.into(), fine, advice }
}
