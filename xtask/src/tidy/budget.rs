//! What building `plumb` may cost: `xtask/budget.txt` has the number of packages and the seconds.
//!
//! Every package is time that each user waits before the first run. The number must be exact, as in the ratchet: a package more
//! needs a reason beside a new number, and a package less is not lost again. The seconds depend on the machine, so nothing checks
//! them here; the file says how they are measured.

use super::violation::Violation;
use crate::repository::TextFile;

/// The file that has the budget.
pub const BUDGET: &str = "xtask/budget.txt";
const PACKAGES: &str = "packages";
const SECONDS: &str = "build seconds";

/// Judges the number of packages that a build of `plumb` compiles. `file` is the budget, if there is one.
pub fn check(file: Option<&TextFile>, built: usize) -> Vec<Violation> {
    let Some(file) = file else {
        return vec![Violation::new(
            BUDGET,
            1,
            "there is no budget; write `packages: N` and `build seconds: N`",
        )];
    };
    let mut found = Vec::new();
    match number(&file.text, PACKAGES) {
        None => found.push(missing(PACKAGES)),
        Some((line, granted)) if built > granted => {
            let what = format!(
                "a build of `plumb` compiles {built} packages, and the budget is {granted}; remove {}, or raise the number and \
                 write the reason beside it (`cargo tree --package plumb-cli --edges normal,build` shows who brings what)",
                built - granted
            );
            found.push(Violation::new(BUDGET, line, what));
        }
        Some((line, granted)) if built < granted => {
            let what =
                format!("a build of `plumb` compiles {built} packages now, not {granted}; lower the number");
            found.push(Violation::new(BUDGET, line, what));
        }
        Some(_) => {}
    }
    if number(&file.text, SECONDS).is_none() {
        found.push(missing(SECONDS));
    }
    found
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

    #[test]
    fn a_package_more_needs_a_new_number() {
        let text = "# why\npackages: 400\nbuild seconds: 210\n";
        assert_eq!(check_text(text, 400), [""; 0]);
        let more = check_text(text, 403);
        assert!(more.len() == 1 && more[0].starts_with("xtask/budget.txt:2: "), "{more:?}");
        assert!(more[0].contains("403 packages") && more[0].contains("remove 3, or raise"), "{more:?}");
    }

    #[test]
    fn a_package_less_is_written_down() {
        let found = check_text("packages: 400\nbuild seconds: 210\n", 399);
        assert!(
            found.len() == 1 && found[0].ends_with("399 packages now, not 400; lower the number"),
            "{found:?}"
        );
    }

    #[test]
    fn both_numbers_stand_in_the_file() {
        assert_eq!(check(None, 1).len(), 1);
        assert_eq!(check_text("packages: many\n", 1).len(), 2);
        assert_eq!(
            check_text("packages: 1\nbuild seconds:\n", 1),
            ["xtask/budget.txt:1: there is no line `build seconds: N`"]
        );
    }
}
