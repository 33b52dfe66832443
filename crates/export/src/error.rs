//! Why a run has no form in another program's format.

/// See the module; each message completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// A metric means something else in another of the runs.
    #[error(
        "put the runs into one table: `{column}` is in `{one}` in one of them and in `{other}` in another; export them one by one"
    )]
    Units {
        /// The column.
        column: String,
        /// The unit in the first run that has it.
        one: &'static str,
        /// The unit in a later one.
        other: &'static str,
    },
    /// The recorded time of a run or of a slot is not one.
    #[error(
        "place the run in time: the time of {what} is `{text}` and not of the form `2026-01-01T00:00:00Z`"
    )]
    Time {
        /// Whose time it is.
        what: String,
        /// The recorded value.
        text: String,
    },
    /// The writer of CSV failed.
    #[error("write CSV: {0}")]
    Csv(#[from] ::csv::Error),
    /// The writer of Parquet failed.
    #[error("write Parquet: {0}")]
    Parquet(#[from] ::parquet::errors::ParquetError),
}
