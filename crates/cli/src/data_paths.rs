//! The data paths that this program has.

use plumb_path::DataPath;
use plumb_path::null::NULL;

/// Every data path, for plans, verdicts and agents. Commands run against systems of three others.
pub const fn all() -> [DataPath; 7] {
    [
        plumb_http::HTTP,
        plumb_crypto::CRYPTO,
        plumb_migration::MIGRATION,
        plumb_storage::STORAGE,
        plumb_network::NETWORK,
        plumb_command::COMMAND
            .with_systems_of(|| vec![plumb_http::HTTP, plumb_storage::STORAGE, plumb_network::NETWORK]),
        NULL,
    ]
}
