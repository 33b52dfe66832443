//! The interface that both kinds of database implement.
//!
//! Statements have parameters `$1`, `$2` and so on, which must first appear in that order. Postgres numbers
//! parameters explicitly; SQLite takes them as names and numbers them by first appearance.

use super::value::{Row, Unexpected, Value};

/// Why a database request failed.
#[derive(Debug)]
pub(crate) struct Cause(pub(crate) String);

impl From<Unexpected> for Cause {
    fn from(error: Unexpected) -> Self {
        Self(error.to_string())
    }
}

/// An open database.
pub(crate) trait Connection {
    /// Runs a query and returns its rows.
    fn rows(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Cause>;

    /// Runs a statement and returns how many rows it changed.
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, Cause>;

    /// Runs several statements without parameters.
    fn script(&mut self, sql: &str) -> Result<(), Cause>;

    /// The statement that begins a write transaction.
    fn begin(&self) -> &'static str;
}

/// Runs `work` in one transaction, and rolls it back if `work` fails.
pub(crate) fn atomically<T>(
    connection: &mut dyn Connection,
    work: impl FnOnce(&mut dyn Connection) -> Result<T, Cause>,
) -> Result<T, Cause> {
    connection.script(connection.begin())?;
    match work(connection) {
        Ok(done) => connection.script("COMMIT").map(|()| done),
        Err(cause) => {
            // Report the first failure. A lost connection has rolled everything back already.
            let _ = connection.script("ROLLBACK");
            Err(cause)
        }
    }
}

/// The first row of a result, if there is one.
pub(crate) fn first(
    connection: &mut dyn Connection,
    sql: &str,
    values: &[Value],
) -> Result<Option<Row>, Cause> {
    Ok(connection.rows(sql, values)?.into_iter().next())
}
