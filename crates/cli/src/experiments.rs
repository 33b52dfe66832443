//! Built-in experiments: files in `experiments/`, compiled in.

use std::path::Path;

use plumb_host::Error;
use plumb_host::named_file::read_at_most;
use plumb_model::Ending;
use plumb_report::quoted;

use crate::exit::Failure;

/// Name and text of every built-in experiment.
pub const BUILT_IN: &[(&str, &str)] = &[
    ("tls-cost", include_str!("../../../experiments/tls-cost.yaml")),
    ("tls-offload", include_str!("../../../experiments/tls-offload.yaml")),
    ("tls-capacity", include_str!("../../../experiments/tls-capacity.yaml")),
    ("http2-cost", include_str!("../../../experiments/http2-cost.yaml")),
    ("http-versions", include_str!("../../../experiments/http-versions.yaml")),
    ("haproxy-qat", include_str!("../../../experiments/haproxy-qat.yaml")),
    ("ingress-compare", include_str!("../../../experiments/ingress-compare.yaml")),
    ("load-compare", include_str!("../../../experiments/load-compare.yaml")),
    ("crypto-devices", include_str!("../../../experiments/crypto-devices.yaml")),
    ("migration-codecs", include_str!("../../../experiments/migration-codecs.yaml")),
    ("migration-dirty", include_str!("../../../experiments/migration-dirty.yaml")),
    ("migration-qemu", include_str!("../../../experiments/migration-qemu.yaml")),
    ("host-tunings", include_str!("../../../experiments/host-tunings.yaml")),
    ("overlay-tuning", include_str!("../../../experiments/overlay-tuning.yaml")),
    ("overlay-underlay", include_str!("../../../experiments/overlay-underlay.yaml")),
    ("pods-network", include_str!("../../../experiments/pods-network.yaml")),
    ("router-in-cluster", include_str!("../../../experiments/router-in-cluster.yaml")),
    ("service-rules", include_str!("../../../experiments/service-rules.yaml")),
    ("compression-levels", include_str!("../../../experiments/compression-levels.yaml")),
    ("qos-policies", include_str!("../../../experiments/qos-policies.yaml")),
    ("storage-classes", include_str!("../../../experiments/storage-classes.yaml")),
    ("null", include_str!("../../../experiments/null.yaml")),
];

/// An experiment's text and where it comes from.
#[derive(Debug)]
pub struct Source {
    /// A path, or `built-in NAME`.
    pub name: String,
    /// The bytes of the file.
    pub bytes: Vec<u8>,
}

/// The largest experiment; the longest built-in one is a hundredth of it.
const BYTES_MAX: u64 = 1 << 20;

/// Finds an experiment: a file if it exists, else a built-in name.
pub fn find(experiment: &str) -> Result<Source, Failure> {
    let path = Path::new(experiment);
    if let Ok(metadata) = std::fs::metadata(path) {
        if metadata.is_dir() {
            return Err(Failure::usage(of_directory(path)));
        }
        let bytes = read_at_most(path, BYTES_MAX).map_err(|error| match error {
            Error::TooLarge { .. } => {
                Failure::usage(format!("{experiment}:1:1: an experiment file is at most 1 MiB"))
            }
            error => Failure::unreadable(error),
        })?;
        return Ok(Source { name: experiment.to_owned(), bytes });
    }
    if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == experiment) {
        return Ok(Source { name: format!("built-in {name}"), bytes: text.as_bytes().to_vec() });
    }
    // A user who names a path means a file.
    if experiment.contains(['/', '.']) {
        return Err(Failure::usage(format!("there is no file `{experiment}`")));
    }
    let hint = plumb_model::name::suggestion(experiment, BUILT_IN.iter().map(|(name, _)| *name));
    Err(Failure::usage(format!("there is no file and no built-in experiment `{experiment}`; {hint}")))
}

/// A text as YAML takes it whatever is in it: JSON's strings are among YAML's.
pub fn in_yaml(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Explains that a directory is not an experiment, and names the command to use if it is the directory of a run.
fn of_directory(path: &Path) -> String {
    let shown = path.display().to_string();
    let Ok(run) = plumb_store::read_run(path) else {
        return format!("{shown} is a directory; an experiment is a YAML file");
    };
    let of_run = format!("{shown} is the directory of a run");
    if matches!(run.ending, None | Some(Ending::Interrupted)) {
        return format!(
            "{of_run} that has not ended; continue it with `plumb run --resume {}`",
            quoted(&shown)
        );
    }
    let file = path.join("experiment.yaml");
    if !file.is_file() || plumb_store::edited_experiment(&run).map_or(true, |edited| edited.is_some()) {
        return format!(
            "{of_run}, but its experiment.yaml was edited or removed after the run; \
             `plumb report {} --format markdown` shows the experiment that ran",
            quoted(&shown)
        );
    }
    let again = plumb_report::command_again(&run.header.plan, &file.display().to_string());
    format!("{of_run}; repeat the run with `{again}`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_process::{made, on_disk};

    #[test]
    fn the_directory_of_a_run_is_refused_with_the_command_that_repeats_it() {
        let folder = tempfile::tempdir().unwrap();
        let run = made::run("x", 1, 1.0);
        let directory = on_disk(folder.path(), &run);
        let message = || {
            let message = find(directory.to_str().unwrap()).unwrap_err().message;
            message.replace(&folder.path().display().to_string(), "F")
        };
        insta::assert_snapshot!(message(), @"F/plumb-runs/x-1 is the directory of a run; repeat the run with `plumb run F/plumb-runs/x-1/experiment.yaml --seed 1`");
        std::fs::write(directory.join("experiment.yaml"), "kind: Other\n").unwrap();
        insta::assert_snapshot!(message(), @"F/plumb-runs/x-1 is the directory of a run, but its experiment.yaml was edited or removed after the run; `plumb report F/plumb-runs/x-1 --format markdown` shows the experiment that ran");
        std::fs::remove_file(directory.join("end.json")).unwrap();
        insta::assert_snapshot!(message(), @"F/plumb-runs/x-1 is the directory of a run that has not ended; continue it with `plumb run --resume F/plumb-runs/x-1`");
    }

    #[test]
    fn what_is_no_experiment_is_refused_with_a_hint() {
        let refused = |experiment: &str| {
            let failure = find(experiment).unwrap_err();
            assert_eq!(failure.code, 2);
            failure.message
        };
        insta::assert_snapshot!(refused("tls-ofload"), @"there is no file and no built-in experiment `tls-ofload`; did you mean `tls-offload`?");
        insta::assert_snapshot!(refused("./tls-offload"), @"there is no file `./tls-offload`");
        insta::assert_snapshot!(refused("/"), @"/ is a directory; an experiment is a YAML file");
        let directory = tempfile::tempdir().unwrap();
        let large = directory.path().join("large.yaml");
        std::fs::File::create(&large).unwrap().set_len(10 << 20).unwrap();
        let large = large.to_str().unwrap();
        insta::assert_snapshot!(refused(large).replace(large, "large.yaml"), @"large.yaml:1:1: an experiment file is at most 1 MiB");
        insta::assert_snapshot!(refused("/dev/zero"), @"failed to read /dev/zero: it is a character device, not a file");
    }
}
