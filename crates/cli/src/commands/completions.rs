//! `plumb completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Arguments;
use crate::exit::{HOLDS, Outcome};
use crate::output;

/// Prints the completion script.
pub fn completions(shell: Shell) -> Outcome {
    output::result(&script(shell))?;
    Ok(HOLDS)
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "plumb", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_complete_the_names_of_algorithms_and_devices() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell);
            assert!(script.contains("chacha20-poly1305") && script.contains("software-aws-lc"), "{shell}");
        }
    }
}
