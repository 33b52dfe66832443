//! SETTINGS (RFC 9113, section 6.5.2): what each side tells the other about itself.

use crate::error::{Error, PeerFault};
use crate::frame::encode;
use crate::window::WINDOW_MAX;

/// The settings of one side. The default is that of the RFC, before any SETTINGS frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The largest dynamic table of its decoder, in bytes.
    pub header_table_size: u32,
    /// Whether it accepts PUSH_PROMISE.
    pub enable_push: bool,
    /// The most streams that the other side may have open; `u32::MAX` means unlimited.
    pub max_concurrent_streams: u32,
    /// The window of a new stream, in bytes.
    pub initial_window_size: u32,
    /// The largest payload of a frame that it accepts, in bytes.
    pub max_frame_size: u32,
    /// The largest list of fields that it accepts, as HPACK counts it; `u32::MAX` means unlimited.
    pub max_header_list_size: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            header_table_size: 4096,
            enable_push: true,
            max_concurrent_streams: u32::MAX,
            initial_window_size: 65_535,
            max_frame_size: MAX_FRAME_SIZE_MIN,
            max_header_list_size: u32::MAX,
        }
    }
}

/// The smallest value of SETTINGS_MAX_FRAME_SIZE, and its default.
pub const MAX_FRAME_SIZE_MIN: u32 = 1 << 14;
/// The largest value of SETTINGS_MAX_FRAME_SIZE.
pub const MAX_FRAME_SIZE_MAX: u32 = (1 << 24) - 1;

/// The settings of the RFC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum SettingId {
    /// SETTINGS_HEADER_TABLE_SIZE.
    HeaderTableSize = 1,
    /// SETTINGS_ENABLE_PUSH.
    EnablePush = 2,
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    MaxConcurrentStreams = 3,
    /// SETTINGS_INITIAL_WINDOW_SIZE.
    InitialWindowSize = 4,
    /// SETTINGS_MAX_FRAME_SIZE.
    MaxFrameSize = 5,
    /// SETTINGS_MAX_HEADER_LIST_SIZE.
    MaxHeaderListSize = 6,
}

impl SettingId {
    const ALL: [Self; 6] = [
        Self::HeaderTableSize,
        Self::EnablePush,
        Self::MaxConcurrentStreams,
        Self::InitialWindowSize,
        Self::MaxFrameSize,
        Self::MaxHeaderListSize,
    ];
}

impl Settings {
    fn value(&self, id: SettingId) -> u32 {
        match id {
            SettingId::HeaderTableSize => self.header_table_size,
            SettingId::EnablePush => u32::from(self.enable_push),
            SettingId::MaxConcurrentStreams => self.max_concurrent_streams,
            SettingId::InitialWindowSize => self.initial_window_size,
            SettingId::MaxFrameSize => self.max_frame_size,
            SettingId::MaxHeaderListSize => self.max_header_list_size,
        }
    }

    /// Applies one setting of the peer. Unknown ones are ignored.
    ///
    /// # Errors
    ///
    /// When the RFC forbids the value.
    pub fn apply(&mut self, id: u16, value: u32) -> Result<(), Error> {
        let Some(id) = SettingId::ALL.into_iter().find(|&known| known as u16 == id) else { return Ok(()) };
        match id {
            SettingId::HeaderTableSize => self.header_table_size = value,
            SettingId::EnablePush if value > 1 => return Err(PeerFault::EnablePush.on_connection()),
            SettingId::EnablePush => self.enable_push = value == 1,
            SettingId::MaxConcurrentStreams => self.max_concurrent_streams = value,
            SettingId::InitialWindowSize if value > WINDOW_MAX => {
                return Err(PeerFault::InitialWindowTooLarge.on_connection());
            }
            SettingId::InitialWindowSize => self.initial_window_size = value,
            SettingId::MaxFrameSize if !(MAX_FRAME_SIZE_MIN..=MAX_FRAME_SIZE_MAX).contains(&value) => {
                return Err(PeerFault::MaxFrameSize.on_connection());
            }
            SettingId::MaxFrameSize => self.max_frame_size = value,
            SettingId::MaxHeaderListSize => self.max_header_list_size = value,
        }
        Ok(())
    }

    /// Writes a SETTINGS frame with the settings that differ from the RFC's defaults.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let default = Self::default();
        let changed = SettingId::ALL.into_iter().filter(|&id| self.value(id) != default.value(id));
        let pairs: Vec<(u16, u32)> = changed.map(|id| (id as u16, self.value(id))).collect();
        encode::settings(&pairs, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{Frame, Header};

    #[test]
    fn what_differs_from_the_default_is_sent_and_taken_over() {
        let sent = Settings {
            header_table_size: 0,
            enable_push: false,
            max_concurrent_streams: 100,
            initial_window_size: 1 << 20,
            max_frame_size: 1 << 15,
            max_header_list_size: 9000,
        };
        let mut out = Vec::new();
        sent.encode(&mut out);
        let header = Header::parse(&out).unwrap();
        let Frame::Settings(pairs) = Frame::parse(header, &out[9..]).unwrap() else { panic!("{header:?}") };
        let mut got = Settings::default();
        for (id, value) in pairs.iter() {
            got.apply(id, value).unwrap();
        }
        assert_eq!(got, sent);
        out.clear();
        Settings::default().encode(&mut out);
        assert_eq!(out.len(), 9);
    }

    #[test]
    fn values_have_bounds() {
        let mut settings = Settings::default();
        for (id, value, fault) in [
            (2, 2, PeerFault::EnablePush),
            (4, 1 << 31, PeerFault::InitialWindowTooLarge),
            (5, (1 << 14) - 1, PeerFault::MaxFrameSize),
            (5, 1 << 24, PeerFault::MaxFrameSize),
        ] {
            assert_eq!(settings.apply(id, value), Err(fault.on_connection()));
        }
        settings.apply(7, 1).unwrap();
        assert_eq!(settings, Settings::default());
    }
}
