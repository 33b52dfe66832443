//! Writes field blocks.

use super::dynamic_table::DynamicTable;
use super::{Field, Indexing, TABLE_BYTES_DEFAULT, huffman, integer, static_table};

/// A block that uses the static table alone and leaves nothing in the dynamic one. It means the same on every stream of every connection,
/// so it is encoded once and sent again byte for byte, after what [`Encoder::begin_block`] writes.
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

/// The state of one direction of a connection.
#[derive(Debug)]
pub struct Encoder {
    pub(super) table: DynamicTable,
    /// The smallest size since the last block, which the next block must announce.
    lowest: Option<usize>,
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
        Self { table: DynamicTable::new(TABLE_BYTES_DEFAULT as usize), lowest: None }
    }

    /// The peer's SETTINGS_HEADER_TABLE_SIZE arrived. A table above 4096 bytes is not used.
    pub fn set_table_size(&mut self, bytes_max: u32) {
        let bytes_max = bytes_max.min(TABLE_BYTES_DEFAULT) as usize;
        if bytes_max != self.table.bytes_max() {
            self.lowest = Some(self.lowest.unwrap_or(bytes_max).min(bytes_max));
            self.table.resize(bytes_max);
        }
    }

    /// Writes the changes of the table's size with which the next block must begin; usually there are none. [`Encoder::encode`] calls it.
    pub fn begin_block(&mut self, out: &mut Vec<u8>) {
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

/// Writes one field, given where the tables have its name, or 0, and whether its value too.
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
        string(field.name, out);
    }
    string(field.value, out);
}

/// Writes a string in the shorter of its two forms.
fn string(text: &[u8], out: &mut Vec<u8>) {
    let length = huffman::encoded_length(text);
    if length < text.len() {
        integer::encode(length, 7, 0x80, out);
        huffman::encode(text, out);
    } else {
        integer::encode(text.len(), 7, 0, out);
        out.extend_from_slice(text);
    }
}
