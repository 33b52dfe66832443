//! From an experiment's name to a plan that is checked against this host.

use plumb_model::Plan;
use plumb_runner::families::AnyFamily;
use plumb_runner::file::{self, ReadOptions};
use plumb_runner::{mark_infeasible, needs_namespaces, require_savings};

use crate::args::PlanArguments;
use crate::exit::{Failure, USAGE};
use crate::experiments::{self, Source};
use crate::{families, output};

/// A plan with what it was made from.
pub struct Planned {
    /// The plan; variants that this host cannot build are marked.
    pub plan: Plan,
    /// Its data path.
    pub family: AnyFamily,
    /// The experiment file's text.
    pub text: String,
}

/// Reads an experiment and marks the variants that this host cannot build.
pub fn plan(experiment: &str, arguments: &PlanArguments) -> Result<Planned, Failure> {
    let source = experiments::find(experiment)?;
    let mut plan = read(&source, arguments)?;
    let family = family_of(&plan.path)?;
    enter_namespace(&plan, &family);
    mark_infeasible(&mut plan, &family);
    require_savings(&mut plan, &family);
    Ok(Planned { plan, family, text: String::from_utf8_lossy(&source.bytes).into_owned() })
}

/// Reads, validates, merges and expands an experiment, without a look at this host.
pub fn read(source: &Source, arguments: &PlanArguments) -> Result<Plan, Failure> {
    let options = ReadOptions {
        seed: arguments.seed.unwrap_or_else(drawn_seed),
        quick: arguments.quick,
        only: arguments.only.clone(),
        blocks: arguments.blocks,
    };
    file::read(&source.name, &source.bytes, &options, &families::all())
        .map_err(|error| Failure::laid_out(USAGE, laid_out(error)))
}

/// An ordinary user's run that builds namespaces goes into a user namespace, whole, so that both sides share it. Where the
/// kernel refuses that, the variants that need it say so.
pub fn enter_namespace(plan: &Plan, family: &AnyFamily) {
    if needs_namespaces(plan, family) {
        let _ = plumb_host::namespace::become_root_if_needed();
    }
}

/// The family of that name.
pub fn family_of(path: &str) -> Result<AnyFamily, Failure> {
    let found = families::all().into_iter().find(|family| family.name == path);
    found.ok_or_else(|| Failure::harness(format!("continue the run: this program has no data path `{path}`")))
}

fn laid_out(error: file::FileError) -> String {
    if output::colour_on_stderr() { format!("{:?}", miette::Report::new(error)) } else { error.plain() }
}

/// A seed that is short enough to be typed again.
fn drawn_seed() -> u64 {
    plumb_host::time::monotonic_ns() % 1_000_000
}
