//! Machines that write text: prose, source code, tables of numbers, and markup.

use super::automaton::{Automaton, Builder, Echo};
use super::random::Random;

/// Consonants and vowels by about their frequency in English text.
const LETTERS: &[u8] =
    b"eeeeeeeeeeeetttttttttaaaaaaaaooooooooiiiiiiinnnnnnnsssssshhhhhhrrrrrrddddllllcccuuummmwwffggyyppbbvk";
const VOWELS: &[u8] = b"eeeeaaaooiiuy";

/// Words of two to nine letters that can be pronounced.
pub(super) fn pronounceable_words(random: &mut Random, count: usize) -> Vec<Vec<u8>> {
    let mut word = || {
        let length = 2 + random.below(4) + random.below(5);
        let letter = |at: usize| if at % 2 == 1 { VOWELS } else { LETTERS };
        (0..length).map(|at| letter(at)[random.below(letter(at).len())]).collect()
    };
    (0..count).map(|_| word()).collect()
}

/// Sentences of words that are as frequent as their rank says, and of phrases that come again.
pub(super) fn prose(random: &mut Random) -> Automaton {
    let mut vocabulary = pronounceable_words(random, 6000);
    for word in &mut vocabulary {
        match random.below(14) {
            0 => word.extend(b", "),
            1 => word.extend(b".\n"),
            _ => word.push(b' '),
        }
    }
    let mut builder = Builder::new(1);
    builder.ranked(0, 1.0, &vocabulary, 0);
    let harmonic: f64 = (0..vocabulary.len()).map(|rank| 1.0 / (rank + 2) as f64).sum();
    for _ in 0..3000 {
        let mut phrase = Vec::new();
        for _ in 0..3 {
            let word = &vocabulary[random.skewed(vocabulary.len(), 4.0)];
            if phrase.len() + word.len() <= 32 {
                phrase.extend_from_slice(word);
            }
        }
        builder.token(0, 0.05 * harmonic / 3000.0, &phrase, &[], 0);
    }
    builder.build(15, Echo { share: 28, least: 8, more: 15 })
}

/// Lines of a program in the manner of C.
pub(super) fn source(random: &mut Random) -> Automaton {
    let names = pronounceable_words(random, 900);
    let mut pieces = Vec::new();
    for _ in 0..4500 {
        let mut name = || names[random.skewed(names.len(), 2.5)].clone();
        let (a, b) = (name(), name());
        let indent = [b"\t".as_slice(), b"\t\t", b"    ", b"        "][random.below(4)];
        let mut piece = match random.below(8) {
            0 => [indent, b"if (", &a, b"->", &b, b") {\n"].concat(),
            1 => [indent, b"return ", &a, b";\n"].concat(),
            2 => [indent, b"static int ", &a, b"(void *", &b, b")"].concat(),
            3 => [indent, &a, b" = ", &b, b"(ctx, "].concat(),
            4 => [b"/* ".as_slice(), &a, b" ", &b, b" */\n"].concat(),
            5 => [b"#define ".as_slice(), &a.to_ascii_uppercase(), b" "].concat(),
            6 => [&a, b"_".as_slice(), &b, b", "].concat(),
            _ => [&a, b"->".as_slice(), &b, b");\n"].concat(),
        };
        piece.truncate(32);
        pieces.push(piece);
    }
    let mut builder = Builder::new(1);
    builder.ranked(0, 0.5, &pieces, 0);
    builder.build(14, Echo { share: 60, least: 14, more: 31 })
}

/// Rows of columns, most of which hold the same few numbers, as in tables of molecules.
pub(super) fn table(random: &mut Random) -> Automaton {
    let mut builder = Builder::new(2);
    for _ in 0..60 {
        let weight = 1.0 / (1.0 + random.below(9) as f64);
        builder.token(0, weight, b"    0.0000    0.0000 C   0", &[0, 0, 0, 0, 0, 0, 0, 7, 7], 1);
    }
    let rows: Vec<Vec<u8>> = (0..300)
        .map(|_| {
            let columns: String = (0..10).map(|_| format!("{:3}", random.skewed(12, 3.0))).collect();
            [columns.as_bytes(), b"\n"].concat()
        })
        .collect();
    builder.ranked(1, 1.3, &rows, 1);
    for row in &rows[..20] {
        builder.token(1, 0.008, row, &[], 0);
    }
    builder.build(12, Echo { share: 16, least: 40, more: 63 })
}

/// Elements with an attribute, and values that are words or times.
pub(super) fn markup(random: &mut Random) -> Automaton {
    let (names, values) = (pronounceable_words(random, 60), pronounceable_words(random, 600));
    let mut builder = Builder::new(3);
    for (rank, name) in names.iter().enumerate() {
        let weight = 1.0 / (rank + 2) as f64;
        builder.token(0, weight, &[b"    <", name.as_slice(), b" type=\"string\">"].concat(), &[], 1);
        builder.token(2, weight, &[b"</", name.as_slice(), b">\n"].concat(), &[], 0);
    }
    builder.ranked(1, 1.1, &values, 2);
    let digits = [0, 0, 0, 7, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 3, 0, 7, 0, 7];
    builder.token(1, 0.3, b"2000-07-10T12:00:00", &digits, 2);
    builder.build(12, Echo { share: 24, least: 40, more: 63 })
}
