//! Merging of warnings that differ only in a number into one warning with the range of that number.
//!
//! Each slot may give the same warning with another count, and nobody reads twenty of those.

use std::collections::HashMap;

/// A sentence split at its numbers.
#[derive(Debug, PartialEq)]
struct Sentence<'a> {
    /// The text around its numbers: one more than there are numbers.
    words: Vec<String>,
    numbers: Vec<Number<'a>>,
}

/// A number within a sentence as it was written, with its value.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Number<'a> {
    text: &'a str,
    value: f64,
}

/// The distinct warnings in order of first appearance. Warnings that differ only in numbers become one.
pub(crate) fn merged(warnings: &[String]) -> Vec<String> {
    let mut groups: Vec<Vec<Sentence<'_>>> = Vec::new();
    let mut known: HashMap<Vec<String>, usize> = HashMap::new();
    for sentence in warnings.iter().map(|warning| Sentence::of(warning)) {
        let group = *known.entry(sentence.words.clone()).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(group) => group.push(sentence),
            None => groups.push(vec![sentence]),
        }
    }
    groups.iter().map(|group| written(group)).collect()
}

impl<'a> Sentence<'a> {
    /// Splits a text. A number stands by itself, such as `12`, `(4.5` or `3%,`. Digits within a word or a
    /// name, as in `rsa-2048` and `TLSv1.3`, do not count.
    fn of(text: &'a str) -> Self {
        let (mut words, mut numbers) = (vec![String::new()], Vec::new());
        for (at, word) in text.split(' ').enumerate() {
            let between = words.last_mut().expect("there is always a word");
            between.push_str(if at > 0 { " " } else { "" });
            let bare =
                word.trim_start_matches(['(', '[']).trim_end_matches([')', ']', ',', ';', ':', '.', '%']);
            let is_plain = bare.starts_with(|first: char| first.is_ascii_digit())
                && bare.chars().all(|c| c.is_ascii_digit() || ".,".contains(c));
            match bare.replace(',', "").parse::<f64>() {
                Ok(value) if is_plain => {
                    let start = word.len() - word.trim_start_matches(['(', '[']).len();
                    numbers.push(Number { text: bare, value });
                    between.push_str(&word[..start]);
                    words.push(word[start + bare.len()..].to_owned());
                }
                _ => between.push_str(word),
            }
        }
        Self { words, numbers }
    }
}

/// The sentence of a group, with `12 to 31` where its numbers differ.
fn written(group: &[Sentence<'_>]) -> String {
    let mut text = group[0].words[0].clone();
    for (place, word) in group[0].words.iter().skip(1).enumerate() {
        let numbers = || group.iter().map(|sentence| sentence.numbers[place]);
        let least = numbers().min_by(|a, b| a.value.total_cmp(&b.value));
        let most = numbers().max_by(|a, b| a.value.total_cmp(&b.value));
        let number = match (least, most) {
            (Some(least), Some(most)) if least.value < most.value => {
                format!("{} to {}", least.text, most.text)
            }
            (Some(only), _) => only.text.to_owned(),
            (None, _) => String::new(),
        };
        text += &number;
        text += word;
    }
    text
}

#[cfg(test)]
mod tests {
    fn merged(warnings: &[&str]) -> Vec<String> {
        super::merged(&warnings.iter().map(|warning| (*warning).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_differs_in_a_number_only_is_said_once() {
        assert_eq!(
            merged(&[
                "the load lost 31 of 1,000 messages (3.1%), and went on",
                "a",
                "the load lost 12 of 1,000 messages (1.2%), and went on",
                "a"
            ]),
            ["the load lost 12 to 31 of 1,000 messages (1.2 to 3.1%), and went on", "a"]
        );
        assert_eq!(merged(&["7 slots failed", "7 slots failed"]), ["7 slots failed"]);
        assert_eq!(merged(&["took 9 s", "took 10 s", "took 9.5 s"]), ["took 9 to 10 s"]);
    }

    #[test]
    fn numbers_within_names_tell_warnings_apart() {
        let apart = [
            "rsa-2048 was skipped",
            "rsa-4096 was skipped",
            "TLSv1.2 was asked for",
            "TLSv1.3 was asked for",
            "b2 (load.connections=20) failed",
            "b2 (load.connections=40) failed",
        ];
        assert_eq!(merged(&apart), apart);
    }

    #[test]
    fn a_sentence_that_is_alone_stays_as_it_is() {
        for text in ["", " ", "a  b", "in 3 of 12 slots [4, 5] (6).", "12", "1.2.3.4 answers", "0.1%"] {
            assert_eq!(merged(&[text]), [text]);
        }
    }
}
