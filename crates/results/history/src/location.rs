//! Where a history is: a file, or a database of a Postgres server.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::HistoryError;

/// The environment variable that names the database if no option does.
pub const DATABASE_VARIABLE: &str = "PLUMB_DATABASE";

/// Where a history is.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A SQLite database.
    File(PathBuf),
    /// A database of a Postgres server, as a URL. It may hold a password, which is never shown.
    Postgres(String),
}

impl Location {
    /// Reads a file's path or a URL.
    ///
    /// # Errors
    /// When the text is empty, a malformed URL of Postgres, or a URL of another kind.
    pub fn parse(text: &str) -> Result<Self, HistoryError> {
        let refused = |reason: &str| HistoryError::Location {
            given: without_password(text),
            reason: reason.to_owned(),
        };
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => match text.parse::<postgres::Config>() {
                Ok(_) => Ok(Self::Postgres(text.to_owned())),
                Err(error) => Err(refused(&error.to_string())),
            },
            Some((scheme, _)) if is_scheme(scheme) => {
                Err(refused(&format!("there is no support for `{scheme}`")))
            }
            _ if text.is_empty() => Err(refused("it is empty")),
            _ => Ok(Self::File(PathBuf::from(text))),
        }
    }

    /// The given location, or else the first one that the environment has: `PLUMB_DATABASE`,
    /// `$XDG_DATA_HOME/plumb/history.db`, or `~/.local/share/plumb/history.db`.
    ///
    /// # Errors
    /// When the text is not a location, or the environment does not say where the user's files are.
    pub fn given_or_standard(given: Option<&str>) -> Result<Self, HistoryError> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if let Some(text) = given.map(str::to_owned).or_else(|| variable(DATABASE_VARIABLE)) {
            return Self::parse(&text);
        }
        let data = variable("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || variable("HOME").map(|home| Path::new(&home).join(".local/share"));
        let data = data.or_else(home).ok_or(HistoryError::NoHome)?;
        Ok(Self::File(data.join("plumb/history.db")))
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(formatter),
            Self::Postgres(url) => formatter.write_str(&without_password(url)),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Location({self})")
    }
}

fn is_scheme(text: &str) -> bool {
    !text.is_empty()
        && text.chars().all(|character| character.is_ascii_alphanumeric() || "+-.".contains(character))
}

/// The URL without its password, whether before the host or among the parameters. A password may contain any
/// character, so everything between the user's name and the last `@` is dropped.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user.split(':').next().unwrap_or_default()),
        None => rest.to_owned(),
    };
    let (place, parameters) = rest.split_once('?').unwrap_or((&rest, ""));
    let kept: Vec<&str> = parameters.split('&').filter(|part| !part.starts_with("password=")).collect();
    let kept = kept.join("&");
    let mark = if kept.is_empty() { "" } else { "?" };
    format!("{scheme}://{place}{mark}{kept}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_a_file_or_a_url_of_postgres() {
        assert_eq!(Location::parse("a/history.db").unwrap(), Location::File("a/history.db".into()));
        let url = "postgres://team@db.example/plumb";
        assert_eq!(Location::parse(url).unwrap(), Location::Postgres(url.to_owned()));
        assert!(Location::parse("postgresql:///plumb?host=/run/postgresql").is_ok());
        for wrong in [
            "",
            "mysql://db.example/plumb",
            "postgres://db.example:port/plumb",
            "postgres:///plumb?sslmode=maybe",
        ] {
            assert!(Location::parse(wrong).unwrap_err().is_usage(), "{wrong}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for url in [
            "postgres://team:secret@db.example:5432/plumb?sslmode=require",
            "postgres://team@db.example:5432/plumb?password=secret&sslmode=require",
            "postgres://team:secret?&secret@db.example:5432/plumb?sslmode=require",
            "postgres://team:p@secret@db.example:5432/plumb?sslmode=require",
            "postgres://team:se/cr:secret@db.example:5432/plumb?sslmode=require",
        ] {
            let shown = Location::Postgres(url.to_owned()).to_string();
            assert!(!shown.contains("secret"), "{shown}");
            assert!(shown.ends_with("sslmode=require"), "{shown}");
        }
        let wrong = Location::parse("mysql://team:secret@db.example/plumb").unwrap_err().to_string();
        assert!(!wrong.contains("secret"), "{wrong}");
    }
}
