//! SETTINGS (RFC 9114, section 7.2.4; RFC 9204, section 5): what each side tells the other about itself.

use crate::error::PeerFault;
use crate::frame::{FrameKind, encode};
use crate::varint;

/// The settings of one side. The default is that of the RFCs, and holds until a SETTINGS frame arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY: the largest dynamic table of its decoder, in bytes. This crate's own decoder has none.
    pub qpack_max_table_capacity: u64,
    /// SETTINGS_MAX_FIELD_SECTION_SIZE: the largest list of fields that it takes, counted as in HPACK. `None` means unlimited.
    pub max_field_section_size: Option<u64>,
    /// SETTINGS_QPACK_BLOCKED_STREAMS: the most streams that may wait for its dynamic table.
    pub qpack_blocked_streams: u64,
}

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
const QPACK_BLOCKED_STREAMS: u64 = 0x7;

impl Settings {
    /// Reads the payload of a SETTINGS frame. Unknown settings are ignored.
    ///
    /// # Errors
    ///
    /// When a setting is cut off, occurs twice, or is one of HTTP/2 that is reserved.
    pub fn decode(mut payload: &[u8]) -> Result<Self, PeerFault> {
        let mut settings = Self::default();
        let mut seen = Vec::new();
        while !payload.is_empty() {
            let cut_off = PeerFault::FrameLength(FrameKind::Settings);
            let id = varint::decode(&mut payload).ok_or(cut_off)?;
            let value = varint::decode(&mut payload).ok_or(cut_off)?;
            seen.push(id);
            match id {
                QPACK_MAX_TABLE_CAPACITY => settings.qpack_max_table_capacity = value,
                MAX_FIELD_SECTION_SIZE => settings.max_field_section_size = Some(value),
                QPACK_BLOCKED_STREAMS => settings.qpack_blocked_streams = value,
                0x0 | 0x2..=0x5 => return Err(PeerFault::SettingReserved(id)),
                _ => {}
            }
        }
        seen.sort_unstable();
        match seen.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(PeerFault::SettingTwice(pair[0])),
            None => Ok(settings),
        }
    }

    /// Writes a SETTINGS frame with all that differs from the default. It is the first frame after [`crate::StreamKind::Control`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        let pairs = [
            (QPACK_MAX_TABLE_CAPACITY, Some(self.qpack_max_table_capacity).filter(|&value| value > 0)),
            (MAX_FIELD_SECTION_SIZE, self.max_field_section_size),
            (QPACK_BLOCKED_STREAMS, Some(self.qpack_blocked_streams).filter(|&value| value > 0)),
        ];
        let mut payload = Vec::new();
        for (id, value) in pairs {
            let Some(value) = value else { continue };
            varint::encode(id, &mut payload);
            varint::encode(value, &mut payload);
        }
        encode::frame(FrameKind::Settings, &payload, out);
    }
}
