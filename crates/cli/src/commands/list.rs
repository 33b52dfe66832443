//! `plumb list`: the built-in experiments.

use serde_json::json;

use crate::args::{ListArguments, PlanArguments};
use crate::commands::planning;
use crate::exit::{HOLDS, Outcome};
use crate::experiments::{self, BUILT_IN};
use crate::output;

/// Prints names and titles.
pub fn list(arguments: &ListArguments) -> Outcome {
    if let Some(name) = &arguments.show {
        let source = experiments::find(name)?;
        output::result(&String::from_utf8_lossy(&source.bytes))?;
        return Ok(HOLDS);
    }
    let any = PlanArguments { quick: false, blocks: None, only: Vec::new(), seed: Some(0) };
    let mut rows = Vec::new();
    for (name, _) in BUILT_IN {
        // `plumb check` says what this host can build; finding out starts programs.
        rows.push((*name, planning::read(&experiments::find(name)?, &any)?));
    }
    if arguments.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, plan)| {
                let variants: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
                json!({ "name": name, "title": plan.title, "path": plan.path, "variants": variants })
            })
            .collect();
        output::json(&rows)?;
        return Ok(HOLDS);
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, plan) in rows {
        output::result(&format!("{name:width$}  {}", plan.title))?;
    }
    Ok(HOLDS)
}
