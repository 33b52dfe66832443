//! OpenSSL's configuration file (config(5ssl)), for one program.

use super::{Extension, Module};

/// A file that loads a module, or one that loads nothing.
pub(super) fn text(module: Option<&Module>) -> String {
    let Some(module) = module else {
        return "# What the host's own file may load is kept out of the experiment.\n".to_owned();
    };
    let (name, library) = (&module.name, module.library.display());
    let sections = match module.extension {
        Extension::Engine => format!(
            "engines = engines

[engines]
offload = offload

[offload]
dynamic_path = {library}
default_algorithms = ALL
init = 1
"
        ),
        // A section `default` would be that of all keys that stand in no section.
        Extension::Provider => format!(
            "providers = providers
alg_section = algorithms

[algorithms]
default_properties = ?provider={name}

[providers]
default = software
{name} = offload

[software]
activate = 1

[offload]
module = {library}
activate = 1
"
        ),
    };
    // Without diagnostics OpenSSL goes on without what it could not load, and says nothing.
    format!("openssl_conf = openssl\nconfig_diagnostics = 1\n\n[openssl]\n{sections}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_loads_what_it_is_to_load_and_nothing_else() {
        let module = |extension| Module {
            extension,
            name: "standin".to_owned(),
            library: "/opt/standin.so".into(),
            is_directive: false,
            is_async: true,
        };
        let files = [None, Some(module(Extension::Engine)), Some(module(Extension::Provider))];
        let texts: Vec<String> = files.iter().map(|module| text(module.as_ref())).collect();
        insta::assert_snapshot!(texts.join("\n-----\n"), @"
        # What the host's own file may load is kept out of the experiment.

        -----
        openssl_conf = openssl
        config_diagnostics = 1

        [openssl]
        engines = engines

        [engines]
        offload = offload

        [offload]
        dynamic_path = /opt/standin.so
        default_algorithms = ALL
        init = 1

        -----
        openssl_conf = openssl
        config_diagnostics = 1

        [openssl]
        providers = providers
        alg_section = algorithms

        [algorithms]
        default_properties = ?provider=standin

        [providers]
        default = software
        standin = offload

        [software]
        activate = 1

        [offload]
        module = /opt/standin.so
        activate = 1
        ");
    }
}
