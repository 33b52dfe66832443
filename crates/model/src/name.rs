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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_offered_and_a_far_one_is_not() {
        assert_eq!(did_you_mean("multibufer", ["software", "multibuffer"]), Some("multibuffer"));
        assert_eq!(did_you_mean("quantum", ["software", "multibuffer"]), None);
        assert_eq!(suggestion("x", ["software", "plain"]), "known: software, plain");
    }
}
