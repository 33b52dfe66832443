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
