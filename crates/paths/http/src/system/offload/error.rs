//! Why a program cannot use an engine or a provider.

use std::path::PathBuf;

use plumb_path::tool::NotInstalled;

/// Why a program cannot use an engine or a provider. `word` is one of these two words.
#[derive(Debug, thiserror::Error)]
pub(in crate::system) enum OffloadError {
    #[error(transparent)]
    NoProgram(#[from] NotInstalled),
    #[error("{program} does not say what it was built with: {cause}")]
    Silent { program: &'static str, cause: plumb_host::Error },
    #[error("{program} was built without TLS, so it can load no {word}")]
    NoTls { program: &'static str, word: &'static str },
    #[error("{program} runs on {library}, which can load no {word}")]
    Library { program: &'static str, library: String, word: &'static str },
    #[error("{program} was built without TLS operations that can wait; set `offload_mode: sync`")]
    NoAsync { program: &'static str },
    #[error("there is no {word} library {}", library.display())]
    NoFile { word: &'static str, library: PathBuf },
    #[error(
        "the {word} {name} is not installed: there is no {name}.so in {}{}",
        listed(directories),
        remedy(name)
    )]
    NotInstalled { word: &'static str, name: String, directories: Vec<PathBuf> },
}

fn listed(directories: &[PathBuf]) -> String {
    directories.iter().map(|directory| directory.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn remedy(name: &str) -> &'static str {
    match name {
        "qatengine" => "; on Debian 13: apt-get install qatengine",
        "qatprovider" => {
            "; no package of Debian has it: build Intel's QAT_Engine with --enable-qat_provider (github.com/intel/QAT_Engine)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_nowhere_says_where_it_was_looked_for_and_what_to_install() {
        let directories = vec![PathBuf::from("/a/engines-3"), PathBuf::from("/b")];
        let missing = |word, name: &str| {
            let directories = directories.clone();
            OffloadError::NotInstalled { word, name: name.to_owned(), directories }.to_string()
        };
        let said =
            [missing("engine", "qatengine"), missing("provider", "qatprovider"), missing("engine", "pka")];
        insta::assert_snapshot!(said.join("\n"), @"
        the engine qatengine is not installed: there is no qatengine.so in /a/engines-3, /b; on Debian 13: apt-get install qatengine
        the provider qatprovider is not installed: there is no qatprovider.so in /a/engines-3, /b; no package of Debian has it: build Intel's QAT_Engine with --enable-qat_provider (github.com/intel/QAT_Engine)
        the engine pka is not installed: there is no pka.so in /a/engines-3, /b
        ");
    }
}
