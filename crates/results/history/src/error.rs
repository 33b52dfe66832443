//! Failures of a history. Messages complete "failed to …".

/// Why a history could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A text does not name a database.
    #[error("use `{given}` as a database: {reason}; give a file, or `postgres://USER@HOST/DATABASE`")]
    Location {
        /// The text, without a password.
        given: String,
        /// The mistake.
        reason: String,
    },
    /// Nothing says where the database is.
    #[error("find the history: neither HOME nor XDG_DATA_HOME is set; give --database FILE")]
    NoHome,
    /// The database cannot be opened or reached.
    #[error("open the history {location}: {cause}")]
    Open {
        /// The database, without a password.
        location: String,
        /// The error of the system or the server.
        cause: String,
    },
    /// A later version of this program wrote it.
    #[error(
        "open the history {location}: its format is {found}, and this plumb knows formats up to {known}; update plumb, or use another \
         --database"
    )]
    Newer {
        /// The database, without a password.
        location: String,
        /// The version found.
        found: i64,
        /// The newest version that this program knows.
        known: i64,
    },
    /// The database holds something else.
    #[error(
        "open the history {location}: it is a database of something else, with {tables}; use another --database"
    )]
    Foreign {
        /// The database, without a password.
        location: String,
        /// Some of what it holds.
        tables: String,
    },
    /// The database failed.
    #[error("use the history {location}: {cause}")]
    Database {
        /// The database, without a password.
        location: String,
        /// The database's message.
        cause: String,
    },
    /// A run that is not in the store.
    #[error("find the run `{0}` in the history: no run's key begins so; `plumb history list` shows the keys")]
    Missing(String),
    /// A prefix that several keys share.
    #[error("tell which run `{given}` is: {} begin so; give more of the key", found.join(", "))]
    Ambiguous {
        /// The prefix.
        given: String,
        /// Some of these keys.
        found: Vec<String>,
    },
    /// A run that cannot be recorded.
    #[error("record the run in {directory}: {reason}")]
    Unfit {
        /// The directory.
        directory: String,
        /// Why not.
        reason: String,
    },
    /// A line of an export that cannot be imported.
    #[error("import line {line}: {reason}")]
    Malformed {
        /// The line, from 1.
        line: usize,
        /// The mistake.
        reason: String,
    },
    /// A file that cannot be read or written.
    #[error("{action} the export: {cause}")]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The system's error.
        cause: std::io::Error,
    },
}

impl HistoryError {
    /// Whether the user's input caused the error, and not the database.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Location { .. }
                | Self::NoHome
                | Self::Missing(_)
                | Self::Ambiguous { .. }
                | Self::Unfit { .. }
                | Self::Malformed { .. }
        )
    }
}
