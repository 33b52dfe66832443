//! QPACK (RFC 9204) with the static table alone.

mod decoder;
mod encoder;
mod instructions;
mod static_table;
#[cfg(test)]
mod tests;

pub use decoder::Decoder;
pub use encoder::encode;
pub use instructions::{DecoderStream, check_encoder_stream};
