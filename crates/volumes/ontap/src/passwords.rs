//! Passwords, of which only an Argon2id hash is kept (RFC 9106, with the parameters of the library: 19 MiB, 2 passes).
//!
//! A hash takes tens of milliseconds on purpose. A client that polls would pay it with every request, and so would a load that is
//! measured on the same machine: credentials that were right a moment ago are remembered, as a MAC under a key that dies with
//! the process, together with the hash that they matched.

use std::sync::{Mutex, PoisonError};

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use aws_lc_rs::hmac;

const REMEMBERED_MAX: usize = 64;

/// Why a password cannot be kept or checked. Completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// The library refuses it, or has no random bytes.
    #[error("hash a password: {_0}")]
    Hash(argon2::password_hash::Error),
    /// There are no random bytes.
    #[error("make a key: the system has no random bytes")]
    NoRandom,
}

/// The logins that were right a moment ago.
#[derive(Debug)]
pub struct Passwords {
    key: hmac::Key,
    /// MACs of user and password, each with the hash that it matched.
    remembered: Mutex<Vec<(hmac::Tag, String)>>,
    /// So that a user who does not exist takes as long as one who does.
    nobody: String,
}

/// The form in which a password is kept.
///
/// # Errors
/// When the system has no random bytes.
pub fn hash(password: &str) -> Result<String, PasswordError> {
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.map(|hash| hash.to_string()).map_err(PasswordError::Hash)
}

fn is_right(password: &str, hash: &str) -> bool {
    Argon2::default().verify_password(password.as_bytes(), hash).is_ok()
}

/// User and password as one text; no header field holds a 0.
fn both(user: &str, password: &str) -> Vec<u8> {
    [user.as_bytes(), &[0], password.as_bytes()].concat()
}

impl Passwords {
    /// Nothing remembered yet.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn new() -> Result<Self, PasswordError> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &aws_lc_rs::rand::SystemRandom::new());
        Ok(Self {
            key: key.map_err(|_| PasswordError::NoRandom)?,
            remembered: Mutex::default(),
            nobody: hash("nobody")?,
        })
    }

    /// Whether that was the password of that user a moment ago, whose hash is still `kept`. It takes microseconds.
    #[must_use]
    pub fn recall(&self, kept: &str, user: &str, password: &str) -> bool {
        let both = both(user, password);
        let remembered = self.lock();
        remembered
            .iter()
            .any(|(tag, hash)| hash == kept && hmac::verify(&self.key, &both, tag.as_ref()).is_ok())
    }

    /// Whether that is the password of the user whose hash is `kept`, which is remembered. A user who does not exist has
    /// none, and takes as long.
    #[must_use]
    pub fn check(&self, kept: Option<String>, user: &str, password: &str) -> bool {
        let is_right = is_right(password, kept.as_ref().unwrap_or(&self.nobody));
        let Some(kept) = kept.filter(|_| is_right) else { return false };
        let mut remembered = self.lock();
        if remembered.len() == REMEMBERED_MAX {
            remembered.remove(0);
        }
        remembered.push((hmac::sign(&self.key, &both(user, password)), kept));
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(hmac::Tag, String)>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use plumb_volumes::state::State;

    use super::*;

    impl Passwords {
        fn accept(&self, state: &State, user: &str, password: &str) -> bool {
            let kept = state.password_hash(user).unwrap();
            kept.as_ref().is_some_and(|kept| self.recall(kept, user, password))
                || self.check(kept, user, password)
        }
    }

    #[test]
    fn only_the_right_password_is_accepted_and_a_new_one_ends_the_old() {
        let directory = tempfile::tempdir().unwrap();
        let state = State::open(directory.path()).unwrap();
        let passwords = Passwords::new().unwrap();
        let kept = hash("Netapp1!").unwrap();
        assert!(kept.starts_with("$argon2id$") && !kept.contains("Netapp1!"), "{kept}");
        state.set_user("admin", &kept).unwrap();
        for _ in 0..2 {
            assert!(passwords.accept(&state, "admin", "Netapp1!"));
            assert!(!passwords.accept(&state, "admin", "netapp1!"));
            assert!(!passwords.accept(&state, "admin", ""));
            assert!(!passwords.accept(&state, "nobody", "nobody"));
            assert!(!passwords.accept(&state, "admin\0", "Netapp1!"));
        }
        state.set_user("admin", &hash("other").unwrap()).unwrap();
        assert!(!passwords.accept(&state, "admin", "Netapp1!") && passwords.accept(&state, "admin", "other"));
        state.delete_user("admin").unwrap();
        assert!(!passwords.accept(&state, "admin", "other"));
    }
}
