//! Writes field blocks.

use plumb_h2::coding::{integer, string};
use plumb_h2::hpack::{Field, Indexing};

use super::static_table::{self, Found};

/// Writes a block. It means the same on every stream of every connection, so it can be written once and sent again.
pub fn encode<'a>(fields: impl IntoIterator<Item = Field<'a>>, out: &mut Vec<u8>) {
    // Required Insert Count and Base (section 4.5.1).
    out.extend_from_slice(&[0, 0]);
    for field in fields {
        encode_field(&field, out);
    }
}

/// Sections 4.5.2, 4.5.4 and 4.5.6. A field that nobody may index is always a literal, so that the next hop knows.
fn encode_field(field: &Field<'_>, out: &mut Vec<u8>) {
    let is_never = field.indexing == Indexing::Never;
    match static_table::find(field.name, field.value) {
        Found::Field(index) if !is_never => return integer::encode(index, 6, 0xc0, out),
        Found::Field(index) | Found::Name(index) => {
            integer::encode(index, 4, if is_never { 0x70 } else { 0x50 }, out);
        }
        Found::Nothing => string::encode(field.name, 3, if is_never { 0x30 } else { 0x20 }, out),
    }
    string::encode(field.value, 7, 0, out);
}
