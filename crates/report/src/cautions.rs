//! Cautions as sentences.

use plumb_model::Caution;

use crate::figures;

/// The reason, and what would help.
pub fn sentence(caution: &Caution) -> String {
    match caution {
        Caution::UseUnproven { variant, changed } => format!(
            "{variant} changed {}, and nothing shows that it is used; add a `command` change whose `verify` asks the program that reads it",
            changed.join(" and ")
        ),
        Caution::AfterEffect { cell, variant, after, metric, ratio, p } => {
            let place = if cell.is_empty() { String::new() } else { format!(" ({cell})") };
            format!(
                "after-effect: right after {after}, {metric} of {variant}{place} is {} (by chance in one of {} runs); {after} disturbs the \
                 slot that follows it, so do not rely on a comparison of the two",
                figures::ratio(*ratio, *ratio, None),
                runs(*p)
            )
        }
    }
}

/// The reason in a few words, for the line on top.
pub fn words(caution: &Caution) -> String {
    match caution {
        Caution::UseUnproven { variant, .. } => {
            format!("nothing shows that what {variant} changed is used")
        }
        Caution::AfterEffect { variant, after, .. } => format!("{after} has an after-effect on {variant}"),
    }
}

/// In one of how many runs chance does that.
fn runs(p: f64) -> String {
    if p < 1e-4 { "more than 10,000".to_owned() } else { figures::count((1.0 / p).round()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cautions_say_what_is_in_doubt_and_what_helps() {
        let unproven = Caution::UseUnproven {
            variant: "b".to_owned(),
            changed: vec!["/etc/nginx/nginx.conf".to_owned()],
        };
        insta::assert_snapshot!(sentence(&unproven), @"b changed /etc/nginx/nginx.conf, and nothing shows that it is used; add a `command` change whose `verify` asks the program that reads it");
        let effect = Caution::AfterEffect {
            cell: "load.connections=20".to_owned(),
            variant: "a".to_owned(),
            after: "b".to_owned(),
            metric: "iteration_duration.p95".to_owned(),
            ratio: 1.9,
            p: 0.0004,
        };
        insta::assert_snapshot!(sentence(&effect), @"after-effect: right after b, iteration_duration.p95 of a (load.connections=20) is ×1.90 (by chance in one of 2,500 runs); b disturbs the slot that follows it, so do not rely on a comparison of the two");
        insta::assert_snapshot!(words(&effect), @"b has an after-effect on a");
    }
}
