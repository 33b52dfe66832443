//! Writes field blocks.

use std::sync::Arc;

use super::dynamic_table::DynamicTable;
use super::{Field, Indexing, TABLE_BYTES_DEFAULT, static_table};
use crate::coding::{integer, string};

/// Encodes a block with the static table alone, and without new entries in the dynamic one. The block means the same on every stream of
/// every connection, unless a change of the table's size must be announced.
#[must_use]
pub fn replayable<'a>(fields: impl IntoIterator<Item = Field<'a>>) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        let indexing = match field.indexing {
            Indexing::Incremental => Indexing::Without,
            other => other,
        };
        write(&Field { indexing, ..field }, static_table::find(field.name, field.value), &mut out);
    }
    out
}

/// A block that is encoded once and sent on every stream of every connection. The first time on a connection, it adds its fields to the
/// table. After that, it refers to these entries, as browsers do.
#[derive(Debug, Clone)]
pub struct Repeated {
    /// The block that adds the entries.
    first: Arc<[u8]>,
    /// The block that refers to the entries while they are the youngest.
    again: Arc<[u8]>,
    /// The block for a table that cannot hold all entries.
    literal: Arc<[u8]>,
    /// The size of the entries.
    bytes: usize,
}

impl Repeated {
    /// Encodes fields.
    #[must_use]
    pub fn new<'a>(fields: impl IntoIterator<Item = Field<'a>, IntoIter: Clone>) -> Self {
        let fields = fields.into_iter();
        let mut encoder = Encoder::new();
        let [first, again] = [(); 2].map(|()| {
            let mut block = Vec::new();
            encoder.encode(fields.clone(), &mut block);
            block.into()
        });
        let is_entry = |field: &Field<'_>| {
            field.indexing == Indexing::Incremental && !static_table::find(field.name, field.value).1
        };
        let bytes = fields.clone().filter(is_entry).map(|field| field.size()).sum();
        Self { first, again, literal: replayable(fields).into(), bytes }
    }
}

/// The state of one direction of a connection.
#[derive(Debug)]
pub struct Encoder {
    pub(super) table: DynamicTable,
    /// The smallest size since the last block, which the next block must announce.
    lowest: Option<usize>,
    /// Whether the peer has the entries of the repeated block. A connection has at most one, and then encodes nothing else.
    has_repeated: bool,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// An encoder with a table of 4096 bytes, which holds until the peer's SETTINGS arrive.
    #[must_use]
    pub fn new() -> Self {
        Self { table: DynamicTable::new(TABLE_BYTES_DEFAULT as usize), lowest: None, has_repeated: false }
    }

    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE. The table never grows above 4096 bytes.
    pub fn set_table_size(&mut self, bytes_max: u32) {
        let bytes_max = bytes_max.min(TABLE_BYTES_DEFAULT) as usize;
        if bytes_max != self.table.bytes_max() {
            self.lowest = Some(self.lowest.unwrap_or(bytes_max).min(bytes_max));
            self.table.resize(bytes_max);
        }
    }

    /// The bytes of a repeated block for this connection. They must be the next block that is sent.
    pub fn repeat<'b>(&mut self, block: &'b Repeated, out: &mut Vec<u8>) -> &'b [u8] {
        self.has_repeated &= self.lowest.is_none_or(|lowest| lowest >= block.bytes);
        self.begin_block(out);
        if block.bytes > self.table.bytes_max() {
            return &block.literal;
        }
        if std::mem::replace(&mut self.has_repeated, true) { &block.again } else { &block.first }
    }

    /// Writes the changes of the table's size, if there were any. The next block must begin with them.
    pub(super) fn begin_block(&mut self, out: &mut Vec<u8>) {
        let Some(lowest) = self.lowest.take() else { return };
        let size = self.table.bytes_max();
        if lowest < size {
            integer::encode(lowest, 5, 0x20, out);
        }
        integer::encode(size, 5, 0x20, out);
    }

    /// Writes a block.
    pub fn encode<'a>(&mut self, fields: impl IntoIterator<Item = Field<'a>>, out: &mut Vec<u8>) {
        self.begin_block(out);
        for field in fields {
            let found = self.table.find(field.name, field.value);
            write(&field, found, out);
            if field.indexing == Indexing::Incremental && !found.1 {
                self.table.insert(field.name, field.value);
            }
        }
    }
}

/// Writes one field. `found` has the index of its name in the tables, or 0, and whether that entry has its value too.
fn write(field: &Field<'_>, (index, has_value): (usize, bool), out: &mut Vec<u8>) {
    let (prefix_bits, first) = match field.indexing {
        Indexing::Incremental | Indexing::Without if has_value => {
            return integer::encode(index, 7, 0x80, out);
        }
        Indexing::Incremental => (6, 0x40),
        Indexing::Without => (4, 0),
        Indexing::Never => (4, 0x10),
    };
    integer::encode(index, prefix_bits, first, out);
    if index == 0 {
        string::encode(field.name, 7, 0, out);
    }
    string::encode(field.value, 7, 0, out);
}
