//! `plumb list`: the built-in experiments.

use plumb_model::Plan;
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
    let any = PlanArguments { seed: Some(0), ..PlanArguments::default() };
    let mut rows = Vec::new();
    for (name, _) in BUILT_IN {
        // `plumb check` says what this host can build; finding out starts programs.
        rows.push((*name, planning::read_source(&experiments::find(name)?, &any)?.plan));
    }
    if arguments.json {
        let row = |(name, plan): &(&str, Plan)| {
            let variants: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
            json!({ "name": name, "title": plan.title, "path": plan.path, "variants": variants })
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        output::json(&json!({ "format": "plumbline.experiments/1", "experiments": rows }))?;
        return Ok(HOLDS);
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, plan) in rows {
        output::result(&format!("{name:width$}  {}", plan.title))?;
    }
    Ok(HOLDS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_process::plumb;

    #[test]
    fn built_in_experiments_are_listed_and_valid() {
        let listed = plumb(&["list"]);
        assert_eq!((listed.code, listed.err.as_str()), (0, ""));
        let names: Vec<&str> = listed.out.lines().filter_map(|line| line.split(' ').next()).collect();
        for name in ["tls-offload", "haproxy-qat", "tls-cost", "ingress-compare", "null"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert_eq!(names.len(), BUILT_IN.len());
        let found = plumb(&["list", "--json"]).json();
        let found = found["experiments"].as_array().unwrap();
        assert_eq!(found.len(), BUILT_IN.len());
        let null = found.last().unwrap();
        assert_eq!((&null["name"], &null["path"]), (&"null".into(), &"null".into()));
    }

    #[test]
    fn a_listed_experiment_can_be_shown_as_it_is() {
        for (name, text) in BUILT_IN {
            let shown = plumb(&["list", "--show", name]);
            assert_eq!((shown.code, shown.out.trim_end()), (0, text.trim_end()), "{name}");
        }
        let unknown = plumb(&["list", "--show", "nul"]);
        assert!(unknown.code == 2 && unknown.err.contains("did you mean `null`?"), "{unknown:?}");
    }
}
