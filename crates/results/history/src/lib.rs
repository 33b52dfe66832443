//! The history of runs: a store that many runs share, and the trends of their values.
//!
//! A run directory stays the source of truth: every run in the store can be added again from its directory. A
//! hash of its content identifies a run, so adding a run twice changes nothing. Values are compared over time
//! within a *series*: a metric of a variant under the same settings, on hosts of one class. Ratios of a
//! variant to the baseline within one run may be compared across hosts, because a host affects both sides
//! alike. Absolute values may not.
//!
//! SQLite keeps the history of one machine, Postgres that of a team. The same statements run on both
//! (`database/`).

mod database;
mod error;
mod exchange;
mod identity;
mod location;
mod record;
mod trend;
mod types;

#[cfg(test)]
#[path = "../tests/made/mod.rs"]
mod made;

pub use database::Database;
pub use error::HistoryError;
pub use exchange::{EXCHANGE_FORMAT, Imported};
pub use location::{DATABASE_VARIABLE, Location};
pub use record::{Distribution, Record, RecordedPoint};
pub use trend::{Grade, GradedShift, TREND_POINTS_MAX, Trend, trend};
pub use types::{
    Added, ExperimentRow, HostRow, Mark, MarkKind, Outcome, Point, RunFilter, RunOrder, RunPoint, RunRow,
    SeriesFilter, SeriesIdentity, SeriesRow, VerdictCounts,
};
