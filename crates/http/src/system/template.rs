//! A server's own nginx configuration as a template: plumb's placeholders in place of its addresses, its certificate, and
//! what concerns its processes.
//!
//! One server block is kept, with what it passes requests on to. Comments are not.

use std::collections::BTreeSet;
use std::path::Path;

use super::config::LONG_TEMPLATE;
use super::directives::{Directive, parse, print};
use plumb_host::named_file;

/// What `{{main}}` sets.
const OF_MAIN: [&str; 6] = ["daemon", "master_process", "worker_processes", "user", "pid", "error_log"];

/// What `{{tls}}` sets.
const OF_TLS: [&str; 7] = [
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_protocols",
    "ssl_ciphers",
    "ssl_ecdh_curve",
    "ssl_session_tickets",
    "ssl_session_cache",
];

/// What `{{http}}` sets.
const OF_HTTP: [&str; 5] =
    ["client_body_temp_path", "proxy_temp_path", "fastcgi_temp_path", "uwsgi_temp_path", "scgi_temp_path"];

/// Where nginx writes its logs: into its own directory, because it does not run as root. Logging costs what it did.
const LOGS: [(&str, &str); 2] = [("access_log", "access.log"), ("error_log", "error.log")];

/// A configuration with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NginxTemplate {
    /// The text.
    pub text: String,
    /// Whether its server speaks TLS.
    pub has_tls: bool,
    /// The directives that it leaves out, because plumb sets them or they belong to another server.
    pub left_out: Vec<String>,
}

/// The configuration in a file as a template.
///
/// # Errors
/// Why it cannot be one.
pub fn nginx_template(file: &Path) -> Result<NginxTemplate, String> {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let directory = path.parent().unwrap_or(Path::new("/"));
    let shown = file.display();
    let about = |reason: String| format!("{shown}: {reason}");
    let mut left_out = BTreeSet::new();
    let mut main = read(file, directory)?;
    let at = main.iter().position(|found| found.name() == "http" && found.block.is_some());
    let at = at.ok_or_else(|| about("there is no `http` block in it".to_owned()))?;
    let http = with_sites(main[at].block.take().unwrap_or_default(), directory)?;
    let (http, has_tls) = of_http(http, &mut left_out).map_err(about)?;
    main[at].block = Some(http);
    each(&mut main, &mut |directive| {
        let log = LOGS.iter().find(|(name, _)| *name == directive.name()).map(|(_, file)| *file);
        let is_file = |path: &str| path != "off" && path != "stderr" && !path.starts_with("syslog:");
        if let Some(file) = log.filter(|_| directive.argument().is_some_and(is_file)) {
            file.clone_into(&mut directive.words[1]);
        }
    });
    let mut main = without(main, &OF_MAIN, &mut left_out);
    main.insert(0, Directive::placeholder("main"));
    Ok(NginxTemplate { text: print(&main), has_tls, left_out: left_out.into_iter().collect() })
}

/// The directives of a file, whose relative includes are relative to `directory`.
fn read(file: &Path, directory: &Path) -> Result<Vec<Directive>, String> {
    let text = named_file::text_at_most(file, LONG_TEMPLATE).map_err(|error| format!("failed to {error}"))?;
    let mut found = parse(&text).map_err(|reason| format!("{}: {reason}", file.display()))?;
    each(&mut found, &mut |directive| {
        if directive.name() == "include" && directive.argument().is_some_and(|path| !path.starts_with('/')) {
            directive.words[1] = directory.join(&directive.words[1]).display().to_string();
        }
    });
    Ok(found)
}

/// Does something with every directive, however deep.
fn each(directives: &mut [Directive], does: &mut dyn FnMut(&mut Directive)) {
    for directive in directives {
        does(directive);
        each(directive.block.as_deref_mut().unwrap_or_default(), does);
    }
}

/// Puts the files with server blocks in place of the lines that include them.
fn with_sites(http: Vec<Directive>, directory: &Path) -> Result<Vec<Directive>, String> {
    let mut all = Vec::new();
    for directive in http {
        let included = match directive.name() {
            "include" => included(directive.argument().unwrap_or_default(), directory)?,
            _ => Vec::new(),
        };
        if included.iter().any(|found| matches!(found.name(), "server" | "upstream")) {
            all.extend(included);
        } else {
            all.push(directive);
        }
    }
    Ok(all)
}

/// The directives of the files that a line includes, of which the name may have one `*`.
fn included(pattern: &str, directory: &Path) -> Result<Vec<Directive>, String> {
    let path = Path::new(pattern);
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((begin, end)) = name.split_once('*') else {
        return if path.is_file() { read(path, directory) } else { Ok(Vec::new()) };
    };
    let entries = path.parent().and_then(|parent| std::fs::read_dir(parent).ok()).into_iter().flatten();
    let mut files: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    let fits = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| {
            name.len() >= begin.len() + end.len() && name.starts_with(begin) && name.ends_with(end)
        })
    };
    files.retain(|path| fits(path));
    files.sort();
    files.iter().map(|file| read(file, directory)).collect::<Result<Vec<_>, _>>().map(|all| all.concat())
}

/// The directives of `http` with one server and its upstreams, and whether the server speaks TLS.
fn of_http(
    mut http: Vec<Directive>,
    left_out: &mut BTreeSet<String>,
) -> Result<(Vec<Directive>, bool), String> {
    let is_ingress = |found: &Directive| found.name() == "server" && found.has("proxy_pass");
    let at = http.iter().position(is_ingress).ok_or(
        "no `server` in it passes requests on with `proxy_pass`; measure a server as it runs with `plumb init --external`",
    )?;
    let names: Vec<String> = http.iter().filter_map(Directive::upstream).map(str::to_owned).collect();
    let (server, has_tls, used) = of_server(http.remove(at).block.unwrap_or_default(), &names, left_out)?;
    let mut kept = Vec::new();
    for mut directive in without(http, &OF_HTTP, left_out) {
        match directive.upstream().map(|name| used.contains(name)) {
            Some(true) => {
                let block = directive.block.take().unwrap_or_default();
                let rest = block.into_iter().filter(|found| found.name() != "server");
                let origin = Directive::of(["server", "{{origin}}"]);
                directive.block = Some(std::iter::once(origin).chain(rest).collect());
                kept.push(directive);
            }
            Some(false) => drop(left_out.insert(format!("upstream {}", directive.words[1]))),
            None if directive.name() == "server" => drop(left_out.insert("another server".to_owned())),
            None => kept.push(directive),
        }
    }
    if !kept.iter().any(|found| found.name() == "access_log") {
        // What nginx does by itself, but into its own directory.
        kept.insert(0, Directive::of(["access_log", "access.log"]));
    }
    kept.push(Directive { words: vec!["server".to_owned()], block: Some(server) });
    kept.push(Directive::placeholder("http"));
    Ok((kept, has_tls))
}

/// A server that listens where plumb says and passes requests on to its origin, whether it speaks TLS, and the upstreams that
/// it uses.
fn of_server(
    mut server: Vec<Directive>,
    upstreams: &[String],
    left_out: &mut BTreeSet<String>,
) -> Result<(Vec<Directive>, bool, BTreeSet<String>), String> {
    let listens =
        |found: &Directive| found.name() == "listen" && found.words.iter().any(|word| word == "ssl");
    let has_tls = server.iter().any(listens);
    let (mut used, mut variable) = (BTreeSet::new(), None);
    each(&mut server, &mut |directive| {
        if directive.name() != "proxy_pass" {
            return;
        }
        let target = directive.argument().unwrap_or_default().to_owned();
        let rest = target.split_once("://").map_or(target.as_str(), |(_, rest)| rest);
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if host.contains('$') {
            variable = Some(target);
        } else if upstreams.iter().any(|name| name == host) {
            used.insert(host.to_owned());
            directive.words[1] = format!("http://{host}{path}");
        } else {
            directive.words[1] = format!("http://{{{{origin}}}}{path}");
        }
    });
    if let Some(target) = variable {
        return Err(format!("`proxy_pass {target}` names no fixed server"));
    }
    server.retain(|found| found.name() != "listen");
    let mut server = if has_tls { without(server, &OF_TLS, left_out) } else { server };
    if has_tls {
        server.insert(0, Directive::placeholder("tls"));
    }
    server.insert(0, Directive::of(["listen", "{{listen}}"]));
    Ok((server, has_tls, used))
}

/// The directives without those that plumb sets.
fn without(directives: Vec<Directive>, names: &[&str], left_out: &mut BTreeSet<String>) -> Vec<Directive> {
    let (out, kept): (Vec<_>, Vec<_>) =
        directives.into_iter().partition(|found| names.contains(&found.name()));
    left_out.extend(out.iter().map(|found| found.name().to_owned()));
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> Result<NginxTemplate, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("nginx.conf");
        let text = text.replace("DIR", directory.path().to_str().unwrap());
        std::fs::write(&file, text).unwrap();
        std::fs::create_dir(directory.path().join("sites")).unwrap();
        let site = "upstream app { least_conn; server 10.0.0.1:8080; server 10.0.0.2:8080; }\n\
                    server { listen 443 ssl http2; listen [::]:443 ssl; ssl_certificate a.pem; location / { proxy_pass https://app/x; } }\n";
        std::fs::write(directory.path().join("sites/app.conf"), site).unwrap();
        let hide = |text: &str| text.replace(directory.path().to_str().unwrap(), "DIR");
        let found = nginx_template(&file).map_err(|reason| hide(&reason))?;
        Ok(NginxTemplate { text: hide(&found.text), ..found })
    }

    #[test]
    fn a_configuration_gets_placeholders_for_what_plumb_sets() {
        let found = template(
            "user www-data; worker_processes auto; # all\npid /run/nginx.pid;\nevents { worker_connections 768; }\n\
             http {\n  include mime.types;\n  log_format main '$remote_addr \"$request\"';\n  access_log /var/log/nginx/access.log main;\n  include DIR/sites/*.conf;\n\
             server { listen 80; return 301 https://$host$request_uri; }\n  upstream old { server 10.0.0.9; }\n}\n",
        );
        let found = found.unwrap();
        assert!(found.has_tls);
        let left_out =
            ["another server", "pid", "ssl_certificate", "upstream old", "user", "worker_processes"];
        assert_eq!(found.left_out, left_out);
        insta::assert_snapshot!(found.text, @r#"
        {{main}}
        events {
            worker_connections 768;
        }
        http {
            include DIR/mime.types;
            log_format main '$remote_addr "$request"';
            access_log access.log main;
            upstream app {
                server {{origin}};
                least_conn;
            }
            server {
                listen {{listen}};
                {{tls}}
                location / {
                    proxy_pass http://app/x;
                }
            }
            {{http}}
        }
        "#);
    }

    #[test]
    fn what_cannot_be_a_template_says_why() {
        let refused = |text: &str| template(text).unwrap_err();
        insta::assert_snapshot!(refused("events { }"), @"DIR/nginx.conf: there is no `http` block in it");
        insta::assert_snapshot!(refused("http { server { listen 80; root /var/www; } }"), @"DIR/nginx.conf: no `server` in it passes requests on with `proxy_pass`; measure a server as it runs with `plumb init --external`");
        insta::assert_snapshot!(refused("http { server { location / { proxy_pass http://$up; } } }"), @"DIR/nginx.conf: `proxy_pass http://$up` names no fixed server");
        insta::assert_snapshot!(refused("http { server {"), @"DIR/nginx.conf: a `{` is not closed");
    }
}
