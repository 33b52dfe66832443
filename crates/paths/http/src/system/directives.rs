//! Reads and prints nginx's language. A directive consists of words, and ends with `;` or a block, see
//! <https://nginx.org/en/docs/beginners_guide.html#conf_structure>.

use std::borrow::Cow;
use std::fmt::Write;

use super::error::{Syntax, TemplateError};

/// The deepest nesting; nginx's own contexts are four deep, and locations may nest.
const DEPTH_MAX: usize = 32;

/// Directives whose blocks hold data.
const DATA: [&str; 5] = ["map", "geo", "split_clients", "types", "charset_map"];

/// A directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Directive {
    /// The name and the arguments, as written.
    pub words: Vec<String>,
    /// The directives in its braces.
    pub block: Option<Vec<Self>>,
    /// The place as `FILE:LINE`; empty if plumb added it.
    pub at: String,
}

impl Directive {
    pub(super) fn from_words<const N: usize>(words: [&str; N]) -> Self {
        Self { words: words.map(str::to_owned).to_vec(), block: None, at: String::new() }
    }

    /// A line that plumb fills in.
    pub(super) fn placeholder(name: &str) -> Self {
        Self::from_words([&format!("{{{{{name}}}}}")])
    }

    pub(super) fn is_placeholder(&self) -> bool {
        self.at.is_empty() && self.words.len() == 1 && self.block.is_none()
    }

    pub(super) fn name(&self) -> &str {
        self.words.first().map_or("", |word| unquoted(word))
    }

    /// The first argument.
    pub(super) fn argument(&self) -> Option<&str> {
        self.words.get(1).map(|word| unquoted(word))
    }

    /// Replaces the first argument.
    pub(super) fn set_argument(&mut self, value: &str) {
        if let Some(argument) = self.words.get_mut(1) {
            *argument = word(value).into_owned();
        }
    }

    /// The directives in its block. Empty for a block of data, whose words are not directives.
    pub(super) fn inner(&self) -> &[Self] {
        let below = self.block.as_deref().unwrap_or_default();
        if DATA.contains(&self.name()) { &[] } else { below }
    }

    /// As [`Directive::inner`], to change the block.
    pub(super) fn inner_mut(&mut self) -> Option<&mut Vec<Self>> {
        let has_data = DATA.contains(&self.name());
        self.block.as_mut().filter(|_| !has_data)
    }

    /// The name of the upstream that it defines.
    pub(super) fn upstream(&self) -> Option<&str> {
        self.argument().filter(|_| self.name() == "upstream" && self.block.is_some())
    }

    /// Whether a directive of that name is in its block, however deep.
    pub(super) fn has(&self, name: &str) -> bool {
        self.inner().iter().any(|found| found.name() == name || found.has(name))
    }
}

/// A word without its quotes.
fn unquoted(word: &str) -> &str {
    let inner = |quote: char| word.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(word)
}

/// A value as a word, with quotes if it needs them. A brace after `$` or another brace needs none.
fn word(value: &str) -> Cow<'_, str> {
    let needs = |character: char| character.is_whitespace() || matches!(character, ';' | '"' | '\'');
    if value.contains(needs) {
        Cow::Owned(format!("\"{}\"", value.replace('"', "\\\"")))
    } else {
        value.into()
    }
}

/// Reads the directives of a file, which is named for messages.
///
/// # Errors
/// The line that is not nginx's language, and the reason.
pub(super) fn parse(text: &str, file: &str) -> Result<Vec<Directive>, TemplateError> {
    let mut stack: Vec<(Directive, Vec<Directive>)> = vec![(Directive::from_words([]), Vec::new())];
    let mut words: Vec<String> = Vec::new();
    let (mut rest, mut line, mut at) = (text, 1, String::new());
    while let Some((token, after)) =
        token(rest).map_err(|why| TemplateError::Syntax { at: format!("{file}:{line}"), why })?
    {
        let newlines = |text: &str| text.matches('\n').count();
        let begin = rest.len() - after.len() - token.len();
        line += newlines(&rest[..begin]);
        if words.is_empty() {
            at = format!("{file}:{line}");
        }
        line += newlines(token);
        rest = after;
        let wrong = |why| Err(TemplateError::Syntax { at: at.clone(), why });
        match token {
            ";" if words.is_empty() => return wrong(Syntax::Empty),
            ";" => add(&mut stack, taken(&mut words, &at)),
            "{" if words.first().is_some_and(|name| name.ends_with("_by_lua_block")) => {
                return wrong(Syntax::Lua { name: words[0].clone() });
            }
            "{" if stack.len() > DEPTH_MAX => return wrong(Syntax::Deep),
            "{" => stack.push((taken(&mut words, &at), Vec::new())),
            "}" if !words.is_empty() => return wrong(unended(&words)),
            "}" => match stack.pop().filter(|_| !stack.is_empty()) {
                Some((directive, block)) => add(&mut stack, Directive { block: Some(block), ..directive }),
                None => return wrong(Syntax::Closes),
            },
            word => words.push(word.to_owned()),
        }
    }
    match stack.pop() {
        Some((_, found)) if stack.is_empty() && words.is_empty() => Ok(found),
        Some(_) if stack.is_empty() => Err(TemplateError::Syntax { at, why: unended(&words) }),
        open => Err(TemplateError::Syntax { at: open.map_or(at, |(open, _)| open.at), why: Syntax::Open }),
    }
}

fn unended(words: &[String]) -> Syntax {
    Syntax::Unended { words: words.join(" ") }
}

fn taken(words: &mut Vec<String>, at: &str) -> Directive {
    Directive { words: std::mem::take(words), block: None, at: at.to_owned() }
}

fn add(stack: &mut [(Directive, Vec<Directive>)], directive: Directive) {
    if let Some((_, block)) = stack.last_mut() {
        block.push(directive);
    }
}

/// The next word or sign, as written, and what follows it.
fn token(text: &str) -> Result<Option<(&str, &str)>, Syntax> {
    let mut text = text.trim_start();
    while text.starts_with('#') {
        text = text.split_once('\n').map_or("", |(_, rest)| rest).trim_start();
    }
    let Some(first) = text.chars().next() else { return Ok(None) };
    let end = match first {
        ';' | '{' | '}' => 1,
        '"' | '\'' => quoted_end(text, first).ok_or(Syntax::Quote)?,
        _ => word_end(text),
    };
    Ok(Some(text.split_at(end)))
}

fn quoted_end(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    text.char_indices().skip(1).find_map(|(at, character)| {
        let ends = character == quote && !is_escaped;
        is_escaped = character == '\\' && !is_escaped;
        ends.then_some(at + 1)
    })
}

/// The length of the first word, which ends before a blank, `;` or a brace. A brace after `$` belongs to a variable, and a
/// backslash makes the next character a part of the word.
fn word_end(text: &str) -> usize {
    let (mut before, mut in_variable, mut is_escaped) = (' ', false, false);
    let end = text.char_indices().find(|(_, character)| {
        let is_variable = *character == '{' && before == '$';
        let closes = in_variable && *character == '}';
        in_variable = (in_variable || is_variable) && !closes;
        let is_end = !is_escaped
            && !is_variable
            && !closes
            && (character.is_whitespace() || matches!(character, ';' | '{' | '}'));
        is_escaped = *character == '\\' && !is_escaped;
        before = *character;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at)
}

/// The text of directives, one a line, blocks indented.
pub(super) fn print(directives: &[Directive]) -> String {
    let mut text = String::new();
    write(&mut text, directives, 0);
    text
}

fn write(text: &mut String, directives: &[Directive], depth: usize) {
    let indent = "    ".repeat(depth);
    for directive in directives {
        let line = directive.words.join(" ");
        // Writing to a String cannot fail.
        let _ = match &directive.block {
            Some(block) => {
                let _ = writeln!(text, "{indent}{line} {{");
                write(text, block, depth + 1);
                writeln!(text, "{indent}}}")
            }
            None if directive.is_placeholder() => writeln!(text, "{indent}{line}"),
            None => writeln!(text, "{indent}{line};"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quotes_comments_and_variables_are_read() {
        let text = "a 'x; {' \"y\\\"}\"; # b;\nlocation ~ \\.php$ { set $c ${d}e; }\nf;";
        let found = parse(text, "x").unwrap();
        assert_eq!(print(&found), "a 'x; {' \"y\\\"}\";\nlocation ~ \\.php$ {\n    set $c ${d}e;\n}\nf;\n");
        let block = found[1].block.as_ref().unwrap();
        assert_eq!([&found[0].at, &found[1].at, &block[0].at, &found[2].at], ["x:1", "x:2", "x:2", "x:3"]);
    }

    #[test]
    fn a_word_ends_where_nginx_ends_it() {
        let words =
            |text: &str| parse(text, "x").unwrap().into_iter().map(|found| found.words).collect::<Vec<_>>();
        assert_eq!(
            words("rewrite a b\\\\; proxy_pass c;"),
            [vec!["rewrite", "a", "b\\\\"], vec!["proxy_pass", "c"]]
        );
        assert_eq!(words("a b\\; c;"), [["a", "b\\;", "c"]]);
        let found = parse("\"proxy_pass\" 'http://a';", "x").unwrap();
        assert_eq!((found[0].name(), found[0].argument()), ("proxy_pass", Some("http://a")));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let refused = |text: &str| parse(text, "x").unwrap_err().to_string();
        let lua = "http {\n content_by_lua_block { a } }";
        insta::assert_snapshot!([";", "a", "a {", "}", "a { b }", "'a", lua].map(refused).join("\n"), @r"
        x:1: a directive is missing before `;`
        x:1: `a` does not end with `;`
        x:1: a `{` is not closed
        x:1: a `}` closes nothing
        x:1: `b` does not end with `;`
        x:1: the closing quote of a text is missing
        x:2: `content_by_lua_block` contains Lua, which plumb cannot read
        ");
        assert!(refused(&"a {".repeat(100)).contains("too deep"));
    }

    fn without_places(found: Vec<Directive>) -> Vec<Directive> {
        let one = |found: Directive| Directive {
            block: found.block.map(without_places),
            at: String::new(),
            ..found
        };
        found.into_iter().map(one).collect()
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(text in "[a-c$;{}'\" \n\\\\#]{0,60}") {
            if let Ok(found) = parse(&text, "x") {
                let again = parse(&print(&found), "x").unwrap();
                prop_assert_eq!(without_places(again), without_places(found));
            }
        }
    }
}
