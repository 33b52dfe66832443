//! The parts of a request that are the same in all protocols, and the check that they make one well-formed request.

use plumb_path::SettingsFault;

use crate::settings::{LoadProtocol, LoadSettings};
use crate::url::{Url, origin_form};

/// The value of User-Agent if the settings have none.
pub const USER_AGENT: &str = concat!("plumb/", env!("CARGO_PKG_VERSION"));

/// Headers that decide where a message ends, which is for this module to say.
const FRAMING: [&str; 2] = ["content-length", "transfer-encoding"];

/// Headers that HTTP/2 and HTTP/3 do not have (RFC 9113, section 8.2.2; RFC 9114, section 4.2).
const OF_CONNECTION: [&str; 5] = ["connection", "keep-alive", "proxy-connection", "te", "upgrade"];

/// The path and query.
pub fn path(spec: &LoadSettings, url: &Url) -> String {
    spec.path.as_deref().map_or_else(|| url.path.clone(), origin_form)
}

/// The value of Content-Length, if the request has that header.
pub fn content_length(spec: &LoadSettings) -> Option<usize> {
    // A method that usually has a body says that this one is empty (RFC 9110, section 8.6).
    let is_stated = spec.body.is_some() || matches!(spec.method.as_str(), "POST" | "PUT" | "PATCH");
    is_stated.then(|| spec.body.as_ref().map_or(0, String::len))
}

/// The fields of a request in HTTP/2 and HTTP/3.
pub fn fields(spec: &LoadSettings, url: &Url) -> Vec<(String, String)> {
    let given = |name: &str| {
        let found = spec.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.clone())
    };
    let own = |name: &str, value: String| (name.to_owned(), value);
    let authority = given("host").or_else(|| spec.host.clone()).unwrap_or_else(|| url.authority.clone());
    let mut fields = vec![
        own(":method", spec.method.clone()),
        own(":scheme", if url.is_tls { "https" } else { "http" }.to_owned()),
        own(":authority", authority),
        own(":path", path(spec, url)),
    ];
    if given("user-agent").is_none() {
        fields.push(own("user-agent", USER_AGENT.to_owned()));
    }
    let others = spec.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host"));
    fields.extend(others.map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned())));
    fields.extend(content_length(spec).map(|length| own("content-length", length.to_string())));
    fields
}

/// Checks that method, path and headers make one well-formed request.
///
/// # Errors
/// The first fault.
pub fn check(spec: &LoadSettings) -> Result<(), SettingsFault> {
    if spec.method.is_empty() || !spec.method.bytes().all(is_token) {
        return Err(SettingsFault::new(
            "load.method",
            format!("`{}` is not a method such as `GET`", spec.method),
        ));
    }
    if spec.method == "CONNECT" {
        return Err(SettingsFault::new(
            "load.method",
            "`CONNECT` opens a tunnel; a load sends requests such as `GET`",
        ));
    }
    if let Some(path) = &spec.path
        && path.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
    {
        let message = format!(
            "`{}` contains a space or a control character; write it as %20 and the like",
            path.escape_debug()
        );
        return Err(SettingsFault::new("load.path", message));
    }
    if let Some(host) = &spec.host {
        check_value("load.host", host)?;
    }
    spec.headers.iter().try_for_each(|(name, value)| {
        check_header(name, value)?;
        if spec.protocol == LoadProtocol::H1 { Ok(()) } else { check_multiplexed(name) }
    })
}

/// Checks a header of HTTP/2 and HTTP/3.
fn check_multiplexed(name: &str) -> Result<(), SettingsFault> {
    let is = |other: &&str| name.eq_ignore_ascii_case(other);
    let why = if OF_CONNECTION.iter().any(is) {
        "HTTP/2 and HTTP/3 have no such header; remove it"
    } else if is(&"expect") {
        "the load waits for `100 Continue` only over HTTP/1.1; remove it"
    } else {
        return Ok(());
    };
    Err(SettingsFault::new(format!("load.headers.{name}"), why))
}

fn check_header(name: &str, value: &str) -> Result<(), SettingsFault> {
    let key = format!("load.headers.{name}");
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(SettingsFault::new(key, format!("`{}` is not a header name", name.escape_debug())));
    }
    if FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing)) {
        return Err(SettingsFault::new(key, "the load sets this header from the body; remove it"));
    }
    check_value(&key, value)
}

fn check_value(key: &str, value: &str) -> Result<(), SettingsFault> {
    if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return Err(SettingsFault::new(key, "a header's value must not contain line breaks"));
    }
    Ok(())
}

/// A byte of a token (RFC 9110, section 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_a_request_is_refused() {
        let header = |name: &str, value: &str| LoadSettings {
            headers: [(name.to_owned(), value.to_owned())].into(),
            ..LoadSettings::default()
        };
        let specs = [
            LoadSettings { method: "GE T".to_owned(), ..LoadSettings::default() },
            LoadSettings { method: "CONNECT".to_owned(), ..LoadSettings::default() },
            LoadSettings { path: Some("/a b".to_owned()), ..LoadSettings::default() },
            LoadSettings { host: Some("a\r\nb".to_owned()), ..LoadSettings::default() },
            header("a b", "c"),
            header("a", "b\nc"),
            header("Content-length", "5"),
        ];
        let faults = specs.map(|spec| check(&spec).unwrap_err());
        let texts: Vec<String> = faults.iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(texts.join("\n"), @r"
        load.method: `GE T` is not a method such as `GET`
        load.method: `CONNECT` opens a tunnel; a load sends requests such as `GET`
        load.path: `/a b` contains a space or a control character; write it as %20 and the like
        load.host: a header's value must not contain line breaks
        load.headers.a b: `a b` is not a header name
        load.headers.a: a header's value must not contain line breaks
        load.headers.Content-length: the load sets this header from the body; remove it
        ");
    }
}
