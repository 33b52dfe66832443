//! The integers and strings of HPACK, which QPACK shares (RFC 7541, section 5; RFC 9204, section 4.1).

mod fault;
pub(crate) mod huffman;
pub mod integer;
pub mod string;

pub use fault::CodingFault;
