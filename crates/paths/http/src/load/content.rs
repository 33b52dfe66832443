//! A head's description of its body, kept short enough to compare for every answer.

/// A head's description of its body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Content {
    /// The media type without its parameters.
    pub media_type: Label,
    /// The content coding, such as `gzip`.
    pub coding: Label,
}

/// The beginning of a header's value, in lower case: enough to tell values apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Label {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

impl Content {
    /// Stands for all descriptions beyond those that are counted separately.
    #[must_use]
    pub fn other() -> Self {
        let label = Label::from_value(b"other");
        Self { media_type: label, coding: label }
    }
}

impl Label {
    const BYTES_MAX: usize = 31;

    /// The label of a header's value, without its parameters.
    #[must_use]
    pub fn from_value(value: &[u8]) -> Self {
        let value = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let mut label = Self::default();
        for (kept, byte) in label.bytes.iter_mut().zip(value) {
            *kept = if byte.is_ascii_graphic() { byte.to_ascii_lowercase() } else { b'?' };
            label.length += 1;
        }
        label
    }

    /// The text; `none` where there was no such header.
    #[must_use]
    pub fn text(&self) -> &str {
        let text = std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default();
        if text.is_empty() { "none" } else { text }
    }
}
