//! Values of columns and parameters, the same for both kinds of database.

/// A value of a column or a parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// No value.
    Null,
    /// A 64-bit integer.
    Integer(i64),
    /// A finite number.
    Real(f64),
    /// A text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Integer(i64::from(value))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Integer(i64::from(value))
    }
}

impl From<f64> for Value {
    /// A number that is not finite becomes [`Value::Null`]. SQLite does so with NaN by itself; Postgres does
    /// not.
    fn from(value: f64) -> Self {
        if value.is_finite() { Self::Real(value) } else { Self::Null }
    }
}

impl From<&str> for Value {
    /// Drops NUL characters, which Postgres cannot store in a text.
    fn from(value: &str) -> Self {
        Self::Text(value.replace('\0', ""))
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        value.as_str().into()
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row of a result. Its columns are read from left to right.
#[derive(Debug)]
pub(crate) struct Row {
    values: std::vec::IntoIter<Value>,
}

/// A column's value is not of the expected kind.
#[derive(Debug, thiserror::Error)]
#[error("a column holds {found}, and should hold {expected}")]
pub(crate) struct Unexpected {
    found: String,
    expected: &'static str,
}

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self { values: values.into_iter() }
    }

    fn next(&mut self) -> Value {
        self.values.next().unwrap_or(Value::Null)
    }

    pub(crate) fn integer(&mut self) -> Result<i64, Unexpected> {
        match self.next() {
            Value::Integer(value) => Ok(value),
            other => Err(unexpected(&other, "a number")),
        }
    }

    /// A non-negative integer.
    pub(crate) fn count(&mut self) -> Result<u64, Unexpected> {
        let value = self.integer()?;
        u64::try_from(value).map_err(|_| unexpected(&Value::Integer(value), "a count"))
    }

    /// A non-negative integer of at most 32 bits.
    pub(crate) fn small(&mut self) -> Result<u32, Unexpected> {
        let value = self.integer()?;
        u32::try_from(value).map_err(|_| unexpected(&Value::Integer(value), "a count"))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Unexpected> {
        Ok(self.integer()? != 0)
    }

    pub(crate) fn real(&mut self) -> Result<f64, Unexpected> {
        self.optional_real()?.ok_or_else(|| unexpected(&Value::Null, "a number"))
    }

    pub(crate) fn optional_real(&mut self) -> Result<Option<f64>, Unexpected> {
        match self.next() {
            Value::Null => Ok(None),
            Value::Real(value) => Ok(Some(value)),
            Value::Integer(value) => Ok(Some(value as f64)),
            other => Err(unexpected(&other, "a number")),
        }
    }

    pub(crate) fn text(&mut self) -> Result<String, Unexpected> {
        self.optional_text()?.ok_or_else(|| unexpected(&Value::Null, "a text"))
    }

    pub(crate) fn optional_text(&mut self) -> Result<Option<String>, Unexpected> {
        match self.next() {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            other => Err(unexpected(&other, "a text")),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, Unexpected> {
        match self.next() {
            Value::Bytes(bytes) => Ok(bytes),
            other => Err(unexpected(&other, "bytes")),
        }
    }

    /// A text, converted by `read`.
    pub(crate) fn parsed<T>(
        &mut self,
        expected: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Unexpected> {
        let text = self.text()?;
        read(&text).ok_or_else(|| unexpected(&Value::Text(text), expected))
    }
}

fn unexpected(found: &Value, expected: &'static str) -> Unexpected {
    let found = match found {
        Value::Null => "nothing".to_owned(),
        Value::Integer(value) => value.to_string(),
        Value::Real(value) => value.to_string(),
        Value::Text(text) => format!("`{}`", text.chars().take(80).collect::<String>()),
        Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
    };
    Unexpected { found, expected }
}
