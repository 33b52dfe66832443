//! The policies and volumes, in a SQLite database that survives a crash.
//!
//! The database is the only truth. Commands change it whether a server runs or not; a server looks for changes several times
//! a second ([`State::version`] costs no query) and follows. So the two need no protocol, which could fail halfway, and a kill
//! loses no state.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};
use rustix::fs::{FlockOperation, flock};

use crate::policy::{Policy, PolicyFault};
use crate::private;

mod access;
mod schema;

pub use access::{JobRow, SvmRow};

const FILE: &str = "volumes.sqlite";
/// Where the volumes' files are.
const DATA: &str = "data";
/// The files that a server and its interface keep beside it.
const OWN_FILES: [&str; 6] = [LOCK_FILE, "serving.json", "serving.new", "certificate.pem", "key.pem", "csi"];
/// Locked by the server that serves a state directory.
pub(crate) const LOCK_FILE: &str = "lock";
/// The SVM that a new state directory has, which is the one that NetApp's public labs and examples use.
pub const DEFAULT_SVM: &str = "nfs_svm";
/// The UUID of [`DEFAULT_SVM`].
pub const DEFAULT_SVM_UUID: &str = "2829ebfb-4d6a-11e8-a5dc-005056b08451";
const NAME_CHARACTERS_MAX: usize = 127;

/// Why the state could not be read or changed; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The directory or the database cannot be used.
    #[error("open the state in {}: {cause}", directory.display())]
    Open {
        /// The state directory.
        directory: PathBuf,
        /// The mistake.
        cause: String,
    },
    /// Another version of this program wrote it.
    #[error("open the state in {}: its format is {found}, and this program knows {}", directory.display(), schema::VERSION)]
    Format {
        /// The state directory.
        directory: PathBuf,
        /// The version found.
        found: i64,
    },
    /// The database failed.
    #[error("use the state: {0}")]
    Database(#[from] rusqlite::Error),
    /// A name that cannot be used.
    #[error("use the name `{0}`: 1 to 127 letters, digits, `_` and `-`, the first a letter or a digit")]
    Name(String),
    /// There is one of that name.
    #[error("create the {kind} `{name}`: one of that name exists already")]
    Exists {
        /// `volume`, `policy`, `SVM` or `user`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// There is none of that name.
    #[error("find the {kind} `{name}`")]
    Missing {
        /// `volume`, `policy`, `SVM` or `user`.
        kind: &'static str,
        /// The name.
        name: String,
    },
    /// A policy that volumes are under.
    #[error(
        "delete the policy `{0}`: there are volumes under it; move them to another or to none first (`plumb volumes assign`)"
    )]
    InUse(String),
    /// A policy that contradicts itself.
    #[error("accept the policy `{name}`: {fault}")]
    Policy {
        /// The name.
        name: String,
        /// The mistake.
        fault: PolicyFault,
    },
    /// A fixed policy is to become adaptive, or the other way round.
    #[error("change the policy `{0}`: a fixed policy cannot become an adaptive one, nor the reverse")]
    Kind(String),
    /// Not a UUID.
    #[error("use `{0}` as a UUID: 32 hexadecimal digits, as in {DEFAULT_SVM_UUID}")]
    Uuid(String),
    /// A volume and its policy have to belong to one SVM.
    #[error("put the volume `{volume}` under the policy `{policy}`: they belong to different SVMs")]
    OtherSvm {
        /// The volume.
        volume: String,
        /// The policy.
        policy: String,
    },
    /// A size of 0, or one that no file has in the state directory's file system.
    #[error("make the volume `{name}` {size_bytes} B large: {cause}")]
    Size {
        /// The volume.
        name: String,
        /// The size.
        size_bytes: u64,
        /// Why not.
        cause: String,
    },
}

/// A policy as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyRow {
    /// The name.
    pub name: String,
    /// The UUID, which never changes.
    pub uuid: String,
    /// The SVM that it belongs to.
    pub svm: String,
    /// The limits and the promises.
    pub policy: Policy,
}

/// A volume as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRow {
    /// The name.
    pub name: String,
    /// The size.
    pub size_bytes: u64,
    /// The policy that it is under.
    pub policy: Option<String>,
    /// The UUID, which never changes.
    pub uuid: String,
    /// The SVM that it belongs to.
    pub svm: String,
    /// When it was made, as RFC 3339.
    pub create_time: String,
    /// The name of its file, which never changes; see [`State::file_of`].
    pub file: String,
}

/// An open state directory.
#[derive(Debug)]
pub struct State {
    directory: PathBuf,
    database: Connection,
}

impl State {
    /// Opens a state directory, and makes it where there is none.
    ///
    /// # Errors
    /// When it cannot be used, or was written by another version.
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        let fail = |cause: String| StateError::Open { directory: directory.to_owned(), cause };
        make_private(directory).map_err(|cause| fail(cause.to_string()))?;
        let mut database = Connection::open(directory.join(FILE)).map_err(|cause| fail(cause.to_string()))?;
        schema::prepare(&mut database).map_err(|cause| fail(cause.to_string()))?;
        let found = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if found != schema::VERSION {
            return Err(StateError::Format { directory: directory.to_owned(), found });
        }
        Ok(Self { directory: directory.to_owned(), database })
    }

    /// The state directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether a server serves a state directory now.
    #[must_use]
    pub fn is_served(directory: &Path) -> bool {
        let Ok(file) = File::open(directory.join(LOCK_FILE)) else { return false };
        // Taken for a moment only, and given back with the file.
        flock(&file, FlockOperation::NonBlockingLockShared).is_err()
    }

    /// Where a volume's file of this name is. It is that of the volume when it was made, but for one that is made where a file
    /// of that name is another's, or is left of another.
    #[must_use]
    pub fn file_of(&self, file: &str) -> PathBuf {
        self.directory.join(DATA).join(file)
    }

    /// A number that changes when another connection changed something (SQLite's `data_version`); not when this one did.
    ///
    /// # Errors
    /// When the database fails.
    pub fn version(&self) -> Result<i64, StateError> {
        Ok(self.database.query_row("PRAGMA data_version", [], |row| row.get(0))?)
    }

    /// Every policy by name.
    ///
    /// # Errors
    /// When the database fails.
    pub fn policies(&self) -> Result<Vec<PolicyRow>, StateError> {
        let mut query =
            self.database.prepare("SELECT name, uuid, definition, svm FROM policies ORDER BY name")?;
        let rows = query.query_map([], |row| {
            let text: String = row.get(2)?;
            let policy = serde_json::from_str(&text).map_err(|error| {
                rusqlite::Error::FromSqlConversionFailure(2, rusqlite::types::Type::Text, Box::new(error))
            })?;
            Ok(PolicyRow { name: row.get(0)?, uuid: row.get(1)?, svm: row.get(3)?, policy })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Every volume by name.
    ///
    /// # Errors
    /// When the database fails.
    pub fn volumes(&self) -> Result<Vec<VolumeRow>, StateError> {
        let select =
            "SELECT name, size_bytes, policy, uuid, svm, create_time, file FROM volumes ORDER BY name";
        let mut query = self.database.prepare(select)?;
        let rows = query.query_map([], |row| {
            let size: i64 = row.get(1)?;
            Ok(VolumeRow {
                name: row.get(0)?,
                size_bytes: size.cast_unsigned(),
                policy: row.get(2)?,
                uuid: row.get(3)?,
                svm: row.get(4)?,
                create_time: row.get(5)?,
                file: row.get(6)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Reads several things as they are at one moment: of volumes and policies that are read one after the other, one that is
    /// renamed in between would be missing. Not to be nested, and nothing is to be changed.
    ///
    /// # Errors
    /// That of `work`, or when the database fails.
    pub fn at_one_moment<T, E: From<StateError>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let moment = self.database.unchecked_transaction().map_err(StateError::from)?;
        let seen = work()?;
        moment.commit().map_err(StateError::from)?;
        Ok(seen)
    }

    /// Does several things or, where one fails, none of them. Not to be nested.
    ///
    /// # Errors
    /// That of `work`, or when the database fails.
    pub fn atomically<T, E: From<StateError>>(&self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        // It is undone when it is dropped, so whatever leaves here without a commit changes nothing.
        let open = Transaction::new_unchecked(&self.database, TransactionBehavior::Immediate);
        let open = open.map_err(StateError::from)?;
        let done = work()?;
        open.commit().map_err(StateError::from)?;
        Ok(done)
    }

    /// Makes a policy of the default SVM.
    ///
    /// # Errors
    /// When the name is taken or none, or the policy contradicts itself.
    pub fn create_policy(&self, name: &str, policy: &Policy) -> Result<(), StateError> {
        self.create_policy_of(DEFAULT_SVM, name, policy)
    }

    /// Makes a policy.
    ///
    /// # Errors
    /// When the name is taken or invalid, the policy contradicts itself, or the SVM does not exist.
    pub fn create_policy_of(&self, svm: &str, name: &str, policy: &Policy) -> Result<(), StateError> {
        check_name(name)?;
        self.check_svm(svm)?;
        let definition = definition(name, policy)?;
        let insert = "INSERT INTO policies (name, svm, definition) VALUES (?1, ?2, ?3)";
        taken(self.database.execute(insert, params![name, svm, definition]), "policy", name)
    }

    /// Gives a policy another name; its volumes stay under it.
    ///
    /// # Errors
    /// When no such policy exists, or the name is taken or invalid.
    pub fn rename_policy(&self, name: &str, new: &str) -> Result<(), StateError> {
        self.rename("UPDATE policies SET name = ?2 WHERE name = ?1", "policy", name, new)
    }

    /// Changes what a policy says, for all its volumes at once.
    ///
    /// # Errors
    /// When no such policy exists, or the new one contradicts itself or is of the other kind.
    pub fn change_policy(&self, name: &str, policy: &Policy) -> Result<(), StateError> {
        let definition = definition(name, policy)?;
        let rows = self.policies()?;
        let row = rows.iter().find(|row| row.name == name);
        let row = row.ok_or_else(|| StateError::Missing { kind: "policy", name: name.to_owned() })?;
        if std::mem::discriminant(&row.policy) != std::mem::discriminant(policy) {
            return Err(StateError::Kind(name.to_owned()));
        }
        let done = self
            .database
            .execute("UPDATE policies SET definition = ?2 WHERE name = ?1", params![name, definition])?;
        found(done, "policy", name)
    }

    /// Takes every volume out from under a policy; each is under none then.
    ///
    /// # Errors
    /// When the database fails.
    pub fn release_volumes(&self, policy: &str) -> Result<(), StateError> {
        self.database.execute("UPDATE volumes SET policy = NULL WHERE policy = ?1", [policy])?;
        Ok(())
    }

    /// Deletes a policy that no volume is under.
    ///
    /// # Errors
    /// When there is none, or volumes are under it.
    pub fn delete_policy(&self, name: &str) -> Result<(), StateError> {
        match self.database.execute("DELETE FROM policies WHERE name = ?1", [name]) {
            Err(error) if is_constraint(&error) => Err(StateError::InUse(name.to_owned())),
            done => found(done?, "policy", name),
        }
    }

    /// Makes a volume of the default SVM, empty, under a policy or none.
    ///
    /// # Errors
    /// When the name is taken or invalid, the size is invalid, or the policy does not exist.
    pub fn create_volume(&self, name: &str, size_bytes: u64, policy: Option<&str>) -> Result<(), StateError> {
        self.create_volume_of(DEFAULT_SVM, name, size_bytes, policy)
    }

    /// Makes a volume, empty, under a policy of its SVM or none.
    ///
    /// # Errors
    /// When the name is taken or invalid, the size is invalid, or the policy or the SVM does not exist.
    pub fn create_volume_of(
        &self,
        svm: &str,
        name: &str,
        size_bytes: u64,
        policy: Option<&str>,
    ) -> Result<(), StateError> {
        check_name(name)?;
        let size = self.check_size(name, size_bytes)?;
        self.check_svm(svm)?;
        self.check_policy(name, svm, policy)?;
        // A file of that name may be another volume's, or what is left of a deleted one whose file was to go when a process
        // ended: a new volume has neither's data. No volume's name has a dot.
        let is_left = std::fs::symlink_metadata(self.file_of(name)).is_ok();
        let insert = "INSERT INTO volumes (name, svm, size_bytes, policy, file) VALUES (?1, ?2, ?3, ?4,
                          CASE WHEN ?5 OR EXISTS (SELECT 1 FROM volumes WHERE file = ?1)
                          THEN ?1 || '.' || lower(hex(randomblob(8))) ELSE ?1 END)";
        taken(self.database.execute(insert, params![name, svm, size, policy, is_left]), "volume", name)
    }

    /// Makes a volume larger or smaller.
    ///
    /// # Errors
    /// When there is none, or no file can be so large.
    pub fn resize_volume(&self, name: &str, size_bytes: u64) -> Result<(), StateError> {
        let size = self.check_size(name, size_bytes)?;
        let update = "UPDATE volumes SET size_bytes = ?2 WHERE name = ?1";
        found(self.database.execute(update, params![name, size])?, "volume", name)
    }

    /// Makes a volume so large where it is smaller, and returns the size that it has then. Another process may have made it larger.
    ///
    /// # Errors
    /// When there is none, or no file can be so large.
    pub fn grow_volume(&self, name: &str, size_bytes: u64) -> Result<u64, StateError> {
        let size = self.check_size(name, size_bytes)?;
        let update = "UPDATE volumes SET size_bytes = max(size_bytes, ?2) WHERE name = ?1";
        found(self.database.execute(update, params![name, size])?, "volume", name)?;
        let has = "SELECT size_bytes FROM volumes WHERE name = ?1";
        let has: i64 = self.database.query_row(has, [name], |row| row.get(0))?;
        Ok(has.cast_unsigned())
    }

    /// Gives a volume another name. It stays the volume that it is: its data, its policy, and its connections.
    ///
    /// # Errors
    /// When there is none, or the name is taken or none.
    pub fn rename_volume(&self, name: &str, new: &str) -> Result<(), StateError> {
        self.rename("UPDATE volumes SET name = ?2 WHERE name = ?1", "volume", name, new)
    }

    fn rename(&self, update: &str, kind: &'static str, name: &str, new: &str) -> Result<(), StateError> {
        check_name(new)?;
        match self.database.execute(update, [name, new]) {
            Err(error) if is_constraint(&error) => Err(StateError::Exists { kind, name: new.to_owned() }),
            done => found(done?, kind, name),
        }
    }

    /// Moves a volume to another policy, or to none.
    ///
    /// # Errors
    /// When no such volume or policy exists.
    pub fn assign_policy(&self, volume: &str, policy: Option<&str>) -> Result<(), StateError> {
        let of_volume = "SELECT svm FROM volumes WHERE name = ?1";
        let svm: Option<String> =
            self.database.query_row(of_volume, [volume], |row| row.get(0)).optional()?;
        let svm = svm.ok_or_else(|| StateError::Missing { kind: "volume", name: volume.to_owned() })?;
        self.check_policy(volume, &svm, policy)?;
        let update = "UPDATE volumes SET policy = ?2 WHERE name = ?1";
        found(self.database.execute(update, params![volume, policy])?, "volume", volume)
    }

    /// Deletes a volume and what is in it.
    ///
    /// # Errors
    /// When there is none, or the database fails. A file that cannot be removed stays behind unused.
    pub fn delete_volume(&self, name: &str) -> Result<(), StateError> {
        let file = self.forget_volume(name)?;
        self.remove_file(&file);
        Ok(())
    }

    /// Deletes a volume, and returns its file's name for [`State::remove_file`]: for what may still be undone.
    ///
    /// # Errors
    /// When there is none, or the database fails.
    pub fn forget_volume(&self, name: &str) -> Result<String, StateError> {
        let delete = "DELETE FROM volumes WHERE name = ?1 RETURNING file";
        let file = self.database.query_row(delete, [name], |row| row.get(0)).optional()?;
        file.ok_or_else(|| StateError::Missing { kind: "volume", name: name.to_owned() })
    }

    /// Removes what was in a volume that is deleted.
    pub fn remove_file(&self, file: &str) {
        // It is not there where no server ever served it.
        let _ = std::fs::remove_file(self.file_of(file));
    }

    /// A size that a file can have here, which is seen by making one.
    fn check_size(&self, name: &str, size_bytes: u64) -> Result<i64, StateError> {
        let fail = |cause: String| StateError::Size { name: name.to_owned(), size_bytes, cause };
        let size = i64::try_from(size_bytes).ok().filter(|size| *size > 0);
        let size = size.ok_or_else(|| fail(format!("a size is from 1 B to {} B", i64::MAX)))?;
        // No volume's file begins with a dot.
        let path = self.file_of(&format!(".size-{}", std::process::id()));
        let made = File::create(&path).and_then(|file| file.set_len(size_bytes));
        let _ = std::fs::remove_file(&path);
        match made {
            Err(cause) if matches!(cause.kind(), ErrorKind::FileTooLarge | ErrorKind::InvalidInput) => {
                let directory = self.directory.display();
                Err(fail(format!(
                    "the file system of {directory} does not support files this large ({cause})"
                )))
            }
            // A full disk has no place for the file. That must not keep a volume from shrinking.
            _ => Ok(size),
        }
    }

    fn check_svm(&self, name: &str) -> Result<(), StateError> {
        let select = "SELECT 1 FROM svms WHERE name = ?1";
        let known: Option<i64> = self.database.query_row(select, [name], |row| row.get(0)).optional()?;
        known.map(drop).ok_or_else(|| StateError::Missing { kind: "SVM", name: name.to_owned() })
    }

    fn check_policy(&self, volume: &str, svm: &str, policy: Option<&str>) -> Result<(), StateError> {
        let Some(name) = policy else { return Ok(()) };
        let select = "SELECT svm FROM policies WHERE name = ?1";
        let known: Option<String> = self.database.query_row(select, [name], |row| row.get(0)).optional()?;
        match known {
            None => Err(StateError::Missing { kind: "policy", name: name.to_owned() }),
            Some(of) if of != svm => {
                Err(StateError::OtherSvm { volume: volume.to_owned(), policy: name.to_owned() })
            }
            Some(_) => Ok(()),
        }
    }
}

/// Makes a state directory this user's alone, also one that an earlier version left readable by others.
fn make_private(directory: &Path) -> io::Result<()> {
    private::make_directory(directory)?;
    let data = directory.join(DATA);
    private::make_directory(&data)?;
    private::tighten(&data)?;
    // SQLite gives the files beside the database the database's mode.
    private::options().append(true).create(true).open(directory.join(FILE))?;
    let mut is_shared = false;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_ours = OWN_FILES.contains(&&*name) || name.starts_with(FILE);
        is_shared |= !is_ours && name != DATA;
        if is_ours {
            private::tighten(&entry.path()).or_else(not_there)?;
        }
    }
    // Other users may need the other files in it.
    if is_shared { Ok(()) } else { private::tighten(directory) }
}

/// Another process may remove its files while they are looked at.
fn not_there(error: io::Error) -> io::Result<()> {
    if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

fn definition(name: &str, policy: &Policy) -> Result<String, StateError> {
    policy.check().map_err(|fault| StateError::Policy { name: name.to_owned(), fault })?;
    serde_json::to_string(policy)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)).into())
}

/// Names become file names and parts of addresses.
fn check_name(name: &str) -> Result<(), StateError> {
    let is_good = (1..=NAME_CHARACTERS_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    if is_good { Ok(()) } else { Err(StateError::Name(name.to_owned())) }
}

fn is_constraint(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

fn taken(done: Result<usize, rusqlite::Error>, kind: &'static str, name: &str) -> Result<(), StateError> {
    match done {
        Err(error) if is_constraint(&error) => Err(StateError::Exists { kind, name: name.to_owned() }),
        done => Ok(done.map(drop)?),
    }
}

fn found(rows: usize, kind: &'static str, name: &str) -> Result<(), StateError> {
    if rows > 0 { Ok(()) } else { Err(StateError::Missing { kind, name: name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::policy::{Adaptive, Fixed};

    fn capped(max_iops: u64) -> Policy {
        Policy::Fixed(Fixed { max_iops: Some(max_iops), ..Fixed::default() })
    }

    #[test]
    fn what_was_made_is_there_after_opening_again_and_seen_by_others() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        let other = State::open(directory.path()).unwrap();
        let before = other.version().unwrap();
        state.create_policy("gold", &capped(500)).unwrap();
        state.create_volume("vol1", 100 << 30, Some("gold")).unwrap();
        state.resize_volume("vol1", 200 << 30).unwrap();
        state.change_policy("gold", &capped(600)).unwrap();
        assert_ne!(other.version().unwrap(), before);
        let volumes = other.volumes().unwrap();
        let row = &volumes[0];
        assert_eq!((volumes.len(), row.name.as_str(), row.size_bytes), (1, "vol1", 200 << 30));
        assert_eq!(
            (row.policy.as_deref(), row.svm.as_str(), row.uuid.len()),
            (Some("gold"), DEFAULT_SVM, 36)
        );
        let policies = other.policies().unwrap();
        assert_eq!((policies[0].name.as_str(), &policies[0].policy), ("gold", &capped(600)));
        assert_eq!(policies[0].uuid.len(), 36, "{}", policies[0].uuid);
    }

    #[test]
    fn what_others_could_read_is_this_users_alone_after_opening() {
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let set = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("state");
        drop(State::open(&directory).unwrap());
        let (data, database) = (directory.join("data"), directory.join(FILE));
        assert_eq!((mode(&directory), mode(&data), mode(&database)), (0o700, 0o700, 0o600));
        let key = directory.join("key.pem");
        std::fs::write(&key, "").unwrap();
        for (path, loose) in [(&directory, 0o755), (&data, 0o777), (&database, 0o644), (&key, 0o644)] {
            set(path, loose);
        }
        drop(State::open(&directory).unwrap());
        let found = [&directory, &data, &database, &key].map(|path| mode(path));
        assert_eq!(found, [0o700, 0o700, 0o600, 0o600]);
        // A directory in which other things lie stays as it is, and what is the state's is closed all the same.
        std::fs::write(directory.join("notes.txt"), "").unwrap();
        set(&directory, 0o755);
        set(&database, 0o644);
        drop(State::open(&directory).unwrap());
        assert_eq!((mode(&directory), mode(&database)), (0o755, 0o600));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_reason() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        state.create_policy("gold", &capped(500)).unwrap();
        state.create_volume("vol1", 4096, Some("gold")).unwrap();
        let fails = |result: Result<(), StateError>| result.unwrap_err().to_string();
        let twice = fails(state.create_policy("gold", &capped(1)));
        assert_eq!(twice, "create the policy `gold`: one of that name exists already");
        assert_eq!(
            fails(state.create_volume("vol1", 1, None)),
            "create the volume `vol1`: one of that name exists already"
        );
        assert_eq!(fails(state.create_volume("vol2", 1, Some("nope"))), "find the policy `nope`");
        assert_eq!(
            fails(state.create_volume("vol2", 0, None)),
            "make the volume `vol2` 0 B large: a size is from 1 B to 9223372036854775807 B"
        );
        assert_eq!(
            fails(state.delete_policy("gold")),
            "delete the policy `gold`: there are volumes under it; move them to another or to none first (`plumb volumes assign`)"
        );
        assert_eq!(fails(state.assign_policy("nope", None)), "find the volume `nope`");
        let adaptive = Policy::Adaptive(Adaptive::new(1, 2));
        assert!(fails(state.change_policy("gold", &adaptive)).starts_with("change the policy `gold`"));
        for name in ["", ".", "../x", "a/b", "-a", "a b", &"x".repeat(128)] {
            assert!(matches!(state.create_volume(name, 1, None), Err(StateError::Name(_))), "{name}");
        }
        state.create_policy("other", &capped(500)).unwrap();
        state.create_volume("vol2", 4096, Some("other")).unwrap();
        state.release_volumes("gold").unwrap();
        let policies: Vec<_> = state.volumes().unwrap().into_iter().map(|row| row.policy).collect();
        assert_eq!(policies, [None, Some("other".to_owned())]);
        state.delete_volume("vol2").unwrap();
        state.delete_policy("gold").unwrap();
        state.delete_volume("vol1").unwrap();
        assert!(state.volumes().unwrap().is_empty());
    }

    #[test]
    fn a_size_that_the_file_system_does_not_have_is_refused_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        state.create_volume("vol1", 4096, None).unwrap();
        let largest = i64::MAX.cast_unsigned();
        if File::create(directory.path().join("x")).unwrap().set_len(largest).is_ok() {
            // A tmpfs has files of any size.
            return;
        }
        for refused in [state.create_volume("vol2", largest, None), state.resize_volume("vol1", largest)] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("does not support files this large "), "{refused}");
        }
        let rows = state.volumes().unwrap();
        assert_eq!((rows.len(), rows[0].size_bytes), (1, 4096));
        assert_eq!(std::fs::read_dir(directory.path().join("data")).unwrap().count(), 0);
    }

    #[test]
    fn a_new_volume_has_nothing_of_what_a_kill_left_behind() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        state.create_volume("vol1", 4096, None).unwrap();
        std::fs::write(state.file_of("vol1"), b"old").unwrap();
        // The change is for good, and the process ends before the file is removed.
        state.forget_volume("vol1").unwrap();
        state.create_volume("vol1", 4096, None).unwrap();
        let file = state.volumes().unwrap().remove(0).file;
        assert!(!state.file_of(&file).exists(), "{file}");
        // Even one that comes late removes nothing of the new one's.
        std::fs::write(state.file_of(&file), b"new").unwrap();
        state.remove_file("vol1");
        assert_eq!(std::fs::read(state.file_of(&file)).unwrap(), b"new");
    }

    #[test]
    fn volumes_and_policies_are_of_one_moment() {
        const NAMES: [&str; 2] = ["gold", "silver"];
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        let other = State::open(directory.path()).unwrap();
        state.create_policy(NAMES[0], &capped(500)).unwrap();
        state.create_volume("vol1", 4096, Some(NAMES[0])).unwrap();
        std::thread::scope(|scope| {
            let renaming = scope.spawn(move || {
                for round in 0..100 {
                    other.rename_policy(NAMES[round % 2], NAMES[(round + 1) % 2]).unwrap();
                }
            });
            while !renaming.is_finished() {
                let both = state.at_one_moment(|| Ok::<_, StateError>((state.volumes()?, state.policies()?)));
                let (volumes, policies) = both.unwrap();
                assert_eq!(volumes[0].policy.as_deref(), Some(policies[0].name.as_str()));
            }
        });
    }

    #[test]
    fn a_renamed_volume_keeps_its_file_and_its_old_name_is_free() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        state.create_volume("old", 4096, None).unwrap();
        let uuid = state.volumes().unwrap()[0].uuid.clone();
        std::fs::write(state.file_of("old"), b"data").unwrap();
        state.rename_volume("old", "new").unwrap();
        state.create_volume("old", 4096, None).unwrap();
        let rows = state.volumes().unwrap();
        assert_eq!((rows[0].name.as_str(), &rows[0].uuid, rows[0].file.as_str()), ("new", &uuid, "old"));
        assert_ne!(rows[1].file, "old");
        assert!(matches!(state.rename_volume("new", "old"), Err(StateError::Exists { kind: "volume", .. })));
        assert!(matches!(state.rename_volume("none", "x"), Err(StateError::Missing { kind: "volume", .. })));
        assert!(matches!(state.rename_volume("new", "a/b"), Err(StateError::Name(_))));
        state.delete_volume("old").unwrap();
        assert_eq!(std::fs::read(state.file_of("old")).unwrap(), b"data", "that is the other one's");
        state.delete_volume("new").unwrap();
        assert!(!state.file_of("old").exists());
    }
}
