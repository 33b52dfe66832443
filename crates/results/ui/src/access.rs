//! Access: the token, the host in the request, and the page that a form came from.
//!
//! Loopback alone keeps nobody out: any page in the user's browser can send requests there, under any name
//! that resolves to it (DNS rebinding). So every request must name a host of the server and carry the token.
//! A request that changes something must also come from a page of the server, and carry that page's form
//! token.

use std::net::{IpAddr, SocketAddr};

use aws_lc_rs::constant_time::verify_slices_are_equal;

use crate::error::UiError;
use crate::fault::RequestError;

const SECRET_BYTES: usize = 32;

/// A random text that nobody can guess.
#[derive(Clone)]
pub struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret")
    }
}

impl Secret {
    /// Draws a new secret of 256 bits, in hexadecimal.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn draw() -> Result<Self, UiError> {
        let mut bytes = [0; SECRET_BYTES];
        aws_lc_rs::rand::fill(&mut bytes).map_err(|_| UiError::Random)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Whether `said` is the secret. The time of the comparison does not reveal where the two differ.
    #[must_use]
    pub fn is(&self, said: &str) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), said.as_bytes()).is_ok()
    }

    /// The secret itself.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// The headers that decide whether a request is admitted.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessHeaders<'a> {
    pub host: Option<&'a str>,
    pub cookie: Option<&'a str>,
    pub authorization: Option<&'a str>,
    pub origin: Option<&'a str>,
    pub fetch_site: Option<&'a str>,
}

/// The access rules of a server.
#[derive(Debug)]
pub struct Door {
    token: Secret,
    form: Secret,
    address: SocketAddr,
}

impl Door {
    /// Creates the rules for a server at an address, with new secrets.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new(address: SocketAddr) -> Result<Self, UiError> {
        Ok(Self { token: Secret::draw()?, form: Secret::draw()?, address })
    }

    /// The address with the token, to open once.
    #[must_use]
    pub fn url(&self) -> String {
        let address = match self.address.ip() {
            ip if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], self.address.port())),
            _ => self.address,
        };
        format!("http://{address}/?token={}", self.token.text())
    }

    /// The token in each form, which shows that this server made the form.
    #[must_use]
    pub fn form(&self) -> &Secret {
        &self.form
    }

    /// Whether `said` is the token.
    #[must_use]
    pub fn is_token(&self, said: &str) -> bool {
        self.token.is(said)
    }

    /// The cookie that replaces the token in later requests. Scripts cannot read it, and other sites'
    /// requests do not carry it.
    #[must_use]
    pub fn cookie(&self) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name(), self.token.text())
    }

    /// The name includes the port, because all servers of a host share cookies.
    fn cookie_name(&self) -> String {
        format!("plumb-{}", self.address.port())
    }

    /// Checks that a request was meant for this server. DNS can rebind a name, but not an address.
    ///
    /// # Errors
    /// When it was not.
    pub fn check_host(&self, headers: &AccessHeaders<'_>) -> Result<(), RequestError> {
        let Some(host) = headers.host else {
            return Err(RequestError::bad("The request does not say for which host it is."));
        };
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port.parse().ok()),
            _ => (host, Some(80)),
        };
        let ip: Option<IpAddr> = name.trim_start_matches('[').trim_end_matches(']').parse().ok();
        let is_ours = match ip {
            _ if name.eq_ignore_ascii_case("localhost") => true,
            Some(ip) if self.address.ip().is_unspecified() => !ip.is_unspecified(),
            Some(ip) => ip == self.address.ip(),
            None => false,
        };
        if is_ours && port == Some(self.address.port()) {
            return Ok(());
        }
        Err(RequestError::forbidden(
            "The request is for another host than this server's. Open the address that plumb ui printed.",
        ))
    }

    /// Checks that a request carries the token, as a cookie or as a bearer token (RFC 6750).
    ///
    /// # Errors
    /// When it does not.
    pub fn check_token(&self, headers: &AccessHeaders<'_>) -> Result<(), RequestError> {
        let bearer = headers.authorization.and_then(|header| header.split_once(' '));
        let bearer =
            bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, said)| said.trim());
        let name = self.cookie_name();
        let cookies = headers.cookie.unwrap_or_default().split(';');
        let mut cookies = cookies.filter_map(|pair| pair.trim().split_once('='));
        let cookie = cookies.find(|(known, _)| *known == name).map(|(_, said)| said);
        if bearer.into_iter().chain(cookie).any(|said| self.token.is(said)) {
            return Ok(());
        }
        Err(RequestError::forbidden(
            "The request does not show this server's token. Open the address that plumb ui printed: the token is in it.",
        ))
    }

    /// Checks that a request that changes something comes from a page of this server.
    ///
    /// # Errors
    /// When it does not, or does not say where it comes from.
    pub fn check_origin(&self, headers: &AccessHeaders<'_>) -> Result<(), RequestError> {
        let own = headers.host.map(|host| format!("http://{host}"));
        let is_own = match (headers.origin, headers.fetch_site) {
            (Some(origin), _) => own.as_deref() == Some(origin),
            (None, Some(site)) => site == "same-origin",
            (None, None) => false,
        };
        if is_own { Ok(()) } else { Err(RequestError::forbidden("The form was sent by another site.")) }
    }

    /// Checks that this server made a form.
    ///
    /// # Errors
    /// When it was not.
    pub fn check_form(&self, said: Option<&str>) -> Result<(), RequestError> {
        if said.is_some_and(|said| self.form.is(said)) {
            return Ok(());
        }
        Err(RequestError::forbidden("The form is of an earlier plumb ui. Load its page again."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door(address: &str) -> Door {
        Door::new(address.parse().unwrap()).unwrap()
    }

    fn for_host(host: &str) -> AccessHeaders<'_> {
        AccessHeaders { host: Some(host), ..AccessHeaders::default() }
    }

    #[test]
    fn secrets_are_long_and_different() {
        let (one, other) = (Secret::draw().unwrap(), Secret::draw().unwrap());
        assert!(one.text().len() == 64 && one.is(one.text()) && !one.is(other.text()) && !one.is(""));
        assert!(!one.is(&one.text()[..63]) && !format!("{one:?}").contains(one.text()));
    }

    #[test]
    fn only_the_servers_own_hosts_are_answered() {
        let door = door("127.0.0.1:4000");
        for good in ["127.0.0.1:4000", "localhost:4000", "LocalHost:4000"] {
            assert_eq!(door.check_host(&for_host(good)), Ok(()), "{good}");
        }
        let bad = [
            "127.0.0.1",
            "127.0.0.1:4001",
            "evil.example:4000",
            "localhost.evil.example:4000",
            "127.0.0.2:4000",
            "[::1]:4000",
            "",
            ":4000",
        ];
        for bad in bad {
            assert_eq!(door.check_host(&for_host(bad)).unwrap_err().status, 403, "{bad}");
        }
        assert_eq!(door.check_host(&AccessHeaders::default()).unwrap_err().status, 400);
    }

    #[test]
    fn a_server_for_all_addresses_takes_any_address_and_no_name() {
        let door = door("0.0.0.0:4000");
        assert!(door.check_host(&for_host("192.0.2.7:4000")).is_ok());
        assert!(door.check_host(&for_host("evil.example:4000")).is_err());
        assert!(door.url().starts_with("http://127.0.0.1:4000/?token="));
        let six = super::tests::door("[::1]:4000");
        assert!(
            six.check_host(&for_host("[::1]:4000")).is_ok() && six.check_host(&for_host("[::1]")).is_err()
        );
    }

    #[test]
    fn the_token_comes_in_a_cookie_or_a_header() {
        let door = door("127.0.0.1:4000");
        let cookie = door.cookie();
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
        let pair = cookie.split(';').next().unwrap();
        let among = format!("other=1; {pair}; more=2");
        let with = |cookie| AccessHeaders { cookie: Some(cookie), ..AccessHeaders::default() };
        assert!(door.check_token(&with(&among)).is_ok());
        assert!(door.check_token(&with(&pair.replace("plumb-4000", "plumb-4001"))).is_err());
        let bearer = format!("Bearer {}", door.token.text());
        assert!(
            door.check_token(&AccessHeaders { authorization: Some(&bearer), ..AccessHeaders::default() })
                .is_ok()
        );
        for bad in ["Bearer", "Bearer x", "Basic x"] {
            assert!(
                door.check_token(&AccessHeaders { authorization: Some(bad), ..AccessHeaders::default() })
                    .is_err()
            );
        }
        assert!(door.check_token(&AccessHeaders::default()).is_err());
    }

    #[test]
    fn forms_of_other_sites_are_refused() {
        let door = door("127.0.0.1:4000");
        let from = |origin, fetch_site| AccessHeaders { origin, fetch_site, ..for_host("127.0.0.1:4000") };
        assert!(door.check_origin(&from(Some("http://127.0.0.1:4000"), None)).is_ok());
        assert!(door.check_origin(&from(None, Some("same-origin"))).is_ok());
        for (origin, site) in [
            (Some("http://evil.example"), Some("same-origin")),
            (Some("null"), None),
            (Some("http://localhost:4000"), None),
            (Some("https://127.0.0.1:4000"), None),
            (None, Some("cross-site")),
            (None, Some("same-site")),
            (None, Some("none")),
            (None, None),
        ] {
            assert!(door.check_origin(&from(origin, site)).is_err(), "{origin:?} {site:?}");
        }
        assert!(door.check_form(Some(door.form().text())).is_ok());
        assert!(door.check_form(Some(door.token.text())).is_err() && door.check_form(None).is_err());
    }
}
