//! One's own half of a key exchange, made by one device and used once.

use std::fmt;

use aws_lc_rs::agreement;
use openssl::pkey::{PKey, Private};
use zeroize::Zeroizing;

use crate::algorithm::Group;
use crate::words::Words4;

/// A fresh key of one exchange. Its secret is wiped when it is dropped.
pub struct ExchangeKey {
    group: Group,
    public: Vec<u8>,
    secret: Secret,
}

/// A secret as a device has it.
pub(crate) enum Secret {
    AwsLc(agreement::PrivateKey),
    OpenSsl(PKey<Private>),
    Multibuffer(Zeroizing<Words4>),
}

impl ExchangeKey {
    pub(crate) fn new(group: Group, public: Vec<u8>, secret: Secret) -> Self {
        Self { group, public, secret }
    }

    /// The group.
    #[must_use]
    pub fn group(&self) -> Group {
        self.group
    }

    /// What goes to the peer: 32 bytes for X25519, an uncompressed point of 65 bytes for P-256.
    #[must_use]
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }
}

impl fmt::Debug for ExchangeKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ExchangeKey").field("group", &self.group).finish_non_exhaustive()
    }
}
