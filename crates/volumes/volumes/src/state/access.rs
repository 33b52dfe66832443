//! The management interface's own tables beside volumes and policies: SVMs, who may use it, and what it did.

use rusqlite::{OptionalExtension, params};

use super::{State, StateError, check_name, taken};

/// The number of jobs that are remembered.
const JOBS_MAX: i64 = 1_000;

/// A storage virtual machine: a name that volumes and policies belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SvmRow {
    /// The name.
    pub name: String,
    /// The UUID.
    pub uuid: String,
}

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    /// The UUID.
    pub uuid: String,
    /// The action.
    pub description: String,
    /// When, as RFC 3339.
    pub time: String,
}

impl State {
    /// Every SVM by name.
    ///
    /// # Errors
    /// When the database fails.
    pub fn svms(&self) -> Result<Vec<SvmRow>, StateError> {
        let mut query = self.database.prepare("SELECT name, uuid FROM svms ORDER BY name")?;
        let rows = query.query_map([], |row| Ok(SvmRow { name: row.get(0)?, uuid: row.get(1)? }))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Makes an SVM, with a new UUID if none is given.
    ///
    /// # Errors
    /// When the name or the UUID is taken or invalid.
    pub fn create_svm(&self, name: &str, uuid: Option<&str>) -> Result<(), StateError> {
        check_name(name)?;
        if let Some(uuid) = uuid.filter(|uuid| !is_uuid(uuid)) {
            return Err(StateError::Uuid(uuid.to_owned()));
        }
        let done = match uuid {
            Some(uuid) => self
                .database
                .execute("INSERT INTO svms (name, uuid) VALUES (?1, ?2)", params![name, uuid.to_lowercase()]),
            None => self.database.execute("INSERT INTO svms (name) VALUES (?1)", [name]),
        };
        taken(done, "SVM", name)
    }

    /// The users of the management interface, by name.
    ///
    /// # Errors
    /// When the database fails.
    pub fn users(&self) -> Result<Vec<String>, StateError> {
        let mut query = self.database.prepare("SELECT name FROM users ORDER BY name")?;
        let rows = query.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Lets somebody use the management interface, or changes their password, of which only a hash is kept.
    ///
    /// # Errors
    /// When the name is none.
    pub fn set_user(&self, name: &str, password_hash: &str) -> Result<(), StateError> {
        check_name(name)?;
        let set = "INSERT INTO users (name, password_hash) VALUES (?1, ?2)
                   ON CONFLICT (name) DO UPDATE SET password_hash = excluded.password_hash";
        self.database.execute(set, [name, password_hash])?;
        Ok(())
    }

    /// The hash of somebody's password.
    ///
    /// # Errors
    /// When the database fails.
    pub fn password_hash(&self, user: &str) -> Result<Option<String>, StateError> {
        let select = "SELECT password_hash FROM users WHERE name = ?1";
        Ok(self.database.query_row(select, [user], |row| row.get(0)).optional()?)
    }

    /// Revokes a user's access to the management interface.
    ///
    /// # Errors
    /// When no such user exists.
    pub fn delete_user(&self, name: &str) -> Result<(), StateError> {
        super::found(self.database.execute("DELETE FROM users WHERE name = ?1", [name])?, "user", name)
    }

    /// Remembers that something was done; the oldest of many is forgotten.
    ///
    /// # Errors
    /// When the database fails.
    pub fn add_job(&self, description: &str) -> Result<String, StateError> {
        let insert = "INSERT INTO jobs (description) VALUES (?1) RETURNING uuid";
        let uuid = self.database.query_row(insert, [description], |row| row.get(0))?;
        self.database
            .execute("DELETE FROM jobs WHERE number <= (SELECT max(number) FROM jobs) - ?1", [JOBS_MAX])?;
        Ok(uuid)
    }

    /// The actions, the latest last.
    ///
    /// # Errors
    /// When the database fails.
    pub fn jobs(&self) -> Result<Vec<JobRow>, StateError> {
        let mut query = self.database.prepare("SELECT uuid, description, time FROM jobs ORDER BY number")?;
        let row = |row: &rusqlite::Row<'_>| {
            Ok(JobRow { uuid: row.get(0)?, description: row.get(1)?, time: row.get(2)? })
        };
        Ok(query.query_map([], row)?.collect::<Result<_, _>>()?)
    }
}

/// 8-4-4-4-12 hexadecimal digits.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{DEFAULT_SVM, DEFAULT_SVM_UUID};

    #[test]
    fn svms_users_and_jobs_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        state.create_svm("svm1", Some("02C9E252-41be-11e9-81d5-00a0986138f7")).unwrap();
        state.create_svm("svm2", None).unwrap();
        assert!(matches!(state.create_svm("svm3", Some("x")), Err(StateError::Uuid(_))));
        assert!(matches!(state.create_svm("svm1", None), Err(StateError::Exists { .. })));
        let svms: Vec<_> = state.svms().unwrap().into_iter().map(|svm| (svm.name, svm.uuid)).collect();
        assert_eq!(svms[0], (DEFAULT_SVM.to_owned(), DEFAULT_SVM_UUID.to_owned()));
        assert_eq!(svms[1], ("svm1".to_owned(), "02c9e252-41be-11e9-81d5-00a0986138f7".to_owned()));
        assert_eq!(svms[2].1.len(), 36);
        state.set_user("admin", "old").unwrap();
        state.set_user("admin", "new").unwrap();
        assert_eq!(state.password_hash("admin").unwrap().as_deref(), Some("new"));
        assert_eq!(state.users().unwrap(), ["admin"]);
        state.delete_user("admin").unwrap();
        assert_eq!(state.password_hash("admin").unwrap(), None);
        assert!(state.delete_user("admin").is_err());
        for number in 0..JOBS_MAX + 5 {
            state.add_job(&format!("job {number}")).unwrap();
        }
        let jobs = state.jobs().unwrap();
        assert_eq!((jobs.len(), jobs[0].description.as_str()), (1_000, "job 5"));
    }

    #[test]
    fn what_fails_halfway_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        let failed: Result<(), StateError> = state.atomically(|| {
            state.create_volume("vol1", 4096, None)?;
            state.create_volume("vol1", 4096, None)
        });
        assert!(failed.is_err());
        assert!(state.volumes().unwrap().is_empty());
        state.atomically(|| state.create_volume("vol1", 4096, None)).unwrap();
        assert_eq!(state.volumes().unwrap().len(), 1);
    }
}
