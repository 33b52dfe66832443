//! Converts a user's nginx configuration to a template: plumb's placeholders replace its addresses, its certificate and the
//! settings of its processes.
//!
//! One server block is kept. Every `proxy_pass` in it leads to plumb's origin, because a measurement must not load a server
//! in production. Comments are not kept.

use std::collections::BTreeSet;
use std::path::Path;

use super::destinations::{check, logs_elsewhere, refusal};
use super::directives::{Directive, print};
use super::error::{Refusal, TemplateError};
use super::included::whole;

/// Directives that `{{main}}` sets, or that do not concern HTTP.
const OF_MAIN: [&str; 10] = [
    "daemon",
    "master_process",
    "worker_processes",
    "user",
    "pid",
    "lock_file",
    "working_directory",
    "error_log",
    "stream",
    "mail",
];

/// Directives that `{{tls}}` sets, or that belong to the user's certificate.
const OF_TLS: [&str; 9] = [
    "ssl",
    "ssl_certificate",
    "ssl_certificate_key",
    "ssl_password_file",
    "ssl_protocols",
    "ssl_ciphers",
    "ssl_ecdh_curve",
    "ssl_session_tickets",
    "ssl_session_cache",
];

/// Directives that `{{http}}` sets.
const OF_HTTP: [&str; 5] =
    ["client_body_temp_path", "proxy_temp_path", "fastcgi_temp_path", "uwsgi_temp_path", "scgi_temp_path"];

/// Directives that ask name servers, or that keep answers in files which a server in production may use.
const OF_OTHERS: [&str; 6] =
    ["resolver", "resolver_timeout", "proxy_cache", "fastcgi_cache", "uwsgi_cache", "scgi_cache"];

/// Ends of the names of directives whose file is relative to the configuration.
const FILES: [&str; 9] = [
    "auth_basic_user_file",
    "ssl_dhparam",
    "ssl_client_certificate",
    "ssl_trusted_certificate",
    "ssl_crl",
    "ssl_session_ticket_key",
    "geoip_country",
    "geoip_city",
    "geoip_org",
];

/// The files for logs, in nginx's own directory, because nginx does not run as root. Logging costs as much as before.
const LOGS: [(&str, &str); 2] = [("access_log", "access.log"), ("error_log", "error.log")];

/// A configuration with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NginxTemplate {
    /// The text.
    pub text: String,
    /// Whether its server speaks TLS.
    pub has_tls: bool,
    /// The server that it keeps, by its names and addresses.
    pub kept: String,
    /// The directives that it leaves out, because plumb sets them, or they belong to another server.
    pub left_out: Vec<String>,
}

/// Converts the configuration in a file to a template.
///
/// # Errors
/// When it cannot be a template.
pub fn nginx_template(file: &Path) -> Result<NginxTemplate, TemplateError> {
    let path = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut left_out = BTreeSet::new();
    let mut main = whole(file, directory)?;
    let at = main.iter().position(|found| found.name() == "http" && found.block.is_some());
    let at = at.ok_or_else(|| TemplateError::NoHttp { file: file.to_owned() })?;
    let Some(http) = of_http(main[at].block.take().unwrap_or_default(), &mut left_out)? else {
        return Err(TemplateError::NoServer { file: file.to_owned() });
    };
    main[at].block = Some(http.directives);
    remove_here(&mut main, &is_of_main, &mut left_out);
    each(&mut main, &mut |directive| with_paths(directive, directory, &mut left_out))?;
    main.insert(0, Directive::placeholder("main"));
    check(&main, &http.upstreams)?;
    let left_out = left_out.into_iter().collect();
    Ok(NginxTemplate { text: print(&main), has_tls: http.has_tls, kept: http.kept, left_out })
}

/// Calls a function with every directive, however deep.
fn each(
    directives: &mut [Directive],
    does: &mut dyn FnMut(&mut Directive) -> Result<(), TemplateError>,
) -> Result<(), TemplateError> {
    for directive in directives {
        does(directive)?;
        if let Some(block) = directive.inner_mut() {
            each(block, does)?;
        }
    }
    Ok(())
}

/// Removes directives, however deep, and notes their names.
fn remove(
    directives: &mut Vec<Directive>,
    is_out: &dyn Fn(&Directive) -> bool,
    left_out: &mut BTreeSet<String>,
) {
    remove_here(directives, is_out, left_out);
    for block in directives.iter_mut().filter_map(Directive::inner_mut) {
        remove(block, is_out, left_out);
    }
}

/// As [`remove`], without the directives in blocks.
fn remove_here(
    directives: &mut Vec<Directive>,
    is_out: &dyn Fn(&Directive) -> bool,
    left_out: &mut BTreeSet<String>,
) {
    for out in directives.extract_if(.., |found| is_out(found)) {
        left_out.insert(out.name().to_owned());
    }
}

fn is_of_main(found: &Directive) -> bool {
    // nginx looks for relative modules below its own directory, and plumb gives it a different one.
    let is_relative = found.argument().is_some_and(|path| !path.starts_with('/'));
    OF_MAIN.contains(&found.name()) || (found.name() == "load_module" && is_relative)
}

fn is_of_http(found: &Directive) -> bool {
    let name = found.name();
    OF_TLS.contains(&name)
        || OF_HTTP.contains(&name)
        || OF_OTHERS.contains(&name)
        || name.ends_with("_cache_path")
        || ["ssl_stapling", "ssl_ocsp", "proxy_ssl_"].iter().any(|begin| name.starts_with(begin))
}

/// Changes a directive's path so that nginx finds the file from plumb's directory.
fn with_paths(
    directive: &mut Directive,
    directory: &Path,
    left_out: &mut BTreeSet<String>,
) -> Result<(), TemplateError> {
    let (name, path) = (directive.name(), directive.argument().unwrap_or_default());
    let is_whole = path.is_empty() || path.starts_with(['/', '$']);
    if let Some((_, file)) = LOGS.iter().find(|(log, _)| *log == name) {
        if logs_elsewhere(directive) {
            left_out.insert(format!("syslog of {name}"));
        }
        if !["", "off", "stderr"].contains(&path) && !path.starts_with("memory:") {
            directive.set_argument(file);
        }
    } else if ["root", "alias"].contains(&name) && !is_whole {
        return Err(refusal(directive, Refusal::Relative));
    } else if FILES.iter().any(|end| name.ends_with(end)) && !is_whole {
        let whole = directory.join(path).display().to_string();
        directive.set_argument(&whole);
    }
    Ok(())
}

/// The block `http` of a template.
struct Http {
    directives: Vec<Directive>,
    has_tls: bool,
    kept: String,
    /// The upstreams that it uses.
    upstreams: Vec<String>,
}

/// The directives of `http` with one server and its upstreams; `None` if no server passes requests on.
fn of_http(mut http: Vec<Directive>, left_out: &mut BTreeSet<String>) -> Result<Option<Http>, TemplateError> {
    let is_ingress = |found: &Directive| found.name() == "server" && found.has("proxy_pass");
    let Some(at) = http.iter().position(is_ingress) else { return Ok(None) };
    let server = http.remove(at);
    let (kept, has_tls) = (described(&server), has_tls(&server));
    let names: Vec<String> = http.iter().filter_map(Directive::upstream).map(str::to_owned).collect();
    let (server, used) = of_server(server, has_tls, &names, left_out)?;
    let mut directives = Vec::new();
    for mut directive in http {
        match directive.upstream().map(|name| used.contains(name)) {
            Some(true) => {
                let rest = directive.block.take().unwrap_or_default();
                let rest = rest.into_iter().filter(|found| found.name() != "server");
                let origin = Directive::from_words(["server", "{{origin}}"]);
                directive.block = Some(std::iter::once(origin).chain(rest).collect());
                directives.push(directive);
            }
            Some(false) => drop(left_out.insert(format!("upstream {}", directive.words[1]))),
            None if directive.name() == "server" => drop(left_out.insert(described(&directive))),
            None => directives.push(directive),
        }
    }
    directives.push(server);
    remove(&mut directives, &is_of_http, left_out);
    if !directives.iter().any(|found| found.name() == "access_log") {
        // nginx writes this log by default, but plumb's must be in its own directory.
        directives.insert(0, Directive::from_words(["access_log", "access.log"]));
    }
    directives.push(Directive::placeholder("http"));
    Ok(Some(Http { directives, has_tls, kept, upstreams: used.into_iter().collect() }))
}

fn has_tls(server: &Directive) -> bool {
    server.inner().iter().any(|found| match found.name() {
        "listen" => found.words.iter().any(|word| word == "ssl"),
        name => name == "ssl" && found.argument() == Some("on"),
    })
}

/// Describes a server by its names and addresses.
fn described(server: &Directive) -> String {
    let all = |name: &str| {
        let found = server.inner().iter().filter(|found| found.name() == name);
        found.map(|found| found.words[1..].join(" ")).collect::<Vec<_>>().join(", ")
    };
    let (names, addresses) = (all("server_name"), all("listen"));
    let names = if names.is_empty() { "without a name" } else { &names };
    let addresses = if addresses.is_empty() { "80" } else { &addresses };
    format!("server {names} (listen {addresses}; {})", server.at)
}

/// Replaces a server's address and origin by plumb's. Also returns the upstreams that it uses.
fn of_server(
    mut server: Directive,
    has_tls: bool,
    upstreams: &[String],
    left_out: &mut BTreeSet<String>,
) -> Result<(Directive, BTreeSet<String>), TemplateError> {
    let mut used = BTreeSet::new();
    let mut block = server.block.take().unwrap_or_default();
    each(&mut block, &mut |directive| {
        if directive.name() != "proxy_pass" {
            return Ok(());
        }
        let (host, uri) = target(directive)?;
        if directive.argument().is_some_and(|target| target.starts_with("https")) {
            left_out.insert("TLS to the upstreams".to_owned());
        }
        let upstream = upstreams.iter().find(|name| name.eq_ignore_ascii_case(&host));
        used.extend(upstream.cloned());
        let host = upstream.map_or("{{origin}}", String::as_str);
        directive.set_argument(&format!("http://{host}{uri}"));
        Ok(())
    })?;
    block.retain(|found| found.name() != "listen");
    if has_tls {
        block.insert(0, Directive::placeholder("tls"));
    }
    block.insert(0, Directive::from_words(["listen", "{{listen}}"]));
    server.block = Some(block);
    Ok((server, used))
}

/// The host and the URI of a `proxy_pass`. The host may be the path of a socket, which a colon ends.
fn target(directive: &Directive) -> Result<(String, String), TemplateError> {
    let target = directive.argument().unwrap_or_default();
    let (scheme, rest) = target.split_once("://").unwrap_or(("", target));
    let end = match rest.strip_prefix("unix:") {
        Some(path) => path.find(':').map(|at| rest.len() - path.len() + at),
        None => rest.find(['/', '?']),
    };
    let end = end.unwrap_or(rest.len());
    let (host, uri) = rest.split_at(end);
    if host.contains('$') {
        return Err(refusal(directive, Refusal::Variable));
    }
    let uri = uri.strip_prefix(':').unwrap_or(uri);
    let is_uri = uri.is_empty() || uri.starts_with(['/', '?']);
    if !["http", "https"].contains(&scheme.to_lowercase().as_str()) || !is_uri || target.contains('\\') {
        return Err(refusal(directive, Refusal::Form));
    }
    Ok((host.to_owned(), uri.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::error::WAYS_OUT;
    use super::*;

    fn template(text: &str) -> Result<NginxTemplate, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("nginx.conf");
        let text = text.replace("DIR", directory.path().to_str().unwrap());
        std::fs::write(&file, text).unwrap();
        std::fs::write(directory.path().join("mime.types"), "types { text/html html; }").unwrap();
        std::fs::create_dir(directory.path().join("sites")).unwrap();
        let site = "upstream app { least_conn; server 10.0.0.1:8080; server 10.0.0.2:8080; }\n\
                    server { listen 443 ssl http2; listen [::]:443 ssl; ssl_certificate a.pem; location / { proxy_pass https://app/x; } }\n";
        std::fs::write(directory.path().join("sites/app.conf"), site).unwrap();
        let more = "location /more { proxy_pass http://127.0.0.1:18999; }\n";
        std::fs::write(directory.path().join("more.inc"), more).unwrap();
        let hide = |text: &str| text.replace(directory.path().to_str().unwrap(), "DIR");
        let found = nginx_template(&file).map_err(|error| hide(&error.to_string()))?;
        let left_out = found.left_out.iter().map(|name| hide(name)).collect();
        Ok(NginxTemplate { text: hide(&found.text), kept: hide(&found.kept), left_out, ..found })
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
        insta::assert_snapshot!(found.kept, @"server without a name (listen 443 ssl http2, [::]:443 ssl; DIR/sites/app.conf:2)");
        insta::assert_snapshot!(found.left_out.join("\n"), @r"
        TLS to the upstreams
        pid
        server without a name (listen 80; DIR/nginx.conf:9)
        ssl_certificate
        upstream old
        user
        worker_processes
        ");
        insta::assert_snapshot!(found.text, @r#"
        {{main}}
        events {
            worker_connections 768;
        }
        http {
            types {
                text/html html;
            }
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

    /// The template of a server with these lines, next to an upstream.
    fn converted(server: &str) -> Result<NginxTemplate, String> {
        template(&format!("http {{\n upstream app {{ server 10.0.0.1; }}\n server {{\n {server}\n }} }}"))
    }

    #[test]
    fn every_request_leads_to_the_origin() {
        for (target, expected) in [
            ("http://10.0.0.1", "http://{{origin}}"),
            ("HTTPS://10.0.0.1:8443/a?b", "http://{{origin}}/a?b"),
            ("'http://10.0.0.1/a'", "http://{{origin}}/a"),
            ("http://10.0.0.1/a$request_uri", "http://{{origin}}/a$request_uri"),
            ("http://App/a", "http://app/a"),
            ("http://app:8080/a", "http://{{origin}}/a"),
            ("http://unix:/run/g.sock", "http://{{origin}}"),
            ("http://unix:/run/g.sock:/a", "http://{{origin}}/a"),
            ("http://unix:/run/g.sock:", "http://{{origin}}"),
        ] {
            let text = converted(&format!("location / {{ proxy_pass {target}; }}")).unwrap().text;
            assert!(text.contains(&format!("proxy_pass {expected};")), "{target}: {text}");
            assert!(!text.contains("10.0.0.1"), "{target}: {text}");
        }
        let included = converted("include more.inc;").unwrap();
        assert!(included.text.contains("proxy_pass http://{{origin}};"), "{}", included.text);
        assert!(!included.text.contains("18999") && !included.text.contains("include"), "{}", included.text);
        assert_eq!(included.left_out, ["upstream app"]);
    }

    #[test]
    fn what_asks_other_servers_is_left_out_or_refused() {
        let refused = |line: &str| {
            let refused = converted(&format!("location / {{ proxy_pass http://app; }}\n{line}")).unwrap_err();
            refused.replace(WAYS_OUT, " …")
        };
        let lines = [
            "location /a { grpc_pass grpc://127.0.0.1:18999; }",
            "location /a { fastcgi_pass unix:/run/php.sock; }",
            "location /a { proxy_pass http://app$request_uri; }",
            "location /a { proxy_pass $up; }",
            "location /a { proxy_pass app; }",
            "location /a { js_content main.fetch; }",
            "location /a { root html; }",
        ];
        insta::assert_snapshot!(lines.map(refused).join("\n"), @r"
        DIR/nginx.conf:5: `grpc_pass grpc://127.0.0.1:18999` passes requests to another server …
        DIR/nginx.conf:5: `fastcgi_pass unix:/run/php.sock` passes requests to another server …
        DIR/nginx.conf:5: `proxy_pass http://app$request_uri` has a variable in its target, which is not supported …
        DIR/nginx.conf:5: `proxy_pass $up` has a variable in its target, which is not supported …
        DIR/nginx.conf:5: `proxy_pass app` has a target of a form that is not supported …
        DIR/nginx.conf:5: `js_content main.fetch` is unknown to plumb and might send requests elsewhere …
        DIR/nginx.conf:5: `root html` is relative to nginx's own directory, and plumb gives nginx another one …
        ");
        let mut text =
            "stream { server { listen 1; proxy_pass 10.0.0.1:2; } } load_module modules/a.so;\n".to_owned();
        text +=
            "http { resolver 10.0.0.1; ssl_certificate a.pem; ssl_certificate_key a.key; ssl_stapling on;\n";
        text += "proxy_cache_path /var/a keys_zone=a:1m; access_log syslog:server=10.0.0.1;\n";
        text += "server { auth_basic_user_file users; location / { proxy_cache a; proxy_pass http://10.0.0.1; } } }";
        let found = template(&text).unwrap();
        insta::assert_snapshot!(found.left_out.join(" "), @"load_module proxy_cache proxy_cache_path resolver ssl_certificate ssl_certificate_key ssl_stapling stream syslog of access_log");
        insta::assert_snapshot!(found.text, @r"
        {{main}}
        http {
            access_log access.log;
            server {
                listen {{listen}};
                auth_basic_user_file DIR/users;
                location / {
                    proxy_pass http://{{origin}};
                }
            }
            {{http}}
        }
        ");
    }

    #[test]
    fn what_cannot_be_a_template_says_why() {
        let refused = |text: &str| template(text).unwrap_err();
        insta::assert_snapshot!(refused("events { }"), @"DIR/nginx.conf: there is no `http` block in it");
        insta::assert_snapshot!(refused("http { server { listen 80; root /var/www; } }"), @"DIR/nginx.conf: no `server` in it passes requests on with `proxy_pass`; measure a server as it runs with `plumb init --external`");
        insta::assert_snapshot!(refused("http { server {"), @"DIR/nginx.conf:1: a `{` is not closed");
    }
}
