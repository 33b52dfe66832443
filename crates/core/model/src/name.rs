//! Names that people type, and the nearest right one when they mistype it.

/// The candidate nearest to `wrong`, if one is near enough to be what was meant.
#[must_use]
pub fn did_you_mean<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(wrong, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len().max(wrong.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// A sentence part: `; did you mean X?`, or what there is to choose from.
#[must_use]
pub fn suggestion<'a>(wrong: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> String {
    match did_you_mean(wrong, candidates.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            let all: Vec<&str> = candidates.into_iter().collect();
            format!("known: {}", all.join(", "))
        }
    }
}

/// The longest name of an experiment or a variant, in bytes.
pub const NAME_MAX: usize = 63;

/// The fault of a variant's name, as in "`x` has a `.`"; `None` if the name is valid.
///
/// A claim names `variant.metric`, and an operand that begins with a digit is a quantity. So a name begins with a
/// letter and has no `.`.
#[must_use]
pub fn variant_fault(name: &str) -> Option<String> {
    let fits = |character: char| character.is_ascii_alphanumeric() || character == '_';
    fault(name, fits).or_else(|| match name.chars().next() {
        Some(first) if first.is_ascii_digit() => Some("begins with a digit".to_owned()),
        Some('_') => Some("begins with `_`".to_owned()),
        _ => None,
    })
}

/// The form of a variant's name, in words.
pub const VARIANT_FORM: &str =
    "a variant's name is a letter and then letters, digits, `-` and `_`, such as `rsa-2048` or `io_uring`";

/// The fault of a name that should consist of `fitting` characters and `-`; `None` if it is valid.
#[must_use]
pub fn fault(name: &str, fitting: impl Fn(char) -> bool) -> Option<String> {
    if name.is_empty() {
        return Some("is empty".to_owned());
    }
    if name.len() > NAME_MAX {
        return Some(format!("has {} bytes", name.len()));
    }
    if let Some(wrong) = name.chars().find(|&character| !fitting(character) && character != '-') {
        return Some(format!("has a `{wrong}`"));
    }
    (name.starts_with('-') || name.ends_with('-')).then(|| "begins or ends with `-`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_named_as_engines_and_metrics_are() {
        for name in ["a", "io_uring", "rsa-2048", "A_", "p95"] {
            assert_eq!(variant_fault(name), None, "{name}");
        }
        let fault = |name: &str| variant_fault(name).unwrap();
        assert_eq!(
            ["", "4k", "_a", "a.b", "a-", "a b"].map(fault),
            [
                "is empty",
                "begins with a digit",
                "begins with `_`",
                "has a `.`",
                "begins or ends with `-`",
                "has a ` `",
            ]
        );
        assert_eq!(fault(&"x".repeat(64)), "has 64 bytes");
    }

    #[test]
    fn a_near_name_is_offered_and_a_far_one_is_not() {
        assert_eq!(did_you_mean("multibufer", ["software", "multibuffer"]), Some("multibuffer"));
        assert_eq!(did_you_mean("quantum", ["software", "multibuffer"]), None);
        assert_eq!(suggestion("x", ["software", "plain"]), "known: software, plain");
    }
}
