//! A SQLite database: the history of one machine.
//!
//! Several processes may write: each write transaction takes the lock when it begins, and waits while another
//! process holds it.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

use rusqlite::OpenFlags;
use rusqlite::types::{ToSqlOutput, ValueRef};

use super::connection::{Cause, Connection};
use super::value::{Row, Value};

/// How long a writer waits for another.
const BUSY: Duration = Duration::from_secs(10);
/// How many prepared statements are cached.
const STATEMENTS: usize = 64;

/// An open SQLite database.
pub(crate) struct Sqlite(rusqlite::Connection);

impl Sqlite {
    /// Opens a file. With `create`, creates the file and its folder if they are missing. Without, a file that cannot be changed, as
    /// on a read-only file system, is opened for reading.
    pub(crate) fn open(path: &Path, create: bool) -> Result<Self, Cause> {
        if create && let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| Cause(error.to_string()))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let flags = if create { flags | OpenFlags::SQLITE_OPEN_CREATE } else { flags };
        let mut connection = rusqlite::Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(BUSY)?;
        if !create && is_unreadable_here(&connection)? && !has_changes_beside(path) {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            connection = rusqlite::Connection::open_with_flags(immutable(path), flags)?;
        }
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(Self(connection))
    }

    /// Switches to WAL, so that readers and the one writer do not wait for each other. A commit need not
    /// survive a power failure: runs can be added again from their directories.
    pub(crate) fn prepare_to_write(&mut self) -> Result<(), Cause> {
        // SQLite refuses this while other processes open a new file, too. One of them succeeds; until then,
        // access is only slower.
        let _ = self.0.pragma_update(None, "journal_mode", "wal");
        self.0.pragma_update(None, "synchronous", "normal")?;
        Ok(())
    }
}

/// Whether SQLite cannot create the files that it needs beside the database to read it.
fn is_unreadable_here(connection: &rusqlite::Connection) -> rusqlite::Result<bool> {
    match connection.query_row("PRAGMA schema_version", [], |row| row.get::<_, i64>(0)) {
        Ok(_) => Ok(false),
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::CannotOpen) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Whether a writer was killed before it had moved its changes into the database.
fn has_changes_beside(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

/// The URI of a file that nobody changes (<https://www.sqlite.org/uri.html>).
fn immutable(path: &Path) -> OsString {
    let mut uri = b"file:".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'?' | b'#' => uri.extend(format!("%{byte:02x}").bytes()),
            _ => uri.push(*byte),
        }
    }
    uri.extend(b"?immutable=1");
    OsString::from_vec(uri)
}

impl Connection for Sqlite {
    fn rows(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Cause> {
        let mut statement = self.0.prepare_cached(sql)?;
        let columns = statement.column_count();
        let mut found = statement.query(rusqlite::params_from_iter(values))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let values: Result<Vec<Value>, Cause> =
                (0..columns).map(|column| Ok(row.get_ref(column)?.into())).collect();
            rows.push(Row::new(values?));
        }
        Ok(rows)
    }

    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, Cause> {
        Ok(self.0.prepare_cached(sql)?.execute(rusqlite::params_from_iter(values))? as u64)
    }

    fn script(&mut self, sql: &str) -> Result<(), Cause> {
        Ok(self.0.execute_batch(sql)?)
    }

    fn begin(&self) -> &'static str {
        // A transaction that begins as a reader cannot always become a writer, however long it waits.
        "BEGIN IMMEDIATE"
    }
}

impl From<rusqlite::Error> for Cause {
    fn from(error: rusqlite::Error) -> Self {
        let text = match &error {
            // The whole error repeats the statement.
            rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
            _ => error.to_string(),
        };
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::ReadOnly | rusqlite::ErrorCode::CannotOpen) => {
                Self(format!("{text}; the file and its folder must be writable"))
            }
            Some(rusqlite::ErrorCode::DatabaseBusy) => {
                Self(format!("{text}; another process has kept it for {BUSY:?}"))
            }
            Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt) => {
                Self(format!("{text}; move it away, and add the run directories to a new one"))
            }
            _ => Self(text),
        }
    }
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(value) => Self::Integer(value),
            ValueRef::Real(value) => Self::Real(value),
            ValueRef::Text(text) => Self::Text(String::from_utf8_lossy(text).into_owned()),
            ValueRef::Blob(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }
}
