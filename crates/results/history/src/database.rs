//! The store itself: one set of statements over a SQLite file or a Postgres server.
//!
//! Opening a missing file for writing creates it. Every change is one transaction, and several processes may
//! write at once.

mod connection;
mod postgres;
mod read;
mod schema;
mod sqlite;
mod value;
mod write;

use connection::{Cause, Connection, atomically};
use plumb_model::Histogram;
use schema::{Dialect, Refusal};

use crate::types::{
    Added, ExperimentRow, HostRow, Mark, MarkKind, Point, RunFilter, RunPoint, RunRow, SeriesFilter,
    SeriesRow,
};
use crate::{HistoryError, Location, Record};

/// An open history.
pub struct Database {
    connection: Box<dyn Connection + Send>,
    /// The location, without a password.
    location: String,
}

impl Database {
    /// Opens a history for reading and writing. Creates it if it is missing, and brings its tables up to
    /// date.
    ///
    /// # Errors
    /// When it cannot be opened or reached, holds something else, or a later version wrote it.
    pub fn open(location: &Location) -> Result<Self, HistoryError> {
        Self::opened(location, true)
    }

    /// Opens an existing history for reading. Returns `None` if the file does not exist.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_existing(location: &Location) -> Result<Option<Self>, HistoryError> {
        match location {
            Location::File(path) if !path.exists() => Ok(None),
            _ => Self::opened(location, false).map(Some),
        }
    }

    fn opened(location: &Location, create: bool) -> Result<Self, HistoryError> {
        let shown = location.to_string();
        let cannot = |Cause(cause)| HistoryError::Open { location: shown.clone(), cause };
        let mut connection: Box<dyn Connection + Send> = match location {
            Location::File(path) => {
                let mut database = sqlite::Sqlite::open(path, create).map_err(cannot)?;
                migrated(&mut database, &schema::SQLITE, &shown)?;
                if create {
                    database.prepare_to_write().map_err(cannot)?;
                }
                Box::new(database)
            }
            Location::Postgres(url) => Box::new(postgres::Postgres::open(url).map_err(cannot)?),
        };
        if matches!(location, Location::Postgres(_)) {
            migrated(&mut *connection, &schema::POSTGRES, &shown)?;
        }
        Ok(Self { connection, location: shown })
    }

    fn failed(&self, Cause(cause): Cause) -> HistoryError {
        HistoryError::Database { location: self.location.clone(), cause }
    }

    fn with_connection<T>(
        &mut self,
        work: impl FnOnce(&mut dyn Connection) -> Result<T, Cause>,
    ) -> Result<T, HistoryError> {
        work(&mut *self.connection).map_err(|cause| self.failed(cause))
    }

    fn write<T>(
        &mut self,
        work: impl FnOnce(&mut dyn Connection) -> Result<T, Cause>,
    ) -> Result<T, HistoryError> {
        atomically(&mut *self.connection, work).map_err(|cause| self.failed(cause))
    }

    /// Adds a run. Adding a run twice changes nothing. A run that was extended replaces its shorter record
    /// and keeps its marks; the shorter record never replaces the longer one.
    ///
    /// # Errors
    /// When the database fails.
    pub fn add(&mut self, record: &Record) -> Result<Added, HistoryError> {
        self.write(|connection| write::add(connection, record))
    }

    /// The runs that match a filter.
    ///
    /// # Errors
    /// When the database fails.
    pub fn runs(&mut self, filter: &RunFilter) -> Result<Vec<RunRow>, HistoryError> {
        self.with_connection(|connection| read::runs(connection, filter))
    }

    /// How many runs match a filter, ignoring its limit and offset.
    ///
    /// # Errors
    /// When the database fails.
    pub fn count(&mut self, filter: &RunFilter) -> Result<u64, HistoryError> {
        self.with_connection(|connection| read::count(connection, filter))
    }

    /// The run whose key begins with `prefix`, which may be in upper or lower case.
    ///
    /// # Errors
    /// When there is none or several, or the database fails.
    pub fn run(&mut self, prefix: &str) -> Result<RunRow, HistoryError> {
        let given = prefix.to_lowercase();
        let is_key = !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_hexdigit());
        let mut found = match is_key {
            true => self.with_connection(|connection| read::runs_by_key(connection, &given))?,
            false => Vec::new(),
        };
        match found.len() {
            0 => Err(HistoryError::Missing(prefix.to_owned())),
            1 => Ok(found.remove(0)),
            _ => Err(HistoryError::Ambiguous {
                given: prefix.to_owned(),
                found: found.into_iter().map(|run| run.key).collect(),
            }),
        }
    }

    /// The values of a run in all of its series.
    ///
    /// # Errors
    /// When the database fails.
    pub fn run_points(&mut self, key: &str) -> Result<Vec<RunPoint>, HistoryError> {
        self.with_connection(|connection| read::run_points(connection, key))
    }

    /// Everything that the store keeps of a run.
    ///
    /// # Errors
    /// When no such run exists, or the database fails.
    pub(crate) fn record(&mut self, key: &str) -> Result<Record, HistoryError> {
        let run = self.run(key)?;
        self.with_connection(|connection| read::record(connection, run))
    }

    /// Removes a run with its values and marks.
    ///
    /// # Errors
    /// When no such run exists, or the database fails.
    pub fn remove(&mut self, key: &str) -> Result<(), HistoryError> {
        match self.write(|connection| write::remove(connection, key))? {
            true => Ok(()),
            false => Err(HistoryError::Missing(key.to_owned())),
        }
    }

    /// Every experiment, by name.
    ///
    /// # Errors
    /// When the database fails.
    pub fn experiments(&mut self) -> Result<Vec<ExperimentRow>, HistoryError> {
        self.with_connection(read::experiments)
    }

    /// The series that match a filter: ratios first, then by cell, variant, metric and hosts.
    ///
    /// # Errors
    /// When the database fails.
    pub fn series(&mut self, filter: &SeriesFilter) -> Result<Vec<SeriesRow>, HistoryError> {
        self.with_connection(|connection| read::series(connection, filter))
    }

    /// The points of a series, the oldest first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn points(&mut self, series: i64) -> Result<Vec<Point>, HistoryError> {
        self.with_connection(|connection| read::points(connection, series))
    }

    /// The distribution behind a run's value in a series of a trend metric.
    ///
    /// # Errors
    /// When the database fails, or the distribution is damaged.
    pub fn histogram(&mut self, series: i64, run: &str) -> Result<Option<Histogram>, HistoryError> {
        self.with_connection(|connection| read::histogram(connection, series, run))
    }

    /// The marks of a series, in the order in which they were set.
    ///
    /// # Errors
    /// When the database fails.
    pub fn marks(&mut self, series: i64) -> Result<Vec<Mark>, HistoryError> {
        self.with_connection(|connection| read::marks(connection, series))
    }

    /// Sets a mark, which replaces a mark of the same kind at the same run.
    ///
    /// # Errors
    /// When the series has no such run, or the database fails.
    pub fn mark(&mut self, series: i64, mark: &Mark) -> Result<(), HistoryError> {
        match self.write(|connection| write::mark(connection, series, mark))? {
            true => Ok(()),
            false => Err(HistoryError::Missing(mark.run.clone())),
        }
    }

    /// Removes a mark. Returns whether it existed.
    ///
    /// # Errors
    /// When the database fails.
    pub fn unmark(&mut self, series: i64, run: &str, kind: MarkKind) -> Result<bool, HistoryError> {
        self.write(|connection| write::unmark(connection, series, run, kind))
    }

    /// Acknowledges that the level of a series shifts with a run.
    ///
    /// # Errors
    /// As [`Database::mark`].
    pub fn accept(
        &mut self,
        series: i64,
        run: &str,
        author: &str,
        note: &str,
        at_us: i64,
    ) -> Result<(), HistoryError> {
        let (run, author, note) = (run.to_owned(), author.to_owned(), note.to_owned());
        self.mark(series, &Mark { kind: MarkKind::Accepted, run, author, note, at_us })
    }

    /// Every class of hosts, the one with the latest run first.
    ///
    /// # Errors
    /// When the database fails.
    pub fn hosts(&mut self) -> Result<Vec<HostRow>, HistoryError> {
        self.with_connection(read::hosts)
    }
}

fn migrated(connection: &mut dyn Connection, dialect: &Dialect, shown: &str) -> Result<(), HistoryError> {
    let location = shown.to_owned();
    schema::migrate(connection, dialect).map_err(|refusal| match refusal {
        Refusal::Newer(found) => HistoryError::Newer { location, found, known: schema::VERSION },
        Refusal::Foreign(tables) => HistoryError::Foreign { location, tables },
        Refusal::Failed(Cause(cause)) => HistoryError::Open { location, cause },
    })
}
