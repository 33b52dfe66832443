//! The URL of a request: scheme, host, port, path and query.
//!
//! Written here because so little is needed: no user names, no fragments sent, no relative references.

use std::net::Ipv6Addr;

use plumb_host::address::{from_url, zoned};

/// Why a text is not a URL that a load can use. Completes "failed to …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use `{url}` as a URL such as `http://127.0.0.1:8080/path`: {why}")]
pub struct UrlError {
    url: String,
    why: Wrong,
}

/// The part of a URL that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Wrong {
    #[error("it contains a space or a control character")]
    Character,
    #[error("it has no scheme")]
    NoScheme,
    #[error("its scheme is not http or https")]
    Scheme,
    #[error("it has a user name; send an authorization header instead")]
    User,
    #[error("its `[` is not closed")]
    Open,
    #[error("the text in brackets is not an IPv6 address")]
    Address,
    #[error("it has no host")]
    NoHost,
    #[error("something follows its `]`")]
    Rest,
    #[error("its port is not in 1 to 65535")]
    Port,
}

/// A URL taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether the scheme is `https`.
    pub is_tls: bool,
    /// Host name or address, without the brackets of an IPv6 address.
    pub host: String,
    /// The port, given or the scheme's own.
    pub port: u16,
    /// The value of the Host header: the host, with the port unless it is the scheme's own.
    pub authority: String,
    /// Path and query, at least `/`.
    pub path: String,
}

impl Url {
    /// Takes a URL apart.
    ///
    /// # Errors
    /// When the text is not a URL, or not one that a load can use.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let wrong = |why| UrlError { url: text.to_owned(), why };
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(wrong(Wrong::Character));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong(Wrong::NoScheme))?;
        let (is_tls, default_port) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (false, 80),
            "https" => (true, 443),
            _ => return Err(wrong(Wrong::Scheme)),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(wrong(Wrong::User));
        }
        let (host, port) = split_port(authority).map_err(wrong)?;
        let port = port.unwrap_or(default_port);
        let bare = from_url(host.trim_start_matches('[').trim_end_matches(']'));
        // The interface behind an address means something on this host alone (RFC 6874, section 1).
        let shared = zoned(&bare).map_or_else(|| host.to_owned(), |(address, _)| format!("[{address}]"));
        let authority = if port == default_port { shared } else { format!("{shared}:{port}") };
        Ok(Self { is_tls, host: bare, port, authority, path: origin_form(path) })
    }

    /// The host as its certificate names it: without the interface behind its address.
    #[must_use]
    pub fn name(&self) -> String {
        zoned(&self.host).map_or_else(|| self.host.clone(), |(address, _)| address.to_string())
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), Wrong> {
    let after_host = match authority.strip_prefix('[') {
        Some(rest) => {
            let end = rest.find(']').ok_or(Wrong::Open)?;
            if rest[..end].parse::<Ipv6Addr>().is_err() && zoned(&rest[..end]).is_none() {
                return Err(Wrong::Address);
            }
            end + 2
        }
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(after_host);
    if host.is_empty() {
        return Err(Wrong::NoHost);
    }
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok((host, None)),
        None => Err(Wrong::Rest),
        Some(port) => match port.parse() {
            Ok(port) if port > 0 => Ok((host, Some(port))),
            _ => Err(Wrong::Port),
        },
    }
}

/// The request target that a path and query make (RFC 9112, section 3.2.1).
pub fn origin_form(path: &str) -> String {
    let path = path.split('#').next().unwrap_or("");
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (bool, String, u16, String, String) {
        let url = Url::parse(text).unwrap();
        (url.is_tls, url.host, url.port, url.authority, url.path)
    }

    fn expected(
        is_tls: bool,
        host: &str,
        port: u16,
        authority: &str,
        path: &str,
    ) -> (bool, String, u16, String, String) {
        (is_tls, host.to_owned(), port, authority.to_owned(), path.to_owned())
    }

    #[test]
    fn urls_are_taken_apart() {
        assert_eq!(parts("http://a"), expected(false, "a", 80, "a", "/"));
        assert_eq!(parts("HTTPS://a:443/b?c#d"), expected(true, "a", 443, "a", "/b?c"));
        assert_eq!(parts("https://a.b:8443?q"), expected(true, "a.b", 8443, "a.b:8443", "/?q"));
        assert_eq!(parts("http://[::1]:81/"), expected(false, "::1", 81, "[::1]:81", "/"));
        assert_eq!(parts("http://[::1]"), expected(false, "::1", 80, "[::1]", "/"));
        let link = expected(false, "fe80::1%eth0", 81, "[fe80::1]:81", "/");
        assert_eq!(parts("http://[fe80::1%25eth0]:81/"), link);
        assert_eq!(parts("http://[fe80::1%eth0]:81/"), link);
    }

    #[test]
    fn what_is_no_url_says_why() {
        let urls = [
            "localhost:80",
            "ftp://a",
            "http://",
            "http://:80/",
            "http://a:0/",
            "http://a:x",
            "http://[::1",
            "http://[a]/",
            "http://[::1]x",
            "http://u@a/",
            "http://a/b c",
        ];
        let why = urls
            .map(|url| Url::parse(url).unwrap_err().to_string().split_once("path`: ").unwrap().1.to_owned());
        insta::assert_snapshot!(why.join("\n"), @r"
        it has no scheme
        its scheme is not http or https
        it has no host
        it has no host
        its port is not in 1 to 65535
        its port is not in 1 to 65535
        its `[` is not closed
        the text in brackets is not an IPv6 address
        something follows its `]`
        it has a user name; send an authorization header instead
        it contains a space or a control character
        ");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "(http://)?[\\[\\]:@/a0-9é?#]{0,12}") {
            drop(Url::parse(&text));
        }
    }
}
