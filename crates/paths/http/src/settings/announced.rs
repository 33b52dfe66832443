//! The settings that a client of HTTP/2 announces in its first frames.

use plumb_h2::{MAX_FRAME_SIZE_MAX, MAX_FRAME_SIZE_MIN, Settings, WINDOW_MAX};
use plumb_model::Bytes;

use super::load::LoadSettings;

/// One setting that the client announces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Announced {
    /// The key.
    pub key: &'static str,
    /// The name, which is also that of the property under which the value is observed.
    pub name: &'static str,
    /// The value.
    pub bytes: Bytes,
    /// The value if the user gives none.
    pub default: Bytes,
    /// The smallest and the largest value.
    pub range: [Bytes; 2],
}

impl Announced {
    /// All that a load announces.
    #[must_use]
    pub fn all(load: &LoadSettings) -> [Self; 4] {
        let default = LoadSettings::default();
        let one = |key, name, of: fn(&LoadSettings) -> Bytes, [least, most]: [u32; 2]| Self {
            key,
            name,
            bytes: of(load),
            default: of(&default),
            range: [least, most].map(|bytes| Bytes(bytes.into())),
        };
        let connection = [Settings::default().initial_window_size, WINDOW_MAX];
        [
            one("load.windows.connection", "connection window", |load| load.windows.connection, connection),
            one("load.windows.stream", "stream window", |load| load.windows.stream, [1, WINDOW_MAX]),
            one(
                "load.max_frame",
                "largest frame",
                |load| load.max_frame,
                [MAX_FRAME_SIZE_MIN, MAX_FRAME_SIZE_MAX],
            ),
            one("load.header_table", "header table", |load| load.header_table, [0, u32::MAX]),
        ]
    }

    /// Those that the user changed.
    pub fn changed(load: &LoadSettings) -> impl Iterator<Item = Self> {
        Self::all(load).into_iter().filter(|one| one.bytes != one.default)
    }
}
