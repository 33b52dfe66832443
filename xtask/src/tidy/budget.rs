//! What a build may cost: `xtask/budget.txt` has the number of packages and the seconds.
//!
//! Every package is time that each user waits before the first run. A counted number must be exact, as in the ratchet: a package
//! more needs a reason beside a new number, and a package less is not lost again. The seconds depend on the machine, so nothing
//! checks them here; the file says how they are measured.

use super::violation::Violation;
use crate::repository::TextFile;
use std::cmp::Ordering;

/// The file that has the budget.
pub const BUDGET: &str = "xtask/budget.txt";
const PACKAGES: &str = "packages";
const SECONDS: &str = "build seconds";

/// Judges the number of packages that a build of `plumb` compiles. `file` is the budget, if there is one.
pub fn check(file: Option<&TextFile>, built: usize) -> Vec<Violation> {
    let Some(file) = file else {
        let what = format!("the budget is missing; write `{PACKAGES}: N` and `{SECONDS}: N` into this file");
        return vec![Violation::new(BUDGET, 1, what)];
    };
    let packages = compare(&file.text, (PACKAGES, built), "a build of `plumb` compiles", |more| {
        format!(
            "remove {more}, or raise the number and write the reason beside it (`cargo tree --package plumb-cli --edges \
             normal,build` shows which crate needs which)"
        )
    });
    let seconds = number(&file.text, SECONDS).is_none().then(|| missing(SECONDS));
    [packages, seconds].into_iter().flatten().collect()
}

/// Compares a number with its line in the budget. `remedy` gets the excess.
fn compare(
    text: &str,
    (key, actual): (&str, usize),
    subject: &str,
    remedy: impl Fn(usize) -> String,
) -> Option<Violation> {
    let Some((line, granted)) = number(text, key) else { return Some(missing(key)) };
    let what = match actual.cmp(&granted) {
        Ordering::Equal => return None,
        Ordering::Less => format!("{subject} {actual} {key} now, not {granted}; lower the number"),
        Ordering::Greater => {
            let remedy = remedy(actual - granted);
            format!("{subject} {actual} {key}, and the budget is {granted}; {remedy}")
        }
    };
    Some(Violation::new(BUDGET, line, what))
}

fn missing(key: &str) -> Violation {
    Violation::new(BUDGET, 1, format!("there is no line `{key}: N`"))
}

/// The number behind a key, and its line.
fn number(text: &str, key: &str) -> Option<(usize, usize)> {
    let value = |line: &str| line.strip_prefix(key)?.strip_prefix(": ")?.trim().parse().ok();
    text.lines().enumerate().find_map(|(at, line)| Some((at + 1, value(line)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(text: &str, built: usize) -> Vec<String> {
        let file = TextFile { path: BUDGET.to_owned(), text: text.to_owned() };
        check(Some(&file), built).iter().map(ToString::to_string).collect()
    }

    const TEXT: &str = "# why\npackages: 400\nbuild seconds: 210\n";

    #[test]
    fn a_package_more_needs_a_new_number() {
        assert_eq!(check_text(TEXT, 400), [""; 0]);
        let more = check_text(TEXT, 403);
        assert!(more.len() == 1 && more[0].starts_with("xtask/budget.txt:2: "), "{more:?}");
        assert!(more[0].contains("403 packages") && more[0].contains("remove 3, or raise"), "{more:?}");
    }

    #[test]
    fn a_smaller_number_is_written_down() {
        let found = check_text(TEXT, 399);
        assert!(
            found.len() == 1 && found[0].ends_with("compiles 399 packages now, not 400; lower the number"),
            "{found:?}"
        );
    }

    #[test]
    fn all_numbers_stand_in_the_file() {
        assert_eq!(check(None, 1).len(), 1);
        assert_eq!(check_text("packages: many\n", 1).len(), 2);
        assert_eq!(
            check_text("packages: 1\nbuild seconds:\n", 1),
            ["xtask/budget.txt:1: there is no line `build seconds: N`"]
        );
    }
}
