//! A command line as words, for a program that is started without a shell.
//!
//! The words are split by the shell's rules of quoting. What only a shell could do (pipes, variables, patterns) is refused
//! where it is not quoted: passed on as text it would run another command than the one that was meant.

/// Why a text is not a list of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotWords {
    /// There are none.
    Empty,
    /// A quote is not closed, or nothing follows a backslash.
    Unclosed,
    /// Only a shell understands this part of it.
    Shell(String),
}

/// Splits a command line.
pub(crate) fn split(command: &str) -> Result<Vec<String>, NotWords> {
    if let Some(part) = shell_syntax(command) {
        return Err(NotWords::Shell(part));
    }
    let words = shlex::split(command).ok_or(NotWords::Unclosed)?;
    if words.first().is_none_or(String::is_empty) { Err(NotWords::Empty) } else { Ok(words) }
}

/// Characters that a shell obeys anywhere outside quotes.
const OPERATORS: &str = "|&;<>()$`*?[\n";
/// Characters that it obeys within double quotes as well.
const EXPANSIONS: &str = "$`";
/// Characters that it obeys at the beginning of a word.
const PREFIXES: &str = "~#";

/// The first part of a command line that only a shell understands.
fn shell_syntax(command: &str) -> Option<String> {
    if let Some(assignment) = assignment(command) {
        return Some(assignment.to_owned());
    }
    if command.split_whitespace().next() == Some("!") {
        return Some("!".to_owned());
    }
    let mut quote = None;
    let mut is_word_start = true;
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        let is_obeyed = match quote {
            Some('\'') => false,
            Some(_) => EXPANSIONS.contains(character),
            None => OPERATORS.contains(character) || is_word_start && PREFIXES.contains(character),
        };
        if is_obeyed {
            return Some(if character == '\n' { "a line feed".to_owned() } else { character.to_string() });
        }
        is_word_start = quote.is_none() && character.is_whitespace();
        match (quote, character) {
            (None | Some('"'), '\\') => {
                characters.next();
            }
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), _) if open == character => quote = None,
            _ => {}
        }
    }
    None
}

/// `NAME=value` before the program.
fn assignment(command: &str) -> Option<&str> {
    let first = command.split_whitespace().next()?;
    let (name, _) = first.split_once('=')?;
    let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    is_name.then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        let words = |text: &str| split(text).unwrap();
        assert_eq!(words("sleep 0.05"), ["sleep", "0.05"]);
        assert_eq!(
            words(r#"a 'b  $c' "d e" f\ g '|' \; x=y"#),
            ["a", "b  $c", "d e", "f g", "|", ";", "x=y"]
        );
        assert_eq!(
            words("find . -name '*.rs' -exec {} +"),
            ["find", ".", "-name", "*.rs", "-exec", "{}", "+"]
        );
        assert_eq!(words("a b~c d#e"), ["a", "b~c", "d#e"]);
    }

    #[test]
    fn what_only_a_shell_understands_is_refused_unless_it_is_quoted() {
        for (text, part) in [
            ("a | b", "|"),
            ("a && b", "&"),
            ("a; b", ";"),
            ("a > b", ">"),
            ("a $HOME", "$"),
            ("a \"$HOME\"", "$"),
            ("a \"`b`\"", "`"),
            ("ls *.c", "*"),
            ("ls ~/a", "~"),
            ("a # b", "#"),
            ("a\nb", "a line feed"),
            ("(a)", "("),
            ("! a", "!"),
            ("A=1 b", "A=1"),
        ] {
            assert_eq!(split(text), Err(NotWords::Shell(part.to_owned())), "{text}");
        }
        assert_eq!(split("a 'b"), Err(NotWords::Unclosed));
        assert_eq!(split("  "), Err(NotWords::Empty));
        assert_eq!(split("'' a"), Err(NotWords::Empty));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ a-c'\"\\\\$|=~#\n]{0,20}|\\PC{0,20}") {
            let _ = split(&text);
        }

        #[test]
        fn quoted_words_are_what_they_were(words in prop::collection::vec("[ -~]{1,8}", 1..5)) {
            prop_assume!(assignment(&words[0]).is_none() && words[0] != "!");
            let quoted: Vec<String> =
                words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
            prop_assert_eq!(split(&quoted.join(" ")).unwrap(), words);
        }
    }
}
