//! Checks that a converted nginx configuration sends requests only to plumb's origin.
//!
//! Only directives that are known to send no requests may pass. Any other, such as one of a third-party module, might reach a
//! server in production.

use super::directives::Directive;
use super::error::{Refusal, TemplateError};

/// Directives of nginx that send no request.
const KNOWN: [&str; 75] = [
    "absolute_redirect",
    "accept_mutex",
    "accept_mutex_delay",
    "add_header",
    "add_trailer",
    "aio",
    "aio_write",
    "alias",
    "allow",
    "auth_basic",
    "auth_basic_user_file",
    "auth_delay",
    "auth_request",
    "auth_request_set",
    "break",
    "charset",
    "charset_map",
    "charset_types",
    "chunked_transfer_encoding",
    "connection_pool_size",
    "default_type",
    "deny",
    "directio",
    "directio_alignment",
    "disable_symlinks",
    "empty_gif",
    "env",
    "error_page",
    "etag",
    "events",
    "expires",
    "geo",
    "gunzip",
    "http",
    "if",
    "if_modified_since",
    "ignore_invalid_headers",
    "index",
    "internal",
    "load_module",
    "location",
    "log_format",
    "log_not_found",
    "log_subrequest",
    "map",
    "max_ranges",
    "merge_slashes",
    "min_delete_depth",
    "mirror",
    "mirror_request_body",
    "msie_padding",
    "msie_refresh",
    "multi_accept",
    "output_buffers",
    "override_charset",
    "pcre_jit",
    "port_in_redirect",
    "postpone_output",
    "read_ahead",
    "recursive_error_pages",
    "request_pool_size",
    "return",
    "rewrite",
    "root",
    "satisfy",
    "server",
    "set",
    "slice",
    "source_charset",
    "stub_status",
    "thread_pool",
    "timer_resolution",
    "try_files",
    "types",
    "use",
];

/// Prefixes of the names of more such directives.
const KNOWN_BEGINNINGS: [&str; 44] = [
    "autoindex",
    "brotli",
    "client_",
    "fastcgi_",
    "geoip",
    "grpc_",
    "gzip",
    "http2",
    "http3",
    "keepalive_",
    "large_client_header_buffers",
    "limit_",
    "lingering_",
    "map_hash_",
    "memcached_",
    "more_",
    "open_file_cache",
    "open_log_file_cache",
    "proxy_",
    "quic_",
    "real_ip_",
    "referer_hash_",
    "reset_timedout_connection",
    "rewrite_log",
    "scgi_",
    "secure_link",
    "send_",
    "sendfile",
    "server_",
    "set_real_ip_from",
    "split_clients",
    "ssl_",
    "sub_filter",
    "subrequest_output_buffer_size",
    "tcp_",
    "types_hash_",
    "underscores_in_headers",
    "uninitialized_variable_warn",
    "userid",
    "uwsgi_",
    "valid_referers",
    "variables_hash_",
    "worker_",
    "zstd",
];

/// Prefixes of exceptions: these ask another server, or write where the server in production does.
const NOT_KNOWN: [&str; 6] =
    ["ssl_ocsp", "ssl_stapling", "proxy_store", "fastcgi_store", "uwsgi_store", "scgi_store"];

/// The directives that an upstream may have besides its server.
const OF_UPSTREAM: [&str; 10] = [
    "hash",
    "ip_hash",
    "keepalive",
    "keepalive_requests",
    "keepalive_time",
    "keepalive_timeout",
    "least_conn",
    "ntlm",
    "random",
    "zone",
];

/// Checks a converted configuration.
///
/// # Errors
/// The place of a directive that might send requests elsewhere, and what the user can do.
pub(super) fn check(directives: &[Directive], upstreams: &[String]) -> Result<(), TemplateError> {
    directives.iter().try_for_each(|directive| {
        check_one(directive, upstreams)?;
        let is_upstream = directive.upstream().is_some();
        if is_upstream { check_upstream(directive) } else { check(directive.inner(), upstreams) }
    })
}

fn check_one(directive: &Directive, upstreams: &[String]) -> Result<(), TemplateError> {
    let name = directive.name();
    let is_safe = match name {
        "upstream" => directive.upstream().is_some(),
        "proxy_pass" => return leads_to_origin(directive, upstreams),
        "listen" => directive.argument() == Some("{{listen}}"),
        "access_log" | "error_log" => !logs_elsewhere(directive),
        _ if name.ends_with("_pass") => return Err(refusal(directive, Refusal::Passes)),
        _ => directive.is_placeholder() || is_known(name),
    };
    if is_safe { Ok(()) } else { Err(refusal(directive, Refusal::Unknown)) }
}

fn is_known(name: &str) -> bool {
    let begins = |known: &[&str]| known.iter().any(|begin| name.starts_with(begin));
    // A script can do anything, and `proxy_connect` turns a server into a proxy to any host.
    let is_excluded = begins(&NOT_KNOWN) || name.contains("_lua") || name == "proxy_connect";
    !is_excluded && (KNOWN.contains(&name) || begins(&KNOWN_BEGINNINGS))
}

/// Whether a log may go to another host.
pub(super) fn logs_elsewhere(directive: &Directive) -> bool {
    directive.argument().is_some_and(|path| path.starts_with("syslog:"))
}

fn leads_to_origin(directive: &Directive, upstreams: &[String]) -> Result<(), TemplateError> {
    let target = directive.argument().and_then(|target| target.strip_prefix("http://")).unwrap_or_default();
    let host = &target[..target.find(['/', '?']).unwrap_or(target.len())];
    if directive.words.len() == 2 && (host == "{{origin}}" || upstreams.iter().any(|name| name == host)) {
        Ok(())
    } else {
        Err(refusal(directive, Refusal::Elsewhere))
    }
}

fn check_upstream(upstream: &Directive) -> Result<(), TemplateError> {
    let is_safe = |found: &Directive| match found.name() {
        "server" => found.words == ["server", "{{origin}}"],
        name => OF_UPSTREAM.contains(&name) && found.block.is_none(),
    };
    match upstream.inner().iter().find(|found| !is_safe(found)) {
        Some(found) => Err(refusal(found, Refusal::UnknownInUpstream)),
        None => Ok(()),
    }
}

/// The refusal of a directive, with its place and the reason.
pub(super) fn refusal(directive: &Directive, why: Refusal) -> TemplateError {
    TemplateError::Refused { at: directive.at.clone(), directive: directive.words.join(" "), why }
}

#[cfg(test)]
mod tests {
    use super::super::directives::parse;
    use super::super::error::WAYS_OUT;
    use super::*;

    fn checked(text: &str) -> Result<(), TemplateError> {
        check(&parse(text, "x").unwrap(), &["app".to_owned()])
    }

    #[test]
    fn every_way_to_another_server_is_refused() {
        for text in [
            "grpc_pass grpc://127.0.0.1:1;",
            "fastcgi_pass unix:/run/php.sock;",
            "uwsgi_pass app;",
            "scgi_pass app;",
            "memcached_pass app;",
            "redis2_pass app;",
            "'grpc_pass' app;",
            "proxy_pass http://10.0.0.1;",
            "proxy_pass http://app:8080/;",
            "proxy_pass http://app.example/;",
            "proxy_pass https://app/;",
            "proxy_pass $where;",
            "proxy_pass http://app$request_uri;",
            "listen 80;",
            "resolver 10.0.0.2;",
            "ssl_stapling on;",
            "access_log syslog:server=10.0.0.3;",
            "js_content main.fetch;",
            "content_by_lua_file a.lua;",
            "log_by_lua_file a.lua;",
            "proxy_connect;",
            "otel_exporter { endpoint a; }",
            "include a;",
            "upstream app { server 10.0.0.1; }",
            "upstream app { state /a; }",
            "foo;",
        ] {
            let refused =
                checked(&format!("http {{ server {{ location / {{ if ($a) {{\n {text} }} }} }} }}"));
            let refused = refused.expect_err(text).to_string();
            assert!(refused.starts_with("x:2: `") && refused.ends_with(WAYS_OUT), "{text}: {refused}");
        }
    }

    #[test]
    fn what_stays_here_is_let_through() {
        for text in [
            "proxy_pass http://app/x;",
            "proxy_pass http://app?x;",
            "proxy_pass \"http://app\";",
            "proxy_set_header Host $host;",
            "return 301 https://elsewhere$request_uri;",
            "map $a $b { grpc_pass c; }",
            "types { text/html html; }",
            "ssl_protocols TLSv1.3;",
            "sendfile on;",
        ] {
            checked(&format!("http {{ {text} }}")).expect(text);
        }
    }
}
