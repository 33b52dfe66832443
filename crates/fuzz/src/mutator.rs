//! Changes of an input: bits, numbers at limits, stretches that are cut, repeated or moved, words of the format, pieces of other inputs.

use serde_json::Value;

use crate::json;
use crate::random::Random;

/// Numbers in texts.
const NUMBERS: [&str; 17] = [
    "0",
    "1",
    "-1",
    "-0",
    "00",
    "0.1",
    "1e308",
    "-1e308",
    "1e999",
    "NaN",
    "inf",
    "127",
    "65536",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
];
/// Numbers in binary formats: limits of types, of pages and of blocks.
const WORDS: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    16,
    127,
    128,
    255,
    256,
    4095,
    4096,
    65_535,
    65_536,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    1 << 32,
    i64::MAX as u64,
    u64::MAX,
];
/// The longest stretch that is cut, moved or repeated, in most cases.
const STRETCH: usize = 40;

/// Makes new inputs of known ones. The same seed makes the same inputs.
#[derive(Debug, Clone)]
pub struct Mutator {
    random: Random,
    words: Vec<Vec<u8>>,
    bytes_max: usize,
}

impl Mutator {
    /// A mutator that also inserts `words` of the format, and makes no input of more than `bytes_max` bytes.
    #[must_use]
    pub fn new(seed: u64, words: Vec<Vec<u8>>, bytes_max: usize) -> Self {
        Self { random: Random::new(seed), words, bytes_max }
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.random.below(limit)
    }

    /// Changes an input in one to four places, now and then in many. Pieces of `other` may be moved into it.
    #[must_use]
    pub fn mutate(&mut self, original: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = original.to_vec();
        let changes = if self.below(16) == 0 { 1 + self.below(24) } else { 1 + self.below(4) };
        for _ in 0..changes {
            let is_changed = self.below(2) == 0 && self.change_json(&mut bytes, other);
            match self.below(16) {
                _ if is_changed => {}
                0..=3 => self.change_byte(&mut bytes),
                4..=5 => self.change_word(&mut bytes),
                6..=8 => self.change_stretch(&mut bytes),
                9..=10 => self.change_number(&mut bytes),
                11..=12 => self.change_line(&mut bytes, other),
                13 => self.insert_word(&mut bytes),
                14 => self.change_token(&mut bytes, other),
                _ => self.splice(&mut bytes, other),
            }
            bytes.truncate(self.bytes_max);
        }
        bytes
    }

    fn change_byte(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return bytes.push(self.random.next() as u8);
        }
        let at = self.below(bytes.len());
        match self.below(4) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes[at] = self.random.next() as u8,
            2 => bytes[at] = bytes[at].wrapping_add(1),
            _ => bytes[at] = bytes[at].wrapping_sub(1),
        }
    }

    /// A number of 1, 2, 4 or 8 bytes, in either order.
    fn change_word(&mut self, bytes: &mut [u8]) {
        let length = 1 << self.below(4);
        if bytes.len() < length {
            return;
        }
        let at = self.below(bytes.len() - length + 1);
        let field = &mut bytes[at..at + length];
        let is_big = self.below(2) == 0;
        let old = field.iter().enumerate().fold(0_u64, |word, (place, byte)| {
            let place = if is_big { length - 1 - place } else { place };
            word | u64::from(*byte) << (8 * place)
        });
        let new = match self.below(4) {
            0 => old.wrapping_add(1 + self.below(16) as u64),
            1 => old.wrapping_sub(1 + self.below(16) as u64),
            _ => WORDS[self.below(WORDS.len())],
        };
        for (place, byte) in field.iter_mut().enumerate() {
            let place = if is_big { length - 1 - place } else { place };
            *byte = (new >> (8 * place)) as u8;
        }
    }

    /// A range of an input, most often a short one.
    fn stretch(&mut self, length: usize) -> std::ops::Range<usize> {
        let at = self.below(length);
        let most = if self.below(4) == 0 { length } else { STRETCH };
        at..(at + self.below(most)).min(length)
    }

    fn change_stretch(&mut self, bytes: &mut Vec<u8>) {
        let range = self.stretch(bytes.len());
        let to = self.below(bytes.len());
        match self.below(5) {
            0 => drop(bytes.drain(range)),
            1 => bytes.truncate(range.start),
            2 => {
                let piece: Vec<u8> = bytes.drain(range).collect();
                let to = to.min(bytes.len());
                drop(bytes.splice(to..to, piece));
            }
            3 => {
                let piece = bytes[range].to_vec();
                drop(bytes.splice(to..to, piece));
            }
            _ => {
                let piece = &bytes[range.clone()];
                let copies = self.random.below(1 + (self.bytes_max / 2) / piece.len().max(1));
                let copies = if self.random.below(2) == 0 { copies.min(8) } else { copies };
                let piece = piece.repeat(copies);
                drop(bytes.splice(range.end..range.end, piece));
            }
        }
    }

    /// A number in a text becomes another one.
    fn change_number(&mut self, bytes: &mut Vec<u8>) {
        let from = self.below(bytes.len());
        let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let Some(start) = bytes[from..].iter().position(is_digit).map(|at| from + at) else { return };
        let end = bytes[start..].iter().position(|byte| !is_digit(byte)).map_or(bytes.len(), |at| start + at);
        let number = NUMBERS[self.below(NUMBERS.len())];
        drop(bytes.splice(start..end, number.bytes()));
    }

    /// A line goes, comes twice, comes from elsewhere, or is indented otherwise.
    fn change_line(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let lines = line_starts(bytes);
        let start = lines[self.below(lines.len())];
        let end = line_end(bytes, start);
        match self.below(5) {
            0 => drop(bytes.drain(start..end)),
            1 => {
                let line = bytes[start..end].to_vec();
                let to = lines[self.below(lines.len())];
                drop(bytes.splice(to..to, line));
            }
            2 => {
                let others = line_starts(other);
                let from = others[self.below(others.len())];
                drop(bytes.splice(start..start, other[from..line_end(other, from)].iter().copied()));
            }
            3 => {
                let spaces = bytes[start..end].iter().take_while(|byte| **byte == b' ').count();
                drop(bytes.drain(start..start + spaces.min(2)));
            }
            _ => drop(bytes.splice(start..start, [b' '; 2])),
        }
    }

    fn insert_word(&mut self, bytes: &mut Vec<u8>) {
        if self.words.is_empty() {
            return self.change_byte(bytes);
        }
        let word = self.words[self.random.below(self.words.len())].clone();
        let at = self.below(bytes.len() + 1);
        let end = if self.below(2) == 0 { (at + word.len()).min(bytes.len()) } else { at };
        drop(bytes.splice(at..end, word));
    }

    /// A word of a text becomes another of its words, or one of another input.
    fn change_token(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let from = self.below(bytes.len());
        let range = token(bytes, from);
        let source = if self.below(2) == 0 { other } else { &bytes[..] };
        let piece = source[token(source, self.random.below(source.len()))].to_vec();
        drop(bytes.splice(range, piece));
    }

    fn splice(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        let (to, from) = (self.below(bytes.len() + 1), self.stretch(other.len()));
        if self.below(2) == 0 {
            bytes.truncate(to);
            bytes.extend_from_slice(&other[from.start..]);
        } else {
            let end = (to + from.len()).min(bytes.len());
            drop(bytes.splice(to..end, other[from].iter().copied()));
        }
    }

    /// Changes a line, or all of it, as JSON. `false` where it is none.
    fn change_json(&mut self, bytes: &mut Vec<u8>, other: &[u8]) -> bool {
        let Some((range, mut document)) = self.json_in(bytes) else { return false };
        let other = self.json_in(other).map(|(_, other)| other);
        json::mutate(&mut document, other.as_ref(), &mut self.random);
        let Ok(text) = serde_json::to_vec(&document) else { return false };
        drop(bytes.splice(range, text));
        true
    }

    /// All of an input as JSON, or one of its lines.
    fn json_in(&mut self, bytes: &[u8]) -> Option<(std::ops::Range<usize>, Value)> {
        let lines = line_starts(bytes);
        let start = lines[self.below(lines.len())];
        let line = &bytes[start..line_end(bytes, start)];
        let opens = line.iter().position(|byte| matches!(byte, b'{' | b'['))?;
        let whole = || Some((0..bytes.len(), serde_json::from_slice(bytes).ok()?));
        let in_line = || {
            let closes = line.iter().rposition(|byte| matches!(byte, b'}' | b']'))?;
            let range = opens..closes.max(opens) + 1;
            let document = serde_json::from_slice(&line[range.clone()]).ok()?;
            Some((start + range.start..start + range.end, document))
        };
        if lines.len() > 1 && self.below(2) == 0 { in_line() } else { whole().or_else(in_line) }
    }
}

/// Where lines begin; a byte of 0 ends one as well.
fn line_starts(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| matches!(byte, b'\n' | 0)).map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).collect()
}

/// Behind the end of the line that begins at `start`.
fn line_end(bytes: &[u8], start: usize) -> usize {
    let end = bytes[start..].iter().position(|byte| matches!(byte, b'\n' | 0));
    end.map_or(bytes.len(), |at| start + at + 1)
}

/// The word at a place.
fn token(bytes: &[u8], at: usize) -> std::ops::Range<usize> {
    let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let start = bytes[..at].iter().rposition(|byte| !is_inside(byte)).map_or(0, |before| before + 1);
    let end = bytes[at..].iter().position(|byte| !is_inside(byte)).map_or(bytes.len(), |end| at + end);
    start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_none_is_too_long() {
        let inputs = |seed| {
            let mut mutator = Mutator::new(seed, vec![b"word".to_vec()], 100);
            let mut input = b"{\"a\": [1, 2]}\nname: 12\n".to_vec();
            std::iter::repeat_with(|| {
                input = mutator.mutate(&input, b"{\"z\":{}}\n  other line\n");
                input.clone()
            })
            .take(5000)
            .collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
        assert!(inputs(1).iter().all(|input| input.len() <= 100));
    }

    #[test]
    fn an_empty_input_can_be_changed() {
        let mut mutator = Mutator::new(1, Vec::new(), 100);
        assert!((0..2000).map(|_| mutator.mutate(b"", b"")).any(|input| !input.is_empty()));
    }

    #[test]
    fn a_word_is_found_from_each_of_its_bytes() {
        let text = b"ab cd-e";
        assert_eq!((token(text, 4), token(text, 2), token(text, 0)), (3..7, 0..2, 0..2));
    }
}
