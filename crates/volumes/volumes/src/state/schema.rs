//! The tables, and how those of earlier versions become today's.

use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

/// `user_version` of the tables below.
pub(super) const VERSION: i64 = 3;

/// A version 4 UUID, from SQLite's own random bytes (RFC 9562, section 5.4), and the time now.
const UUID: &str = "(lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || \
                    '-a' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))";
const NOW: &str = "(strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))";

fn tables() -> String {
    format!(
        "CREATE TABLE svms (
             name TEXT PRIMARY KEY,
             uuid TEXT NOT NULL UNIQUE DEFAULT {UUID}
         ) STRICT;
         CREATE TABLE policies (
             name TEXT PRIMARY KEY,
             uuid TEXT NOT NULL UNIQUE DEFAULT {UUID},
             svm TEXT NOT NULL REFERENCES svms (name),
             definition TEXT NOT NULL
         ) STRICT;
         {}
         CREATE TABLE users (
             name TEXT PRIMARY KEY,
             password_hash TEXT NOT NULL
         ) STRICT;
         CREATE TABLE jobs (
             number INTEGER PRIMARY KEY,
             uuid TEXT NOT NULL UNIQUE DEFAULT {UUID},
             description TEXT NOT NULL,
             time TEXT NOT NULL DEFAULT {NOW}
         ) STRICT;
         INSERT INTO svms (name, uuid) VALUES ('{}', '{}');
         PRAGMA user_version = {VERSION};",
        volumes(),
        super::DEFAULT_SVM,
        super::DEFAULT_SVM_UUID
    )
}

/// A volume's file keeps its name when the volume gets another one, so that a name changes in one place.
fn volumes() -> String {
    format!(
        "CREATE TABLE volumes (
             name TEXT PRIMARY KEY,
             uuid TEXT NOT NULL UNIQUE DEFAULT {UUID},
             svm TEXT NOT NULL REFERENCES svms (name),
             size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
             policy TEXT REFERENCES policies (name) ON UPDATE CASCADE ON DELETE RESTRICT,
             create_time TEXT NOT NULL DEFAULT {NOW},
             file TEXT NOT NULL UNIQUE
         ) STRICT;"
    )
}

/// In version 2 every volume's file had the volume's name.
fn from_version_2() -> String {
    format!(
        "ALTER TABLE volumes RENAME TO volumes_2;
         {}
         INSERT INTO volumes (name, uuid, svm, size_bytes, policy, create_time, file)
             SELECT name, uuid, svm, size_bytes, policy, create_time, name FROM volumes_2;
         DROP TABLE volumes_2;
         PRAGMA user_version = {VERSION};",
        volumes()
    )
}

/// Tables of version 1 had neither SVMs nor UUIDs of volumes.
fn from_version_1() -> String {
    format!(
        "ALTER TABLE policies RENAME TO policies_1;
         ALTER TABLE volumes RENAME TO volumes_1;
         {}
         INSERT INTO policies (name, uuid, svm, definition)
             SELECT name, uuid, '{svm}', definition FROM policies_1;
         INSERT INTO volumes (name, svm, size_bytes, policy, file)
             SELECT name, '{svm}', size_bytes, policy, name FROM volumes_1;
         DROP TABLE volumes_1;
         DROP TABLE policies_1;",
        tables(),
        svm = super::DEFAULT_SVM
    )
}

/// Makes a database ready, and its tables today's; those of a later version are left as they are.
pub(super) fn prepare(database: &mut Connection) -> Result<(), rusqlite::Error> {
    database.busy_timeout(Duration::from_secs(5))?;
    // A commit is on disk when it returns; readers and the one writer do not wait for each other.
    database.pragma_update(None, "journal_mode", "wal")?;
    database.pragma_update(None, "synchronous", "full")?;
    // While tables are replaced, others refer to what is not there yet.
    database.pragma_update(None, "foreign_keys", false)?;
    let making = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = making.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match version {
        0 => making.execute_batch(&tables())?,
        1 => making.execute_batch(&from_version_1())?,
        2 => making.execute_batch(&from_version_2())?,
        _ => {}
    }
    making.commit()?;
    database.pragma_update(None, "foreign_keys", true)
}

#[cfg(test)]
mod tests {
    use crate::policy::{Fixed, Policy};
    use crate::state::{DEFAULT_SVM, State};

    #[test]
    fn what_version_1_kept_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let old = rusqlite::Connection::open(directory.path().join(crate::state::FILE)).unwrap();
        old.execute_batch(
            "CREATE TABLE policies (name TEXT PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, definition TEXT NOT NULL) STRICT;
             CREATE TABLE volumes (
                 name TEXT PRIMARY KEY,
                 size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
                 policy TEXT REFERENCES policies (name) ON UPDATE CASCADE ON DELETE RESTRICT
             ) STRICT;
             INSERT INTO policies VALUES ('gold', 'u-1', '{\"fixed\":{\"max_iops\":500}}');
             INSERT INTO volumes VALUES ('vol1', 4096, 'gold'), ('vol2', 8192, NULL);
             PRAGMA user_version = 1;",
        )
        .unwrap();
        drop(old);
        let state = State::open(directory.path()).unwrap();
        let policies = state.policies().unwrap();
        let gold = Policy::Fixed(Fixed { max_iops: Some(500), ..Fixed::default() });
        assert_eq!((policies[0].uuid.as_str(), &policies[0].policy), ("u-1", &gold));
        let volumes = state.volumes().unwrap();
        let kept: Vec<_> =
            volumes.iter().map(|row| (row.name.as_str(), row.size_bytes, row.policy.as_deref())).collect();
        assert_eq!(kept, [("vol1", 4096, Some("gold")), ("vol2", 8192, None)]);
        assert_eq!((volumes[0].svm.as_str(), volumes[0].uuid.len()), (DEFAULT_SVM, 36));
        assert!(state.delete_policy("gold").is_err(), "references are kept, too");
    }

    #[test]
    fn what_version_2_kept_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        drop(State::open(directory.path()).unwrap());
        let old = rusqlite::Connection::open(directory.path().join(crate::state::FILE)).unwrap();
        // As it was then: without a column for the file.
        old.execute_batch(
            "DROP TABLE volumes;
             CREATE TABLE volumes (
                 name TEXT PRIMARY KEY,
                 uuid TEXT NOT NULL UNIQUE,
                 svm TEXT NOT NULL REFERENCES svms (name),
                 size_bytes INTEGER NOT NULL CHECK (size_bytes > 0),
                 policy TEXT REFERENCES policies (name) ON UPDATE CASCADE ON DELETE RESTRICT,
                 create_time TEXT NOT NULL
             ) STRICT;
             INSERT INTO volumes VALUES ('vol1', 'u-1', 'nfs_svm', 4096, NULL, '2026-01-01T00:00:00Z');
             PRAGMA user_version = 2;",
        )
        .unwrap();
        drop(old);
        let state = State::open(directory.path()).unwrap();
        let row = state.volumes().unwrap().remove(0);
        assert_eq!((row.name.as_str(), row.uuid.as_str(), row.size_bytes), ("vol1", "u-1", 4_096));
        assert_eq!((row.file.as_str(), row.create_time.as_str()), ("vol1", "2026-01-01T00:00:00Z"));
    }
}
