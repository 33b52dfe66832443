//! One target: where its inputs come from, how long it runs, and what a failure prints.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use plumb_host::time::monotonic_ns;

use crate::input_file::InputFile;
use crate::memory::peak_bytes_of;
use crate::mutator::Mutator;

/// The memory that a reader may allocate beyond the size of its input, unless it says otherwise.
const MEMORY_BYTES_MAX: usize = 16 << 20;
const INPUT_BYTES_MAX: usize = 64 << 10;
/// How many inputs with a new outcome are kept.
const FOUND_MAX: usize = 512;
const SECONDS: u64 = 2;
const SEED: u64 = 0x5eed;
/// Longer inputs are printed as the path of their file only.
const PRINTED_BYTES_MAX: usize = 512;

/// A reader under test, and valid inputs for it.
///
/// `PLUMB_FUZZ_SECONDS` says how long it runs, `PLUMB_FUZZ_SEED` where it begins, and `PLUMB_FUZZ_INPUT` names a file with the only
/// input to try.
#[derive(Debug)]
pub struct Target {
    name: &'static str,
    seeds: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    memory_bytes_max: usize,
}

impl Target {
    /// A target without inputs.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, seeds: Vec::new(), words: Vec::new(), memory_bytes_max: MEMORY_BYTES_MAX }
    }

    /// Adds valid inputs.
    #[must_use]
    pub fn seeds<B: Into<Vec<u8>>>(mut self, seeds: impl IntoIterator<Item = B>) -> Self {
        self.seeds.extend(seeds.into_iter().map(Into::into));
        self
    }

    /// Adds words of the format, which are inserted at random places.
    #[must_use]
    pub fn with_words<B: Into<Vec<u8>>>(mut self, words: impl IntoIterator<Item = B>) -> Self {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// How much the reader may allocate beyond the size of its input, instead of 16 MiB.
    #[must_use]
    pub fn memory(self, bytes_max: usize) -> Self {
        Self { memory_bytes_max: bytes_max, ..self }
    }

    /// Reads inputs until the time is over. `read` returns what became of an input: inputs with a new outcome are changed further.
    ///
    /// # Panics
    /// When `read` panics, or takes more memory than it may.
    pub fn run<T: Hash>(self, mut read: impl FnMut(&[u8]) -> T) {
        if let Some(path) = std::env::var_os("PLUMB_FUZZ_INPUT") {
            let input = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let _ = bounded(&input, self.memory_bytes_max, &mut read);
            return;
        }
        assert!(!self.seeds.is_empty(), "{} has no valid input to begin with", self.name);
        let seed = number_of("PLUMB_FUZZ_SEED").unwrap_or(SEED);
        let seconds = number_of("PLUMB_FUZZ_SECONDS").unwrap_or(SECONDS);
        let mut trial = Trial::new(self.name, seed, self.memory_bytes_max);
        let mut found: Vec<Vec<u8>> = Vec::new();
        for input in &self.seeds {
            trial.finds_new_outcome(input, &mut read);
        }
        let mut mutator = Mutator::new(seed, self.words, INPUT_BYTES_MAX);
        let end_ns = monotonic_ns().saturating_add(seconds.saturating_mul(1_000_000_000));
        while monotonic_ns() < end_ns {
            let input = {
                let original = pick(&self.seeds, &found, &mut mutator);
                let other = pick(&self.seeds, &found, &mut mutator);
                mutator.mutate(original, other)
            };
            if trial.finds_new_outcome(&input, &mut read) {
                match found.len() {
                    FOUND_MAX => found[mutator.below(FOUND_MAX)] = input,
                    _ => found.push(input),
                }
            }
        }
        trial.end();
    }
}

/// A valid input or one that was found, in equal parts.
fn pick<'i>(seeds: &'i [Vec<u8>], found: &'i [Vec<u8>], mutator: &mut Mutator) -> &'i [u8] {
    let from = if found.is_empty() || mutator.below(2) == 0 { seeds } else { found };
    &from[mutator.below(from.len())]
}

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse().unwrap_or_else(|_| panic!("{variable} is {text:?}; it takes a whole number"));
    Some(number)
}

/// The calls so far.
struct Trial {
    name: &'static str,
    seed: u64,
    memory_bytes_max: usize,
    calls: u64,
    outcomes: HashSet<u64>,
    file: InputFile,
}

impl Trial {
    fn new(name: &'static str, seed: u64, memory_bytes_max: usize) -> Self {
        let file =
            InputFile::create(name).unwrap_or_else(|error| panic!("create a file for inputs: {error}"));
        let path = file.path().display();
        say(&format!("fuzz {name}: PLUMB_FUZZ_SEED={seed}; {path} holds the input of each call"));
        Self { name, seed, memory_bytes_max, calls: 0, outcomes: HashSet::new(), file }
    }

    /// Calls the reader. Whether the outcome is a new one.
    fn finds_new_outcome<T: Hash>(&mut self, input: &[u8], read: &mut impl FnMut(&[u8]) -> T) -> bool {
        self.calls += 1;
        self.file.hold(input).unwrap_or_else(|error| panic!("keep the input: {error}"));
        match catch_unwind(AssertUnwindSafe(|| bounded(input, self.memory_bytes_max, read))) {
            Ok(outcome) => {
                let mut hasher = DefaultHasher::new();
                outcome.hash(&mut hasher);
                self.outcomes.insert(hasher.finish())
            }
            Err(panic) => {
                say(&failure(self.name, self.seed, self.calls, input, self.file.path()));
                resume_unwind(panic)
            }
        }
    }

    fn end(self) {
        say(&format!("fuzz {}: {} inputs, {} outcomes", self.name, self.calls, self.outcomes.len()));
        self.file.remove();
    }
}

/// Calls the reader, and compares its memory with the bound.
fn bounded<T>(input: &[u8], memory_bytes_max: usize, read: &mut impl FnMut(&[u8]) -> T) -> T {
    let (outcome, peak_bytes) = peak_bytes_of(|| read(input));
    let bytes_max = input.len() + memory_bytes_max;
    assert!(peak_bytes <= bytes_max, "an input of {} bytes took {peak_bytes} bytes of memory", input.len());
    outcome
}

fn failure(name: &str, seed: u64, calls: u64, input: &[u8], path: &Path) -> String {
    let shown = if input.len() <= PRINTED_BYTES_MAX {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("the input is {hex}, as text \"{}\"\n", input.escape_ascii())
    } else {
        String::new()
    };
    format!(
        "fuzz {name}: call {calls} failed, with {} bytes; PLUMB_FUZZ_SEED={seed}\n{shown}\
         PLUMB_FUZZ_INPUT={} cargo test … {name} repeats it",
        input.len(),
        path.display()
    )
}

/// Writes to standard error past the test runner, which would lose it when the process aborts.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(read: impl FnMut(&[u8]) -> usize) -> String {
        let target = Target::new("own").seeds(["{\"length\": 12}"]);
        let panic = catch_unwind(AssertUnwindSafe(|| target.run(read))).unwrap_err();
        std::fs::remove_file(crate::input_file::path_of("own")).unwrap();
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    #[test]
    fn a_panic_and_too_much_memory_are_found() {
        let length =
            |input: &[u8]| serde_json::from_slice::<serde_json::Value>(input).ok()?["length"].as_u64();
        let message = failed(|input| match length(input) {
            Some(length) if length > 100 => panic!("{length} is too long"),
            _ => 0,
        });
        assert!(message.ends_with("is too long"), "{message}");
        let message = failed(|input| vec![0_u8; length(input).unwrap_or(0).min(1 << 25) as usize].len());
        assert!(message.contains("bytes of memory"), "{message}");
    }

    #[test]
    fn a_failure_names_seed_and_input() {
        let text = failure("x", 7, 3, b"a\n", Path::new("/tmp/i"));
        assert!(text.contains("call 3") && text.contains("PLUMB_FUZZ_SEED=7"), "{text}");
        assert!(
            text.contains("610a") && text.contains("a\\n") && text.contains("PLUMB_FUZZ_INPUT=/tmp/i"),
            "{text}"
        );
    }
}
