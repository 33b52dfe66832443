//! Reads field blocks.

use super::dynamic_table::DynamicTable;
use super::{Field, Indexing, TABLE_BYTES_DEFAULT};
use crate::coding::{integer, string};
use crate::error::PeerFault;

/// The state of one direction of a connection. It must decode every field block in the order of arrival, including those of streams that
/// have ended.
#[derive(Debug)]
pub struct Decoder {
    pub(super) table: DynamicTable,
    /// The largest table that this side's SETTINGS allow; the peer chooses a size up to it.
    table_bytes_max: usize,
    /// Whether SETTINGS lowered the limit below the table's size, so that the next block must begin with a new size.
    owes_update: bool,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Decoder {
    /// A decoder with a table of 4096 bytes, the limit until SETTINGS are acknowledged.
    #[must_use]
    pub fn new() -> Self {
        let table_bytes_max = TABLE_BYTES_DEFAULT as usize;
        let table = DynamicTable::new(table_bytes_max);
        Self { table, table_bytes_max, owes_update: false, name: Vec::new(), value: Vec::new() }
    }

    /// Applies this side's SETTINGS_HEADER_TABLE_SIZE, which the peer has acknowledged.
    pub fn set_table_size(&mut self, bytes_max: u32) {
        self.table_bytes_max = bytes_max as usize;
        self.owes_update = self.table_bytes_max < self.table.bytes_max();
    }

    /// Reads a block and hands its fields to `each`.
    ///
    /// # Errors
    ///
    /// [`PeerFault::FieldsTooLong`] when the fields together exceed `list_bytes_max`. The decoder then reads the rest without handing it on, so it
    /// stays usable, and only the stream has to end. All other faults end the connection.
    pub fn decode(
        &mut self,
        mut block: &[u8],
        list_bytes_max: usize,
        mut each: impl FnMut(Field<'_>),
    ) -> Result<(), PeerFault> {
        self.take_updates(&mut block)?;
        let mut room = Some(list_bytes_max);
        while !block.is_empty() {
            let mut bounded = |field: Field<'_>| {
                room = room.and_then(|room| room.checked_sub(field.size()));
                if room.is_some() {
                    each(field);
                }
            };
            self.take_field(&mut block, &mut bounded)?;
        }
        room.map(drop).ok_or(PeerFault::FieldsTooLong)
    }

    /// Changes of the table's size stand at the beginning of a block (section 4.2).
    fn take_updates(&mut self, block: &mut &[u8]) -> Result<(), PeerFault> {
        while let Some(&first) = block.first()
            && first & 0xe0 == 0x20
        {
            let bytes_max = integer::decode(block, 5)?;
            if bytes_max > self.table_bytes_max {
                return Err(PeerFault::TableSizeTooLarge);
            }
            self.table.resize(bytes_max);
            self.owes_update = false;
        }
        if self.owes_update { Err(PeerFault::TableSizeMissing) } else { Ok(()) }
    }

    fn take_field(&mut self, block: &mut &[u8], each: &mut impl FnMut(Field<'_>)) -> Result<(), PeerFault> {
        let (prefix_bits, indexing) = match block.first() {
            Some(0x80..) => {
                let index = integer::decode(block, 7)?;
                let (name, value) = self.table.get(index).ok_or(PeerFault::NoSuchIndex)?;
                each(Field::new(name, value));
                return Ok(());
            }
            Some(0x40..) => (6, Indexing::Incremental),
            Some(0x20..) => return Err(PeerFault::TableSizeLate),
            Some(0x10..) => (4, Indexing::Never),
            _ => (4, Indexing::Without),
        };
        let index = integer::decode(block, prefix_bits)?;
        if index == 0 {
            string::decode(block, 7, &mut self.name)?;
        } else {
            let (name, _) = self.table.get(index).ok_or(PeerFault::NoSuchIndex)?;
            self.name.clear();
            self.name.extend_from_slice(name);
        }
        string::decode(block, 7, &mut self.value)?;
        each(Field { name: &self.name, value: &self.value, indexing });
        if indexing == Indexing::Incremental {
            self.table.insert(&self.name, &self.value);
        }
        Ok(())
    }
}
