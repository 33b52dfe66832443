//! Why a run cannot be exported.

/// See the module; each message completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// Two runs have a metric in different units.
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
    /// The recorded time of a run or a slot is invalid.
    #[error(
        "place the run in time: the time of {what} is `{text}` and not of the form `2026-01-01T00:00:00Z`"
    )]
    Time {
        /// The run or the slot that has the time.
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
