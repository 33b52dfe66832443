//! Text in columns and lines of a given width, for terminals.
//!
//! Names and reasons come from files and from other programs, so what a terminal would obey is escaped here: a report must
//! not move the cursor or change colours on its reader's terminal.

/// The meaning of a text, for those terminals that show colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// A heading.
    Title,
    /// An explanation of the rest.
    Quiet,
    /// As it should be.
    Good,
    /// A failure.
    Bad,
    /// A caveat to read before trusting the rest.
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

/// The first lines of the text, and an ellipsis after a whole word where there are more.
pub fn limited(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = wrap(text, width);
    if lines.len() <= most {
        return lines;
    }
    lines.truncate(most);
    if let Some(last) = lines.last_mut() {
        while last.chars().count() + 2 > width
            && let Some((before, _)) = last.rsplit_once(' ')
        {
            *last = before.to_owned();
        }
        *last = match last.chars().count() + 2 > width {
            true => shorten(&format!("{last}…"), width.min(last.chars().count())),
            false => format!("{last} …"),
        };
    }
    lines
}

/// The most lines of a remedy.
const REMEDY_MAX: usize = 3;

/// The first words of remedies in warnings and cautions. Any other clause after a `; ` is a reason or a consequence, and must
/// not be shown as advice.
const REMEDIES: [&str; 10] = [
    "add `",
    "add a `cooldown`",
    "give ",
    "import at ",
    "install ",
    "it fades within ",
    "lower `",
    "move to ",
    "raise ",
    "run it ",
];

/// The text in `most` lines. If it does not fit, the diagnosis before its last `; ` is shortened to make room, and the remedy
/// after it gets separate lines, up to [`REMEDY_MAX`].
pub fn fitted(text: &str, width: usize, most: usize) -> Vec<String> {
    let is_long = wrap(text, width).len() > most;
    let Some((diagnosis, remedy)) = text.rsplit_once("; ").filter(|(_, tail)| is_long && is_remedy(tail))
    else {
        return limited(text, width, most);
    };
    let remedy = limited(&format!("→ {remedy}"), width, REMEDY_MAX);
    let mut lines = limited(diagnosis, width, most.saturating_sub(remedy.len()).max(1));
    lines.extend(remedy);
    lines
}

fn is_remedy(text: &str) -> bool {
    REMEDIES.iter().any(|begin| text.starts_with(begin))
}

/// The words of a text. What stands in backticks, such as a command to copy, is one word if it fits into a line.
fn split_into_words(text: &str, width: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut quote: Option<usize> = None;
    for word in text.split_whitespace() {
        let opens = quote.is_none() && word.matches('`').count() % 2 == 1;
        let closes = quote.is_some() && word.contains('`');
        words.push(word.to_owned());
        if opens {
            quote = Some(words.len() - 1);
        } else if closes && let Some(from) = quote.take() {
            let joined = words[from..].join(" ");
            if joined.chars().count() <= width {
                words.truncate(from);
                words.push(joined);
            }
        }
    }
    words
}

/// The text in lines of at most `width` characters, broken between words, and within words that are longer than a line.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in split_into_words(&clean(text), width) {
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

/// The lines of a table: the first and the last column to the left, the others, which are numbers, to the right.
pub fn columns(paint: Paint, indent: usize, head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let all = || std::iter::once(&head).chain(rows);
    let last = head.len().saturating_sub(1);
    let widths: Vec<usize> =
        (0..head.len()).map(|at| widest(all().filter_map(|row| row.get(at)).map(String::as_str))).collect();
    let line = |(number, row): (usize, &Vec<String>)| {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (text, width))| {
            let text = clean(text);
            if at == 0 || at == last { left(&text, *width) } else { right(&text, *width) }
        });
        let cells = cells.collect::<Vec<String>>().join("  ");
        let line = format!("{}{cells}", " ".repeat(indent)).trim_end().to_owned();
        if number == 0 { paint.on(Tone::Quiet, &line) } else { line }
    };
    all().enumerate().map(line).collect()
}

/// Characters of a bar.
const BAR_WIDTH: usize = 20;

/// A share from 0 to 1 as a bar; anything above 0 shows.
pub fn bar(share: f64) -> String {
    let filled = ((share * BAR_WIDTH as f64).round() as usize).max(usize::from(share > 0.0));
    (0..BAR_WIDTH).map(|at| if at < filled { '█' } else { '·' }).collect()
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
    fn a_command_in_backticks_is_not_broken() {
        let text = "continue with `plumb run --resume DIR` or not";
        assert_eq!(wrap(text, 24), ["continue with", "`plumb run --resume DIR`", "or not"]);
        assert_eq!(wrap("a `b c` and `d e f g h i` j", 8), ["a `b c`", "and `d e", "f g h i`", "j"]);
    }

    #[test]
    fn the_remedy_is_whole_and_the_diagnosis_is_cut_between_words() {
        let text = "two sides of a long story that nobody reads to its end; give each side its own CPUs";
        assert_eq!(fitted(text, 100, 1), [text]);
        assert_eq!(fitted(text, 30, 2), ["two sides of a long story …", "→ give each side its own CPUs"]);
        assert_eq!(fitted(text, 30, 1), fitted(text, 30, 2));
        assert_eq!(fitted("one two three four", 10, 1), ["one two …"]);
        let reason = "verdicts were allowed from 2 blocks on; below 6 a disturbance can pass for an effect";
        assert_eq!(fitted(reason, 30, 2), ["verdicts were allowed from 2", "blocks on; below 6 a …"]);
        assert_eq!(limited("abcdefghijk", 10, 1), ["abcdefghi…"]);
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
