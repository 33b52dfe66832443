//! From an experiment to a run that may begin.
//!
//! Whatever a verdict rests on beside the measurements is settled here: the namespaces, the variants that this host cannot
//! build, the savings that treatments have to show. A [`crate::Session`] takes nothing but a [`Planned`], so no front end
//! can leave a part of it out.

use std::collections::BTreeSet;

use plumb_model::{Cell, Header, Plan, RequiredSaving};
use plumb_path::{DataPath, PathSettings, find};

use crate::error::RunError;
use crate::file::{Experiment, FileError, ReadOptions, read};
use crate::host_tunings;
use crate::hosts::Hosts;

/// A plan whose variants were held against this host, with everything that it takes to run it.
#[derive(Debug)]
pub struct Planned {
    plan: Plan,
    path: DataPath,
    /// By cell and variant, in the plan's orders.
    settings: Vec<Vec<PathSettings>>,
    text: String,
    hosts: Hosts,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Something is wrong with the file.
    #[error(transparent)]
    File(#[from] FileError),
    /// A host could not be asked; the text completes "failed to ...".
    #[error("{0}")]
    Hosts(String),
}

/// Reads an experiment file, enters the namespaces that it needs, and marks the variants that a host of it cannot build.
///
/// # Errors
/// What is wrong with the file, with its places, or with a host.
pub fn prepare(
    name_of_file: &str,
    bytes: &[u8],
    options: &ReadOptions,
    paths: &[DataPath],
    mut hosts: Hosts,
) -> Result<Planned, PlanError> {
    let Experiment { mut plan, path, mut settings } = read(name_of_file, bytes, options, paths)?;
    enter_namespace(&settings);
    mark_infeasible(&mut plan, &path, &mut settings, &mut hosts).map_err(PlanError::Hosts)?;
    for (cell, settings) in plan.cells.iter_mut().zip(&settings) {
        require_savings(cell, settings);
    }
    Ok(Planned { plan, path, settings, text: String::from_utf8_lossy(bytes).into_owned(), hosts })
}

impl Planned {
    /// The plan of a run that began earlier, to go on with it: its variants were marked then.
    ///
    /// # Errors
    /// When this program has no such data path, or cannot read its settings.
    pub fn again(
        header: &Header,
        text: &str,
        paths: &[DataPath],
        mut hosts: Hosts,
    ) -> Result<Self, RunError> {
        let failed = |error: &dyn std::fmt::Display| RunError::Harness(format!("continue the run: {error}"));
        let plan = header.plan.clone();
        let path = *find(paths, &plan.path).map_err(|error| failed(&error))?;
        let decoded = |cell: &Cell| -> Result<Vec<PathSettings>, RunError> {
            let settings = cell.variants.iter().map(|variant| &variant.settings);
            settings
                .map(|text| {
                    let json = serde_json::from_str(text).map_err(|error| {
                        failed(&format!(
                            "failed to read the settings of the {} data path: {error}",
                            path.name
                        ))
                    })?;
                    path.decode(&json).map_err(|error| {
                        failed(&format!(
                            "failed to {error}; another build of plumb may have begun it, so start a new run"
                        ))
                    })
                })
                .collect()
        };
        let mut settings = plan.cells.iter().map(decoded).collect::<Result<Vec<_>, _>>()?;
        enter_namespace(&settings);
        let variants = plan.cells.iter().flat_map(|cell| &cell.variants);
        for (variant, settings) in variants.zip(settings.iter_mut().flatten()) {
            if variant.skipped.is_none() {
                hosts.turn_to(&variant.pods).map_err(|error| failed(&error))?;
                let led = hosts.led(settings).map_err(|error| failed(&error))?;
                led.into_iter().for_each(|led| *settings = led);
            }
            // What it lacks was marked when the run began; other hosts enter their namespaces by this.
            hosts.lacking(&path, settings).map_err(|error| failed(&error))?;
        }
        hosts.turn_back();
        Ok(Self { plan, path, settings, text: text.to_owned(), hosts })
    }

    /// The same with up to `blocks` blocks in each cell.
    ///
    /// # Errors
    /// When the plan allows as many already.
    pub fn extended(mut self, blocks: u32) -> Result<Self, RunError> {
        if blocks <= self.plan.blocks.max {
            return Err(RunError::NotLonger { asked: blocks, planned: self.plan.blocks.max });
        }
        self.plan.extend(blocks);
        Ok(self)
    }

    /// The plan.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The experiment file's text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why it cannot be run at all, if so: the baseline itself cannot be built.
    #[must_use]
    pub fn hopeless(&self) -> Option<String> {
        let Self { plan, .. } = self;
        plan.cells.iter().find_map(|cell| {
            let baseline = cell.variants.iter().find(|variant| variant.variant == plan.baseline)?;
            let reason = baseline.skipped.as_ref()?;
            Some(format!("the baseline `{}` cannot be built here: {reason}", plan.baseline_name()))
        })
    }

    /// Whether agents run commands of the user, see [`DataPath::runs_commands`].
    #[must_use]
    pub fn runs_commands(&self) -> bool {
        self.path.runs_commands
    }

    /// Whether any variant has a system beside the load.
    pub(crate) fn has_system(&self) -> bool {
        self.settings.iter().flatten().any(|settings| settings.has_system())
    }

    /// The hosts, for the run that begins.
    pub(crate) fn take_hosts(&mut self) -> Hosts {
        std::mem::take(&mut self.hosts)
    }

    pub(crate) fn plan_mut(&mut self) -> &mut Plan {
        &mut self.plan
    }

    pub(crate) fn path(&self) -> DataPath {
        self.path
    }

    /// The settings of a cell's variants, in the plan's order.
    pub(crate) fn settings(&self, cell: usize) -> &[PathSettings] {
        &self.settings[cell]
    }

    /// Environment variables that the settings of any variant name.
    pub(crate) fn environment(&self) -> Vec<String> {
        let names: BTreeSet<String> =
            self.settings.iter().flatten().flat_map(|settings| settings.environment()).collect();
        names.into_iter().collect()
    }
}

/// An ordinary user's run that builds namespaces goes into a user namespace, whole, so that both sides share it. Where the
/// kernel refuses that, the variants that need it say so.
fn enter_namespace(settings: &[Vec<PathSettings>]) {
    if settings.iter().flatten().any(|settings| settings.needs_namespaces()) {
        let _ = plumb_host::namespace::become_root_if_needed();
    }
}

/// Asks of every variant whether the hosts can build it, and marks those that one cannot.
fn mark_infeasible(
    plan: &mut Plan,
    path: &DataPath,
    settings: &mut [Vec<PathSettings>],
    hosts: &mut Hosts,
) -> Result<(), String> {
    for (cell, settings) in plan.cells.iter_mut().zip(settings) {
        for (variant, settings) in cell.variants.iter_mut().zip(settings) {
            let led = hosts.turn_to(&variant.pods).and_then(|()| hosts.led(settings));
            match led {
                Ok(Some(led)) => *settings = led,
                Ok(None) => {}
                Err(reason) => {
                    variant.skipped = Some(reason);
                    continue;
                }
            }
            variant.skipped = match misplaced(settings, hosts) {
                Some(reason) => Some(reason),
                None => hosts.lacking(path, settings)?,
            };
        }
    }
    hosts.turn_back();
    host_tunings::mark_impossible(plan, |variant, base| hosts.impossible(variant, base))
}

/// Why a variant cannot be on the hosts that the run has, if so.
fn misplaced(settings: &PathSettings, hosts: &Hosts) -> Option<String> {
    let places = hosts.places()?;
    if places.are_apart()
        && let Err(reason) = settings.spans_hosts()
    {
        return Some(reason);
    }
    let loads = u32::try_from(hosts.loads()).unwrap_or(u32::MAX);
    settings.share(0, loads).err().map(|fault| format!("{loads} loads: {fault}"))
}

/// Asks of every variant what its treatment has to save, and finds the variant that it has to be cheaper than: the first
/// that is the same but for the treatment.
fn require_savings(cell: &mut Cell, settings: &[PathSettings]) {
    let all = cell.variants.clone();
    for (at, (variant, settings)) in cell.variants.iter_mut().zip(settings).enumerate() {
        let treatment = host_tunings::treatment(&all[at]);
        variant.saving = settings.saving().map(|(without, saving)| {
            let without = without.to_json().map(|json| json.to_string()).ok();
            let is_without = |other: &&plumb_model::PlannedVariant| {
                Some(&other.settings) == without.as_ref() && host_tunings::treatment(other) == treatment
            };
            RequiredSaving { than: all.iter().find(is_without).map(|other| other.variant), ..saving }
        });
    }
}
