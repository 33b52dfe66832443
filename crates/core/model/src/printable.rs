//! Texts from outside, made fit to be shown.
//!
//! Titles, names, peers' answers and the errors of other programs end up on terminals and in reports. There a control
//! character could move the cursor or hide a line, and a bidirectional one could make a text read as another. Each is
//! shown as its escape, so that a reader sees that it was there.

use std::borrow::Cow;

/// Whether a terminal would obey the character, or a reader be misled by it. Line breaks and tabs are not among these.
#[must_use]
pub fn is_unprintable(character: char) -> bool {
    match character {
        '\n' | '\r' | '\t' => false,
        // Unicode's property Bidi_Control (UAX #9), the separators of lines and paragraphs, and the byte order mark.
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2028}' | '\u{2029}' | '\u{feff}' => true,
        // Invisible characters, which can make two different names look the same. The joiners stay, because some scripts need them.
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{200b}' => true,
        '\u{180b}'..='\u{180f}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' => true,
        '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' => true,
        // Characters that XML 1.0 cannot hold, and tags, which no font shows.
        '\u{fffe}' | '\u{ffff}' | '\u{e0000}'..='\u{e007f}' => true,
        other => other.is_control(),
    }
}

/// The text on one line: line breaks and tabs as spaces, all else that is not to be shown as `\u{1b}`.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_break = |character: char| matches!(character, '\n' | '\r' | '\t');
    if !text.contains(|character| is_break(character) || is_unprintable(character)) {
        return Cow::Borrowed(text);
    }
    let spaced: String = text.chars().map(|c| if is_break(c) { ' ' } else { c }).collect();
    Cow::Owned(printable_lines(&spaced).into_owned())
}

/// As [`printable`], for a text that may have several lines and tabs. A carriage return is not a line break.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character, out| out.extend(character.escape_unicode()))
}

/// JSON text in which no string has a character that is not to be shown; it means the same as before.
#[must_use]
pub fn printable_json(json: &str) -> Cow<'_, str> {
    escaped(json, |character, out| {
        let mut units = [0; 2];
        for unit in character.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    })
}

fn escaped(text: &str, escape: fn(char, &mut String)) -> Cow<'_, str> {
    let is_wrong = |character: char| character == '\r' || is_unprintable(character);
    // The JSON of a run is long, and nearly always plain.
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t');
    if text.as_bytes().iter().all(is_plain) || !text.contains(is_wrong) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_wrong(character) { escape(character, &mut out) } else { out.push(character) }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        assert_eq!(printable("a\u{1b}[31mb\nc\0"), "a\\u{1b}[31mb c\\u{0}");
        assert_eq!(printable("user\u{202e}txt.exe"), "user\\u{202e}txt.exe");
        for invisible in
            "\u{ad}\u{34f}\u{115f}\u{1160}\u{17b4}\u{180b}\u{180e}\u{200b}\u{2060}\u{2066}\u{206f}\u{2800}\u{3164}\u{ffa0}\u{fff0}\u{fffb}\u{1d173}"
                .chars()
        {
            assert_eq!(
                printable(&format!("qat{invisible}")),
                format!("qat\\u{{{:x}}}", u32::from(invisible))
            );
        }
        assert_eq!(printable("می\u{200c}خواهم"), "می\u{200c}خواهم");
        assert_eq!(printable_lines("a\r\n\tb\u{9b}2J"), "a\\u{d}\n\tb\\u{9b}2J");
        assert!(matches!(printable("größer als 5 µs → ✔"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_means_the_same_as_before() {
        let text = "x\u{9b}\u{7f}\u{202e}\u{e0041}\u{feff}y";
        let json = serde_json::to_string(text).unwrap();
        let safe = printable_json(&json);
        assert!(!safe.contains(is_unprintable), "{safe}");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), text);
    }

    proptest! {
        #[test]
        fn nothing_unprintable_is_left(text in "(.|\\s|\\PC|\\p{Cc}|\\p{Cf}){0,60}") {
            prop_assert!(!printable(&text).contains(|c: char| is_unprintable(c) || c.is_control()));
            prop_assert!(!printable_lines(&text).contains(is_unprintable));
        }
    }
}
