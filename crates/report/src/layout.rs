//! Text in columns and lines of a given width, for terminals.
//!
//! Names and reasons come from files and from other programs, so what a terminal would obey is escaped here: a report must
//! not move the cursor or change colours on its reader's terminal.

/// What a text means, for those terminals that show colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A heading.
    Title,
    /// What explains the rest.
    Quiet,
    /// As it should be.
    Good,
    /// A failure.
    Bad,
    /// What the reader has to know before trusting the rest.
    Doubt,
}

/// Puts tones on texts, or leaves them alone.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    pub colour: bool,
}

impl Paint {
    pub fn on(self, tone: Tone, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Title => "1",
            Tone::Quiet => "2",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Doubt => "33",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// The text on one line, with nothing in it that a terminal would obey.
pub fn clean(text: &str) -> String {
    plumb_model::printable(text).into_owned()
}

/// The text in at most `width` characters, with an ellipsis where it was cut.
pub fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// The text in lines of at most `width` characters, broken between words, and within words that are longer than a line.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in clean(text).split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        if used > 0 && used + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        used += word.len();
        line.extend(word);
    }
    if used > 0 {
        lines.push(line);
    }
    lines
}

/// Pads on the left to `width` characters.
pub fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(text.chars().count())))
}

/// Pads on the right to `width` characters.
pub fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.chars().count())))
}

/// The width in characters of the widest text.
pub fn widest<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts.into_iter().map(|text| text.chars().count()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_texts_are_broken_between_words_and_long_words_within() {
        assert_eq!(wrap("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("abcdefghijkl mno", 8), ["abcdefgh", "ijkl mno"]);
        assert_eq!(wrap("  ", 8), Vec::<String>::new());
        assert_eq!(
            (shorten("haproxy-with-openssl", 10), shorten("short", 10)),
            ("haproxy-w…".into(), "short".into())
        );
    }

    #[test]
    fn no_control_character_reaches_the_terminal() {
        assert_eq!(clean("a\u{1b}[31mb\nc"), "a\\u{1b}[31mb c");
        assert_eq!(Paint { colour: false }.on(Tone::Bad, "x"), "x");
        assert_eq!(Paint { colour: true }.on(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
    }

    proptest! {
        #[test]
        fn wrapping_loses_no_letter_and_keeps_the_width(text in "\\PC{0,200}", width in 8_usize..60) {
            let lines = wrap(&text, width);
            prop_assert!(lines.iter().all(|line| line.chars().count() <= width));
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&lines.concat()), letters(&clean(&text)));
        }
    }
}
