//! The address of an NBD export: `nbd://HOST:PORT/NAME`.

use plumb_host::address::from_url;

const PORT: u16 = 10809;

/// Where an export is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NbdAddress {
    pub(crate) text: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) name: String,
}

impl NbdAddress {
    /// Reads `nbd://HOST:PORT/NAME`; `None` where the text is not such an address.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("nbd://")?;
        let (authority, name) = rest.split_once('/').unwrap_or((rest, ""));
        let host_end = authority
            .rfind(']')
            .map_or_else(|| authority.find(':').unwrap_or(authority.len()), |end| end + 1);
        let (host, port) = authority.split_at(host_end);
        let host = from_url(host.trim_start_matches('[').trim_end_matches(']'));
        let port = if port.is_empty() { PORT } else { port.strip_prefix(':')?.parse().ok()? };
        let is_named = !host.is_empty() && name.len() < 4096;
        is_named.then(|| Self { text: text.to_owned(), host, port, name: name.to_owned() })
    }

    /// The host and the port.
    #[must_use]
    pub fn server(&self) -> (&str, u16) {
        (&self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_to_a_server_and_an_export() {
        let parts = |text| NbdAddress::parse(text).map(|it| (it.host, it.port, it.name));
        let expected = |host: &str, port, name: &str| Some((host.to_owned(), port, name.to_owned()));
        assert_eq!(parts("nbd://a:1/b/c"), expected("a", 1, "b/c"));
        assert_eq!(parts("nbd://a"), expected("a", 10809, ""));
        assert_eq!(parts("nbd://[::1]:7/x"), expected("::1", 7, "x"));
        for text in ["nbd://", "nbd://:1/x", "nbd://a:b/", "/dev/nbd0"] {
            assert_eq!(parts(text), None, "{text}");
        }
    }
}
