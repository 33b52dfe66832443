//! What the rest of the crate asks of a database, whichever it is.
//!
//! Statements have parameters `$1`, `$2` and so on, whose first appearances are in that order: Postgres numbers them so, and SQLite takes
//! them for names that it numbers as they appear.

use super::value::{Row, Unexpected, Value};

/// Why a database did not do what it was asked.
#[derive(Debug)]
pub(crate) struct Cause(pub(crate) String);

impl From<Unexpected> for Cause {
    fn from(error: Unexpected) -> Self {
        Self(error.to_string())
    }
}

/// An open database.
pub(crate) trait Connection {
    /// The rows that a statement gives.
    fn rows(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Cause>;

    /// How many rows a statement changed.
    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, Cause>;

    /// Runs several statements without parameters.
    fn script(&mut self, sql: &str) -> Result<(), Cause>;

    /// The statement that begins a transaction that writes.
    fn begin(&self) -> &'static str;
}

/// Does several things, or none of them where one fails.
pub(crate) fn atomically<T>(
    connection: &mut dyn Connection,
    work: impl FnOnce(&mut dyn Connection) -> Result<T, Cause>,
) -> Result<T, Cause> {
    connection.script(connection.begin())?;
    match work(connection) {
        Ok(done) => connection.script("COMMIT").map(|()| done),
        Err(cause) => {
            // The first failure is the one to report; a connection that is gone has undone everything.
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
