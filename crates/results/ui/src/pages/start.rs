//! Starting a run: a built-in experiment, a file below the served directories, or an earlier run again.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use aws_lc_rs::digest::SHA256;
use maud::{Markup, html};
use plumb_host::named_file::read_regular;
use plumb_model::Run;
use plumb_store::Stamp;

use super::compare::opened;
use super::layout::{Part, form_token, page, page_with};
use super::run::id;
use crate::asked::Asked;
use crate::fault::RequestError;
use crate::launch::{Launched, Order, launch};
use crate::page_response::PageResponse;
use crate::shelf::id_of;
use crate::site::Site;

/// The most files that are offered.
const FILES_MAX: usize = 200;
/// The same bound as that of `plumb run`.
const BLOCKS_MAX: u32 = 1000;
/// The longest experiment that is read, as in a run directory.
const EXPERIMENT_BYTES_MAX: u64 = 2 << 20;

/// The form that asks what to start.
///
/// # Errors
/// None so far.
pub fn form(site: &Site, _: &Asked) -> Result<PageResponse, RequestError> {
    let files = files(site);
    let content = html! {
        h1 { "Start a run" }
        p.lead { "The run is a process of its own. It goes on when this page ends, and you can stop it from its page." }
        form.stack method="post" action="/start" {
            (form_token(site))
            label for="experiment" { "Experiment" }
            select #experiment name="experiment" {
                optgroup label="Built in" { @for (name, _) in site.settings.experiments { option value=(name) { (name) } } }
                @if !files.is_empty() {
                    optgroup label="Files" { @for file in &files { option value=(file.display()) { (file.display()) } } }
                }
            }
            div.check { input #quick type="checkbox" name="quick" value="yes" checked; label for="quick" { "Quick: the first cell only, with short slots" } }
            label for="blocks" { "Blocks" }
            input #blocks type="number" name="blocks" min="2" max=(BLOCKS_MAX) aria-describedby="blocks-note";
            p.note #blocks-note { "Exactly this many in every cell; as the experiment says where this is empty." }
            button { "Start" }
        }
    };
    Ok(page(site, Part::Start, "Start a run", &content))
}

/// Starts the chosen run.
///
/// # Errors
/// When the experiment was not offered, or the run cannot be started.
pub fn start(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let experiment = asked.form.get("experiment").unwrap_or_default();
    let is_built_in = site.settings.experiments.iter().any(|(name, _)| *name == experiment);
    let experiment = PathBuf::from(experiment);
    if !is_built_in && !files(site).contains(&experiment) {
        return Err(RequestError::bad(
            "Choose an experiment of the list: there is no such one, or its file is gone.",
        ));
    }
    let blocks = match asked.form.get("blocks") {
        None => None,
        Some(text) => {
            Some(text.parse().ok().filter(|blocks| (2..=BLOCKS_MAX).contains(blocks)).ok_or_else(|| {
                RequestError::bad(format!("A run takes 2 to {BLOCKS_MAX} blocks, and not “{text}”."))
            })?)
        }
    };
    let name = experiment.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let is_quick = asked.form.get("quick").is_some();
    begin(site, &Order { experiment, name, is_quick, blocks, only: Vec::new() })
}

/// The page that asks whether to repeat a run. It shows the experiment, which may come from another user.
///
/// # Errors
/// When no such run exists, or it cannot be repeated from here.
pub fn confirm_repeat(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let id = id(asked)?;
    let Repeated { order, text } = repeated(site, id, None)?;
    let content = html! {
        h1 { "Repeat this run?" }
        p.lead { "The experiment below is run again, in a new directory and with other random orders." }
        pre tabindex="0" aria-label="the command" { "$ plumb " (order.arguments().join(" ")) }
        form method="post" action={ "/runs/" (id) "/repeat" } {
            (form_token(site))
            input type="hidden" name="digest" value=(digest(text.as_bytes()));
            p.act { button { "Start it" } " " a.button href={ "/runs/" (id) } { "Back" } }
        }
        h2 { "What runs" }
        (experiment(&text))
    };
    Ok(page(site, Part::Start, "Repeat this run?", &content))
}

/// Repeats a run if its experiment is still the one that the page showed.
///
/// # Errors
/// As [`confirm_repeat`], when the experiment has changed, and when the run cannot be started.
pub fn repeat(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let Some(shown) = asked.form.get("digest") else {
        return Err(RequestError::bad("The form does not say which experiment it showed."));
    };
    begin(site, &repeated(site, id(asked)?, Some(shown))?.order)
}

/// The SHA-256 of an experiment in hexadecimal.
fn digest(experiment: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&SHA256, experiment);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn experiment(text: &str) -> Markup {
    html! { pre tabindex="0" aria-label="the experiment" { code { (text) } } }
}

/// A run to repeat: the order for it, and the text of its experiment.
struct Repeated {
    order: Order,
    text: String,
}

/// Checks that a run can be repeated. Another user may own the run's directory, so its file must have the digest that the
/// page showed, or, before the page shows one, that of the experiment in memory.
fn repeated(site: &Site, id: &str, shown: Option<&str>) -> Result<Repeated, RequestError> {
    let repeated = recorded(site, id)?;
    let file = &repeated.order.experiment;
    let now = read_regular(file, EXPERIMENT_BYTES_MAX).map_err(|error| {
        RequestError::bad(format!("This run cannot be repeated: the page failed to {error}."))
    })?;
    let (before, now) = (shown.map_or_else(|| digest(repeated.text.as_bytes()), str::to_owned), digest(&now));
    if before == now {
        return Ok(repeated);
    }
    let file = file.display();
    Err(RequestError::bad(match shown {
        Some(_) => format!(
            "The experiment has changed since the page showed it: its SHA-256 was {before}, and {file} now has {now}. \
             Nothing was started."
        ),
        None => format!(
            "This run cannot be repeated: {file} was edited after the run had begun. Its SHA-256 was {before} and is now {now}."
        ),
    }))
}

/// The order and the experiment of the run in memory. The run is not locked while its file is read.
fn recorded(site: &Site, id: &str) -> Result<Repeated, RequestError> {
    let run = opened(site, id)?;
    let run = run.lock().unwrap_or_else(PoisonError::into_inner);
    let Run { header, experiment_text, directory, .. } = run.run();
    let plan = &header.plan;
    let elsewhere = match (&plan.made_by, &plan.imported, &header.places) {
        (Some(command), ..) => Some(format!("it was made by `{command}`, which makes it again")),
        (_, Some(_), _) => Some("its slots were imported from another tool's output".to_owned()),
        (.., Some(_)) => {
            Some("it ran on other hosts; `plumb run --places FILE` runs it there again".to_owned())
        }
        _ => None,
    };
    if let Some(why) = elsewhere {
        return Err(RequestError::bad(format!("This run cannot be repeated from here: {why}.")));
    }
    let order = Order {
        experiment: Path::new(directory).join("experiment.yaml"),
        name: plan.name.clone(),
        is_quick: plan.quick,
        blocks: plan.blocks_asked,
        only: plan.only.clone(),
    };
    Ok(Repeated { order, text: experiment_text.clone() })
}

fn begin(site: &Site, order: &Order) -> Result<PageResponse, RequestError> {
    match launch(site, order)? {
        Launched::Begun(directory) => Ok(PageResponse::see(format!("/runs/{}", id_of(&directory)))),
        Launched::Preparing => {
            let content = html! {
                h1 { "The run prepares itself" }
                p.lead { "It has no directory yet. It is among " a href="/" { "all runs" } " once it has." }
            };
            Ok(page(site, Part::Start, "The run prepares itself", &content))
        }
        Launched::Refused(said) => {
            let content = html! {
                h1 { "The run did not begin" }
                p.lead { "This is what " code { "plumb run" } " said:" }
                pre tabindex="0" aria-label="what plumb run said" { (said) }
                p { a href="/start" { "Start another" } }
            };
            Ok(page_with(site, (Part::Start, 400), "The run did not begin", &content))
        }
    }
}

/// Experiment files in the served folders, and in folders directly below them that hold no run.
fn files(site: &Site) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for root in site.shelf.roots().iter().filter(|root| !Stamp::of_directory(root).has_run()) {
        for (path, is_folder) in entries(root) {
            if !is_folder {
                found.push(path);
            } else if !Stamp::of_directory(&path).has_run() {
                found.extend(
                    entries(&path).into_iter().filter(|(_, is_folder)| !is_folder).map(|(path, _)| path),
                );
            }
        }
    }
    found.retain(|path| path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml"));
    found.sort();
    found.truncate(FILES_MAX);
    found
}

/// The entries of a folder, and whether each is a folder. Leaves out links, and names that are not UTF-8.
fn entries(folder: &Path) -> Vec<(PathBuf, bool)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let known = entries.filter_map(|entry| {
        let kind = entry.file_type().ok().filter(|kind| !kind.is_symlink())?;
        entry.path().to_str().is_some().then(|| (entry.path(), kind.is_dir()))
    });
    known.take(20_000).collect()
}
