//! A database of a Postgres server: the history of a team.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use postgres::config::SslMode;
use postgres::types::private::BytesMut;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Config, NoTls, Statement};
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::{Cause, Connection};
use super::value::{Row, Value};

/// The connect timeout if the URL sets none.
const CONNECT: Duration = Duration::from_secs(5);
/// The variable from which libpq takes a password that the URL lacks.
const PASSWORD_VARIABLE: &str = "PGPASSWORD";

/// An open connection to a Postgres server.
pub(crate) struct Postgres {
    client: Client,
    statements: HashMap<String, Statement>,
}

impl Postgres {
    /// Connects, with TLS if the URL has `sslmode=require`. This machine must then trust the server's
    /// certificate.
    pub(crate) fn open(url: &str) -> Result<Self, Cause> {
        let mut config: Config = url.parse()?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_password().is_none()
            && let Ok(password) = std::env::var(PASSWORD_VARIABLE)
        {
            config.password(password);
        }
        if config.get_application_name().is_none() {
            config.application_name("plumb");
        }
        let client = match config.get_ssl_mode() {
            SslMode::Require => config.connect(MakeRustlsConnect::new(tls()?))?,
            _ => config.connect(NoTls)?,
        };
        Ok(Self { client, statements: HashMap::new() })
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, Cause> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

fn tls() -> Result<ClientConfig, Cause> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(Cause(
            "this machine has no certificates to check the server's with (package ca-certificates)"
                .to_owned(),
        ));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| Cause(error.to_string()))?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

fn parameters(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

impl Connection for Postgres {
    fn rows(&mut self, sql: &str, values: &[Value]) -> Result<Vec<Row>, Cause> {
        let statement = self.prepared(sql)?;
        let found = self.client.query(&statement, &parameters(values))?;
        found.iter().map(|row| Ok(Row::new(columns(row)?))).collect()
    }

    fn execute(&mut self, sql: &str, values: &[Value]) -> Result<u64, Cause> {
        let statement = self.prepared(sql)?;
        Ok(self.client.execute(&statement, &parameters(values))?)
    }

    fn script(&mut self, sql: &str) -> Result<(), Cause> {
        Ok(self.client.batch_execute(sql)?)
    }

    fn begin(&self) -> &'static str {
        "BEGIN"
    }
}

/// The values of a row's columns. Columns of types that the tables do not use are read as text.
fn columns(row: &postgres::Row) -> Result<Vec<Value>, Cause> {
    let column = |(at, column): (usize, &postgres::Column)| {
        Ok(match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at)?.into(),
            Type::INT4 => row.try_get::<_, Option<i32>>(at)?.map(i64::from).into(),
            Type::FLOAT8 => row.try_get::<_, Option<f64>>(at)?.into(),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at)?.into(),
            _ => row.try_get::<_, Option<String>>(at)?.into(),
        })
    };
    row.columns().iter().enumerate().map(column).collect()
}

impl ToSql for Value {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Integer(value) if *kind == Type::INT4 => i32::try_from(*value)?.to_sql(kind, out),
            Self::Integer(value) => value.to_sql(kind, out),
            Self::Real(value) => value.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Bytes(bytes) => bytes.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        [Type::INT8, Type::INT4, Type::FLOAT8, Type::TEXT, Type::VARCHAR, Type::BYTEA].contains(kind)
    }

    to_sql_checked!();
}

impl From<postgres::Error> for Cause {
    fn from(error: postgres::Error) -> Self {
        // The error's own message is as vague as `db error`; its sources say what happened.
        let mut source: Option<&dyn Error> = error.source();
        let mut text = None;
        if let Some(server) = error.as_db_error() {
            return Self(server.message().to_owned());
        }
        while let Some(inner) = source {
            text = Some(inner.to_string());
            source = inner.source();
        }
        Self(text.unwrap_or_else(|| error.to_string()))
    }
}
