//! The data paths that this program has.

use plumb_path::DataPath;
use plumb_path::null::Null;

/// Every data path, for plans, verdicts and agents.
pub fn all() -> [DataPath; 7] {
    [
        DataPath::of::<plumb_http::Http>(),
        DataPath::of::<plumb_crypto::Crypto>(),
        DataPath::of::<plumb_migration::Migration>(),
        DataPath::of::<plumb_storage::Storage>(),
        DataPath::of::<plumb_network::Network>(),
        DataPath::of::<plumb_command::Command>(),
        DataPath::of::<Null>(),
    ]
}
