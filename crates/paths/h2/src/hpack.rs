//! HPACK (RFC 7541): field blocks, and the tables that one connection shares for each direction.

mod decoder;
mod dynamic_table;
mod encoder;
mod static_table;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use encoder::{Encoder, Repeated, replayable};

/// The size of a dynamic table before SETTINGS change it, in bytes.
pub const TABLE_BYTES_DEFAULT: u32 = 4096;

/// The overhead of a table's entry and of a list's field, beside their bytes (sections 4.1 and 6.5.2 of the two RFCs).
pub const FIELD_OVERHEAD_BYTES: usize = 32;

/// A header field. Names are in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field<'a> {
    /// The name; pseudo-headers begin with a colon.
    pub name: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Whether dynamic tables may keep it.
    pub indexing: Indexing,
}

/// The use of the dynamic tables for a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Indexing {
    /// The field becomes an entry, so that a byte can repeat it.
    Incremental,
    /// The field becomes no entry, because it will not be repeated.
    Without,
    /// The field becomes no entry at any hop, because an attacker could test guesses against the table (section 7.1.3).
    Never,
}

impl<'a> Field<'a> {
    /// A field that becomes an entry.
    #[must_use]
    pub fn new(name: &'a [u8], value: &'a [u8]) -> Self {
        Self { name, value, indexing: Indexing::Incremental }
    }

    /// The size that tables and SETTINGS_MAX_HEADER_LIST_SIZE count, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.name.len() + self.value.len() + FIELD_OVERHEAD_BYTES
    }
}
