//! A lint is silenced by `#[expect(…, reason = "…")]` only: it says why, and it fails once it is needed no more.

use super::rust_file::RustFile;
use super::tokens;
use super::violation::Violation;
use proc_macro2::{Delimiter, TokenTree};

pub fn check(file: &RustFile) -> Vec<Violation> {
    let mut found = Vec::new();
    tokens::each_tail(&file.tokens, &mut |tail| {
        if let Some(attribute) = attribute(tail) {
            let line = tokens::line(&tail[0]);
            found.extend(judge(&attribute).map(|what| Violation::new(&file.path, line, what)));
        }
    });
    found
}

/// What stands between the brackets of `#[…]` or `#![…]`, where `tail` begins with one.
fn attribute(tail: &[TokenTree]) -> Option<Vec<TokenTree>> {
    let [hash, rest @ ..] = tail else { return None };
    if !tokens::is_punct(hash, '#') {
        return None;
    }
    let rest = match rest {
        [bang, rest @ ..] if tokens::is_punct(bang, '!') => rest,
        rest => rest,
    };
    let group = tokens::group(rest.first()?, Delimiter::Bracket)?;
    Some(group.stream().into_iter().collect())
}

fn judge(attribute: &[TokenTree]) -> Option<&'static str> {
    let [name, arguments, ..] = attribute else { return None };
    let arguments: Vec<TokenTree> =
        tokens::group(arguments, Delimiter::Parenthesis)?.stream().into_iter().collect();
    if tokens::is_ident(name, "allow") {
        return Some("`#[allow]` outlives its cause; write `#[expect(…, reason = \"…\")]`");
    }
    if tokens::is_ident(name, "expect") && !gives_reason(&arguments) {
        return Some("`#[expect]` does not say why; add `reason = \"…\"`");
    }
    if tokens::is_ident(name, "cfg_attr") {
        return (0..arguments.len()).find_map(|start| judge(&arguments[start..]));
    }
    None
}

fn gives_reason(arguments: &[TokenTree]) -> bool {
    arguments.windows(2).any(|pair| tokens::is_ident(&pair[0], "reason") && tokens::is_punct(&pair[1], '='))
}

#[cfg(test)]
mod tests {
    use super::super::rust_file::sample;
    use super::super::violation::lines;
    use super::*;

    #[test]
    fn allow_is_never_right() {
        // Put together, so that a search for silenced lints finds none here.
        let silence = |attributes: &str| attributes.replace("SILENCE", "allow");
        let text = silence(
            "#![SILENCE(missing_docs)]\n#[SILENCE(dead_code, reason = \"so\")]\nfn a() {}\n\
             #[cfg_attr(test, SILENCE(dead_code))]\nfn b() {}\nmacro_rules! c {\n() => { #[SILENCE(x)] };\n}\n",
        );
        assert_eq!(lines(&check(&sample("a.rs", &text))), [1, 2, 4, 7]);
    }

    #[test]
    fn expect_needs_a_reason() {
        let text = "#![expect(missing_docs)]\n#[expect(dead_code)]\nfn a() {}\n#[cfg_attr(test, expect(x))]\nfn b() {}\n";
        assert_eq!(lines(&check(&sample("a.rs", text))), [1, 2, 4]);
    }

    #[test]
    fn expect_with_a_reason_and_methods_of_these_names_are_fine() {
        let text = "#![expect(missing_docs, reason = \"a\")]\n#[derive(Debug)]\nstruct A;\n\
                    #[cfg_attr(test, expect(x, reason = \"b\"))]\nfn b() { allow(1); c.expect(\"d\"); }\n";
        assert_eq!(check(&sample("a.rs", text)), []);
    }
}
