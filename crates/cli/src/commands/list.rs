//! `plumb list`: the built-in experiments.

use serde_json::json;

use crate::args::{ListArguments, PlanArguments};
use crate::commands::planning;
use crate::exit::{Failure, HOLDS, Outcome};
use crate::experiments::{self, BUILT_IN};
use crate::output;

/// Prints names and titles.
pub fn list(arguments: &ListArguments) -> Outcome {
    if let Some(name) = &arguments.show {
        let source = experiments::find(name)?;
        output::result(&String::from_utf8_lossy(&source.bytes));
        return Ok(HOLDS);
    }
    let any = PlanArguments { quick: false, blocks: None, only: Vec::new(), seed: Some(0) };
    let mut rows = Vec::new();
    for (name, _) in BUILT_IN {
        rows.push((*name, planning::plan(name, &any)?.plan));
    }
    if arguments.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(name, plan)| {
                let variants: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
                json!({ "name": name, "title": plan.title, "path": plan.path, "variants": variants })
            })
            .collect();
        let text = serde_json::to_string_pretty(&rows)
            .map_err(|error| Failure::harness(format!("put the list into JSON: {error}")))?;
        output::result(&text);
        return Ok(HOLDS);
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, plan) in rows {
        output::result(&format!("{name:width$}  {}", plan.title));
    }
    Ok(HOLDS)
}
