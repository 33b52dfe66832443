//! Passwords, of which only an Argon2id hash is kept (RFC 9106, with the parameters of the library: 19 MiB, 2 passes).
//!
//! A hash takes tens of milliseconds on purpose. A client that polls would pay it with every request, and so would whoever is being
//! measured on the same machine: credentials that were right a moment ago are remembered, as a MAC under a key that dies with
//! the process, together with the hash that they matched.

use std::sync::{Mutex, PoisonError};

use argon2::Argon2;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use aws_lc_rs::hmac;
use plumb_volumes::state::State;

const REMEMBERED_MAX: usize = 64;

/// What was right a moment ago.
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
pub fn hash(password: &str) -> Result<String, String> {
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.map(|hash| hash.to_string()).map_err(|error| format!("hash a password: {error}"))
}

fn is_right(password: &str, hash: &str) -> bool {
    Argon2::default().verify_password(password.as_bytes(), hash).is_ok()
}

impl Passwords {
    /// Nothing remembered yet.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn new() -> Result<Self, String> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &aws_lc_rs::rand::SystemRandom::new());
        Ok(Self {
            key: key.map_err(|_| "make a key: the system has no random bytes".to_owned())?,
            remembered: Mutex::default(),
            nobody: hash("nobody")?,
        })
    }

    /// Whether that is the password of that user.
    #[must_use]
    pub fn accept(&self, state: &State, user: &str, password: &str) -> bool {
        let Ok(kept) = state.password_hash(user) else { return false };
        let Some(kept) = kept else {
            let _ = is_right(password, &self.nobody);
            return false;
        };
        let mut both = user.as_bytes().to_vec();
        both.push(0);
        both.extend(password.as_bytes());
        let is_known = self
            .lock()
            .iter()
            .any(|(tag, hash)| *hash == kept && hmac::verify(&self.key, &both, tag.as_ref()).is_ok());
        if is_known {
            return true;
        }
        if !is_right(password, &kept) {
            return false;
        }
        let mut remembered = self.lock();
        if remembered.len() == REMEMBERED_MAX {
            remembered.remove(0);
        }
        remembered.push((hmac::sign(&self.key, &both), kept));
        true
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(hmac::Tag, String)>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
