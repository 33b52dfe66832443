//! A program's report of its build: `haproxy -vv`, `nginx -V`.

use super::error::OffloadError;
use super::extension::Extension;
use crate::system::installable::{HAPROXY, Installable};

/// The facts of a program's build that matter to offloading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Build {
    pub(super) title: &'static str,
    /// The TLS library that it runs on, such as `OpenSSL 3.0.19 27 Jan 2026`.
    library: Option<String>,
    /// Whether it has words for engines and for providers.
    engine_directive: bool,
    provider_directive: bool,
    /// Whether its TLS operations can be set aside while a device works.
    pub(super) has_async: bool,
}

impl Build {
    /// Asks an installed program.
    pub(super) fn ask(program: Installable) -> Result<Self, OffloadError> {
        let file = program.find()?;
        let silent = |cause| OffloadError::Silent { program: program.title, cause };
        let text = program.build(&file).map_err(silent)?;
        Ok(if program == HAPROXY { Self::of_haproxy(&text) } else { Self::of_nginx(&text) })
    }

    /// From `haproxy -vv`. Its list of features has `+ENGINE` where `ssl-engine` is known (INSTALL, section 4.5), and it
    /// lists the providers that are loaded where `ssl-provider` is. `ssl-mode-async` needs OpenSSL 1.1.0 or later alone.
    fn of_haproxy(text: &str) -> Self {
        let line = |start: &str| text.lines().find_map(|line| line.trim().strip_prefix(start));
        let library = line("Running on ").filter(|rest| rest.contains(" version :")).or_else(|| {
            text.lines().find(|line| line.starts_with("Running on ") && line.contains(" version : "))
        });
        let library =
            library.and_then(|rest| rest.split_once(" version : ")).map(|(_, version)| version.to_owned());
        let features = line("Feature list :").unwrap_or_default();
        Self {
            title: "HAProxy",
            has_async: library.as_deref().is_some_and(is_openssl),
            library,
            engine_directive: features.split_ascii_whitespace().any(|feature| feature == "+ENGINE"),
            provider_directive: line("OpenSSL providers loaded").is_some(),
        }
    }

    /// From `nginx -V`: `built with OpenSSL 3.0.22 … (running with OpenSSL 3.0.19 …)`. `ssl_engine` is always a word of
    /// nginx, and an error at the start where its OpenSSL has no engines. It has no word for providers, and sets no
    /// operation aside: that takes Intel's branch of it (asynch_mode_nginx).
    fn of_nginx(text: &str) -> Self {
        let built = text.lines().find_map(|line| line.strip_prefix("built with "));
        let running =
            built.map(|built| built.split_once("(running with ").map_or(built, |(_, running)| running));
        Self {
            title: "nginx",
            library: running.map(|library| library.trim_end_matches(')').to_owned()),
            engine_directive: true,
            provider_directive: false,
            has_async: false,
        }
    }

    /// Whether the program's TLS library can load such a thing.
    pub(super) fn can_load(&self, extension: Extension) -> Result<(), OffloadError> {
        let (program, word) = (self.title, extension.word());
        let Some(library) = &self.library else {
            return Err(OffloadError::NoTls { program, word });
        };
        let can = match (extension, is_openssl(library).then(|| major(library)).flatten()) {
            (_, None) => false,
            // Engines are gone from OpenSSL 4 (its CHANGES.md), and providers came with OpenSSL 3.
            (Extension::Engine, Some(major)) => major < 4,
            (Extension::Provider, Some(major)) => major >= 3,
        };
        if can { Ok(()) } else { Err(OffloadError::Library { program, library: library.clone(), word }) }
    }

    /// Whether the program has its own directive for it.
    pub(super) fn has_directive(&self, extension: Extension) -> bool {
        match extension {
            Extension::Engine => self.engine_directive,
            Extension::Provider => self.provider_directive,
        }
    }
}

fn is_openssl(library: &str) -> bool {
    library.starts_with("OpenSSL ")
}

fn major(library: &str) -> Option<u32> {
    library.strip_prefix("OpenSSL ")?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HAPROXY_2_6: &str = "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/
Running on: Linux 6.18.44 #1 SMP x86_64
Feature list : -51DEGREES +ACCEPT4 +DL -ENGINE +EPOLL +OPENSSL +THREAD
Built with OpenSSL version : OpenSSL 3.0.22 25 Aug 2026
Running on OpenSSL version : OpenSSL 3.0.19 27 Jan 2026
OpenSSL providers loaded : default
";

    #[test]
    fn haproxy_says_what_it_can() {
        let debian = Build::of_haproxy(HAPROXY_2_6);
        assert_eq!(debian.library.as_deref(), Some("OpenSSL 3.0.19 27 Jan 2026"));
        assert!(!debian.engine_directive && debian.provider_directive && debian.has_async);
        let with_engines = Build::of_haproxy(&HAPROXY_2_6.replace("-ENGINE", "+ENGINE"));
        assert!(with_engines.engine_directive);
        let newer =
            HAPROXY_2_6.replace("OpenSSL version : OpenSSL 3.0.19", "SSL library version : OpenSSL 3.5.7");
        assert_eq!(Build::of_haproxy(&newer).library.as_deref(), Some("OpenSSL 3.5.7 27 Jan 2026"));
        let without = Build::of_haproxy("Feature list : -OPENSSL\nRunning on: Linux 6.1 version : 3\n");
        assert_eq!((without.library, without.has_async), (None, false));
    }

    #[test]
    fn nginx_says_on_what_it_runs() {
        let library = |text: &str| Build::of_nginx(text).library;
        let both = "nginx version: nginx/1.22.1\nbuilt with OpenSSL 3.0.22 25 Aug 2026 (running with OpenSSL 3.0.19 27 Jan 2026)\n";
        assert_eq!(library(both).as_deref(), Some("OpenSSL 3.0.19 27 Jan 2026"));
        assert_eq!(
            library("built with OpenSSL 3.5.6 7 Apr 2026\nTLS SNI").as_deref(),
            Some("OpenSSL 3.5.6 7 Apr 2026")
        );
        assert_eq!(library("nginx version: nginx/1.22.1\nbuilt by gcc 12.2.0\n"), None);
        let compiler_first = format!("built by gcc 12.2.0 (Debian 12.2.0-14)\n{both}");
        assert!(!Build::of_nginx(&compiler_first).has_async && library(&compiler_first).is_some());
    }

    #[test]
    fn what_cannot_load_it_says_why() {
        let on = |library: Option<&str>| Build {
            title: "HAProxy",
            library: library.map(str::to_owned),
            engine_directive: true,
            provider_directive: true,
            has_async: true,
        };
        let said = |library: Option<&str>, extension| {
            on(library).can_load(extension).map_or_else(|error| error.to_string(), |()| "can".to_owned())
        };
        let said = [
            said(None, Extension::Engine),
            said(Some("OpenSSL 1.1.1w  11 Sep 2023"), Extension::Engine),
            said(Some("OpenSSL 1.1.1w  11 Sep 2023"), Extension::Provider),
            said(Some("OpenSSL 3.5.7 9 Jun 2026"), Extension::Engine),
            said(Some("OpenSSL 4.0.0 14 Apr 2026"), Extension::Engine),
            said(Some("OpenSSL 4.0.0 14 Apr 2026"), Extension::Provider),
            said(Some("BoringSSL"), Extension::Provider),
        ];
        insta::assert_snapshot!(said.join("\n"), @"
        HAProxy was built without TLS, so it can load no engine
        can
        HAProxy runs on OpenSSL 1.1.1w  11 Sep 2023, which can load no provider
        can
        HAProxy runs on OpenSSL 4.0.0 14 Apr 2026, which can load no engine
        can
        HAProxy runs on BoringSSL, which can load no provider
        ");
    }
}
