//! The data paths that this program has.

use plumb_path::agent::Builder;
use plumb_path::null::Null;
use plumb_runner::families::AnyFamily;

/// Every family, for plans and verdicts.
pub fn all() -> Vec<AnyFamily> {
    vec![
        AnyFamily::of::<plumb_http::Http>(),
        AnyFamily::of::<plumb_crypto::Crypto>(),
        AnyFamily::of::<plumb_migration::Migration>(),
        AnyFamily::of::<plumb_storage::Storage>(),
        AnyFamily::of::<plumb_network::Network>(),
        AnyFamily::of::<Null>(),
    ]
}

/// Every family, for agents.
pub fn builders() -> Vec<Builder> {
    vec![
        Builder::of::<plumb_http::Http>(),
        Builder::of::<plumb_crypto::Crypto>(),
        Builder::of::<plumb_migration::Migration>(),
        Builder::of::<plumb_storage::Storage>(),
        Builder::of::<plumb_network::Network>(),
        Builder::of::<Null>(),
    ]
}
