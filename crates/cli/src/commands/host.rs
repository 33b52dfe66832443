//! `plumb host`: what this machine is, and what would disturb a measurement on it.

mod acceleration;

use std::fmt::Write;
use std::time::Duration;

use plumb_devices::DeviceKind;
use plumb_host::acceleration::{AccelerationLibrary, CpuFeature, acceleration_libraries, cpu_features};
use plumb_host::assessment::{Assessment, assessments};
use plumb_host::cpu::{CpuTime, available_cpus, split_sides};
use plumb_host::facts::HostFacts;
use plumb_host::noise::{Noise, Snapshot};
use plumb_model::PlaceOf;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::HostArguments;
use crate::commands::version::own_build;
use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

/// How long the machine is watched for noise.
const WATCHED: Duration = Duration::from_millis(500);

/// The JSON of `plumb host --json`.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "A host as plumb host --json describes it")]
pub struct Document {
    /// The version of this form: `plumbline.host/1`.
    format: &'static str,
    /// The facts of the machine.
    facts: HostFacts,
    /// CPU instructions that data paths use.
    cpu_features: Vec<CpuFeature>,
    /// Libraries that use accelerators.
    acceleration_libraries: Vec<AccelerationLibrary>,
    /// The activity on the machine while it was watched.
    noise: Noise,
    /// The checks that a performance engineer makes first, each judged.
    assessments: Vec<Assessment>,
}

/// Prints facts and a verdict on each.
pub fn host(arguments: &HostArguments) -> Outcome {
    let on = arguments.on.as_deref().map(PlaceOf::parse).transpose();
    let on = on.map_err(|error| Failure::usage(error.to_string()))?;
    if let Some(place) = on.filter(|place| !place.is_here()) {
        let words: &[&str] = if arguments.json { &["host", "--json"] } else { &["host"] };
        let told = plumb_places::told_by(&place, &own_build()?, words).map_err(Failure::harness)?;
        output::result(told.trim_end())?;
        return Ok(HOLDS);
    }
    let facts = HostFacts::read_now();
    let sides = split_sides(&available_cpus().map_err(Failure::harness)?);
    if !arguments.json {
        let lines = plumb_places::host_lines(&facts, &sides);
        let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let lines: Vec<String> =
            lines.iter().map(|(name, value)| format!("{name:width$}  {value}")).collect();
        output::result(&lines.join("\n"))?;
    }
    let before = Snapshot::take().map_err(Failure::harness)?;
    plumb_host::time::sleep(WATCHED);
    let after = Snapshot::take().map_err(Failure::harness)?;
    let noise = Noise::between(&before, &after, CpuTime::default());
    let found = assessments(&facts, Some(&noise));
    // After the noise, which the programs that this asks would be.
    let (features, libraries) = (cpu_features(&facts), libraries(&facts));
    if arguments.json {
        let document = Document {
            format: "plumbline.host/1",
            facts,
            cpu_features: features,
            acceleration_libraries: libraries,
            noise,
            assessments: found,
        };
        output::json(&document)?;
    } else {
        let accelerators =
            acceleration::describe(&facts.accelerators, &features, &libraries, output::width(140));
        output::result(&format!("\n{accelerators}\n{}", describe(&found)))?;
    }
    Ok(HOLDS)
}

/// libcrypto_mb as `plumb crypto` finds it, and what other programs use.
fn libraries(facts: &HostFacts) -> Vec<AccelerationLibrary> {
    let presence = DeviceKind::Multibuffer.probe();
    let crypto_mb = AccelerationLibrary {
        name: "crypto_mb".to_owned(),
        file: presence.as_ref().ok().and_then(|presence| presence.file.clone()),
        missing: presence.err().map(|unavailable| unavailable.to_string()),
    };
    std::iter::once(crypto_mb).chain(acceleration_libraries(facts)).collect()
}

fn describe(found: &[Assessment]) -> String {
    let width = found.iter().map(|assessment| assessment.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for assessment in found {
        let mark = if assessment.fine { "✔" } else { "!" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{mark} {:width$}  {}", assessment.name, assessment.value);
        if let Some(advice) = &assessment.advice {
            let _ = writeln!(text, "  {:width$}  → {advice}", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::in_process::plumb;

    #[test]
    fn the_host_is_described() {
        let said = plumb(&["host", "--json"]);
        assert_eq!(said.code, 0, "{said:?}");
        let json = said.json();
        assert_eq!(json["format"], "plumbline.host/1");
        assert!(json["facts"]["kernel"].is_string() && json["facts"]["accelerators"].is_array());
        let libraries = json["acceleration_libraries"].as_array().unwrap();
        let names: Vec<&str> = libraries.iter().map(|library| library["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["crypto_mb", "qatengine", "qatprovider", "QATzip", "QPL"]);
        for library in libraries {
            // What is there and usable has a file; all else says what to do.
            assert!(library["file"].is_string() || library["missing"].is_string(), "{library}");
        }
        let looked_at: Vec<&str> =
            json["assessments"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        for name in
            ["governor", "turbo", "idle states", "virtualisation", "conntrack", "other processes", "steal"]
        {
            assert!(looked_at.contains(&name), "no {name} in {looked_at:?}");
        }
        let text = plumb(&["host"]).out;
        for part in ["kernel", "accelerators", "qatengine", "conntrack"] {
            assert!(text.contains(part), "no {part} in {text}");
        }
    }
}
