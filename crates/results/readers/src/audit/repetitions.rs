//! Finds sentences that say how often something was measured.

/// Numbers as words, from two on.
const NUMBERS: &[&str] = &[
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "twenty", "thirty",
    "several", "multiple",
];
/// Nouns that always mean repetitions.
const REPETITIONS: &[&str] = &["repetitions", "repeats", "runs", "trials", "rounds", "replications"];
/// Nouns that mean repetitions only beside one of `REPEATED`.
const COUNTED: &[&str] = &["times", "iterations", "samples", "measurements"];
/// Words that make one of `COUNTED` mean repetitions.
const REPEATED: &[&str] = &[
    "repeated",
    "ran",
    "run",
    "executed",
    "measured",
    "performed",
    "mean",
    "average",
    "averaged",
    "median",
    "each",
    "per",
    "over",
];
/// A higher number counts something else.
const REPETITIONS_MAX: u32 = 1000;

/// The words of a line about repeated measurements: `Five repetitions of each row`, `mean of 10 runs`.
pub(crate) fn repetitions(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let bare = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    (0..words.len()).find_map(|at| {
        let count = bare(words[at]);
        let is_number = count.parse().is_ok_and(|count: u32| (2..=REPETITIONS_MAX).contains(&count))
            || NUMBERS.contains(&count.as_str());
        let following = words.iter().enumerate().skip(at + 1).take(2).map(|(at, word)| (at, bare(word)));
        let noun = following.into_iter().find(|(_, word)| {
            let word = word.as_str();
            let is_said = || words.iter().any(|other| REPEATED.contains(&bare(other).as_str()));
            REPETITIONS.contains(&word) || COUNTED.contains(&word) && is_said()
        });
        let (end, _) = noun.filter(|_| is_number)?;
        let said: Vec<&str> = words[at.saturating_sub(2)..=end].to_vec();
        Some(said.join(" ").trim_matches(|c: char| !c.is_alphanumeric()).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_told_from_other_counts() {
        for (line, words) in [
            ("Five repetitions of each row.", "Five repetitions"),
            ("All values are the mean of 10 runs.", "mean of 10 runs"),
            ("Each test was repeated 5 times:", "was repeated 5 times"),
            ("averaged over 30 iterations", "averaged over 30 iterations"),
        ] {
            assert_eq!(repetitions(line).as_deref(), Some(words), "{line}");
        }
        for line in ["It is 3 times faster.", "100000 iterations", "It runs on 4 cores.", "one run", "run 5"]
        {
            assert_eq!(repetitions(line), None, "{line}");
        }
    }
}
