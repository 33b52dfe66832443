//! Sentences with holes: a text in which `{name}` or `{name form}` stands for a fact.

/// The template with what `filled` gives for the content of each hole.
#[must_use]
pub fn fill(template: &str, filled: impl Fn(&str) -> String) -> String {
    let mut parts = template.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (hole, rest) = part.split_once('}').unwrap_or((part, ""));
        text += &filled(hole);
        text += rest;
    }
    text
}
