//! Frames: their bytes, without the rules of which stream has which.

pub mod encode;
mod reader;

pub use crate::frame_kind::FrameKind;
pub use reader::{Piece, Reader};
