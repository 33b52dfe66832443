//! Preparation: from an experiment to a run that can begin.
//!
//! This step settles everything beside measurements that a verdict rests on: the namespaces, the variants
//! that this host cannot build, and the savings that treatments must show. A [`crate::Session`] takes only a
//! [`Planned`], so no front end can skip a part.

use std::collections::BTreeSet;
use std::path::Path;

use plumb_experiment::Experiment;
use plumb_host::namespace::{has_other_setting, is_of_device};
use plumb_host::settings::Setting;
use plumb_model::{Cell, Header, Notice, Places, Plan, PlannedVariant, RequiredSaving};
use plumb_path::{DataPath, LinkMaker, PathError, PathSettings, Server, find};
use plumb_places::host_tunings::treatment;
use plumb_places::{HostError, Hosts, Side};

use crate::error::RunError;
use crate::treatments::{mark_impossible, treatments};

/// A plan whose variants were checked against the hosts, with everything needed to run it.
#[derive(Debug)]
pub struct Planned {
    plan: Plan,
    path: DataPath,
    /// By cell and variant, in the plan's orders.
    settings: Vec<Vec<PathSettings>>,
    text: String,
    hosts: Hosts,
}

/// Enters the namespaces that an experiment needs, and marks the variants that one of its hosts cannot build.
///
/// # Errors
/// When a host cannot be asked.
pub fn prepare(experiment: Experiment, mut hosts: Hosts) -> Result<Planned, HostError> {
    let Experiment { mut plan, path, mut settings, text } = experiment;
    enter_namespace(&settings);
    mark_infeasible(&mut plan, &path, &mut settings, &mut hosts)?;
    for (cell, settings) in plan.cells.iter_mut().zip(&settings) {
        require_savings(cell, settings);
    }
    Ok(Planned { plan, path, settings, text, hosts })
}

impl Planned {
    /// The plan of an earlier run, to continue it: its variants are already marked.
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
        let decoded = |variant: &PlannedVariant| {
            let json = serde_json::from_str(&variant.settings)
                .map_err(|error| PathError::new(format!("read the settings of a variant: {error}")));
            json.and_then(|json| path.decode(&json)).map_err(|error| {
                failed(&format!(
                    "failed to {error}; another build of plumb may have begun it, so start a new run"
                ))
            })
        };
        let of_cell = |cell: &Cell| cell.variants.iter().map(decoded).collect();
        let mut settings = plan.cells.iter().map(of_cell).collect::<Result<Vec<Vec<_>>, _>>()?;
        enter_namespace(&settings);
        let variants = plan.cells.iter().flat_map(|cell| &cell.variants);
        for (variant, settings) in variants.zip(settings.iter_mut().flatten()) {
            if variant.skipped.is_none() {
                let led = hosts.turn_to(&variant.pods).and_then(|()| hosts.lead(settings));
                led.map_err(|error| failed(&error))?;
            }
            // The first run has marked missing features. This call makes other hosts enter their namespaces.
            hosts.lacking(&path, settings).map_err(|error| failed(&error))?;
        }
        hosts.turn_back();
        Ok(Self { plan, path, settings, text: text.to_owned(), hosts })
    }

    /// The notice that the trials of a search are short for its limit, if they are.
    #[must_use]
    pub fn short_trials(&self) -> Option<Notice> {
        let short =
            |settings: &PathSettings| settings.facts().load.capacity?.short_trials(self.plan.window_ns);
        self.settings.iter().flatten().find_map(short)
    }

    /// The length of the trials of a quick run, if a limit makes them so long that it may not end within 90 s.
    #[must_use]
    pub fn long_quick_trial_ns(&self) -> Option<u64> {
        let long = |settings: &PathSettings| {
            let limit_ns = settings.facts().load.capacity?.limit_ns()?;
            plumb_experiment::long_quick_trial_ns(self.plan.window_ns, limit_ns)
        };
        self.settings.iter().flatten().filter_map(long).max()
    }

    /// The maker of the slow or bad link of a variant, by its place in a cell; `None` if it has none, or its system is on another
    /// host.
    #[must_use]
    pub fn link_maker(&self, cell: usize, at: usize) -> Option<LinkMaker> {
        let settings = self.settings.get(cell)?.get(at)?;
        self.hosts.layout().is_here(Side::System).then(|| settings.link_maker())?
    }

    /// The installed servers that systems on this host would start.
    #[must_use]
    pub fn servers(&self) -> BTreeSet<Server> {
        let is_here = self.hosts.layout().is_here(Side::System);
        let all = self.settings.iter().flatten().filter(|_| is_here);
        // To look takes time, because it starts the program.
        let mut looks: Vec<fn() -> Option<Server>> = Vec::new();
        for look in all.filter_map(|settings| settings.facts().system.server) {
            if !looks.iter().any(|known| std::ptr::fn_addr_eq(*known, look)) {
                looks.push(look);
            }
        }
        looks.into_iter().filter_map(|look| look()).collect()
    }

    /// Whether Plumbline makes the link of any variant.
    #[must_use]
    pub fn has_own_link(&self) -> bool {
        let variants = self.plan.cells.iter().flat_map(|cell| &cell.variants);
        variants.zip(self.settings.iter().flatten()).any(|(variant, settings)| {
            variant.skipped.is_none() && settings.link_maker() == Some(LinkMaker::Plumbline)
        })
    }

    /// The same plan with up to `blocks` blocks in each cell.
    ///
    /// # Errors
    /// When the plan already allows as many.
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

    /// Why the plan cannot be run at all, if so: a host cannot build the baseline itself.
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
    fn has_system(&self) -> bool {
        self.settings.iter().flatten().any(|settings| settings.facts().system.exists)
    }

    /// Whether no variant needs agents: neither its settings, nor a place, nor a treatment of a host.
    pub(crate) fn runs_in_process(&self, hosts: &Hosts) -> bool {
        hosts.layout().places().is_none()
            && treatments(&self.plan).is_empty()
            && self.settings.iter().flatten().all(|settings| settings.facts().run_in_process())
    }

    /// The hosts, for the run that begins. Looks for systems that run already.
    pub(crate) fn take_hosts(&mut self) -> Hosts {
        self.hosts.has_system = self.has_system();
        self.hosts.find_running(self.settings.iter().flatten());
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
            self.settings.iter().flatten().flat_map(|settings| settings.facts().environment()).collect();
        names.into_iter().collect()
    }
}

/// Enters a user namespace if an ordinary user's run builds namespaces. The whole run enters it, so that both
/// sides share it. If the kernel refuses, the variants that need it report that.
fn enter_namespace(settings: &[Vec<PathSettings>]) {
    if settings.iter().flatten().any(|settings| settings.facts().system.needs_namespaces) {
        let _ = plumb_host::namespace::become_root_if_needed();
    }
}

/// Asks the hosts whether they can build each variant, and marks those that one cannot.
fn mark_infeasible(
    plan: &mut Plan,
    path: &DataPath,
    settings: &mut [Vec<PathSettings>],
    hosts: &mut Hosts,
) -> Result<(), HostError> {
    for (cell, settings) in plan.cells.iter_mut().zip(settings) {
        for (variant, settings) in cell.variants.iter_mut().zip(settings) {
            let led = hosts.turn_to(&variant.pods).and_then(|()| hosts.lead(settings));
            if let Err(error) = led {
                variant.skipped = Some(error.to_string());
                continue;
            }
            variant.skipped = match misplaced(path, settings, hosts) {
                Some(reason) => Some(reason),
                None => hosts.lacking(path, settings)?.or_else(|| out_of_reach(variant, settings, hosts)),
            };
        }
    }
    hosts.turn_back();
    mark_impossible(plan, |variant, base| hosts.impossible(variant, base))
}

/// Why a variant cannot run on the run's hosts, if so.
fn misplaced(path: &DataPath, settings: &PathSettings, hosts: &Hosts) -> Option<String> {
    let places = hosts.layout().places()?;
    if places.are_apart()
        && let Err(error) = settings.facts().load.spans_hosts
    {
        return Some(format!("with `{}`, {error}", path.name));
    }
    let loads = u32::try_from(hosts.layout().loads()).unwrap_or(u32::MAX);
    settings.share(0, loads).err().map(|fault| format!("{loads} loads: {fault}"))
}

/// Why a sysctl of a variant would not reach the sockets of its system on this host, if so.
fn out_of_reach(variant: &PlannedVariant, settings: &PathSettings, hosts: &Hosts) -> Option<String> {
    let sysctls = treatment(variant).network_sysctls();
    if sysctls.is_empty()
        || !hosts.layout().is_here(Side::System)
        || hosts.layout().places().is_some_and(Places::are_apart)
    {
        return None;
    }
    let facts = settings.facts().system;
    let pids = facts.foreign.and_then(|it| it.service()).map(|it| it.pids()).unwrap_or_default();
    sysctls.into_iter().find_map(|sysctl| {
        let Setting::File(path) = &sysctl else { return None };
        if facts.needs_namespaces && is_of_device(Path::new(path)) {
            return Some(format!(
                "{sysctl} belongs to a device of this host, and the system's devices are in network namespaces that plumb makes for it"
            ));
        }
        let pid = pids.iter().find(|pid| has_other_setting(**pid, Path::new(path)))?;
        Some(format!(
            "{sysctl} would not reach the system: its process {pid} is in another network namespace; run plumb in that namespace, or \
             set the sysctl there with a `command`"
        ))
    })
}

/// Finds the required saving of every variant, and the variant that it must be cheaper than: the first that
/// differs only in the treatment.
fn require_savings(cell: &mut Cell, settings: &[PathSettings]) {
    let all = cell.variants.clone();
    for (at, (variant, settings)) in cell.variants.iter_mut().zip(settings).enumerate() {
        let own = treatment(&all[at]);
        variant.saving = settings.facts().load.saving.map(|(without, saving)| {
            let without = without.to_json().map(|json| json.to_string()).ok();
            let is_without = |other: &&plumb_model::PlannedVariant| {
                Some(&other.settings) == without.as_ref() && treatment(other) == own
            };
            RequiredSaving { than: all.iter().find(is_without).map(|other| other.variant), ..saving }
        });
    }
}
