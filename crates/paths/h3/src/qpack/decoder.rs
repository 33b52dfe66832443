//! Reads field blocks.

use plumb_h2::coding::{CodingFault, integer, string};
use plumb_h2::hpack::{Field, Indexing};

use super::static_table;
use crate::error::PeerFault;

/// Storage for strings, which each block uses again. Blocks do not depend on each other.
#[derive(Debug, Default)]
pub struct Decoder {
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Decoder {
    /// Reads a block and hands its fields to `each`.
    ///
    /// # Errors
    ///
    /// When the block breaks a rule or refers to the dynamic table, or when its fields are larger than `fields_bytes_max` together.
    pub fn decode(
        &mut self,
        mut block: &[u8],
        fields_bytes_max: usize,
        mut each: impl FnMut(Field<'_>),
    ) -> Result<(), PeerFault> {
        take_prefix(&mut block)?;
        let mut room = fields_bytes_max;
        while !block.is_empty() {
            let field = self.take_field(&mut block)?;
            room = room.checked_sub(field.size()).ok_or(PeerFault::FieldsTooLong)?;
            each(field);
        }
        Ok(())
    }

    /// Takes a field from the front of a block that is not empty (sections 4.5.2 to 4.5.6).
    fn take_field(&mut self, block: &mut &[u8]) -> Result<Field<'_>, PeerFault> {
        let first = *block.first().ok_or(CodingFault::Truncated)?;
        let name = match first {
            0xc0.. => {
                let (name, value) = take_entry(block, 6)?;
                return Ok(Field { name, value, indexing: Indexing::Without });
            }
            0x50..=0x5f | 0x70..=0x7f => take_entry(block, 4)?.0,
            0x20..=0x3f => {
                string::decode(block, 3, &mut self.name)?;
                &self.name
            }
            _ => return Err(PeerFault::DynamicReference),
        };
        let is_never = match first {
            0x40.. => first & 0x20 != 0,
            _ => first & 0x10 != 0,
        };
        string::decode(block, 7, &mut self.value)?;
        let indexing = if is_never { Indexing::Never } else { Indexing::Without };
        Ok(Field { name, value: &self.value, indexing })
    }
}

/// Required Insert Count and Base (section 4.5.1).
fn take_prefix(block: &mut &[u8]) -> Result<(), PeerFault> {
    if integer::decode(block, 8)? != 0 {
        return Err(PeerFault::RequiredInsertCount);
    }
    let is_negative = block.first().is_some_and(|first| first & 0x80 != 0);
    integer::decode(block, 7)?;
    if is_negative { Err(PeerFault::NegativeBase) } else { Ok(()) }
}

/// Takes an index into the static table.
fn take_entry(block: &mut &[u8], prefix_bits: u32) -> Result<(&'static [u8], &'static [u8]), PeerFault> {
    let index = integer::decode(block, prefix_bits)?;
    static_table::get(index).ok_or(PeerFault::NoSuchIndex)
}
