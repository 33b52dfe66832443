//! The history of runs: a store that many runs share, and the trends of their values.
//!
//! A run directory stays the source of truth, and whatever is in the store can be made again from run directories. A run is known by a
//! hash of its content, so that adding it twice changes nothing. What may be compared over time is a *series*: a metric of a variant
//! under the same settings, on hosts of one class. Ratios of a variant to the baseline within one run may cross hosts, since what a host
//! does to one side it does to the other; values may not.
//!
//! SQLite keeps the history of one machine, Postgres that of a team. The same statements run on both (`database/`).

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
    Added, ExperimentRow, HostRow, Mark, MarkKind, Point, RunFilter, RunOrder, RunPoint, RunRow,
    SeriesFilter, SeriesIdentity, SeriesRow, VerdictCounts,
};
