//! Engines and providers, the two forms in which OpenSSL can be extended.

/// The kinds of OpenSSL's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extension {
    /// Of OpenSSL 1 and 3.
    Engine,
    /// Of OpenSSL 3 and later.
    Provider,
}

impl Extension {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Provider => "provider",
        }
    }
}
