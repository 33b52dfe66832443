//! A walk over tokens, for rules that must also see into macro calls, which the syntax tree keeps as tokens.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Calls `visit` at every token, however deep, with that token and all that follow it inside the same brackets.
pub fn each_tail(tokens: &TokenStream, visit: &mut dyn FnMut(&[TokenTree])) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    for start in 0..trees.len() {
        visit(&trees[start..]);
        if let TokenTree::Group(group) = &trees[start] {
            each_tail(&group.stream(), visit);
        }
    }
}

pub fn is_ident(tree: &TokenTree, name: &str) -> bool {
    matches!(tree, TokenTree::Ident(ident) if ident == name)
}

pub fn is_punct(tree: &TokenTree, character: char) -> bool {
    matches!(tree, TokenTree::Punct(punct) if punct.as_char() == character)
}

/// The group that this token opens, where it opens one with this kind of bracket.
pub fn group(tree: &TokenTree, delimiter: Delimiter) -> Option<&Group> {
    match tree {
        TokenTree::Group(group) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

/// The line, from 1, that a token starts on.
pub fn line(tree: &TokenTree) -> usize {
    tree.span().start().line
}
