//! The data paths that this program has.

use plumb_path::DataPath;
use plumb_path::null::Null;

/// The data paths whose systems a command can run against.
fn lenders() -> Vec<DataPath> {
    vec![
        DataPath::of::<plumb_http::Http>(),
        DataPath::of::<plumb_storage::Storage>(),
        DataPath::of::<plumb_network::Network>(),
    ]
}

/// Every data path, for plans, verdicts and agents.
pub fn all() -> [DataPath; 7] {
    [
        DataPath::of::<plumb_http::Http>(),
        DataPath::of::<plumb_crypto::Crypto>(),
        DataPath::of::<plumb_migration::Migration>(),
        DataPath::of::<plumb_storage::Storage>(),
        DataPath::of::<plumb_network::Network>(),
        DataPath::of::<plumb_command::Command>().with_systems_of(lenders),
        DataPath::of::<Null>(),
    ]
}
