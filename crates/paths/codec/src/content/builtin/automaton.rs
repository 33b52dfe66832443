//! The machine that writes pages: states, each with a table of tokens; a token is up to 32 bytes, some bits of them random.
//!
//! Filling memory must not take longer than moving it, so a step is one multiplication, two look-ups and four writes of
//! eight bytes, whatever the token's length. What a page holds depends on its seed alone, so that any thread may fill it.

use super::random::Random;

const TOKEN_BYTES: usize = 32;
const WORDS: usize = TOKEN_BYTES / 8;
/// The factor that turns the bits that chose a token into the bits of its noise: an odd number with as many ones as zeros.
const NOISE: u64 = 0xe703_7ed1_a0b4_28db;

/// A piece of content: what it says, which of its bits are random, and the state that follows it.
#[derive(Debug, Clone, Copy)]
struct Token {
    base: [u64; WORDS],
    noise: [u64; WORDS],
    length: u32,
    next: u32,
}

/// How often a page says again what it said before, in the same words: what makes real data compress in a window as
/// short as a page.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Echo {
    /// How many of 256 steps repeat.
    pub(super) share: u8,
    /// The fewest bytes of a repetition.
    pub(super) least: u8,
    /// The random bits that are added to them: one less than a power of two.
    pub(super) more: u8,
}

/// Where the choices of a state begin, and by how much 32 random bits are shifted to be one of them.
#[derive(Debug, Clone, Copy)]
struct State {
    first: u32,
    shift: u32,
}

/// The finished machine.
#[derive(Debug)]
pub(super) struct Automaton {
    tokens: Vec<Token>,
    states: Vec<State>,
    /// Tokens, each as often as its weight says.
    choices: Vec<u16>,
    echo: Echo,
}

impl Automaton {
    /// Writes one page, or as much of one as there is.
    pub(super) fn fill(&self, seed: u64, page: &mut [u8]) {
        let mut random = Random::new(seed);
        let mut state = random.below(self.states.len());
        let mut at = 0;
        while at < page.len() {
            let bits = random.next();
            if (bits as u8) < self.echo.share && at > TOKEN_BYTES {
                at += self.repeat(bits, page, at);
                continue;
            }
            let token = self.choose(bits, state);
            let bytes = token.bytes(bits);
            if let Some(place) = page.get_mut(at..at + TOKEN_BYTES) {
                place.copy_from_slice(&bytes);
            } else {
                let rest = page.len() - at;
                page[at..].copy_from_slice(&bytes[..rest]);
            }
            at += token.length as usize;
            state = token.next as usize;
        }
    }

    #[inline]
    fn choose(&self, bits: u64, state: usize) -> &Token {
        let State { first, shift } = self.states[state];
        let choice = first as usize + ((bits >> 32) >> shift) as usize;
        &self.tokens[usize::from(self.choices[choice])]
    }

    /// Copies something from before `at` to there, and says how much.
    fn repeat(&self, bits: u64, page: &mut [u8], at: usize) -> usize {
        let length = usize::from(self.echo.least) + usize::from((bits >> 40) as u8 & self.echo.more);
        let length = length.min(at).min(page.len() - at);
        let places = (at - length + 1) as u64;
        let from = ((u64::from((bits >> 8) as u32) * places) >> 32) as usize;
        page.copy_within(from..from + length, at);
        length
    }
}

impl Token {
    #[inline]
    fn bytes(&self, bits: u64) -> [u8; TOKEN_BYTES] {
        let mut bytes = [0; TOKEN_BYTES];
        let mut noise = bits.wrapping_mul(NOISE);
        for (place, (base, mask)) in bytes.chunks_exact_mut(8).zip(self.base.iter().zip(&self.noise)) {
            place.copy_from_slice(&(base ^ (noise & mask)).to_le_bytes());
            noise = noise.rotate_left(29).wrapping_add(bits);
        }
        bytes
    }
}

/// Puts a machine together.
#[derive(Debug)]
pub(super) struct Builder {
    tokens: Vec<Token>,
    /// For each state the tokens to choose from, with their weights.
    states: Vec<Vec<(u16, f64)>>,
}

impl Builder {
    /// A machine of this many states, numbered from 0.
    pub(super) fn new(states: usize) -> Self {
        Self { tokens: Vec::new(), states: vec![Vec::new(); states] }
    }

    /// Adds a token of 1 to 32 bytes to a state. `noise` has a one for each bit that is random; what it lacks at its end
    /// is zero. There are 65,536 tokens at most.
    pub(super) fn token(&mut self, state: usize, weight: f64, text: &[u8], noise: &[u8], next: usize) {
        let length = text.len().clamp(1, TOKEN_BYTES);
        let index = self.tokens.len() as u16;
        self.tokens.push(Token {
            base: little_endian_words(text),
            noise: little_endian_words(noise),
            length: length as u32,
            next: next as u32,
        });
        self.states[state].push((index, weight));
    }

    /// Adds tokens without noise whose weights fall as that power of their rank, as the frequencies of words do.
    pub(super) fn ranked(&mut self, state: usize, exponent: f64, texts: &[Vec<u8>], next: usize) {
        for (rank, text) in texts.iter().enumerate() {
            self.token(state, ((rank + 2) as f64).powf(-exponent), text, &[], next);
        }
    }

    /// The machine, with each state's weights turned into 2^`bits` equal choices.
    pub(super) fn build(self, bits: u32, echo: Echo) -> Automaton {
        let mut choices = Vec::new();
        let mut states = Vec::new();
        for tokens in &self.states {
            states.push(State { first: choices.len() as u32, shift: 32 - bits });
            choices.extend(quantiles(tokens, 1 << bits));
        }
        Automaton { tokens: self.tokens, states, choices, echo }
    }
}

/// Up to 32 bytes as little-endian words.
fn little_endian_words(bytes: &[u8]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for (at, byte) in bytes.iter().enumerate().take(TOKEN_BYTES) {
        words[at / 8] |= u64::from(*byte) << (at % 8 * 8);
    }
    words
}

/// Each token as often as its weight says; what rounding leaves is carried on, so that the sum is exact.
fn quantiles(tokens: &[(u16, f64)], slots: usize) -> Vec<u16> {
    let total: f64 = tokens.iter().map(|(_, weight)| weight).sum();
    let mut choices = Vec::with_capacity(slots);
    let mut sum = 0.0;
    for (token, weight) in tokens {
        sum += weight;
        let until = (sum / total * slots as f64).round() as usize;
        choices.resize(until.clamp(choices.len(), slots), *token);
    }
    let last = tokens.last().map_or(0, |(token, _)| *token);
    choices.resize(slots, last);
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_become_shares_and_none_is_lost_to_rounding() {
        let choices = quantiles(&[(0, 1.0), (1, 1.0), (2, 2.0)], 16);
        let count = |token| choices.iter().filter(|choice| **choice == token).count();
        assert_eq!((count(0), count(1), count(2)), (4, 4, 8));
        assert_eq!(quantiles(&[(7, 0.3)], 4), [7; 4]);
    }

    #[test]
    fn only_noisy_bits_change_and_states_follow_one_another() {
        let mut builder = Builder::new(2);
        builder.token(0, 1.0, b"ab0", &[0, 0, 1], 1);
        builder.token(1, 1.0, b"-", &[], 0);
        let automaton = builder.build(4, Echo::default());
        let mut page = vec![0; 401];
        automaton.fill(5, &mut page);
        let start = usize::from(page[0] == b'-');
        let words: Vec<&[u8]> = page[start..].chunks_exact(4).collect();
        assert!(words.iter().all(|word| *word == b"ab0-" || *word == b"ab1-"), "{words:?}");
        assert!(words.iter().any(|word| word[2] == b'0') && words.iter().any(|word| word[2] == b'1'));
    }

    #[test]
    fn a_page_of_any_size_is_filled_to_its_end() {
        let mut builder = Builder::new(1);
        builder.token(0, 1.0, &[1; 32], &[], 0);
        let automaton = builder.build(4, Echo { share: 128, least: 8, more: 31 });
        for bytes in [0, 1, 31, 32, 33, 4096] {
            let mut page = vec![0; bytes];
            automaton.fill(1, &mut page);
            assert!(page.iter().all(|byte| *byte == 1), "{bytes}");
        }
    }
}
