//! Cautions as sentences.

use plumb_model::Caution;

use crate::figures;

/// The reason, and what would help.
pub fn sentence(caution: &Caution) -> String {
    match caution {
        Caution::UseUnproven { variant, changed } => format!(
            "{variant} changed {}, and nothing shows that the system uses it: a `command` change beside it can ask the system in its \
             `verify`",
            changed.join(" and ")
        ),
        Caution::AfterEffect { cell, variant, after, metric, ratio, p } => {
            let place = if cell.is_empty() { String::new() } else { format!(" ({cell})") };
            format!(
                "after-effect: {variant} has {} the {} right after {after}{place}, {}: what {after} leaves behind reaches into the next \
                 slot, so do not rely on an effect between the two",
                figures::ratio(*ratio, *ratio, None),
                metric,
                chance(*p)
            )
        }
    }
}

/// The reason in a few words, for the line on top.
pub fn words(caution: &Caution) -> String {
    match caution {
        Caution::UseUnproven { variant, .. } => {
            format!("nothing shows that the system uses what {variant} changed")
        }
        Caution::AfterEffect { variant, after, .. } => format!("{after} has an after-effect on {variant}"),
    }
}

fn chance(p: f64) -> String {
    let runs = if p < 1e-4 { "more than 10,000".to_owned() } else { figures::count((1.0 / p).round()) };
    format!("which chance does in one of {runs} runs")
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
        insta::assert_snapshot!(sentence(&unproven), @"b changed /etc/nginx/nginx.conf, and nothing shows that the system uses it: a `command` change beside it can ask the system in its `verify`");
        let effect = Caution::AfterEffect {
            cell: "load.connections=20".to_owned(),
            variant: "a".to_owned(),
            after: "b".to_owned(),
            metric: "iteration_duration.p95".to_owned(),
            ratio: 1.9,
            p: 0.0004,
        };
        insta::assert_snapshot!(sentence(&effect), @"after-effect: a has ×1.90 the iteration_duration.p95 right after b (load.connections=20), which chance does in one of 2,500 runs: what b leaves behind reaches into the next slot, so do not rely on an effect between the two");
        insta::assert_snapshot!(words(&effect), @"b has an after-effect on a");
    }
}
