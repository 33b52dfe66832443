//! The configuration of a program's OpenSSL: a separate file (config(5ssl)), and variables of the environment.

use std::path::{Path, PathBuf};

use super::extension::Extension;
use super::library;
use super::module::Module;

/// The name of the configuration file that a program gets.
const CONF: &str = "openssl.cnf";

/// The files and variables by which a program's OpenSSL is told what to load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::system) struct Environment {
    /// Files for the program's directory, by name.
    pub(in crate::system) files: Vec<(&'static str, String)>,
    /// Variables of its environment.
    pub(in crate::system) variables: Vec<(&'static str, PathBuf)>,
}

impl Environment {
    /// For a program that reaches its directory as `home`.
    pub(in crate::system) fn new(module: Option<&Module>, home: &str) -> Self {
        let conf = text(module.filter(|module| !module.is_directive));
        let mut variables = vec![("OPENSSL_CONF", Path::new(home).join(CONF))];
        let home = module.filter(|module| module.is_directive);
        let home = home.and_then(|module| Some((module.extension, module.library.parent()?)));
        variables.extend(home.map(|(extension, home)| (library::variable(extension), home.to_owned())));
        Self { files: vec![(CONF, conf)], variables }
    }
}

/// A configuration file that loads a module, or one that loads nothing.
fn text(module: Option<&Module>) -> String {
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

    fn module(extension: Extension, is_directive: bool) -> Module {
        let library = PathBuf::from("/opt/qat/qatengine.so");
        Module { extension, name: "qatengine".to_owned(), library, is_directive, is_async: true }
    }

    #[test]
    fn a_file_loads_what_it_is_to_load_and_nothing_else() {
        let files = [None, Some(module(Extension::Engine, false)), Some(module(Extension::Provider, false))];
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
        dynamic_path = /opt/qat/qatengine.so
        default_algorithms = ALL
        init = 1

        -----
        openssl_conf = openssl
        config_diagnostics = 1

        [openssl]
        providers = providers
        alg_section = algorithms

        [algorithms]
        default_properties = ?provider=qatengine

        [providers]
        default = software
        qatengine = offload

        [software]
        activate = 1

        [offload]
        module = /opt/qat/qatengine.so
        activate = 1
        ");
    }

    #[test]
    fn a_program_reads_its_own_file_and_looks_where_the_library_was_found() {
        let variables = |module: &Module| Environment::new(Some(module), "/run/haproxy").variables;
        let conf = ("OPENSSL_CONF", PathBuf::from("/run/haproxy/openssl.cnf"));
        let told = variables(&module(Extension::Engine, true));
        assert_eq!(told, [conf.clone(), ("OPENSSL_ENGINES", "/opt/qat".into())]);
        let told = variables(&module(Extension::Provider, true));
        assert_eq!(told, [conf.clone(), ("OPENSSL_MODULES", "/opt/qat".into())]);
        assert_eq!(variables(&module(Extension::Engine, false)).len(), 1);
        assert_eq!(Environment::new(None, "/run/haproxy").variables, [conf]);
        assert!(!Environment::new(None, ".").files[0].1.contains('['));
    }
}
