//! `plumb man DIRECTORY`, which packages use: a manual page for each command, from the same declarations as its help.

use std::path::Path;

use clap::CommandFactory;

use crate::args::Arguments;
use crate::exit::{Failure, HOLDS, Outcome};

/// Writes `plumb.1`, `plumb-run.1` and so on. Hidden commands have none.
pub fn man(directory: &Path) -> Outcome {
    clap_mangen::generate_to(Arguments::command(), directory).map_err(|error| {
        Failure::harness(format!("write manual pages to {}: {error}", directory.display()))
    })?;
    Ok(HOLDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_that_help_lists_has_a_page() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(man(directory.path()).ok(), Some(HOLDS));
        let has = |page: &str| directory.path().join(page).exists();
        for command in Arguments::command().get_subcommands() {
            let page = format!("plumb-{}.1", command.get_name());
            assert_eq!(has(&page), !command.is_hide_set(), "{page}");
        }
        assert!(has("plumb.1"));
    }
}
